"""Compile variants, disassemble them and parse both listings. Runs in worker processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lab.base.errors import CompileError, ReaderError
from lab.experiment.variants import Planned
from lab.isa.mix import KernelMix
from lab.isa.ptx.signature import EntryParameter
from lab.predict.schedulers.loop import MainLoop
from lab.stages.reading import ListingError, read_listings
from lab.toolchain.base import Build, CompileRequest, Disassembly, Toolchain
from lab.toolchain.select import Compiled, build_all


@dataclass(frozen=True, slots=True)
class BuildTask:
    """One variant to build.

    Attributes:
        toolchain: The compiler.
        request: The source and its compile options.
        entries: Distinct symbols of the launched kernels.
    """

    toolchain: Toolchain
    request: CompileRequest
    entries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Built:
    """A variant's machine code and parsed listings.

    Attributes:
        build: From the compiler.
        disassembly: From the disassembler.
        cached: Both came from the cache.
        ptx: Symbol to mix of its PTX, for every kernel that is launched, in order.
        sass: The same for the SASS; empty where no disassembler lists it.
        sass_sha256: Hash of the launched kernels' instructions; equal hashes mean equal machine code.
        signatures: Parameters of the PTX entries by symbol.
        loops: Main loops for the scheduler model by symbol; empty if the architecture has no model.
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
    """The reason a variant has no machine code.

    Attributes:
        reason: One line.
        log: Everything the compiler printed; may be empty.
        command: The command that reproduces the build; may be empty.
    """

    reason: str
    log: str = ""
    command: str = ""


def build_task(planned: Planned) -> BuildTask:
    """Return the build task of a planned variant."""
    return BuildTask(planned.toolchain, planned.request, planned.launches.entries)


def build(tasks: Sequence[BuildTask]) -> list[Built | BuildFailure]:
    """Build variants, or take them from the cache; outcomes are in the order of `tasks`.

    Raises:
        MissingToolError: the compiler or the disassembler cannot run here, so that no variant can be built.
    """
    refused = [_not_text(task.request) for task in tasks]
    sound = [task for task, reason in zip(tasks, refused, strict=True) if not reason]
    compiled = iter(build_all([(task.toolchain, task.request) for task in sound]))
    return [
        BuildFailure(reason) if reason else _read(task, next(compiled))
        for task, reason in zip(tasks, refused, strict=True)
    ]


def _not_text(request: CompileRequest) -> str:
    """Return why a compiler would not see the whole source; empty if it does."""
    before, nul, _ = request.source.partition("\0")
    if nul:
        line = before.count("\n") + 1
        return f"the source has a NUL byte in line {line}, where compilers stop reading: remove it"
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
        reading = read_listings(result.build, result.disassembly, entries)
    except (ListingError, ReaderError) as error:
        prefix = "" if isinstance(error, ListingError) else "the listing cannot be read: "
        return BuildFailure(f"{prefix}{error}", result.build.log, result.build.command)
    return Built(
        build=result.build,
        disassembly=result.disassembly,
        cached=result.cached,
        ptx=reading.ptx,
        sass=reading.sass,
        sass_sha256=reading.sass_sha256,
        loops=reading.loops,
        signatures=reading.signatures,
    )
