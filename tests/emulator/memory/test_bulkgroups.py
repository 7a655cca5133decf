"""Bulk copies (cp.async.bulk) from shared to global memory, and reductions there."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from small_ptx import kernel

from lab.emulator.api import launch
from lab.emulator.errors import UnsupportedInstruction
from lab.emulator.lanes import Lanes
from lab.emulator.memory.bulkgroups import BulkGroups

DECLARED = ".shared .align 128 .b8 tile[128];"
FILL = """
mov.u32 %r0, %tid.x; mov.u32 %r1, tile; shl.b32 %r2, %r0, 2; add.u32 %r3, %r1, %r2; setp.eq.u32 %p0, %r0, 0;
ld.param.u64 %rd0, [in]; mul.wide.u32 %rd1, %r0, 4; add.u64 %rd0, %rd0, %rd1; ld.global.b32 %r4, [%rd0];
st.shared.b32 [%r3], %r4; fence.proxy.async; bar.sync 0; ld.param.u64 %rd2, [out];
"""
COPY = "@%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], 128;"
END = "@%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group 0;"


def run(copy, held, before, end=END):
    out = before.copy()
    body = FILL + copy + end
    emulation = launch(kernel(body, ["in", "out"], DECLARED), "k", 1, 32, [held, out])
    return emulation, out


def test_bytes_are_copied_and_counted():
    held = np.arange(32, dtype=np.uint32)
    emulation, out = run(COPY, held, np.zeros(32, np.uint32))
    assert emulation.clean, emulation.findings
    np.testing.assert_array_equal(out, held)
    assert emulation.counts.memory["global.copy"].bytes_used == 128


@pytest.mark.parametrize(
    ("word", "dtype", "function"),
    [
        ("add.u32", np.uint32, np.add),
        ("min.s32", np.int32, np.minimum),
        ("max.u64", np.uint64, np.maximum),
        ("xor.b32", np.uint32, np.bitwise_xor),
        ("add.f32", np.float32, np.add),
        ("add.f64", np.float64, np.add),
        ("add.noftz.f16", np.float16, np.add),
    ],
)
def test_reductions(word, dtype, function):
    random = np.random.default_rng(1)
    held, before = (random.integers(0, 99, 128 // np.dtype(dtype).itemsize).astype(dtype) for _ in range(2))
    copy = COPY.replace("cp.async", "cp.reduce.async").replace("bulk_group", f"bulk_group.{word}")
    emulation, out = run(copy, held.view(np.uint32), before)
    assert emulation.clean, emulation.findings
    np.testing.assert_array_equal(out, function(held, before))


def test_a_group_that_is_not_the_latest():
    copies = COPY + "@%p0 cp.async.bulk.commit_group;" + COPY + "@%p0 cp.async.bulk.commit_group;"
    held, before = np.arange(32, dtype=np.uint32), np.zeros(32, np.uint32)
    emulation, _ = run(copies, held, before, "@%p0 cp.async.bulk.wait_group.read 1;")
    assert [finding.kind for finding in emulation.findings] == ["async-not-waited"]
    assert run(copies, held, before, "@%p0 cp.async.bulk.wait_group.read 0;")[0].clean


@pytest.mark.parametrize(
    ("wait", "what", "kinds"),
    [
        ("@%p0 cp.async.bulk.wait_group 0; bar.sync 0;", "ld.global.u32 %r5, [%rd3];", set()),
        ("@%p0 cp.async.bulk.wait_group.read 0; bar.sync 0;", "ld.global.u32 %r5, [%rd3];", {"async-not-waited"}),
        ("@%p0 cp.async.bulk.wait_group.read 0; bar.sync 0;", "st.global.u32 [%rd3], 7;", {"async-not-waited"}),
        ("@%p0 cp.async.bulk.wait_group.read 0; bar.sync 0;", "red.global.add.u32 [%rd3], 7;", {"async-not-waited"}),
        ("bar.sync 0; @%p0 cp.async.bulk.wait_group 0;", "ld.global.u32 %r5, [%rd3];", {"global-race"}),
    ],
)
def test_what_is_stored_is_there_after_a_wait_for_more_than_its_reads(wait, what, kinds):
    end = f"@%p0 cp.async.bulk.commit_group; {wait} add.u64 %rd3, %rd2, %rd1; {what}"
    emulation, _ = run(COPY, np.arange(32, dtype=np.uint32), np.zeros(32, np.uint32), end)
    assert {finding.kind for finding in emulation.findings} == kinds
    assert all(
        "wait_group, without .read" in finding.remedy for finding in emulation.findings if finding.kind[0] == "a"
    )


@pytest.mark.parametrize(
    ("copy", "kind"),
    [
        (COPY.replace("128;", "120;"), "misaligned"),
        (COPY.replace("[%rd2]", "[%rd2+8]"), "misaligned"),
        (COPY.replace("[%rd2]", "[%rd2+16]"), "out-of-bounds"),
        (COPY.replace("[%r1]", "[%r1+16]"), "out-of-bounds"),
        (COPY.replace("@%p0 ", "setp.lt.u32 %p1, %r0, 2; @%p1 "), "async-not-waited"),
    ],
)
def test_wrong_copies(copy, kind):
    emulation, _ = run(copy, np.arange(32, dtype=np.uint32), np.zeros(32, np.uint32))
    assert kind in {finding.kind for finding in emulation.findings}, emulation.findings


def test_hints_change_nothing():
    copy = "createpolicy.fractional.L2::evict_first.b64 %rd5, 1.0; cp.async.bulk.prefetch.L2.global [%rd2], 128;"
    copy += COPY.replace("bulk_group", "bulk_group.L2::cache_hint").replace("128;", "128, %rd5;")
    copy += "ld.global.L2::cache_hint.b32 %r5, [%rd0], %rd5;"
    held = np.arange(32, dtype=np.uint32)
    emulation, out = run(copy, held, np.zeros(32, np.uint32))
    assert emulation.clean, emulation.findings
    np.testing.assert_array_equal(out, held)


def test_a_reduction_that_does_not_exist():
    copy = COPY.replace("cp.async", "cp.reduce.async").replace("bulk_group", "bulk_group.min.f32")
    with pytest.raises(UnsupportedInstruction):
        run(copy, np.zeros(32, np.uint32), np.zeros(32, np.uint32))


class Groups:
    """The groups of a batch, whose shadow notes the ends of reads."""

    def __init__(self):
        self.ended, self.arrived = [], []
        self.groups = BulkGroups(64, cast("Any", SimpleNamespace(shadow=self)), cast("Any", None))

    def end_async_read(self, cells, who, position):
        self.ended.append(position)

    def copy(self, thread, name):
        self.groups.write(thread, lambda: self.arrived.append(name))
        self.groups.commit(Lanes(64, np.array([thread])))

    def wait(self, thread, still, *, reads=False):
        self.groups.wait(Lanes(64, np.array([thread])), still, reads=reads)


def test_copies_arrive_once_when_their_thread_has_waited_for_their_group():
    groups = Groups()
    for thread, name in ((0, "first"), (0, "second"), (33, "other")):
        groups.copy(thread, name)
    groups.wait(0, 2)
    groups.wait(0, 0, reads=True)
    groups.wait(1, 0)
    assert groups.arrived == []
    groups.wait(0, 1)
    assert groups.arrived == ["first"]
    groups.wait(0, 0)
    groups.wait(0, 0)
    assert groups.arrived == ["first", "second"]
    groups.wait(33, 0)
    assert groups.arrived == ["first", "second", "other"]
