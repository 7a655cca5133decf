"""cp.async: partial copies, groups and waits."""

import numpy as np
import pytest
from small_ptx import kernel

from lab.emulator.api import launch
from lab.emulator.errors import UnsupportedInstruction

START = """
.shared .align 16 .b8 s[1024];
ld.param.u64 %rd0, [p]; mov.u32 %r0, %tid.x; mad.wide.u32 %rd1, %r0, 16, %rd0;
mov.u32 %r1, s; shl.b32 %r2, %r0, 4; add.u32 %r1, %r1, %r2;
"""
END = """
ld.param.u64 %rd2, [q]; mad.wide.u32 %rd2, %r0, 16, %rd2;
ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r1]; st.global.v4.u32 [%rd2], {%r4, %r5, %r6, %r7};
"""
WAIT = "cp.async.commit_group; cp.async.wait_group 0;"
DATA = np.arange(32 * 16, dtype=np.uint8)


def run(body, threads=32):
    out = np.zeros(32 * 16, np.uint8)
    return launch(kernel(START + body + END, ["p", "q"]), "k", 1, threads, [DATA, out]), out


def test_a_copy_arrives_after_the_wait():
    emulation, out = run("cp.async.cg.shared.global [%r1], [%rd1], 16;" + WAIT)
    assert emulation.clean
    np.testing.assert_array_equal(out, DATA)
    copies = emulation.counts.memory
    assert copies["global.copy"].bytes_used == copies["shared.copy"].bytes_used == 512
    assert "global.load" not in copies


@pytest.mark.parametrize("size", ["0", "5", "16", "%r0"])
def test_bytes_that_are_not_read_are_zero(size):
    emulation, out = run(f"cp.async.ca.shared.global [%r1], [%rd1], 16, {size};" + WAIT, 16)
    assert emulation.clean
    read = np.arange(16) if size == "%r0" else np.full(16, int(size))
    kept = np.arange(16) < read[:, None]
    np.testing.assert_array_equal(out.reshape(32, 16)[:16], np.where(kept, DATA.reshape(32, 16)[:16], 0))


@pytest.mark.parametrize(
    ("wait", "clean"),
    [
        ("", False),
        ("cp.async.wait_group 0;", False),  # the group was never committed
        ("cp.async.commit_group; cp.async.wait_group 1;", False),
        ("cp.async.wait_all;", True),
        ("cp.async.commit_group; cp.async.commit_group; cp.async.wait_group 1;", True),
    ],
)
def test_which_waits_are_enough(wait, clean):
    emulation, out = run("cp.async.ca.shared.global [%r1], [%rd1], 16;" + wait)
    assert {finding.kind for finding in emulation.findings} == (set() if clean else {"async-not-waited"})
    np.testing.assert_array_equal(out, DATA)
    if not clean:
        read, end = emulation.findings
        assert "cp.async into this memory has not been waited for" in read.detail
        assert (end.text[:11], read.other.line) == ("cp.async.ca", end.line)


def test_another_thread_also_needs_a_barrier():
    turn = "xor.b32 %r1, %r1, 16;"
    copy = "cp.async.ca.shared.global [%r1], [%rd1], 16; cp.async.wait_all;"
    unwaited, race = sorted(run(copy + turn)[0].findings, key=lambda finding: finding.kind)
    assert (race.kind, unwaited.kind) == ("shared-race", "async-not-waited")
    assert "has been waited for by its thread, with no barrier since" in unwaited.detail
    assert run(copy + "bar.sync 0;" + turn)[0].clean


@pytest.mark.parametrize(
    "instruction",
    [
        "cp.async.ca.global [%r1], [%rd1], 16;",
        "cp.async.ca.shared.global [%r1], [%rd1], 16, %p0;",
        "cp.async.mbarrier.arrive.global.b64 [%rd1];",
    ],
)
def test_unknown_forms(instruction):
    with pytest.raises(UnsupportedInstruction):
        run(instruction)


def test_a_thread_that_ends_with_copies_in_flight():
    copy = "cp.async.ca.shared.global [%r1], [%rd1], 16; cp.async.commit_group;"
    kinds = [finding.kind for finding in run(copy + "exit;")[0].findings]
    assert kinds == ["async-not-waited"]
    assert run(copy + "cp.async.wait_group 0; exit;")[0].clean


ARRIVE = """
.shared .align 16 .b8 s[512]; .shared .align 8 .b64 bar;
mov.u32 %r0, %tid.x; mov.u32 %r1, s; mov.u32 %r2, bar; shl.b32 %r3, %r0, 4; add.u32 %r3, %r1, %r3;
setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared.b64 [%r2], 32; bar.sync 0;
ld.param.u64 %rd0, [p]; mul.wide.u32 %rd1, %r0, 16; add.u64 %rd0, %rd0, %rd1;
cp.async.ca.shared.global [%r3], [%rd0], 16; HAND
xor.b32 %r4, %r3, 16; AGAIN: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0; @!%p1 bra AGAIN;
ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r4];
ld.param.u64 %rd0, [q]; add.u64 %rd0, %rd0, %rd1; st.global.v4.u32 [%rd0], {%r5, %r6, %r7, %r8};
"""


@pytest.mark.parametrize(
    ("hand", "clean"),
    [
        ("cp.async.mbarrier.arrive.noinc.shared.b64 [%r2];", True),
        ("cp.async.mbarrier.arrive.shared.b64 [%r2]; mbarrier.arrive.shared.b64 _, [%r2];", True),
        ("mbarrier.arrive.shared.b64 _, [%r2];", False),
    ],
)
def test_copies_that_an_mbarrier_awaits(hand, clean):
    held, out = np.arange(128, dtype=np.uint32), np.zeros(128, np.uint32)
    emulation = launch(kernel(ARRIVE.replace("HAND", hand), ["p", "q"]), "k", 1, 32, [held, out])
    assert emulation.clean == clean, emulation.findings
    np.testing.assert_array_equal(out.reshape(16, 2, 4), held.reshape(16, 2, 4)[:, ::-1])
    if not clean:
        assert "async-not-waited" in {finding.kind for finding in emulation.findings}
