"""Concrete problems of an experiment, and the names of their files."""

from __future__ import annotations

import numpy as np
import pytest
from mistakes import coded

from lab.api.cases import cases_of, leading, path_of, save
from lab.base.errors import UserError
from lab.base.folder import Folder
from lab.experiment.load import from_text

SOURCE = "__global__ void f(float* y, int n) { y[threadIdx.x] = n + b; }"


@pytest.fixture
def experiment(tmp_path):
    (tmp_path / "k.cu").write_text(SOURCE)

    def make(problem, emulate="{n: 4}", shape="n", parameters="{b: [1, 2]}"):
        text = (
            f"source: k.cu\nproblem: {problem}\nemulate: {emulate}\nparameters: {parameters}\n"
            f'arguments: {{y: "out float32[{shape}]", n: int32}}\ngrid: 1\nblock: 32\n'
        )
        return from_text(text, tmp_path / "k.yaml")

    return make


def test_every_problem_is_a_case_and_then_its_smaller_one(experiment):
    cases = cases_of(experiment("{n: [8, 16]}"))
    assert [(case.fields["n"], case.emulated) for case in cases] == [(8, False), (16, False), (4, True)]
    assert path_of("y", cases) == "y-{n}.npy"
    assert path_of("y", cases[:1]) == "y.npy"


def test_a_problem_that_is_small_already_is_one_case(experiment):
    assert len(cases_of(experiment("{n: 4}"))) == 1


def test_parameters_that_shapes_mention_make_cases(experiment):
    cases = cases_of(experiment("{n: 8}", shape="n * b"))
    assert [(case.fields["n"], case.fields["b"]) for case in cases] == [(8, 1), (8, 2), (4, 1), (4, 2)]
    assert path_of("y", cases) == "y-{n}-{b}.npy"
    assert path_of("y", cases, ["n"]) == "y-{n}.npy"


def test_text_that_cannot_name_a_file_is_refused(experiment):
    cases = cases_of(experiment("[{n: 8, way: a/b}, {n: 9, way: c}]"))
    with pytest.raises(UserError, check=coded("wrong-value", key="problem.way", found="a/b")) as caught:
        path_of("y", cases)
    assert caught.value.key == "problem.way"


def test_the_leading_part_of_an_array(experiment):
    cases = cases_of(experiment("{n: 8}"))
    whole = np.arange(8)
    assert [part.tolist() for _, part in leading("y", whole, cases)] == [list(range(8)), [0, 1, 2, 3]]
    for wrong in (np.arange(9), np.arange(4), np.zeros((8, 1))):
        with pytest.raises(UserError, check=coded("mismatch", key="arguments.y")):
            list(leading("y", wrong, cases))


def test_an_array_is_written_once(tmp_path):
    save(Folder(tmp_path), "a.npy", np.arange(3))
    before = (tmp_path / "a.npy").stat().st_mtime_ns
    save(Folder(tmp_path), "a.npy", np.arange(3))
    assert (tmp_path / "a.npy").stat().st_mtime_ns == before
    save(Folder(tmp_path), "a.npy", np.arange(4)[::-1])
    assert np.load(tmp_path / "a.npy").tolist() == [3, 2, 1, 0]
