"""The declared operator on kernels as users write them: what is right passes, what is wrong fails."""

from __future__ import annotations

import functools
import pickle

import numpy as np
import pytest
from mistakes import coded
from scipy import special

from lab.base.errors import UserError
from lab.measured.metrics import DeclaredFigure, DeclaredRate
from lab.measured.timing import Merit
from lab.operators.base import StandInMismatchError
from lab.operators.bfloat16 import from_float32, to_float32
from lab.operators.builtin import operator
from lab.operators.declared.declaration import declare
from lab.operators.declared.operator import Declared


def made(folder, arguments, reference=None, problem=(), parameters=(), **fields):
    found, mistakes = declare(
        "k", arguments=arguments, reference=reference, folder=folder, problem=problem, parameters=parameters, **fields
    )
    assert mistakes == ()
    return operator(found.reference)


class Kernel:
    """A kernel in NumPy: its declaration, a problem, and its computation in the kernel's arithmetic."""

    def __init__(self, arguments, reference, problem, compute):
        self.arguments, self.reference, self.problem, self.compute = arguments, reference, problem, compute


def single_dot(a, b):
    """Matrix product in single precision, term by term."""
    c = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        c += a[:, k : k + 1] * b[k]
    return c


def online_softmax(x):
    """As FlashAttention does: maximum and sum are corrected column by column."""
    m, s = np.full(x.shape[0], -np.inf, np.float32), np.zeros(x.shape[0], np.float32)
    for column in x.T:
        new = np.maximum(m, column)
        s = s * np.exp(m - new) + np.exp(column - new)
        m = new
    return np.exp(x - m[:, None]) / s[:, None]


def bodies(p, eps):
    d = p[None, :, :] - p[:, None, :]
    r = d[..., 0] * d[..., 0] + d[..., 1] * d[..., 1] + d[..., 2] * d[..., 2] + np.float32(eps)
    inverse = np.float32(1) / np.sqrt(r)
    w = inverse * inverse * inverse
    return functools.reduce(np.add, (d * w[..., None]).transpose(1, 0, 2))


def black_scholes(s, k, t):
    r, v = np.float32(0.02), np.float32(0.3)
    root = np.sqrt(t)
    d1 = (np.log(s / k) + (r + np.float32(0.5) * v * v) * t) / (v * root)
    d2 = d1 - v * root
    cdf = lambda x: (np.float32(0.5) * special.erfc(-x * np.float32(0.70710678))).astype(np.float32)  # noqa: E731
    return s * cdf(d1) - k * np.exp(-r * t) * cdf(d2)


KERNELS = {
    "vector addition": Kernel(
        {"c": "out float32[n]", "a": "float32[n]", "b": "float32[n]", "n": "int32"},
        {"c": "a + b"},
        {"n": 1000},
        lambda a, b, n: {"c": a + b},
    ),
    "copy with C's favourite names": Kernel(
        {"out": "out float32[n]", "in": "float32[n]", "n": "int32"},
        {"out": "in"},
        {"n": 100},
        lambda n, **given: {"out": given["in"]},
    ),
    "saxpy in place": Kernel(
        {"n": "int32", "alpha": "float32", "x": "float32[n]", "y": "inout float32[n]"},
        {"y": "alpha * x + y"},
        {"n": 1000, "alpha": 0.3},
        lambda n, alpha, x, y: {"y": np.float32(alpha) * x + y},
    ),
    "reduction": Kernel(
        {"total": "out float32[1]", "x": "float32[n]", "n": "int32"},
        {"total": "sum(x)"},
        {"n": 100_000},
        lambda x, n: {"total": np.cumsum(x)[-1:]},
    ),
    "histogram": Kernel(
        {"bins": "inout uint32[256] zeros", "x": "uint8[n] uniform 0 256", "n": "int32"},
        {"bins": "bins + bincount(x, minlength=256)"},
        {"n": 5000},
        lambda bins, x, n: {"bins": np.bincount(x, minlength=256)},
    ),
    "transpose": Kernel(
        {"b": "out float32[n, m]", "a": "float32[m, n]", "m": "int32", "n": "int32"},
        {"b": "transpose(a)"},
        {"m": 33, "n": 20},
        lambda a, m, n: {"b": a.T},
    ),
    "five-point stencil": Kernel(
        {"b": "inout float32[h, w] zeros", "a": "float32[h, w]", "h": "int32", "w": "int32"},
        {"b": "pad(0.2 * (a[1:-1, 1:-1] + a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]), 1)"},
        {"h": 40, "w": 50},
        lambda b, a, h, w: {
            "b": np.pad((a[1:-1, 2:] + a[1:-1, :-2] + a[2:, 1:-1] + a[:-2, 1:-1] + a[1:-1, 1:-1]) * np.float32(0.2), 1)
        },
    ),
    "inclusive scan": Kernel(
        {"y": "out float32[n]", "x": "float32[n]", "n": "int32"},
        {"y": "cumsum(x)"},
        {"n": 5000},
        lambda x, n: {"y": np.cumsum(x)},
    ),
    "batched small products": Kernel(
        {"c": "out float32[p, 4, 6]", "a": "float32[p, 4, 5]", "b": "float32[p, 5, 6]", "p": "int32"},
        {"c": "matmul(a, b)"},
        {"p": 50},
        lambda a, b, p: {"c": np.stack([single_dot(x, y) for x, y in zip(a, b, strict=True)])},
    ),
    "sgemm": Kernel(
        {"c": "inout float32[m, n]", "a": "float32[m, k]", "b": "float32[k, n]", "alpha": "float32", "beta": "float32",
         "m": "int32", "n": "int32", "k": "int32"},
        {"c": "alpha * matmul(a, b) + beta * c"},
        {"m": 30, "n": 20, "k": 500, "alpha": 1.5, "beta": -0.3},
        lambda c, a, b, alpha, beta, m, n, k: {"c": np.float32(alpha) * single_dot(a, b) + np.float32(beta) * c},
    ),
    "convolution": Kernel(
        {"y": "out float32[h - 4, w - 4]", "x": "float32[h, w]", "f": "float32[5, 5]", "h": "int32", "w": "int32"},
        {"y": "correlate2d(x, f)"},
        {"h": 30, "w": 31},
        lambda x, f, h, w: {
            "y": functools.reduce(
                np.add, [x[i : h - 4 + i, j : w - 4 + j] * f[i, j] for i in range(5) for j in range(5)]
            )
        },
    ),
    "softmax": Kernel(
        {"y": "out float32[m, n]", "x": "float32[m, n]", "m": "int32", "n": "int32"},
        {"y": "exp(x - max(x, axis=1)[:, None]) / sum(exp(x - max(x, axis=1)[:, None]), axis=1, keepdims=true)"},
        {"m": 20, "n": 700},
        lambda x, m, n: {"y": online_softmax(x)},
    ),
    "n bodies": Kernel(
        {"f": "out float32[n, 3]", "p": "float32[n, 3]", "eps": "float32", "n": "int32"},
        {"f": "sum((p[None] - p[:, None]) * (sum((p[None] - p[:, None]) ** 2, axis=2) + eps)[:, :, None] ** -1.5,"
              " axis=1)"},
        {"n": 200, "eps": 0.01},
        lambda p, eps, n: {"f": bodies(p, eps)},
    ),
    "Black-Scholes": Kernel(
        {"call": "out float32[n]", "s": "float32[n] uniform 5 30", "x": "float32[n] uniform 1 100",
         "t": "float32[n] uniform 0.25 10", "n": "int32"},
        {"call": "s * normcdf((log(s / x) + (r + 0.5 * v * v) * t) / (v * sqrt(t)))"
                 " - x * exp(-r * t) * normcdf((log(s / x) + (r + 0.5 * v * v) * t) / (v * sqrt(t)) - v * sqrt(t))"},
        {"n": 3000, "r": 0.02, "v": 0.3},
        lambda s, x, t, n: {"call": black_scholes(s, x, t)},
    ),
    "layer normalisation": Kernel(
        {"y": "out float32[m, n]", "x": "float32[m, n] normal 3 2", "g": "float32[n]", "m": "int32", "n": "int32"},
        {"y": "(x - mean(x, axis=1, keepdims=true)) * rsqrt(var(x, axis=1, keepdims=true) + 1e-5) * g"},
        {"m": 8, "n": 1024},
        lambda x, g, m, n: {
            "y": (x - x.mean(axis=1, keepdims=True))
            / np.sqrt(x.var(axis=1, keepdims=True) + np.float32(1e-5)) * g
        },
    ),
    "sparse matrix in ELL": Kernel(
        {"y": "out float32[rows]", "v": "float32[rows, k]", "column": "int32[rows, k] uniform 0 n", "x": "float32[n]",
         "rows": "int32", "k": "int32"},
        {"y": "sum(v * x[column], axis=1)"},
        {"rows": 100, "k": 16, "n": 80},
        lambda v, column, x, rows, k: {"y": functools.reduce(np.add, (v * x[column]).T)},
    ),
    "histogram of floats": Kernel(
        {"bins": "inout uint32[16] zeros", "x": "float32[n]", "n": "int32"},
        {"bins": "bincount(int32(clip(floor(x * 4) + 8, 0, 15)), minlength=16)"},
        {"n": 5000},
        lambda bins, x, n: {"bins": np.bincount(np.clip(np.floor(x * 4) + 8, 0, 15).astype(int), minlength=16)},
    ),
    "hash": Kernel(
        {"h": "out uint32[n]", "x": "uint32[n] uniform 0 (2 ** 32)", "n": "int32"},
        {"h": "uint32(x * 2654435761) >> 5 ^ x"},
        {"n": 1000},
        lambda x, n: {"h": ((x * np.uint32(2654435761)) >> np.uint32(5)) ^ x},
    ),
    "threshold count": Kernel(
        {"count": "out int32[1]", "x": "float32[n]", "n": "int32"},
        {"count": "sum(x * x > 0.5)"},
        {"n": 10_000},
        lambda x, n: {"count": np.array([(x * x > np.float32(0.5)).sum()])},
    ),
    "Fourier transform": Kernel(
        {"y": "out complex64[m, n]", "x": "complex64[m, n]", "m": "int32", "n": "int32"},
        {"y": "fft(x)"},
        {"m": 4, "n": 256},
        lambda x, m, n: {"y": np.fft.fft(x).astype(np.complex64)},
    ),
    "double precision": Kernel(
        {"y": "out float64[n]", "x": "float64[n]", "n": "int32"},
        {"y": "exp(x) * 0.1 + sin(x)"},
        {"n": 1000},
        lambda x, n: {"y": np.exp(x) * 0.1 + np.sin(x)},
    ),
}  # fmt: skip


def setting(kernel, folder, **changed):
    problem_fields = {**kernel.problem, **changed}
    computed = made(folder, kernel.arguments, kernel.reference, problem_fields)
    problem = computed.problem(problem_fields)
    inputs = computed.inputs(problem, 0)
    return computed, problem, inputs


def outputs_of(kernel, computed, problem, inputs):
    """Return the buffers after the reference kernel ran on the inputs."""
    shapes = computed._plan(problem).shapes
    arguments = {}
    for argument in computed.declaration.arguments:
        if not argument.is_array:
            arguments[argument.name] = inputs.scalars[argument.name]
        elif str(argument.direction) != "out":
            arguments[argument.name] = inputs.arrays[argument.name].reshape(shapes[argument.name])
    with np.errstate(over="ignore"):
        found = kernel.compute(**arguments)
    stored = {}
    for argument in computed.declaration.outputs:
        value = np.asarray(found[argument.name])
        assert argument.dtype != "float32" or value.dtype == np.float32, f"{argument.name} is computed in {value.dtype}"
        stored[argument.name] = np.ascontiguousarray(value.astype(argument.dtype).reshape(-1))
    return stored


@pytest.mark.parametrize("name", KERNELS)
def test_a_right_kernel_passes_and_a_wrong_one_fails(name, tmp_path):
    kernel = KERNELS[name]
    computed, problem, inputs = setting(kernel, tmp_path)
    reference = computed.reference(problem, inputs)
    right = outputs_of(kernel, computed, problem, inputs)
    error, tolerance, worst = computed.verify(problem, reference, right)
    assert error <= tolerance == 1.0, worst
    assert worst == ""
    for output, values in right.items():
        typical = np.sqrt(np.mean(np.abs(values.astype(np.complex128)) ** 2))
        for factor in (0.01, 1) if values.dtype.kind in "fc" else (1,):
            wrong = values.copy()
            middle = wrong.size // 2 + 3 if wrong.size > 3 else 0
            wrong[middle] += max(factor * typical, 1 if values.dtype.kind in "iu" else 0)
            error, tolerance, worst = computed.verify(problem, reference, {**right, output: wrong})
            if name != "threshold count" or factor == 1:
                assert error > tolerance, (output, factor)
                assert worst.startswith(f"{output}[")
        untouched = {**right, output: inputs.arrays[output].copy()}
        assert computed.verify(problem, reference, untouched)[0] > 1


@pytest.mark.parametrize("name", KERNELS)
def test_a_small_slip_is_found(name, tmp_path):
    """A relative error of 10^-4 in one element of the output, which a careless tolerance would let pass."""
    kernel = KERNELS[name]
    computed, problem, inputs = setting(kernel, tmp_path)
    reference = computed.reference(problem, inputs)
    right = outputs_of(kernel, computed, problem, inputs)
    (output, values), *_ = right.items()
    if values.dtype.kind not in "fc" or name == "reduction":  # whose terms are much larger than 10^-4 of it
        return
    wrong = values.copy()
    largest = np.argmax(np.abs(wrong))
    wrong[largest] *= 1 + 1e-4
    assert computed.verify(problem, reference, {output: wrong})[0] > 1


@pytest.mark.parametrize("name", KERNELS)
def test_the_device_finds_the_same_error(name, tmp_path):
    kernel = KERNELS[name]
    computed, problem, inputs = setting(kernel, tmp_path)
    reference = computed.reference(problem, inputs)
    right = outputs_of(kernel, computed, problem, inputs)
    laid = computed.elementwise(problem, reference)
    if any(values.dtype.kind != "f" for values in right.values()):
        assert laid is None
        return
    expected, tolerance = laid
    largest = max(
        np.max(np.abs(values.astype(np.float64) - expected[output].values) / expected[output].scale)
        for output, values in right.items()
    )
    assert tolerance == 1.0
    assert largest == pytest.approx(computed.verify(problem, reference, right)[0])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bits(dtype, tmp_path):
    arguments = {"y": f"out {dtype}[m]", "x": f"{dtype}[m, n]", "m": "int32", "n": "int32"}
    computed = made(tmp_path, arguments, {"y": "sum(x, axis=1)"}, ("m", "n"))
    problem = computed.problem({"m": 64, "n": 500})
    inputs = computed.inputs(problem, 0)
    reference = computed.reference(problem, inputs)
    held = inputs.arrays["x"].reshape(64, 500)
    x = to_float32(held) if dtype == "bfloat16" else held.astype(np.float32)
    store = from_float32 if dtype == "bfloat16" else np.float16
    assert computed.verify(problem, reference, {"y": store(x.sum(axis=1))})[0] <= 1
    assert computed.verify(problem, reference, {"y": store(x[:, 1:].sum(axis=1))})[0] > 1
    assert computed.fma_dtype(problem) == np.float32


def test_shapes_values_and_references_may_depend_on_parameters(tmp_path):
    arguments = {"partial": "out float32[ceil_div(n, block)]", "x": "float32[n]", "n": "int32", "items": "int32"}
    computed = made(
        tmp_path,
        arguments,
        {"partial": "sum(reshape(x, (-1, block)), axis=1)"},
        ("n",),
        ("block", "items", "unused"),
        metrics={"GB/s": "4 * (n + n / block) / time"},
    )
    problem = computed.problem({"n": 1024}).titled("small")
    solved = computed.for_parameters(problem, {"block": 64, "items": 4, "unused": 1})
    assert dict(solved) == {"name": "small", "n": 1024, "block": 64, "items": 4}
    assert computed.restored(dict(solved)) == solved
    inputs = computed.inputs(solved, 0)
    assert inputs.arrays["partial"].shape == (16,)
    assert inputs.scalars == {"n": 1024, "items": 4}
    sums = inputs.arrays["x"].reshape(16, 64).sum(axis=1)
    assert computed.verify(solved, computed.reference(solved, inputs), {"partial": sums})[0] <= 1
    assert computed.bytes_moved(solved) == 4 * (1024 + 16)
    with pytest.raises(UserError, check=coded("out-of-range", key="arguments.partial", found="ceil_div(n, block)")):
        computed.for_parameters(problem, {"block": 64, "items": 4}) and computed.for_parameters(
            problem, {"block": -2000, "items": 4}
        )
    with pytest.raises(UserError, check=coded("missing-key", key="problem.block")):
        computed.inputs(problem, 0)


def test_what_throughput_counts(tmp_path):
    arguments = {"c": "out float32[n]", "a": "inout float64[n]", "b": "int8[4, n]", "n": "int32"}
    plain = made(tmp_path, arguments, None, ("n",))
    problem = plain.problem({"n": 10})
    assert (plain.merit, plain.flops(problem), plain.bytes_moved(problem)) == (Merit.BANDWIDTH, 0, 40 + 160 + 40)
    assert plain.declared_rate(problem) is None
    assert plain.declared_figures(problem) == ()
    metrics = {"GFLOP/s": "7 * n / time", "Gelem/s": "n / time"}
    counted = made(tmp_path, arguments, None, ("n",), metrics=metrics)
    assert (counted.merit, counted.flops(problem), counted.bytes_moved(problem)) == (Merit.TFLOPS, 70, 240)
    assert counted.declared_rate(problem) is None
    assert counted.declared_figures(problem) == (DeclaredFigure("Gelem/s", "n / time", {"n": 10}, 1e9),)
    traffic = made(tmp_path, arguments, None, ("n",), metrics={"GB/s": "3 * n / time"})
    assert (traffic.merit, traffic.flops(problem), traffic.bytes_moved(problem)) == (Merit.BANDWIDTH, 0, 30)
    other = made(tmp_path, arguments, None, ("n",), metrics={"Gelem/s": "n / time", "ms": "1e3 * time"})
    assert (other.merit, other.flops(problem), other.bytes_moved(problem)) == (Merit.BANDWIDTH, 0, 240)
    assert other.declared_rate(problem) == DeclaredRate("Gelem/s", 1e-8)
    assert [figure.value(0.5) for figure in other.declared_figures(problem)] == [0.5]


def test_without_a_reference_the_first_outputs_are_one(tmp_path):
    computed = made(
        tmp_path, {"c": "out float32[n]", "k": "out int32[2]", "a": "float32[n]", "n": "int32"}, None, ("n",)
    )
    problem = computed.problem({"n": 100})
    inputs = computed.inputs(problem, 0)
    assert not computed.has_reference
    with pytest.raises(UserError, check=coded("missing-key", key="reference")):
        computed.reference(problem, inputs)
    first = {"c": np.sqrt(np.abs(inputs.arrays["a"])), "k": np.array([3, 4], np.int32)}
    expected = computed.as_expected(problem, first)
    assert computed.verify(problem, expected, first) == (0.0, 1.0, "")
    assert computed.verify(problem, expected, {**first, "c": first["c"] * np.float32(1.000001)})[0] < 1
    assert computed.verify(problem, expected, {**first, "c": first["c"] * np.float32(1.001)})[0] > 1
    assert computed.verify(problem, expected, {**first, "k": np.array([3, 5], np.int32)})[0] > 1


def test_a_reference_in_python(tmp_path):
    """Compressed sparse rows, which expressions do not reach."""
    (tmp_path / "ref.py").write_text(
        "import numpy as np\n"
        "def spmv(rows, columns, values, x, m):\n"
        "    parts = [slice(rows[i], rows[i + 1]) for i in range(m)]\n"
        "    return np.array([values[one].astype(float) @ x[columns[one]] for one in parts])\n"
    )
    arguments = {
        "y": "out float32[m]", "rows": "int32[m + 1] = 7 * arange(m + 1)", "columns": "int32[7 * m] uniform 0 n",
        "values": "float32[7 * m]", "x": "float32[n]", "m": "int32",
    }  # fmt: skip
    computed = made(tmp_path, arguments, "./ref.py:spmv", ("m", "n"))
    problem = computed.problem({"m": 50, "n": 40})
    inputs = computed.inputs(problem, 0)
    reference = computed.reference(problem, inputs)
    a = inputs.arrays
    right = (a["values"] * a["x"][a["columns"]]).reshape(50, 7).sum(axis=1)
    assert computed.verify(problem, reference, {"y": right})[0] <= 1
    right[3] += 0.001
    assert computed.verify(problem, reference, {"y": right})[0] > 1


def test_a_tolerance_of_the_users_own(tmp_path):
    arguments = {"c": "out float32[n]", "a": "float32[n]", "n": "int32"}
    computed = made(tmp_path, arguments, {"c": "tanh(a)"}, ("n",), tolerance={"c": 1e-3})
    problem = computed.problem({"n": 1000})
    inputs = computed.inputs(problem, 0)
    reference = computed.reference(problem, inputs)
    coarse = np.tanh(inputs.arrays["a"]) * np.float32(1 + 2**-11)
    assert computed.verify(problem, reference, {"c": coarse})[0] <= 1
    strict = made(tmp_path, arguments, {"c": "tanh(a)"}, ("n",))
    assert strict.verify(problem, strict.reference(problem, inputs), {"c": coarse})[0] > 1


def test_an_error_of_a_reference_names_its_output(tmp_path):
    computed = made(tmp_path, {"c": "out float32[n]", "a": "float32[2, n]", "n": "int32"}, {"c": "a + 1"}, ("n",))
    problem = computed.problem({"n": 4})
    with pytest.raises(UserError) as caught:
        computed.reference(problem, computed.inputs(problem, 0))
    assert caught.value.key == "reference.c"
    assert "c has shape [4], its reference has shape [2, 4]" in caught.value.message


def test_a_problem_lacks_a_field_or_does_not_fit(tmp_path):
    computed = made(tmp_path, {"c": "out float32[n]", "n": "int32"}, None, ("n",))
    with pytest.raises(UserError) as caught:
        computed.problem({"m": 3})
    assert caught.value.key == "problem.n"
    with pytest.raises(UserError, check=coded("out-of-range", key="problem.n", found=1099511627776)):
        computed.problem({"n": 2**40})
    with pytest.raises(UserError):
        computed.problem({"n": [3]})


def test_the_operator_travels_as_text(tmp_path):
    computed = made(tmp_path, {"c": "out float32[n]", "n": "int32"}, {"c": "1"}, ("n",))
    again = operator(pickle.loads(pickle.dumps(computed.declaration.reference)))  # noqa: S301 - of this test
    assert again is computed
    assert again.name == "k"
    with pytest.raises(UserError):
        operator("declared:nonsense")
    with pytest.raises(UserError):
        operator("gemm").as_expected({}, {})
    assert operator("gemm").has_reference
    assert operator("gemm").for_parameters({"m": 1}, {"p": 2}) == {"m": 1}


def test_element_types_are_those_of_the_problem(tmp_path):
    arguments = {"y": "out {T}[n]", "x": "{T}[n]"}
    found, mistakes = declare(
        "k", arguments=arguments, reference={"y": "2 * x"}, folder=tmp_path, problem=["n"], parameters=["T"]
    )
    assert found is not None, mistakes
    computed = Declared(found)
    whole = computed.problem({"n": 6})
    for word, dtype, size in (("float", "float32", 4), ("half", "float16", 2), ("int8", "int8", 1)):
        problem = computed.for_parameters(whole, {"T": word})
        inputs = computed.inputs(problem, 0)
        assert [array.dtype.name for array in inputs.arrays.values()] == [dtype, dtype]
        assert computed.bytes_moved(problem) == 12 * size
        right = {"y": (2 * inputs.arrays["x"]).astype(dtype)}
        assert computed.verify(problem, computed.reference(problem, inputs), right)[0] <= 1
        assert computed.verify(problem, computed.reference(problem, inputs), {"y": inputs.arrays["x"]})[0] > 1


def test_unwritten_elements_fail_even_where_the_reference_is_nan(tmp_path):
    arguments = {"y": "out float32[n]", "x": "float32[n] = arange(n) - 2", "n": "int32"}
    problem = {"n": 8}
    for word, passes in (("out", False), ("out partial", True)):
        computed = made(tmp_path, {**arguments, "y": f"{word} float32[n]"}, {"y": "log(x)"}, problem)
        host_inputs = computed.inputs(computed.problem(problem), 0)
        reference = computed.reference(computed.problem(problem), host_inputs)
        written = host_inputs.arrays["x"] > 0
        outputs = {"y": host_inputs.arrays["y"].copy()}
        outputs["y"][written] = np.log(host_inputs.arrays["x"][written])
        outputs["y"][2] = -np.inf
        error, tolerance, worst = computed.verify(computed.problem(problem), reference, outputs)
        assert (error <= tolerance) == passes
        assert passes or "it was not written" in worst
        assert computed.elementwise(computed.problem(problem), reference) is None


def test_an_output_whose_contents_do_not_matter_may_stay_unwritten(tmp_path):
    problem = {"n": 8}
    tolerance = {"w": {"absolute": float("inf")}}
    arguments = {"y": "out float32[n]", "w": "out float32[n]"}
    computed = made(tmp_path, arguments, {"y": "1", "w": "0"}, problem, tolerance=tolerance)
    host_inputs = computed.inputs(computed.problem(problem), 0)
    assert host_inputs.required == ("y",)
    reference = computed.reference(computed.problem(problem), host_inputs)
    outputs = {"y": np.ones(8, np.float32), "w": host_inputs.arrays["w"]}
    assert computed.verify(computed.problem(problem), reference, outputs)[0] == 0


def test_a_stand_in_with_outputs_of_another_size_is_named(tmp_path):
    computed = made(tmp_path, {"y": "out float32[ceil_div(n, b)]", "n": "int32"}, None, {"n": 8}, parameters=["b"])
    problem = computed.for_parameters(computed.problem({"n": 8}), {"b": 2})
    assert set(computed.as_expected(problem, {"y": np.ones(4, np.float32)})) == {"y"}
    with pytest.raises(StandInMismatchError) as caught:
        computed.as_expected(problem, {"y": np.ones(8, np.float32)})
    assert "y has another shape" in caught.value.message
    assert caught.value.key is None  # no mistake of the file's
    with pytest.raises(StandInMismatchError) as caught:
        computed.as_expected(problem, {"y": np.ones(4, np.float64)})
    assert "y has another type" in caught.value.message


def test_a_stand_in_with_inputs_of_another_size_is_named(tmp_path):
    arguments = {"y": "out float32[n]", "x": "float32[ceil_div(n, b)]", "n": "int32"}
    computed = made(tmp_path, arguments, None, {"n": 8}, parameters=["b"])
    first, second = (computed.for_parameters(computed.problem({"n": 8}), {"b": b}) for b in (2, 4))
    outputs = {"y": np.ones(8, np.float32)}
    assert set(computed.as_expected(first, outputs, first)) == {"y"}
    with pytest.raises(StandInMismatchError) as caught:
        computed.as_expected(second, outputs, first)
    assert "x has another shape" in caught.value.message


def test_what_a_function_is_offered_cannot_be_changed(tmp_path):
    computed = made(tmp_path, {"y": "out float32[n]", "x": "float32[n]", "n": "int32"}, None, {"n": 8})
    problem = computed.problem({"n": 8})
    host_inputs = computed.inputs(problem, 0)
    with pytest.raises(ValueError, match="read-only"):
        computed.available(problem, host_inputs)["x"][0] = 1
    host_inputs.arrays["x"][0] = 1  # the launch's own stay as they are


def test_a_compaction_may_take_its_places_in_any_order(tmp_path):
    arguments = {"y": "inout unordered float32[n] zeros", "x": "float32[n]", "n": "int32"}
    computed = made(tmp_path, arguments, {"y": "where(x > 0, x, 0)"}, {"n": 100})
    problem = computed.problem({"n": 100})
    host_inputs = computed.inputs(problem, 0)
    reference = computed.reference(problem, host_inputs)
    kept = host_inputs.arrays["x"][host_inputs.arrays["x"] > 0][::-1]
    y = np.concatenate([kept, np.zeros(100 - len(kept), np.float32)])
    assert computed.elementwise(problem, reference) is None
    assert computed.verify(problem, reference, {"y": y})[0] == 0
    y[3] = y[4]  # one is lost and another is there twice
    assert computed.verify(problem, reference, {"y": y})[0] > 1


def chosen(operator_, problem, elements):
    """Return the expected values of chosen elements of `y`, whose arrays are never made, and a comparison."""
    sized = operator_.problem(problem)
    wanted = {"y": np.asarray(elements)}
    expected = operator_.reference_at(sized, operator_.indexed_inputs(sized, 1), wanted)
    return expected, lambda got: operator_.verify_at(sized, expected, wanted, {"y": got})


LARGE = {"n": 2**31}
SOME = [0, 1, 77, 2**30, 2**31 - 1]


def test_chosen_elements_are_compared_at_a_size_that_is_never_made(tmp_path):
    both = {"y": "out float32[n]", "x": "float32[n]"}
    expected, compared = chosen(made(tmp_path, both, {"y": "2 * x[::-1]"}, ["n"]), LARGE, SOME)
    right = expected["y"].values.astype(np.float32)
    assert compared(right) == (0.0, 1.0, "")
    wrong = right.copy()
    wrong[3] += 1
    largest, tolerance, worst = compared(wrong)
    assert largest > tolerance
    assert worst.startswith(f"y[{2**30}]: ")


@pytest.mark.parametrize(
    ("output", "reference", "reason"),
    [
        ("out unordered float32[n]", {"y": "x"}, "any order"),
        ("out float32[n]", None, "no reference"),
        ("out float32[n]", {"y": "cumsum(x)"}, "more elements"),
    ],
)
def test_what_is_not_evaluated_at_chosen_elements_has_a_reason(tmp_path, output, reference, reason):
    declared = made(tmp_path, {"y": output, "x": "float32[n]"}, reference, ["n"])
    assert chosen(declared, LARGE, SOME)[0] is None
    assert reason in declared.why_not_restricted(declared.problem(LARGE))


def test_a_reference_that_refuses_a_large_problem_says_nothing_of_the_kernel(tmp_path):
    both = {"y": "out int32[n]", "x": "int32[n] uniform 1 9"}
    assert chosen(made(tmp_path, both, {"y": "x >> (n // 2**25)"}, ["n"]), LARGE, SOME)[0] is None


def test_chosen_elements_whose_contents_do_not_matter_may_hold_anything(tmp_path):
    both = {"y": "out float32[n]", "x": "float32[n]"}
    ignored = made(tmp_path, both, {"y": "x"}, ["n"], tolerance={"y": {"absolute": float("inf")}})
    assert chosen(ignored, LARGE, SOME)[1](np.full(5, np.nan, np.float32)) == (0.0, 1.0, "")


def test_chosen_elements_may_be_off_by_rounding_where_their_neighbours_are_not_known(tmp_path):
    both = {"y": "out float32[n]", "x": "float32[n]"}
    expected, compared = chosen(made(tmp_path, both, {"y": "(1000 + x) - 1000"}, ["n"], tolerance=1e-6), LARGE, SOME)
    assert compared((expected["y"].values + 3e-5).astype(np.float32))[0] < 1
    assert compared((expected["y"].values + 1e-3).astype(np.float32))[0] > 1


@pytest.mark.parametrize(
    ("reference", "wanted", "most"),
    [
        ({"y": "2 * x"}, np.arange(3000), 3000),
        ({"y": "2 * x"}, np.arange(0, 1 << 24, 4097), 64),
        ({"y": "matmul(x, x)"}, np.add.outer(4096 * np.arange(128), np.arange(128)).reshape(-1), 256),
    ],
)
def test_elements_that_take_long_are_represented_by_a_few(tmp_path, reference, wanted, most):
    square = made(tmp_path, {"y": "out float32[n, n]", "x": "float32[n, n]"}, reference, ["n"])
    kept = square.representative(square.problem({"n": 4096}), {"y": wanted})["y"]
    assert len(kept) == most
    assert set(kept.tolist()) <= set(wanted.tolist())
    assert kept[[0, -1]].tolist() == wanted[[0, -1]].tolist()


def test_long_rows_are_summed_for_a_few_elements(tmp_path):
    sums = made(tmp_path, {"y": "out float32[m]", "x": "float32[m, n]"}, {"y": "sum(x, axis=1)"}, ["m", "n"])
    problem = sums.problem({"m": 4096, "n": 1 << 18})
    kept = sums.representative(problem, {"y": np.arange(4096)})
    assert len(kept["y"]) == 32
    assert sums.reference_at(problem, sums.indexed_inputs(problem, 1), {"y": kept["y"][:2]}) is not None


def test_the_variants_of_a_sweep_share_what_was_drawn(tmp_path):
    both = {"y": "out float32[n]", "x": "float32[n]"}
    first_inputs, two = (made(tmp_path, both, {"y": "x"}, ["n"]).indexed_inputs for _ in range(2))
    problem = made(tmp_path, both, {"y": "x"}, ["n"]).problem({"n": 5})
    assert first_inputs(problem, 1) is two(problem, 1)
    assert first_inputs(problem, 1) is not two(problem, 2)
