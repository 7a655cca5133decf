"""The complete tables of operations: importing the modules below enters their builders."""

from __future__ import annotations

from lab.emulator.operations import (
    asynchronous,
    atomic,
    base,
    bits,
    bulk,
    compare,
    convert,
    floating,
    integer,
    ldmatrix,
    matrix,
    mbarrier,
    memory,
    move,
    system,
    tcgen05,
    tensorcopies,
    tensormaps,
    video,
    warp,
    wgmma,
    wmma,
)

MODULES = (
    asynchronous, atomic, bits, bulk, compare, convert, floating, integer, ldmatrix,
    matrix, mbarrier, memory, move, tcgen05, tensorcopies, tensormaps, video, warp,
    wgmma, wmma,
)  # fmt: skip
"""The modules that define operations."""

ALU = base.ALU
"""Family of an operation on registers to its builder."""

SYSTEM = system.SYSTEM
"""Family of any other operation to its builder."""
