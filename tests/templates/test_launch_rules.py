"""The rules of launches, on declarations made by hand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from mistakes import coded

from lab.base.errors import Location, UserError
from lab.base.yamlfile import Key
from lab.templates.front_matter import Entry, FrontMatter, LaunchDeclaration
from lab.templates.launch_rules import (
    DeclaredBuffer,
    DeclaredLaunch,
    LaunchCondition,
    Scope,
    declared,
    resolved,
    without,
    xyz,
)
from lab.templates.launches import Launch, Launches, Workspace


def place(path: Key) -> Location:
    return Location("t.cu.j2", len(path) + 1)


def scope(**names: object) -> Scope:
    known = {"m": 64, "n": 3, "tile": 16, **names}
    return Scope(known, frozenset({"m", "n"}), place, "float32")


def launch(
    *conditions: LaunchCondition,
    grid: tuple[str | int, ...] = (1,),
    block: tuple[str | int, ...] = (32,),
    arguments: tuple[tuple[str, str], ...] = (),
    shared: str | int = 0,
    carveout: str | int = "default",
    cluster: Sequence[str | int] = (),
) -> DeclaredLaunch:
    return DeclaredLaunch(
        "e", grid, block, shared, arguments, ("launches", 0), conditions, carveout=carveout, cluster=cluster
    )


def test_missing_sizes_are_one_and_expressions_are_numbers() -> None:
    declared = launch(grid=("ceil_div(m, tile)", "n"), block=("tile",), shared="4 * tile", arguments=(("m", "int32"),))
    assert resolved([declared], (), scope()) == Launches(
        (Launch("e", (4, 3, 1), (16, 1, 1), 64, (("m", "int32"),)),),
    )
    assert xyz(["a"], "1") == ("a", "1", "1")


def test_a_launch_takes_place_if_all_conditions_hold() -> None:
    big, small = LaunchCondition("m > 32", ("when",)), LaunchCondition("m > 100", ("when",), holds=False)
    assert len(resolved([launch(big, small), launch()], (), scope()).steps) == 2
    assert len(resolved([launch(big, small), launch()], (), scope(m=8)).steps) == 1
    assert len(resolved([launch(big, small), launch()], (), scope(m=101)).steps) == 1


def test_no_launch_left_is_an_error_that_names_the_declaration() -> None:
    never = LaunchCondition("m > 100", ("launches", 0, "when"))
    with pytest.raises(UserError, check=coded("wrong-value", key="launches", line=2)) as error:
        resolved([launch(never)], (), scope())
    assert error.value.key == "launches"


def front(**more: object) -> FrontMatter:
    return FrontMatter.model_validate({"summary": "s", "operator": "gemm", **more})


def test_of_several_entry_points_the_first_that_fits_is_launched() -> None:
    entries = [Entry(name="fast", when="m % 4 == 0"), Entry(name="odd", when="n > 2"), Entry(name="any")]
    short = declared(front(entries=entries, grid=[1], block=[32], arguments={"A": "T*"}))

    def chosen(m: int, n: int) -> tuple[str, ...]:
        return resolved(short, (), scope(m=m, n=n)).entries

    assert (chosen(8, 9), chosen(7, 9), chosen(7, 1)) == (("fast",), ("odd",), ("any",))


def test_no_entry_point_that_fits_is_an_error() -> None:
    short = declared(front(entries=[Entry(name="fast", when="m % 4 == 0")], grid=[1], block=[32], arguments={}))
    with pytest.raises(UserError, check=coded("wrong-value", key="entries", line=2)) as error:
        resolved(short, (), scope(m=7))
    assert error.value.key == "entries"


def test_a_sequence_keeps_its_order_and_what_it_declares() -> None:
    declarations = [
        LaunchDeclaration(entry="pack", grid=[1], block=[32], arguments={}, when="n > 5", bytes_moved="4 * m"),
        LaunchDeclaration(entry="work", grid=[2], block=[64], arguments={"A": "T*"}, main=True),
    ]
    both = resolved(declared(front(launches=declarations)), (), scope(n=6))
    assert [(step.entry, step.bytes_moved, step.main) for step in both.steps] == [
        ("pack", 256, False),
        ("work", None, True),
    ]
    assert both.steps[1].arguments == (("A", "float32*"),)
    assert resolved(declared(front(launches=declarations)), (), scope()).entries == ("work",)


def test_a_name_in_braces_stands_for_several_arguments() -> None:
    declared = launch(arguments=(("{names}", "int32"), ("A", "T*")))
    made = resolved([declared], (), scope(names="size_i size_j"))
    assert made.steps[0].arguments == (("size_i", "int32"), ("size_j", "int32"), ("A", "float32*"))


def test_a_buffer_of_no_elements_does_not_exist() -> None:
    declared = launch(arguments=(("A", "T*"), ("part", "T*")))
    buffer = DeclaredBuffer("part", "T", "m * (tile - 16)", zero=True)
    assert resolved([declared], [buffer], scope(tile=17)).workspace == (Workspace("part", "float32", 64, zero=True),)
    with pytest.raises(UserError, check=coded("wrong-value", key="workspace.part.elements", found=0, line=4)) as error:
        resolved([declared], [buffer], scope())  # 0, but a size has a part in it
    assert error.value.key == "workspace.part.elements"
    gone = resolved([declared], [DeclaredBuffer("part", "T", "tile - 16")], scope())
    assert gone.workspace == ()
    assert gone.steps[0].arguments == (("A", "float32*"),)


def test_a_buffer_may_not_take_another_name() -> None:
    with pytest.raises(
        UserError, check=coded("wrong-value", key="workspace.tile.elements", found="tile", line=4)
    ) as error:
        resolved([launch()], [DeclaredBuffer("tile", "T", 4)], scope())
    assert error.value.found == "tile"


def test_arguments_of_absent_buffers_are_left_out() -> None:
    both = Launch("e", (1, 1, 1), (1, 1, 1), 0, (("a", "int32"), ("b", "T*")))
    assert without([both], frozenset({"b"}))[0].arguments == (("a", "int32"),)
    assert without([both], frozenset()) == (both,)


@pytest.mark.parametrize(
    ("given", "percent"),
    [
        ("default", None),
        ("l1", 0),
        ("shared", 100),
        (0, 0),
        (37, 37),
        (100, 100),
        (-1, None),
        ("tile * 2", 32),
        ("'l1'", 0),
    ],
)
def test_a_carve_out_is_a_word_or_a_percentage(given: str | int, percent: int | None) -> None:
    (step,) = resolved([launch(carveout=given)], (), scope()).steps
    assert step.carveout == percent


@pytest.mark.parametrize(("given", "found"), [((), None), ((2,), (2, 1, 1)), (("tile // 8", 1, 4), (2, 1, 4))])
def test_a_launch_may_ask_for_clusters(given: Sequence[str | int], found: tuple[int, int, int] | None) -> None:
    (step,) = resolved([launch(cluster=given)], (), scope()).steps
    assert step.cluster == found


def test_a_wrong_carve_out_says_where_and_what_is_accepted() -> None:
    with pytest.raises(UserError) as error:
        resolved([launch(carveout=101)], (), scope())
    assert str(error.value).splitlines() == [
        "t.cu.j2:4: not a carve-out",
        "  key: launches[0].carveout",
        "  found: 101",
        "  accepted: an integer from 0 to 100 (percent), -1 for default, or default, l1, shared",
    ]


@pytest.mark.parametrize(
    ("one", "key", "words"),
    [
        (launch(grid=(0,)), "launches[0].grid", "grid.x is not a legal size"),
        (launch(grid=(1, 65536)), "launches[0].grid", "grid.y is not a legal size"),
        (launch(grid=("m / 2",)), "launches[0].grid", "grid.x is not a legal size"),
        (launch(grid=("m > 2",)), "launches[0].grid", "grid.x is not a legal size"),
        (launch(block=(1025,)), "launches[0].block", "block.x is not a legal size"),
        (launch(block=(1, 1, 65)), "launches[0].block", "block.z is not a legal size"),
        (launch(block=(32, 33)), "launches[0].block", "1056 threads"),
        (launch(shared=-1), "launches[0].shared_bytes", "not a size"),
        (launch(shared="'a'"), "launches[0].shared_bytes", "not a size"),
        (launch(grid=("q",)), "launches[0].grid[0]", "unknown name 'q'"),
        (launch(cluster=(17,)), "launches[0].cluster", "cluster.x is not a legal size"),
        (launch(cluster=(4, 0)), "launches[0].cluster", "cluster.y is not a legal size"),
        (launch(cluster=(4, 4, 2)), "launches[0].cluster", "the cluster has 32 blocks"),
        (launch(carveout=101), "launches[0].carveout", "not a carve-out"),
        (launch(carveout=-2), "launches[0].carveout", "not a carve-out"),
        (launch(carveout="m / 4"), "launches[0].carveout", "not a carve-out"),
        (launch(carveout="m > 4"), "launches[0].carveout", "not a carve-out"),
        (launch(carveout="'half'"), "launches[0].carveout", "not a carve-out"),
        (launch(carveout="L1"), "launches[0].carveout", "unknown name 'L1'"),
    ],
)
def test_an_illegal_launch_is_named(one: DeclaredLaunch, key: str, words: str) -> None:
    with pytest.raises(UserError, match=words) as error:
        resolved([one], (), scope())
    assert error.value.key == key


def test_a_division_that_is_not_whole_is_told_how_to_round() -> None:
    with pytest.raises(
        UserError, check=coded("wrong-value", key="launches[0].grid", found="m / 2, which is 32.0", line=4)
    ):
        resolved([launch(grid=("m / 2",))], (), scope())


def test_expressions_in_the_name_of_a_kernel_are_values() -> None:
    (step,) = resolved([replace(launch(), entry="add<float, {m + 1}, {m > 0}>")], (), scope()).steps
    assert re.fullmatch(r"add<float, \d+, true>", step.entry)


def test_a_grid_waits_for_the_build_only_where_its_value_depends_on_it() -> None:
    declared = launch(grid=("resident_blocks if persistent == 'occupancy' else min(n, persistent)",))
    waiting = resolved([declared], (), scope(persistent="occupancy"))
    assert waiting.wait_for_occupancy
    grid = waiting.steps[0].resident_grid
    assert grid is not None
    assert grid.of(5) == (5, 1, 1)
    numbered = resolved([declared], (), scope(persistent=2))
    assert not numbered.wait_for_occupancy
    assert numbered.steps[0].grid == (2, 1, 1)
