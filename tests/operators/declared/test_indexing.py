"""Contents of declared arrays at any index."""

import numpy as np
import pytest

from lab.base.errors import UserError
from lab.operators.declared import restricted
from lab.operators.declared.arrays import evaluate_part
from lab.operators.declared.declaration import declare
from lab.operators.declared.indexing import indexed_inputs
from lab.operators.declared.inputs import inputs, plan
from lab.operators.indexed import PAGE


def described(arguments, problem, folder):
    declaration, mistakes = declare("k", arguments=arguments, folder=folder, problem=tuple(problem), parameters=())
    assert declaration is not None, mistakes
    return declaration, plan(declaration, problem)


ARGUMENTS = {
    "y": "out float32[n]",
    "w": "scratch float32[n]",
    "done": "scratch uint32[n] zeros",
    "one": "inout float32[n] ones",
    "place": "int32[n] range",
    "made": "float32[n] = 2 * arange(n) + 1",
    "x": "float32[n]",
    "u": "int32[n] uniform 5 9",
}


def test_contents_without_chance_are_those_of_arrays(tmp_path):
    declaration, planned = described(ARGUMENTS, {"n": 3 * PAGE + 5}, tmp_path)
    indexed, whole = indexed_inputs(declaration, planned, 0), inputs(declaration, planned, 0)
    assert (indexed.outputs, indexed.required) == (whole.outputs, whole.required)
    assert indexed.scratch == {"w": False, "done": True}
    for name in ("y", "w", "done", "one", "place", "made"):
        held = indexed.arrays[name].read(0, planned.shapes[name][0])
        np.testing.assert_array_equal(held.view(np.uint32), whole.arrays[name].view(np.uint32), err_msg=name)


def test_random_contents_depend_on_the_index_alone(tmp_path):
    declaration, planned = described({**ARGUMENTS, "place": "int64[n] range"}, {"n": 1 << 33}, tmp_path)
    first, two = (indexed_inputs(declaration, planned, 3) for _ in range(2))
    far = (1 << 33) - 100
    np.testing.assert_array_equal(first.arrays["x"].read(far, 1 << 33), two.arrays["x"].read(far, 1 << 33))
    values = first.arrays["x"].read(0, 4 * PAGE)
    assert abs(values.mean()) < 0.02
    assert abs(values.std() - 1) < 0.02
    assert not np.array_equal(values[:PAGE], values[PAGE : 2 * PAGE])
    assert set(np.unique(first.arrays["u"].read(far, 1 << 33))) == {5, 6, 7, 8}


def test_what_does_not_fit_is_refused(tmp_path):
    declaration, planned = described({"y": "out float32[n]", "i": "int32[n] range"}, {"n": 1 << 32}, tmp_path)
    with pytest.raises(UserError) as caught:
        indexed_inputs(declaration, planned, 0)
    assert caught.value.key == "arguments.i"


def test_a_file_is_read(tmp_path):
    np.save(tmp_path / "v.npy", np.arange(6, dtype=np.float32))
    declaration, planned = described({"y": "out float32[n]", "v": "float32[n] v.npy"}, {"n": 6}, tmp_path)
    assert indexed_inputs(declaration, planned, 0).arrays["v"].read(2, 4).tolist() == [2, 3]


def test_values_that_need_all_elements_are_evaluated_once(tmp_path, monkeypatch):
    arguments = {"y": "out float32[n]", "x": "float32[n] = linspace(0, 1, n)"}
    declaration, planned = described(arguments, {"n": 40 * PAGE}, tmp_path)
    evaluated: list[str] = []

    def counted(part, names, rules):
        evaluated.append(str(part))
        return evaluate_part(part, names, rules)

    monkeypatch.setattr(restricted, "evaluate_part", counted)
    held = indexed_inputs(declaration, planned, 0)
    assert held is not None
    np.testing.assert_array_equal(held.arrays["x"].read(0, 40 * PAGE), np.linspace(0, 1, 40 * PAGE, dtype=np.float32))
    assert sum("linspace" in part for part in evaluated) == 1
    declaration, planned = described(arguments, {"n": 1 << 23}, tmp_path)
    assert indexed_inputs(declaration, planned, 0) is None
