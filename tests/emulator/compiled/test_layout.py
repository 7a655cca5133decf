"""The layout that machine code and its host share."""

from lab.emulator.compiled import layout
from lab.emulator.compiled.ir import LANES


def test_fields_of_the_context_follow_each_other():
    places = sorted(layout.CONTEXT.values())
    assert list(layout.CONTEXT) == list(layout.FIELDS)
    assert places == list(range(0, 8 * len(layout.FIELDS), 8))


def test_fields_of_a_warp_lie_before_its_registers_without_overlap():
    words = [layout.ALIVE, layout.WAITING, layout.PARKED, layout.BARRIER]
    words += [layout.MET, layout.COMMITTED, layout.COMPLETED, layout.COPIED]
    assert layout.PLACES == 0
    assert words == sorted({4 * (word // 4) for word in words})
    assert words[0] >= 4 * LANES
    assert words[-1] + 4 <= layout.REGISTERS


def test_results_of_a_warp_are_told_apart():
    results = {layout.ENDED, layout.WAITS, layout.FAULT, layout.PARTED, layout.SPINS, layout.STOPPED}
    assert len(results) == 6
