from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mappings import mappings, touched

from lab.templates.mapping.dimension import Dimension, TensorAxis
from lab.templates.mapping.mapping_model import LayoutMapping
from lab.templates.mapping.text import parse

KNOWN = {
    "[3]|[4] => [i0,t0]": "0 0 0 1 1 1 2 2 2 3 3 3",
    "[3]|[4] => [t0,i0]": "0 1 2 3 0 1 2 3 0 1 2 3",
    "[3]|[2,2] => [i0,t1,t0]": "0 0 0 2 2 2 1 1 1 3 3 3",
    "[3]|[2,2] => layout: [2,0,1]": "0 2 0 2 0 2 1 3 1 3 1 3",
    "[3]|[2,2] => [0,-1,2]": "1 1 1 0 0 0 3 3 3 2 2 2",
    "[3]|[4]": "0 0 0 1 1 1 2 2 2 3 3 3",
    "[3]|[2,2] => [t1,i0,t0]": "0 2 0 2 0 2 1 3 1 3 1 3",
    "[3]|[2,2] => [i0,-t0,t1]": "1 1 1 0 0 0 3 3 3 2 2 2",
    "[3]|[2,2] => [-t0,-i0,t1]": "1 0 1 0 1 0 3 2 3 2 3 2",
    "[3]|[2,(2,1)] => [i0,t0,t1]": "0 0 0 1 1 1 − − − − − −",
    "[(3,4)]|[2,2] => [i0,t0,t1]": "0 0 0 − 1 1 1 − 2 2 2 −",
    "[3]|[2,(4,2)] => [i0,t0,-t1]": "2 2 2 3 3 3 0 0 0 1 1 1",
    "[(3,4)]|[2,2] => [-i0,t0,t1]": "− 0 0 0 − 1 1 1 − 2 2 2",
    "[3]|[(4,2),2] => [t0,t1,i0]": "0 1 4 5 0 1 4 5 0 1 4 5",
    "[1,3]|[(4,2),2] => [i0,t0,t1,i1]": "0 1 4 5 0 1 4 5 0 1 4 5",
}


def test_two_threads_share_five_columns_and_two_share_four_rows():
    # 5 x 4 elements by 2 x 2 threads: those of the first column have 3 x 2 elements, the others 2 x 2
    columns = "0 1 0 1 0"
    shared = parse("[3, 2] | [2, 2] => [(t0, i0: 5), t1, i1]")
    owners = "".join(f"{columns} {columns.replace('0', '2').replace('1', '3')} " for _ in range(2))
    assert shared.access_map().tolist() == [int(owner) for owner in owners.split()]
    assert shared.complete
    assert shared.guarded
    assert [(row >= 0).sum() for row in shared.elements] == [6, 4, 6, 4]


def test_a_ragged_axis_whose_last_places_no_digit_counts_needs_no_guard():
    # 8 digits of 9 places, of which the axis keeps the first 8
    exact = LayoutMapping((TensorAxis((Dimension("i", 0, 8, 9), Dimension("t", 0, 1, 1)), 8),))
    assert exact.complete
    assert not exact.guarded
    assert LayoutMapping((TensorAxis((Dimension("i", 0, 8, 9, reversed=True),), 8),)).guarded


@pytest.mark.parametrize(("text", "owners"), KNOWN.items())
def test_known_maps(text, owners):
    assert parse(text).access_map(12).tolist() == [-1 if owner == "−" else int(owner) for owner in owners.split()]


def test_the_map_ends_with_the_tensor_by_default():
    assert parse("[3]|[2,(2,1)] => [i0,t0,t1]").access_map().tolist() == [0, 0, 0, 1, 1, 1]
    assert parse("[(3,4)]|[2,2] => [i0,t0,t1]").access_map().tolist()[12:] == [3, 3, 3, -1]
    assert parse("[2]|[2] => [t0,i0], offset: 2").access_map().tolist() == [-1, -1, 0, 1, 0, 1]


@given(mappings(), st.integers(1, 300))
def test_elements_and_map_are_those_worked_out_digit_by_digit(mapping, length):
    accesses = touched(mapping)
    for (thread, item), element in accesses.items():
        assert mapping.elements[thread, item] == element
    assert (mapping.elements >= 0).sum() == len(accesses)
    owners = np.full(length, -1)
    for (thread, _), element in accesses.items():
        if element < length:
            owners[element] = thread
    assert mapping.access_map(length).tolist() == owners.tolist()
    assert mapping.guarded == (len(accesses) < mapping.threads * mapping.items)


@given(mappings())
def test_a_permutation_gives_no_element_to_two_accesses(mapping):
    assert mapping.injective
    elements = list(touched(mapping).values())
    assert len(set(elements)) == len(elements)
    assert mapping.complete == (sorted(elements) == list(range(mapping.size)))


@given(mappings(), st.sampled_from([2, 4, 8]))
def test_vectors_are_neighbours_and_aligned(mapping, width):
    whole = mapping.items % width == 0 and all(
        group[0] < 0 or (group[0] % width == 0 and (np.diff(group) == 1).all())
        for group in mapping.elements.reshape(-1, width if mapping.items % width == 0 else 1)
    )
    skipped = [
        group for group in mapping.elements.reshape(-1, width if mapping.items % width == 0 else 1) if -1 in group
    ]
    if mapping.vectors(width):
        assert whole
        assert all((group == -1).all() for group in skipped)
    assert mapping.widest(width) in (1, 2, 4, 8)
    assert mapping.vectors(mapping.widest(width))


def test_the_widest_vector():
    assert [parse(f"cyclic(width={w})").widest(4) for w in (1, 2, 4, 8, 16)] == [1, 2, 4, 4, 4]
    assert parse("[16] | [256] => [-i0, t0]").widest(4) == 1
    assert parse("[6] | [32] => [i0, t0]").widest(4) == 2
    assert parse("[(4, 6)] | [32] => [i0, t0]").widest(4) == 2
    assert parse("[4] | [32] => [i0, t0], offset: 2").widest(4) == 2
    assert parse("[2, 4] | [32] => [i1, t0, i0]").widest(4) == 1
    assert parse("[1, 4] | [1, 32] => [t0, i0, i1, t1]").widest(4) == 4


def test_what_is_asked_of_global_memory():
    # a warp of float32: 4 sectors where it is coalesced, one for each lane at worst
    assert [parse(f"cyclic(width={w})").sectors(4) for w in (1, 2, 4, 8, 16)] == [4, 8, 16, 32, 32]
    assert [parse(f"cyclic(width={w})").sectors(4, w) for w in (1, 2, 4)] == [4, 8, 16]
    assert parse("cyclic(width=8)").sectors(8, 2) == 32
    assert parse("[1] | [32] => [i0, t0], offset: 1").sectors(4) == 5
    assert parse("[1] | [(32, 8)] => [i0, t0]").sectors(4) == 1
    square = parse("cyclic2d(items=(1, 4), threads=(32, 8))")
    assert (square.sectors(4, row=32), square.sectors(4, row=32, transposed=True)) == (4, 32)
    assert parse("[16] | [4, 8, 8] => [t0, i0, t1, t2]").requests() == 16 * 8


def test_what_is_asked_of_shared_memory():
    square = parse("cyclic2d(items=(1, 4), threads=(32, 8))")
    across = [square.conflicts(4, row=32, pitch=pitch, transposed=True) for pitch in (32, 33, 34, 36)]
    assert across == [31, 0, 1, 3]
    assert square.conflicts(4, row=32, pitch=32) == 0
    assert square.conflicts(8, row=32, pitch=33, transposed=True) == 0


def test_only_loads_share_a_phase_of_shared_memory():
    # every other lane is idle and agrees with its neighbour: 16 loads of 8 bytes are one phase, 16 stores are two
    half = parse("[1] | [(2, 1), 16] => [i0, t0, t1]")
    assert half.conflicts(8, row=8, pitch=16) == 1
    assert half.conflicts(8, row=8, pitch=16, loads=False) == 0


def test_the_elements_that_are_kept_cannot_be_changed():
    mapping = parse("[4] | [32] => [i0, t0]")
    with pytest.raises(ValueError, match="read-only"):
        mapping.elements.fill(0)
    with pytest.raises(ValueError, match="read-only"):
        mapping.elements[0, 0] = 7
    assert parse("[4] | [32] => [i0, t0]").elements[1, 0] == 4


def test_facts_of_the_largest_mapping_are_computed_quickly():
    mapping = parse("[16] | [65536] => [i0, t0]")
    begin = time.process_time()
    assert mapping.injective
    assert mapping.sectors(4) == 32.0
    assert time.process_time() - begin < 5


@pytest.mark.parametrize(
    ("items", "most", "widest"),
    [
        *(
            (16, 16, 16),
            (16, 15, 8),
            (16, 8, 8),
            (8, 16, 8),
            (4, 16, 4),
            (2, 16, 2),
            (3, 16, 1),
            (16, 3, 2),
            (32, 99, 16),
        )
    ],
)
def test_the_widest_vector_is_a_power_of_two_that_fits(items, most, widest):
    assert parse(f"[{items}]|[2] => [i0,t0]").widest(most) == widest
