"""Arrays in files, one for all problems or one for each."""

from __future__ import annotations

import numpy as np
import pytest
from mistakes import coded

from lab.base.errors import UserError
from lab.operators.declared.array_files import files_of, is_file, names_in_path, path_for
from lab.operators.declared.declaration import Declaration, declare
from lab.operators.declared.operator import declared

ARGUMENTS = {"c": "out float32[n]", "a": "float32[n] a-{n}.npy"}


def made(folder, reference, problem=("n",), **fields):
    return declare(
        "k", arguments=ARGUMENTS, reference=reference, folder=folder, problem=problem, parameters=(), **fields
    )


@pytest.fixture
def folder(tmp_path):
    for n in (3, 5):
        np.save(tmp_path / f"a-{n}.npy", np.arange(n, dtype=np.float32))
        np.save(tmp_path / f"c-{n}.npy", 2 * np.arange(n, dtype=np.float32))
    return tmp_path


def test_what_is_a_file():
    assert is_file("c-{n}.npy")
    assert not is_file("a + b")
    assert names_in_path("a-{n}-{m}.npy") == ("n", "m")
    assert path_for("a-{n}-{x}.npy", {"n": 3, "x": 0.5}) == "a-3-0.5.npy"


def test_a_path_stands_for_every_file_that_it_may_mean(folder):
    assert files_of("a-{n}.npy", folder) == ("a-3.npy", "a-5.npy")
    assert files_of("a-3.npy", folder) == ("a-3.npy",)
    assert files_of("b-{n}.npy", folder) == ()
    assert files_of("{n}/a.npy", folder) == ()
    assert files_of("none/a-{n}.npy", folder) == ()


def test_each_problem_has_its_files(folder):
    declaration, mistakes = made(folder, {"c": "c-{n}.npy"})
    assert mistakes == ()
    assert [path for path, _ in declaration.files] == ["a-3.npy", "a-5.npy", "c-3.npy", "c-5.npy"]
    assert Declaration.restored(declaration.reference) == declaration
    operator = declared(declaration.reference)
    for n in (3, 5):
        problem = operator.problem({"n": n})
        inputs = operator.inputs(problem, 0)
        expected = operator.reference(problem, inputs)
        right = 2 * inputs.arrays["a"]
        assert operator.verify(problem, expected, {"c": right})[0] == 0
        right[n - 1] += 1
        largest, tolerance, worst = operator.verify(problem, expected, {"c": right})
        assert largest > tolerance
        assert worst.startswith(f"c[{n - 1}]")


def test_a_file_that_is_missing_names_its_key(folder):
    _, mistakes = made(folder, {"c": "d.npy"})
    assert [(mistake.message, mistake.key) for mistake in mistakes] == [("no such file", "reference.c")]
    _, mistakes = made(folder, {"c": "c-{m}.npy"})
    assert "unknown name 'm'" in mistakes[0].message
    declaration, _ = made(folder, {"c": "c-{n}.npy"})
    operator = declared(declaration.reference)
    with pytest.raises(UserError, check=coded("mismatch", key="arguments.a")):
        operator.inputs(operator.problem({"n": 4}), 0)


def several(file):
    with file.open("wb") as written:
        np.savez(written, a=np.zeros(3, np.float32), b=np.zeros(3, np.float32))


def endless(file):
    with file.open("wb") as written:
        np.lib.format.write_array_header_1_0(written, {"descr": "<f4", "fortran_order": False, "shape": (2**60,)})


@pytest.mark.parametrize("write", [several, endless, lambda file: file.write_bytes(b"PK\x03\x04")])
def test_a_file_that_is_no_single_array_is_refused(folder, write):
    write(folder / "a-3.npy")
    declaration, _ = made(folder, {"c": "c-{n}.npy"})
    operator = declared(declaration.reference)
    with pytest.raises(UserError, check=coded("mismatch", key="arguments.a")):
        operator.inputs(operator.problem({"n": 3}), 0)


def test_expected_values_of_another_shape_are_refused(folder):
    np.save(folder / "c-5.npy", np.zeros((5, 1), np.float32))
    declaration, _ = made(folder, {"c": "c-{n}.npy"})
    operator = declared(declaration.reference)
    problem = operator.problem({"n": 5})
    with pytest.raises(UserError, check=coded("mismatch", key="reference.c")):
        operator.reference(problem, operator.inputs(problem, 0))
