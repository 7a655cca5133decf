"""The complete tables of operations: importing the modules below registers their builders."""

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
"""Builders of register operations, by family."""

SYSTEM = system.SYSTEM
"""Builders of all other operations, by family."""
