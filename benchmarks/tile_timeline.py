"""Print when, within a product on tensor cores, a block's stations are passed: cycles of its SM and nanoseconds.

python benchmarks/tile_timeline.py 2048 4096

The rungs of kernel_src/hgemm that fetch by a warp of their own are compiled with marks: the first warpgroup that
multiplies notes clock64 and globaltimer where the block begins, when it has met the others, when the first tiles of its
last tile of C have arrived, when that is multiplied, and when it is stored. L2 is filled with other data before each
launch. Of the launches, the one with the median duration is printed; of its blocks, the median.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.base.expressions import Scalar
from lab.hardware.gpus import from_description
from lab.operators.builtin import operator
from lab.templates import front_matter
from lab.templates.instance import Instance
from lab.templates.launches import BuiltLaunch, Residency
from lab.toolchain.base import CompileRequest
from lab.toolchain.cache import Cache, default_folder
from lab.toolchain.select import build, toolchain

if TYPE_CHECKING:
    from numpy.typing import NDArray

STATIONS: Final = ("begun", "met", "first tiles", "multiplied", "stored")
RUNGS: Final[Mapping[str, tuple[str, Mapping[str, Scalar]]]] = {
    "v6, 256 x 128": ("v6_persistent", {}),
    "v7, 256 x 128": ("v7_cluster", {}),
    "v8, 256 x 128": ("v8_epilogue", {}),
    "v9, 192 x 128": ("v9_pingpong", {}),
    "v9, 128 x 128": ("v9_pingpong", {"block_m": 128, "block_n": 128, "stages": 6}),
}
LAUNCHES: Final = 15
_MOST_BLOCKS: Final = 1024
_NOTED: Final = f"""
__device__ unsigned long long passed[{_MOST_BLOCKS} * {len(STATIONS)} * 2];
static __device__ __forceinline__ void mark(int station) {{
    if (threadIdx.x != 128) return;
    unsigned long long* const to = passed + (blockIdx.x * {len(STATIONS)} + station) * 2;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(to[1]));
    to[0] = clock64();
}}
"""
_PLACES: Final = (
    (r"(    extern __shared__ [^\n]*\n)", r"\1    mark(0);\n"),
    (r"(    (?:cluster_barrier|__syncthreads)\(\);  // the mbarriers [^\n]*\n)", r"\1    mark(1);\n"),
    (r"(                ring\.wait_full\(\);\n)", r"\1                if (step == 0) mark(2);\n"),
    (r"(            sums\.wait<0>\(\);\n)", r"\1            mark(3);\n"),
    (r"(            sums\.store\([^\n]*\n)", r"\1            mark(4);\n"),
)
"""Lines of the rungs behind which a station is passed."""


def marked(source: str) -> str:
    """Return a rung's source with a mark at each station.

    Raises:
        ValueError: a station is not found once.
    """
    for place, with_mark in _PLACES:
        source, count = re.subn(place, with_mark, source)
        if count != 1:
            raise ValueError(f"{count} lines match {place}; a rung has one")
    return source.replace('extern "C" __global__', f'{_NOTED}\nextern "C" __global__', 1)


@dataclass(frozen=True, slots=True)
class Passed:
    """The timestamps recorded by a launch.

    Attributes:
        cycles: (blocks, stations) clock64 of the block's SM.
        ns: (blocks, stations) globaltimer, which all SMs share.
    """

    cycles: NDArray[np.int64]
    ns: NDArray[np.int64]

    @property
    def duration_ns(self) -> int:
        """From the first block's begin until the last has stored."""
        return int(self.ns[:, -1].max() - self.ns[:, 0].min())

    @property
    def line(self) -> list[str]:
        """Nanoseconds of the stations since the first block's begin, cycles between them, and the clock in GHz."""
        since = np.median(self.ns - self.ns[:, 0].min(), axis=0)
        between = np.median(np.diff(self.cycles, axis=1), axis=0)
        whole = (self.cycles[:, -1] - self.cycles[:, 0]) / (self.ns[:, -1] - self.ns[:, 0])
        return [*(f"{ns:,.0f}" for ns in since), *(f"{cycles:,.0f}" for cycles in between), f"{np.median(whole):.2f}"]


def lines(sizes: list[int], dtype: str, layout: str) -> Iterator[str]:
    """Yield the table as Markdown, a row for each size and rung, measured on the first GPU."""
    import pycuda.driver as cuda  # noqa: PLC0415 - only where there is a GPU

    from lab.gpu.device.buffers import DeviceBuffers  # noqa: PLC0415
    from lab.gpu.device.describe import describe_device  # noqa: PLC0415
    from lab.gpu.device.launching import Launcher  # noqa: PLC0415

    cuda.init()
    description, device = describe_device(0), cuda.Device(0)
    yield f"{description.name}, {dtype}, {layout}"
    between = [f"to {station}, cycles" for station in STATIONS[1:]]
    heads = ["m = n = k", "rung", *(f"{station}, ns" for station in STATIONS), *between, "GHz", "all blocks, ns"]
    yield f"| {' | '.join(heads)} |"
    yield f"| ---: | --- | {' | '.join(['---:'] * (len(heads) - 2))} |"
    context = device.retain_primary_context()
    context.push()
    try:
        stream = cuda.Stream()
        fill = 4 * (description.l2_bytes or 2**26)
        other = cuda.mem_alloc(fill)
        for size in sizes:
            problem = operator("gemm").problem({"m": size, "n": size, "k": size, "dtype": dtype, "layout": layout})
            buffers = DeviceBuffers(stream)
            buffers.load(operator("gemm").inputs(problem, 0))
            buffers.upload()
            for name, (template, given) in RUNGS.items():
                path = front_matter.load(f"hgemm/{template}.cu.j2", front_matter.search_path())
                instance = Instance.of(path, given, problem)
                request = CompileRequest(marked(instance.source), "kernel.cu", f"{description.arch}a")
                built = build(toolchain("auto"), request, Cache(default_folder())).build
                known = BuiltLaunch.of(built, Residency(from_description(description), built.resources))
                launches = instance.launches.built(known)
                module = cuda.module_from_buffer(built.cubin)
                launch = Launcher(device, stream).sequence(
                    module, built.cubin, launches, buffers.inputs, buffers.pointers
                )
                address, room = module.get_global("passed")
                noted = np.zeros(room // 8, np.uint64)
                passes = []
                for _ in range(LAUNCHES):
                    cuda.memset_d8_async(other, 0, fill, stream)
                    launch()
                    stream.synchronize()
                    cuda.memcpy_dtoh(noted, address)
                    grid = launches.steps[-1].grid
                    table = noted.astype(np.int64).reshape(_MOST_BLOCKS, len(STATIONS), 2)[: grid[0]]
                    passes.append(Passed(table[:, :, 0], table[:, :, 1]))
                middle = sorted(passes, key=lambda one: one.duration_ns)[LAUNCHES // 2]
                yield f"| {size} | {name} | {' | '.join(middle.line)} | {middle.duration_ns:,} |"
            buffers.free()
    finally:
        context.pop()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", type=int, nargs="+", help="m = n = k")
    parser.add_argument("--dtype", default="bfloat16", help="bfloat16 or float16")
    parser.add_argument("--layout", default="tn", help="nn, nt, tn or tt")
    given = parser.parse_args()
    for line in lines(given.sizes, given.dtype, given.layout):
        print(line, flush=True)


if __name__ == "__main__":
    main()
