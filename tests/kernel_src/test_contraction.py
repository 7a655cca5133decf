"""Emulated contractions of random indices: correct for any indices and sizes, and free of races."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from compiling import quiet_ptx_of
from contraction_cases import TILES, by_numpy, parameters, problems
from covering import gated, pairs
from hypothesis import given, settings

from lab.base.expressions import Scalar
from lab.operators.builtin import operator
from lab.stages.emulate import EmulationTask, emulate
from lab.templates import front_matter as kernels
from lab.templates.instance import Instance

ROOTS = kernels.search_path()
CONTRACTION = operator("contraction")
TILED = kernels.load("contraction/tiled.cu.j2", ROOTS)
GATHERED = kernels.load("contraction/gathered.cu.j2", ROOTS)
SIZES = {"i": 5, "j": 4, "k": 3, "l": 2, "m": 7, "n": 3, "o": 3}
KNOWN: dict[str, dict[str, Scalar]] = {
    "batched NT": {"einsum": "ilk,jlk->ijk", "i": 40, "j": 36, "k": 3, "l": 20},
    "batched NN": {"einsum": "ilk,ljk->ijk", "i": 40, "j": 36, "k": 3, "l": 20},
    "batched TN": {"einsum": "lik,ljk->ijk", "i": 40, "j": 36, "k": 3, "l": 20},
    "d0 in B": {"einsum": "ilk,jlk->jki", "i": 40, "j": 36, "k": 3, "l": 20},
    "interleaved": {"einsum": "kil,klj->kij", "i": 33, "j": 20, "k": 8, "l": 12},
    "convolution": {"IndexAssignmentsA": "6,5,0,1,4,3", "IndexAssignmentsB": "6,5,1,4,2,3", "NumIndicesC": 4, **SIZES},
    "eight dimensions": {
        "einsum": "abcdefgh,ghabijkl->cdefijkl",
        **dict.fromkeys("abdefhijk", 2),
        "c": 3,
        "g": 3,
        "l": 1,
    },
    "dot product": {"einsum": "ab,ab->", "a": 30, "b": 7},
    "outer product": {"einsum": "ab,c->cab", "a": 5, "b": 7, "c": 9},
    "product of elements": {"einsum": "ab,ab->ba", "a": 5, "b": 7},
    "scalars": {"einsum": ",->"},
    "vector by a scalar": {"einsum": "a,->a", "a": 70},
    "windows": {"einsum": "oil,ok->ikl", "o": 3, "i": 30, "k": 5, "l": 2, "strides_A": "1,1,32"},
    "index t": {"einsum": "tsu,tru->sru", "t": 9, "s": 36, "r": 20, "u": 2},  # its size is not the type `size_t`
    "everything is 1": {"einsum": "abc,cd->abd", **dict.fromkeys("abcd", 1)},
}


def check(fields, given_parameters, template=TILED):
    """Execute the template's kernels; compare with the operator's reference, and that with NumPy's einsum."""
    problem, chosen = CONTRACTION.problem(fields), template.completed(given_parameters)
    assert Instance(template, chosen, problem).unmet() is None
    ptx = quiet_ptx_of(Instance(template, chosen, problem).source)
    done = emulate(EmulationTask(Instance(template, chosen, problem).launches, "contraction", problem, 1, {}), ptx)
    assert done.unsupported == ""
    assert done.fault == ""
    assert done.verification.passed, done.verification.worst
    inputs = CONTRACTION.inputs(problem, 1)
    reference = CONTRACTION.reference(problem, inputs)["C"]
    assert np.all(np.abs(by_numpy(problem, inputs) - reference.values) <= 1e-14 * reference.scale)


@pytest.mark.usefixtures("conditions")
@given(problems(), parameters())
@settings(max_examples=8)
def test_any_contraction_is_what_numpys_einsum_says(fields, given_parameters):
    check(fields, given_parameters)


@pytest.mark.usefixtures("conditions")
@pytest.mark.parametrize(
    ("name", "free", "summation", "tile"),
    gated(
        itertools.product(KNOWN, ("tile", "grid"), ("flat", "loops"), range(len(TILES))),
        lambda name, *setting: {name, *pairs(*setting)},
    ),
)
def test_known_contractions_are_right(name, free, summation, tile):
    split, beta = (4 if tile >= 2 else 1), (0.5 if tile in (1, 2) else 0.0)
    check({**KNOWN[name], "beta": beta}, {**TILES[tile], "free": free, "summation": summation, "split": split})


ONE_WARP: dict[str, Scalar] = {"block_m": 32, "block_n": 32, "block_k": 8, "thread_m": 8, "thread_n": 4}
FOUR_WARPS: dict[str, Scalar] = {
    "block_m": 64,
    "block_n": 32,
    "block_k": 16,
    "thread_m": 4,
    "thread_n": 4,
    "lanes_m": 8,
    "unroll": 4,
    "stages": 3,
    "group": 1,
}
WAYS: list[dict[str, Scalar]] = [{}, {"workers": 3}, {"split": 3}, {"workers": 5, "stages": 4}]
GATHERED_TILES = {"one warp": ONE_WARP, "four warps": FOUR_WARPS}


def gathered(way, tile):
    return {**GATHERED_TILES[tile], "read": "gathered", **WAYS[way]}


@pytest.mark.parametrize(
    ("name", "way", "tile", "beta"),
    gated(
        itertools.product(KNOWN, range(len(WAYS)), GATHERED_TILES, (0.5, 0.0)),
        lambda name, *setting: {name, *pairs(*setting)},
    ),
)
def test_known_contractions_are_right_when_gathered(name, way, tile, beta):
    check({**KNOWN[name], "beta": beta}, gathered(way, tile), GATHERED)


@pytest.mark.usefixtures("conditions")
@pytest.mark.parametrize(
    ("way", "tile"), gated(itertools.product(range(len(WAYS)), GATHERED_TILES), lambda way, tile: {way, tile})
)
def test_a_gathered_contraction_is_right_under_other_conditions(way, tile):
    check({**KNOWN["batched NT"], "beta": 0.5}, gathered(way, tile), GATHERED)


@pytest.mark.parametrize(
    ("fields", "launched"),
    [
        ({"einsum": "ilk,jlk->ijk", "i": 44, "j": 36, "k": 3, "l": 24}, ()),
        ({"einsum": "ilk,ljk->jki", "i": 44, "j": 35, "k": 3, "l": 24}, ("gather_x",)),  # d0 in B
        ({"einsum": "il,jl->ij", "i": 36, "j": 68, "l": 29}, ()),  # a partial tile of the depth, but no batch
        ({"einsum": "il,jl->ij", "i": 36, "j": 68, "l": 9, "strides_B": "1,70"}, ("gather_y",)),
        ({"einsum": "iabc,cbaj->ij", "i": 36, "j": 7, "a": 2, "b": 3, "c": 4}, ("gather_x", "gather_y")),
    ],
)
def test_operands_that_are_matrices_are_read_where_they_lie(fields, launched):
    problem = CONTRACTION.problem(fields)
    found = Instance(GATHERED, GATHERED.completed(ONE_WARP), problem).launches
    assert tuple(step.entry for step in found.steps if step.entry.startswith("gather")) == launched
    check({**fields, "alpha": -1.5, "beta": 2.0}, ONE_WARP, GATHERED)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"einsum": "ilk,jlk->ijk", "i": 42, "j": 36, "k": 3, "l": 24}, "16 bytes"),
        ({"einsum": "ilk,jlk->ijk", "i": 44, "j": 37, "k": 3, "l": 24}, "16 bytes"),
        ({"einsum": "ilk,jlk->ijk", "i": 44, "j": 36, "k": 3, "l": 25}, "next"),
    ],
)
def test_sizes_that_bulk_copies_cannot_read_in_place_are_refused(fields, why):
    instance = Instance(GATHERED, GATHERED.completed(ONE_WARP), CONTRACTION.problem(fields))
    assert why in instance.unmet().because


@given(problems())
@settings(max_examples=3)
def test_any_contraction_can_be_gathered(fields):
    check({**fields, "dtype": "float32"}, {**ONE_WARP, "read": "gathered"}, GATHERED)
