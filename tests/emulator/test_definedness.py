"""Which registers a program may read before it has written them."""

import pytest
from small_ptx import kernel

from lab.emulator.program import program_of

BRANCH = "setp.eq.u32 %p0, %r0, 1; @%p0 bra ELSE;"


def unwritten(body):
    return {name for _, name in program_of(kernel("mov.u32 %r0, %tid.x;" + body), "k").definedness.unwritten}


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("add.u32 %r1, %r0, 1;", set()),
        ("add.u32 %r1, %r2, 1;", {"%r2"}),
        (BRANCH + "mov.u32 %r1, 5; ELSE: add.u32 %r2, %r1, 1;", {"%r1"}),
        (BRANCH + "mov.u32 %r1, 5; bra END; ELSE: mov.u32 %r1, 6; END: add.u32 %r2, %r1, 1;", set()),
        ("mov.u32 %r3, 0; LOOP: add.u32 %r1, %r1, %r3; add.u32 %r3, %r3, 1; " + BRANCH + "bra LOOP; ELSE:", {"%r1"}),
        (BRANCH + "exit; ELSE: ret; add.u32 %r1, %r2, 1;", set()),  # nothing leads there
        ("setp.eq.u32 %p0, %r0, 1; @%p0 mov.u32 %r1, 5; add.u32 %r2, %r1, 1;", {"%r1"}),
        ("@%p3 mov.u32 %r1, 5;", {"%p3"}),
        ("ld.global.u32 %r1, [%rd5];", {"%rd5"}),
        ("st.global.u32 [%rd5], %r9;", {"%rd5", "%r9"}),
        ("mov.b64 {%r1, %r2}, %rd5; mov.b64 %rd6, {%r1, %r2};", {"%rd5"}),
        ("shfl.sync.idx.b32 %r1|%p1, %r0, 0, 31, -1; @%p1 add.u32 %r2, %r1, 1;", set()),
        ("bar.red.popc.u32 %r1, 0, %p5; add.u32 %r2, %r1, 1;", {"%p5"}),
        ("bar.sync %r8;", {"%r8"}),
        ("LOOP: add.u32 %r1, %r0, 1; " + BRANCH + "bra LOOP; ELSE: add.u32 %r2, %r1, 1;", set()),
    ],
)
def test_registers_that_some_path_leaves_unwritten(body, names):
    assert unwritten(body) == names


def test_values_made_from_them_are_watched_too():
    found = program_of(kernel("add.u32 %r1, %r9, 1; mul.lo.u32 %r2, %r1, 3; mov.u32 %r3, 7;"), "k").definedness
    assert {name for _, name in found.watched} == {"%r9", "%r1", "%r2"}


def test_what_comes_from_shared_and_local_memory_is_watched():
    body = "ld.shared.u32 %r1, [s]; ld.local.u32 %r2, [l]; ld.global.u32 %r3, [%rd1]; add.u32 %r4, %r1, 1;"
    declarations = ".shared .b32 s[4]; .local .b32 l[4];"
    found = program_of(kernel("mov.u64 %rd1, 0;" + body, declarations=declarations), "k").definedness
    assert {name for _, name in found.watched} == {"%r1", "%r2", "%r4"}
    assert found.needed


def test_a_program_without_them_needs_no_watch():
    assert not program_of(kernel("mov.u32 %r0, %tid.x; add.u32 %r1, %r0, 1;"), "k").definedness.needed


@pytest.mark.parametrize(
    ("body", "decides"),
    [
        ("add.u32 %r1, %r0, 1;", False),
        ("add.u32 %r1, %r0, 1; add.u32 %r2, %r1, 1; mov.u32 %r3, %r2;", False),
        ("add.u32 %r1, %r0, 1; add.u32 %r2, %r1, 1; st.global.u32 [%rd1], %r2;", True),
        ("add.u32 %r1, %r0, 1; cvt.u64.u32 %rd2, %r1; st.global.u32 [%rd2], 1;", True),
        ("add.u32 %r1, %r0, 1; setp.eq.u32 %p1, %r1, 1; @%p1 mov.u32 %r3, 1;", True),
        ("add.u32 %r1, %r1, 1;", False),
    ],
)
def test_values_that_decide_something(body, decides):
    found = program_of(kernel("mov.u32 %r0, %tid.x; mov.u64 %rd1, 0;" + body), "k").definedness
    assert [found.decides(2), found.decides(2)] == [decides, decides]
    assert found.roles(2).writes == ("%r1",)
