"""The second set of inputs: what it holds, and which mistakes it shows."""

from __future__ import annotations

import numpy as np
import pytest

from lab.operators.builtin import operator
from lab.operators.declared.declaration import declare
from lab.operators.declared.discriminating import integer_range, other_problems
from lab.operators.declared.elements import ELEMENT_TYPES, ElementKind

INTEGERS = [name for name, one in ELEMENT_TYPES.items() if one.kind is ElementKind.INTEGER]
FLOATS = [name for name, one in ELEMENT_TYPES.items() if one.kind in (ElementKind.FLOAT, ElementKind.COMPLEX)]


def made(folder, arguments, reference=None, n=1000, **more):
    declaration, mistakes = declare(
        "k",
        arguments={**arguments, "n": "int32"},
        reference=reference,
        folder=folder,
        problem=["n", *more],
        parameters=(),
    )
    assert mistakes == ()
    computed = operator(declaration.reference)
    return computed, computed.problem({"n": n, **more})


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_take_their_range(dtype, tmp_path):
    computed, problem = made(tmp_path, {"y": "out int32[n]", "x": f"{dtype}[n]"})
    other = computed.other_inputs(problem, 0)[0]
    x, (low, high) = other.inputs.arrays["x"], integer_range(ELEMENT_TYPES[dtype])
    assert other.changed == ("x",)
    assert x.dtype == dtype
    assert (int(x.min()), int(x.max())) == (low, high)
    assert {one for one in (-1, 0, 1) if one >= low} <= set(x.tolist())
    assert len(np.unique(x)) > 200
    if x.dtype.itemsize > 2:  # products of two, and sums of two such, fit 32 bits
        assert 2 * max(-low, high) ** 2 < (2**31 if low < 0 else 2**33)
    np.testing.assert_array_equal(x, computed.other_inputs(problem, 0)[0].inputs.arrays["x"])
    assert not np.array_equal(x, computed.other_inputs(problem, 1)[0].inputs.arrays["x"])


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_have_zeros_and_several_magnitudes(dtype, tmp_path):
    computed, problem = made(tmp_path, {"y": "out float32[n]", "x": f"{dtype}[n]"}, n=4000)
    other = computed.other_inputs(problem, 0)[0]
    values = ELEMENT_TYPES[dtype].widened(other.inputs.arrays["x"])
    size = np.abs(values)
    assert np.isfinite(values).all()
    assert np.mean(size == 0) > 0.01
    assert 0.01 < np.mean(size > 8) < 0.05
    assert 0.4 < np.mean(np.real(values) < 0) < 0.5
    assert np.median(size) > 0.3


def test_contents_that_the_file_names_are_kept(tmp_path):
    arguments = {
        "y": "out float32[n]",
        "a": "int32[n] uniform 0 100",
        "b": "float32[n] normal",
        "c": "inout int32[n] zeros",
        "d": "bool[n]",
    }
    computed, problem = made(tmp_path, arguments)
    assert computed.other_inputs(problem, 0) == ()
    computed, problem = made(tmp_path, {**arguments, "e": "inout {T}[n]"}, T="int16")
    first, other = computed.inputs(problem, 0), computed.other_inputs(problem, 0)[0]
    assert other.changed == ("e",)
    for name in "yabcd":
        np.testing.assert_array_equal(first.arrays[name], other.inputs.arrays[name])
    assert (other.inputs.arrays["e"] < 0).any()
    assert (other.inputs.required, other.inputs.scalars) == (first.required, first.scalars)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_small_arrays(n, tmp_path):
    computed, problem = made(tmp_path, {"y": "out int8[n]", "x": "int8[n]", "z": "float32[n]"}, n=n)
    assert computed.other_inputs(problem, 0)[0].inputs.arrays["x"].shape == (n,)


MISTAKES = {
    "/ for //": ("x // 2", "int32", lambda x: np.trunc(x / 2)),
    "a cast to signed char": ("x", "uint8", lambda x: x.astype(np.int8)),
    "a narrow copy": ("x", "int32", lambda x: x.astype(np.int8)),
    "abs dropped": ("abs(x)", "int32", lambda x: x),
    "unsigned comparison": ("maximum(x, 5)", "int32", lambda x: np.maximum(x.view(np.uint32), 5)),
    "a copy through float32": ("x[::-1] + 7", "int32", lambda x: (x[::-1].astype(np.float32) + 7).astype(np.int64)),
    "a signed shift": ("x >> 3", "uint32", lambda x: x.view(np.int32) >> 3),
    "a product in 32 bits": ("int64(x) * x", "int32", lambda x: x * x),
    "a largest value that begins at 0": ("max(x)", "int32", lambda x: np.full(x.size, max(0, x.max()))),
    "a least value that begins at 0": ("min(x)", "float32", lambda x: np.full(x.size, min(0, x.min()))),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_that_the_first_set_hides(mistake, tmp_path):
    reference, dtype, kernel = MISTAKES[mistake]
    result = "int64" if "64" in reference else dtype if dtype in {"uint32", "float32"} else "int32"
    computed, problem = made(tmp_path, {"y": f"out {result}[n]", "x": f"{dtype}[n]"}, {"y": reference})
    passed = []
    for given in (computed.inputs(problem, 0), *(one.inputs for one in computed.other_inputs(problem, 0))):
        wanted = computed.reference(problem, given)
        error, tolerance, _ = computed.verify(problem, wanted, {"y": kernel(given.arrays["x"]).astype(result)})
        passed.append(error <= tolerance)
    assert passed[0]
    assert not all(passed)


SOUND = {
    "x * 3 + y": lambda x, y: x * np.int32(3) + y,
    "x * y - y * y": lambda x, y: x * y - y * y,
    "(x * x + y * y) // 7": lambda x, y: (x * x + y * y) // np.int32(7),
    "abs(x - y)": lambda x, y: np.abs(x - y),
    "cumsum(x * y)": lambda x, y: np.cumsum(x * y, dtype=np.int32),
    "where(x > y, x * y, -x)": lambda x, y: np.where(x > y, x * y, -x),
    "maximum(x, y) - minimum(x, y)": lambda x, y: np.maximum(x, y) - np.minimum(x, y),
    "maximum(x + y, 0)": lambda x, y: np.maximum(x + y, 0),
}


@pytest.mark.parametrize("reference", SOUND)
def test_arithmetic_in_32_bits_is_not_accused(reference, tmp_path):
    computed, problem = made(tmp_path, {"z": "out int32[n]", "x": "int32[n]", "y": "int32[n]"}, {"z": reference})
    for other in computed.other_inputs(problem, 0):
        arrays = other.inputs.arrays
        with np.errstate(over="ignore"):
            z = SOUND[reference](arrays["x"], arrays["y"])
        assert z.dtype == np.int32
        assert computed.verify(problem, computed.reference(problem, other.inputs), {"z": z})[0] == 0, other.contents


SIZED = {"c": "out float32[m, n]", "a": "float32[m * step, ld]", "b": "float32[k, n]", "alpha": "float32"}


@pytest.mark.parametrize(
    ("small", "real", "expected"),
    [
        ({"alpha": 0}, {}, [{"alpha": 0.5}]),
        ({"alpha": 0.25}, {}, []),
        ({"m": 40, "n": 40}, {"m": 1000, "n": 1000}, [{"m": 80}, {"n": 80}]),
        ({"m": 40, "n": 40}, {"m": 1000, "n": 1001}, []),
        ({"k": 24, "ld": 24}, {"k": 500, "ld": 500}, [{"ld": 28}]),
        ({"m": 40, "n": 40}, {"m": 60, "n": 60}, [{"m": 60}, {"n": 60}]),
        ({"m": 40, "n": 40}, {"m": 50, "n": 50}, [{"m": 50}, {"n": 50}]),
        ({"m": 40, "n": 40}, {"m": 40, "n": 40}, []),
        ({"step": 1}, {"step": 1}, [{"step": 2}]),
        ({"flag": 1}, {"flag": 1}, []),
    ],
)
def test_other_problems_differ_in_what_is_neutral_or_equal(small, real, expected, tmp_path):
    fields = {"m": 7, "n": 9, "k": 5, "ld": 6, "step": 3, "flag": 4, "alpha": 2}
    sizes = {name: "int32" for name in fields if name != "alpha"}
    declaration, mistakes = declare(
        "k",
        arguments={**SIZED, **sizes},
        reference={"c": "alpha * matmul(a[::step, :k], b)"},
        folder=tmp_path,
        problem=list(fields),
        parameters=(),
    )
    assert declaration is not None, mistakes
    given = {**fields, **small}
    assert (
        list(other_problems(declaration, given, {name: 10 * size for name, size in given.items()} | small | real))
        == expected
    )


def test_a_function_must_see_what_is_changed(tmp_path):
    (tmp_path / "ref.py").write_text("def f(x, step):\n    return x[::step]\n")
    arguments = {"y": "out float32[n]", "x": "float32[n * step]", "n": "int32", "step": "int32", "chunk": "int32"}
    declaration, mistakes = declare(
        "k", arguments=arguments, reference="./ref.py:f", folder=tmp_path, problem=["n", "step", "chunk"], parameters=()
    )
    assert mistakes == ()
    assert declaration is not None
    small, real = {"n": 32, "step": 1, "chunk": 32}, {"n": 96, "step": 1, "chunk": 96}
    assert other_problems(declaration, small, real) == ({"n": 64}, {"step": 2})
    (tmp_path / "ref.py").write_text("def f(x, step):\n    return x[: n * step : step]\n")
    assert other_problems(declaration, small, real) == ()
