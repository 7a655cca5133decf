from __future__ import annotations

import pytest

from lab.templates.mapping.mapping_facts import Coalescing, facts
from lab.templates.mapping.text import parse


def test_a_coalesced_mapping_wastes_nothing() -> None:
    found = facts(parse("cyclic(width=4, items=4, threads=32)"))
    assert (found.threads, found.items, found.elements) == (32, 4, 128)
    assert (found.untouched, found.beyond, found.injective) == (0, 0, True)
    assert found.coalescing == (Coalescing(1, 16.0, 0.25), Coalescing(2, 16.0, 0.5), Coalescing(4, 16.0, 1.0))
    assert (found.map[0], found.map[4], found.map[127]) == (0, 1, 31)
    assert found.guard == "true"


@pytest.mark.parametrize(
    ("element_bytes", "widths"), [(2, [1, 2, 4, 8]), (4, [1, 2, 4]), (8, [1, 2]), (16, [1]), (32, [1])]
)
def test_vectors_are_at_most_sixteen_bytes(element_bytes: int, widths: list[int]) -> None:
    found = facts(parse("cyclic(width=16)"), element_bytes)
    assert [one.vector for one in found.coalescing] == widths


def test_data_that_ends_inside_the_tensor_needs_a_guard() -> None:
    found = facts(parse("cyclic(width=1, items=2, threads=32)"), elements=40)
    assert (found.elements, found.beyond, found.untouched) == (40, 24, 0)
    assert found.guard.endswith("< 40")
    assert facts(parse("cyclic(width=1, items=2, threads=32)"), elements=64).guard == "true"


def test_an_offset_moves_the_end_that_needs_a_guard() -> None:
    """Elements 8 to 71 of 70: the last two are beyond the end, though the tensor alone would fit."""
    found = facts(parse("[2] | [32] => [t0, i0], offset: 8"), elements=70)
    assert (found.beyond, found.untouched) == (2, 8)
    assert found.guard.endswith("< 70")
    assert facts(parse("[2] | [32] => [t0, i0], offset: 8"), elements=72).guard == "true"


def test_data_that_is_longer_than_the_tensor_is_not_all_touched() -> None:
    found = facts(parse("cyclic(width=1, items=1, threads=32)"), elements=40)
    assert (found.beyond, found.untouched, found.map[-1]) == (0, 8, -1)
    assert found.guard == "true"


def test_skipped_indices_are_guarded_and_cost_efficiency() -> None:
    found = facts(parse("[1] | [(32, 8)] => [i0, t0]"))
    assert found.elements == 8
    assert found.guard == "t < 8"
    assert found.coalescing == (Coalescing(1, 1.0, 1.0),)


def test_scattered_accesses_use_an_eighth_of_each_sector() -> None:
    assert facts(parse("blocked(items=16, threads=32)")).coalescing[0] == Coalescing(1, 32.0, 0.125)
