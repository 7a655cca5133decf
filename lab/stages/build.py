"""Compile variants, disassemble them and read both listings. Runs in worker processes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from lab.base.errors import CompileError, ReaderError, did_you_mean
from lab.experiment.variants import Planned
from lab.hardware.latencies import latencies_of
from lab.isa.mix import KernelMix, kernel_mix
from lab.isa.model import Function, Module
from lab.isa.ptx.module import read_ptx
from lab.isa.ptx.signature import EntryParameter, entry_parameters
from lab.isa.sass.module import read_sass
from lab.predict.schedulers.loop import MainLoop, main_loop
from lab.toolchain.base import Build, CompileRequest, Disassembly, Toolchain
from lab.toolchain.cubin.image import code
from lab.toolchain.select import Compiled, build_all


@dataclass(frozen=True, slots=True)
class BuildTask:
    """One variant to build.

    Attributes:
        toolchain: The compiler.
        request: The source and how to compile it.
        entries: Symbols of the kernels that are launched, each once.
    """

    toolchain: Toolchain
    request: CompileRequest
    entries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Built:
    """A variant's machine code, and what was read from its listings.

    Attributes:
        build: From the compiler.
        disassembly: From the disassembler.
        cached: Both came from the cache.
        ptx: Symbol to mix of its PTX, for every kernel that is launched, in order.
        sass: The same for the SASS.
        sass_sha256: Hash of the launched kernels' instructions; equal hashes mean equal machine code.
        signatures: Symbol to the parameters of its PTX entry.
        loops: Symbol to its main loop for the model of the schedulers; empty where the architecture has no model.
    """

    build: Build
    disassembly: Disassembly
    cached: bool
    ptx: Mapping[str, KernelMix]
    sass: Mapping[str, KernelMix]
    sass_sha256: str
    loops: Mapping[str, MainLoop]
    signatures: Mapping[str, tuple[EntryParameter, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BuildFailure:
    """Why a variant has no machine code.

    Attributes:
        reason: One line.
        log: Everything the compiler printed; may be empty.
        command: The command that repeats the build; may be empty.
    """

    reason: str
    log: str = ""
    command: str = ""


def build_task(planned: Planned) -> BuildTask:
    """The build of a planned variant."""
    return BuildTask(planned.toolchain, planned.request, planned.launches.entries)


def build(tasks: Sequence[BuildTask]) -> list[Built | BuildFailure]:
    """Build variants, or take them from the cache; outcomes are in the order of `tasks`.

    Raises:
        MissingToolError: the compiler or the disassembler cannot run here, so that no variant can be built.
    """
    refused = [_not_text(task.request) for task in tasks]
    sound = [task for task, reason in zip(tasks, refused, strict=True) if not reason]
    made = iter(build_all([(task.toolchain, task.request) for task in sound]))
    return [
        BuildFailure(reason) if reason else _read(task, next(made)) for task, reason in zip(tasks, refused, strict=True)
    ]


def _not_text(request: CompileRequest) -> str:
    """Say why a compiler would not see the whole source; empty where it does."""
    before, nul, _ = request.source.partition("\0")
    if nul:
        line = before.count("\n") + 1
        return f"the source has a NUL byte in line {line}, where compilers stop to read: remove it"
    try:
        request.source.encode()
    except UnicodeEncodeError as error:
        line = request.source.count("\n", 0, error.start) + 1
        character = f"U+{ord(request.source[error.start]):04X}"
        return f"the source cannot be written as UTF-8: line {line} has {character}, half of a surrogate pair"
    return ""


def _read(task: BuildTask, result: Compiled | CompileError) -> Built | BuildFailure:
    if isinstance(result, CompileError):
        return BuildFailure(str(result), result.log, result.command)
    symbols = result.build.symbols
    entries = tuple(symbols.get(entry, entry) for entry in task.entries)
    try:
        ptx = read_ptx(result.build.ptx, "kernel.ptx")
        sass = read_sass(result.disassembly.text, result.disassembly.lines, "kernel.sass")
        if missing := missing_entries(entries, (ptx, sass)):
            return BuildFailure(missing, result.build.log, result.build.command)
        mixes = _mixes(sass, entries)
        return Built(
            build=result.build,
            disassembly=result.disassembly,
            cached=result.cached,
            ptx=_mixes(ptx, entries),
            sass=mixes,
            sass_sha256=_code_hash(sass, entries),
            loops=_loops(result.build, _functions(sass, entries), mixes),
            signatures={one.name: entry_parameters(one) for one in _functions(ptx, entries)},
        )
    except ReaderError as error:
        return BuildFailure(f"the listing cannot be read: {error}", result.build.log, result.build.command)


def missing_entries(entries: Sequence[str], listings: Sequence[Module]) -> str:
    """Say which entry points are not in the machine code, what is, and what to do; empty where all are there.

    Args:
        entries: Symbols of the kernels that are launched.
        listings: PTX and SASS of one build.
    """
    for listing in listings:
        there = [kernel.name for kernel in listing.kernels]
        missing = next((entry for entry in entries if entry not in there), None)
        if missing is None:
            continue
        if not there:
            return (
                f"the source has no kernel `{missing}`: its {listing.isa.upper()} has no entry point at all; "
                "is the kernel left out by the preprocessor, or not `__global__`?"
            )
        known = f"the source has no kernel `{missing}`; it has {', '.join(f'`{name}`' for name in there)}"
        mangled = f"{len(missing)}{missing}"  # Itanium C++ ABI: a name stands behind its length
        if any(name.startswith("_Z") and mangled in name for name in there):
            return f'{known}: write extern "C" before its `__global__`, or name the mangled symbol as the entry'
        meant = did_you_mean(missing, there)
        return f"{known}: {meant or 'name one of them as the entry, or rename the kernel'}"
    return ""


def _loops(made: Build, functions: Sequence[Function], mixes: Mapping[str, KernelMix]) -> dict[str, MainLoop]:
    """Main loops by symbol, where the architecture has a model; a kernel whose code is not in the cubin has none."""
    found: dict[str, MainLoop] = {}
    for function in functions if latencies_of(made.arch) else ():
        with suppress(ValueError):
            found[function.name] = main_loop(function, code(made.cubin, function.name), mixes[function.name])
    return found


def _mixes(module: Module, entries: tuple[str, ...]) -> dict[str, KernelMix]:
    return {function.name: kernel_mix(module.isa, function) for function in _functions(module, entries)}


def _functions(module: Module, entries: tuple[str, ...]) -> list[Function]:
    by_name = {kernel.name: kernel for kernel in module.kernels}
    return [by_name[entry] for entry in entries]


def _code_hash(module: Module, entries: tuple[str, ...]) -> str:
    code = "\n".join(
        f"{'!' if i.negated else ''}{i.predicate or ''} {i.opcode} {','.join(i.operands)}"
        for function in _functions(module, entries)
        for i in function.instructions
    )
    return hashlib.sha256(code.encode()).hexdigest()
