"""Dependency chains of a single warp, on hand-written listings with scheduling bits."""

from __future__ import annotations

import struct

import pytest

from lab.hardware.latencies import latencies_for
from lab.isa.mix import BODY, WarpChain, kernel_mix
from lab.isa.sass.module import read_sass
from lab.predict.chains import chains

H200 = latencies_for("sm_90")
FREE = 7


def bits(stall: int = 1, raises: int = FREE, read: int = FREE, waits: tuple[int, ...] = ()) -> int:
    return stall | raises << 5 | read << 8 | sum(1 << wait for wait in waits) << 11


def chains_of(*lines: tuple[str, int]) -> dict[str, WarpChain]:
    listing = "\n".join(f"/*{16 * number:04x}*/ {text} ;" for number, (text, _) in enumerate(lines))
    function = read_sass(f"\t.target\tsm_90\n\t.section\t.text.k\n{listing}").functions[0]
    code = b"".join(struct.pack("<QQ", 0, control << 41) for _, control in lines)
    return chains(function, code, kernel_mix("sass", function), H200)


def looped(*lines: tuple[str, int]) -> WarpChain:
    """The chain of a loop of these instructions, which begins at the kernel's second."""
    chains = chains_of(("MOV R1, R2", bits()), *lines, ("@P0 BRA 0x10", bits(5)), ("EXIT", bits()))
    (label,) = chains.keys() - {BODY}
    return chains[label]


def test_stalls_add_up_and_a_loop_loses_its_branch() -> None:
    loop_chain = looped(("FFMA R0, R4, R5, R0", bits(4)), ("FFMA R0, R4, R5, R0", bits(4)))
    assert loop_chain == WarpChain(3, 4 + 4 + 5 + H200.taken_branch)


def test_loads_that_are_waited_for_together_are_one_latency() -> None:
    pair = ("LDG.E R4, [R2]", bits(2, raises=0)), ("LDG.E R5, [R2]", bits(2, raises=0))
    together = looped(*pair, ("FADD R0, R4, R5", bits(4, waits=(0,))))
    assert together.global_loads == 1
    apart = looped(
        pair[0], ("IADD3 R2, R4, R2, RZ", bits(4, waits=(0,))), pair[1], ("FADD R0, R4, R5", bits(4, waits=(0,)))
    )
    assert apart.global_loads == 2
    assert together.stalls == 2 + 4 + 5 + H200.taken_branch  # from the second load on: the first returned before


def test_what_the_last_iteration_requested_is_hidden_by_what_takes_longer() -> None:
    load = ("LDS R4, [R2]", bits(1, raises=0))
    ahead = looped(("FADD R0, R4, R5", bits(4, waits=(0,))), load, *[("FFMA R6, R7, R8, R6", bits(4))] * 10)
    assert ahead == WarpChain(13, 4 + 1 + 40 + 5 + H200.taken_branch)


def test_each_kind_of_latency_is_counted_apart() -> None:
    chain = chains_of(
        ("LDG.E R4, [R2]", bits(1, raises=0)),
        ("STS [R3], R4", bits(2, waits=(0,))),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", bits(6)),
        ("LDS R5, [R6]", bits(1, raises=1)),
        ("MUFU.RSQ R7, R5", bits(1, raises=2, waits=(1,))),
        ("STG.E [R2], R7", bits(3, waits=(2,))),
        ("EXIT", bits()),
    )[BODY]
    assert chain == WarpChain(7, 2 + 6 + 3 + 1, global_loads=1, shared_loads=1, barriers=1, others=1)


def test_atomics_answer_from_l2_and_local_memory_from_l1() -> None:
    chain = chains_of(
        ("ATOMG.E.ADD.STRONG.GPU PT, R4, [R2.64], R5", bits(1, raises=0)),
        ("LDL R6, [R4]", bits(1, raises=1, waits=(0,))),
        ("ATOMS.ADD R7, [R6], R5", bits(1, raises=2, waits=(1,))),
        ("MOV R8, R7", bits(2, waits=(2,))),
        ("EXIT", bits()),
    )[BODY]
    assert chain == WarpChain(5, 2 + 1, atomics=1, local_loads=1, shared_loads=1)


def test_an_address_may_be_overwritten_when_the_store_has_read_it() -> None:
    chains = chains_of(("STG.E [R2], R4", bits(1, read=3)), ("MOV R4, R5", bits(2, waits=(3,))), ("EXIT", bits()))
    assert chains[BODY] == WarpChain(3, H200.operands_read + 2 + 1)


def test_groups_of_copies_are_waited_for_as_they_were_requested() -> None:
    copy = [("LDGSTS.E [R3], [R2]", bits(1)), ("LDGDEPBAR", bits(1))]
    chains = chains_of(*copy, *copy, ("DEPBAR.LE SB0, 0x1", bits(1)), ("EXIT", bits()))
    assert chains[BODY] == WarpChain(6, 1 + 1, global_loads=1)
    both = chains_of(*copy, *copy, ("DEPBAR.LE SB0, 0x0", bits(1)), ("EXIT", bits()))
    assert both[BODY] == WarpChain(6, 2 + 1 + 1, global_loads=1)


def test_code_of_another_function_is_refused() -> None:
    function = read_sass("\t.target\tsm_90\n\t.section\t.text.k\n/*0000*/ EXIT ;").functions[0]
    with pytest.raises(ValueError, match="no instruction at byte 0"):
        chains(function, b"", kernel_mix("sass", function), H200)
