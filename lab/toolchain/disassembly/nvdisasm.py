"""Disassemble cubins with nvdisasm.

A call takes about 0.35 s of processor time before it reads a cubin, to set up the decoder of one architecture, and
some 0.05 s for each cubin. So one call reads several (`lab.toolchain.cubin.merge`) and lists live registers with the
code (without them where nvdisasm refuses them). nvdisasm's JSON (`--emit-json`) lacks live registers and would need a
second call, so source lines come from the image itself (`lab.toolchain.cubin.debug_lines`). `lab.toolchain.cache`
avoids most calls.
"""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from lab.base.errors import CompileError, MissingToolError
from lab.base.files import scratch
from lab.base.workers import environment
from lab.isa.sass.lines import LineTable
from lab.toolchain import locate
from lab.toolchain.base import Disassembly, check_not_killed, first_error
from lab.toolchain.cubin.debug_lines import line_table
from lab.toolchain.cubin.merge import Part, merge, part, split
from lab.toolchain.disassembly.check import is_listing_of
from lab.toolchain.disassembly.stable_layout import laid_out

INSTALL = "python -m pip install nvidia-cuda-nvdisasm"
INSTALL_OLDER = "python -m pip install triton==3.4.0"
"""Command that installs an nvdisasm of CUDA 12.8, which lists code for sm_50 to sm_72, too."""

TIMEOUT_S = 120.0

_LISTING = ("--print-code",)
_CALL = " CALL."
_LIVE = ("--print-life-ranges", "--life-range-mode", "count")


_OTHER_ARCH = re.compile(r'CUDA architecture "?(\w+)"? is (?:deprecated|not supported)', re.IGNORECASE)


class _RefusedError(CompileError):
    """nvdisasm rejected an image, and would reject it again."""


class _ArchitectureError(_RefusedError):
    """nvdisasm refuses an image since it does not know the architecture; another release may."""


def disassembler_version() -> str:
    """Return the version of the disassembler, `13.5.37`.

    Raises:
        MissingToolError: There is no nvdisasm, or it does not run.
    """
    return _find()[1]


def disassemble(cubin: bytes) -> Disassembly:
    """Disassemble one cubin.

    Raises:
        CompileError: nvdisasm rejects the image, or does not finish within `TIMEOUT_S`.
        MissingToolError: nvdisasm is missing.
        WorkerLostError: nvdisasm was killed.
    """
    tool, version = _find()
    try:
        return _disassembly(cubin, _listing(tool, cubin), version)
    except _ArchitectureError as error:
        made = _by_another_release(cubin, version, error)
        if made.lacking:
            raise CompileError(made.lacking, error.log, error.command) from None
        return made


def _by_another_release(cubin: bytes, version: str, error: _ArchitectureError) -> Disassembly:
    """Return the listing of the first other nvdisasm of this machine that knows the architecture, or why there is none.

    Args:
        cubin: The image.
        version: Version of the nvdisasm that does not know its architecture.
        error: Its refusal.
    """
    for other, release in _others():
        try:
            return _disassembly(cubin, _listing(other, cubin), release)
        except _ArchitectureError:
            continue
    named = _OTHER_ARCH.search(error.log)
    arch = re.sub(r"(?i)^sm_?", "sm_", named[1]) if named else "this architecture"
    lacking = f"nvdisasm {version} does not list code for {arch}; that of CUDA 12 does: {INSTALL_OLDER}"
    return Disassembly("", LineTable(), version, lacking)


def disassemble_all(cubins: Sequence[bytes]) -> list[Disassembly | CompileError]:
    """Disassemble several cubins with as few calls as possible. The results are those of `disassemble`.

    Returns:
        The results in the order of the cubins; for one that `disassemble` raises a `CompileError` for, the error. Where
        no nvdisasm knows the architecture, the disassembly says so in `lacking`.

    Raises:
        MissingToolError: nvdisasm is missing.
        WorkerLostError: nvdisasm was killed.
    """
    tool, version = _find()
    together: dict[int, str] = {}
    for alike in _mergeable(cubins):
        together |= _listings_together(tool, cubins, alike)
    results: list[Disassembly | CompileError] = []
    for place, cubin in enumerate(cubins):
        try:
            listing = together[place] if place in together else _listing(tool, cubin)
            results.append(_disassembly(cubin, listing, version))
        except _ArchitectureError as error:
            results.append(_by_another_release(cubin, version, error))
        except CompileError as error:
            results.append(error)
    return results


@functools.cache  # asked for every variant
def _find() -> tuple[Path, str]:
    tool = locate.tool("nvdisasm")
    if tool is None:
        raise MissingToolError(f"nvdisasm is not on this machine; install it: {INSTALL}")
    version = locate.tool_version(tool)
    if version is None:
        raise MissingToolError(f"nvdisasm does not run; install it again: {INSTALL}")
    return tool, version


@functools.cache
def _others() -> tuple[tuple[Path, str], ...]:
    """Return the nvdisasm tools of this machine beside the first, with their versions."""
    versions = ((other, locate.tool_version(other)) for other in locate.tools("nvdisasm")[1:])
    return tuple((other, version) for other, version in versions if version is not None)


def _disassembly(cubin: bytes, listing: str, version: str) -> Disassembly:
    try:
        table = line_table(cubin)
    except ValueError:  # nvdisasm could read the image, and source lines are optional
        table = LineTable()
    return Disassembly(text=listing, lines=table, version=version)


def _listing(tool: Path, cubin: bytes) -> str:
    try:
        text = _run(tool, (*_LISTING, *_LIVE), cubin)
    except _ArchitectureError:
        raise
    except _RefusedError:
        # nvdisasm 13.0 refuses live registers of kernels with all 255 registers: "Invalid register count"
        text = _run(tool, _LISTING, cubin)
    return laid_out(_decoded(text))


def _mergeable(cubins: Sequence[bytes]) -> Iterator[dict[int, Part]]:
    """Yield groups of two or more cubins, by their indices, that can be merged into one image."""
    kinds: dict[tuple[object, ...], dict[int, Part]] = {}
    for place, cubin in enumerate(cubins if len(cubins) > 1 else ()):
        try:
            mergeable = part(cubin)
        except ValueError:
            continue  # it has contents that cannot be merged, and is disassembled alone
        kinds.setdefault(mergeable.kind, {})[place] = mergeable
    yield from (alike for alike in kinds.values() if len(alike) > 1)


def _listings_together(tool: Path, cubins: Sequence[bytes], alike: dict[int, Part]) -> dict[int, str]:
    """Disassemble cubins in one call and return the listings by index; missing ones need separate calls.

    nvdisasm refuses the whole image if it refuses one cubin. A listing is left out if its registers or its number of
    instructions differ from the cubin's machine code, or if it has calls through pointers, whose live registers depend
    on all kernels of the image.
    """
    try:
        merged = merge(tuple(alike.values()))
        parts = split(_run(tool, (*_LISTING, *_LIVE), merged.image), merged)
    except (ValueError, CompileError):
        return {}
    listings = {place: laid_out(_decoded(text)) for place, text in zip(alike, parts, strict=True)}
    return {
        place: listing
        for place, listing in listings.items()
        if _CALL not in listing and is_listing_of(listing, cubins[place])
    }


def _decoded(text: bytes) -> str:
    return text.decode(errors="replace")


def _run(tool: Path, options: tuple[str, ...], cubin: bytes) -> bytes:
    with scratch("lab-nvdisasm-") as folder:
        image = folder / "lab.cubin"  # nvdisasm seeks in its input, so it cannot be a pipe
        image.write_bytes(cubin)
        command = " ".join(["nvdisasm", *options, image.name])
        try:
            run = subprocess.run(
                [tool, *options, image], capture_output=True, timeout=TIMEOUT_S, check=False, env=environment()
            )
        except OSError as error:
            raise MissingToolError(f"cannot run nvdisasm ({error}); install it: {INSTALL}") from error
        except subprocess.TimeoutExpired as error:
            raise CompileError(f"nvdisasm did not finish within {TIMEOUT_S:.0f} s", str(error), command) from error
        log = _decoded(run.stderr).replace(str(image), image.name)
        check_not_killed("nvdisasm", run.returncode)
        if run.returncode != 0 or not run.stdout:
            refusal = _ArchitectureError if _OTHER_ARCH.search(log) else _RefusedError
            raise refusal(f"nvdisasm refuses this cubin: {first_error(log)}", log, command)
        return run.stdout
