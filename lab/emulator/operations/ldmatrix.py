"""Moves of 8 x 8 matrices of 16-bit elements: ldmatrix, stmatrix and movmatrix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lab.base.warp import WARP_SIZE
from lab.emulator import operands
from lab.emulator.arrays import Indices
from lab.emulator.lanes import Lanes
from lab.emulator.memory.order import WARPS
from lab.emulator.opcodes import Opcode, UnknownForm
from lab.emulator.operations.spaces import take_space
from lab.emulator.operations.system import Run, Site, system


def _matrix_form(op: Opcode) -> tuple[int, bool, str]:
    """Consume the modifiers of ldmatrix and stmatrix; return count, transposition and space."""
    op.one_of(("sync",))
    op.one_of(("aligned",))
    op.one_of(("m8n8",))
    count = int(op.one_of(("x1", "x2", "x4"))[1:])
    trans = op.flag("trans")
    space = take_space(op)
    op.one_of(("b16",))
    op.finish()
    return count, trans, space


EDGE = 8
"""The rows and columns of a matrix, and the lanes that give its row addresses."""

MOST_MATRICES = WARP_SIZE // EDGE
"""The largest number of matrices whose row addresses fit the lanes of a warp."""

PAIRS = np.arange(WARP_SIZE) // 4, 2 * (np.arange(WARP_SIZE) % 4)
"""The row and the first of two columns of an 8 x 8 matrix held by each lane (PTX ISA, ldmatrix)."""


def _addressing(lanes: Lanes, count: int) -> Indices:
    """Return the positions of the lanes that give row addresses for some number of matrices."""
    return np.flatnonzero(lanes.indices() % WARP_SIZE < EDGE * count)


def _check_count(registers: Sequence[object], count: int) -> None:
    if len(registers) != count:
        raise UnknownForm(f"{len(registers)} registers for {count} matrices")


@system("ldmatrix")
def ldmatrix(site: Site, op: Opcode) -> Run:
    """Build the load of 8 x 8 matrices of 16-bit elements: lanes 8 i to 8 i + 7 address matrix i's rows."""
    count, trans, space = _matrix_form(op)
    destination, source = site.texts
    address = site.operands.address(source, space)
    writes = [site.operands.target(name, "b32") for name in operands.elements(destination)]
    _check_count(writes, count)
    memory, position, threads = site.memory, site.position, site.batch.threads
    row, col = PAIRS

    def run(lanes: Lanes) -> None:
        at = _addressing(lanes, count)
        givers = lanes.take(at)
        loaded = memory.load(position, space, address(lanes)[at], givers, width=2, vector=EDGE, order=WARPS)
        tiles = np.zeros((threads, EDGE), np.uint16)
        tiles[givers.rows] = np.stack(loaded, axis=1)
        matrices = tiles.reshape(-1, MOST_MATRICES, EDGE, EDGE)
        for i, write in enumerate(writes):
            matrix = matrices[:, i].swapaxes(1, 2) if trans else matrices[:, i]
            low, high = matrix[:, row, col].astype(np.uint32), matrix[:, row, col + 1].astype(np.uint32)
            write(lanes, lanes.select((low | (high << np.uint32(16))).reshape(-1)))

    return run


@system("stmatrix")
def stmatrix(site: Site, op: Opcode) -> Run:
    """Build the store of 8 x 8 matrices, the inverse of `ldmatrix`."""
    count, trans, space = _matrix_form(op)
    destination, source = site.texts
    address = site.operands.address(destination, space)
    reads = [site.operands.source(name, "b32") for name in operands.elements(source)]
    _check_count(reads, count)
    memory, position, warps = site.memory, site.position, site.batch.warps
    everyone = site.batch.everyone
    row, col = PAIRS

    def run(lanes: Lanes) -> None:
        matrices = np.zeros((warps, MOST_MATRICES, EDGE, EDGE), np.uint16)
        for i, read in enumerate(reads):
            values = everyone.fill(read(everyone)).reshape(-1, WARP_SIZE)
            matrix = matrices[:, i].swapaxes(1, 2) if trans else matrices[:, i]
            matrix[:, row, col] = values.astype(np.uint16)
            matrix[:, row, col + 1] = (values >> np.uint32(16)).astype(np.uint16)
        at = _addressing(lanes, count)
        givers = lanes.take(at)
        rows = matrices.reshape(-1, EDGE)[givers.indices()]
        memory.store(position, space, address(lanes)[at], [rows[:, i] for i in range(EDGE)], givers)

    return run


@system("movmatrix")
def movmatrix(site: Site, op: Opcode) -> Run:
    """Build the transposition of an 8 x 8 matrix in the registers of a warp."""
    for word in ("sync", "aligned", "m8n8", "trans", "b16"):
        op.one_of((word,))
    op.finish()
    read, write = site.operands.source(site.texts[1], "b32"), site.operands.target(site.texts[0], "b32")
    everyone, warps = site.batch.everyone, site.batch.warps
    row, col = PAIRS

    def run(lanes: Lanes) -> None:
        values = everyone.fill(read(everyone)).reshape(-1, WARP_SIZE)
        matrix = np.zeros((warps, EDGE, EDGE), np.uint32)
        matrix[:, row, col], matrix[:, row, col + 1] = values & np.uint32(0xFFFF), values >> np.uint32(16)
        turned = matrix.swapaxes(1, 2)
        write(lanes, lanes.select((turned[:, row, col] | (turned[:, row, col + 1] << np.uint32(16))).reshape(-1)))

    return run
