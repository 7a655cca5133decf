"""What threads do to mbarriers, and fences. Waits end a basic block: `lab.emulator.waiting.mbarriers` executes them."""

from __future__ import annotations

import numpy as np

from lab.emulator.lanes import Lanes
from lab.emulator.opcodes import Opcode, UnknownForm
from lab.emulator.operations.system import Run, Site, system
from lab.emulator.waiting.mbarriers import take_space


@system("mbarrier")
def mbarrier(site: Site, op: Opcode) -> Run:
    """Build mbarrier.init, inval, arrive and expect_tx."""
    kind = op.one_of(("init", "inval", "arrive", "expect_tx"))
    announces = kind == "expect_tx" or op.flag("expect_tx")
    for word in ("release", "relaxed", "cta", "cluster"):
        op.flag(word)
    take_space(op)
    op.one_of(("b64",))
    op.finish()
    texts = list(site.texts)
    state = site.operands.target(texts.pop(0), "b64") if kind == "arrive" else None
    address = site.operands.address(texts[0], "shared")
    number = site.operands.source(texts[1], "u32") if len(texts) > 1 else None
    mbarriers, position = site.mbarriers, site.position
    if kind == "inval":
        return lambda lanes: mbarriers.inval(position, address(lanes), lanes)
    if kind == "init":
        if number is None:
            raise UnknownForm("no number of arrivals")
        counts = number
        return lambda lanes: mbarriers.init(position, address(lanes), counts(lanes), lanes)

    def run(lanes: Lanes) -> None:
        named = mbarriers.name(position, address(lanes), lanes)
        given = np.ones(1, np.int64) if number is None else number(lanes).astype(np.int64)
        amount = lanes.fill(given)[named.kept]
        if state is not None:  # the phase that the arrival is part of
            state(Lanes(lanes.threads, named.threads), mbarriers.phases(named).astype(np.uint64))
        once = np.full(len(amount), kind == "arrive", np.int64)
        if announces:
            mbarriers.arrive(position, named, once, amount)
        else:
            mbarriers.arrive(position, named, amount, np.zeros(len(amount), np.int64))

    return run


@system("fence", "membar")
def fence(site: Site, op: Opcode) -> Run:
    """Build fences: those of the async proxy order what threads wrote before bulk copies, others order accesses."""
    mbarriers = op.flag("mbarrier_init")
    if not mbarriers and not op.flag("proxy"):
        wide, watch = "cta" not in op.parts, site.memory.watch
        return lambda lanes: watch.fence(lanes.indices(), wide=wide)
    if not mbarriers and not (op.flag("async") or op.flag("async::generic")):
        return lambda _lanes: None
    bulk = site.memory.watch.bulk
    if bulk is None or (op.flag("global") and not mbarriers):
        return lambda _lanes: None
    shadow, block_of = bulk, site.batch.block_of

    def run(lanes: Lanes) -> None:
        shadow.fence(lanes.indices(), np.unique(lanes.select(block_of)), mbarriers=mbarriers)

    return run
