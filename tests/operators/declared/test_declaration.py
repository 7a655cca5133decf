"""Declarations: checked with every mistake at once, hashable, and the same after a round trip."""

from __future__ import annotations

import numpy as np
import pytest
from mistakes import coded

from lab.base.errors import Location, UserError
from lab.operators.declared.declaration import PREFIX, Declaration, declare

ADDITION = {"c": "out float32[n]", "a": "float32[n]", "b": "float32[n]", "n": "int32"}


def made(tmp_path, *, arguments=ADDITION, problem=("n",), parameters=(), **fields):
    declaration, mistakes = declare(
        "add", arguments=arguments, folder=tmp_path, problem=problem, parameters=parameters, **fields
    )
    assert mistakes == ()
    return declaration


def mistakes(tmp_path, *, arguments=ADDITION, problem=("n",), parameters=(), **fields):
    declaration, wrong = declare(
        "add", arguments=arguments, folder=tmp_path, problem=problem, parameters=parameters, **fields
    )
    assert declaration is None
    return [(one.key, one.message) for one in wrong]


def test_a_declaration_is_the_same_after_a_round_trip(tmp_path):
    np.save(tmp_path / "x.npy", np.ones(3, np.float32))
    first = made(
        tmp_path,
        arguments={
            **ADDITION,
            "d": "inout int32[2 * n, pad] = arange(pad)",
            "e": "float32[3] x.npy",
            "s": "float32 = 0.5 * n",
        },
        parameters=("pad", "block_size_x"),
        reference={"c": "a + b", "d": 0},
        tolerance={"c": 1e-3},
        metrics={"GB/s": "12 * n / time"},
    )
    again = Declaration.restored(first.reference)
    assert again == first
    assert hash(again) == hash(first)
    assert again.reference == first.reference
    assert first.reference.startswith(PREFIX)
    assert first.parameters == ("pad",)
    assert first.needed == {"n", "pad"}
    assert [path for path, _ in first.files] == ["x.npy"]


def test_the_contents_of_a_file_are_part_of_the_declaration(tmp_path):
    arguments = {**ADDITION, "e": "float32[3] x.npy"}
    np.save(tmp_path / "x.npy", np.ones(3, np.float32))
    first = made(tmp_path, arguments=arguments)
    np.save(tmp_path / "x.npy", np.zeros(3, np.float32))
    assert made(tmp_path, arguments=arguments) != first


def test_a_declaration_without_files_does_not_know_its_folder(tmp_path):
    assert made(tmp_path).folder == ""


def test_every_mistake_is_reported_at_once(tmp_path):
    reported = mistakes(
        tmp_path,
        arguments={
            "c": "out float32[m]",
            "a": "float32[n] data.npy",
            "b": "float31[n]",
            "k": "int32",
            "n": "int32",
            "d": "in16",
            "e": "int8[d]",
        },
        reference={"c": "a + bb", "x": "1"},
        tolerance=-1,
        metrics={"GB/s": "12 * nn / time"},
    )
    assert reported == [
        ("arguments.b", "unknown type 'float31' (column 1)"),
        ("arguments.d", "unknown type 'in16' (column 1)"),
        ("arguments.c", "unknown name 'm'"),
        ("arguments.a", "no such file"),
        ("arguments.k", "the scalar k has no value"),
        ("reference.c", "unknown name 'bb' (column 5)"),
        ("reference.x", "not an output"),
        ("tolerance", "wrong value"),
        ("metrics.GB/s", "unknown name 'nn'"),
    ]


@pytest.mark.parametrize(
    ("reference", "key", "message"),
    [
        ({"c": "a + bb"}, "reference.c", "unknown name 'bb' (column 5)"),
        ({"c": "add(a, c)"}, "reference.c", "c is only written"),
        ({"c": "foo(a)"}, "reference.c", "unknown function 'foo' (column 1)"),
        ({"c": "a +"}, "reference.c", "not an expression: the expression ends (column 4)"),
        ({"d": "a"}, "reference.d", "not an output"),
        ({}, "reference", "no reference for c"),
        ({"c": [1]}, "reference.c", "wrong type"),
        (3, "reference", "wrong type"),
        ("a + b", "reference", "wrong value"),
        ("./none.py:f", "reference", "no such file"),
    ],
)
def test_a_wrong_reference(tmp_path, reference, key, message):
    assert (key, message) in mistakes(tmp_path, reference=reference)


def test_a_missing_reference_says_how_a_workspace_is_declared(tmp_path):
    arguments = {**ADDITION, "done": "inout uint32[n] zeros"}
    _, wrong = declare(
        "add", arguments=arguments, folder=tmp_path, problem=("n",), parameters=(), reference={"c": "a + b"}
    )
    (accepted,) = (one.accepted for one in wrong)
    assert "{done: 'scratch uint32[n] zeros'}" in accepted
    made(tmp_path, arguments={**ADDITION, "done": "scratch uint32[n] zeros"}, reference={"c": "a + b"})
    _, (one,) = declare("add", arguments=ADDITION, folder=tmp_path, problem=("n",), parameters=(), reference={})
    assert one.accepted == "an expression for each output: c"


@pytest.mark.parametrize("tolerance", ["x", True, float("inf"), -1e-3, {"d": 1}, {"c": "x"}])
def test_a_wrong_tolerance(tmp_path, tolerance):
    assert len(mistakes(tmp_path, tolerance=tolerance)) == 1


@pytest.mark.parametrize("metrics", ["GB/s", {}, {"GB/s": None}, {"GB/s": "12 *"}, {"GB/s": "12 * a / time"}])
def test_a_wrong_metric(tmp_path, metrics):
    assert len(mistakes(tmp_path, metrics=metrics)) == 1


def test_a_mistake_has_its_line(tmp_path):
    lines = {("arguments", "c"): 7}
    _, wrong = declare(
        "add", arguments={**ADDITION, "c": "out float32[m]"}, folder=tmp_path, problem=("n",), parameters=(),
        at=lambda *key: Location("x.yaml", lines.get(key, 1)),
    )  # fmt: skip
    assert [str(one.at) for one in wrong] == ["x.yaml:7"]


def test_an_array_with_the_name_of_a_number_is_refused(tmp_path):
    assert mistakes(tmp_path, problem=("n", "a")) == [
        ("arguments.a", "the array a and a field of the problem have the same name")
    ]


@pytest.mark.parametrize("text", ["declared:", "declared:{}", "declared:[1]", 'declared:{"name": 1}'])
def test_a_text_that_is_no_declaration_is_refused(text):
    with pytest.raises(UserError):
        Declaration.restored(text)


def test_a_reference_function_gets_the_parameters_that_it_asks_for(tmp_path):
    (tmp_path / "ref.py").write_text("def add(a, b, pad, step=1): ...\n")
    declaration = made(tmp_path, reference="./ref.py:add", parameters=("pad", "step", "other"))
    assert declaration.parameters == ("pad", "step")


def test_a_reference_function_that_asks_for_something_unknown_is_a_mistake(tmp_path):
    (tmp_path / "ref.py").write_text("\n\ndef add(a, b, widht, other=1): ...\n")
    [(key, message)] = mistakes(tmp_path, reference="./ref.py:add", parameters=("width",))
    assert key == "reference"
    assert message == "line 3 of ./ref.py: add asks for 'widht', which is not known"


def test_constant_memory_is_declared_like_arguments(tmp_path):
    given = {"filter": "float32[k] normal", "scale": "float32 = 2 * k"}
    first = made(tmp_path, constants=given, problem=("n", "k"), reference={"c": "scale * a + sum(filter)"})
    assert Declaration.restored(first.reference) == first
    assert first.constants == ("filter", "scale")
    assert [one.name for one in first.passed] == list(ADDITION)
    assert "constants" not in made(tmp_path).reference  # the references of other files stay as they are


@pytest.mark.parametrize(
    ("constants", "key", "message"),
    [
        ({"a": "float32[3]"}, "constants.a", "an argument has this name, too"),
        ({"f": "out float32[3]"}, "constants.f", "a kernel cannot write constant memory"),
        ({"f": "float32[k]"}, "constants.f", "unknown name 'k'"),
        ({"f": "flaot32[3]"}, "constants.f", "unknown type 'flaot32' (column 1)"),
        ("f", "constants", "wrong type"),
    ],
)
def test_mistakes_in_constant_memory(constants, key, message, tmp_path):
    assert mistakes(tmp_path, constants=constants) == [(key, message)]


def test_element_types_follow_parameters(tmp_path):
    arguments = {"y": "out {T}[n]", "x": "{T}[n]", "a": "float32 = 2"}
    first = made(tmp_path, arguments=arguments, parameters=("T", "bs"), reference={"y": "a * x"})
    assert Declaration.restored(first.reference) == first
    assert (first.type_parameters, first.parameters) == (("T",), ("T",))
    typed = first.typed({"n": 3, "T": "double"})
    assert [argument.dtype for argument in typed.arguments] == ["float64", "float64", "float32"]
    assert typed.type_parameters == ()
    with pytest.raises(UserError, check=coded("unknown-name", key="problem.T", found="dbl")):
        first.typed({"n": 3, "T": "dbl"})
    assert mistakes(tmp_path, arguments=arguments, parameters=("U",)) == [
        ("arguments.y", "unknown name 'T'"),
        ("arguments.x", "unknown name 'T'"),
    ]
