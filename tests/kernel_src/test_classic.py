"""`gemm/classic.cu.j2`: the classic ladder's register tiles, emulated, and their resources."""

from __future__ import annotations

import pytest
from compiling import ptx_of

from lab.operators.builtin import operator
from lab.stages.emulate import EmulationTask, emulate
from lab.templates import front_matter as kernels
from lab.templates.instance import Instance
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import toolchain

TEMPLATE = kernels.load("gemm/classic.cu.j2", kernels.search_path())
V5 = {"block_m": 32, "block_n": 32, "block_k": 32, "thread_m": 4, "thread_n": 1}
SQUARE = {"block_m": 64, "block_n": 64, "block_k": 16, "thread_m": 4, "thread_n": 4}
RUNGS = {"v5": V5, "64x64": SQUARE, "128x128": {"unroll": 4}}


def instance(given, **sizes):
    whole = {"m": 128, "n": 128, "k": 128, "dtype": "float32", "layout": "nn"}
    return Instance(TEMPLATE, TEMPLATE.completed(given), operator("gemm").problem({**whole, **sizes}))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("buffers", [1, 2])
@pytest.mark.parametrize("rung", RUNGS)
def test_every_rung_is_right_and_clean(rung, buffers, dtype):
    for (alpha, beta), slack in zip([(1.0, 0.0), (-1.5, 0.5), (0.0, 2.0)], (0, 4, 8), strict=True):
        shape = {"m": 256, "n": 128, "k": 96, "dtype": dtype, "alpha": alpha, "beta": beta}
        leading = {"lda": 256 + slack, "ldb": 96 + slack, "ldc": 256 + slack}
        made = instance({**RUNGS[rung], "buffers": buffers}, **shape, **leading)
        assert made.unmet() is None
        done = emulate(EmulationTask(made.launches, "gemm", made.problem, 0, {}), ptx_of(made.source))
        assert (done.unsupported, done.fault) == ("", "")
        assert done.verification.passed


@pytest.mark.parametrize(
    ("rung", "buffers", "most_registers", "shared_bytes"),
    [("v5", 1, 40, 8192), ("64x64", 1, 64, 8192), ("128x128", 1, 128, 8192), ("128x128", 2, 128, 16384)],
)
def test_as_many_blocks_fit_as_of_the_article(rung, buffers, most_registers, shared_bytes):
    """The article's own kernels have 40, 62, 123 and 122 registers: six, four, two and two blocks of 256 on an SM."""
    source = instance({**RUNGS[rung], "buffers": buffers}).source
    (resources,) = toolchain("nvrtc").compile(CompileRequest(source, "kernel.cu", "sm_90")).resources.values()
    assert resources.registers <= most_registers
    assert resources.shared_bytes == shared_bytes
    assert resources.spill_load_bytes == resources.spill_store_bytes == 0


@pytest.mark.parametrize("size", ["m", "n", "k"])
def test_parts_of_tiles_are_refused(size):
    reason = instance({}, **{size: 100}).unmet()
    assert reason is not None
    assert "tiles are whole" in str(reason)
