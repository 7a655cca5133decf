from __future__ import annotations

import pytest

from lab.templates.launches import NULL, BuiltLaunch, Launch, Launches, Workspace


def launch(entry: str, *, moved: int | None = None, main: bool = False) -> Launch:
    return Launch(entry, (1, 1, 1), (32, 1, 1), 0, (("A", "float32*"), ("n", "int32")), moved, main)


def test_entries_are_listed_once_in_order() -> None:
    assert Launches((launch("pack"), launch("work"), launch("pack"))).entries == ("pack", "work")


def test_a_single_launch_is_the_main_one() -> None:
    assert Launches((launch("a"),)).main == launch("a")


def test_of_a_sequence_the_declared_one_is_main() -> None:
    assert Launches((launch("a"), launch("b", main=True))).main == launch("b", main=True)
    assert Launches((launch("a"), launch("b"))).main is None
    assert Launches((launch("a", main=True), launch("b", main=True))).main is None


def test_bytes_are_known_if_every_launch_declares_them() -> None:
    assert Launches((launch("a", moved=8), launch("b", moved=0))).bytes_moved == 8
    assert Launches((launch("a", moved=8), launch("b"))).bytes_moved is None


@pytest.mark.parametrize(("dtype", "size"), [("float64", 80), ("float32", 40), ("bfloat16", 20), ("int64", 80)])
def test_a_buffer_knows_its_bytes(dtype: str, size: int) -> None:
    assert Workspace("w", dtype, 10).bytes == size


def test_a_build_names_the_symbols() -> None:
    built = Launches((launch("add<float>"), launch("other"))).built(BuiltLaunch({"add<float>": "_Z3addIfEvPT_"}))
    assert [step.entry for step in built.steps] == ["_Z3addIfEvPT_", "other"]
    assert built.steps[1] == launch("other")


def test_a_build_decides_what_triton_leaves_to_it() -> None:
    decided = {"threads": 256, "dynamic_shared_bytes": 4096, "cluster": 2, "hidden_pointers": 1}
    declared = Launch("k", (5, 3, 1), (128, 1, 1), 0, (("A", "float32*"),))
    (step,) = Launches((declared,)).built(BuiltLaunch(decided=decided)).steps
    assert step == Launch("k", (10, 3, 1), (256, 1, 1), 4096, (("A", "float32*"), ("hidden 0", NULL)))


def test_nothing_is_known_without_a_build() -> None:
    assert Launches((launch("a"),)).built(BuiltLaunch.of(None)) == Launches((launch("a"),))
