from __future__ import annotations

import numpy as np
from hypothesis import given
from mappings import mappings, touched

from lab.templates.mapping.injectivity import enumerated
from lab.templates.mapping.proof import obligations
from lab.templates.mapping.scopes import LaunchShape
from lab.templates.mapping.text import parse


@given(mappings())
def test_without_the_guard_two_accesses_to_one_element_are_named(mapping):
    proofs = obligations(mapping)
    assert proofs[0].race_free
    assert len(proofs) == 1 + mapping.guarded
    raw = mapping.unguarded
    assert all(raw[thread, item] == element for (thread, item), element in touched(mapping).items())
    proof = enumerated(raw, np.ones_like(raw, dtype=bool))
    owners: dict[int, set[int]] = {}
    for (thread, _), element in np.ndenumerate(raw):
        owners.setdefault(int(element), set()).add(thread)
    assert proof.race_free == all(len(threads) == 1 for threads in owners.values())
    assert proof.injective == (len(owners) == raw.size)
    if proof.collision:
        first, second = proof.collision.first, proof.collision.second
        assert first != second
        assert raw[first] == raw[second] == proof.collision.element
        assert (first[0] != second[0]) == (not proof.race_free)
    if mapping.guarded:
        assert proofs[1].race_free == proof.race_free


def test_a_scope_says_whose_writes_meet():
    text = "thread in block: [3] | [4]"
    assert [(obligation.writes, obligation.race_free) for obligation in obligations(parse(text))] == [
        ("different threads of one block", True),
        ("different blocks to one array", False),
    ]
    alone, several = (LaunchShape((blocks, 1, 1), (4, 1, 1)) for blocks in (1, 2))
    assert len(obligations(parse(text), alone)) == 1
    assert len(obligations(parse(text), several)) == 2
    (_, within) = obligations(parse("block in grid: [3] | [4]"))
    assert within.writes == "several threads of one block with the same i"
    assert within.because == "every thread of block 0 writes element 0 at i = 0"


def test_a_composition_needs_its_guard():
    under, without = obligations(parse("[5] | [2] then [2] | [3]"))
    assert (under.race_free, without.race_free) == (True, None)
    assert "in each of 2 mappings" in under.because
