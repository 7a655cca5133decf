from __future__ import annotations

import pytest

from lab.templates.mapping.dimension import Dimension
from lab.templates.mapping.text import parse


@pytest.mark.parametrize(
    ("dimension", "name"), [(Dimension("i", 0, 4, 4), "i0"), (Dimension("t", 12, 2, 3, reversed=True), "-t12")]
)
def test_a_dimension_is_named_by_kind_and_number(dimension: Dimension, name: str) -> None:
    assert dimension.name == name


def test_its_name_is_what_the_notation_reads() -> None:
    first, second = parse("[4] | [32] => [-t0, i0]").levels[0].layout
    assert (first, second) == (Dimension("t", 0, 32, 32, reversed=True), Dimension("i", 0, 4, 4))
    assert (first.name, second.name) == ("-t0", "i0")
