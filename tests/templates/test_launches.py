from __future__ import annotations

from dataclasses import replace

import pytest

from lab.hardware.gpus import gpu_for
from lab.operators.base import Inputs
from lab.templates.launches import NULL, BuiltLaunch, Launch, Launches, Residency, Workspace
from lab.toolchain.base import CompiledLaunch, Resources


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
    fixed = CompiledLaunch(threads=256, dynamic_shared_bytes=4096, cluster=2, hidden_pointers=1)
    declared = Launch("k", (5, 3, 1), (128, 1, 1), 0, (("A", "float32*"),))
    (step,) = Launches((declared,)).built(BuiltLaunch(fixed=fixed)).steps
    assert step == Launch("k", (10, 3, 1), (256, 1, 1), 4096, (("A", "float32*"), ("hidden 0", NULL)))


def test_a_kernel_that_waits_for_its_grid_is_launched_cooperatively() -> None:
    sequence = Launches((launch("a"), launch("b"), launch("a"), launch("c")))
    steps = sequence.built(BuiltLaunch({"b": "_Z1bv"}, CompiledLaunch(grid_syncs=("b",)))).steps
    assert [(step.entry, step.cooperative) for step in steps] == [
        ("a", False),
        ("_Z1bv", True),
        ("a", False),
        ("c", False),
    ]


def test_what_the_machine_code_has_as_a_constant_is_not_passed() -> None:
    fixed = CompiledLaunch(hidden_pointers=1, absent_arguments=(1, 3))
    declared = Launch(
        "k", (5, 3, 1), (128, 1, 1), 0, (("A", "float32*"), ("s", "int32"), ("n", "int32"), ("t", "int32"))
    )
    (step,) = Launches((declared,)).built(BuiltLaunch(fixed=fixed)).steps
    assert step.arguments == (("A", "float32*"), ("n", "int32"), ("hidden 0", NULL))


def test_a_build_gets_the_global_memory_that_it_wants_for_each_block() -> None:
    fixed = CompiledLaunch(cluster=2, hidden_pointers=2, scratch_bytes=384)
    own = Workspace("room", "float32", 10)
    made = Launches((Launch("k", (5, 3, 1), (128, 1, 1), 0, (("A", "float32*"),)),), (own,))
    built = made.built(BuiltLaunch(fixed=fixed))
    assert built.workspace == (own, Workspace("global scratch", "uint8", 384 * 10 * 3))
    assert built.steps[0].arguments == (("A", "float32*"), ("global scratch", "uint8*"), ("hidden 1", NULL))
    assert made.built(BuiltLaunch()).workspace == (own,)


def test_scalars_that_are_none_of_the_operators() -> None:
    inputs = Inputs({"n": 4}, {}, ())
    assert Launches((launch("k"),)).given(inputs) is inputs
    assert Launches((launch("k"),), scalars=(("kernel.m", 7),)).given(inputs).scalars == {"n": 4, "kernel.m": 7}


class Residents:
    """A grid of as many blocks as are resident, at most 1000."""

    def of(self, resident: int) -> tuple[int, int, int]:
        return min(resident, 1000), 1, 1


WAITING = Launch("k", (1, 1, 1), (256, 1, 1), 0, (), resident_grid=Residents())


@pytest.mark.parametrize(
    ("registers", "static", "fixed", "blocks"),
    [
        (32, 0, CompiledLaunch(), 8 * 132),  # 64 warps
        (64, 0, CompiledLaunch(), 4 * 132),  # 65,536 registers
        (32, 50_000, CompiledLaunch(), 4 * 132),  # 228 KiB of shared memory
        (32, 0, CompiledLaunch(dynamic_shared_bytes=100_000), 2 * 132),
        (32, 0, CompiledLaunch(threads=1024), 2 * 132),
        (32, 0, CompiledLaunch(dynamic_shared_bytes=300_000), 1),  # cannot be launched, and says so when it is
    ],
)
def test_a_grid_of_resident_blocks_follows_the_build(registers, static, fixed, blocks) -> None:
    waiting = Launches((WAITING,))
    assert waiting.wait_for_occupancy
    use = Resources(registers, 0, 0, 0, static, 0, 1)
    known = BuiltLaunch({"k": "symbol"}, fixed, Residency(gpu_for("H200"), {"symbol": use}))
    made = waiting.built(known)
    assert made.steps[0].grid == (min(blocks, 1000), 1, 1)
    assert not made.wait_for_occupancy


def test_of_clusters_a_grid_counts_those_that_are_resident() -> None:
    use = Resources(32, 0, 0, 0, 0, 0, 1)
    known = BuiltLaunch({}, CompiledLaunch(cluster=4, threads=512), Residency(gpu_for("H200"), {"k": use}))
    (step,) = Launches((WAITING,)).built(known).steps
    assert step.grid == (4 * 29 * 4, 1, 1)  # four times what one block an SM allows


@pytest.mark.parametrize(("told", "blocks"), [((), 29 * 4), (((2, 66), (4, 30)), 30 * 4)])
def test_blocks_of_clusters_that_the_kernel_makes_are_counted_in_whole_clusters(told, blocks) -> None:
    use = Resources(168, 0, 0, 0, 0, 0, 1, cluster=4)
    known = BuiltLaunch({}, CompiledLaunch(threads=384), Residency(replace(gpu_for("H200"), clusters=told), {"k": use}))
    (step,) = Launches((WAITING,)).built(known).steps
    assert step.grid == (blocks, 1, 1)


def test_nothing_is_known_without_a_build() -> None:
    assert Launches((launch("a"),)).built(BuiltLaunch.of(None)) == Launches((launch("a"),))
