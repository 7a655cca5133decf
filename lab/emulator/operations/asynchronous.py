"""cp.async: copies from global to shared memory, and waits for them.

The bytes are copied at once; the shadow records that they must not be read before a wait.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lab.emulator.arrays import Addresses, Bits, Indices
from lab.emulator.lanes import Lanes
from lab.emulator.memory.access import MemoryUnit
from lab.emulator.opcodes import Opcode, UnknownForm
from lab.emulator.operations.bulk import bulk_copy, reduce_copy
from lab.emulator.operations.memory import take_policy
from lab.emulator.operations.system import Run, Site, system
from lab.emulator.operations.tensorcopies import tensor_copy, tensor_reduce
from lab.emulator.waiting.mbarriers import take_space
from lab.hardware.memory import Copy
from lab.isa.ptx.constants import integer

_SIZES = (4, 8, 16)
_MOST_GROUPS = 1 << 31
_WIDEST_ELEMENT = 8  # bytes of the widest integer


@system("cp")
def copy(site: Site, op: Opcode) -> Run:
    """Build cp.async and its groups, and bulk copies."""
    reduces = op.flag("reduce")
    op.one_of(("async",))
    if op.flag("bulk"):
        if op.flag("tensor"):
            return (tensor_reduce if reduces else tensor_copy)(site, op)
        return (reduce_copy if reduces else bulk_copy)(site, op)
    if op.flag("mbarrier"):
        return _arrive(site, op)
    group = _group(site, op)
    if group is not None:
        return group
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


def _arrive(site: Site, op: Opcode) -> Run:
    """Build cp.async.mbarrier.arrive: an arrival once the thread's earlier copies are complete.

    Copies complete at once. Without `.noinc`, the phase first expects one more arrival, so nothing changes.
    """
    op.one_of(("arrive",))
    counts = op.flag("noinc")
    take_space(op)
    op.one_of(("b64",))
    op.finish()
    address = site.operands.address(site.texts[0], "shared")
    mbarriers, position, watch = site.mbarriers, site.position, site.memory.watch

    def run(lanes: Lanes) -> None:
        targets = mbarriers.name(position, address(lanes), lanes)
        if watch.shadow is not None and watch.bulk is not None:
            watch.shadow.hand_over(watch.bulk, targets.threads, targets.numbers, mbarriers.phases(targets))
        once = np.full(len(targets.threads), int(counts), np.int64)
        mbarriers.arrive(position, targets, once, np.zeros(len(once), np.int64))

    return run


def _group(site: Site, op: Opcode) -> Run | None:
    """Build a group's commit or wait; return None for a copy."""
    if op.flag("commit_group"):
        op.finish()
        return _commit(site.memory)
    if op.flag("wait_all"):
        op.finish()
        return _wait(site.memory, 0, commit=True)
    if op.flag("wait_group"):
        op.finish()
        still = integer(site.texts[0])
        if not 0 <= still < _MOST_GROUPS:
            raise UnknownForm(f"{still} groups")
        return _wait(site.memory, still, commit=False)
    return None


def _commit(memory: MemoryUnit) -> Run:
    def run(lanes: Lanes) -> None:
        memory.groups[lanes.rows] += 1

    return run


def _wait(memory: MemoryUnit, still: int, *, commit: bool) -> Run:
    """Build a wait until all but a thread's latest `still` groups are complete."""

    def run(lanes: Lanes) -> None:
        if commit:
            memory.groups[lanes.rows] += 1
        if memory.watch.shadow is not None:
            memory.watch.shadow.wait_groups(lanes.rows, memory.groups[lanes.rows] - np.int32(still))

    return run


def _copy(site: Site, texts: Sequence[str]) -> Run:
    """Build one copy. An optional fourth operand is the number of bytes to read; the rest is zero-filled."""
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
            amounts = lanes.fill(read_size(lanes))
            fetched = amounts > 0
            values = [np.zeros(lanes.count, f"u{width}") for _ in range(elements)]
            for amount in np.unique(amounts).tolist():
                at = np.flatnonzero(amounts == amount)
                _fetch(site, sources[at], lanes.take(at), values, amount=min(amount, size), at=at)
        everyone = np.ones(lanes.count, np.bool_)
        memory.count_copy(position, Copy(targets, sources, size, everyone, fetched), lanes)
        group = memory.groups[lanes.rows] + np.int32(1)
        memory.store(position, "shared", targets, values, lanes, group=group)

    return run


def _fetch(site: Site, sources: Addresses, lanes: Lanes, values: list[Bits], *, amount: int, at: Indices) -> None:
    """Read the first `amount` bytes of each source into `values` at some positions, leaving the rest zero."""
    if amount == 0:
        return
    width, elements = values[0].itemsize, len(values)
    memory, position = site.memory, site.position
    if amount == width * elements:
        loaded = memory.load(position, "global", sources, lanes, width=width, vector=elements, counted=False)
        for value, element_values in zip(values, loaded, strict=True):
            value[at] = element_values
        return
    for byte in range(amount):
        element_values = memory.load(position, "global", sources + byte, lanes, width=1, counted=False)[0]
        values[byte // width].view(np.uint8).reshape(-1, width)[at, byte % width] = element_values
