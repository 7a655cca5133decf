from __future__ import annotations

from typing import Any

import pytest
from mistakes import coded

from lab.base import yamlfile
from lab.base.errors import UserError
from lab.experiment.problems import ProblemCase, problems, show, values_of
from lab.experiment.schema import ExperimentFile
from lab.operators.contraction import Contraction
from lab.operators.gemm import Gemm, GemmProblem

REST = "question: q\noperator: gemm\nkernels: [{template: t}]\n"


def read(text: str) -> tuple[tuple[ProblemCase, ...], tuple[str, ...]]:
    document = yamlfile.parse(REST + text, "e.yaml")
    return problems(Gemm(), ExperimentFile.model_validate(document.data), document)


def refused(text: str) -> UserError:
    with pytest.raises(UserError) as error:
        read(text)
    return error.value


def test_a_single_problem_is_typed_and_has_no_label() -> None:
    (case,), axes = read("problem: {m: 4, n: 5, k: 6}")
    assert isinstance(case.values, GemmProblem)
    assert (case.values.lda, case.label, case.emulate, axes) == (4, "", None, ())


def test_lists_are_swept_and_name_the_axes() -> None:
    cases, axes = read("problem: {m: [4, 8], n: 5, k: {range: [2, 6, 2]}, alpha: 2}")
    assert axes == ("m", "k")
    assert [case.label for case in cases][:3] == ["m=4 k=2", "m=4 k=4", "m=4 k=6"]
    assert len(cases) == 6


def test_problems_of_a_list_may_have_names_of_their_own() -> None:
    cases, axes = read("problem: [{name: a, m: 1, n: 2, k: 3}, {name: b, m: 4, n: 2, k: 3}]")
    assert axes == ("name",)
    assert [case.label for case in cases] == ["a", "b"]
    assert next(iter(cases[0].values.items())) == ("name", "a")


def test_equal_problems_are_one() -> None:
    cases, _ = read("problem: {m: [4, 4], n: 5, k: 6, beta: [0, 0.0]}")
    assert len(cases) == 1


def test_the_emulated_size_replaces_fields_and_never_grows_one() -> None:
    cases, _ = read("problem: [{m: 100, n: 2, k: 30}, {m: 8, n: 9, k: 7, emulate: {n: 3}}]\nemulate: {m: 10, n: 5}")
    emulated = [case.emulate for case in cases]
    assert [dict(one)["m"] for one in emulated if one] == [10, 8]
    assert [dict(one)["n"] for one in emulated if one] == [2, 3]
    assert [dict(one)["lda"] for one in emulated if one] == [10, 8]


def test_the_problem_itself_may_be_executed() -> None:
    cases, _ = read("problem: [{m: 100, n: 2, k: 30}, {m: 8, n: 9, k: 7, emulate: {n: 3}}]\nemulate: full")
    assert [case.whole for case in cases] == [True, False]
    assert cases[0].emulate == cases[0].values
    assert cases[1].emulate is not None
    assert dict(cases[1].emulate)["n"] == 3
    cases, _ = read("problem: [{m: 100, n: 2, k: 30, emulate: full}]\nemulate: {m: 10}")
    assert [case.whole for case in cases] == [True]
    assert cases[0].at_full_size() == cases[0]


@pytest.mark.parametrize(
    ("text", "line", "key", "words"),
    [
        ("problem: {m: 4, n: 5, kk: 6}", 4, "problem.kk", "did you mean 'k'?"),
        ("problem: {m: 4, n: 5}", 4, "problem.k", "a key is missing"),
        ("problem:\n  m: [4, 0]\n  n: 5\n  k: 6", 5, "problem.m", "an integer from 1"),
        ("problem: {m: 4, n: 5, k: 6, layout: nx}", 4, "problem.layout", "nn, nt, tn, tt"),
        ("problem: {m: 4, n: 5, k: 6, lda: 3}", 4, "problem.lda", "an integer from 4"),
        ("problem: {m: {a: 1}, n: 5, k: 6}", 4, "problem.m", "range"),
        ("problem: {m: [], n: 5, k: 6}", 4, "problem.m", "at least one value"),
        ("problem: {m: [[4]], n: 5, k: 6}", 4, "problem.m", "a single value"),
        ("problem: {name: a, m: 4, n: 5, k: 6}", 4, "problem.name", "unknown key"),
        ("problem: []", 4, "problem", "at least one mapping"),
        ("problem: [4]", 4, "problem[0]", "a mapping"),
        ("problem: [{name: 4, m: 4, n: 5, k: 6}]", 4, "problem[0].name", "as text"),
        ("problem: [{m: 4, n: 5, k: 6, emulate: 3}]", 4, "problem[0].emulate", "a mapping"),
        ("problem: [{m: 4, n: 5, k: 6, emulate: all}]", 4, "problem[0].emulate", "or full"),
        ("problem: {m: 4, n: 5, k: 6}\nemulate: {mm: 3}", 5, "emulate.mm", "unknown key"),
        ("problem: {m: {range: [1, 10001, 1]}, n: 5, k: 6}", 4, "problem.m", "at most 10000"),
        ("problem: {m: {range: [0, 9223372036854775807, 1]}, n: 5, k: 6}", 4, "problem.m", "at most 10000"),
        ("problem: {m: {range: [1, 200, 1]}, n: {range: [1, 200, 1]}, k: 6}", 4, "problem", "too many problems"),
    ],
)
def test_a_mistake_is_named_where_it_stands(text: str, line: int, key: str, words: str) -> None:
    error = refused(text)
    assert (error.at and error.at.line, error.key) == (line, key)
    assert words in str(error)


@pytest.mark.parametrize(
    ("given", "values"),
    [
        (4, [4]),
        ("nn", ["nn"]),
        ([4, True], [4, True]),
        ({"range": [1, 7, 3]}, [1, 4, 7]),
        ({"range": [1, 6, 3]}, [1, 4]),
        ({"range": [5, 5, 1]}, [5]),
        ({"range": [0, 2**63 - 1, 2**62]}, [0, 2**62]),
    ],
)
def test_what_an_entry_stands_for(given: object, values: list[object]) -> None:
    assert values_of(given, yamlfile.parse("a: 1", "e.yaml"), ("a",)) == values


@pytest.mark.parametrize(
    "given",
    [[], {"range": [1, 2]}, {"range": [1, 2, 0]}, {"range": [3, 2, 1]}, {"range": [1, 2.5, 1]}, {"r": [1, 2, 3]}],
)
def test_a_wrong_entry_is_refused(given: Any) -> None:
    with pytest.raises(UserError):
        values_of(given, yamlfile.parse("a: 1", "e.yaml"), ("a",))


def test_values_are_shown_as_yaml_spells_them() -> None:
    assert [show(value) for value in (True, 4, 0.5, "nn")] == ["true", "4", "0.5", "nn"]


def test_index_assignments_are_lists_or_texts_and_lists_of_them_are_swept() -> None:
    text = "problem: {IndexAssignmentsA: %s, IndexAssignmentsB: [1, 3, 2], NumIndicesC: 3, i: 4, j: 5, k: 2, l: 3}"

    def assigned(a: str) -> list[object]:
        document = yamlfile.parse(REST.replace("gemm", "contraction") + text % a, "e.yaml")
        cases, _ = problems(Contraction(), ExperimentFile.model_validate(document.data), document)
        assert {case.values["IndexAssignmentsB"] for case in cases} == {"1,3,2"}
        return [case.values["IndexAssignmentsA"] for case in cases]

    assert assigned("[0, 3, 2]") == assigned('"0,3,2"') == assigned("[[0, 3, 2]]") == ["0,3,2"]
    assert assigned("[[0, 3, 2], [3, 0, 2]]") == assigned('["0,3,2", [3, 0, 2]]') == ["0,3,2", "3,0,2"]
    with pytest.raises(UserError, check=coded("wrong-type", key="problem.IndexAssignmentsA", line=4)):
        assigned("[0, x, 2]")
