"""Contractions to test with: drawn index assignments, and what NumPy's einsum makes of a problem."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from lab.operators import einsum

SIZES = [1, 2, 3, 4, 5, 7, 8, 11, 13]
TILES = [
    {"block_m": 16, "block_n": 16, "block_k": 4, "thread_m": 2, "thread_n": 2, "vector_width": 1, "unroll": 2},
    {"block_m": 32, "block_n": 16, "block_k": 8, "thread_m": 4, "thread_n": 2, "vector_width": 2},
    {"block_m": 16, "block_n": 32, "block_k": 16, "thread_m": 2, "thread_n": 4, "vector_width": 4},
    {"block_m": 32, "block_n": 32, "block_k": 16, "thread_m": 4, "thread_n": 8, "vector_width": 4, "padding": 0},
]


@st.composite
def equations(draw, most=8):
    """An einsum whose tensors have at most `most` dimensions each, its letters in any order."""
    batch = draw(st.integers(0, 2))
    summed = draw(st.integers(0, min(4, most - batch)))
    free_a = draw(st.integers(0, most - batch - summed))
    free_b = draw(st.integers(0, min(most - batch - summed, most - batch - free_a)))
    letters = draw(st.permutations("abcdefghijklmnop"))
    groups = [[letters.pop() for _ in range(count)] for count in (batch, summed, free_a, free_b)]
    shared, over, of_a, of_b = groups
    a, b, c = (
        draw(st.permutations(group)) for group in (shared + over + of_a, shared + over + of_b, shared + of_a + of_b)
    )
    return f"{''.join(a)},{''.join(b)}->{''.join(c)}"


@st.composite
def problems(draw, most=8, operations=20_000):
    """A problem's fields: sizes so small that the contraction takes at most so many multiplications."""
    equation = draw(equations(most))
    left, fields = operations, {"einsum": equation}
    for letter in draw(st.permutations(einsum.parse(equation).indices)):
        fields[letter] = draw(st.sampled_from([size for size in SIZES if size <= left]))
        left //= fields[letter]
    fields["dtype"] = draw(st.sampled_from(["float32", "float32", "float64"]))
    fields["alpha"], fields["beta"] = draw(st.sampled_from([(1.0, 0.0), (1.0, 0.0), (-1.5, 0.5), (0.0, 2.0)]))
    for tensor, held in zip("AB", equation.split("->")[0].split(","), strict=True):
        if draw(st.integers(0, 4)) == 0:
            fields[f"strides_{tensor}"] = ",".join(str(draw(st.integers(0, 9))) for _ in held)
    return fields


@st.composite
def parameters(draw):
    """Parameters of `contraction/tiled.cu.j2` that every type allows."""
    return {
        **draw(st.sampled_from(TILES)),
        "double_buffer": draw(st.booleans()),
        "free": draw(st.sampled_from(["tile", "grid"])),
        "summation": draw(st.sampled_from(["flat", "loops"])),
        "split": draw(st.sampled_from([1, 1, 2, 8])),
    }


def views(problem, arrays):
    """A, B and C in float64, each with its logical shape."""
    matrices = {}
    for tensor, held in zip("ABC", problem["einsum"].replace("->", ",").split(","), strict=True):
        sizes = [problem[letter] for letter in held]
        strides = [*itertools.accumulate(sizes, lambda x, y: x * y, initial=1)][: len(sizes)]
        if f"strides_{tensor}" in problem:
            strides = [int(stride) for stride in problem[f"strides_{tensor}"].split(",") if stride]
        flat = arrays[tensor].astype(np.float64)
        matrices[tensor] = as_strided(flat, sizes, [8 * stride for stride in strides])
    return matrices


def by_numpy(problem, inputs):
    """C as NumPy's einsum computes it."""
    of = views(problem, inputs.arrays)
    total = np.zeros(of["C"].shape)
    if problem["alpha"]:
        total = total + problem["alpha"] * np.einsum(problem["einsum"], of["A"], of["B"])
    if problem["beta"]:
        total = total + problem["beta"] * of["C"]
    return total
