"""The cuBLAS baseline, through a small binding of the functions that a GEMM needs.

The variant and the baseline share device buffers, stream and context, so that nothing but the kernels
differs between them. The binding is written by hand because PyCUDA has none, and CuPy and PyTorch bring their own
contexts and memory pools.

Arithmetic: CUBLAS_DEFAULT_MATH. It uses TF32 for FP32 only if asked to (CUBLAS_TF32_TENSOR_OP_MATH, or
NVIDIA_TF32_OVERRIDE=1 in the environment; cuBLAS documentation, cublasMath_t), so SGEMM is plain FP32. Problems
whose `precision` is tf32 go through cublasGemmEx with CUBLAS_COMPUTE_32F_FAST_TF32, those of int8 with
CUBLAS_COMPUTE_32I.
FP16 and BF16 GEMMs go through cublasGemmEx with CUBLAS_COMPUTE_32F; since cuBLAS may otherwise reduce partial
sums in C's 16-bit type, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION is set, which other routines ignore.
DGEMM may use FP64 tensor cores, which are full FP64. `plain_arithmetic` keeps the environment from changing that.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any, Final, Protocol

from lab.base.expressions import Scalar
from lab.base.sizes import STRIDES
from lab.gpu.device.backend import Baseline, BaselineMissingError, DeviceError, Enqueue
from lab.gpu.device.driver_bindings import kernel_names
from lab.operators.base import Inputs

_PLAIN: Final = {
    "CUBLAS_EMULATE_SINGLE_PRECISION": "0",  # never FP32 emulated with BF16
    "CUBLAS_EMULATE_DOUBLE_PRECISION": "0",
}

_MATH: Final = 0 | 16  # cublasMath_t, CUBLAS_DEFAULT_MATH with CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION
_TYPES: Final = {"float32": 0, "float16": 2, "int8": 3, "int32": 10, "uint16": 14}
"""`cudaDataType` by the type of host arrays: CUDA_R_32F, 16F, 8I, 32I and 16BF (held as bits)."""
_COMPUTE_32F, _COMPUTE_32I, _COMPUTE_TF32 = 68, 72, 77  # cublasComputeType_t, the last CUBLAS_COMPUTE_32F_FAST_TF32
_RESULTS: Final = {
    "float16": ("float16", "float32"),
    "uint16": ("uint16", "float32"),
    "float32": ("float32",),
    "int8": ("int32",),
}
"""Types of C that cublasGemmEx supports for each type of A and B."""
_ANY_ALGORITHM: Final = -1  # cublasGemmAlgo_t, CUBLAS_GEMM_DEFAULT
_OPERATIONS: Final = {"n": 0, "t": 1}  # cublasOperation_t, CUBLAS_OP_N and CUBLAS_OP_T
_PROPERTIES: Final = (0, 1, 2)  # libraryPropertyType: MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL


def plain_arithmetic(environment: MutableMapping[str, str]) -> None:
    """Remove environment settings that change a library's arithmetic, before any CUDA library is loaded.

    NVIDIA_TF32_OVERRIDE is removed: with 1, FP32 would be TF32, and with 0, a call that asks for TF32 gets FP32.
    """
    environment.pop("NVIDIA_TF32_OVERRIDE", None)
    environment.update(_PLAIN)


def operations(layout: str) -> tuple[int, int]:
    """Return cuBLAS's transa and transb for a layout: ``nt`` is (CUBLAS_OP_N, CUBLAS_OP_T)."""
    return _OPERATIONS[layout[0]], _OPERATIONS[layout[1]]


def find_cublas() -> Path | str:
    """Find libcublas.

    NVIDIA's own finder searches the wheels in site-packages (those that PyTorch and CuPy bring along), a conda
    environment, the system's library path and CUDA_HOME; the toolkit's usual folder comes last.

    Returns:
        The library; or the reason why it was not found.
    """
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib  # noqa: PLC0415 - loads libraries: not at import

        loaded = load_nvidia_dynamic_lib("cublas")
        if loaded.abs_path:
            return Path(loaded.abs_path)
    except (ImportError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    else:
        reason = "it was loaded, but from an unknown file"
    for folder in (Path("/usr/local/cuda/lib64"), Path("/usr/local/cuda/targets/x86_64-linux/lib")):
        candidates = sorted(folder.glob("libcublas.so.[0-9]*"))
        if candidates:
            return candidates[0]
    return f"libcublas was not found ({reason}); `pip install nvidia-cublas` installs it"


class BlasLibrary(Protocol):
    """A library whose calls are queued on a stream."""

    description: str

    def use_stream(self, stream: int) -> None:
        """Queue further calls on this stream, a CUstream as an integer."""


class Cublas:
    """A cuBLAS handle on one stream of the current context."""

    def __init__(self, stream: int) -> None:
        """Load the library and create the handle.

        Args:
            stream: CUstream as an integer.

        Raises:
            BaselineMissingError: The library was not found or cannot be loaded.
            DeviceError: cuBLAS cannot be initialised on this GPU.
        """
        library_path = find_cublas()
        if isinstance(library_path, str):
            raise BaselineMissingError(library_path)
        try:
            self._library = ctypes.CDLL(str(library_path))
        except OSError as error:
            raise BaselineMissingError(f"{library_path} cannot be loaded: {error}") from error
        self._handle = ctypes.c_void_p()
        self._check("cublasCreate_v2", self._library.cublasCreate_v2(ctypes.byref(self._handle)))
        self._check("cublasSetMathMode", self._library.cublasSetMathMode(self._handle, _MATH))
        self.use_stream(stream)
        # the last folders tell a wheel from a toolkit; the others say nothing of the library
        self.description = f"{library_path.name} {self._version()} (…/{'/'.join(library_path.parent.parts[-3:])})"

    def use_stream(self, stream: int) -> None:
        """Queue further calls on this stream, a CUstream as an integer.

        Raises:
            DeviceError: cuBLAS refuses it.
        """
        status = self._library.cublasSetStream_v2(self._handle, ctypes.c_void_p(stream))
        self._check("cublasSetStream_v2", status)

    def gemm(self, problem: Mapping[str, Scalar], inputs: Inputs, pointers: Mapping[str, int]) -> Enqueue:
        """Prepare a call of SGEMM, DGEMM, CGEMM, ZGEMM or, for TF32, 16-bit and 8-bit A and B, GemmEx.

        For a batch, their strided batched forms are called.

        Args:
            problem: The operator's problem, for the layout and the precision.
            inputs: Scalars m, n, k, alpha, beta, lda, ldb and ldc, and of complex elements alpha_imag and beta_imag,
                and of a batch `STRIDES` and batch; arrays A, B and C for their element type.
            pointers: Device addresses of A, B and C.

        Returns:
            A function that queues the call and raises DeviceError if cuBLAS refuses it.

        Raises:
            BaselineMissingError: cuBLAS does not compute this problem.
        """
        scalars = inputs.scalars
        required = ("m", "n", "k", "alpha", "beta", "lda", "ldb", "ldc")
        dtypes = tuple(inputs.arrays[name].dtype.name for name in "ABC" if name in inputs.arrays)
        if any(name not in scalars for name in required) or len(dtypes) != 3 or "layout" not in problem:  # noqa: PLR2004
            raise BaselineMissingError("the baseline cublas needs the operator gemm's scalars and arrays")
        if "epilogue" in problem:
            raise BaselineMissingError("the baseline cublas does not support epilogues; the baseline torch does")
        routines: dict[str, tuple[str, Any]] = {
            "float32": ("cublasSgemm_v2", ctypes.c_float),
            "float64": ("cublasDgemm_v2", ctypes.c_double),
            "complex64": ("cublasCgemm_v2", ctypes.c_float),
            "complex128": ("cublasZgemm_v2", ctypes.c_double),
        }
        a, b, c = dtypes
        tf32 = problem.get("precision") == "tf32"
        if a == b == c and a in routines and not tf32:
            name, real = routines[a]
            arguments = self._gemm_arguments(real, problem, scalars, pointers)
        elif a == b and c in _RESULTS.get(a, ()):
            name = "cublasGemmEx"
            real = ctypes.c_int32 if a == "int8" else ctypes.c_float
            plain = self._gemm_arguments(real, problem, scalars, pointers)
            operand_type, result_type = (ctypes.c_int(_TYPES[dtype]) for dtype in (a, c))
            compute_type = _COMPUTE_32I if a == "int8" else _COMPUTE_TF32 if tf32 else _COMPUTE_32F
            mode = ctypes.c_int(compute_type), ctypes.c_int(_ANY_ALGORITHM)
            # each matrix is followed by its type
            arguments = (
                *plain[:8],
                operand_type,
                *plain[8:10],
                operand_type,
                *plain[10:13],
                result_type,
                plain[13],
                *mode,
            )
        else:
            raise BaselineMissingError(
                f"the baseline cublas does not support a gemm of {a} and {b} with a result of {c}"
            )
        if "batch" in problem:
            name, arguments = _strided(name, arguments, scalars)
        routine = getattr(self._library, name)
        check: Callable[[str, int], None] = self._check

        def launch() -> None:
            status = routine(*arguments)
            if status:
                check(name, status)

        return launch

    def _gemm_arguments(
        self, real: type[Any], problem: Mapping[str, Scalar], scalars: Mapping[str, Scalar], pointers: Mapping[str, int]
    ) -> tuple[Any, ...]:
        """Return (handle, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc), made once for all calls."""
        transa, transb = operations(str(problem["layout"]))
        integer = {name: ctypes.c_int(int(scalars[name])) for name in ("m", "n", "k", "lda", "ldb", "ldc")}
        alpha, beta = (_factor(real, scalars, name) for name in ("alpha", "beta"))
        a, b, c = (ctypes.c_void_p(pointers[name]) for name in "ABC")
        return (
            self._handle,
            ctypes.c_int(transa),
            ctypes.c_int(transb),
            *(integer[name] for name in "mnk"),
            alpha,
            a,
            integer["lda"],
            b,
            integer["ldb"],
            beta,
            c,
            integer["ldc"],
        )

    def _version(self) -> str:
        parts = []
        for kind in _PROPERTIES:
            value = ctypes.c_int()
            self._check("cublasGetProperty", self._library.cublasGetProperty(kind, ctypes.byref(value)))
            parts.append(str(value.value))
        return ".".join(parts)

    def _check(self, function: str, status: int) -> None:
        if status:
            names = self._library.cublasGetStatusName
            names.restype = ctypes.c_char_p
            raise DeviceError(f"{function}: {(names(status) or b'unknown status').decode()}")


def _strided(name: str, arguments: tuple[Any, ...], scalars: Mapping[str, Scalar]) -> tuple[str, tuple[Any, ...]]:
    """Return the strided batched form of a routine, and its arguments.

    Each leading dimension is followed by the matrix's stride in elements, and the last stride by the batch count.
    """
    ex = name == "cublasGemmEx"
    ends = (10, 13, 17) if ex else (9, 11, 14)  # behind lda, ldb and ldc
    extended: list[Any] = list(arguments)
    for end, stride in reversed(list(zip(ends, STRIDES, strict=True))):
        extended.insert(end, ctypes.c_longlong(int(scalars[stride])))
    extended.insert(ends[-1] + len(STRIDES), ctypes.c_int(int(scalars["batch"])))
    return ("cublasGemmStridedBatchedEx" if ex else f"{name.removesuffix('_v2')}StridedBatched"), tuple(extended)


def _factor(real: type[Any], scalars: Mapping[str, Scalar], name: str) -> Any:  # noqa: ANN401 - a pointer
    """Return a pointer to α or β: to one number, or to two if there is an imaginary part."""
    if real is ctypes.c_int32:
        return ctypes.pointer(real(int(scalars[name])))
    value, imaginary = float(scalars[name]), scalars.get(f"{name}_imag")
    return ctypes.pointer(real(value) if imaginary is None else (real * 2)(value, float(imaginary)))


def cublas_baseline(cublas: BlasLibrary, launch: Enqueue, stream: int, synchronize: Callable[[], None]) -> Baseline:
    """Return the baseline of the operator gemm, with the names of its kernels.

    Args:
        cublas: The library.
        launch: A call that `Cublas.gemm` prepared.
        stream: CUstream that calls are queued on, as an integer.
        synchronize: Waits for that stream.
    """
    launch()  # loads the kernels, which is not allowed during a capture
    synchronize()
    kernel, note = _kernels_of(cublas, launch, stream)
    return Baseline("cublas", cublas.description, kernel, note, launch)


def _kernels_of(cublas: BlasLibrary, launch: Enqueue, stream: int) -> tuple[str, str]:
    """Return the names of the kernels that a call launches, or an empty name and the reason."""

    def queue(capturing: int) -> None:
        cublas.use_stream(capturing)
        launch()

    try:
        return kernel_names(queue), ""
    except (RuntimeError, AttributeError, TypeError, DeviceError) as error:
        return "", f"the names of cuBLAS's kernels could not be read: {error}"
    finally:
        cublas.use_stream(stream)
