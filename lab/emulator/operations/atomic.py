"""Atomic read-modify-write operations, executed sequentially in thread order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.emulator import floats, operands
from lab.emulator.arrays import Addresses, Indices
from lab.emulator.binding import SINK
from lab.emulator.lanes import Lanes
from lab.emulator.memory.order import order_of
from lab.emulator.opcodes import DTYPES, Opcode, UnknownForm
from lab.emulator.operations.memory import take_policy
from lab.emulator.operations.remote import remote_update
from lab.emulator.operations.spaces import in_window, take_space
from lab.emulator.operations.system import Run, Site, system
from lab.emulator.operations.updates import Update, update_of

_OPERATIONS = ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")
_ORDERS = ("relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys", "noftz")


_HALVES = ("f16", "f16x2", "bf16", "bf16x2")
_VECTORS = ("f32", *_HALVES)
_TYPES = {
    "add": ("u32", "s32", "u64", "s64", "f32", "f64", "f16", "f16x2", "bf16", "bf16x2"),
    "min": ("u32", "s32", "u64", "s64", *_HALVES),
    "max": ("u32", "s32", "u64", "s64", *_HALVES),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
    "exch": ("b32", "b64"),
    "cas": ("b16", "b32", "b64"),
    "inc": ("u32",),
    "dec": ("u32",),
}


@system("atom", "red")
def atomic(site: Site, op: Opcode) -> Run:
    """Build atom and red. Float32 sums in global memory flush subnormals (PTX ISA, atom)."""
    if op.family == "red" and op.flag("async"):
        return remote_update(site, op)
    order = order_of(op.parts, update=True, returns=op.family == "atom")
    for word in _ORDERS:
        op.flag(word)
    space = take_space(op, peers=True)
    name = op.one_of(_OPERATIONS)
    count = int(op.one_of(("v2", "v4", "v8"), "v1")[1:])
    t = op.one_of(_TYPES[name])
    texts = list(site.texts)
    take_policy(op, site, texts)
    op.finish()
    result = texts.pop(0) if op.family == "atom" else SINK
    if len(texts) != (3 if name == "cas" else 2):
        raise UnknownForm("operands")
    if count > 1 and (t not in _VECTORS or space not in ("global", "generic")):
        raise UnknownForm(f".v{count}.{t}")
    space, address = in_window(site, texts[0], space)
    listed = [operands.elements(text) for text in texts[1:]]
    results = operands.elements(result) if result != SINK else (SINK,) * count
    if {len(results), *map(len, listed)} != {count}:
        raise UnknownForm(f"{len(listed[0])} elements")
    reads = [[site.operands.source(text, t) for text in element] for element in zip(*listed, strict=True)]
    writes = [site.operands.target(text, t) for text in results]
    dtype, update = DTYPES[t], update_of(name, t)
    memory, position, width = site.memory, site.position, dtype.itemsize
    reads_memory = op.family == "atom" or name != "exch"

    def update_element(lanes: Lanes, place: int, addresses: Addresses, values: list[NDArray[Any]]) -> NDArray[Any]:
        """Update one element of the vector; return what each thread found."""
        old = np.zeros(lanes.count, dtype)
        for reach in memory.reach(position, space, addresses, width, lanes, verb="atomic"):
            if not place:
                memory.count(position, reach, width * count, "atomic")
            memory.watch.atomic(position, reach, width, order, reads=reads_memory, returns=op.family == "atom")
            mine = [reach.part.select(value) for value in values]
            flush = t == "f32" and reach.region.space == "global"
            data = reach.region.view(width).view(dtype)
            index = reach.places // width
            unchanged = data[index].tobytes()
            if name == "cas":
                before = compare_and_swap(data, index, mine[0], mine[1])
            else:
                before = _in_order(data, index, mine, update, flush=flush)
            memory.progress.changes += int(data[index].tobytes() != unchanged)
            old[reach.part.rows] = before
            wrote = before == mine[0] if name == "cas" else True
            memory.watch.synchronise(position, reach, order, reads=True, wrote=wrote)
        return old

    def run(lanes: Lanes) -> None:
        addresses = address(lanes)
        values = [[lanes.fill(read(lanes)) for read in element] for element in reads]
        old_values = [update_element(lanes, i, addresses + i * width, element) for i, element in enumerate(values)]
        for write, old in zip(writes, old_values, strict=True):
            write(lanes, old)

    return run


def compare_and_swap(memory: NDArray[Any], index: Indices, compare: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
    """Perform the threads' compare-and-swaps sequentially; return the old values, (count,).

    For many threads competing for one lock, the cost is one step per success, not per attempt.

    Args:
        memory: The region's data in the instruction's type; changed in place.
        index: (count,) the element each thread updates.
        compare: (count,) each thread's expected value.
        new: (count,) the value it writes on success.
    """
    old_values = memory[index]
    order = np.argsort(index, kind="stable")
    starts = np.flatnonzero(np.concatenate([[True], index[order][1:] != index[order][:-1]]))
    alone = np.diff(np.append(starts, len(order))) == 1
    once = order[starts[alone]]
    memory[index[once]] = np.where(old_values[once] == compare[once], new[once], old_values[once])
    for start, stop in zip(starts[~alone].tolist(), np.append(starts[1:], len(order))[~alone].tolist(), strict=True):
        threads = order[start:stop]
        value = old_values[threads[0]]
        while len(threads):
            hits = np.flatnonzero(compare[threads] == value)
            if not len(hits):
                old_values[threads] = value
                break
            old_values[threads[: hits[0] + 1]] = value
            value = new[threads[hits[0]]]
            threads = threads[hits[0] + 1 :]
        memory[index[order[start]]] = value
    return old_values


def _in_order(
    memory: NDArray[Any], index: Indices, values: Sequence[NDArray[Any]], update: Update, *, flush: bool
) -> NDArray[Any]:
    """Apply the threads' updates sequentially; return the old values, (count,).

    Args:
        memory: The region's data in the instruction's type; changed in place.
        index: (count,) the element each thread updates.
        values: (count,) operands of each thread: one, or two for `cas`.
        update: The operation.
        flush: Flush subnormal numbers to zero.
    """
    old_values = np.empty(len(index), memory.dtype)
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    lengths = np.diff(np.append(first, len(ordered)))
    for turn in range(int(lengths.max(initial=0))):
        now = order[first[lengths > turn] + turn]
        at = index[now]
        old = memory[at]
        old_values[now] = old
        b, c = values[0][now], values[1][now] if len(values) > 1 else None
        if flush:
            old, b = floats.flush32(old), floats.flush32(b)
        new = np.asarray(update(old, b, c), memory.dtype)
        if memory.dtype == np.float32:
            new = floats.flush32(new).copy() if flush else new
            floats.canonical32(new)
        memory[at] = new
    return old_values
