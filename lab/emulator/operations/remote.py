"""st.async and red.async: remote shared-memory stores and updates that complete on an mbarrier.

PTX ISA, st.async, red.async.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.emulator import operands
from lab.emulator.arrays import Bytes
from lab.emulator.lanes import Lanes
from lab.emulator.opcodes import DTYPES, Opcode, UnknownForm
from lab.emulator.operations import bulk
from lab.emulator.operations.system import Run, Site
from lab.emulator.operations.updates import update_of

_STORED = ("b32", "b64", "u32", "u64", "s32", "s64", "f32", "f64")
_UPDATES = {
    "inc": ("u32",), "dec": ("u32",), "min": ("u32", "s32"), "max": ("u32", "s32"), "add": ("u32", "s32", "u64"),
    "and": ("b32",), "or": ("b32",), "xor": ("b32",),
}  # fmt: skip


def _take_words(op: Opcode) -> None:
    """Consume the order, the space and the completion mechanism."""
    for word in ("weak", "relaxed", "cluster"):
        op.flag(word)
    op.one_of(("shared::cluster",))
    op.one_of(("mbarrier::complete_tx::bytes",))


def remote_store(site: Site, op: Opcode) -> Run:
    """Build st.async."""
    _take_words(op)
    vector = int(op.one_of(("v2", "v4"), "v1")[1:])
    t = op.one_of(_STORED)
    op.finish()
    if vector * DTYPES[t].itemsize > bulk.GRAIN:
        raise UnknownForm(f"a store of more than {bulk.GRAIN} bytes")
    return _send(site, t, vector, None)


def remote_update(site: Site, op: Opcode) -> Run:
    """Build red.async."""
    _take_words(op)
    name = op.one_of(tuple(_UPDATES))
    t = op.one_of(_UPDATES[name])
    op.finish()
    update, dtype = update_of(name, t), DTYPES[t]

    def combine(old_bytes: Bytes, values: Bytes) -> Bytes:
        return np.ascontiguousarray(update(old_bytes.view(dtype), values.view(dtype), None)).view(np.uint8)

    return _send(site, t, 1, combine)


def _send(site: Site, t: str, vector: int, combine: bulk.Combine | None) -> Run:
    if len(site.texts) != 3:  # noqa: PLR2004  target, value, mbarrier
        raise UnknownForm(f"{len(site.texts)} operands")
    to, at = site.operands.address(site.texts[0], "shared"), site.operands.address(site.texts[2], "shared")
    reads = [site.operands.source(text, t) for text in operands.elements(site.texts[1])]
    if len(reads) != vector:
        raise UnknownForm(f"{len(reads)} values")
    size = vector * DTYPES[t].itemsize

    def run(lanes: Lanes) -> None:
        columns: list[NDArray[Any]] = [lanes.fill(read(lanes)) for read in reads]
        values = np.stack(columns, axis=1)
        for i, target, asker in bulk.askers(site, lanes, to(lanes), at(lanes), None, fenced=False):
            if asker.aligned(target, size, "to an offset") and asker.inside(target, size):
                bulk.deliver(asker, target, np.ascontiguousarray(values[i]).view(np.uint8), combine, generic=True)

    return run
