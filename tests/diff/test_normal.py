from __future__ import annotations

import pytest
from diff_support import SCALE, compiled, normal

from lab.base.errors import ReaderError
from lab.diff.image import CubinImage
from lab.diff.normal import lasting_attributes, normalise
from lab.isa.model import Module
from lab.isa.sass.module import read_sass

REPORT = """
#include <stdio.h>
__device__ int first = 1;
extern "C" __global__ void report(const int *x) { if (x[threadIdx.x] < first) printf("negative\\n"); }
"""


def test_constants_are_named():
    kernel = normal(SCALE, "scale")
    assert any("c[<weights>]" in operand for i in kernel.instructions for operand in i.operands)
    assert kernel.data["weights"].startswith("8 bytes")


def test_another_variable_does_not_move_a_name():
    """The bank of addresses has another layout, and printf's address another offset."""
    texts = [[i.text for i in normal(source, "report").instructions] for source in (
        REPORT, REPORT.replace("__device__ int first", "__device__ int other = 2;\n__device__ int first")
    )]  # fmt: skip
    assert texts[0] == texts[1]


def test_text_of_printf_is_data():
    first, second = normal(REPORT, "report").data, normal(REPORT.replace("negative", "positive"), "report").data
    assert first.keys() != second.keys()


def test_scheduling_bits_are_apart():
    kernel = normal(SCALE, "scale")
    assert all("reuse" not in i.text for i in kernel.instructions)
    assert all(0 <= i.control < 1 << 21 for i in kernel.instructions)
    assert len({i.control for i in kernel.instructions}) > 2


def test_a_listing_without_the_code_is_refused():
    made = compiled(SCALE)
    cubin = CubinImage(made.build.cubin)
    module = read_sass(made.disassembly.text)
    (function,) = module.functions
    short = Module("sass", "", module.target, (type(function)(function.name, True, function.instructions[:4]),))
    for listing in (Module("sass", "", "sm_90", ()), short):
        with pytest.raises(ReaderError):
            normalise(cubin, listing, "scale")


def test_places_in_the_code_are_no_lasting_attributes():
    names = {name for name, _ in lasting_attributes(normal(SCALE, "scale"))}
    assert "EXIT_INSTR_OFFSETS" not in names
    assert "MAX_THREADS" in names
