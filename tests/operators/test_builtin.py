from __future__ import annotations

from pathlib import Path

import pytest
from mistakes import coded

from lab.base.errors import Location, UserError
from lab.operators.builtin import BUILT_IN, operator, suspect
from lab.operators.declared.declaration import Declaration

MINE = """
from lab.operators.gemm import Gemm
from lab.operators.base import Operator, Problem

class Mine(Gemm):
    name = "mine"

class Half(Operator[Problem]):
    name = "half"
    def flops(self, problem): return 0

class Plain:
    name = "plain"

number = 3
"""


def test_every_built_in_operator_has_its_name() -> None:
    assert {name: operator(name).name for name in BUILT_IN} == {name: name for name in BUILT_IN}


def test_an_unknown_operator_is_refused_where_it_is_named() -> None:
    with pytest.raises(UserError, check=coded("unknown-name", key="operator", found="gem", line=3)) as error:
        operator("gem", at=Location("e.yaml", 3))
    assert error.value.suggestion == "did you mean 'gemm'?"
    assert error.value.at == Location("e.yaml", 3)


def test_an_operator_of_the_users_own_is_found_beside_the_experiment(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    mine = operator("mine.py:Mine", tmp_path)
    assert mine.name == "mine"
    assert type(operator("./mine.py:Mine", tmp_path)) is type(mine)  # imported once


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("mine.py:Other", "no such class"),
        ("mine.py:number", "no such class"),
        ("none.py:Mine", "no such operator file"),
        ("mine.py", "no such operator file"),
        ("mine.py:Plain", "not an operator"),
        ("mine.py:Half", "lacks merit, problem_type, inputs, reference, verify, bytes_moved, fma_dtype"),
    ],
)
def test_a_class_that_is_no_operator_is_refused(tmp_path: Path, reference: str, words: str) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    with pytest.raises(UserError, match=words):
        operator(reference, tmp_path)


def test_a_file_that_fails_to_import_says_why_and_may_be_mended(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("1 / 0\n")
    with pytest.raises(UserError, check=coded("unreadable", key="operator", found="broken.py:Mine")):
        operator("broken.py:Mine", tmp_path)
    file.write_text(MINE)
    assert operator("broken.py:Mine", tmp_path).name == "mine"


def test_only_python_of_the_users_own_is_suspected() -> None:
    assert suspect("gemm") == suspect(Declaration("k", ()).reference) == ""
    assert suspect("./my_op.py:Mine") == "; ./my_op.py:Mine ran there and may have ended it"
    declared = Declaration("k", (), function="./ref.py:expected").reference
    assert suspect(declared) == "; ./ref.py:expected ran there and may have ended it"


@pytest.mark.parametrize(
    ("name", "fields", "padded"),
    [
        ("gemm", {"m": 4, "n": 3, "k": 2}, ({"ldc": 5}, {"beta": 0.5})),
        ("contraction", {"einsum": "ik,jk->ij", "i": 4, "j": 3, "k": 2}, ({"beta": 0.5},)),
        ("softmax", {"m": 4, "n": 3}, ({"ldy": 4},)),
        ("masked_softmax", {"m": 4, "n": 4, "queries": 2}, ({"ldy": 5},)),
        ("softmax_backward", {"m": 4, "n": 3}, ({"lddx": 4},)),
        ("layer_norm", {"m": 4, "n": 3}, ({"ldy": 4},)),
        ("rms_norm", {"m": 4, "n": 3}, ({"ldy": 4},)),
        ("copy", {"m": 4, "n": 3}, ({"ldb": 5},)),
        ("transpose", {"m": 4, "n": 3}, ({"ldb": 5},)),
    ],
)
def test_an_output_is_required_where_it_has_no_padding_and_is_not_read(name, fields, padded):
    computed = operator(name)
    made = computed.inputs(computed.problem(fields), 0)
    assert made.required == made.outputs
    for more in padded:
        assert computed.inputs(computed.problem({**fields, **more}), 0).required == ()


@pytest.mark.parametrize(
    ("name", "fields", "changed"),
    [
        ("gemm", {"m": 4, "n": 3, "k": 2}, {"alpha", "beta", "lda", "ldb", "ldc"}),
        ("gemm", {"m": 4, "n": 3, "k": 2, "alpha": 2, "ldc": 9, "batch": 2}, {"beta", "lda", "ldb"}),
        ("gemm", {"m": 4, "n": 3, "k": 2, "dtype": "int8"}, {"alpha", "beta", "lda", "ldb", "ldc"}),
        (
            "gemm",
            {"m": 4, "n": 3, "k": 2, "dtype": "complex64"},
            {"alpha", "beta", "alpha_imag", "beta_imag", "lda", "ldb", "ldc"},
        ),
        ("contraction", {"einsum": "ik,jk->ij", "i": 4, "j": 3, "k": 2}, {"alpha", "beta"}),
        ("softmax", {"m": 4, "n": 3}, {"ldx", "ldy"}),
        ("masked_softmax", {"m": 4, "n": 4, "queries": 2}, {"ldx", "ldm", "ldy"}),
        ("softmax_backward", {"m": 4, "n": 3, "lddx": 5}, {"ldy", "lddy"}),
        ("layer_norm", {"m": 4, "n": 3}, {"ldx", "ldy"}),
        ("copy", {"m": 4, "n": 3}, {"lda", "ldb"}),
        ("transpose", {"m": 4, "n": 3}, {"lda", "ldb"}),
    ],
)
def test_another_problem_has_other_values_where_one_hides_something(name, fields, changed):
    computed = operator(name)
    problem = computed.problem(fields).titled("mine")
    other = computed.other_problem(problem)
    strides = {"stride_a", "stride_b", "stride_c"}
    assert {key for key in problem if problem[key] != other[key]} - strides == changed
    assert other.title == "mine"
    assert computed.other_problem(other) is None
    given = computed.inputs(other, 0)
    assert set(computed.reference(other, given)) == set(given.outputs)
