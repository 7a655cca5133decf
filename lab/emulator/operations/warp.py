"""Operations across the lanes of a warp: shuffles, votes, matches, reductions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lab.base.warp import WARP_SIZE
from lab.emulator.arrays import Mask, Scalar, Words
from lab.emulator.binding import Read, Write
from lab.emulator.floats import NAN32
from lab.emulator.lanes import Lanes
from lab.emulator.memory.watch import ForeignReads
from lab.emulator.opcodes import DTYPES, Opcode, UnknownForm
from lab.emulator.operations.system import Run, Site, system

_LANES = np.arange(WARP_SIZE, dtype=np.uint32)
_LAST_LANE = WARP_SIZE - 1
_EVERY_LANE = 0xFFFFFFFF
_SIGN = np.uint32(0x80000000)
SHUFFLES = ("up", "down", "bfly", "idx")
_NOT_MEMBER = "these lanes are not in their own member mask"


def by_warp(lanes: Lanes, values: NDArray[Scalar]) -> NDArray[Scalar]:
    """Spread (count,) or (1,) values of the chosen threads to (warps, 32), zero elsewhere."""
    return lanes.spread(lanes.fill(values)).reshape(-1, WARP_SIZE)


def pick(lanes: Lanes, values: NDArray[Scalar] | Scalar) -> NDArray[Scalar]:
    """Return the chosen threads' elements, (count,), of (warps, 32) values."""
    return lanes.select(np.asarray(values).reshape(-1))


def as_mask(bits: Mask) -> Words:
    """Pack booleans along the last axis, of 32, into uint32: lane 0 is the lowest bit."""
    return np.asarray((bits.astype(np.uint32) << _LANES).sum(axis=-1, dtype=np.uint32))


def company(lanes: Lanes, masks: Words) -> Mask:
    """Return, for each lane, the present lanes in its member mask.

    Args:
        lanes: The present threads.
        masks: (count,) or (1,) member masks.

    Returns:
        (warps, 32, 32): warp, lane, other lane.
    """
    members = (by_warp(lanes, masks)[:, :, None] >> _LANES) & np.uint32(1)
    present = lanes.present().reshape(-1, WARP_SIZE)
    return np.asarray((members != 0) & present[:, None, :])


def _result_and_flag(site: Site) -> tuple[Write, Write | None]:
    """Return writers of the first destination in ``d|p`` and, if present, of the predicate."""
    names = [name.strip() for name in site.texts[0].split("|")]
    flag = site.operands.target(names[1], "pred") if len(names) > 1 else None
    return site.operands.target(names[0], "b32"), flag


def source_lanes(mode: str, mine: NDArray[np.int32], b: Words, c: Words) -> tuple[NDArray[np.int32], Mask]:
    """Return each lane's source lane in a shuffle, and whether it is in range.

    Args:
        mode: One of `SHUFFLES`.
        mine: (count,) the lanes.
        b: (count,) or (1,) the shuffle's operand: a lane, a distance or a mask.
        c: (count,) or (1,) the clamp in bits 0 to 4, and the mask of segments in bits 8 to 12.
    """
    chosen, limits = b.astype(np.int32), c.astype(np.int32)
    shift, clamp, segment = chosen & _LAST_LANE, limits & _LAST_LANE, (limits >> 8) & _LAST_LANE
    last = (mine & segment) | (clamp & ~segment)
    if mode == "up":
        source_lane = mine - shift
    elif mode == "down":
        source_lane = mine + shift
    else:
        source_lane = mine ^ shift if mode == "bfly" else (mine & segment) | (shift & ~segment)
    hit = source_lane >= last if mode == "up" else source_lane <= last
    return np.where(hit, source_lane, mine), hit


@system("shfl")
def shuffle(site: Site, op: Opcode) -> Run:
    """Build shfl: each lane reads another lane's register."""
    op.flag("sync")
    mode = op.one_of(SHUFFLES)
    op.one_of(("b32",))
    op.finish()
    read_a, read_b, read_c = (site.operands.source(text, "u32") for text in site.texts[1:4])
    read_mask = site.operands.source(site.texts[4], "u32")
    write, write_hit = _result_and_flag(site)
    everyone = site.batch.everyone
    lane = _lane_numbers(site)
    base = np.arange(site.batch.threads) - lane

    def run(lanes: Lanes) -> None:
        mine = lanes.select(lane)
        source, hit = source_lanes(mode, mine, read_b(lanes), read_c(lanes))
        values = everyone.fill(read_a(everyone))
        masks = read_mask(lanes)
        if not lanes.whole or masks.min() != _EVERY_LANE:
            _find_outsiders(site, lanes, lanes.fill(masks), mine, source)
        write(lanes, values[lanes.select(base) + source])
        if write_hit is not None:
            write_hit(lanes, hit)

    return run


def _find_outsiders(site: Site, lanes: Lanes, masks: Words, mine: NDArray[np.int32], source: NDArray[np.int32]) -> None:
    """Report lanes missing from their own mask, and track values read from inactive lanes.

    Such values are undefined (CUDA programming guide, warp shuffle functions; PTX ISA, `shfl.sync`). Valid kernels have
    lanes with unused results, so the finding is reported where the value has an effect.

    Args:
        site: The instruction.
        lanes: The threads.
        masks: (count,) the member mask of each one.
        mine: (count,) its own lane.
        source: (count,) its source lane.
    """
    if _outside(site, lanes, masks, mine, _NOT_MEMBER):
        return
    threads = lanes.indices()
    sources = threads - mine + source
    in_mask = (masks >> source.astype(np.uint32)) & np.uint32(1) != 0
    away = np.flatnonzero(~(in_mask & lanes.present()[sources]))
    if not len(away):
        return
    watch, at = site.memory.watch, sources[away]
    reads = ForeignReads(mine[away], source[away], masks[away], in_mask[away], site.batch.exists[at])
    if watch.undefined is not None and watch.undefined.follows(site.position):
        watch.undefined.exchange(site.position, threads[away], reads)
    elif watch.clocks is not None or not in_mask.all():
        site.findings.add("warp-divergence", site.position, reads.words(), threads[away])


def _outside(site: Site, lanes: Lanes, masks: Words, lane: NDArray[np.int32], description: str) -> bool:
    """Report lanes for which (count,) lanes are not in (count,) masks; return whether there are any."""
    out = np.flatnonzero((masks >> lane.astype(np.uint32)) & np.uint32(1) == 0)
    if len(out):
        detail = f"{description} (lane {int(lane[out[0]])}, mask {int(masks[out[0]]):#010x})"
        site.findings.add("warp-divergence", site.position, detail, lanes.take(out).indices())
    return bool(len(out))


def _lane_numbers(site: Site) -> NDArray[np.int32]:
    return (np.arange(site.batch.threads) % WARP_SIZE).astype(np.int32)


def _members(site: Site, read: Read[np.uint32]) -> Read[np.uint32]:
    """Return a reader of a member mask that reports lanes missing from their own mask."""
    lane = _lane_numbers(site)

    def checked(lanes: Lanes) -> Words:
        masks = read(lanes)
        if masks.min() != _EVERY_LANE:
            _outside(site, lanes, lanes.fill(masks), lanes.select(lane), _NOT_MEMBER)
        return masks

    return checked


@system("vote")
def vote(site: Site, op: Opcode) -> Run:
    """Build vote.all, any, uni and ballot."""
    sync = op.flag("sync")
    mode = op.one_of(("all", "any", "uni", "ballot"))
    op.one_of(("b32",) if mode == "ballot" else ("pred",))
    op.finish()
    destination, source, *mask = site.texts
    read = site.operands.source(source, "pred")
    read_mask = _members(site, site.operands.source(mask[0] if sync else "0xffffffff", "b32"))
    write = site.operands.target(destination, "b32" if mode == "ballot" else "pred")

    def run(lanes: Lanes) -> None:
        predicates = by_warp(lanes, read(lanes))[:, None, :]
        members = company(lanes, read_mask(lanes))
        yes, no = members & predicates, members & ~predicates
        if mode == "ballot":
            write(lanes, pick(lanes, as_mask(yes)))
        elif mode == "any":
            write(lanes, pick(lanes, yes.any(axis=2)))
        elif mode == "all":
            write(lanes, pick(lanes, ~no.any(axis=2)))
        else:
            write(lanes, pick(lanes, ~(yes.any(axis=2) & no.any(axis=2))))

    return run


@system("activemask")
def activemask(site: Site, op: Opcode) -> Run:
    """Build activemask: the lanes currently running together."""
    op.one_of(("b32",))
    op.finish()
    write = site.operands.target(site.texts[0], "b32")

    def run(lanes: Lanes) -> None:
        masks = as_mask(lanes.present().reshape(-1, WARP_SIZE))
        write(lanes, lanes.select(np.repeat(masks, WARP_SIZE)))

    return run


@system("match")
def match(site: Site, op: Opcode) -> Run:
    """Build match.any and match.all."""
    mode = op.one_of(("any", "all"))
    op.one_of(("sync",))
    t = op.one_of(("b32", "b64"))
    op.finish()
    _, source, mask = site.texts
    read = site.operands.source(source, t)
    read_mask = _members(site, site.operands.source(mask, "b32"))
    write, write_hit = _result_and_flag(site)

    def run(lanes: Lanes) -> None:
        values = by_warp(lanes, read(lanes))
        members = company(lanes, read_mask(lanes))
        equal = members & (values[:, None, :] == values[:, :, None])
        if mode == "any":
            write(lanes, pick(lanes, as_mask(equal)))
            return
        alike = (equal == members).all(axis=2)
        write(lanes, pick(lanes, np.where(alike, as_mask(members), np.uint32(0))))
        if write_hit is not None:
            write_hit(lanes, pick(lanes, alike))

    return run


@system("redux")
def redux(site: Site, op: Opcode) -> Run:
    """Build integer reductions over the lanes of a warp."""
    op.one_of(("sync",))
    mode = op.one_of(("add", "min", "max", "and", "or", "xor"))
    if mode in ("min", "max") and op.parts[-1:] == ["f32"]:
        return _float_redux(site, op, mode)
    t = op.one_of(("b32",) if mode in ("and", "or", "xor") else ("u32", "s32"))
    op.finish()
    destination, source, mask = site.texts
    read, write = site.operands.source(source, t), site.operands.target(destination, t)
    read_mask = _members(site, site.operands.source(mask, "b32"))
    info = np.iinfo(DTYPES[t])
    ufunc, neutral = {
        "add": (np.add, 0), "min": (np.minimum, info.max), "max": (np.maximum, info.min),
        "and": (np.bitwise_and, info.max), "or": (np.bitwise_or, 0), "xor": (np.bitwise_xor, 0),
    }[mode]  # fmt: skip

    def run(lanes: Lanes) -> None:
        values = by_warp(lanes, read(lanes))
        members = company(lanes, read_mask(lanes))
        terms = np.where(members, values[:, None, :], DTYPES[t].type(neutral))
        write(lanes, pick(lanes, ufunc.reduce(terms, axis=2, dtype=DTYPES[t])))

    return run


def _float_redux(site: Site, op: Opcode, mode: str) -> Run:
    """Build redux.sync.min and max of float32 (sm_100a): -0.0 lies below +0.0, and a NaN that results is canonical."""
    absolute, poisons = op.flag("abs"), op.flag("NaN")
    op.one_of(("f32",))
    op.finish()
    destination, source, mask = site.texts
    read, write = site.operands.source(source, "b32"), site.operands.target(destination, "b32")
    read_mask = _members(site, site.operands.source(mask, "b32"))
    ufunc, neutral = (np.minimum, _EVERY_LANE) if mode == "min" else (np.maximum, 0)

    def run(lanes: Lanes) -> None:
        bits = by_warp(lanes, read(lanes)) & np.uint32(~_SIGN if absolute else _EVERY_LANE)
        members = company(lanes, read_mask(lanes))
        nan = np.isnan(bits.view(np.float32))
        # unsigned integers in the order of the floats: of negative ones all bits are flipped, of others the sign
        keys = np.where(bits & _SIGN, ~bits, bits | _SIGN)
        numbers = members & ~nan[:, None, :]
        best = ufunc.reduce(np.where(numbers, keys[:, None, :], np.uint32(neutral)), axis=2, dtype=np.uint32)
        result = np.where(best & _SIGN, best & ~_SIGN, ~best)
        invalid = (members & nan[:, None, :]).any(axis=2) if poisons else ~numbers.any(axis=2)
        write(lanes, pick(lanes, np.where(invalid, NAN32, result)))

    return run


@system("elect")
def elect(site: Site, op: Opcode) -> Run:
    """Build elect.sync: the lowest lane of the mask is the leader."""
    op.one_of(("sync",))
    op.finish()
    read_mask = _members(site, site.operands.source(site.texts[1], "b32"))
    write, write_hit = _result_and_flag(site)
    if write_hit is None:
        raise UnknownForm("no predicate")

    def run(lanes: Lanes) -> None:
        leader = company(lanes, read_mask(lanes)).argmax(axis=2)
        write(lanes, pick(lanes, leader.astype(np.uint32)))
        write_hit(lanes, pick(lanes, leader == _LANES))

    return run


@system("bar", "barrier")
def warp_barrier(site: Site, op: Opcode) -> Run:
    """Build bar.warp.sync: its lanes have converged; it orders their accesses."""
    if op.parts != ["warp", "sync"]:
        raise UnknownForm("this form of barrier")
    read, watch = site.operands.source(site.texts[0], "u32"), site.memory.watch
    return lambda lanes: watch.order_warps(lanes.indices(), lanes.fill(read(lanes)))
