from __future__ import annotations

from dataclasses import replace

import pytest

from lab.emulator.results import ExecutedCounts, MemoryCount
from lab.recorded.run_records import EmulationRecord
from lab.report.facts.causes import BLOCKS, MOST, because, causes, change


@pytest.fixture
def pair(make):
    """Two equal variants: the second is to be changed."""
    record = make("sweep").records()[0]
    return record, record


def executed(record, warps, **memory):
    named = {name.replace("_", "."): count for name, count in memory.items()}
    counts = ExecutedCounts(warps, 32 * warps, {}, {}, {}, {}, named)
    return replace(record, emulation=EmulationRecord({}, (), executed=counts))


def resources(record, **changed):
    return replace(record, build=replace(record.build, resources=replace(record.build.resources, **changed)))


def test_nothing_changed_nothing_explains(pair):
    assert causes([pair], 0.8) == ()
    assert because((), [pair]) == ""


def test_registers_that_cost_a_block_explain_a_loss_and_no_gain(pair):
    before, after = pair
    before = replace(resources(before, registers=168), prediction=replace(before.prediction, blocks_per_sm=2))
    after = replace(resources(after, registers=255), prediction=replace(after.prediction, blocks_per_sm=1))
    pairs = [(before, after)]
    said = because(causes(pairs, 0.86), pairs)
    assert said == "because registers go from 168 to 255 and blocks per SM from 2 to 1"
    assert causes(pairs, 1.2) == ()


def test_spills_explain_a_loss(pair):
    before, after = pair
    pairs = [(before, resources(after, spill_load_bytes=64, spill_store_bytes=64))]
    assert because(causes(pairs, 0.7), pairs) == "because spills go from 0 to 128 B"


def test_fences_of_the_gpu_explain_a_loss(pair):
    before, after = pair
    hot = after.sass.hot_loop
    fenced = replace(hot.counts, by_opcode={**hot.counts.by_opcode, "MEMBAR.ALL.GPU": 1})
    loops = tuple(replace(loop, counts=fenced) if loop.hot else loop for loop in after.sass.loops)
    pairs = [(before, replace(after, sass=replace(after.sass, loops=loops)))]
    assert because(causes(pairs, 0.66), pairs) == "because GPU-wide fences in the hot loop go from 0 to 1"


MMA = "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16"


def multiplying(record, warps, fma, mma):
    """Executed instructions, of which some multiply and add."""
    counts = ExecutedCounts(warps, 32 * warps, {"mma": mma}, {"fma": fma}, {MMA: mma}, {}, {})
    return replace(record, emulation=EmulationRecord({}, (), executed=counts))


@pytest.mark.parametrize(("fma", "mma", "said"), [(400, 64, True), (410, 64, True), (800, 64, True), (400, 128, False)])
def test_work_is_compared_where_tiles_reach_as_far_beyond_the_data(pair, fma, mma, said):
    """64 matrix instructions of a warp make 16 times 65536 multiply-adds."""
    before, after = multiplying(pair[0], 1000, 400, 64), multiplying(pair[1], 2000, fma, mma)
    expected = "because executed instructions go from 1,000 to 2,000" if said else ""
    assert because(causes([(before, after)], 0.5), [(before, after)]) == expected
    plain = multiplying(pair[0], 1000, 400, 0), multiplying(pair[1], 2000, fma, 0)
    assert bool(causes([plain], 0.5)) is (fma <= 410)


def test_work_explains_only_effects_of_its_own_size(pair):
    before, after = (executed(record, warps) for record, warps in zip(pair, (1000, 1040), strict=True))
    assert [cause.fact.name for cause in causes([(before, after)], 0.95)] == ["executed instructions"]
    assert causes([(before, after)], 0.5) == ()


def test_conflicts_and_sectors_come_with_their_figures(pair):
    def shared(wavefronts):
        return MemoryCount(requests=10, wavefronts=wavefronts, bytes_used=1280, ideal_wavefronts=10)

    before = executed(pair[0], 1000, shared_load=shared(160))
    after = executed(pair[1], 1000, shared_load=shared(10))
    said = because(causes([(before, after)], 4.0), [(before, after)])
    assert said == "because bank conflicts per request go from 15 to 0 and shared-memory wavefronts from 160 to 10"
    before = executed(pair[0], 1000, global_load=MemoryCount(10, 0, 320, 1280))
    after = executed(pair[1], 1000, global_load=MemoryCount(10, 0, 40, 1280))
    said = because(causes([(before, after)], 6.0), [(before, after)])
    assert said == "because bytes moved per byte used go from 8 to 1"


def test_a_small_effect_stays_unexplained(pair):
    before, after = (executed(record, warps) for record, warps in zip(pair, (1000, 1500), strict=True))
    assert causes([(before, after)], 0.985) == ()


def test_facts_are_medians_over_the_pairs_that_have_them(pair):
    others = [(executed(a, 10), executed(b, n)) for (a, b), n in zip([pair] * 3, (20, 30, 1000), strict=True)]
    found = causes([*others, pair], 0.5)
    assert (found[0].before, found[0].after) == (10, 30)
    assert len(found) <= MOST
    assert change(BLOCKS, [(replace(pair[0], prediction=None), pair[1])]) is None
