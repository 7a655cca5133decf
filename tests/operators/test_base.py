from __future__ import annotations

import pickle

import pytest
from pydantic import Field, ValidationError

from lab.base.errors import UserError
from lab.operators.base import Extent, Operator, Problem
from lab.operators.builtin import operator


class Small(Problem):
    scale: float = 1.0
    n: Extent
    held: str = Field("normal", alias="values")
    stride: Extent = Field(default_factory=lambda known: known["n"])

    @classmethod
    def derived_names(cls) -> tuple[str, ...]:
        return ("twice",)

    @property
    def derived(self) -> dict[str, bool | int | float | str]:
        return {"twice": 2 * self.n}


def test_a_problem_has_typed_fields_and_is_a_mapping_of_the_files_names() -> None:
    problem = Small.of({"n": 4, "values": "special"})
    assert (problem.n, problem.stride, problem.held) == (4, 4, "special")
    assert dict(problem) == {"scale": 1.0, "n": 4, "values": "special", "stride": 4, "twice": 8}
    assert list(problem) == ["scale", "n", "values", "stride", "twice"]
    assert (problem["values"], problem.get("held"), len(problem)) == ("special", None, 5)


def test_a_problem_equals_its_plain_form_and_hashes_by_value() -> None:
    one, other = Small.of({"n": 4}), Small.of({"n": 4, "stride": 4})
    assert one == other == dict(one)
    assert len({one, other}) == 1
    assert one != Small.of({"n": 5})
    assert one != 3


def test_a_name_comes_first_and_changes_nothing_else() -> None:
    plain = Small.of({"n": 4})
    assert "name" not in plain
    named = plain.titled("speech")
    assert dict(named) == {"name": "speech", **plain}
    assert next(iter(named)) == "name"
    assert plain.title is None


def test_a_problem_is_restored_from_its_plain_form() -> None:
    problem = Small.of({"n": 4, "values": "special"}).titled("speech")
    again = Small.restored(dict(problem))
    assert again == problem
    assert again.title == "speech"
    assert Small.restored(again) is again


def test_a_problem_crosses_processes() -> None:
    problem = Small.of({"n": 4}).titled("speech")
    assert pickle.loads(pickle.dumps(problem)) == problem  # noqa: S301 - its own text


def test_a_problem_is_frozen() -> None:
    with pytest.raises(ValidationError):
        Small.of({"n": 4}).n = 5


@pytest.mark.parametrize(
    ("values", "key", "words"),
    [
        ({}, "problem.n", "a key is missing"),
        ({"n": 0}, "problem.n", "an integer from 1 to 2147483647"),
        ({"n": 2**31}, "problem.n", "an integer from 1 to 2147483647"),
        ({"n": True}, "problem.n", "an integer from 1 to 2147483647"),
        ({"n": 2.0}, "problem.n", "an integer from 1 to 2147483647"),
        ({"n": 1, "scale": "big"}, "problem.scale", "a number"),
        ({"n": 1, "strid": 2}, "problem.strid", "did you mean 'stride'?"),
        ({"n": 1, "name": "x"}, "problem.name", "unknown key"),
        ({"n": 1, "twice": 2}, "problem.twice", "unknown key"),
        ({"n": 1, "held": "special"}, "problem.held", "values"),
    ],
)
def test_a_wrong_field_is_named(values: dict[str, object], key: str, words: str) -> None:
    with pytest.raises(UserError) as error:
        Small.of(values)
    assert error.value.key == key
    assert words in str(error.value)


def test_a_whole_number_is_a_number() -> None:
    scale = Small.of({"n": 1, "scale": 2}).scale
    assert (scale, type(scale)) == (2.0, float)


@pytest.mark.parametrize(
    ("name", "given", "types"),
    [
        ("gemm", {"m": 3, "n": 2, "k": 1}, {"A": "float32", "B": "float32", "C": "float32"}),
        (
            "gemm",
            {"m": 3, "n": 2, "k": 1, "dtype": "float16", "out_dtype": "bfloat16", "epilogue": "bias_gelu"},
            {"A": "float16", "B": "float16", "C": "bfloat16", "bias": "float16"},
        ),
        (
            "gemm",
            {"m": 3, "n": 2, "k": 1, "dtype": "float8_e5m2"},
            dict.fromkeys("AB", "float8_e5m2") | {"C": "bfloat16", "scale_a": "float32", "scale_b": "float32"},
        ),
        ("gemm", {"m": 3, "n": 2, "k": 1, "dtype": "int8", "batch": 2}, {"A": "int8", "B": "int8", "C": "int32"}),
        ("softmax", {"m": 3, "n": 2, "dtype": "bfloat16"}, {"X": "bfloat16", "Y": "bfloat16"}),
    ],
)
def test_what_kernels_may_take_follows_from_the_inputs(name, given, types) -> None:
    computed = operator(name)
    problem = computed.problem(given)
    inputs, found = computed.inputs(problem, 0), computed.offered(problem)
    assert found.arrays == types
    assert found == Operator.offered(computed, problem)  # where an operator knows it without them
    assert (found.scalars, found.outputs) == (inputs.scalars, inputs.outputs)
