"""Parsed listings of a build, cached between runs.

The cache key covers both listings, the machine code, the launched kernels and this program, so an entry never becomes
stale. Runs in worker processes.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from pydantic import TypeAdapter, ValidationError

from lab.base.errors import LabError, did_you_mean
from lab.hardware.latencies import latencies_for, latencies_of
from lab.isa.mix import KernelMix, kernel_mix
from lab.isa.model import Function, Module
from lab.isa.ptx.module import read_ptx
from lab.isa.ptx.signature import EntryParameter, entry_parameters
from lab.isa.sass.module import read_sass
from lab.predict.chains import chains
from lab.predict.schedulers.loop import MainLoop, main_loop
from lab.stages.program import program
from lab.toolchain.base import Build, Disassembly
from lab.toolchain.cache import Cache, default_folder
from lab.toolchain.cubin.image import code


class ListingError(LabError):
    """A launched kernel is missing from the listings; the message names the kernels they have."""


@dataclass(frozen=True, slots=True)
class ListingsRead:
    """Parsed listings; see `lab.stages.build.Built`."""

    ptx: dict[str, KernelMix]
    sass: dict[str, KernelMix]
    sass_sha256: str
    loops: dict[str, MainLoop]
    signatures: dict[str, tuple[EntryParameter, ...]]


def read_listings(build: Build, disassembly: Disassembly, entries: tuple[str, ...]) -> ListingsRead:
    """Parse the listings of a build, or take the result from the user's cache.

    Args:
        build: The compiler's output.
        disassembly: The disassembler's output.
        entries: Symbols of the launched kernels.

    Raises:
        ListingError: A launched kernel is missing.
        ReaderError: A listing cannot be parsed.
    """
    cache, key = Cache(default_folder()), key_of(build, disassembly, entries)
    if (cached := _read(cache.fields(key))) is not None:
        return cached
    reading = _reading(build, disassembly, entries)
    fields = _adapter().dump_python(reading, mode="json")
    if _read(fields) == reading:  # the cached entry must equal what this run records
        cache.keep(key, fields)
    return reading


def key_of(build: Build, disassembly: Disassembly, entries: tuple[str, ...]) -> str:
    """Return the SHA-256, in hex, of everything the parsed listings depend on.

    The line table is not part of it: like the text, it is derived from the machine code.
    """
    listing = (disassembly.version, disassembly.text, disassembly.lacking)
    facts = ("reading", program(), build.arch, build.ptx, *listing, *entries)
    digest = hashlib.sha256("\0".join(facts).encode("utf-8", "surrogatepass"))
    digest.update(b"\0" + build.cubin)
    return digest.hexdigest()


@functools.cache
def _adapter() -> TypeAdapter[ListingsRead]:
    return TypeAdapter(ListingsRead)


def _read(fields: dict[str, object] | None) -> ListingsRead | None:
    """Return cached listings; None if there are none, or they have another schema."""
    try:
        return None if fields is None else _adapter().validate_python(fields)
    except ValidationError:
        return None


def _reading(build: Build, disassembly: Disassembly, entries: tuple[str, ...]) -> ListingsRead:
    ptx = read_ptx(build.ptx, "kernel.ptx")
    if disassembly.lacking:
        return _without_sass(build, ptx, entries)
    sass = read_sass(disassembly.text, disassembly.lines, "kernel.sass")
    if missing := _missing_entries(entries, (ptx, sass)):
        raise ListingError(missing)
    functions, mixes = _functions(sass, entries), _mixes(sass, entries)
    return ListingsRead(
        ptx=_mixes(ptx, entries),
        sass={function.name: _with_chains(build, function, mixes[function.name]) for function in functions},
        sass_sha256=_code_hash(sass, entries),
        loops=_loops(build, functions, mixes),
        signatures={function.name: entry_parameters(function) for function in _functions(ptx, entries)},
    )


def _without_sass(build: Build, ptx: Module, entries: tuple[str, ...]) -> ListingsRead:
    """Read the PTX of machine code that no disassembler of this machine lists.

    Raises:
        ListingError: A kernel that is launched is not there.
    """
    if missing := _missing_entries(entries, (ptx,)):
        raise ListingError(missing)
    return ListingsRead(
        ptx=_mixes(ptx, entries),
        sass={},
        sass_sha256=hashlib.sha256(build.cubin).hexdigest(),
        loops={},
        signatures={function.name: entry_parameters(function) for function in _functions(ptx, entries)},
    )


def _missing_entries(entries: Sequence[str], listings: Sequence[Module]) -> str:
    """Return a message on the first missing entry point, with advice; empty if all are present.

    Args:
        entries: Symbols of the launched kernels.
        listings: PTX and SASS of one build.
    """
    for listing in listings:
        available = [kernel.name for kernel in listing.kernels]
        missing = next((entry for entry in entries if entry not in available), None)
        if missing is None:
            continue
        if not available:
            return (
                f"the source has no kernel `{missing}`: its {listing.isa.upper()} has no entry point at all; "
                "is the kernel left out by the preprocessor, or not `__global__`?"
            )
        summary = f"the source has no kernel `{missing}`; it has {', '.join(f'`{name}`' for name in available)}"
        mangled = f"{len(missing)}{missing}"  # Itanium C++ ABI: a name follows its length
        if any(name.startswith("_Z") and mangled in name for name in available):
            return f'{summary}: write extern "C" before its `__global__`, or name the mangled symbol as the entry'
        suggestion = did_you_mean(missing, available)
        return f"{summary}: {suggestion or 'name one of them as the entry, or rename the kernel'}"
    return ""


def _loops(compiled: Build, functions: Sequence[Function], mixes: Mapping[str, KernelMix]) -> dict[str, MainLoop]:
    """Return main loops by symbol, if the architecture has a model; kernels missing from the cubin have none."""
    loops: dict[str, MainLoop] = {}
    for function in functions if latencies_of(compiled.arch) else ():
        with suppress(ValueError):
            loops[function.name] = main_loop(function, code(compiled.cubin, function.name), mixes[function.name])
    return loops


def _with_chains(compiled: Build, function: Function, mix: KernelMix) -> KernelMix:
    """Return the mix with its dependency chains; unchanged if the kernel's code is missing from the cubin."""
    with suppress(ValueError):
        dependency_chains = chains(function, code(compiled.cubin, function.name), mix, latencies_for(compiled.arch))
        return replace(mix, chains=dependency_chains)
    return mix


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
