"""What is beside every warp's path in code with bulk copies."""

from dataclasses import replace
from pathlib import Path

from lab.isa.mix import kernel_mix
from lab.isa.sass.asides import asides, elected, spins
from lab.isa.sass.module import read_sass

GOLDEN = Path(__file__).parents[1] / "golden"


def function(name):
    listing = (GOLDEN / f"{name}.lst").read_text()
    return read_sass(listing, file=f"{name}.lst").functions[0]


def opcodes(code, places):
    return [code.instructions[i].opcode for i in sorted(places)]


def test_one_warp_asks_for_copies_behind_a_branch():
    code = function("sm_90_bulk")
    found = opcodes(code, elected(code))
    assert found.count("UTMALDG.2D") == 2  # before the loop and in it
    assert found.count("ELECT") == 1  # before the loop, a nearer branch stands behind it
    assert found.count("SYNCS.ARRIVE.TRANS64") == 2
    assert "FFMA" not in found
    assert not any(opcode.startswith("BAR.") for opcode in found)


def test_a_failed_wait_spins_behind_the_kernel():
    code = function("sm_90_bulk")
    assert opcodes(code, spins(code)) == ["SYNCS.PHASECHK.TRANS64.TRYWAIT", "BRA", "BRA"]
    exit_at = max(i.index for i in code.instructions if i.opcode == "EXIT")
    assert min(spins(code)) > exit_at


def test_the_hot_loop_knows_what_is_beside_its_path():
    code = function("sm_90_bulk")
    (spin,) = (loop for loop in kernel_mix("sass", code).loops if not loop.hot and loop.counts.instructions == 2)
    hot = kernel_mix("sass", code).hot_loop
    assert hot is not None
    assert hot.counts.fma == 8
    assert spin.parent == hot.label
    loop = [i.index for i in code.instructions if i.line in hot.numbers]
    assert hot.aside == len(asides(code).intersection(loop)) > 0


def test_a_branch_around_arithmetic_is_everyones():
    code = function("sm_90_bulk")
    inside = next(i for i in sorted(elected(code), reverse=True))
    changed = [replace(i, opcode="BAR.SYNC") if i.index == inside else i for i in code.instructions]
    assert inside not in elected(replace(code, instructions=tuple(changed)))


def test_code_without_bulk_copies_has_nothing_beside():
    assert asides(function("sm_90_tile")) == frozenset()
