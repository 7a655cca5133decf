"""What lanes of a warp do together: shuffles, votes, matches, reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from lab.emulator.operations.base import DTYPES, Array, Opcode, UnknownForm, system

if TYPE_CHECKING:
    from lab.emulator.machine import Machine

Run = Callable[[Array | None], None]
_LANES = np.arange(32, dtype=np.uint32)


def spread(machine: Machine, chosen: Array | None, values: Array) -> Array:
    """Return values of the chosen threads as (warps, 32), zero elsewhere."""
    if chosen is None:
        return np.broadcast_to(values, (machine.threads,)).reshape(-1, 32)
    full = np.zeros(machine.threads, values.dtype)
    full[chosen] = values
    return full.reshape(-1, 32)


def present(machine: Machine, chosen: Array | None) -> Array:
    """Return which lanes take part, (warps, 32)."""
    full = np.ones(machine.threads, bool) if chosen is None else np.zeros(machine.threads, bool)
    if chosen is not None:
        full[chosen] = True
    return full.reshape(-1, 32)


def pick(chosen: Array | None, by_warp: Array) -> Array:
    """Return the chosen threads' part of a (warps, 32) array."""
    flat = by_warp.reshape(-1)
    return flat if chosen is None else flat[chosen]


def as_mask(bits: Array) -> Array:
    """Pack booleans along the last axis of 32 into uint32."""
    result: Array = (bits.astype(np.uint32) << _LANES).sum(axis=-1, dtype=np.uint32)
    return result


def company(machine: Machine, chosen: Array | None, masks: Array) -> Array:
    """Return, for each lane, the lanes that its mask names and that are present: (warps, 32, 32)."""
    named = (spread(machine, chosen, masks)[:, :, None] >> _LANES) & np.uint32(1)
    result: Array = (named != 0) & present(machine, chosen)[:, None, :]
    return result


@system("shfl")
def shuffle(machine: Machine, position: int, op: Opcode) -> Run:
    """Build shfl: each lane reads a register of another lane."""
    op.flag("sync")
    mode = op.one_of(("up", "down", "bfly", "idx"))
    op.one_of(("b32",))
    op.finish()
    destination, *texts = machine.program.code[position][1].operands
    names = [part.strip() for part in destination.split("|")]
    read_a, read_b, read_c = (machine.binder.source(position, text, "u32") for text in texts[:3])
    write = machine.binder.target(position, names[0], "b32")
    write_hit = machine.binder.target(position, names[1], "pred") if len(names) > 1 else None
    lane = (np.arange(machine.threads) % 32).astype(np.int32)
    base = np.arange(machine.threads) - lane

    def run(chosen: Array | None) -> None:
        mine = lane if chosen is None else lane[chosen]
        start = base if chosen is None else base[chosen]
        b, c = read_b(chosen).astype(np.int32), read_c(chosen).astype(np.int32)
        shift, clamp, segment = b & 31, c & 31, (c >> 8) & 31
        last = (mine & segment) | (clamp & ~segment)
        if mode == "up":
            other = mine - shift
            hit = other >= last
        else:
            if mode == "idx":
                other = (mine & segment) | (shift & ~segment)
            else:
                other = mine + shift if mode == "down" else mine ^ shift
            hit = other <= last
        values = np.broadcast_to(read_a(None), (machine.threads,))
        write(chosen, values[start + np.where(hit, other, mine)])
        if write_hit is not None:
            write_hit(chosen, hit)

    return run


@system("vote")
def vote(machine: Machine, position: int, op: Opcode) -> Run:
    """Build vote.all, any, uni and ballot."""
    sync = op.flag("sync")
    mode = op.one_of(("all", "any", "uni", "ballot"))
    op.one_of(("b32",) if mode == "ballot" else ("pred",))
    op.finish()
    texts = machine.program.code[position][1].operands
    read = machine.binder.source(position, texts[1], "pred")
    read_mask = machine.binder.source(position, texts[2] if sync else "0xffffffff", "b32")
    write = machine.binder.target(position, texts[0], "b32" if mode == "ballot" else "pred")

    def run(chosen: Array | None) -> None:
        count = machine.threads if chosen is None else len(chosen)
        said = spread(machine, chosen, np.broadcast_to(read(chosen), (count,)))[:, None, :]
        members = company(machine, chosen, read_mask(chosen))
        yes, no = (members & said), (members & ~said)
        result: Any
        if mode == "ballot":
            result = as_mask(yes)
        elif mode == "any":
            result = yes.any(axis=2)
        elif mode == "all":
            result = ~no.any(axis=2)
        else:
            result = ~(yes.any(axis=2) & no.any(axis=2))
        write(chosen, pick(chosen, result))

    return run


@system("activemask")
def activemask(machine: Machine, position: int, op: Opcode) -> Run:
    """Build activemask: the lanes that run together now."""
    op.one_of(("b32",))
    op.finish()
    write = machine.binder.target(position, machine.program.code[position][1].operands[0], "b32")

    def run(chosen: Array | None) -> None:
        masks = as_mask(present(machine, chosen))
        write(chosen, pick(chosen, np.repeat(masks, 32)))

    return run


@system("match")
def match(machine: Machine, position: int, op: Opcode) -> Run:
    """Build match.any and match.all."""
    mode = op.one_of(("any", "all"))
    op.one_of(("sync",))
    t = op.one_of(("b32", "b64"))
    op.finish()
    destination, source, mask = machine.program.code[position][1].operands
    names = [part.strip() for part in destination.split("|")]
    read = machine.binder.source(position, source, t)
    read_mask = machine.binder.source(position, mask, "b32")
    write = machine.binder.target(position, names[0], "b32")
    write_hit = machine.binder.target(position, names[1], "pred") if len(names) > 1 else None

    def run(chosen: Array | None) -> None:
        values = spread(machine, chosen, read(chosen))
        members = company(machine, chosen, read_mask(chosen))
        equal = members & (values[:, None, :] == values[:, :, None])
        if mode == "any":
            write(chosen, pick(chosen, as_mask(equal)))
            return
        alike = (equal == members).all(axis=2)
        write(chosen, pick(chosen, np.where(alike, as_mask(members), np.uint32(0))))
        if write_hit is not None:
            write_hit(chosen, pick(chosen, alike))

    return run


@system("redux")
def redux(machine: Machine, position: int, op: Opcode) -> Run:
    """Build reductions of integers over lanes."""
    op.one_of(("sync",))
    mode = op.one_of(("add", "min", "max", "and", "or", "xor"))
    t = op.one_of(("b32",) if mode in ("and", "or", "xor") else ("u32", "s32"))
    op.finish()
    destination, source, mask = machine.program.code[position][1].operands
    read, write = machine.binder.source(position, source, t), machine.binder.target(position, destination, t)
    read_mask = machine.binder.source(position, mask, "b32")
    info = np.iinfo(DTYPES[t])
    ufunc, neutral = {
        "add": (np.add, 0), "min": (np.minimum, info.max), "max": (np.maximum, info.min),
        "and": (np.bitwise_and, info.max), "or": (np.bitwise_or, 0), "xor": (np.bitwise_xor, 0),
    }[mode]  # fmt: skip

    def run(chosen: Array | None) -> None:
        values = spread(machine, chosen, read(chosen))
        members = company(machine, chosen, read_mask(chosen))
        operands = np.where(members, values[:, None, :], DTYPES[t].type(neutral))
        write(chosen, pick(chosen, ufunc.reduce(operands, axis=2, dtype=DTYPES[t])))

    return run


@system("elect")
def elect(machine: Machine, position: int, op: Opcode) -> Run:
    """Build elect.sync: the lowest lane of the mask leads."""
    op.one_of(("sync",))
    op.finish()
    destination, mask = machine.program.code[position][1].operands
    names = [part.strip() for part in destination.split("|")]
    read_mask = machine.binder.source(position, mask, "b32")
    write, write_hit = (
        machine.binder.target(position, names[0], "b32"),
        machine.binder.target(position, names[1], "pred"),
    )

    def run(chosen: Array | None) -> None:
        leader = company(machine, chosen, read_mask(chosen)).argmax(axis=2)
        write(chosen, pick(chosen, leader.astype(np.uint32)))
        write_hit(chosen, pick(chosen, leader == np.arange(32)))

    return run


@system("bar", "barrier")
def warp_barrier(_machine: Machine, _position: int, op: Opcode) -> Run:
    """Build bar.warp.sync: the lanes have met before it runs."""
    if op.parts != ["warp", "sync"]:
        raise UnknownForm("this form of barrier")
    return lambda _chosen: None
