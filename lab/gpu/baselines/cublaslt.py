"""The cuBLASLt baseline for FP8 GEMMs, which cuBLAS's own routines do not support.

One call of cublasLtMatmul on the variant's buffers, with the algorithm that cuBLASLt's heuristic puts first, as its
users do, and the scales of A and B in device memory. It supports only the layout ``tn``, and not e5m2 times
e5m2 (cuBLAS documentation, cublasLtMatmul). Partial sums are promoted to FP32 unless the problem's `precision` is
`fast_accumulation`. Enumerators and structures were taken from public bindings of cublasLt.h that agree; with them,
cuBLASLt 13.1 computed the products of reports/h200/hgemm_narrow, each checked against float64.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from lab.base.expressions import Scalar
from lab.gpu.baselines import cublas
from lab.gpu.device.backend import BaselineMissingError, DeviceError, Enqueue
from lab.operators.base import Inputs

TYPES: Final[Mapping[str, int]] = {
    "float32": 0, "float16": 2, "bfloat16": 14, "float8_e4m3fn": 28, "float8_e5m2": 29,
}  # fmt: skip
"""`cudaDataType` by element type: CUDA_R_32F, 16F, 16BF, 8F_E4M3 and 8F_E5M2."""

WORKSPACE_BYTES: Final = 2**25
"""Device memory that an algorithm may use: the 32 MiB that NVIDIA recommends for Hopper."""

_COMPUTE_32F: Final = 68  # cublasComputeType_t
_TRANSPOSED_A, _TRANSPOSED_B = 3, 4  # cublasLtMatmulDescAttributes_t, CUBLASLT_MATMUL_DESC_TRANSA, TRANSB: int32
_SCALE_A, _SCALE_B = 17, 18  # CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, B_SCALE_POINTER: a pointer
_FAST_ACCUMULATION: Final = 25  # CUBLASLT_MATMUL_DESC_FAST_ACCUM: int8
_MOST_WORKSPACE: Final = 1  # cublasLtMatmulPreferenceAttributes_t, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: uint64


class HeuristicResult(ctypes.Structure):
    """`cublasLtMatmulHeuristicResult_t`: an algorithm, the workspace that it needs, and whether it can be used."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace_bytes", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


class CublasLt:
    """A cuBLASLt handle and the stream that calls are queued on."""

    def __init__(self, stream: int, allocate: Callable[[int], Any]) -> None:
        """Load the library installed beside cuBLAS and create a handle.

        Args:
            stream: CUstream as an integer.
            allocate: Allocates device memory of so many bytes; `int` of the result is its address, and the memory
                lives as long as the result.

        Raises:
            BaselineMissingError: The library was not found or cannot be loaded.
            DeviceError: It cannot be initialised on this GPU.
        """
        beside = cublas.find_cublas()
        if isinstance(beside, str):
            raise BaselineMissingError(beside)
        library_path = beside.with_name(beside.name.replace("libcublas", "libcublasLt"))
        self._library = _loaded(library_path)
        self._handle = ctypes.c_void_p()
        self._call("cublasLtCreate", ctypes.byref(self._handle))
        self._stream = ctypes.c_void_p(stream)
        self._workspace = allocate(WORKSPACE_BYTES)
        version = self._library.cublasLtGetVersion
        version.restype = ctypes.c_size_t
        self.description = f"{library_path.name} {version()} (…/{'/'.join(library_path.parent.parts[-3:])})"

    def use_stream(self, stream: int) -> None:
        """Queue further calls on this stream, a CUstream as an integer."""
        self._stream = ctypes.c_void_p(stream)

    def gemm(self, problem: Mapping[str, Scalar], inputs: Inputs, pointers: Mapping[str, int]) -> Enqueue:
        """Prepare an FP8 GEMM.

        Args:
            problem: The problem of the operator gemm, for its types, layout and precision.
            inputs: Scalars m, n, k, alpha, beta, lda, ldb and ldc.
            pointers: Device addresses of A, B, C, scale_a and scale_b.

        Returns:
            A function that queues the call and raises DeviceError if cuBLASLt refuses it.

        Raises:
            BaselineMissingError: cuBLASLt does not compute this problem.
        """
        if "batch" in problem:
            raise BaselineMissingError("the baseline cuBLASLt does not support batches")
        dtype, out_dtype = str(problem["dtype"]), str(problem["out_dtype"])
        if problem["layout"] != "tn" or dtype == "float8_e5m2":
            raise BaselineMissingError(
                f"cuBLASLt does not support a GEMM of {dtype} and {dtype} with layout {problem['layout']}"
            )
        scalars = {name: int(inputs.scalars[name]) for name in ("m", "n", "k", "lda", "ldb", "ldc")}
        a = self._layout(dtype, scalars["k"], scalars["m"], scalars["lda"])
        b = self._layout(dtype, scalars["k"], scalars["n"], scalars["ldb"])
        c = self._layout(out_dtype, scalars["m"], scalars["n"], scalars["ldc"])
        descriptor = self._description(fast=problem.get("precision") == "fast_accumulation", pointers=pointers)
        chosen = self._chosen(descriptor, (a, b, c))
        alpha, beta = (ctypes.c_float(float(inputs.scalars[name])) for name in ("alpha", "beta"))
        matrices = {name: ctypes.c_void_p(pointers[name]) for name in "ABC"}
        workspace, routine = ctypes.c_void_p(int(self._workspace)), self._library.cublasLtMatmul

        def launch() -> None:
            status = routine(
                self._handle, descriptor, ctypes.byref(alpha), matrices["A"], a, matrices["B"], b, ctypes.byref(beta),
                matrices["C"], c, matrices["C"], c, ctypes.byref(chosen.algorithm), workspace,
                ctypes.c_size_t(WORKSPACE_BYTES), self._stream,
            )  # fmt: skip
            self._check("cublasLtMatmul", status)

        return launch

    def _layout(self, dtype: str, rows: int, columns: int, leading: int) -> ctypes.c_void_p:
        """Create the layout descriptor of a column-major matrix."""
        layout = ctypes.c_void_p()
        shape = ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(leading)
        self._call("cublasLtMatrixLayoutCreate", ctypes.byref(layout), ctypes.c_int(TYPES[dtype]), *shape)
        return layout

    def _description(self, *, fast: bool, pointers: Mapping[str, int]) -> ctypes.c_void_p:
        descriptor = ctypes.c_void_p()
        types = ctypes.c_int(_COMPUTE_32F), ctypes.c_int(TYPES["float32"])
        self._call("cublasLtMatmulDescCreate", ctypes.byref(descriptor), *types)
        attributes: tuple[tuple[int, Any], ...] = (
            (_TRANSPOSED_A, ctypes.c_int32(1)),
            (_TRANSPOSED_B, ctypes.c_int32(0)),
            (_SCALE_A, ctypes.c_void_p(pointers["scale_a"])),
            (_SCALE_B, ctypes.c_void_p(pointers["scale_b"])),
            (_FAST_ACCUMULATION, ctypes.c_int8(fast)),
        )
        for attribute, value in attributes:
            self._set("cublasLtMatmulDescSetAttribute", descriptor, attribute, value)
        return descriptor

    def _chosen(self, descriptor: ctypes.c_void_p, layouts: tuple[ctypes.c_void_p, ...]) -> HeuristicResult:
        """Return the heuristic's first algorithm."""
        preference, heuristic, count = ctypes.c_void_p(), HeuristicResult(), ctypes.c_int()
        self._call("cublasLtMatmulPreferenceCreate", ctypes.byref(preference))
        workspace_limit = ctypes.c_uint64(WORKSPACE_BYTES)
        self._set("cublasLtMatmulPreferenceSetAttribute", preference, _MOST_WORKSPACE, workspace_limit)
        a, b, c = layouts
        status = self._library.cublasLtMatmulAlgoGetHeuristic(
            self._handle,
            descriptor,
            a,
            b,
            c,
            c,
            preference,
            ctypes.c_int(1),
            ctypes.byref(heuristic),
            ctypes.byref(count),
        )
        self._library.cublasLtMatmulPreferenceDestroy(preference)
        if status or count.value < 1 or heuristic.state:
            raise BaselineMissingError(
                f"cuBLASLt has no algorithm for this GEMM: {self._name(status or heuristic.state)}"
            )
        return heuristic

    def _set(self, function: str, owner: ctypes.c_void_p, attribute: int, value: Any) -> None:  # noqa: ANN401  any of C's
        size = ctypes.c_size_t(ctypes.sizeof(value))
        self._call(function, owner, ctypes.c_int(attribute), ctypes.byref(value), size)

    def _call(self, function: str, *arguments: Any) -> None:  # noqa: ANN401  any of C's
        self._check(function, getattr(self._library, function)(*arguments))

    def _check(self, function: str, status: int) -> None:
        if status:
            raise DeviceError(f"{function}: {self._name(status)}")

    def _name(self, status: int) -> str:
        names = self._library.cublasLtGetStatusName
        names.restype = ctypes.c_char_p
        return str((names(status) or b"unknown status").decode())


def _loaded(path: Path) -> Any:  # noqa: ANN401  its functions are looked up by name
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise BaselineMissingError(f"{path} cannot be loaded: {error}") from error
