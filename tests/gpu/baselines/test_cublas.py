import ctypes

import pytest

from lab.gpu.baselines import cublas as baselines
from lab.gpu.baselines.cublas import Cublas, cublas_baseline, operations
from lab.gpu.device.backend import BaselineMissingError, DeviceError
from lab.operators.gemm import Gemm


@pytest.mark.parametrize(("layout", "enums"), [("nn", (0, 0)), ("nt", (0, 1)), ("tn", (1, 0)), ("tt", (1, 1))])
def test_layouts_are_cublas_operations(layout, enums):
    assert operations(layout) == enums


def number(contents):
    """A number, or both parts of a complex one."""
    return list(contents) if isinstance(contents, ctypes.Array) else contents.value


class FakeLibrary:
    """Records a gemm's arguments as plain numbers."""

    status = 0

    def __init__(self, path):
        self.calls = []

    def __getattr__(self, name):
        def function(*arguments):
            if name == "cublasGetStatusName":
                return b"CUBLAS_STATUS_INVALID_VALUE"
            plain = [getattr(argument, "value", argument) for argument in arguments]
            self.calls.append(
                (name, [number(value.contents) if hasattr(value, "contents") else value for value in plain])
            )
            return self.status if "gemm" in name else 0

        self.__dict__[name] = function
        return function


@pytest.fixture
def cublas(monkeypatch, tmp_path):
    monkeypatch.setattr(baselines, "find_cublas", lambda: tmp_path / "libcublas.so.13")
    monkeypatch.setattr(ctypes, "CDLL", FakeLibrary)
    return Cublas(5)


def gemm(**values):
    operator = Gemm()
    problem = operator.problem({"m": 3, "n": 4, "k": 5, **values})
    return problem, operator.inputs(problem, 0)


def test_a_gemm_call_has_cublas_argument_order(cublas):
    problem, inputs = gemm(layout="tn", alpha=1.5, beta=0.5, lda=7, ldb=8, ldc=9, dtype="float64")
    cublas.gemm(problem, inputs, {"A": 100, "B": 200, "C": 300})()
    name, arguments = cublas._library.calls[-1]
    assert name == "cublasDgemm_v2"
    assert arguments[1:] == [1, 0, 3, 4, 5, 1.5, 100, 7, 200, 8, 0.5, 300, 9]


def test_a_batch_takes_the_strided_batched_form(cublas):
    problem, inputs = gemm(layout="tn", alpha=1.5, beta=0.5, lda=7, ldb=8, ldc=9, dtype="float64", batch=6)
    cublas.gemm(problem, inputs, {"A": 100, "B": 200, "C": 300})()
    name, arguments = cublas._library.calls[-1]
    assert name == "cublasDgemmStridedBatched"
    assert arguments[1:] == [1, 0, 3, 4, 5, 1.5, 100, 7, 21, 200, 8, 32, 0.5, 300, 9, 36, 6]
    problem, inputs = gemm(dtype="float16", batch=2)
    cublas.gemm(problem, inputs, {"A": 100, "B": 200, "C": 300})()
    name, arguments = cublas._library.calls[-1]
    assert name == "cublasGemmStridedBatchedEx"
    assert arguments[1:] == [0, 0, 3, 4, 5, 1, 100, 2, 3, 15, 200, 2, 5, 20, 0, 300, 2, 3, 12, 2, 68, -1]


def test_single_precision_takes_sgemm_in_default_math_on_the_given_stream(cublas):
    cublas.gemm(*gemm(), {"A": 1, "B": 2, "C": 3})()
    names = [name for name, _ in cublas._library.calls]
    assert names[-1] == "cublasSgemm_v2"
    assert dict(cublas._library.calls)["cublasSetMathMode"][1] == 16  # default math; sums of 16-bit gemms stay FP32
    assert dict(cublas._library.calls)["cublasSetStream_v2"][1] == 5


@pytest.mark.parametrize(("dtype", "routine"), [("complex64", "cublasCgemm_v2"), ("complex128", "cublasZgemm_v2")])
def test_complex_types_have_complex_factors(cublas, dtype, routine):
    problem, inputs = gemm(layout="tn", alpha=1.5, alpha_imag=-2.0, beta_imag=0.5, lda=7, ldb=8, ldc=9, dtype=dtype)
    cublas.gemm(problem, inputs, {"A": 100, "B": 200, "C": 300})()
    name, arguments = cublas._library.calls[-1]
    assert name == routine
    assert arguments[1:] == [1, 0, 3, 4, 5, [1.5, -2.0], 100, 7, 200, 8, [0.0, 0.5], 300, 9]


@pytest.mark.parametrize(
    ("dtype", "out", "types"),
    [("float16", "float16", (2, 2)), ("float16", "float32", (2, 0)), ("bfloat16", "bfloat16", (14, 14))],
)
def test_half_types_take_gemm_ex_with_sums_in_single_precision(cublas, dtype, out, types):
    problem, inputs = gemm(layout="tn", alpha=1.5, beta=0.5, lda=7, ldb=8, ldc=9, dtype=dtype, out_dtype=out)
    cublas.gemm(problem, inputs, {"A": 100, "B": 200, "C": 300})()
    name, arguments = cublas._library.calls[-1]
    of, to = types
    assert name == "cublasGemmEx"
    assert arguments[1:] == [1, 0, 3, 4, 5, 1.5, 100, of, 7, 200, of, 8, 0.5, 300, to, 9, 68, -1]


@pytest.mark.parametrize(
    ("given", "of", "to", "how"),
    [({"dtype": "int8", "alpha": 2, "beta": -3}, 3, 10, 72), ({"precision": "tf32", "alpha": 2, "beta": -3}, 0, 0, 77)],
)
def test_integers_and_tf32_take_gemm_ex(cublas, given, of, to, how):
    problem, inputs = gemm(layout="tn", lda=8, ldb=8, ldc=9, **given)
    cublas.gemm(problem, inputs, {"A": 100, "B": 200, "C": 300})()
    name, arguments = cublas._library.calls[-1]
    assert name == "cublasGemmEx"
    assert arguments[1:] == [1, 0, 3, 4, 5, 2, 100, of, 8, 200, of, 8, -3, 300, to, 9, how, -1]
    assert type(arguments[6]) is (int if of == 3 else float)


def test_the_environment_does_not_decide_how_is_multiplied():
    for given in ("0", "1"):
        environment = {"NVIDIA_TF32_OVERRIDE": given, "CUBLAS_EMULATE_SINGLE_PRECISION": "1", "HOME": "/"}
        baselines.plain_arithmetic(environment)
        assert "NVIDIA_TF32_OVERRIDE" not in environment
        assert environment["CUBLAS_EMULATE_SINGLE_PRECISION"] == "0"
        assert environment["HOME"] == "/"


def test_a_refused_call_is_named(cublas):
    launch = cublas.gemm(*gemm(), {"A": 1, "B": 2, "C": 3})
    cublas._library.status = 7
    cublas._library.__dict__.pop("cublasSgemm_v2", None)
    with pytest.raises(DeviceError, match="cublasSgemm_v2: CUBLAS_STATUS_INVALID_VALUE"):
        launch()


def test_other_types_and_operators_have_no_baseline(cublas):
    _, inputs = gemm()
    with pytest.raises(BaselineMissingError, match="not support a gemm of float16 and float16 with a result of uint16"):
        cublas.gemm(*gemm(dtype="float16", out_dtype="bfloat16"), {})
    with pytest.raises(BaselineMissingError, match="needs the operator gemm"):
        cublas.gemm({}, type(inputs)({}, {}, ()), {})


def test_an_absent_library_is_a_reason_with_the_command(monkeypatch):
    monkeypatch.setattr(baselines, "find_cublas", lambda: "libcublas was not found; `pip install nvidia-cublas`")
    with pytest.raises(BaselineMissingError, match="pip install"):
        Cublas(0)


def test_a_baseline_names_its_kernels_and_goes_back_to_its_stream(cublas, monkeypatch):
    launched = []

    def captured(queue):
        queue(99)
        return "sgemm_128x64, reduce"

    monkeypatch.setattr(baselines, "kernel_names", captured)
    made = cublas_baseline(cublas, lambda: launched.append(1), 5, lambda: None)
    assert (made.name, made.kernel, made.note) == ("cublas", "sgemm_128x64, reduce", "")
    assert len(launched) == 2  # once to load the kernels, once captured
    streams = [arguments[1] for name, arguments in cublas._library.calls if name == "cublasSetStream_v2"]
    assert streams == [5, 99, 5]


def test_names_that_cannot_be_read_are_a_note(cublas, monkeypatch):
    def old(queue):
        raise RuntimeError("cuFuncGetName returns CUDA_ERROR_NOT_FOUND")

    monkeypatch.setattr(baselines, "kernel_names", old)
    made = cublas_baseline(cublas, lambda: None, 5, lambda: None)
    assert made.kernel == ""
    assert made.note == "the names of cuBLAS's kernels could not be read: cuFuncGetName returns CUDA_ERROR_NOT_FOUND"
