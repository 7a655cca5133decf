"""Host overhead of a library call, compared with torch.mm and with the driver's own launch.

    python benchmarks/call_overhead.py [LIBRARY] [--layout nn] [--size 64 64 64] [--maps] [--without-gpu]

Every figure is host time in microseconds of a call that only queues: batches of 200 calls with nothing between them,
the GPU idle before each batch. The product is small, so that the GPU keeps up and no call waits for it. LIBRARY is a
name, a folder or an archive; without it, a library of one kernel is compiled. gcc compiles the rows of C. With
`--maps`, that kernel takes tensor maps, and one row more has A elsewhere in every call, so that each encodes a map.

With `--without-gpu`, a driver takes the place of NVIDIA's that does nothing (stub_driver.c): what is left is what this
project adds to the driver's functions. Tensors are then objects with PyTorch's attributes, in Python.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from lab.library import dispatch
from lab.library.archive import StoredLibrary, stored
from lab.library.callmaps import MOST_ADDRESSES
from lab.library.calls import MAP, plan
from lab.library.driver import CudaDriver, LaunchConfig, cuda_driver
from lab.library.emit import write
from lab.library.grid import Grid
from lab.library.package import FACTORS, SIZES, Library, TimesKind
from lab.library.specialise import kernel
from lab.library.tree import build, evaluate
from lab.store.tuning_model import ProblemType
from lab.templates import front_matter
from lab.templates.instance import Instance
from lab.toolchain import locate
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import toolchain
from lab.tuning.product import product

HERE = Path(__file__).parent
CALLS, BATCHES = 200, 51
STUBBED = "LAB_STUB_DRIVER"
Row = tuple[str, list[float]]


def one_kernel(layout: str, arch: str, *, maps: bool) -> StoredLibrary:
    """Compile a library of one kernel, whose time is not known."""
    template = front_matter.load("gemm/sgemm.cu.j2" if maps else "gemm/tiled.cu.j2", front_matter.search_path())
    tile: dict[str, Any] = {"block_m": 64, "block_n": 64, "block_k": 16, "thread_m": 4}
    parameters = template.completed({**tile, **({"copies": "bulk", "thread_n": 8} if maps else {"thread_n": 4})})
    cubin = b"nothing reads it"
    if STUBBED not in os.environ:  # NVRTC, too, would load the stub
        source = Instance(template, parameters, product(ProblemType("float32", layout), (1, 1, 1))).source
        cubin = toolchain("nvrtc").compile(CompileRequest(source, "kernel.cu", arch)).cubin
    sole_kernel = kernel(
        "tiled", cubin="tiled.cubin", template=template, parameters=parameters, dtype="float32", layout=layout
    )
    grid = Grid.of({(1, 1, 1): {"tiled": 1.0}})
    logic = build(grid)
    times = TimesKind.PREDICTED, "of one kernel, so that there is nothing to choose"
    library = Library("sgemm", "float32", layout, arch, *times, (sole_kernel,), logic, evaluate(logic, grid))  # type: ignore[arg-type]
    return StoredLibrary(library, {"tiled.cubin": cubin}, Path("tiled"))


def timed(call: Callable[[], object], wait: Callable[[], object]) -> list[float]:
    """Return microseconds a call, a figure a batch; the first batch warms up and is left out."""
    batch_us = []
    for _ in range(BATCHES + 1):
        wait()
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        batch_us.append((time.perf_counter() - start) / CALLS * 1e6)
    wait()
    return batch_us[1:]


def stub_tensors(pointers: list[int], shapes: list[tuple[int, int]]) -> tuple[ModuleType, list[Any]]:
    """Return a module with PyTorch's name, and tensors with its attributes."""
    module: Any = ModuleType("torch")
    module.is_grad_enabled = lambda: False
    dtype = type("dtype", (), {"__module__": "torch", "__str__": lambda _: "torch.float32"})()
    members = {
        "__module__": "torch",
        "__slots__": ("pointer", "shape", "strides"),
        "dtype": dtype,
        "requires_grad": False,
        "stride": lambda self: self.strides,
        "get_device": lambda _: 0,
        "data_ptr": lambda self: self.pointer,
    }
    module.Tensor = type("Tensor", (), members)
    tensors = []
    for pointer, (rows, columns) in zip(pointers, shapes, strict=True):
        tensor = module.Tensor()
        tensor.pointer, tensor.shape, tensor.strides = pointer, (rows, columns), (1, rows)
        tensors.append(tensor)
    return module, tensors


class ByInterface:
    """An array that offers the interface alone, made beforehand."""

    def __init__(self, pointer: int, shape: tuple[int, int]) -> None:
        """Describe a column-major matrix."""
        self.__cuda_array_interface__ = {
            "shape": shape, "typestr": "<f4", "data": (pointer, False), "strides": (4, 4 * shape[0]), "version": 2,
        }  # fmt: skip


def launches(library: StoredLibrary, point: dict[str, float], pointers: list[int]) -> tuple[list[Any], list[object]]:
    """Return the arguments of `cuLaunchKernel` for each launch of a product, and what keeps them alive."""
    call_plan, driver = plan(library.library, point), cuda_driver()
    at = dict(zip("ABC", pointers, strict=True))
    scratch = driver.allocate(call_plan.workspace_bytes) if call_plan.workspace_bytes else 0
    at |= {buffer.name: scratch + buffer.offset for buffer in call_plan.buffers}
    module = driver.module(library.cubins[library.library.kernels[call_plan.kernel].cubin])
    launch_arguments: list[Any] = []
    keep_alive: list[object] = []
    for step in call_plan.steps:
        function = driver.function(module, step.entry)
        if step.shared_bytes:
            driver.allow_shared(function, step.shared_bytes)
        maps = {one.name: driver.encode(one, at[one.of]) for one in call_plan.tensor_maps}
        words = [
            np.array([at.get(v, 0)], np.uint64) if isinstance(v, str) else np.array([v], np.dtype(code))
            for v, code in zip(step.values, step.codes, strict=True)
        ]
        places = [
            maps[str(value)].address if code == MAP else word.ctypes.data
            for word, value, code in zip(words, step.values, step.codes, strict=True)
        ]
        keep_alive.append(maps)
        arguments = (ctypes.c_void_p * len(words))(*places)
        configuration = LaunchConfig(
            (ctypes.c_uint * 3)(*step.grid), (ctypes.c_uint * 3)(*step.block), step.shared_bytes
        )
        keep_alive += (words, arguments, configuration)
        start = ctypes.addressof(arguments)
        launch_arguments.append((
            (function, *step.grid, *step.block, step.shared_bytes, None, start, None),
            (ctypes.addressof(configuration), function, start, None),
        ))  # fmt: skip
    return launch_arguments, keep_alive


def raw_rows(
    library: StoredLibrary, point: dict[str, float], pointers: list[int], wait: Callable[[], object]
) -> list[Row]:
    """Time the driver's two functions from Python, called through ctypes with arguments made beforehand."""
    launch_arguments, _kept = launches(library, point, pointers)
    api = ctypes.CDLL("libcuda.so.1").cuLaunchKernel
    api.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3]
    wide, narrow = [one for one, _ in launch_arguments], [one for _, one in launch_arguments]
    driver: CudaDriver = cuda_driver()
    return [
        ("cuLaunchKernel, ctypes", timed(lambda: [api(*one) for one in wide], wait)),
        ("cuLaunchKernelEx, ctypes", timed(lambda: [driver.launch(*one) for one in narrow], wait)),
    ]


def c_rows(library: StoredLibrary, size: tuple[int, int, int], folder: Path) -> list[Row]:
    """Time the emitted C, and `cuLaunchKernel` with the same arguments."""
    gcc, headers = shutil.which("gcc"), locate.headers()
    if gcc is None or headers is None:
        return []
    name, layout = library.library.name, library.library.layout
    kernels = library.library.kernels
    write(library.library, {kernel.name: library.cubins[kernel.cubin] for kernel in kernels}, folder)
    defined = {
        "NAME_H": f'"{name}.h"', "OPEN": f"{name}_open", "GEMM": f"{name}_gemm", "WORKSPACE": f"{name}_workspace",
        "LIBRARY": f"{name}_library", "A_ROWS": "m" if layout[0] == "n" else "k",
        "B_ROWS": "k" if layout[1] == "n" else "n",
    }  # fmt: skip
    driver = next(
        (one for one in map(Path, os.environ.get("LD_LIBRARY_PATH", "").split(":")) if (one / "libcuda.so.1").exists()),
        None,
    )
    command: list[str | Path] = [
        gcc,
        "-std=c11",
        "-O2",
        *(f"-D{key}={value}" for key, value in defined.items()),
        "-I",
        headers,
        "-I",
        folder,
    ]
    command += [HERE / "call_overhead.c", folder / f"{name}.c", "-Wl,--wrap=cuLaunchKernel", "-o", folder / "timed"]
    command += ["-L", driver] if driver else []
    command += ["-l:libcuda.so.1"]
    subprocess.run(command, check=True)
    run: list[str | Path] = [folder / "timed", folder, *map(str, size)]
    text = subprocess.run(run, check=True, capture_output=True, text=True).stdout
    lines = [line.split() for line in text.splitlines()]
    ours = [float(value) / 1e3 for what, value in lines if what == "gemm"]
    alone = [float(value) / 1e3 for what, value in lines if what == "launch"]
    each = [alone[i : i + len(ours)] for i in range(0, len(alone), len(ours))]  # a product may be several launches
    return [("emitted C", ours), ("cuLaunchKernel, C", [sum(one) for one in zip(*each, strict=True)])]


def python_rows(library: StoredLibrary, size: tuple[int, int, int]) -> Iterator[Row]:
    """Time calls from Python; PyTorch must be there where a GPU is."""
    m, n, k = size
    layout = library.library.layout
    shapes = [(m, k) if layout[0] == "n" else (k, m), (k, n) if layout[1] == "n" else (n, k), (m, n)]
    loaded = dispatch.Dispatcher(library)
    if STUBBED in os.environ:
        pointers, roomy = [1 << 20, 2 << 20, 3 << 20], 1 << 20
        sys.modules["torch"], (a, b, c) = stub_tensors(pointers, shapes)
        wait: Callable[[], object] = lambda: None  # noqa: E731 - it replaces a function
    else:
        import torch  # noqa: PLC0415 - of a GPU host

        a, b, c = (torch.randn(columns, rows, device="cuda").T for rows, columns in shapes)  # column-major views
        pointers, wait = [one.data_ptr() for one in (a, b, c)], torch.cuda.synchronize
        spare = torch.randn(a.numel() + 8 * MOST_ADDRESSES, device="cuda")
        roomy = spare.data_ptr()
        left, right = (one if way == "n" else one.T for one, way in zip((a, b), layout, strict=True))
        row_major = torch.empty(m, n, device="cuda")
        yield "torch.mm(out=)", timed(lambda: torch.mm(left, right, out=row_major), wait)
        with torch.cuda.stream(torch.cuda.Stream()):
            stream = torch.cuda.current_stream()
            yield "torch.mm(out=), side stream", timed(lambda: torch.mm(left, right, out=row_major), wait)
            yield "gemm, tensors, side stream", timed(lambda: loaded.gemm(1.0, a, b, 0.0, c, stream=stream), wait)
    yield "gemm, tensors", timed(lambda: loaded.gemm(1.0, a, b, 0.0, c), wait)
    d, e, f = (ByInterface(pointer, shape) for pointer, shape in zip(pointers, shapes, strict=True))
    yield "gemm, __cuda_array_interface__", timed(lambda: loaded.gemm(1.0, d, e, 0.0, f), wait)
    if any(kernel.tensor_maps for kernel in library.library.kernels):
        moved = itertools.cycle([ByInterface(roomy + 16 * i, shapes[0]) for i in range(2 * MOST_ADDRESSES)])
        yield "the same, each A elsewhere", timed(lambda: loaded.gemm(1.0, next(moved), e, 0.0, f), wait)
    leading = (shapes[0][0], shapes[1][0], m)
    point = dict(zip((*SIZES, *FACTORS), (*size, *leading, 1.0, 0.0), strict=True))
    context = cuda_driver().primary(0)
    with cuda_driver().pushed(context):
        yield from raw_rows(library, point, pointers, wait)


def with_stub(folder: Path) -> None:
    """Start this script again with a driver that does nothing."""
    gcc = shutil.which("gcc")
    if gcc is None:
        sys.exit("--without-gpu needs gcc")
    subprocess.run([gcc, "-O2", "-shared", "-fPIC", "-o", folder / "libcuda.so.1", HERE / "stub_driver.c"], check=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder), STUBBED: "1"}
    sys.exit(subprocess.run([sys.executable, *sys.argv], check=False, env=environment).returncode)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("library", nargs="?")
    parser.add_argument("--layout", default="nn")
    parser.add_argument("--size", nargs=3, type=int, default=[64, 64, 64])
    parser.add_argument("--maps", action="store_true")
    parser.add_argument("--without-gpu", action="store_true")
    options = parser.parse_args()
    size = (options.size[0], options.size[1], options.size[2])
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if options.without_gpu and STUBBED not in os.environ:
            with_stub(folder)
        if options.library is None:
            library = one_kernel("nt" if options.maps else options.layout, "sm_90", maps=options.maps)
        else:
            library = next(one for one in stored(options.library) if one.library.layout == options.layout)
        where = "a driver that does nothing" if STUBBED in os.environ else "NVIDIA's driver"
        print(f"{library.library.name}, {library.library.layout}, {' x '.join(map(str, size))}, {where}; µs a call")
        print(f"{'':34}{'median':>9}{'p20':>9}{'p80':>9}{'n':>6}")
        for name, values in (*python_rows(library, size), *c_rows(library, size, folder)):
            p20, median, p80 = np.percentile(values, [20, 50, 80])
            print(f"{name:34}{median:9.3f}{p20:9.3f}{p80:9.3f}{len(values):6}")


if __name__ == "__main__":
    main()
