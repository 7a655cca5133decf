"""Sides of `lab diff` from sources that are compiled once."""

from __future__ import annotations

from functools import cache

from lab.diff.comparison import SideComparison, compare_sides
from lab.diff.image import CubinImage
from lab.diff.normal import NormalKernel, normalise
from lab.diff.side import CodeSide, SideImage
from lab.isa.sass.module import read_sass
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import Compiled, build, toolchain

SCALE = """
__constant__ float weights[2] = {1.5f, 2.5f};
extern "C" __global__ void __launch_bounds__(256) scale(float *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[i] * weights[i & 1] + 3.0f;
}
"""
LOOP = """
extern "C" __global__ void dot(float *y, const float *a, const float *b, int n)
{
    __shared__ float part[128];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += 128) sum += a[i] * b[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) for (int i = 0; i < 128; i++) *y += part[i];
}
"""


@cache
def compiled(source: str, arch: str = "sm_90", *options: str, kernels: tuple[str, ...] = ()) -> Compiled:
    return build(toolchain("nvrtc"), CompileRequest(source, "kernel.cu", arch, options, (), kernels))


def image(source: str, arch: str = "sm_90", *options: str, where: str = "", kernels: tuple[str, ...] = ()) -> SideImage:
    made = compiled(source, arch, *options, kernels=kernels).build
    spills = {name: (used.spill_store_bytes, used.spill_load_bytes) for name, used in made.resources.items()}
    return SideImage(where, made.cubin, f"nvrtc {made.version}", options, spills=spills)


def side(*images: SideImage, name: str = "side") -> CodeSide:
    return CodeSide(name, images)


def normal(source: str, symbol: str, arch: str = "sm_90", *options: str) -> NormalKernel:
    made = compiled(source, arch, *options)
    module = read_sass(made.disassembly.text, made.disassembly.lines)
    return normalise(CubinImage(made.build.cubin), module, symbol)


@cache
def comparison() -> SideComparison:
    """Return a comparison with a changed, an identical, an added and a removed kernel, and a missing architecture."""
    head = SCALE.replace("3.0f", "4.0f").replace("x[i] * ", "x[i] / ")
    extra = 'extern "C" __global__ void {}(int *x) {{ {} }}'
    base_images = [
        image(SCALE, where="a.cu"), image(LOOP, where="b.cu"), image(LOOP, "sm_80", where="b.cu"),
        image(extra.format("old", "atomicAdd(x, 1); x[1] = clock();"), where="c.cu"),
    ]  # fmt: skip
    head_images = [
        image(head, where="a.cu"), image(LOOP, where="b.cu"),
        image(extra.format("fresh", "for (int i = 0; i < x[0]; i++) x[i] = x[i + 1] % x[i + 2];"), where="c.cu"),
    ]  # fmt: skip
    return compare_sides(side(*base_images, name="before"), side(*head_images, name="after"))
