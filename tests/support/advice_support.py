"""Evidence for tests of advice: kernels in PTX that the CPU executes, and work for the time model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lab.advice.evidence import Evidence, of_emulation
from lab.emulator.api import launch
from lab.hardware.gpus import gpu_for
from lab.isa.model import InstructionClass as C
from lab.isa.model import Module
from lab.isa.ptx.module import read_ptx
from lab.predict.variant_scores import RealWork
from lab.predict.work import LaunchWork
from lab.recorded.run_records import LaunchRecord
from lab.toolchain.base import Resources

HEAD = """
.version 8.0
.target sm_90
.address_size 64
.file 1 "kernel.cu"
"""
RESOURCES = Resources(32, 0, 0, 0, 0, 0, 0)
H200 = gpu_for("H200")


def module(body: str, *, parameters: str = ".param .u64 in, .param .u64 out", before: str = "") -> Module:
    """A module with one kernel `k`; `L12` in front of a line of its body is the source line of what follows."""
    located = re.sub(r"^\s*L(\d+)\s", r".loc 1 \1 0\n", body, flags=re.MULTILINE)
    registers = ".reg .pred %p<9>; .reg .b32 %r<30>; .reg .f32 %f<30>; .reg .f64 %d<9>; .reg .b64 %rd<30>;"
    return read_ptx(f"{HEAD}{before}\n.visible .entry k({parameters})\n{{\n{registers}\n{located}\nret;\n}}\n", "k.ptx")


def executed(code: Module, arguments: Sequence[Any], *, grid: int = 1, block: int = 32) -> Evidence:
    """Execute a kernel and return the evidence, without a predicted time."""
    done = launch(code, "k", grid, block, arguments, trace=True)
    return of_emulation(done, code, (grid, 1, 1), (block, 1, 1))


def modelled(evidence: Evidence, blocks_per_sm: int = 8, **work: Any) -> Evidence:
    """Evidence with a predicted time of work on an H200: 13,200 blocks of 8 warps that issue a little of everything."""
    usual: dict[str, Any] = {
        "blocks": 13200,
        "warps_per_block": 8,
        "blocks_per_sm": blocks_per_sm,
        "instructions": 1e7,
        "by_class": {C.FLOAT: 1e6},
    }
    if evidence.total("const.load").passes:
        usual["constant_passes"] = 1e7 * evidence.total("const.load").passes / evidence.executed_warps
    real = RealWork(H200, (LaunchWork(**(usual | work)),), 0, 0.0)
    return replace(
        evidence,
        work=real,
        gpu=H200,
        resources=evidence.resources or RESOURCES,
        launch=evidence.launch or LaunchRecord((13200, 1, 1), (256, 1, 1), 0),
        blocks_per_sm=blocks_per_sm,
    )
