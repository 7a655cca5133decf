"""Experiments as mappings: the file that is made, and the arrays beside it."""

from __future__ import annotations

import numpy as np
import pytest

from lab.api.mapping import ArraysByCase, name_of, written
from lab.base.errors import UserError
from lab.base.yamlfile import parse
from lab.experiment.load import load
from lab.operators.declared.operator import declared

SOURCE = """__global__ void add(float* c, const float* a, const float* b, int n, float s)
{ int i = blockIdx.x * block + threadIdx.x; if (i < n) c[i] = a[i] + s * b[i]; }
"""


def given(**changed):
    whole = {
        "source": SOURCE,
        "problem": {"n": 100},
        "emulate": {"n": 10},
        "arguments": {"c": "out float32[n]", "a": "float32[n]", "b": "float32[n]", "n": "int32", "s": 2},
        "parameters": {"block": np.array([32, 64])},
        "grid": "ceil_div(n, block)",
        "block": "block",
        "reference": {"c": "a + s * b"},
        **changed,
    }
    return {name: value for name, value in whole.items() if value is not None}


def arguments(**changed):
    return {**given()["arguments"], **changed}


def refused(folder, **changed):
    with pytest.raises(UserError) as caught:
        written(given(**changed), folder)
    assert caught.value.at is None
    return caught.value


def operator_and_cases(file):
    experiment = load(file)
    (problem,) = experiment.problems
    return declared(experiment.operator_reference), problem.values, problem.emulate


def test_the_file_can_be_read_and_says_what_was_given(tmp_path):
    file = written(given(), tmp_path)
    assert file == tmp_path / "input" / "add.yaml"
    data = parse(file.read_text(), file).data
    assert data["arguments"]["s"] == "float32 = 2"  # the kernel's type
    assert data["parameters"] == {"block": [32, 64]}
    assert (file.parent / data["source"]).read_text() == SOURCE
    assert load(file).name == "add"


def test_a_source_is_copied_with_what_it_includes(tmp_path, monkeypatch):
    (tmp_path / "src" / "sub").mkdir(parents=True)
    (tmp_path / "src" / "mine.cu").write_text('#include "sub/h.cuh"\n' + SOURCE)
    (tmp_path / "src" / "sub" / "h.cuh").write_text("#define H 1\n")
    monkeypatch.chdir(tmp_path)
    file = written(given(source="src/mine.cu"), tmp_path / "out")
    assert (file.parent / "mine.cu").is_file()
    assert (file.parent / "sub" / "h.cuh").read_text() == "#define H 1\n"
    assert name_of({"source": "src/mine.cu"}) == "add"
    assert name_of({"source": SOURCE, "kernel": "ns::add<float, {block}>"}) == "add"


def test_a_copy_of_a_source_includes_copies_of_what_is_above_it(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "mine.cu").write_text('#include "../h.cuh"\n' + SOURCE)
    (tmp_path / "h.cuh").write_text("#define H 1\n")
    file = written(given(source=str(tmp_path / "src/mine.cu"), root=str(tmp_path)), tmp_path / "out")
    assert (file.parent / "mine.cu").read_text().startswith('#include "h.cuh"\n')
    assert (file.parent / "h.cuh").read_text() == "#define H 1\n"
    assert "root" not in file.read_text()
    with pytest.raises(UserError) as caught:
        written(given(source=str(tmp_path / "src/mine.cu")), tmp_path / "other")
    assert (caught.value.key, caught.value.found) == ("root", "../h.cuh")


def test_an_array_shrinks_with_the_problem(tmp_path):
    a = np.arange(100, dtype=np.float32)
    file = written(given(arguments=arguments(a=a, b=("float32[n]", -a))), tmp_path)
    operator, values, small = operator_and_cases(file)
    assert (operator.inputs(operator.problem(dict(values)), 0).arrays["a"] == a).all()
    held = operator.inputs(operator.problem(dict(small)), 0)
    assert (held.arrays["a"] == a[:10]).all()
    assert (held.arrays["b"] == -a[:10]).all()


def test_arrays_may_be_members_of_a_structure(tmp_path):
    source = "struct P { float *y; const float *x; int n; };\n__global__ void k(P p) { p.y[threadIdx.x] = p.x[p.n]; }"
    x = np.arange(100, dtype=np.float32)
    members = {"y": "out float32[n]", "x": x, "n": "int32"}
    whole = given(source=source, arguments={"p": members}, grid=1, reference={"y": "x"}, emulate={"n": 10})
    operator, _, small = operator_and_cases(written({**whole, "problem": {"n": 100}}, tmp_path))
    assert [one.structure for one in operator.declaration.passed] == ["p", "p", "p"]
    assert (operator.inputs(operator.problem(dict(small)), 0).arrays["x"] == x[:10]).all()


def test_a_matrix_gives_its_leading_block(tmp_path):
    source = "__global__ void t(float* y, const float* x, int m, int n) { y[threadIdx.x] = x[m + n]; }"
    x = np.arange(600, dtype=np.float32).reshape(20, 30)
    whole = given(
        source=source,
        problem={"m": 20, "n": 30},
        emulate={"m": 4, "n": 5},
        arguments={"y": "out float32[n, m]", "x": x, "m": "int32", "n": "int32"},
        grid=1,
        reference={"y": "transpose(x)"},
    )
    operator, _, small = operator_and_cases(written(whole, tmp_path))
    held = operator.inputs(operator.problem(dict(small)), 0).arrays["x"]
    assert (held.reshape(4, 5) == x[:4, :5]).all()


def test_a_function_is_called_once_a_problem_and_only_where_it_is_needed(tmp_path):
    sizes = []

    def expected(a, b, s, n):
        assert a.shape == (n,)
        sizes.append(n)
        return a + s * b

    written(given(reference=expected), tmp_path, measured=False)
    assert sizes == [10]
    file = written(given(reference={"c": expected}), tmp_path)
    assert sizes == [10, 100, 10]
    operator, _, small = operator_and_cases(file)
    problem = operator.problem(dict(small))
    inputs = operator.inputs(problem, 0)
    right = inputs.arrays["a"] + np.float32(2) * inputs.arrays["b"]
    reference = operator.reference(problem, inputs)
    assert operator.verify(problem, reference, {"c": right})[0] <= 1
    assert operator.verify(problem, reference, {"c": right + np.float32(1e-3)})[0] > 1


def test_a_function_sees_the_parameters_that_shapes_mention(tmp_path):
    source = "__global__ void p(float* part, const float* x, int n) { part[blockIdx.x] = x[threadIdx.x] * block * n; }"
    calls = []

    def expected(x, part_size):
        calls.append(part_size)
        return np.zeros(part_size)

    whole = given(
        source=source,
        problem={"n": 64},
        emulate=None,
        arguments={"part": "out float32[part_size]", "x": "float32[n]", "n": "int32"},
        parameters={"block": [32], "part_size": [2, 4]},
        grid="part_size",
        reference=expected,
    )
    written(whole, tmp_path)
    assert calls == [2, 4]
    names = {one.name for one in (tmp_path / "input").glob("expected*")}
    assert names == {"expected-part-2.npy", "expected-part-4.npy"}


def test_expected_arrays(tmp_path):
    c = np.zeros(100)
    file = written(given(emulate=None, reference={"c": c}), tmp_path)
    assert (np.load(file.parent / "expected-c.npy") == c).all()
    assert refused(tmp_path, reference={"c": c}).key == "reference.c"  # and the smaller problem?
    assert "shape [100]" in str(refused(tmp_path, emulate=None, reference={"c": c[1:]}))
    by_case = ArraysByCase(c, c[:10] + 1)
    operator, _, small = operator_and_cases(written(given(reference={"c": by_case}), tmp_path))
    problem = operator.problem(dict(small))
    assert (operator.reference(problem, operator.inputs(problem, 0))["c"].values == 1).all()


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ({"source": None}, "source"),
        ({"source": "no/such.cu"}, "source"),
        ({"source": 3}, "source"),
        ({"grid": None}, "grid"),
        ({"grdi": 1}, "grdi"),
        ({"parameters": {"block": object()}}, "parameters.block"),
        ({"arguments": arguments(a=object())}, "arguments.a"),
        ({"arguments": arguments(a="float33[n]")}, "arguments.a"),
        ({"arguments": arguments(a=np.zeros((3, 0)))}, "arguments.a"),
        ({"arguments": arguments(a=np.array(["text"]))}, "arguments.a"),
        ({"arguments": arguments(a=("float32[n] zeros", np.zeros(100)))}, "arguments.a"),
        ({"arguments": arguments(a=("float32", np.zeros(100)))}, "arguments.a"),
        ({"arguments": arguments(a=("float32[n]", np.zeros(99, np.float32)))}, "arguments.a"),
        ({"arguments": "text"}, "arguments"),
        ({"reference": {"d": np.zeros(100)}, "emulate": None}, "reference.d"),
        ({"reference": lambda d: d}, "reference"),
        ({"reference": lambda a: a[1:]}, "reference.c"),
        ({"reference": lambda a: 1 / 0}, "reference"),
    ],
)
def test_every_mistake_names_its_key(tmp_path, changed, key):
    whole = {**given(), **changed}
    with pytest.raises(UserError) as caught:
        written({name: value for name, value in whole.items() if value is not None}, tmp_path)
    first = getattr(caught.value, "errors", [caught.value])[0]
    assert (first.at, first.key) == (None, key), str(caught.value)


def test_an_ambiguous_dimension_is_asked_for(tmp_path):
    square = np.zeros(100, np.float32)
    found = refused(tmp_path, problem={"n": 100, "m": 100}, arguments=arguments(a=square))
    assert found.key == "arguments.a"
    assert "may be n or m" in found.message
