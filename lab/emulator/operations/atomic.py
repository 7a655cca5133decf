"""Atomic read-modify-write operations, carried out one after another in thread order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from lab.emulator import floats
from lab.emulator.operations.base import ALU, DTYPES, Array, Opcode, UnknownForm, system
from lab.emulator.operations.memory import take_space

if TYPE_CHECKING:
    from lab.emulator.machine import Machine

Run = Callable[[Array | None], None]
Update = Callable[[Array, Array, Array | None], Array]

_OPERATIONS = ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")
_ORDERS = ("relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys", "noftz")


def _update(name: str, t: str) -> Update:
    """Return the new value from the old one and the operands."""
    if name == "add" and t in ("f16", "f16x2", "bf16", "bf16x2"):
        alu = ALU["add"](Opcode(f"add.rn.{t}"), 3)

        def add_halves(old: Array, b: Array, _c: Array | None) -> Array:
            result = np.empty_like(old)
            alu.compute(result, old, b)
            return result

        return add_halves
    table: dict[str, Update] = {
        "add": lambda old, b, _c: old + b,
        "min": lambda old, b, _c: np.minimum(old, b),
        "max": lambda old, b, _c: np.maximum(old, b),
        "and": lambda old, b, _c: old & b,
        "or": lambda old, b, _c: old | b,
        "xor": lambda old, b, _c: old ^ b,
        "exch": lambda _old, b, _c: b,
        "cas": lambda old, b, c: np.where(old == b, c, old) if c is not None else old,
        "inc": lambda old, b, _c: np.where(old >= b, old.dtype.type(0), old + old.dtype.type(1)),
        "dec": lambda old, b, _c: np.where((old == 0) | (old > b), b, old - old.dtype.type(1)),
    }
    return table[name]


_TYPES = {
    "add": ("u32", "s32", "u64", "s64", "f32", "f64", "f16", "f16x2", "bf16", "bf16x2"),
    "min": ("u32", "s32", "u64", "s64"),
    "max": ("u32", "s32", "u64", "s64"),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
    "exch": ("b32", "b64"),
    "cas": ("b16", "b32", "b64"),
    "inc": ("u32",),
    "dec": ("u32",),
}


@system("atom", "red")
def atomic(machine: Machine, position: int, op: Opcode) -> Run:
    """Build atom and red. Single-precision sums in global memory flush subnormals (PTX ISA, atom)."""
    for word in _ORDERS:
        op.flag(word)
    space = take_space(op)
    name = op.one_of(_OPERATIONS)
    t = op.one_of(_TYPES[name])
    op.finish()
    texts = list(machine.program.code[position][1].operands)
    result = texts.pop(0) if op.family == "atom" else "_"
    if len(texts) != (3 if name == "cas" else 2):
        raise UnknownForm("operands")
    address = machine.memory.address(position, texts[0], space)
    reads = [machine.binder.source(position, text, t) for text in texts[1:]]
    write = machine.binder.target(position, result, t)
    dtype, update = DTYPES[t], _update(name, t)
    memory = machine.memory
    shadow_load = op.family == "atom" or name != "exch"

    def run(chosen: Array | None) -> None:
        addresses = address(chosen)
        values = [np.broadcast_to(read(chosen), addresses.shape) for read in reads]
        old = np.zeros(len(addresses), dtype)
        for part in memory.reach(position, space, addresses, dtype.itemsize, chosen, verb="atomic"):
            memory.count(position, part, dtype.itemsize, "atomic")
            memory.watch_atomic(position, part, dtype.itemsize, reads=shadow_load)
            mine = values if part.select is None else [value[part.select] for value in values]
            flush = t == "f32" and part.region.space == "global"
            seen = _in_order(
                part.region.view(dtype.itemsize).view(dtype), part.places // dtype.itemsize, mine, update, flush=flush
            )
            old[slice(None) if part.select is None else part.select] = seen
        write(chosen, old)

    return run


def _in_order(memory: Array, index: Array, values: list[Array], update: Update, *, flush: bool) -> Array:
    """Apply updates as if one thread after another did; return what each thread found."""
    found = np.empty(len(index), memory.dtype)
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    lengths = np.diff(np.append(first, len(ordered)))
    for turn in range(int(lengths.max(initial=0))):
        now = order[first[lengths > turn] + turn]
        at = index[now]
        old = memory[at]
        found[now] = old
        b, c = values[0][now], values[1][now] if len(values) > 1 else None
        if flush:
            old, b = floats.flush32(old), floats.flush32(b)
        new = np.asarray(update(old, b, c), memory.dtype)
        if memory.dtype == np.float32:
            new = floats.flush32(new).copy() if flush else new
            floats.canonical32(new)
        memory[at] = new
    return found
