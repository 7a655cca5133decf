"""The binding of cuBLASLt against a stand-in that keeps descriptions as its documentation defines them."""

# ruff: noqa: N802 - the stand-in has the functions of the library

from __future__ import annotations

import ctypes

import pytest

from lab.gpu.baselines import cublas as finder
from lab.gpu.baselines.cublaslt import WORKSPACE_BYTES, CublasLt, HeuristicResult
from lab.gpu.device.backend import BaselineMissingError, DeviceError
from lab.operators.gemm import Gemm

SIZES = {3: ctypes.c_int32, 4: ctypes.c_int32, 17: ctypes.c_uint64, 18: ctypes.c_uint64, 25: ctypes.c_int8}


def pointed(argument, kind):
    return ctypes.cast(argument, ctypes.POINTER(kind)).contents


class FakeLibrary:
    """Makes descriptions with numbers for handles, and reads what is asked of them from memory."""

    algorithms, status = 1, 0

    def __init__(self, path):
        self.path, self.made, self.calls = path, {}, []
        known = {7: b"CUBLAS_STATUS_INVALID_VALUE", 15: b"CUBLAS_STATUS_NOT_SUPPORTED"}
        self.cublasLtGetVersion = lambda: 130100
        self.cublasLtGetStatusName = lambda status: known.get(status, b"")

    def _new(self, handle, what):
        number = len(self.made) + 1
        pointed(handle, ctypes.c_void_p).value = number
        self.made[number] = what
        return 0

    def cublasLtCreate(self, handle):
        return self._new(handle, "handle")

    def cublasLtMatrixLayoutCreate(self, handle, dtype, rows, columns, leading):
        return self._new(handle, (dtype.value, rows.value, columns.value, leading.value))

    def cublasLtMatmulDescCreate(self, handle, compute, scale):
        return self._new(handle, {"types": (compute.value, scale.value)})

    def cublasLtMatmulDescSetAttribute(self, handle, attribute, value, size):
        kind = SIZES[attribute.value]
        assert size.value == ctypes.sizeof(kind)
        self.made[handle.value][attribute.value] = pointed(value, kind).value
        return 0

    def cublasLtMatmulPreferenceCreate(self, handle):
        return self._new(handle, {})

    def cublasLtMatmulPreferenceSetAttribute(self, handle, attribute, value, size):
        assert size.value == 8
        self.made[handle.value][attribute.value] = pointed(value, ctypes.c_uint64).value
        return 0

    def cublasLtMatmulPreferenceDestroy(self, handle):
        assert self.made.pop(handle.value) == {1: WORKSPACE_BYTES}
        return 0

    def cublasLtMatmulAlgoGetHeuristic(self, handle, how, a, b, c, d, preference, wanted, results, count):
        assert self.made[preference.value] == {1: WORKSPACE_BYTES}
        assert wanted.value == 1
        pointed(count, ctypes.c_int).value = self.algorithms
        pointed(results, HeuristicResult).algorithm[0] = 77
        return 0 if self.algorithms else 15

    def cublasLtMatmul(self, handle, how, alpha, a, a_is, b, b_is, beta, c, c_is, d, d_is, algorithm, *rest):
        layouts = [self.made[one.value] for one in (a_is, b_is, c_is, d_is)]
        factors = [pointed(one, ctypes.c_float).value for one in (alpha, beta)]
        chosen = pointed(algorithm, ctypes.c_uint64).value
        places = [one.value for one in (a, b, c, d)]
        self.calls.append((self.made[how.value], layouts, factors, places, chosen, [one.value for one in rest]))
        return self.status


@pytest.fixture
def light(monkeypatch, tmp_path):
    monkeypatch.setattr(finder, "find_cublas", lambda: tmp_path / "libcublas.so.13")
    monkeypatch.setattr(ctypes, "CDLL", FakeLibrary)
    return CublasLt(5, lambda size: 4096 if size == WORKSPACE_BYTES else 0)


def gemm(**values):
    given = {"m": 32, "n": 48, "k": 64, "layout": "tn", "dtype": "float8_e4m3fn", **values}
    problem = Gemm().problem(given)
    return problem, Gemm().inputs(problem, 0)


POINTERS = {"A": 100, "B": 200, "C": 300, "scale_a": 400, "scale_b": 500}


def test_the_result_of_the_heuristic_is_laid_out_as_the_header_says():
    assert ctypes.sizeof(HeuristicResult) == 96
    at = [
        getattr(HeuristicResult, name).offset for name in ("algorithm", "workspace_bytes", "state", "waves", "reserved")
    ]
    assert at == [0, 64, 72, 76, 80]


@pytest.mark.parametrize(("precision", "fast"), [({}, 0), ({"precision": "fast_accumulation"}, 1)])
@pytest.mark.parametrize(("out", "number"), [("bfloat16", 14), ("float16", 2), ("float32", 0)])
def test_a_call_describes_the_product(light, out, number, precision, fast):
    problem, inputs = gemm(out_dtype=out, alpha=1.5, beta=0.5, lda=80, ldb=96, ldc=40, **precision)
    light.gemm(problem, inputs, POINTERS)()
    light.use_stream(9)
    light.gemm(problem, inputs, POINTERS)()
    (how, layouts, factors, places, chosen, rest), again = light._library.calls
    assert how == {"types": (68, 0), 3: 1, 4: 0, 17: 400, 18: 500, 25: fast}
    assert layouts == [(28, 64, 32, 80), (28, 64, 48, 96), (number, 32, 48, 40), (number, 32, 48, 40)]
    assert (factors, places, chosen) == ([1.5, 0.5], [100, 200, 300, 300], 77)
    assert rest == [4096, WORKSPACE_BYTES, 5]
    assert again[-1][-1] == 9


def test_it_lies_beside_cublas_and_says_its_version(light, tmp_path):
    assert light._library.path == str(tmp_path / "libcublasLt.so.13")
    assert light.description.startswith("libcublasLt.so.13 130100 (")


@pytest.mark.parametrize("values", [{"layout": "nn"}, {"dtype": "float8_e5m2"}])
def test_what_cublaslt_does_not_multiply_is_named(light, values):
    with pytest.raises(BaselineMissingError, match="cuBLASLt does not support a GEMM of float8_"):
        light.gemm(*gemm(**values), POINTERS)


def test_a_refusal_has_the_name_of_the_status(light):
    launch = light.gemm(*gemm(), POINTERS)
    light._library.status = 7
    with pytest.raises(DeviceError, match="cublasLtMatmul: CUBLAS_STATUS_INVALID_VALUE"):
        launch()
    light._library.algorithms = 0
    with pytest.raises(BaselineMissingError, match="no algorithm for this GEMM: CUBLAS_STATUS_NOT_SUPPORTED"):
        light.gemm(*gemm(), POINTERS)


def test_an_absent_library_is_a_reason(monkeypatch, tmp_path):
    monkeypatch.setattr(finder, "find_cublas", lambda: tmp_path / "libcublas.so.13")
    with pytest.raises(BaselineMissingError, match=r"libcublasLt\.so\.13 cannot be loaded"):
        CublasLt(0, lambda size: size)
    monkeypatch.setattr(finder, "find_cublas", lambda: "libcublas was not found")
    with pytest.raises(BaselineMissingError, match="was not found"):
        CublasLt(0, lambda size: size)
