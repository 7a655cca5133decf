"""cp.async: copies from global to shared memory, and waiting for them.

The bytes are copied at once; the shadow remembers that they may not be read before a wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from lab.emulator import operands
from lab.emulator.operations.base import Array, Opcode, UnknownForm, system
from lab.emulator.operations.bulk import bulk_copy
from lab.hardware.memory import Copy

if TYPE_CHECKING:
    from lab.emulator.machine import Machine

Run = Callable[[Array | None], None]


@system("cp")
def copy(machine: Machine, position: int, op: Opcode) -> Run:
    """Build cp.async and its groups, and bulk copies."""
    op.one_of(("async",))
    if op.flag("bulk"):
        return bulk_copy(machine, position, op)
    texts = machine.program.code[position][1].operands
    if op.flag("commit_group"):
        op.finish()
        return _commit(machine)
    if op.flag("wait_all"):
        op.finish()
        return _wait(machine, 0, commit=True)
    if op.flag("wait_group"):
        op.finish()
        return _wait(machine, operands.integer(texts[0]), commit=False)
    op.one_of(("ca", "cg"))
    if not (op.flag("shared") or op.flag("shared::cta")):
        raise UnknownForm("a destination that is not .shared")
    op.one_of(("global",))
    for hint in ("L2::64B", "L2::128B", "L2::256B"):
        op.flag(hint)
    op.finish()
    return _copy(machine, position, texts)


def _commit(machine: Machine) -> Run:
    groups = machine.memory.groups

    def run(chosen: Array | None) -> None:
        groups[slice(None) if chosen is None else chosen] += 1

    return run


def _wait(machine: Machine, still: int, *, commit: bool) -> Run:
    memory = machine.memory

    def run(chosen: Array | None) -> None:
        rows = slice(None) if chosen is None else chosen
        if commit:
            memory.groups[rows] += 1
        shadow = memory.shared_shadow
        if shadow is not None:
            shadow.completed[rows] = np.maximum(shadow.completed[rows], memory.groups[rows] - still)

    return run


def _copy(machine: Machine, position: int, texts: tuple[str, ...]) -> Run:
    if len(texts) not in (3, 4) or (len(texts) == 4 and texts[3].lstrip("!").startswith("%p")):  # noqa: PLR2004  operands
        raise UnknownForm("operands")
    size = operands.integer(texts[2])
    to = machine.memory.address(position, texts[0], "shared")
    of = machine.memory.address(position, texts[1], "global")
    read_size = machine.binder.source(position, texts[3], "u32") if len(texts) == 4 else None  # noqa: PLR2004  operands
    memory = machine.memory
    width = min(size, 8)
    elements = size // width

    def run(chosen: Array | None) -> None:
        targets, sources = to(chosen), of(chosen)
        values = [np.zeros(len(targets), f"u{width}") for _ in range(elements)]
        if read_size is None:
            values = memory.load(position, "global", sources, chosen, width=width, vector=elements, counted=False)
            fetched = np.ones(len(targets), bool)
        else:
            wanted = np.broadcast_to(read_size(chosen), targets.shape)
            fetched = wanted > 0
            threads = machine.members(chosen)
            for amount in np.unique(wanted):
                at = np.flatnonzero(wanted == amount)
                _fetch(machine, position, sources[at], threads[at], values, amount=min(int(amount), size), at=at)
        everyone = np.ones(len(targets), bool)
        memory.count_copy(position, Copy(targets, sources, size, everyone, fetched), chosen)
        group = memory.groups[slice(None) if chosen is None else chosen] + 1
        memory.store(position, "shared", targets, values, chosen, group=group)

    return run


def _fetch(
    machine: Machine, position: int, sources: Array, threads: Array, values: list[Array], *, amount: int, at: Array
) -> None:
    """Read the first `amount` bytes of each source; the rest stays zero."""
    if amount == 0:
        return
    width, elements = values[0].itemsize, len(values)
    if amount == width * elements:
        loaded = machine.memory.load(position, "global", sources, threads, width=width, vector=elements, counted=False)
        for value, part in zip(values, loaded, strict=True):
            value[at] = part
        return
    for byte in range(amount):
        part = machine.memory.load(position, "global", sources + byte, threads, width=1, counted=False)[0]
        values[byte // width].view(np.uint8).reshape(-1, width)[at, byte % width] = part
