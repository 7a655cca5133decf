"""Loads and stores of one batch."""

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from small_ptx import kernel

from lab.emulator.api import launch
from lab.emulator.batch import make_batch
from lab.emulator.findings import BatchFindings, Findings
from lab.emulator.lanes import Lanes
from lab.emulator.memory.access import MemoryUnit
from lab.emulator.memory.memory import SHARED_WINDOW, AddressSpace
from lab.emulator.memory.peers import peer_address
from lab.emulator.memory.samples import AccessSamples
from lab.emulator.program import Program
from lab.emulator.progress import MemoryProgress
from lab.emulator.tally import Counters
from lab.hardware.memory import Copy
from lab.isa.ptx.module import read_ptx

ALL, SOME = Lanes(64), Lanes(64, np.array([2, 40]))
BODY = ".local .align 8 .b8 mine[8]; st.local.u32 [mine], %r0;"


class Unit:
    def __init__(self, **options):
        program = Program(read_ptx(kernel(BODY)), "k")
        batch = make_batch((4, 1, 1), (32, 1, 1), 2, 2, cluster=(2, 1, 1))
        self.space, self.findings, self.counters = AddressSpace(), Findings(program), Counters(program)
        self.counters.visit(0, ALL)
        self.notes: dict[str, None] = {}
        self.buffer = self.space.allocate("args[0]", "global", 256)
        self.memory = MemoryUnit(
            program,
            batch,
            self.space,
            BatchFindings(self.findings, batch),
            shared_bytes=256,
            counters=self.counters,
            notes=self.notes,
            clocks=None,
            progress=MemoryProgress(),
            extents={},
            **options,
        )

    def traffic(self):
        return self.counters.lines()[0].memory

    def kinds(self):
        return [finding.kind for finding in self.findings.all()]


def words(*values):
    return np.array(values, np.uint32)


def test_each_block_has_its_shared_memory_and_each_thread_its_local():
    unit = Unit()
    for space in ("shared", "local"):
        unit.memory.store(0, space, np.array([4, 4]), [words(7, 8)], SOME)
        (found,) = unit.memory.load(0, space, np.array([4, 4]), SOME, width=4)
        assert found.tolist() == [7, 8]
    (found,) = unit.memory.load(0, "shared", np.full(64, 4), ALL, width=4)
    assert found.tolist() == [7] * 32 + [8] * 32
    (found,) = unit.memory.load(0, "local", np.full(64, 4), ALL, width=4)
    assert np.flatnonzero(found).tolist() == [2, 40]


def test_refused_lanes_load_zero_and_store_nothing():
    unit = Unit()
    addresses = unit.buffer.base + np.array([8, 256])
    unit.memory.store(0, "global", addresses, [words(5, 6)], SOME)
    (found,) = unit.memory.load(0, "global", addresses, SOME, width=4)
    assert found.tolist() == [5, 0]
    assert unit.kinds() == ["out-of-bounds"]
    assert unit.buffer.data.view(np.uint32).sum() == 5


def test_a_load_from_two_buffers():
    unit = Unit()
    other = unit.space.allocate("args[1]", "global", 16)
    unit.buffer.data[:] = 1
    other.data[:] = 2
    low, high = unit.memory.load(0, "generic", np.array([other.base, unit.buffer.base]), SOME, width=2, vector=2)
    assert low.tolist() == high.tolist() == [0x0202, 0x0101]


def test_one_value_is_stored_for_all():
    unit = Unit()
    unit.memory.store(0, "shared", 4 * np.arange(64) % 128, [words(9)], ALL)
    assert unit.memory.shared.data.view(np.uint32).reshape(2, 64)[:, :32].tolist() == [[9] * 32] * 2


@pytest.mark.parametrize(("counted", "requests"), [(True, 2), (False, 0)])
def test_traffic_is_counted_once(counted, requests):
    unit = Unit()
    unit.memory.load(0, "global", unit.buffer.base + 4 * np.arange(64), ALL, width=4, counted=counted)
    assert sum(count.requests for count in unit.traffic().values()) == requests


def test_copies_are_counted_as_copies():
    unit = Unit()
    on = np.ones(2, bool)
    unit.memory.store(0, "shared", np.array([0, 16]), [words(1, 2)], SOME, group=np.ones(2, np.int32))
    assert unit.traffic() == {}
    unit.memory.count_copy(0, Copy(np.array([0, 16]), unit.buffer.base + np.array([0, 16]), 16, on, on), SOME)
    assert {key: count.bytes_used for key, count in unit.traffic().items()} == {"shared.copy": 32, "global.copy": 32}


def test_a_peers_shared_memory():
    unit = Unit()
    unit.memory.store(0, "shared", np.array([8, 8]), [words(5, 6)], SOME)
    addresses = peer_address(words(8, 8), words(1, 0)).astype(np.int64) | SHARED_WINDOW
    (found,) = unit.memory.load(0, "generic", addresses, SOME, width=4)
    assert found.tolist() == [6, 5]
    (found,) = unit.memory.load(0, "generic", addresses + 2, SOME, width=4)
    assert (found.tolist(), unit.kinds()) == ([0, 0], ["misaligned"])


class Trace:
    """Takes down the accesses to global memory."""

    def __init__(self):
        self.noted = []
        self.samples = AccessSamples()

    def note(self, verb, region, offsets, *, width, warps, blocks):
        self.noted.append((verb, region.name, offsets.tolist(), width, warps.tolist(), blocks.tolist()))


def test_a_copy_is_traced_as_a_load_by_the_lanes_that_read():
    trace = Trace()
    unit = Unit(trace=cast("Any", trace))
    sources = np.array([5 << 40, unit.buffer.base + 16])
    copy = Copy(np.array([0, 16]), sources, 16, np.ones(2, bool), np.array([False, True]))
    unit.memory.count_copy(0, copy, SOME)
    assert trace.noted == [("load", "args[0]", [16], 16, [1], [1])]
    nothing = replace(copy, fetched=np.zeros(2, bool))
    unit.memory.count_copy(0, nothing, SOME)
    assert len(trace.noted) == 1


def test_accesses_to_global_memory_are_traced():
    trace = Trace()
    unit = Unit(trace=cast("Any", trace))
    unit.memory.store(0, "global", unit.buffer.base + np.array([4, 8]), [words(1, 2)], SOME)
    unit.memory.load(0, "shared", np.array([4, 8]), SOME, width=4)
    unit.memory.load(0, "generic", unit.buffer.base + np.array([8, 0]), SOME, width=4)
    assert trace.noted == [
        ("store", "args[0]", [4, 8], 4, [0, 1], [0, 1]),
        ("load", "args[0]", [8, 0], 4, [0, 1], [0, 1]),
    ]


POLLED = "A: ld.volatile.global.u32 %r0, [%rd0]; setp.eq.u32 %p0, %r0, 0; @%p0 bra A;"
LOOKED_AT = "ld.volatile.global.u32 %r0, [%rd0]; setp.eq.u32 %p0, %r0, 0; @%p0 bra A; mov.u32 %r1, 0; A:"
STORED = "ld.volatile.global.u32 %r0, [%rd0]; st.global.u32 [%rd1], %r0;"


@pytest.mark.parametrize(
    ("body", "spread", "races"),
    [(POLLED, 4, False), (POLLED, 0, False), (LOOKED_AT, 0, False), (LOOKED_AT, 4, True), (STORED, 0, True)],
)
def test_a_volatile_read_is_of_a_flag_by_its_use_and_its_places(body, spread, races):
    """The other block writes there with nothing in between."""
    text = f"""ld.param.u64 %rd0, [p]; add.u64 %rd1, %rd0, 1024; mov.u32 %r5, %ctaid.x; mov.u32 %r6, %tid.x;
        mad.wide.u32 %rd0, %r6, {spread}, %rd0; setp.eq.u32 %p1, %r5, 0; @%p1 bra W; {body} bra E;
        W: st.volatile.global.u32 [%rd0], 1; E:"""
    emulation = launch(kernel(text, ["p"]), "k", 2, 32, [np.zeros(512, np.uint32)])
    kinds = {finding.kind for finding in emulation.findings}
    assert ("global-race" in kinds) is races
