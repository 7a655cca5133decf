"""Kernels for the tests, compiled here with NVRTC, and jobs made of them."""

import functools
from pathlib import Path
from typing import Any

from lab.gpu.process.job import Job, Policy
from lab.operators.gemm import Gemm
from lab.templates.launches import Launch, Launches

HERE = Path(__file__).parent
QUICK = Policy(warmup_ms=50.0, rewarm_ms=10.0, budget_s=0.2, baseline=None, timeout_s=20.0)
CHECK = Policy(measure=False, baseline=None, timeout_s=20.0)

AXPY = r"""
#define AXPY(NAME, BODY) \
extern "C" __global__ void NAME(int n, int rounds, float a, const float* x, const float* y, float* z) { \
    int i = blockIdx.x * blockDim.x + threadIdx.x; \
    BODY \
}
#define RIGHT if (i < n) z[i] = fmaf(a, x[i], y[i]);

AXPY(axpy, RIGHT)
AXPY(wrong, RIGHT if (i == 5) z[i] += 1.0f;)
AXPY(forgets_the_last, if (i < n - 1) z[i] = fmaf(a, x[i], y[i]);)
AXPY(overruns, RIGHT if (i == 0) z[n + 3] = 0.0f;)
AXPY(illegal, if (i == 0) z[1ull << 40] = a;)
AXPY(misaligned, if (i == 0) *(volatile double*)((char*)z + 4) = a;)
AXPY(traps, if (i == 0) __trap();)
__device__ __noinline__ float deep(int depth, float x) {
    volatile float frame[256];
    frame[depth % 256] = x;
    return depth < 1000000 ? deep(depth + 1, x) + frame[(depth + 1) % 256] : x;
}
AXPY(overflows, if (i == 0) z[i] = deep(rounds, a);)
AXPY(endless, while (true) *(volatile float*)z = a;)
AXPY(busy,
    float chain = a;
    for (int r = 0; r < rounds; ++r) chain = fmaf(chain, 0.999f, a);
    if (chain == 1234.5678f) return;
    RIGHT)
AXPY(through_shared,
    extern __shared__ float cell[];
    cell[threadIdx.x + 12000] = i < n ? x[i] : 0.0f;
    __syncthreads();
    if (i < n) z[i] = fmaf(a, cell[threadIdx.x + 12000], y[i]);)
"""

GEMM = r"""
extern "C" __global__ void gemm(int m, int n, int k, REAL alpha, const REAL* A, int lda, const REAL* B, int ldb,
                                REAL beta, REAL* C, int ldc) {
    int row = blockIdx.x * blockDim.x + threadIdx.x, column = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || column >= n) return;
    REAL sum = 0;
    for (int p = 0; p < k; ++p)
        sum += (TRANS_A ? A[p + row * lda] : A[row + p * lda]) * (TRANS_B ? B[column + p * ldb] : B[p + column * ldb]);
    REAL* c = C + row + column * ldc;
    *c = (alpha == 0 ? 0 : alpha * sum) + (beta == 0 ? 0 : beta * *c);  // BLAS reads neither A, B nor C then
}
"""


@functools.cache
def compiled(source, arch, *options):
    """A cubin; a compile error fails the test with the log."""
    from cuda.bindings import nvrtc  # noqa: PLC0415 - only where there is a GPU

    def call(function, *arguments):
        status, *values = function(*arguments)
        assert int(status) == 0, f"{function.__name__}: {status}"
        return values[0] if values else None

    program = call(nvrtc.nvrtcCreateProgram, source.encode(), b"test.cu", 0, [], [])
    flags = [f"--gpu-architecture={arch}".encode(), *(option.encode() for option in options)]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
    if int(status) != 0:
        log = b" " * call(nvrtc.nvrtcGetProgramLogSize, program)
        nvrtc.nvrtcGetProgramLog(program, log)
        raise AssertionError(log.decode())
    cubin = b" " * call(nvrtc.nvrtcGetCUBINSize, program)
    call(nvrtc.nvrtcGetCUBIN, program, cubin)
    return cubin


def axpy_job(arch, kernel="axpy", *, n=100_003, rounds=0, shared=0, block=256, seed=0, workspace=()):
    """z = a x + y."""
    arguments = [("n", "int32"), ("rounds", "int32"), ("a", "float32")]
    arguments += [(name, "float32*") for name in "xyz"]
    return Job(
        variant=kernel,
        cubin=compiled(AXPY, arch),
        launches=Launches(
            (Launch(kernel, (-(-n // block), 1, 1), (block, 1, 1), shared, tuple(arguments)),), tuple(workspace)
        ),
        operator="axpy_operator.py:Axpy",
        problem={"n": n, "rounds": rounds, "a": 1.5},
        seed=seed,
        base=HERE,
    )


def gemm_job(arch, **values):
    """The operator gemm by its definition, one thread an element."""
    problem: Any = Gemm().problem(values)
    real, layout = {"float32": "float", "float64": "double"}[problem["dtype"]], problem["layout"]
    flags = (f"-DREAL={real}", f"-DTRANS_A={int(layout[0] == 't')}", f"-DTRANS_B={int(layout[1] == 't')}")
    dtype = problem["dtype"]
    types = {"m": "int32", "n": "int32", "k": "int32", "alpha": dtype, "A": f"{dtype}*", "lda": "int32"}
    types |= {"B": f"{dtype}*", "ldb": "int32", "beta": dtype, "C": f"{dtype}*", "ldc": "int32"}
    grid = (-(-problem["m"] // 16), -(-problem["n"] // 16), 1)
    return Job(
        variant="gemm",
        cubin=compiled(GEMM, arch, *flags),
        launches=Launches((Launch("gemm", grid, (16, 16, 1), 0, tuple(types.items())),)),
        operator="gemm",
        problem=problem,
    )


def tf32_backend():
    """The shipped backend, with cuBLAS asked for TF32: for a control that must fail."""
    from lab.gpu.device.cuda import CudaBackend  # noqa: PLC0415 - imports PyCUDA

    class Tf32Backend(CudaBackend):
        def baseline(self, name, operator, problem):
            made, cublas = super().baseline(name, operator, problem), self.cublas()
            status = cublas._library.cublasSetMathMode(cublas._handle, 3)  # CUBLAS_TF32_TENSOR_OP_MATH
            assert status == 0
            return made

    return Tf32Backend()
