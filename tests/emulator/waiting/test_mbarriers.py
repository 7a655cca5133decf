"""Phases of mbarriers, unit by unit; whole kernels are in operations/test_mbarrier.py and test_bulk.py."""

import numpy as np
import pytest
from small_ptx import kernel

from lab.emulator.api import launch
from lab.emulator.batch import make_batch
from lab.emulator.binding import Storage
from lab.emulator.findings import BatchFindings, Findings
from lab.emulator.lanes import Lanes
from lab.emulator.memory.clocks import BatchClocks, LaunchClocks
from lab.emulator.memory.memory import SHARED_WINDOW, Region
from lab.emulator.memory.shadow import SharedShadow
from lab.emulator.memory.watch import AccessWatch
from lab.emulator.opcodes import Opcode, UnknownForm
from lab.emulator.pool import Pool
from lab.emulator.program import Program
from lab.emulator.registers import RegisterFile
from lab.emulator.special import StepClock
from lab.emulator.waiting.mbarriers import MOST_ARRIVALS, MOST_BYTES, Mbarriers, take_space
from lab.isa.ptx.module import read_ptx

AFTER = ((), 0)
WAIT, POLL = 0, 1


class Bench:
    """Two blocks of two warps; mbarriers at the offset in %r1."""

    def __init__(self, *, check=True):
        body = "\n".join(f"mbarrier.{wait}.parity.shared.b64 %p0, [%r1], %r2;" for wait in ("try_wait", "test_wait"))
        program = Program(read_ptx(kernel(body)), "k")
        self.batch = make_batch((5, 1, 1), (64, 1, 1), 3, 2)
        self.findings = Findings(program)
        findings = BatchFindings(self.findings, self.batch)
        self.registers = RegisterFile(program, self.batch.threads)
        storage = Storage(program, self.batch, self.registers, {}, {}, StepClock())
        shared = Region("shared memory", "shared", SHARED_WINDOW, 64, row_count=2)
        shared.give_rows(self.batch.block_of)
        clocks = BatchClocks(LaunchClocks(5, 64), self.batch) if check else None
        shadow = SharedShadow(shared.stride, 2, 4, clocks, bulk=True) if clocks else None
        self.watch = AccessWatch(self.batch, shared, shadow, clocks, findings, notes={})
        self.pool = Pool(self.batch, [0] * len(program.blocks), lambda _stack, _lanes: None)
        self.mbarriers = Mbarriers(storage, self.pool, shared, self.watch, findings)

    def lanes(self, *threads):
        return Lanes(self.batch.threads, np.array(threads))

    def init(self, count, *threads, offset=8):
        lanes = self.lanes(*threads)
        self.mbarriers.init(0, np.full(lanes.count, offset), np.array([count]), lanes)
        self.watch.order_all()

    def arrive(self, *threads, times=1, expected=0, offset=8):
        lanes = self.lanes(*threads)
        named = self.mbarriers.name(0, np.full(lanes.count, offset), lanes)
        count = len(named.threads)
        self.mbarriers.arrive(0, named, np.full(count, times), np.full(count, expected))
        return self.mbarriers.phases(named).tolist()

    def wait(self, parity, *threads, position=WAIT, offset=8):
        lanes = self.lanes(*threads)
        for name, value in (("%r1", offset), ("%r2", parity)):
            self.register(name)[lanes.rows] = value
        self.mbarriers.wait(position, AFTER, lanes)

    def register(self, name):
        found = self.registers.array(0, name)
        assert found is not None
        return found

    def gone_on(self):
        return self.pool.take()[1].indices().tolist() if self.pool else []

    def kinds(self):
        return [finding.kind for finding in self.findings.all()]


@pytest.mark.parametrize("check", [True, False])
def test_a_phase_is_complete_after_its_arrivals(check):
    bench = Bench(check=check)
    bench.init(3, 0)
    bench.wait(0, 40, 41)
    assert bench.arrive(0, 1) == [0, 0]
    assert bench.gone_on() == []
    assert bench.arrive(2) == [1]
    assert bench.mbarriers.flipped
    bench.mbarriers.release()
    assert bench.gone_on() == [40, 41]
    assert bench.register("%p0")[[40, 41]].all()
    assert bench.kinds() == []


def test_the_phase_before_the_first_counts_as_complete():
    bench = Bench()
    bench.init(1, 0)
    bench.wait(1, 3)
    assert bench.gone_on() == [3]


def test_bytes_are_awaited_too():
    bench = Bench()
    bench.init(1, 0)
    bench.wait(0, 5)
    bench.arrive(0, expected=48)
    assert bench.mbarriers.owe_less(0, 0, 0, 0, 16) == 0
    assert not bench.mbarriers.flipped
    assert bench.mbarriers.owe_less(0, 0, 0, 0, 32) == 0
    assert bench.mbarriers.flipped


def test_blocks_have_their_own_mbarriers_at_one_offset():
    bench = Bench()
    bench.init(1, 0, 64)
    bench.wait(0, 1, 65)
    bench.arrive(64)
    bench.mbarriers.release()
    assert bench.gone_on() == [65]


def test_many_arrivals_run_through_several_phases():
    bench = Bench()
    bench.init(2, 0)
    assert bench.arrive(0, times=5) == [2]
    assert bench.arrive(0) == [3]


@pytest.mark.parametrize("count", [0, MOST_ARRIVALS + 1])
def test_counts_that_no_mbarrier_has(count):
    bench = Bench()
    bench.init(count, 0)
    assert bench.kinds() == ["mbarrier-misuse"]


@pytest.mark.parametrize(
    ("offset", "kind"), [(4, "misaligned"), (64, "out-of-bounds"), (-8, "out-of-bounds"), (16, "mbarrier-misuse")]
)
def test_addresses_without_an_mbarrier(offset, kind):
    bench = Bench()
    bench.init(1, 0)
    assert bench.arrive(1, offset=offset) == []
    assert bench.kinds() == [kind]


def test_threads_that_name_no_mbarrier_do_not_wait():
    bench = Bench()
    bench.init(1, 0)
    bench.wait(0, 7, offset=16)
    assert bench.gone_on() == [7]


def test_an_mbarrier_must_not_be_initialised_twice():
    bench = Bench()
    bench.init(1, 0)
    bench.init(1, 0)
    assert "initialised already" in bench.findings.all()[0].detail


def test_an_mbarrier_that_threads_wait_for_must_not_be_invalidated():
    bench = Bench()
    bench.init(1, 0)
    bench.wait(0, 9)
    bench.mbarriers.inval(1, np.array([8]), bench.lanes(0))
    (finding,) = bench.findings.all()
    assert "still wait" in finding.detail


def test_an_mbarrier_counts_so_many_bytes():
    bench = Bench()
    bench.init(1, 0)
    bench.arrive(0, times=0, expected=MOST_BYTES)
    assert bench.kinds() == []
    bench.arrive(0, times=0, expected=1)
    (finding,) = bench.findings.all()
    assert "counts up to" in finding.detail


def test_polling_threads_go_on_without_success_once_for_each_change():
    bench = Bench()
    bench.init(2, 0)
    bench.wait(0, 3, position=POLL)
    assert bench.mbarriers.break_deadlock()
    assert bench.gone_on() == [3]
    assert not bench.register("%p0")[3]
    bench.wait(0, 3, position=POLL)
    assert bench.mbarriers.break_deadlock()  # nothing has changed: it would poll forever
    assert bench.kinds() == ["mbarrier-deadlock"]
    assert not bench.pool.alive[3]
    assert not bench.mbarriers.break_deadlock()


def test_only_shared_memory_holds_mbarriers():
    take_space(Opcode("mbarrier.shared::cta.b64"))
    with pytest.raises(UnknownForm):
        take_space(Opcode("mbarrier.b64"))


def test_mbarriers_at_several_offsets_are_told_apart():
    bench = Bench()
    for i, offset in enumerate((56, 0, 24)):
        bench.init(i + 1, 0, offset=offset)
    assert bench.arrive(5, offset=0) == [0]
    assert bench.arrive(5, offset=24) == [0]
    assert bench.arrive(5, offset=56) == [1]
    assert bench.arrive(6, offset=0) == [1]
    assert bench.arrive(6, 7, offset=24) == [1, 1]
    bench.init(2, 64, offset=24)  # of the other block
    assert bench.arrive(100, offset=24) == [0]
    assert bench.arrive(5, offset=24) == [1]
    assert bench.kinds() == []


@pytest.mark.parametrize(
    ("offset", "kind", "lane"), [(12, "misaligned", 1), (64, "out-of-bounds", 0), (57, "misaligned", 1)]
)
def test_faults_of_addresses_name_the_first_one(offset, kind, lane):
    bench = Bench()
    bench.init(1, 0)
    lanes = bench.lanes(*((3, 64) if lane else (64, 3)))
    offsets = np.array([8, offset])[:: 1 if lane else -1]
    bench.mbarriers.name(0, offsets, lanes)
    finding = next(one for one in bench.findings.all() if one.kind == kind)
    assert (finding.address, finding.block, finding.count) == (offset, (4, 0, 0), 1)


@pytest.mark.parametrize("count", [1, MOST_ARRIVALS])
def test_counts_at_the_ends(count):
    bench = Bench()
    bench.init(count, 0)
    assert bench.kinds() == []
    assert bench.arrive(0, times=count) == [1]


def test_an_mbarrier_that_others_may_still_use_must_not_be_invalidated():
    def ended(*, ordered):
        bench = Bench()
        bench.init(2, 0)
        bench.arrive(40)
        if ordered:
            bench.watch.order_blocks(np.array([0]))
        bench.mbarriers.inval(1, np.array([8]), bench.lanes(0))
        assert bench.arrive(0) == []  # its mbarrier was invalidated
        return [finding.detail for finding in bench.findings.all()][: -1 if ordered else None]

    assert ended(ordered=True) == []
    assert "nothing orders that before its end" in ended(ordered=False)[0]


def test_after_its_end_an_mbarrier_may_be_initialised_again():
    bench = Bench()
    bench.init(1, 0)
    assert bench.arrive(0) == [1]
    bench.watch.order_all()
    bench.mbarriers.inval(1, np.array([8]), bench.lanes(0))
    bench.watch.order_all()
    bench.init(1, 0)
    bench.wait(0, 3)
    assert bench.gone_on() == []  # it begins with its first phase
    assert bench.arrive(0) == [1]
    assert bench.kinds() == []


def test_threads_wait_for_the_phase_with_their_parity():
    bench = Bench()
    bench.init(1, 0)
    bench.arrive(0)
    bench.wait(1, 2, 3)
    assert bench.gone_on() == []  # the second phase is not complete
    bench.wait(0, 4)
    assert bench.gone_on() == [4]
    bench.arrive(0)
    bench.mbarriers.release()
    assert bench.gone_on() == [2, 3]


def test_a_poll_for_arrivals_that_come_later_holds_up_no_warp():
    body = """.shared .align 8 .b64 full; mov.u32 %r1, %tid.x; setp.ne.u32 %p0, %r1, 0; @%p0 bra MEET;
    mbarrier.init.shared.b64 [full], 32; mbarrier.test_wait.parity.shared.b64 %p1, [full], 0;
    MEET: bar.warp.sync 0xffffffff; mbarrier.arrive.shared.b64 _, [full]; bar.warp.sync 0xffffffff;"""
    assert launch(kernel(body), "k", 1, 32, []).findings == ()
