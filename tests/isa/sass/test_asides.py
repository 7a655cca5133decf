"""Single-warp code in SASS with bulk copies (cp.async.bulk)."""

from dataclasses import replace
from pathlib import Path

import pytest

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


def written(*lines):
    code = "\n".join(f"/*{16 * number:04x}*/ {line} ;" for number, line in enumerate(lines))
    return read_sass(f"\t.target\tsm_90\n\t.section\t.text.k\n{code}").functions[0]


COPY, WAIT = "UTMALDG.2D [UR8], [UR4]", "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R3"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["@P0 BRA 0x20", COPY, "EXIT"], {1}),
        (["NOP", "@P0 BRA 0x50", "NOP", COPY, "NOP", "EXIT"], {2, 3, 4}),
        (["@P0 BRA 0x10", COPY, "EXIT"], set()),  # it goes to the copy, not around it
        (["BRA 0x20", COPY, "EXIT"], set()),  # nobody gets there
        ([COPY, "@P0 BRA 0x20", "EXIT"], set()),
        (["@P0 BRA 0x40", "NOP", "@P1 BRA 0x40", COPY, "EXIT"], {3}),  # the nearest
        (["@P0 BRA 0x30", COPY, "FFMA R0, R1, R2, R3", "EXIT"], set()),  # all warps do that
        (["@P0 BRA 0x30", COPY, "BAR.SYNC 0x0", "EXIT"], set()),
        (["@P0 BRA 0x30", COPY, "BARRIER", "EXIT"], {1, 2}),
        (["@P0 BRA 0x30", COPY, COPY, "@P0 BRA 0x50", COPY, "EXIT"], {1, 2, 4}),
        (["@P0 EXIT", COPY, "EXIT"], set()),
    ],
)
def test_what_the_nearest_branch_around_a_copy_skips(lines, expected):
    assert elected(written(*lines)) == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["NOP", WAIT, "@!P0 BRA 0x10", "BRA 0x0", "EXIT"], {1, 2, 3}),
        (["NOP", "NOP", WAIT, "@!P0 BRA 0x10", "BRA 0x0"], {1, 2, 3, 4}),  # one instruction before the wait
        (["NOP", "NOP", WAIT, "@!P0 BRA 0x0", "BRA 0x0"], set()),  # two
        (["NOP", WAIT, "@!P0 BRA 0x20", "BRA 0x0", "EXIT"], set()),  # behind the wait
        (["NOP", WAIT, "BRA 0x10", "BRA 0x0", "EXIT"], set()),
        (["NOP", WAIT, "@!P0 BRA 0x10", "@P1 BRA 0x0", "EXIT"], set()),
        (["NOP", WAIT, "@!P0 BRA 0x10", "EXIT"], set()),
        (["NOP", WAIT, "@!P0 BRA 0x10"], set()),
        (["NOP", WAIT, "@!P0 EXIT", "BRA 0x0", "EXIT"], set()),
        (["NOP", "SYNCS.ARRIVE.TRANS64 [UR4], RZ", "@!P0 BRA 0x10", "BRA 0x0", "EXIT"], set()),
    ],
)
def test_what_retries_a_wait(lines, expected):
    assert spins(written(*lines)) == expected
    assert asides(written(*lines)) == expected


def test_code_without_bulk_copies_has_nothing_beside():
    assert asides(function("sm_90_tile")) == frozenset()
