"""The time limit of a launch, by a clock that advances with each look at it."""

from itertools import count

import numpy as np
import pytest
from small_ptx import kernel

from lab.emulator.api import launch
from lab.emulator.compiled import execution
from lab.emulator.monitor import LaunchMonitor

ENDLESS = "ld.param.u64 %rd1, [out]; L: add.u32 %r1, %r1, 1; st.global.u32 [%rd1], %r1; {barrier} bra L;"


def monitored(body, limit_s, block=32, **options):
    """Execute a kernel; a look at the clock takes a second."""
    monitor = LaunchMonitor(limit_s, count().__next__)
    ptx = kernel(f"mov.u32 %r1, 0; {body}", ["out"])
    return launch(ptx, "k", 1, block, [np.zeros(64, np.uint32)], monitor=monitor, **options), monitor


def test_a_loop_that_changes_memory_for_ever_is_stopped_at_the_limit():
    emulation, monitor = monitored(ENDLESS.format(barrier=""), 1000)
    finding = emulation.findings[-1]
    assert (finding.kind, finding.text) == ("unfinished", "add.u32 %r1, %r1, 1")
    assert finding.detail == "still running after 1000 s, the time limit of the launch"
    assert emulation.steps == monitor.steps < 10_000
    assert (emulation.finished, monitor.finished, monitor.blocks) == (0, 0, 1)


def test_two_entries_into_a_cycle_do_not_hide_it_from_the_limit():
    body = """mov.u32 %r2, %tid.x; setp.gt.u32 %p1, %r2, 15; @%p1 bra B;
        A: add.u32 %r1, %r1, 1; setp.eq.u32 %p2, %r1, 0; @%p2 bra E;
        B: add.u32 %r1, %r1, 3; ld.param.u64 %rd1, [out]; st.global.u32 [%rd1], %r1; bra A; E:"""
    emulation, _ = monitored(body, 1000, check=False)
    assert [finding.kind for finding in emulation.findings] == ["unfinished"]


@pytest.mark.parametrize("barrier", ["bar.sync 0;", ""])
def test_machine_code_leaves_time_to_say_where_threads_are(monkeypatch, barrier):
    """Also where each round ends at a barrier, behind which rounds are counted anew."""
    monkeypatch.setattr(execution, "_LOOK_S", 0.01)
    emulation, monitor = monitored(ENDLESS.format(barrier=barrier), 20, block=64, check=False, engine="compiled")
    assert emulation.not_compiled == "not finished in time"
    assert (emulation.engine, monitor.engine) == ("interpreted", "interpreter")
    assert [finding.kind for finding in emulation.findings] == ["unfinished"]


def test_a_launch_within_its_limit_is_as_without():
    body = "ld.param.u64 %rd1, [out]; st.global.u32 [%rd1], 5;"
    for engine in ("interpreted", "compiled"):
        emulation, monitor = monitored(body, 1000, check=False, engine=engine)
        assert (emulation.clean, emulation.engine, monitor.finished) == (True, engine, 1)


def test_faults_are_known_while_the_launch_runs():
    body = "ld.param.u64 %rd1, [out]; ld.global.u32 %r2, [%rd1+256];"
    _, monitor = monitored(body, 1000)
    assert [finding.kind for finding in monitor.findings()] == ["out-of-bounds"]
