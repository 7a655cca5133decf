"""When loops rest."""

import pytest
from small_ptx import kernel

from lab.emulator.program import Program
from lab.emulator.progress import MemoryProgress
from lab.emulator.turns import POLLS_BEFORE_REST, ROUNDS_BEFORE_LOOK, Turns, polls
from lab.isa.ptx.module import read_ptx

BODY = "L: INSIDE setp.eq.u32 %p0, %r0, 0; @%p0 bra L; add.u32 %r1, %r1, 1;"
HEAD, LOOP = ((), 1), 1


def turns(inside):
    program = Program(read_ptx(kernel("mov.u32 %r0, 0;\n" + BODY.replace("INSIDE", inside))), "k")
    progress = MemoryProgress()
    return Turns(program, progress), progress


def test_back_edges():
    loop, _ = turns("")
    assert loop.is_back(LOOP, LOOP)
    assert loop.is_back(LOOP, 0)
    assert not loop.is_back(0, LOOP)


def test_a_polling_loop_rests_while_no_memory_changes():
    loop, progress = turns("ld.volatile.global.u32 %r0, [%rd0];")
    for _ in range(POLLS_BEFORE_REST - 1):
        assert loop.round(LOOP, HEAD) == "go"
    progress.changes += 1
    for _ in range(POLLS_BEFORE_REST - 1):
        assert loop.round(LOOP, HEAD) == "go"
    assert loop.round(LOOP, HEAD) == "rest"
    loop.rested(HEAD)
    assert loop.round(LOOP, HEAD) == "go"
    assert len(loop.polled[LOOP].reads) == 1


def test_another_loop_is_looked_at_now_and_then():
    loop, progress = turns("ld.global.u32 %r0, [%rd0];")
    verdicts = [loop.round(LOOP, HEAD) for _ in range(2 * ROUNDS_BEFORE_LOOK + 1)]
    looks = {i + 1: verdict for i, verdict in enumerate(verdicts) if verdict != "go"}
    first = ROUNDS_BEFORE_LOOK
    compared = {first + 2**i: "compare" for i in range(10)}
    assert looks == {first: "note", **compared, 2 * first: "note", 2 * first + 1: "compare"}
    assert progress.exact


@pytest.mark.parametrize(
    ("opcode", "strong"),
    [
        ("ld.global.u32", False),
        ("ld.volatile.shared.u32", True),
        ("ld.acquire.gpu.u32", True),
        ("atom.global.cas.b32", True),
        ("red.global.add.u32", False),
        ("call.uni", True),
    ],
)
def test_what_polls(opcode, strong):
    assert polls(opcode) == strong
