"""Read the resources of kernels from ptxas's log (`-v`) and the cubin.

Only the log has spills. Only the cubin always has constant bytes (ptxas 13 does not print them from sm_90 on).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from lab.base.errors import CompileError
from lab.toolchain.base import Resources
from lab.toolchain.cubin import image as cubins

_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_PROPERTIES = re.compile(r"Function properties for '?([^\s']+)'?")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_BARRIERS = re.compile(r"used (\d+) barriers")
_CUMULATIVE_STACK = re.compile(r"(\d+) bytes cumulative stack size")
_SHARED = re.compile(r"(\d+)(?:\+(\d+))? bytes smem")
_CONSTANT = re.compile(r"(\d+) bytes cmem\[\d+\]")


@dataclass(slots=True)
class _Reading:
    """State of the reader within the log."""

    entry: str = ""
    function: str = ""
    kernels: dict[str, Resources] = field(default_factory=dict)
    frames: dict[str, tuple[int, int, int]] = field(default_factory=dict)


def parse_log(log: str) -> dict[str, Resources]:
    """Read the `-v` lines of ptxas 11 to 13 from a log that may have other lines, too.

    Spills are those of the kernel's own frame. A called function that was not inlined has separate lines, which only
    count towards the kernel's cumulative stack.

    Returns:
        The resources by kernel name, for every entry function with a `Used … registers` line.
    """
    reading = _Reading()
    for line in log.splitlines():
        _read_line(line, reading)
    return {
        name: replace(
            used,
            stack_bytes=max(used.stack_bytes, frame[0]),
            spill_store_bytes=frame[1],
            spill_load_bytes=frame[2],
        )
        for name, used in reading.kernels.items()
        for frame in [reading.frames.get(name, (0, 0, 0))]
    }


def resources(log: str, cubin: bytes) -> dict[str, Resources]:
    """Return the resources of every kernel of a build, by name.

    Raises:
        CompileError: The cubin cannot be read, or the log lacks a kernel with a stack frame, so that its spills are
            unknown.
    """
    try:
        in_cubin = cubins.kernels(cubin)
    except ValueError as error:
        raise CompileError(f"cannot read the compiler's cubin: {error}", log, "") from error
    in_log = parse_log(log)
    return {name: _merge(name, in_log.get(name), kernel, log) for name, kernel in in_cubin.items()}


def _merge(name: str, logged: Resources | None, kernel: cubins.CubinKernel, log: str) -> Resources:
    if logged is not None:
        constant_bytes = logged.constant_bytes or kernel.constant_bytes
        return replace(logged, constant_bytes=constant_bytes, cluster=kernel.cluster)
    if kernel.stack_bytes:
        raise CompileError(f"ptxas did not report the spills of kernel {name!r}", log, "")
    return Resources(  # without a stack, nothing was spilled
        registers=kernel.registers,
        spill_store_bytes=0,
        spill_load_bytes=0,
        stack_bytes=0,
        shared_bytes=kernel.shared_bytes,
        constant_bytes=kernel.constant_bytes,
        barriers=kernel.barriers,
        cluster=kernel.cluster,
    )


def _read_line(line: str, reading: _Reading) -> None:
    if match := _ENTRY.search(line):
        reading.entry = reading.function = match[1]
    elif match := _PROPERTIES.search(line):
        reading.function = match[1]
    elif match := _STACK.search(line):
        reading.frames[reading.function] = (int(match[1]), int(match[2]), int(match[3]))
    elif (match := _USED.search(line)) and reading.entry:
        reading.kernels[reading.entry] = Resources(
            registers=int(match[1]),
            spill_store_bytes=0,
            spill_load_bytes=0,
            stack_bytes=_sum(_CUMULATIVE_STACK, line),
            shared_bytes=_sum(_SHARED, line),
            constant_bytes=_sum(_CONSTANT, line),
            barriers=_sum(_BARRIERS, line),
        )


def _sum(pattern: re.Pattern[str], line: str) -> int:
    """Return the sum of all numbers that the pattern finds; 0 if it finds none."""
    return sum(int(group) for match in pattern.finditer(line) for group in match.groups() if group)
