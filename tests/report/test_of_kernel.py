from __future__ import annotations

from lab.isa.mix import module_mix
from lab.isa.ptx.module import read_ptx
from lab.isa.sass.module import read_sass
from lab.report.variant.listings import of_kernel
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import build, toolchain

SOURCE = """
extern "C" __global__ void first(float* x) { x[0] = 1; }
extern "C" __global__ void second(float* x, int n) { for (int i = 0; i < n; ++i) x[i] = x[i] * x[i] + 1; }
extern "C" __global__ void third(float* x) { x[0] = 3; }
"""


def test_a_listing_is_cut_to_its_kernel_and_keeps_its_line_numbers():
    built = build(toolchain("nvrtc"), CompileRequest(SOURCE, "kernel.cu", "sm_90"))
    sass = read_sass(built.disassembly.text, built.disassembly.lines)
    for module, text, head in (
        (read_ptx(built.build.ptx), built.build.ptx, ".entry {}("),
        (sass, built.disassembly.text, ".text.{},"),
    ):
        mixes = {mix.name: mix for mix in module_mix(module)}
        for name, mix in mixes.items():
            part, start = of_kernel(text, mix)
            lines = part.splitlines()
            assert lines == text.splitlines()[start - 1 : start - 1 + len(lines)]
            assert head.format(name) in part
            assert not any(head.format(other) in part for other in mixes if other != name)
            assert start <= mix.lines[0]
            assert mix.lines[1] < start + len(lines)
        hot = mixes["second"].hot_loop
        part, start = of_kernel(text, mixes["second"])
        assert all(start <= first <= last < start + part.count("\n") + 1 for first, last in hot.lines)


def test_a_listing_that_does_not_fit_its_mix_is_left_whole():
    mix = module_mix(read_ptx(build(toolchain("nvrtc"), CompileRequest(SOURCE, "kernel.cu", "sm_90")).build.ptx))[0]
    assert of_kernel("short", mix) == ("short", 1)
