"""cp.async: copies from global to shared memory, and waiting for them.

The bytes are copied at once; the shadow remembers that they may not be read before a wait.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lab.emulator.arrays import Addresses, Bits, Indices
from lab.emulator.lanes import Lanes
from lab.emulator.memory.access import MemoryUnit
from lab.emulator.opcodes import Opcode, UnknownForm
from lab.emulator.operations.bulk import bulk_copy
from lab.emulator.operations.memory import take_policy
from lab.emulator.operations.system import Run, Site, system
from lab.hardware.memory import Copy
from lab.isa.ptx.constants import integer

_SIZES = (4, 8, 16)
_WIDEST_ELEMENT = 8  # bytes of the widest integer


@system("cp")
def copy(site: Site, op: Opcode) -> Run:
    """Build cp.async and its groups, and bulk copies."""
    op.one_of(("async",))
    if op.flag("bulk"):
        return bulk_copy(site, op)
    if op.flag("commit_group"):
        op.finish()
        return _commit(site.memory)
    if op.flag("wait_all"):
        op.finish()
        return _wait(site.memory, 0, commit=True)
    if op.flag("wait_group"):
        op.finish()
        return _wait(site.memory, integer(site.texts[0]), commit=False)
    op.one_of(("ca", "cg"))
    if not (op.flag("shared") or op.flag("shared::cta")):
        raise UnknownForm("a destination that is not .shared")
    op.one_of(("global",))
    for hint in ("L2::64B", "L2::128B", "L2::256B"):
        op.flag(hint)
    texts = list(site.texts)
    take_policy(op, site, texts)
    op.finish()
    return _copy(site, texts)


def _commit(memory: MemoryUnit) -> Run:
    def run(lanes: Lanes) -> None:
        memory.groups[lanes.rows] += 1

    return run


def _wait(memory: MemoryUnit, still: int, *, commit: bool) -> Run:
    """Build the wait until all but the latest `still` groups of a thread are complete."""

    def run(lanes: Lanes) -> None:
        if commit:
            memory.groups[lanes.rows] += 1
        if memory.watch.shadow is not None:
            memory.watch.shadow.wait_groups(lanes.rows, memory.groups[lanes.rows] - np.int32(still))

    return run


def _copy(site: Site, texts: Sequence[str]) -> Run:
    """Build one copy. A fourth operand says how many bytes are read; the others arrive as zeros."""
    sized = len(texts) == 4  # noqa: PLR2004  destination, source, size, bytes to read
    if len(texts) not in (3, 4) or (sized and texts[3].lstrip("!").startswith("%p")):
        raise UnknownForm("operands")
    size = integer(texts[2])
    if size not in _SIZES:
        raise UnknownForm(f"{size} bytes; a copy has 4, 8 or 16")
    to, of = site.operands.address(texts[0], "shared"), site.operands.address(texts[1], "global")
    read_size = site.operands.source(texts[3], "u32") if sized else None
    memory, position = site.memory, site.position
    width = min(size, _WIDEST_ELEMENT)
    elements = size // width

    def run(lanes: Lanes) -> None:
        targets, sources = to(lanes), of(lanes)
        if read_size is None:
            values = memory.load(position, "global", sources, lanes, width=width, vector=elements, counted=False)
            fetched = np.ones(lanes.count, np.bool_)
        else:
            wanted = lanes.fill(read_size(lanes))
            fetched = wanted > 0
            values = [np.zeros(lanes.count, f"u{width}") for _ in range(elements)]
            for amount in np.unique(wanted).tolist():
                at = np.flatnonzero(wanted == amount)
                _fetch(site, sources[at], lanes.take(at), values, amount=min(amount, size), at=at)
        everyone = np.ones(lanes.count, np.bool_)
        memory.count_copy(position, Copy(targets, sources, size, everyone, fetched), lanes)
        group = memory.groups[lanes.rows] + np.int32(1)
        memory.store(position, "shared", targets, values, lanes, group=group)

    return run


def _fetch(site: Site, sources: Addresses, lanes: Lanes, values: list[Bits], *, amount: int, at: Indices) -> None:
    """Read the first `amount` bytes of each source into `values` at some positions; the rest stays zero."""
    if amount == 0:
        return
    width, elements = values[0].itemsize, len(values)
    memory, position = site.memory, site.position
    if amount == width * elements:
        loaded = memory.load(position, "global", sources, lanes, width=width, vector=elements, counted=False)
        for value, part in zip(values, loaded, strict=True):
            value[at] = part
        return
    for byte in range(amount):
        part = memory.load(position, "global", sources + byte, lanes, width=1, counted=False)[0]
        values[byte // width].view(np.uint8).reshape(-1, width)[at, byte % width] = part
