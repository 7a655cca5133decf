from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from mappings import mappings
from mistakes import coded

from lab.base.errors import UserError
from lab.templates.mapping.composed import ComposedMapping
from lab.templates.mapping.text import parse


def one_by_one(outer, inner):
    """(thread, local index) to the element, one access after another."""
    for u in range(outer.threads):
        for t in range(inner.threads):
            for i in range(inner.items):
                j = inner.elements[t, i]
                element = outer.elements[u, j] if 0 <= j < outer.items else -1
                yield t + u * inner.threads, i, element


@given(mappings(), mappings())
def test_the_outer_mapping_is_applied_to_what_the_inner_one_touches(outer, inner):
    assume(outer.threads * inner.threads * inner.items <= 3000)
    composed = ComposedMapping(outer, inner)
    assert (composed.threads, composed.items, composed.size) == (outer.threads * inner.threads, inner.items, outer.size)
    index, guard = (
        compile(text.replace("/", "//").replace("&&", "and").replace("true", "True"), "expression", "eval")
        for text in (composed.index("x", "y"), composed.guard("x", "y"))
    )
    for thread, item, element in one_by_one(outer, inner):
        assert composed.elements[thread, item] == element
        names = {"x": item, "y": thread}
        assert (eval(index, names) if eval(guard, names) else -1) == element  # noqa: S307 - our own arithmetic
    assert composed.guarded == (composed.guard() != "true")
    kept = composed.elements[composed.elements >= 0]
    assert composed.injective
    assert len(np.unique(kept)) == kept.size


@given(mappings(), mappings(), st.sampled_from([2, 4]))
def test_vectors_of_both_are_vectors_of_the_composition(outer, inner, width):
    assume(outer.threads * inner.threads * inner.items <= 3000)
    composed = ComposedMapping(outer, inner)
    if composed.vectors(width):
        for group in composed.elements.reshape(-1, width):
            assert (group == -1).all() or (group[0] % width == 0 and (np.diff(group) == 1).all())


def test_composition_is_associative():
    a, b, c = "[6] | [2]", "[3] | [2] => [t0, i0]", "[3] | [1]"
    (first, second), third = (parse(text).levels[0] for text in (a, b)), parse(c)
    left = ComposedMapping(first, ComposedMapping(second, third))
    assert parse(f"{a} then {b} then {c}") == left
    assert left.elements.tolist() == ComposedMapping(first, second).elements.tolist()


def test_a_grid_is_shared_out_among_blocks_and_a_block_among_its_threads():
    composed = parse("block in grid: [6] | [2] then thread in block: [2] | [3] => [t0, i0]")
    assert composed.access_map().tolist() == [0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5]
    assert str(composed.scope) == "thread in grid"
    assert composed.complete
    assert not composed.guarded
    assert composed.index() == "(((t % 3) + i * 3) + (t / 3) * 6)"


def test_what_is_no_local_index_of_the_outer_mapping_is_guarded():
    # 2 x 3 places for 5 elements of each block
    ragged = parse("[5] | [2] then [2] | [3] => [t0, i0]")
    assert ragged.access_map().tolist() == [0, 1, 2, 0, 1, 3, 4, 5, 3, 4]
    assert ragged.guard() == "((t % 3) + i * 3) < 5"
    assert ragged.unguarded is None


def test_tuples_are_indices_of_the_innermost_mapping():
    composed = parse("[6] | [2] then [3, 2] | [1]")
    assert composed.index(("x", "y")) == "((x + y * 3) + t * 6)"
    with pytest.raises(UserError, check=coded("mismatch", found="1: x")):
        composed.index(("x",))


def test_a_block_begins_with_a_warp_of_its_own():
    # 8 threads of each block are a warp with 24 idle lanes; without a scope, 32 numbers are a warp
    scoped = parse("block in grid: [8] | [4] then thread in block: [1] | [8]")
    assert (scoped.requests(), scoped.sectors(4)) == (4, 1)
    plain = parse("[8] | [4] then [1] | [8]")
    assert (plain.requests(), plain.sectors(4)) == (1, 4)
