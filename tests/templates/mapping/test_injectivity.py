from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from mappings import mappings

from lab.templates.mapping.composed import ComposedMapping
from lab.templates.mapping.dimension import Dimension, axis
from lab.templates.mapping.injectivity import Collision, InjectivityProof, enumerated
from lab.templates.mapping.mapping_model import LayoutMapping


@given(mappings(), mappings())
def test_what_is_proved_from_the_form_is_found_by_enumeration(first, second):
    for mapping in (first, second, ComposedMapping(first, second)):
        proof = mapping.injectivity
        assert (proof.injective, proof.race_free, proof.by) == (True, True, "form")
        verdict = enumerated(mapping.elements, mapping.elements >= 0)
        assert (verdict.injective, verdict.race_free, verdict.collision) == (True, True, None)


def test_a_digit_that_stands_twice_in_the_layout_is_refuted_by_enumeration():
    # the notation cannot say it: element = t0 + 2 t0
    twice = LayoutMapping((axis(Dimension("t", 0, 2, 2)), axis(Dimension("t", 0, 2, 2))))
    assert twice.injectivity == InjectivityProof(
        injective=False, race_free=False, by="enumeration", collision=Collision(0, (0, 0), (1, 0))
    )


@pytest.mark.parametrize(
    ("elements", "injective", "race_free", "collision"),
    [
        ([[0, 1], [2, 3]], True, True, None),
        ([[0, 0], [2, 3]], False, True, Collision(0, (0, 0), (0, 1))),
        ([[0, 0], [2, 0]], False, False, Collision(0, (0, 1), (1, 1))),
        ([[0, 0], [3, 3]], False, True, Collision(0, (0, 0), (0, 1))),
        ([[-1, 1], [-1, 3]], True, True, None),
    ],
)
def test_only_different_threads_race(elements, injective, race_free, collision):
    verdict = enumerated(np.array(elements), np.array(elements) >= 0)
    assert (verdict.injective, verdict.race_free, verdict.collision) == (injective, race_free, collision)
