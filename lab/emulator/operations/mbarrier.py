"""Mbarrier operations and fences. Waits are terminators, executed by `lab.emulator.waiting.mbarriers`."""

from __future__ import annotations

import numpy as np

from lab.emulator.lanes import Lanes
from lab.emulator.memory.peers import absent_block, in_cluster, peer_rows
from lab.emulator.opcodes import Opcode, UnknownForm
from lab.emulator.operations.system import Run, Site, system
from lab.emulator.waiting.mbarriers import take_space
from lab.hardware.tensormaps import BYTES as MAP_BYTES
from lab.isa.ptx.constants import integer


@system("mbarrier")
def mbarrier(site: Site, op: Opcode) -> Run:
    """Build mbarrier.init, inval, arrive, arrive_drop, expect_tx, complete_tx and pending_count."""
    kind = op.one_of(("init", "inval", "arrive", "arrive_drop", "expect_tx", "complete_tx", "pending_count"))
    if kind == "pending_count":
        return _pending_count(site, op)
    announces = kind == "expect_tx" or op.flag("expect_tx")
    if op.flag("noComplete"):
        raise UnknownForm("mbarrier.arrive.noComplete")
    relaxed = op.flag("relaxed")
    for word in ("release", "cta", "cluster"):
        op.flag(word)
    peers = op.flag("shared::cluster")
    if not peers:
        take_space(op)
    op.one_of(("b64",))
    op.finish()
    if kind in ("init", "inval"):
        return _life(site, kind)
    return _arrival(site, kind, announces=announces, peers=peers, relaxed=relaxed)


def _life(site: Site, kind: str) -> Run:
    """Build the initialisation or invalidation of mbarriers."""
    address = site.operands.address(site.texts[0], "shared")
    mbarriers, position = site.mbarriers, site.position
    if kind == "inval":
        return lambda lanes: mbarriers.inval(position, address(lanes), lanes)
    if len(site.texts) != 2:  # noqa: PLR2004  address and number
        raise UnknownForm("missing number of arrivals")
    counts = site.operands.source(site.texts[1], "u32")
    return lambda lanes: mbarriers.init(position, address(lanes), counts(lanes), lanes)


def _arrival(site: Site, kind: str, *, announces: bool, peers: bool, relaxed: bool) -> Run:
    """Build arrivals and changes of a phase's expected bytes.

    Args:
        site: The instruction.
        kind: `arrive`, `arrive_drop`, `expect_tx` or `complete_tx`.
        announces: The number operand is a count of expected bytes.
        peers: Addresses may be in other blocks of the cluster.
        relaxed: It only orders what the thread fenced before.
    """
    texts = list(site.texts)
    returns = kind in ("arrive", "arrive_drop") and not texts[0].startswith("[")
    state = site.operands.target(texts.pop(0), "b64") if returns else None
    address = site.operands.address(texts[0], "shared")
    number = site.operands.source(texts[1], "u32") if len(texts) > 1 else None
    mbarriers, position, batch = site.mbarriers, site.position, site.batch

    def run(lanes: Lanes) -> None:
        rows, addresses = None, address(lanes)
        if peers:
            in_range = in_cluster(batch, addresses)
            if not in_range.all():
                detail = f"an mbarrier {absent_block(batch)}"
                site.findings.add("out-of-bounds", position, detail, lanes.take(np.flatnonzero(~in_range)).indices())
                lanes, addresses = lanes.take(np.flatnonzero(in_range)), addresses[in_range]
            addresses, rows = peer_rows(batch, addresses, lanes)
        targets = mbarriers.name(position, addresses, lanes, blocks=rows)
        amounts = np.ones(1, np.int64) if number is None else number(lanes).astype(np.int64)
        amount = lanes.fill(amounts)[targets.kept]
        if state is not None:  # the phase of the arrival
            state(Lanes(lanes.threads, targets.threads), mbarriers.phases(targets).astype(np.uint64))
        nothing = np.zeros(len(amount), np.int64)
        if kind == "complete_tx":
            mbarriers.arrive(position, targets, nothing, -amount)
            return
        arrivals = nothing if kind == "expect_tx" else nothing + 1 if announces else amount
        if kind == "arrive_drop":
            mbarriers.drop(targets, arrivals)
        mbarriers.arrive(position, targets, arrivals, amount if announces else nothing, relaxed=relaxed)

    return run


def _pending_count(_site: Site, _op: Opcode) -> Run:
    """Reject mbarrier.pending_count: here, a state is only a phase.

    Raises:
        UnknownForm: always.
    """
    raise UnknownForm("mbarrier.pending_count: the emulator's mbarrier state only holds the phase")


@system("fence", "membar")
def fence(site: Site, op: Opcode) -> Run:
    """Build fences: proxy fences order threads' writes before bulk copies, others order accesses."""
    mbarriers = op.flag("mbarrier_init")
    if not mbarriers and not op.flag("proxy"):
        wide, watch = "cta" not in op.parts, site.memory.watch
        return lambda lanes: watch.fence(lanes.indices(), wide=wide)
    if not mbarriers and op.flag("tensormap::generic") and op.flag("acquire"):
        return _acquire_map(site)
    if not mbarriers and not (op.flag("async") or op.flag("async::generic")):
        return lambda _lanes: None
    watch, block_of = site.memory.watch, site.batch.block_of
    shadow, clocks = watch.shadow, watch.clocks
    if shadow is None or shadow.bulk is None or clocks is None:
        return lambda _lanes: None
    bulk, pending = shadow.bulk, shadow.pending
    of_global, of_shared = op.flag("global"), op.flag("shared::cta") or op.flag("shared::cluster")

    def run(lanes: Lanes) -> None:
        if not (of_shared or mbarriers):
            clocks.fence_proxies(lanes.indices())
        if of_global and not mbarriers:
            return
        bulk.fence(lanes.indices(), np.unique(lanes.select(block_of)), mbarriers=mbarriers, pending=pending())

    return run


def _acquire_map(site: Site) -> Run:
    """Build a tensor-map acquire: the block's later tensor copies see the map in global memory.

    Raises:
        UnknownForm: It does not cover a whole map.
    """
    if len(site.texts) != 2 or integer(site.texts[1]) != MAP_BYTES:  # noqa: PLR2004 - the address, and the size
        raise UnknownForm(f"a fence of {', '.join(site.texts[1:])} bytes; a tensor map has {MAP_BYTES}")
    address, watch = site.operands.address(site.texts[0], "generic"), site.memory.watch
    return lambda lanes: watch.acquire_maps(lanes.fill(address(lanes)), lanes.indices())
