"""Compile one variant, disassemble it and read both listings: the stage that runs in worker processes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from lab import toolchain
from lab.errors import CompileError, ReaderError
from lab.isa.mix import KernelMix, kernel_mix
from lab.isa.model import Module
from lab.isa.ptx import read_ptx
from lab.isa.sass import read_sass
from lab.plan import Planned
from lab.toolchain.base import Build, CompileRequest, Disassembly, Toolchain


@dataclass(frozen=True, slots=True)
class BuildTask:
    """One variant to build.

    Attributes:
        toolchain: The compiler.
        request: What to compile.
        entry: Symbol of the kernel that is launched.
    """

    toolchain: Toolchain
    request: CompileRequest
    entry: str


@dataclass(frozen=True, slots=True)
class Built:
    """A variant's machine code, with what was read off it.

    Attributes:
        build: From the compiler.
        disassembly: From the disassembler.
        cached: Both came from the cache.
        ptx: Mix of the launched kernel's PTX.
        sass: Mix of the launched kernel's SASS.
        sass_sha256: Hash of the launched kernel's instructions; equal hashes mean equal machine code.
    """

    build: Build
    disassembly: Disassembly
    cached: bool
    ptx: KernelMix
    sass: KernelMix
    sass_sha256: str


@dataclass(frozen=True, slots=True)
class BuildFailure:
    """Why a variant has no machine code.

    Attributes:
        reason: One line.
        log: Everything the compiler printed; may be empty.
        command: As one could repeat it; may be empty.
    """

    reason: str
    log: str = ""
    command: str = ""


def build_task(planned: Planned) -> BuildTask:
    """What a worker needs to know of a planned variant."""
    return BuildTask(planned.toolchain, planned.request, planned.launch.entry)


def build(task: BuildTask) -> Built | BuildFailure:
    """Build one variant, from the cache where it is there.

    Raises:
        MissingToolError: the compiler or the disassembler cannot run here; no other variant would fare better.
    """
    try:
        result = toolchain.build(task.toolchain, task.request)
    except CompileError as error:
        return BuildFailure(str(error), error.log, error.command)
    try:
        sass = read_sass(result.disassembly.json, result.disassembly.text, "kernel.sass")
        return Built(
            build=result.build,
            disassembly=result.disassembly,
            cached=result.cached,
            ptx=_mix(read_ptx(result.build.ptx, "kernel.ptx"), task.entry),
            sass=_mix(sass, task.entry),
            sass_sha256=_code_hash(sass, task.entry),
        )
    except ReaderError as error:
        return BuildFailure(f"the listing cannot be read: {error}", result.build.log, result.build.command)


def _mix(module: Module, entry: str) -> KernelMix:
    return kernel_mix(module.isa, next(kernel for kernel in module.kernels if kernel.name == entry))


def _code_hash(module: Module, entry: str) -> str:
    function = next(kernel for kernel in module.kernels if kernel.name == entry)
    code = "\n".join(
        f"{'!' if i.negated else ''}{i.predicate or ''} {i.opcode} {','.join(i.operands)}"
        for i in function.instructions
    )
    return hashlib.sha256(code.encode()).hexdigest()
