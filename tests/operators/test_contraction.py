from __future__ import annotations

import numpy as np
import pytest
from contraction_cases import by_numpy, problems
from hypothesis import given
from hypothesis import strategies as st
from narrowing import known

from lab.base.errors import UserError
from lab.operators.builtin import operator

CONTRACTION = operator("contraction")
BATCHED = {"einsum": "ilk,jlk->ijk", "i": 4, "j": 3, "k": 2, "l": 5}


@given(problems(), st.integers(0, 3))
def test_the_reference_is_numpys_einsum(fields, seed):
    problem = CONTRACTION.problem(fields)
    inputs = CONTRACTION.inputs(problem, seed)
    expected = by_numpy(problem, inputs)
    reference = CONTRACTION.reference(problem, inputs)
    assert reference["C"].values.shape == expected.shape
    stored = expected.astype(fields["dtype"]).reshape(-1, order="F")
    error, tolerance, worst = CONTRACTION.verify(problem, reference, {"C": stored})
    assert error <= tolerance, worst
    assert worst == ""
    laid_out, same = known(CONTRACTION.elementwise(problem, reference))
    assert np.max(np.abs(stored - laid_out["C"].values) / laid_out["C"].scale) == error
    assert same == tolerance


@given(problems(), st.data())
def test_one_wrong_element_is_found_and_named(fields, data):
    problem = CONTRACTION.problem(fields)
    inputs = CONTRACTION.inputs(problem, 0)
    wrong = np.array(by_numpy(problem, inputs))
    at = tuple(data.draw(st.integers(0, size - 1)) for size in wrong.shape)
    wrong[at] = data.draw(st.sampled_from([np.nan, np.inf, wrong[at] + 1 + 1e-3 * abs(wrong[at])]))
    reference = CONTRACTION.reference(problem, inputs)
    error, tolerance, worst = CONTRACTION.verify(problem, reference, {"C": wrong.reshape(-1, order="F")})
    assert not error <= tolerance
    assert worst.startswith(f"C[{', '.join(map(str, at))}]: got")
    assert worst.endswith(f"1 of {wrong.size} elements are wrong")


def test_index_assignments_are_an_einsum():
    assigned = {"IndexAssignmentsA": "0,3,2", "IndexAssignmentsB": "1, 3, 2", "NumIndicesC": 3}
    sizes = {key: value for key, value in BATCHED.items() if key != "einsum"}
    both = [CONTRACTION.problem(fields) for fields in ({**assigned, **sizes}, BATCHED)]
    assert both[0]["einsum"] == "ilk,jlk->ijk"
    for name in ("folded", "d0", "d1", "dU", "rows", "columns", "depth", "batches", "alignment", "compact"):
        assert both[0][name] == both[1][name]
    inputs = [CONTRACTION.inputs(problem, 7) for problem in both]
    assert inputs[0].scalars == inputs[1].scalars
    np.testing.assert_array_equal(inputs[0].arrays["A"], inputs[1].arrays["A"])


def test_special_indices_and_groups_have_their_sizes():
    problem = CONTRACTION.problem(
        {
            "IndexAssignmentsA": "6,5,0,1,4,3",
            "IndexAssignmentsB": "6,5,1,4,2,3",
            "NumIndicesC": 4,
            "i": 10,
            "j": 9,
            "k": 8,
            "l": 7,
            "m": 6,
            "n": 3,
            "o": 5,
        }
    )
    assert problem["einsum"] == "onijml,onjmkl->ijkl"
    assert problem["folded"] == "(on)ijml,(on)jmkl->ijkl"
    assert [problem[name] for name in ("d0", "d1", "dU")] == [10, 8, 15]
    assert [problem[name] for name in ("rows", "columns", "depth", "batches")] == [10, 8, 90, 63]


def test_flops_and_bytes_are_counted():
    problem = CONTRACTION.problem({**BATCHED, "dtype": "float64"})
    assert CONTRACTION.flops(problem) == 2 * 4 * 3 * 2 * 5
    assert CONTRACTION.bytes_moved(problem) == 8 * (4 * 5 * 2 + 3 * 5 * 2 + 4 * 3 * 2)
    added = CONTRACTION.problem({**BATCHED, "beta": 1})
    assert CONTRACTION.bytes_moved(added) == 4 * (4 * 5 * 2 + 3 * 5 * 2 + 2 * 4 * 3 * 2)


def test_windows_share_their_elements():
    # a convolution of rows of 10 elements with a filter of 3, the filter the same for all of 2 rows
    windows = {"einsum": "oil,ol->il", "o": 3, "i": 8, "l": 2, "strides_A": "1,1,10", "strides_B": "1,0"}
    problem = CONTRACTION.problem(windows)
    inputs = CONTRACTION.inputs(problem, 0)
    assert [len(inputs.arrays[name]) for name in "ABC"] == [20, 3, 16]
    rows, taps = inputs.arrays["A"].astype(np.float64).reshape(2, 10), inputs.arrays["B"].astype(np.float64)
    expected = [[sum(row[i + o] * taps[o] for o in range(3)) for i in range(8)] for row in rows]
    np.testing.assert_allclose(CONTRACTION.reference(problem, inputs)["C"].values, np.transpose(expected))
    assert CONTRACTION.bytes_moved(problem) == 4 * (20 + 3 + 16)


def test_elements_that_no_index_reaches_hold_nan():
    problem = CONTRACTION.problem({"einsum": "ik,kj->ij", "i": 3, "j": 2, "k": 2, "strides_A": "2,7"})
    a = CONTRACTION.inputs(problem, 0).arrays["A"]
    assert np.flatnonzero(~np.isnan(a)).tolist() == [0, 2, 4, 7, 9, 11]


@pytest.mark.parametrize(
    ("change", "alignment"),
    [
        ({}, 1),
        ({"i": 8, "j": 4, "l": 5}, 4),
        ({"i": 32, "j": 64}, 16),
        (
            {"einsum": "ikl,jkl->kij", "i": 8, "j": 4, "k": 8},
            4,
        ),  # C's neighbours lie in different tiles: it does not matter
        ({"i": 8, "j": 8, "strides_A": "1,8,41"}, 1),
        ({"i": 8, "j": 8, "strides_A": "1,8,42"}, 2),
        ({"i": 8, "j": 8, "strides_A": "2,8,44"}, 1),
    ],
)
def test_alignment_is_what_sizes_and_strides_have_in_common(change, alignment):
    assert CONTRACTION.problem({**BATCHED, **change})["alignment"] == alignment


@pytest.mark.parametrize(("given", "compact"), [("", "AB"), ("A", "B"), ("B", "A"), ("AB", "")])
def test_operands_without_strides_of_their_own_are_named(given, compact):
    strides = {f"strides_{operand}": "1,40,800" for operand in given}
    assert CONTRACTION.problem({**BATCHED, **strides})["compact"] == compact


@pytest.mark.parametrize(
    ("change", "key", "words"),
    [
        ({"einsum": "il,lj"}, "einsum", "not an einsum"),
        ({"einsum": "il,lj,jk->ik"}, "einsum", "not an einsum"),
        ({"einsum": "IL,LJ->IJ"}, "einsum", "one small letter each"),
        ({"einsum": "iil,lj->ij"}, "einsum", "A has the index i twice"),
        ({"einsum": "il,lj->ijz"}, "einsum", "C has the index z, which neither"),
        ({"einsum": "ilk,lj->ij"}, "einsum", "only A has the index k"),
        ({"einsum": "il,ljk->ij"}, "einsum", "only B has the index k"),
        ({"einsum": "abcdefghl,l->abcdefgh"}, "einsum", "A has 9 dimensions"),
        ({"einsum": "(il)k,j(l)k->ijk"}, "einsum", "not an einsum"),
        ({"einsum": "(il)k,(il)j->kj"}, "einsum", "a problem cannot name folded indices"),
        ({"einsum": 3}, "einsum", "not an einsum"),
        ({"NumIndicesC": 2}, "NumIndicesC", "given twice"),
        ({"m": 4}, "m", "unknown key"),
        ({"i": 0}, "i", "at least 1"),
        ({"i": 2.5}, "i", "an integer"),
        ({"i": 2**20, "k": 2**20}, "", "elements"),
        ({"strides_A": "0,0,0", "strides_B": "0,0,0", "l": 2**31}, "l", "at most 2147483647"),
        ({"strides_A": "1,4"}, "strides_A", "3 strides"),
        ({"strides_A": "1,-4,2"}, "strides_A", "one stride for each index"),
        ({"strides_B": 1}, "strides_B", "accepted: text"),
        ({"alpha": "one"}, "alpha", "a number"),
        ({"dtype": "int8"}, "dtype", "float32, float64"),
    ],
)
def test_wrong_fields_are_named(change, key, words):
    with pytest.raises(UserError) as error:
        CONTRACTION.problem({**BATCHED, **change})
    assert error.value.key == ("problem." + key).rstrip(".")
    assert words in str(error.value)


def test_a_size_that_is_missing_is_asked_for():
    with pytest.raises(UserError) as error:
        CONTRACTION.problem({key: value for key, value in BATCHED.items() if key != "l"})
    assert error.value.key == "problem.l"


@pytest.mark.parametrize(
    ("a", "b", "indices_c", "key", "words"),
    [
        ("0,3,2", "1,3,2", None, "NumIndicesC", "a key is missing"),
        (None, "1,3,2", 3, "IndexAssignmentsA", "a key is missing"),
        (0, "1,3,2", 3, "IndexAssignmentsA", "a list of these is swept"),
        ("0,x,2", "1,3,2", 3, "IndexAssignmentsA", "a list of these is swept"),
        ("0,3,2", "1,3,2", 9, "NumIndicesC", "0 to 8"),
        ("0,3,2", "1,3,2", 4, "IndexAssignmentsA", ""),  # 3 is C's then: a free index of both is a batch index
        ("0,3,2", "1,3,2", 5, "NumIndicesC", "index of C 4 is in neither operand"),
        ("0,5,2", "1,5,2", 3, "IndexAssignmentsA", "summation index 3 is in neither operand"),
        ("0,3,3", "1,3", 2, "IndexAssignmentsA", "summation index 2 is in neither operand"),
        ("0,2,2", "1,2", 2, "IndexAssignmentsA", "A has the index k twice"),
        ("0,2,3", "1,2", 2, "IndexAssignmentsA", "only A has the index l"),
        ("0,1,2,3,4,5,6,7,8", "8", 8, "IndexAssignmentsA", "9 dimensions"),
    ],
)
def test_wrong_assignments_are_named(a, b, indices_c, key, words):
    given_fields = {"IndexAssignmentsA": a, "IndexAssignmentsB": b, "NumIndicesC": indices_c}
    fields = {name: value for name, value in given_fields.items() if value is not None}
    sizes = dict.fromkeys("ijkl", 3)
    if not words:
        assert CONTRACTION.problem({**fields, **sizes})["batches"] == 9
        return
    with pytest.raises(UserError) as error:
        CONTRACTION.problem({**fields, **sizes})
    assert error.value.key == f"problem.{key}"
    assert words in str(error.value)


def test_equal_products_may_err_by_more():
    fields = {"einsum": "pon,pon->", "p": 11, "o": 70, "n": 1, "strides_A": "0,0,0", "strides_B": "0,0,0"}
    problem = CONTRACTION.problem(fields)
    inputs = CONTRACTION.inputs(problem, 1)
    product, total = inputs.arrays["A"][0] * inputs.arrays["B"][0], np.float32(0)
    for _ in range(770):
        total += product  # every rounding of a binade goes the same way
    reference = CONTRACTION.reference(problem, inputs)
    error, tolerance, _ = CONTRACTION.verify(problem, reference, {"C": np.array([total])})
    assert error <= tolerance == 770 * 2.0**-24
    _, _, worst = CONTRACTION.verify(problem, reference, {"C": np.array([total * np.float32(1.0002)])})
    assert worst
    apart = CONTRACTION.problem({**fields, "strides_B": "1,11,770"})  # products differ
    reference = CONTRACTION.reference(apart, CONTRACTION.inputs(apart, 1))
    assert CONTRACTION.verify(apart, reference, {"C": np.array([total])})[1] < 1e-6


ASSIGNED = {
    "IndexAssignmentsA": "0,3,2",
    "IndexAssignmentsB": "1,3,2",
    "NumIndicesC": 3,
    "i": 4,
    "j": 3,
    "k": 2,
    "l": 5,
}


@pytest.mark.parametrize("fields", [BATCHED, ASSIGNED], ids=["einsum", "assignments"])
def test_either_spelling_is_restored_from_its_plain_form(fields):
    problem = CONTRACTION.problem(fields)
    assert problem["einsum"] == "ilk,jlk->ijk"
    again = CONTRACTION.restored(dict(problem))
    assert again == problem
    assert dict(again) == dict(problem)
