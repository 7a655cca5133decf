"""Pass counts per warp for each part of the SASS."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.emulator.results import ExecutedCounts
from lab.isa.mix import BODY, Counts, KernelMix, LoopMix, WarpChain
from lab.isa.model import Isa
from lab.predict.executed_chains import Scaling, counterpart, local_requests, long_code, warp_chain, warps_of
from lab.recorded.run_records import EmulatedStep, LaunchRecord

LAUNCH = LaunchRecord((10, 1, 1), (64, 1, 1), 0)
WARPS = 20
ONCE = Scaling(1.0, 1.0)


def counts(instructions: int, **by_class: int) -> Counts:
    named = {name.replace("_", "."): n for name, n in by_class.items()}
    return Counts(instructions, named, {}, 0, 0)


def loop(label: str, text: Counts, *, hot: bool = False, parent: str | None = None) -> LoopMix:
    return LoopMix(label, 1 if parent is None else 2, parent, hot, text, 1, 1, ((1, 1),), None)


def mix(isa: Isa, whole: Counts, *loops: LoopMix, chains: dict[str, WarpChain] | None = None) -> KernelMix:
    return KernelMix(isa, "k", whole, loops, None, chains=chains or {})


def executed(each: int, **by_class: int) -> ExecutedCounts:
    """Return counts in which every warp executes the instructions `each` times."""
    named = {name.replace("_", "."): n * WARPS for name, n in by_class.items()}
    return ExecutedCounts(each * WARPS, 32 * each * WARPS, named, {}, {}, {}, {})


def test_a_launch_has_whole_warps() -> None:
    assert warps_of(LaunchRecord((2, 3, 1), (40, 1, 1), 0)) == 12


def test_a_warp_passes_the_body_once_and_an_unrolled_loop_by_what_ptxas_keeps() -> None:
    ptx = mix("ptx", counts(30, fma=1), loop("L", counts(10, fma=1), hot=True))
    chains = {"L": WarpChain(25, 100.0, global_loads=1), BODY: WarpChain(22, 50.0, barriers=1)}
    sass = mix("sass", counts(47, fma=4), loop("L", counts(25, fma=4), hot=True), chains=chains)
    inside = executed(80, fma=8)
    small = EmulatedStep("k", LAUNCH, executed(100, fma=8), inside)
    # eight iterations of the PTX's loop are two of the SASS's, and five times as many in the real problem
    found = warp_chain((ptx, sass), small, LAUNCH, inside, Scaling(5.0, 1.0))
    assert found == WarpChain(22 + 10 * 25, 50.0 + 10 * 100.0, global_loads=10, barriers=1)
    # without the hot loop, and where half of the warps make all passes
    assert warp_chain((ptx, sass), small, LAUNCH, inside, Scaling(5.0, 1.0), ends=True) == sass.chains[BODY]
    half = warp_chain((ptx, sass), small, LAUNCH, inside, Scaling(5.0, 1.0), share=0.5)
    assert half == WarpChain(22 + 20 * 25, 50.0 + 20 * 100.0, global_loads=20, barriers=1)


def test_spills_are_counted_by_the_passes_through_the_sass() -> None:
    """Twelve spills outside of the loop, two loads in it; PTX, which the CPU executed, has neither."""
    ptx = mix("ptx", counts(30, fma=1), loop("L", counts(10, fma=1), hot=True))
    inner = loop("L", counts(25, fma=4, ld_local=2), hot=True)
    whole = counts(47, fma=4, ld_local=9, st_local=5)
    sass = mix("sass", whole, inner, chains={"L": WarpChain(25, 100.0), BODY: WarpChain(22, 50.0)})
    inside = executed(80, fma=8)
    small = EmulatedStep("k", LAUNCH, executed(100, fma=8), inside)
    assert local_requests((ptx, sass), small, LAUNCH, inside, Scaling(5.0, 1.0)) == (7 + 10 * 2, 5)
    assert local_requests((ptx, replace(sass, chains={})), small, LAUNCH, inside, ONCE) == (0, 0)


def test_pieces_of_code_are_as_long_as_their_text_and_executed_by_their_passes() -> None:
    ptx = mix("ptx", counts(30, fma=1), loop("L", counts(10, fma=1), hot=True))
    chains = {"L": WarpChain(25, 100.0), BODY: WarpChain(22, 50.0)}
    sass = mix("sass", counts(47, integer=21, fma=4), loop("L", counts(25, integer=21, fma=4), hot=True), chains=chains)
    inside = executed(80, fma=8)
    small = EmulatedStep("k", LAUNCH, executed(100, fma=8), inside)
    found = long_code((ptx, sass), small, LAUNCH, inside, Scaling(5.0, 1.0))
    assert found == ((22, 22 * WARPS), (25, 10 * 25 * WARPS))
    assert long_code((None, sass), small, LAUNCH, inside, ONCE) == ()


def test_no_warp_passes_the_body_twice_and_one_that_leaves_early_in_part() -> None:
    ptx = mix("ptx", counts(40))
    sass = mix("sass", counts(50), chains={BODY: WarpChain(50, 80.0)})
    none = executed(0)
    for each, scale, share in ((40, 1.0, 1.0), (20, 1.0, 0.5), (20, 4.0, 1.0)):
        found = warp_chain((ptx, sass), EmulatedStep("k", LAUNCH, executed(each)), LAUNCH, none, Scaling(scale, scale))
        assert found is not None
        assert found.stalls == pytest.approx(share * 80)


def test_what_the_small_problem_leaves_to_the_remainder_is_unrolled_in_the_real_one() -> None:
    ptx = mix("ptx", counts(30, fma=5), loop("R", counts(10, fma=1), hot=True), loop("U", counts(20, fma=4)))
    chains = {"R": WarpChain(10, 30.0, global_loads=1), "U": WarpChain(20, 60.0, global_loads=1)}
    loops = loop("R", counts(10, fma=1), hot=True), loop("U", counts(20, fma=4))
    sass = mix("sass", counts(30, fma=5), *loops, chains={**chains, BODY: WarpChain(1, 0.0)})
    inside = executed(30, fma=3)
    found = warp_chain((ptx, sass), EmulatedStep("k", LAUNCH, inside, inside), LAUNCH, inside, Scaling(4.0, 1.0))
    assert found is not None
    assert (found.stalls, found.global_loads) == (180, 3)


def test_a_loop_around_the_hot_one_makes_its_own_passes() -> None:
    hot, around = counts(10, fma=4), counts(30, fma=4, st_shared=2)
    loops = loop("A", around), loop("H", hot, hot=True, parent="A")
    chains = {"A": WarpChain(20, 90.0, barriers=2), "H": WarpChain(10, 40.0), BODY: WarpChain(5, 20.0)}
    sass = mix("sass", counts(35, fma=4, st_shared=2), *loops, chains=chains)
    small = EmulatedStep("k", LAUNCH, executed(305, fma=64, st_shared=8), executed(160, fma=64))
    found = warp_chain((replace(sass, isa="ptx"), sass), small, LAUNCH, executed(300, fma=64, st_shared=8), ONCE)
    assert found == WarpChain(5 + 16 * 10 + 4 * 20, 20.0 + 16 * 40.0 + 4 * 90.0, barriers=8)


def test_records_without_chains_say_nothing() -> None:
    text = mix("sass", counts(10))
    small = EmulatedStep("k", LAUNCH, executed(10))
    none = executed(0)
    assert warp_chain((text, text), small, LAUNCH, none, ONCE) is None
    assert warp_chain((text, None), small, LAUNCH, none, ONCE) is None
    known = replace(text, chains={BODY: WarpChain(10, 10.0)})
    assert warp_chain((text, known), replace(small, executed=None), LAUNCH, none, ONCE) is None


def test_the_counterpart_of_a_loop_is_the_longest_that_does_alike() -> None:
    ptx = loop("L", counts(19, fma=5, float=8), hot=True)
    copy, remainder = loop("C", counts(80, ld_global=16, st_shared=16)), loop("R", counts(22, fma=5, float=10))
    unrolled = loop("U", counts(80, fma=20, float=40))
    assert counterpart(mix("sass", counts(200), copy, remainder, unrolled), ptx) == "U"
    inside = replace(unrolled, parent="C", depth=2)
    assert counterpart(mix("sass", counts(200), copy, inside), ptx) == "U"
    assert counterpart(mix("sass", counts(200)), ptx) == ""


def test_a_loop_that_ptxas_unrolled_completely_has_no_counterpart() -> None:
    ptx = loop("L", counts(65, fma=25, ld_shared=25, st_global=1), hot=True)
    fill = loop("F", counts(45, ld_global=4, st_shared=4), hot=True)
    assert counterpart(mix("sass", counts(514, fma=100, ld_shared=100), fill), ptx) == ""


def test_loops_that_do_partly_alike_are_not_remainders_of_each_other() -> None:
    # an exponential and a sum, and the same with a store: cosine 0.91
    summed = counts(54, fma=20, float=8, special=4, ld_global=4)
    stored = counts(72, fma=16, float=16, special=4, ld_global=4, st_global=4)
    chains = {"A": WarpChain(54, 74.0), "B": WarpChain(72, 172.0), BODY: WarpChain(1, 0.0)}
    sass = mix("sass", counts(200), loop("A", summed), loop("B", stored, hot=True), chains=chains)
    ptx = mix("ptx", counts(200), loop("A", summed), loop("B", stored, hot=True))
    hot = executed(72, fma=16, float=16, ld_global=4, st_global=4)
    looped = executed(126, fma=36, float=24, ld_global=8, st_global=4)
    small = EmulatedStep("k", LAUNCH, looped, hot)
    chain = warp_chain((ptx, sass), small, LAUNCH, looped, ONCE)
    assert chain is not None
    assert chain.stalls == pytest.approx(74 + 172)


def test_loops_that_differ_in_their_accesses_are_not_remainders_of_each_other() -> None:
    """A loop that sums, and one that stores: mostly the same arithmetic, one behind the other."""
    sums, stores = counts(80, float=70, ld_global=4), counts(90, float=76, ld_global=4, st_global=4)
    ptx = mix("ptx", counts(200, float=146), loop("L", sums, hot=True), loop("M", stores))
    chains = {"L": WarpChain(80, 100.0), "M": WarpChain(90, 1000.0), BODY: WarpChain(30, 0.0)}
    sass = mix("sass", counts(200, float=146), loop("L", sums, hot=True), loop("M", stores), chains=chains)
    hot, every = executed(800, float=700, ld_global=40), executed(1700, float=1460, ld_global=80, st_global=40)
    small = EmulatedStep("k", LAUNCH, every, hot)
    chain = warp_chain((ptx, sass), small, LAUNCH, every, ONCE)
    assert chain is not None
    assert chain.stalls == pytest.approx(10 * 100.0 + 10 * 1000.0)


def test_passes_follow_from_accesses_where_ptxas_adds_arithmetic() -> None:
    ptx = mix("ptx", counts(40, float=10), loop("L", counts(20, float=10, ld_global=1), hot=True))
    chains = {"L": WarpChain(60, 100.0, global_loads=1), BODY: WarpChain(20, 0.0)}
    sass = mix("sass", counts(80, float=30), loop("L", counts(60, float=30, ld_global=1), hot=True), chains=chains)
    inside = executed(160, float=80, ld_global=8)
    chain = warp_chain((ptx, sass), EmulatedStep("k", LAUNCH, executed(180, float=80), inside), LAUNCH, inside, ONCE)
    assert chain is not None
    assert chain.global_loads == pytest.approx(8)
