"""Bulk copies between global and shared memory, and between blocks of a cluster.

Copies into shared memory complete on mbarriers, copies out of it in bulk groups. The bytes are copied, and counted on
their mbarrier, at once. The shadow records that they must not be read, or their source overwritten, before a wait.

PTX ISA, cp.async.bulk, cp.reduce.async.bulk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from lab.base.warp import LINE_BYTES, SECTOR_BYTES
from lab.emulator.arrays import Addresses, Bytes
from lab.emulator.binding import Read
from lab.emulator.lanes import Lanes
from lab.emulator.memory.memory import WITHIN_SEGMENT, Region
from lab.emulator.memory.peers import absent_block, in_cluster, peer_rows
from lab.emulator.opcodes import DTYPES, Opcode, UnknownForm
from lab.emulator.operations.system import Run, Site
from lab.emulator.operations.updates import update_of
from lab.emulator.results import FindingKind, MemoryCount
from lab.isa.ptx.constants import integer

GRAIN = 16
"""The granularity of sizes and addresses of bulk copies, in bytes."""

_SPACES = ("shared::cluster", "shared::cta", "global")
_REDUCTIONS = {
    "add": ("u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64"),
    "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "max": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
}

Combine = Callable[[Bytes, Bytes], Bytes]
"""Combines the bytes in memory with the copied bytes."""


@dataclass(frozen=True, slots=True, eq=False)
class Asker:
    """The issuer of a copy.

    Attributes:
        site: The instruction.
        thread: The thread's index within the batch.
        block: The block of the batch whose shared memory is copied to or from.
        mbarrier: Number of the mbarrier there that counts the copy; -1 for none.
        fetches: This block's copy accesses global memory; other multicast targets share that access.
    """

    site: Site
    thread: int
    block: int
    mbarrier: int = -1
    fetches: bool = True

    def find(self, kind: FindingKind, detail: str, address: int) -> None:
        """Report a fault of this thread."""
        self.site.findings.add(kind, self.site.position, detail, np.array([self.thread]), address=address)

    def aligned(self, address: int, grain: int, description: str) -> bool:
        """Return whether a number is a multiple of `grain`; report a fault if not."""
        if address % grain == 0:
            return True
        self.find("misaligned", f"bulk copy {description} that is not a multiple of {grain} bytes", address)
        return False

    def fits(self, offset: int, size: int, grain: int, *, verb: str = "to") -> bool:
        """Return whether a copy's size and shared-memory offset are valid; report a fault if not."""
        if not self.aligned(size, GRAIN, f"of {size} bytes, a size"):
            return False
        if not self.aligned(offset, grain, f"{verb} an offset"):
            return False
        return self.inside(offset, size, verb=verb)

    def inside(self, offset: int, size: int, *, verb: str = "to") -> bool:
        """Return whether bytes are within shared memory; report a fault if not."""
        shared = self.site.memory.shared
        if 0 <= offset <= shared.size - size:
            return True
        detail = f"bulk copy of {size} bytes {verb} offset {offset} of {shared.name} ({shared.size} bytes)"
        self.find("out-of-bounds", detail, offset)
        return False


# --- global memory ------------------------------------------------------------------------------------------------


def rows_in_global(asker: Asker, base: int, offsets: Addresses, length: int, *, verb: str) -> Region | None:
    """Return the buffer of some rows of global memory; report a fault and return None if not all are in one.

    Args:
        asker: The thread.
        base: A generic address.
        offsets: (rows,) byte offset of each row from the base; at least one.
        length: Bytes of a row.
        verb: `from` or `to`.
    """
    region = asker.site.memory.space.at(base)
    start = offsets + (base & WITHIN_SEGMENT)
    if region is None or region.space != "global":
        detail = f"bulk copy {verb} where nothing is allocated"
        asker.find("out-of-bounds", detail, base + int(offsets.max()))
        return None
    if int(start.min()) < 0 or int(start.max()) + length > region.size:
        detail = f"bulk copy of {length} bytes at offset {int(start.max())} of {region.name} ({region.size} bytes)"
        asker.find("out-of-bounds", detail, base + int(offsets.max()))
        return None
    return region


def read_rows(asker: Asker, base: int, offsets: Addresses, length: int) -> Bytes:
    """Return rows of global memory, (rows * length,); zeros where out of bounds. Arguments as above."""
    if not len(offsets) or not length:
        return np.zeros(0, np.uint8)
    region = rows_in_global(asker, base, offsets, length, verb="from")
    if region is None:
        return np.zeros(len(offsets) * length, np.uint8)
    index = spans(offsets + (base & WITHIN_SEGMENT), length)
    if region.shadow is not None:
        conflicts = region.shadow.read(index, 1)
        asker.site.memory.watch.report_global(asker.site.position, asker.thread, region, index, conflicts)
    watch = asker.site.memory.watch
    place, phase = asker.site.mbarriers.pending(asker.mbarrier, asker.block)
    if asker.fetches:
        rows = offsets + (base & WITHIN_SEGMENT)
        watch.bulk_fetch(asker.site.position, asker.thread, region, rows, length, place=place, phase=phase)
    else:
        watch.bulk_fetch_again(region, place, phase)
    return region.data[index]


def write_rows(
    asker: Asker, base: int, offsets: Addresses, length: int, values: Bytes, *, combine: Combine | None = None
) -> None:
    """Write or combine (rows * length,) values into rows of global memory. Arguments as above."""
    if not len(offsets) or not length:
        return
    region = rows_in_global(asker, base, offsets, length, verb="to")
    if region is None:
        return
    site = asker.site
    rows = offsets + (base & WITHIN_SEGMENT)
    index = spans(rows, length)
    arrive = site.memory.watch.bulk_store(site.position, asker.thread, region, rows, length, update=combine is not None)
    if arrive is not None:
        site.memory.bulk_groups.write(asker.thread, arrive)
    region.data[index] = values if combine is None else combine(region.data[index], values)
    site.memory.progress.changes += 1


def spans(starts: Addresses, length: int) -> Addresses:
    """Return the (rows * length,) byte positions of spans with (rows,) starts."""
    return (starts[:, None] + np.arange(length)).reshape(-1)


def sectors_of(starts: Addresses, length: int) -> int:
    """Return the number of sectors that rows of global memory touch, counted per row."""
    if not length or not len(starts):
        return 0
    return int(((starts + length - 1) // SECTOR_BYTES - starts // SECTOR_BYTES + 1).sum())


# --- shared memory ------------------------------------------------------------------------------------------------


def deliver(asker: Asker, target: int, values: Bytes, combine: Combine | None = None, *, generic: bool = False) -> None:
    """Deliver bytes to shared memory: check, store, and count them on their mbarrier.

    Args:
        asker: The thread and its destination.
        target: Offset in the block's shared memory.
        values: (size,) the bytes.
        combine: The reduction with the old bytes; None to replace them.
        generic: They do not use the async proxy.
    """
    site, size = asker.site, len(values)
    shared, watch = site.memory.shared, site.memory.watch
    place = target + asker.block * shared.stride
    phase = site.mbarriers.owe_less(site.position, asker.thread, asker.mbarrier, asker.block, size)
    if watch.shadow is not None and watch.bulk is not None:
        conflicts = watch.shadow.copy_bulk(
            watch.bulk,
            place,
            size,
            asker.thread,
            site.position,
            mbarrier=asker.mbarrier,
            phase=phase,
            generic=generic,
            update=combine is not None,
        )
        watch.report_shared(site.position, np.array([asker.thread]), np.array([target]), conflicts)
    old_bytes = shared.data[place : place + size]
    shared.data[place : place + size] = values if combine is None else combine(old_bytes.copy(), values)


def collect(asker: Asker, source: int, size: int, stored: Addresses | None = None) -> Bytes:
    """Return bytes of shared memory, which must not be overwritten until the thread has waited.

    Args:
        asker: The copy.
        source: Offset in the block's shared memory.
        size: Bytes.
        stored: (count,) indices of the bytes the copy stores; None for all. The others have no effect.
    """
    shared, groups = asker.site.memory.shared, asker.site.memory.bulk_groups
    base = asker.block * shared.stride
    place = source + base
    if stored is None:
        groups.read(asker.site.position, asker.thread, np.array([place]), size, base)
    else:
        groups.read(asker.site.position, asker.thread, place + stored, 1, base)
    return shared.data[place : place + size].copy()


def count(asker: Asker, size: int, sectors: int, fetched: int, *, tensor: int | None = None) -> None:
    """Count a copy of `size` shared and `fetched` global bytes; `tensor` is a tensor's address."""
    if asker.site.counters is not None:
        waves = -(-size // LINE_BYTES)
        asker.site.counters.bulk_copy(
            asker.site.position,
            MemoryCount(1, waves, 0, size, waves),
            MemoryCount(1, 0, sectors, fetched, 0) if asker.fetches else MemoryCount(0, 0, 0, 0, 0),
            tensor=tensor,
        )


def askers(
    site: Site,
    lanes: Lanes,
    targets: Addresses,
    mbarriers: Addresses,
    masks: Addresses | None,
    *,
    fenced: bool = True,
) -> Iterator[tuple[int, int, Asker]]:
    """Yield, for each thread and target block, the thread's position, the offset in the block, and the issuer.

    Args:
        site: The instruction.
        lanes: The threads.
        targets: (count,) addresses in `shared::cluster`.
        mbarriers: (count,) addresses of mbarriers.
        masks: (count,) the blocks of the cluster that receive a copy; None for the target's block only.
        fenced: They use the mbarrier through the async proxy.
    """
    batch = site.batch
    for i in range(lanes.count):
        lane = lanes.take(np.array([i]))
        if not in_cluster(batch, np.array([targets[i], mbarriers[i]])).all():
            detail = f"a copy {absent_block(batch)}"
            site.findings.add("out-of-bounds", site.position, detail, lane.indices())
            continue
        offset, row = peer_rows(batch, targets[i : i + 1], lane)
        at, home = peer_rows(batch, mbarriers[i : i + 1], lane)
        rows = [int(row[0])]
        if masks is None and int(home[0]) != rows[0]:
            detail = "the mbarrier is not in the block of the copy's target"
            site.findings.add("mbarrier-misuse", site.position, detail, lane.indices())
            continue
        if masks is not None:
            first = int(lane.select(batch.block_of)[0]) // batch.cluster * batch.cluster
            rows = [first + rank for rank in range(16) if int(masks[i]) >> rank & 1]
            if int(masks[i]) >> batch.cluster:
                detail = f"the mask {int(masks[i]):#x} names blocks beyond the cluster's {batch.cluster}"
                site.findings.add("out-of-bounds", site.position, detail, lane.indices())
                rows = [block for block in rows if block < first + batch.cluster]
        fetches = True
        for block in rows:
            mbarrier = site.mbarriers.name(
                site.position, at, lane, bulk_copy=fenced, blocks=np.array([block]), awaited=True
            )
            if len(mbarrier.threads):
                yield i, int(offset[0]), Asker(site, int(mbarrier.threads[0]), block, int(mbarrier.numbers[0]), fetches)
                fetches = False


# --- instructions -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BulkForm:
    """A decoded bulk-copy opcode.

    Attributes:
        source: State space copied from.
        target: State space copied to.
        multicast: A mask of blocks follows the mbarrier.
        hint: A cache policy is the last operand.
    """

    source: str
    target: str
    multicast: bool
    hint: bool


def take_form(op: Opcode) -> BulkForm:
    """Consume spaces, completion mechanism and hints.

    Raises:
        UnknownForm: the spaces or the completion mechanism do not fit.
    """
    spaces = [modifier for modifier in op.parts if modifier in _SPACES]
    if len(spaces) != 2:  # noqa: PLR2004  target and source
        raise UnknownForm("exactly two state spaces are required")
    target, source = spaces
    op.parts = [modifier for modifier in op.parts if modifier not in _SPACES]
    if source == target == "global" or source == "shared::cluster" or (target == "shared::cta" and source != "global"):
        raise UnknownForm(f"a bulk copy from .{source} to .{target}")
    multicast = op.flag("multicast::cluster")
    if target == "global":
        op.one_of(("bulk_group",))
    else:
        op.one_of(("mbarrier::complete_tx::bytes",))
    if multicast and (target, source) != ("shared::cluster", "global"):
        raise UnknownForm(f".multicast::cluster to .{target}")
    return BulkForm(source, target, multicast, op.flag("L2::cache_hint"))


def take_reduction(op: Opcode) -> Combine:
    """Consume a reduction's operation and type; return the function that combines bytes."""
    op.flag("noftz")
    name = take_operation(op)
    return reduction(name, op.one_of(_REDUCTIONS[name]))


def take_operation(op: Opcode) -> str:
    """Consume the operation of a reduction."""
    return op.one_of(tuple(_REDUCTIONS))


def combines(name: str, t: str) -> bool:
    """Return whether a reduction supports a type; for bitwise operations, t is an integer type of the same width."""
    bits = t[0] in "us" and _REDUCTIONS[name][0][0] == "b"
    return (f"b{t[1:]}" if bits else t) in _REDUCTIONS[name]


@cache
def reduction(name: str, t: str) -> Combine:
    """Return the function that combines bytes by an operation on a type."""
    update, dtype = update_of(name, t), DTYPES[t]

    def combine(old_bytes: Bytes, values: Bytes) -> Bytes:
        return np.ascontiguousarray(update(old_bytes.view(dtype), values.view(dtype), None)).view(np.uint8)

    return combine


def bulk_copy(site: Site, op: Opcode) -> Run:
    """Build cp.async.bulk and its groups, except for tensor copies."""
    if op.flag("commit_group"):
        op.finish()
        return site.memory.bulk_groups.commit
    if op.flag("wait_group"):
        reads = op.flag("read")
        op.finish()
        still, groups = integer(site.texts[0]), site.memory.bulk_groups
        return lambda lanes: groups.wait(lanes, still, reads=reads)
    if op.flag("prefetch"):
        return lambda _lanes: None
    return _linear(site, op, None)


def reduce_copy(site: Site, op: Opcode) -> Run:
    """Build cp.reduce.async.bulk, except for tensor copies."""
    form_parts = [
        modifier for modifier in op.parts if modifier in _SPACES or "::" in modifier or modifier == "bulk_group"
    ]
    words = [modifier for modifier in op.parts if modifier not in form_parts]
    op.parts = words
    combine = take_reduction(op)
    op.finish()
    op.parts = form_parts
    return _linear(site, op, combine)


def _linear(site: Site, op: Opcode, combine: Combine | None) -> Run:
    form = take_form(op)
    op.finish()
    texts = list(site.texts)
    if form.hint:
        texts.pop()
    expected = 3 if form.target == "global" else 4 + form.multicast
    if len(texts) != expected:
        raise UnknownForm(f"{len(site.texts)} operands")
    size = site.operands.source(texts[2], "u32")
    if form.target == "global":
        return _outward(site, texts, size, combine)
    to, at = site.operands.address(texts[0], "shared"), site.operands.address(texts[3], "shared")
    mask = site.operands.source(texts[4], "u16") if form.multicast else None
    within = form.source == "shared::cta"
    of = site.operands.address(texts[1], "shared" if within else "global")

    def run(lanes: Lanes) -> None:
        sources, sizes = of(lanes), lanes.fill(size(lanes))
        masks = None if mask is None else lanes.fill(mask(lanes)).astype(np.int64)
        for i, target, asker in askers(site, lanes, to(lanes), at(lanes), masks):
            source, length = int(sources[i]), int(sizes[i])
            if not asker.fits(target, length, GRAIN) or not asker.aligned(source, GRAIN, "from an address"):
                continue
            if within:
                values = _sent_bytes(asker, source, length)
                if values is not None:
                    deliver(asker, target, values, combine)
                    count(asker, 2 * length, 0, 0)
                continue
            deliver(asker, target, read_rows(asker, source, np.zeros(1, np.int64), length), combine)
            count(asker, length, sectors_of(np.array([source & WITHIN_SEGMENT]), length), length)

    return run


def _sent_bytes(asker: Asker, source: int, length: int) -> Bytes | None:
    """Return bytes of a thread's own shared memory for a copy to a peer; None if out of bounds.

    The read is pending until the peer's mbarrier phase completes.
    """
    own = Asker(asker.site, asker.thread, int(asker.site.batch.block_of[asker.thread]))
    if not own.fits(source, length, GRAIN, verb="from"):
        return None
    place = source + own.block * own.site.memory.shared.stride
    watch = own.site.memory.watch
    if watch.shadow is not None and watch.bulk is not None:
        until = own.site.mbarriers.pending(asker.mbarrier, asker.block)
        conflicts = watch.shadow.send(watch.bulk, place, length, own.thread, own.site.position, until=until)
        watch.report_shared(own.site.position, np.full(length, own.thread), np.full(length, source), conflicts)
    return own.site.memory.shared.data[place : place + length].copy()


def _outward(site: Site, texts: list[str], size: Read[np.uint32], combine: Combine | None) -> Run:
    """Build a copy from shared to global memory."""
    to, of = site.operands.address(texts[0], "global"), site.operands.address(texts[1], "shared")
    block_of = site.batch.block_of

    def run(lanes: Lanes) -> None:
        targets, sources, sizes = to(lanes), of(lanes), lanes.fill(size(lanes))
        for i, thread in enumerate(lanes.indices().tolist()):
            asker = Asker(site, thread, int(block_of[thread]))
            target, source, length = int(targets[i]), int(sources[i]), int(sizes[i])
            if asker.fits(source, length, GRAIN, verb="from") and asker.aligned(target, GRAIN, "to an address"):
                values = collect(asker, source, length)
                write_rows(asker, target, np.zeros(1, np.int64), length, values, combine=combine)
                count(asker, length, sectors_of(np.array([target & WITHIN_SEGMENT]), length), length)

    return run
