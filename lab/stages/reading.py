"""What is read from the listings of a build, kept between runs: one that is known is not read again.

A reading depends on the two listings, on the machine code, on which kernels are launched, and on this program. All of
that makes its key, so an entry of the cache never needs to be dropped because it is out of date. Runs in worker
processes.
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
    """A kernel that is launched is not in the listings; the message says what is."""


@dataclass(frozen=True, slots=True)
class ListingsRead:
    """What was read; see `lab.stages.build.Built`."""

    ptx: dict[str, KernelMix]
    sass: dict[str, KernelMix]
    sass_sha256: str
    loops: dict[str, MainLoop]
    signatures: dict[str, tuple[EntryParameter, ...]]


def read_listings(build: Build, disassembly: Disassembly, entries: tuple[str, ...]) -> ListingsRead:
    """Read the listings of a build, or take what is known of them from the user's cache.

    Args:
        build: From the compiler.
        disassembly: From the disassembler.
        entries: Symbols of the kernels that are launched.

    Raises:
        ListingError: A kernel that is launched is not there.
        ReaderError: A listing is not understood.
    """
    cache, key = Cache(default_folder()), key_of(build, disassembly, entries)
    if (known := _read(cache.fields(key))) is not None:
        return known
    made = _reading(build, disassembly, entries)
    fields = _adapter().dump_python(made, mode="json")
    if _read(fields) == made:  # what is read later must be what this run records
        cache.keep(key, fields)
    return made


def key_of(build: Build, disassembly: Disassembly, entries: tuple[str, ...]) -> str:
    """Return the SHA-256, in hex, of everything that decides a reading.

    The table of lines is not among it: the disassembler makes it of the machine code, as it makes the text.
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
    """A reading from what the cache keeps; None where there is nothing, or of another shape."""
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
        sass={one.name: _with_chains(build, one, mixes[one.name]) for one in functions},
        sass_sha256=_code_hash(sass, entries),
        loops=_loops(build, functions, mixes),
        signatures={one.name: entry_parameters(one) for one in _functions(ptx, entries)},
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
        signatures={one.name: entry_parameters(one) for one in _functions(ptx, entries)},
    )


def _missing_entries(entries: Sequence[str], listings: Sequence[Module]) -> str:
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


def _with_chains(made: Build, function: Function, mix: KernelMix) -> KernelMix:
    """The mix with what a warp waits for; as it is where the kernel's code is not in the cubin."""
    with suppress(ValueError):
        found = chains(function, code(made.cubin, function.name), mix, latencies_for(made.arch))
        return replace(mix, chains=found)
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
