"""Address resolution: the memory region and offset of each access."""

import numpy as np
import pytest
from small_ptx import kernel

from lab.emulator.api import launch
from lab.emulator.batch import make_batch
from lab.emulator.findings import BatchFindings, Findings
from lab.emulator.lanes import Lanes
from lab.emulator.memory.memory import LOCAL_WINDOW, SHARED_SEGMENT, SHARED_WINDOW, AddressSpace, Region
from lab.emulator.memory.reach import AddressChecker, Attempt
from lab.emulator.program import Program
from lab.isa.ptx.module import read_ptx

BATCH = make_batch((5, 1, 1), (32, 1, 1), 3, 2)
PROGRAM = Program(read_ptx(kernel("mov.u32 %r0, 1;")), "k")


class Place:
    def __init__(self):
        self.space, self.findings = AddressSpace(), Findings(PROGRAM)
        self.buffer = self.space.allocate("args[0]", "global", 100)
        self.constant = self.space.allocate("table", "const", 16)
        self.shared = Region("shared memory", "shared", SHARED_WINDOW, 64, row_count=2)
        self.shared.give_rows(BATCH.block_of)
        local, frame = (Region(name, name, LOCAL_WINDOW, 8, row_count=64) for name in ("local", "param"))
        self.space.place(SHARED_SEGMENT, self.shared)
        self.checker = AddressChecker(self.space, self.shared, local, frame, BatchFindings(self.findings, BATCH))

    def reach(self, space, addresses, lanes, width=4, verb="load"):
        attempt = Attempt(0, np.array(addresses, np.int64), width, lanes, verb)
        return list(self.checker.reach(attempt, space))

    def kinds(self):
        return [(finding.kind, finding.count) for finding in self.findings.all()]


SOME = Lanes(64, np.array([1, 33, 34]))


def test_shared_offsets_become_places_in_the_blocks_row():
    place = Place()
    (found,) = place.reach("shared", [0, 4, 60], SOME)
    assert found.region is place.shared
    assert found.part.whole
    assert found.lanes is SOME
    assert found.places.tolist() == [0, 68, 124]
    assert place.kinds() == []


def test_an_access_is_split_by_region():
    place = Place()
    found = place.reach("generic", [place.buffer.base, SHARED_WINDOW + 8, place.buffer.base + 96], SOME)
    by_region = {part.region.name: part for part in found}
    assert by_region["args[0]"].offsets.tolist() == [0, 96]
    assert by_region["args[0]"].lanes.indices().tolist() == [1, 34]
    assert by_region["args[0]"].part.indices().tolist() == [0, 2]
    assert by_region["shared memory"].places.tolist() == [72]
    assert place.kinds() == []


@pytest.mark.parametrize(
    ("offsets", "width", "kinds", "good"),
    [
        ([0, 97, 4], 4, [("out-of-bounds", 1), ("misaligned", 1)], [0, 4]),
        ([0, 100, -4], 4, [("out-of-bounds", 2)], [0]),
        ([2, 4, 6], 4, [("misaligned", 2)], [4]),
        ([2, 6, 10], 4, [("misaligned", 3)], []),
        ([99, 0, 50], 1, [], [99, 0, 50]),
    ],
)
def test_bad_offsets_become_findings(offsets, width, kinds, good):
    place = Place()
    found = place.reach("global", [place.buffer.base + offset for offset in offsets], SOME, width)
    reached = [part.offsets.tolist() for part in found]
    if -4 in offsets:  # below the first byte is another segment
        kinds = [("out-of-bounds", 2)]
    assert reached == ([good] if good else [])
    assert place.kinds() == kinds


def test_findings_name_the_first_thread_at_fault():
    place = Place()
    place.reach("shared", [0, 4, 64], SOME)
    (finding,) = place.findings.all()
    assert (finding.block, finding.thread, finding.address) == ((4, 0, 0), (2, 0, 0), 64)
    assert finding.detail == "load of 4 bytes at offset 64 of shared memory (64 bytes)"


@pytest.mark.parametrize(("space", "reached"), [("const", True), ("global", True), ("generic", True), ("local", False)])
def test_which_spaces_reach_constants(space, reached):
    place = Place()
    found = place.reach(space, [place.constant.base] * 3, SOME)
    assert bool(found) == reached
    assert bool(place.kinds()) != reached


def test_unallocated_addresses_and_empty_accesses():
    place = Place()
    assert place.reach("global", [5 << 40] * 3, SOME) == []
    assert place.kinds() == [("out-of-bounds", 3)]
    assert place.reach("global", [], Lanes(64, np.zeros(0, np.int64))) == []


@pytest.mark.parametrize("space", ["generic", "global"])
@pytest.mark.parametrize("verb", ["store", "atomic"])
def test_constant_memory_is_only_read(space, verb):
    place = Place()
    addresses = [place.constant.base, place.buffer.base, place.constant.base + 8]
    (found,) = place.reach(space, addresses, SOME, verb=verb)
    assert (found.region, found.offsets.tolist()) == (place.buffer, [0])
    assert place.kinds() == [("read-only", 2)]
    assert len(place.reach(space, addresses, SOME)) == 2


@pytest.mark.parametrize("engine", ["interpreted", "compiled"])
@pytest.mark.parametrize(
    "instruction", ["st.u32 [%rd0], 1;", "red.global.add.u32 [%rd0], 1;", "st.global.u32 [%rd0], 1;"]
)
def test_a_kernel_that_writes_constant_memory(engine, instruction):
    body = f"mov.u64 %rd0, table; cvta.const.u64 %rd0, %rd0; {instruction} ld.const.u32 %r1, [table];"
    emulation = launch(kernel(body, module=".const .align 4 .b8 table[4];"), "k", 1, 32, [], engine=engine)
    assert [(finding.kind, finding.text.split()[0]) for finding in emulation.findings] == [
        ("read-only", instruction.split()[0])
    ]


def test_the_address_of_a_fault_is_that_of_the_first_thread_at_fault():
    place = Place()
    place.reach("global", [place.buffer.base + 2, place.buffer.base, place.buffer.base + 6], SOME)
    (finding,) = place.findings.all()
    assert (finding.block, finding.thread, finding.address) == ((3, 0, 0), (1, 0, 0), place.buffer.base + 2)
