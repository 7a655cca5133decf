"""Our occupancy against the driver's own answer, for kernels compiled here for the GPU at hand."""

import itertools
from dataclasses import dataclass
from typing import Any

import pytest

from lab.hardware.gpus import architecture_for
from lab.hardware.occupancy import occupancy

pytestmark = pytest.mark.gpu

driver = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
nvrtc = pytest.importorskip("cuda.bindings.nvrtc", reason="cuda-bindings is not installed")

SOURCE = """
extern "C" __global__ void BOUNDS kernel(float *out, const float *in, int n)
{
    extern __shared__ float dynamic[];
#if STATIC_FLOATS > 0
    __shared__ float fixed[STATIC_FLOATS];
#endif
    float v[LIVE];
    #pragma unroll
    for (int i = 0; i < LIVE; ++i) v[i] = in[threadIdx.x + i * n];
    for (int step = 0; step < n; ++step) {
        float f = in[step];
#if STATIC_FLOATS > 0
        fixed[(threadIdx.x + step) % STATIC_FLOATS] = f;
        __syncthreads();
        f += fixed[step % STATIC_FLOATS];
#endif
        if (n < 0) f += dynamic[step];
        #pragma unroll
        for (int i = 0; i < LIVE; ++i) v[i] = v[i] * f + v[(i + 7) % LIVE];
    }
    if (n == 12345) {
        NAMED_BARRIERS
    }
    float sum = 0;
    #pragma unroll
    for (int i = 0; i < LIVE; ++i) sum += v[i];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""


@dataclass(frozen=True)
class Kernel:
    """A kernel to compile: values held live, static floats, barriers, `__launch_bounds__` and register cap."""

    live: int
    static_floats: int = 0
    barriers: int = 0
    bounds: str = ""
    cap: int = 0


@dataclass(frozen=True)
class Use:
    registers: int
    shared_bytes: int
    barriers: int


KERNELS = (
    *(Kernel(live, floats, 1 if floats else 0) for live in (8, 40, 96, 160) for floats in (0, 1000, 8192)),
    Kernel(8, 12000, 1),
    Kernel(220, 0, 0, "__launch_bounds__(256, 1)"),
    Kernel(96, 0, 0, "__launch_bounds__(256, 4)"),
    Kernel(96, 1024, 1, "__launch_bounds__(1024)"),
    Kernel(64, 0, 0, "", 32),
    Kernel(96, 0, 0, "", 72),
    Kernel(160, 0, 0, "", 128),
)
THREADS = (32, 96, 160, 256, 500, 1024)
DYNAMIC = (0, 1000, 30000, 60000)


def _call(module: Any, result: tuple[Any, ...]) -> Any:
    """The values of a binding's answer; its error code, the first value, must be success."""
    error, *values = result
    assert int(error) == 0, f"{module.__name__} answered {error!r}"
    return values[0] if len(values) == 1 else values


def _cu(result: tuple[Any, ...]) -> Any:
    return _call(driver, result)


@pytest.fixture(scope="module")
def arch():
    """Architecture of the first GPU, with its primary context current."""
    try:
        started = driver.cuInit(0)[0]
    except RuntimeError as error:  # the binding's answer where there is no driver library
        pytest.skip(f"no CUDA driver: {error}")
    if int(started) != 0:
        pytest.skip(f"no CUDA GPU: cuInit answered {started!r}")
    device = _cu(driver.cuDeviceGet(0))
    _cu(driver.cuCtxSetCurrent(_cu(driver.cuDevicePrimaryCtxRetain(device))))
    which = driver.CUdevice_attribute
    major, minor = (
        _cu(driver.cuDeviceGetAttribute(attribute, device))
        for attribute in (
            which.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            which.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        )
    )
    yield f"sm_{major}{minor}"
    _cu(driver.cuDevicePrimaryCtxRelease(device))


def _compile(kernel: Kernel, arch: str) -> bytes:
    options = [f"-arch={arch}", f"-DLIVE={kernel.live}", f"-DSTATIC_FLOATS={kernel.static_floats}"]
    options += [f"-DBOUNDS={kernel.bounds}"]
    options += [f"-maxrregcount={kernel.cap}"] if kernel.cap else []
    barriers = " ".join(f'asm volatile("bar.sync {b};" ::: "memory");' for b in range(1, kernel.barriers))
    source = SOURCE.replace("NAMED_BARRIERS", barriers)
    program = _call(nvrtc, nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], []))
    _call(nvrtc, nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options]))
    cubin = b" " * _call(nvrtc, nvrtc.nvrtcGetCUBINSize(program))
    _call(nvrtc, nvrtc.nvrtcGetCUBIN(program, cubin))
    return cubin


def _load(cubin: bytes) -> tuple[Any, Any]:
    module = _cu(driver.cuModuleLoadData(cubin))
    return module, _cu(driver.cuModuleGetFunction(module, b"kernel"))


def _use(function: Any, kernel: Kernel) -> Use:
    which = driver.CUfunction_attribute
    registers = _cu(driver.cuFuncGetAttribute(which.CU_FUNC_ATTRIBUTE_NUM_REGS, function))
    # Not the driver's figure of shared memory: from sm_90 on a cubin's own count includes the reserve.
    return Use(registers, 4 * kernel.static_floats, kernel.barriers)


def _compare(arch: str, kernel: Kernel, launches: list[tuple[int, int]]) -> tuple[int, list[str]]:
    """Number of launches compared, and those where the driver answers otherwise."""
    row = architecture_for(arch)
    module, function = _load(_compile(kernel, arch))
    use = _use(function, kernel)
    maximum = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    compared, wrong = 0, []
    most = _cu(driver.cuFuncGetAttribute(driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function))
    for threads, dynamic in launches:
        # The driver refuses to answer for what the kernel was not compiled for or the function cannot opt in to.
        if threads > most or use.shared_bytes + dynamic > row.shared_per_block:
            continue
        _cu(driver.cuFuncSetAttribute(function, maximum, dynamic))
        theirs = _cu(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, threads, dynamic))
        ours = occupancy(row, use, threads, dynamic)
        compared += 1
        if theirs != ours.blocks_per_sm:
            wrong.append(f"{kernel} {use} {threads} threads, {dynamic} dynamic: driver {theirs}, ours {ours}")
    _cu(driver.cuModuleUnload(module))
    return compared, wrong


def test_blocks_per_sm_are_the_driver_s(arch):
    launches = list(itertools.product(THREADS, DYNAMIC))
    results = [_compare(arch, kernel, launches) for kernel in KERNELS]
    assert sum(compared for compared, _ in results) >= 300
    assert [line for _, wrong in results for line in wrong] == []


def test_barriers_limit_blocks_from_hopper_on(arch):
    compared, wrong = _compare(arch, Kernel(8, 0, 16), [(32, 0), (128, 0), (1024, 0)])
    assert (compared, wrong) == (3, [])


def test_the_device_s_limits_are_the_table_s(arch):
    row = architecture_for(arch)
    device = _cu(driver.cuDeviceGet(0))
    which = driver.CUdevice_attribute
    expected = {
        which.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: row.threads_per_sm,
        which.CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: row.blocks_per_sm,
        which.CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: row.registers_per_sm,
        which.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: row.shared_per_sm,
        which.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: row.shared_per_block,
        which.CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: row.reserved_shared,
        which.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: row.threads_per_block,
    }
    assert {key: _cu(driver.cuDeviceGetAttribute(key, device)) for key in expected} == expected
