"""Checks of accesses become findings with places and threads."""

import numpy as np
from small_ptx import kernel

from lab.emulator.batch import make_batch
from lab.emulator.findings import BatchFindings, Findings
from lab.emulator.lanes import Lanes
from lab.emulator.memory.cells import Cells
from lab.emulator.memory.clocks import BatchClocks, LaunchClocks
from lab.emulator.memory.memory import SHARED_WINDOW, Region
from lab.emulator.memory.order import PLAIN, order_of
from lab.emulator.memory.races import Conflict
from lab.emulator.memory.reach import Reach
from lab.emulator.memory.shadow import Shadow, SharedShadow
from lab.emulator.memory.watch import AccessWatch, never_same
from lab.emulator.program import Program
from lab.isa.ptx.module import read_ptx

BATCH = make_batch((5, 1, 1), (64, 1, 1), 3, 2)
ATOMIC = order_of([], update=True)
PROGRAM = Program(read_ptx(kernel("mov.u32 %r0, 1;\nmov.u32 %r0, 2;")), "k")


class Watched:
    def __init__(self, *, check=True):
        self.shared = Region("shared memory", "shared", SHARED_WINDOW, 64, row_count=2)
        self.shared.give_rows(BATCH.block_of)
        self.findings = Findings(PROGRAM)
        self.notes: dict[str, None] = {}
        clocks = BatchClocks(LaunchClocks(5, 64), BATCH) if check else None
        shadow = SharedShadow(64, 2, 4, clocks) if clocks else None
        findings = BatchFindings(self.findings, BATCH)
        self.watch = AccessWatch(BATCH, self.shared, shadow, clocks, findings, notes=self.notes)

    def at(self, offsets, *threads):
        lanes, offsets = Lanes(128, np.array(threads)), np.array(offsets, np.int64)
        return Reach(self.shared, Lanes(len(offsets)), lanes, offsets, self.shared.places(offsets, lanes.rows))

    def store(self, offsets, values, *threads, order=PLAIN):
        reach = self.at(offsets, *threads)
        bits = np.array(values, np.uint32)
        self.watch.store(0, reach, [bits], order)
        self.shared.store(reach.places, 4, [bits])

    def load(self, offsets, *threads):
        self.watch.load(1, self.at(offsets, *threads), 4)

    def kinds(self):
        return [finding.kind for finding in self.findings.all()]


def later(watch):
    return np.full(2, watch.arrival())


def test_a_race_names_both_sides():
    watched = Watched()
    watched.store([8, 12], [1, 2], 64, 65)
    watched.load([8, 12], 97, 96)
    (finding,) = watched.findings.all()
    assert (finding.kind, finding.count, finding.address) == ("shared-race", 2, 8)
    assert (finding.block, finding.thread) == ((4, 0, 0), (33, 0, 0))
    assert finding.other is not None
    assert (finding.other.kind, finding.other.line, finding.other.thread) == (
        "write",
        PROGRAM.code[0][1].line,
        (0, 0, 0),
    )


def test_equal_values_do_not_race():
    watched = Watched()
    watched.store([8], [5], 0)
    watched.store([8], [5], 40)
    assert watched.kinds() == []
    assert [note.partition(": ")[2] for note in watched.notes] == ["several threads write one value to shared memory"]
    watched.store([8], [6], 0)
    assert watched.kinds() == ["shared-race"]


def test_barriers_order_all_some_blocks_or_some_threads():
    for barrier, clean in (
        (lambda watch: watch.order_all(), True),
        (lambda watch: watch.order_blocks(np.array([0])), True),
        (lambda watch: watch.order_blocks(np.array([1])), False),
        (lambda watch: watch.order_threads(np.array([40]), np.array([0, 40]), later(watch)), True),
        (lambda watch: watch.order_threads(np.array([0]), np.array([0, 40]), later(watch)), False),
        (lambda watch: watch.order_threads(np.array([40]), np.array([40, 41]), later(watch)), False),
    ):
        watched = Watched()
        watched.store([8], [5], 0)
        barrier(watched.watch)
        watched.load([8], 40)
        assert (watched.kinds() == []) == clean


def test_colliding_lanes_are_a_race_unless_atomic():
    watched = Watched()
    watched.store([8, 8], [1, 2], 0, 1, order=ATOMIC)
    assert watched.kinds() == []
    watched.store([8, 8], [1, 2], 0, 1)
    assert watched.kinds() == ["shared-race"]


def test_atomics_read_what_must_be_initialised():
    watched = Watched()
    watched.watch.atomic(0, watched.at([4], 0), 4, ATOMIC, reads=True)
    assert watched.kinds() == ["uninitialised-read"]
    watched = Watched()
    watched.watch.atomic(0, watched.at([4], 0), 4, ATOMIC, reads=False)
    watched.watch.atomic(0, watched.at([4], 40), 4, ATOMIC, reads=True)
    assert watched.kinds() == []


def test_buffers_are_watched_by_their_own_shadow():
    watched = Watched()
    buffer = Region("args[0]", "global", 1 << 40, 64)
    buffer.shadow = Shadow(64, initialised=False)
    reach = Reach(buffer, Lanes(1), Lanes(128, np.array([3])), np.array([8]), np.array([8]))
    watched.watch.load(1, reach, 4)
    (finding,) = watched.findings.all()
    assert (finding.kind, finding.address) == ("uninitialised-read", (1 << 40) + 8)
    assert finding.detail == "nothing wrote this memory (args[0], offset 8)"


def test_nothing_is_checked_without_a_shadow():
    watched = Watched(check=False)
    watched.load([8], 0)
    watched.store([8], [1], 40)
    watched.watch.order_all()
    assert watched.kinds() == []
    assert watched.watch.bulk is None
    assert not never_same(np.arange(3)).any()


def test_what_threads_polled_last_and_who_wrote_there():
    watched = Watched()
    polling = order_of(["volatile"], update=False)
    watched.watch.synchronise(0, watched.at([8], 0), polling, reads=False, wrote=True)
    watched.load([8], 40)
    assert watched.watch.polled(1, np.array([40])) is None  # a plain load polls nothing
    watched.watch.load(1, watched.at([8, 12, 8], 40, 41, 0), 4, polling)
    polled = watched.watch.polled(1, np.array([40]))
    assert polled is not None
    *told, other = polled
    assert told == [40, "shared memory, offset 8", 8]
    assert (other.kind, other.position, other.thread) == ("write", 0, 192)
    assert watched.watch.polled(1, np.array([41]))[1:] == ("shared memory, offset 12", 12, None)
    assert watched.watch.polled(1, np.array([0]))[3] is None  # it was that thread itself
    assert watched.watch.polled(1, np.array([1])) is None
    buffer = Region("args[0]", "global", 1 << 40, 64)
    watched.watch.load(1, Reach(buffer, Lanes(1), Lanes(128, np.array([3])), np.array([8]), np.array([8])), 4, polling)
    assert watched.watch.polled(1, np.array([3])) == (3, "args[0], offset 8", (1 << 40) + 8, None)


def test_a_finding_counts_each_thread_once_and_begins_with_the_first_conflict():
    watched = Watched()
    conflict = Conflict("shared-race", np.array([2, 0, 2]), np.array([200, 1, 1]), np.array([0, 1, 1]), "write", "why")
    watched.watch.report_shared(1, np.array([5, 6, 7]), np.array([4, 8, 12]), [conflict])
    (finding,) = watched.findings.all()
    assert (finding.count, finding.thread, finding.address) == (2, (7, 0, 0), 12)
    assert finding.detail == "why (shared memory, offset 12)"
    assert finding.other.line == PROGRAM.code[0][1].line


class WatchedBuffer(Watched):
    """A buffer of 64 bytes in global memory, at 1 << 40."""

    def __init__(self):
        super().__init__()
        self.buffer = Region("args[0]", "global", 1 << 40, 64)
        self.buffer.cells = Cells(64, 1, 4)

    def at(self, offsets, *threads):
        offsets = np.array(offsets, np.int64)
        return Reach(self.buffer, Lanes(len(offsets)), Lanes(128, np.array(threads)), offsets, offsets)

    def store(self, offsets, values, *threads, order=PLAIN):
        reach, bits = self.at(offsets, *threads), np.array(values, np.uint32)
        self.watch.store(0, reach, [bits], order)
        self.buffer.store(reach.places, 4, [bits])


def test_blocks_race_in_a_buffer():
    watched = WatchedBuffer()
    watched.store([8, 12], [1, 2], 0, 1)
    watched.load([12, 16], 64, 65)
    (finding,) = watched.findings.all()
    assert (finding.kind, finding.count, finding.address) == ("global-race", 1, (1 << 40) + 12)
    assert (finding.block, finding.thread) == ((4, 0, 0), (0, 0, 0))
    assert finding.detail.endswith("(args[0], offset 12)")


def test_what_a_bulk_copy_writes_arrives_when_its_thread_has_waited():
    watched = WatchedBuffer()
    arrive = watched.watch.bulk_store(0, 5, watched.buffer, np.array([0, 32]), 16, update=False)
    assert arrive is not None
    watched.load([12], 5)
    assert watched.kinds() == ["async-not-waited"]
    arrive()
    watched = WatchedBuffer()
    arrive = watched.watch.bulk_store(0, 5, watched.buffer, np.array([0, 32]), 16, update=False)
    assert arrive is not None
    watched.load([16, 28, 48], 5, 6, 7)  # beside its rows
    assert watched.kinds() == []
    arrive()
    watched.load([44], 5)
    assert watched.kinds() == []
    watched.load([44], 64)
    assert watched.kinds() == ["global-race"]


def fetch(watched, thread=70):
    place, rows = ("unit", 0, 1), np.array([8, 40])
    watched.watch.bulk_fetch(1, thread, watched.buffer, rows, 8, place=place, phase=0)


def test_a_bulk_copy_of_what_threads_wrote_needs_a_fence():
    for written, fenced, kinds in ((12, False, True), (12, True, False), (44, False, True), (16, False, False)):
        watched = WatchedBuffer()
        watched.store([written], [5], 70)
        if fenced:
            watched.watch.clocks.fence_proxies(np.array([70]))
        fetch(watched)
        assert watched.kinds() == (["missing-proxy-fence"] if kinds else [])
        if kinds:
            (finding,) = watched.findings.all()
            assert (finding.address, finding.thread) == ((1 << 40) + written, (6, 0, 0))
            assert finding.other is not None
            assert (finding.other.kind, finding.other.line) == ("write", PROGRAM.code[0][1].line)


def test_a_write_over_what_a_bulk_copy_may_still_read():
    watched = WatchedBuffer()
    fetch(watched)
    watched.store([44], [5], 70)
    assert watched.kinds() != []
    watched = WatchedBuffer()
    fetch(watched)
    watched.store([16], [5], 70)
    assert watched.kinds() == []


def test_a_buffer_that_is_only_read():
    watched = WatchedBuffer()
    watched.buffer.readonly = True
    watched.load([8], 3)
    assert watched.kinds() == []
    watched.store([8, 12], [1, 1], 3, 4)
    (finding,) = watched.findings.all()
    assert (finding.kind, finding.count, finding.address) == ("undeclared-write", 2, (1 << 40) + 8)
    assert "(offset 8)" in finding.detail
    assert not Region("args[0]", "global", 1 << 40, 64).readonly


def test_stores_of_values_that_are_there_already():
    watched = WatchedBuffer()
    watched.store([8], [5], 0)
    watched.store([8], [5], 64)
    assert (watched.kinds(), len(watched.notes)) == ([], 1)
    watched.store([8], [6], 0)
    assert watched.kinds() == ["global-race"]


def test_atomics_in_a_buffer_race_with_plain_accesses_alone():
    watched = WatchedBuffer()
    watched.watch.atomic(0, watched.at([8], 0), 4, ATOMIC, reads=True)
    watched.watch.atomic(1, watched.at([8], 64), 4, ATOMIC, reads=True)
    assert watched.kinds() == []
    watched.load([8], 65)
    (finding,) = watched.findings.all()
    assert (finding.kind, finding.other.kind) == ("global-race", "atomic")
