"""Random mappings, and what one touches, worked out digit by digit."""

from __future__ import annotations

import itertools
import math
from typing import Literal

from hypothesis import strategies as st

from lab.templates.mapping.dimension import Dimension, TensorAxis
from lab.templates.mapping.mapping_model import LayoutMapping

SIZES = st.sampled_from([1, 2, 2, 3, 4, 4, 5, 8])


@st.composite
def mappings(draw):
    dimensions = []
    mosts: tuple[tuple[Literal["i", "t"], int], ...] = (("i", 40), ("t", 160))
    for kind, most in mosts:
        total = 1
        for number in range(draw(st.integers(1, 3))):
            size = draw(SIZES)
            size = size if total * size <= most else 1
            total *= size
            extent = draw(st.one_of(st.just(size), st.just(size), st.integers(1, size + 2)))
            dimensions.append(Dimension(kind, number, size, extent, draw(st.booleans())))
    axes, left = [], list(draw(st.permutations(dimensions)))
    while left:
        together, left = left[: (count := draw(st.sampled_from([1, 1, 1, 2, 3])))], left[count:]
        places = math.prod(d.extent for d in together)
        axes.append(TensorAxis(tuple(together), draw(st.one_of(st.just(places), st.integers(1, places + 2)))))
    return LayoutMapping(tuple(axes), draw(st.sampled_from([0, 0, 0, 1, 4])))


def touched(mapping):
    """(thread, local index) to the element, for every access that there is."""
    elements = {}
    numbered = sorted(mapping.layout, key=lambda d: (d.kind, d.number), reverse=True)  # the lowest digit runs fastest
    for digits in itertools.product(*(range(d.size) for d in numbered)):
        number, weight = {"i": 0, "t": 0}, {"i": 1, "t": 1}
        for d, digit in zip(reversed(numbered), reversed(digits), strict=True):
            number[d.kind] += digit * weight[d.kind]
            weight[d.kind] *= d.size
        digit_of = dict(zip(((d.kind, d.number) for d in numbered), digits, strict=True))
        element, stride, there = mapping.offset, 1, True
        for axis in mapping.axes:
            coordinate, below = 0, 1
            for d in axis.dimensions:
                digit = digit_of[d.kind, d.number]
                there = there and digit < d.extent
                coordinate += (d.extent - 1 - digit if d.reversed else digit) * below
                below *= d.extent
            there = there and coordinate < axis.extent
            element += coordinate * stride
            stride *= axis.extent
        if there:
            elements[number["t"], number["i"]] = element
    return elements
