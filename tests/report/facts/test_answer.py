"""The opening paragraph says what the records say, and no more."""

from __future__ import annotations

from dataclasses import replace

import pytest
from narrowing import known

from lab.emulator.results import ExecutedCounts, MemoryCount
from lab.recorded.run_records import EmulationRecord, Status
from lab.report.facts.answer import answer, mapped, tally
from lab.store.figures import (
    emulated_conflicts,
    emulated_excess,
    emulated_sectors,
    fma_share,
    percent,
    predicted_sectors,
    ranked,
    response_of,
)


def opening(store):
    records = store.records()
    return answer(store.run(), records, response_of(records))


def test_measured_answer_gives_the_best_variants_figures(make):
    store = make("sweep")
    best = max(store.records(), key=lambda record: record.tflops)
    text = opening(store).text
    assert best.label in text
    assert f"{best.tflops:.2f} TFLOP/s" in text
    assert percent(best.tflops / best.prediction.peak_tflops) in text
    assert f"{best.measurement.ratio_to_baseline:.3f} times the throughput of cublas" in text
    assert opening(store).verdict[0] == "Of 24 variants: 24 verified; none failed."


def test_where_throughput_counts_bytes_every_figure_is_in_gb_s(make, counting_bytes):
    store = counting_bytes(make("sweep"))
    best = min(store.records(), key=lambda record: record.measurement.samples.median)
    rate = best.bytes_moved / (best.measurement.samples.median / 1e3) / 1e9
    text = opening(store).text
    assert f"{rate:.2f} GB/s, {percent(rate / 4800)} of the 4800.0 GB/s peak" in text
    assert "TFLOP" not in text


def test_a_declared_rate_is_the_figure_of_the_answer(make, counting_keys):
    store = counting_keys(make("sweep"))
    best = min(store.records(), key=lambda record: record.measurement.samples.median)
    text = opening(store).text
    assert f"{best.label} is the fastest on NVIDIA H200: {2000 / best.measurement.samples.median:.4g} Mkeys/s" in text
    assert "GB/s" not in text
    assert "of peak" not in text


def with_traffic(records):
    """Every fourth record coalesced, the others worse; predictions for all, an execution for the first twenty."""
    for i, record in enumerate(records):
        moved = MemoryCount(requests=10, sectors=10 * (4 + i % 4), bytes_used=1280)
        executed = ExecutedCounts(1, 32, {}, {}, {}, {}, {"global.load": moved, "global.store": moved + moved})
        emulation = EmulationRecord({}, (), executed=executed)
        yield replace(
            record, emulation=emulation if i < 20 else None, accesses={"global.load": 4 + i % 4, "shared.load": 9}
        )


def test_predicted_and_emulated_sectors_are_of_one_kind(make):
    record = next(with_traffic(make("sweep").records()[1:]))
    assert predicted_sectors(record) == emulated_sectors(record) == 4
    assert emulated_excess(record) == 1
    assert emulated_conflicts(record) is None


def test_predictions_of_mappings_are_held_against_what_was_counted(make):
    def counted(record, sectors, predicted):
        traffic = MemoryCount(requests=100, sectors=sectors, bytes_used=3200)
        executed = ExecutedCounts(1, 32, {}, {}, {}, {}, {"global.load": traffic})
        return replace(
            record,
            emulation=EmulationRecord({}, (), executed=executed),
            accesses={"global.load": predicted, "shared.load": 9.0},  # shared memory was not accessed
        )

    records = make("sweep").records()[:3]
    right = tuple(counted(record, 400, 4.0) for record in records)
    assert mapped(right) == (
        "The sectors per request that the mappings predict equal those counted on the CPU in all 3 variants."
    )
    wrong = (*right[:2], counted(records[2], 475, 4.0))
    said = mapped(wrong)
    assert "in 2 of 3 variants; the largest difference is that of" in said
    assert "global load: 4.00 predicted, 4.75 counted" in said
    assert records[2].label in said
    assert mapped(records) == ""


def test_asynchronous_copies_are_loads_of_global_and_accesses_of_shared_memory(make):
    record = next(with_traffic(make("sweep").records()[1:]))
    copied = MemoryCount(requests=30, sectors=30 * 8, bytes_used=30 * 128)
    landed = MemoryCount(requests=30, wavefronts=90, ideal_wavefronts=30)
    emulation = record.emulation
    memory = {**emulation.executed.memory, "global.copy": copied, "shared.copy": landed}
    record = replace(record, emulation=replace(emulation, executed=replace(emulation.executed, memory=memory)))
    assert emulated_sectors(record) == ((10 * 4 + 30 * 8) / 40 + 4) / 2
    assert emulated_conflicts(record) == 2


def test_without_a_gpu_the_answer_is_a_ceiling_and_says_why(make):
    store = make("no_gpu")
    ceilings = [record.prediction.ceiling.tflops for record in store.records()]
    shares = [known(fma_share(record.sass)) for record in store.records()]
    text = opening(store).text
    assert f"The best predicted ceiling on NVIDIA H200 is {max(ceilings):.2f} TFLOP/s" in text
    assert f"{ceilings.count(max(ceilings))} of 24 variants share it" in text
    assert f"from {percent(min(shares))} to {percent(max(shares))}" in text
    assert "unroll explains" in text
    assert text.count("No CUDA GPU was found: libcuda.so.1 is missing.") == 1
    assert "ρ" not in text
    assert "fastest" not in text


def test_the_reason_why_nothing_was_measured_is_the_runs_own_sentence(make):
    store = make("no_gpu")
    store.write_run(replace(store.run(), not_measured="Nothing was measured: --no-gpu was given."))
    assert opening(store).text.count("othing was measured") == 1


def test_tally_counts_failures_by_kind_and_what_is_missing(make):
    store = make("failures")
    text = tally(store.run(), store.records())
    assert text.startswith("Of 27 variants: 20 verified; 4 failed (")
    for part in ("1 compile failed", "1 wrong", "2 not executed"):
        assert part in text
    assert "3 not reached before the run ended" in text


def test_a_suspect_variant_is_counted_as_failed_and_its_reason_is_said(make):
    store = make("sweep")
    first, second, *others = store.records()
    gap = "values at the full size were not compared"
    records = (
        replace(first, status=Status.SUSPECT, reason="in another order: y[3] differs"),
        replace(second, status=Status.PARTIAL, reason=gap),
        *others,
    )
    counted = tally(store.run(), records)
    assert "none failed" not in counted
    assert "1 suspect" in counted
    assert "1 verified in part" in counted
    text = " ".join(answer(store.run(), records, response_of(records)).verdict)
    assert "y[3] differs" in text
    assert gap in text


def test_where_nothing_is_sound_nothing_is_best(make):
    store = make("sweep")
    records = tuple(replace(record, status=Status.SUSPECT, reason="why") for record in store.records())
    found = answer(store.run(), records, response_of(records))
    assert (ranked(records, response_of(records)), found.headline) == ((), "")
    assert f"{len(records)} suspect" in " ".join(found.lead)


@pytest.mark.parametrize("status", [Status.WRONG, Status.SUSPECT, Status.NOT_EXECUTED])
@pytest.mark.parametrize("what", ["sweep", "no_gpu"])
def test_a_failed_variant_never_wins(make, what, status):
    store = make(what)
    records = store.records()
    best = ranked(records, response_of(records))[0]
    broken = replace(best, status=status)
    records = tuple(broken if record is best else record for record in records)
    assert ranked(records, response_of(records))[0].variant != best.variant


@pytest.mark.parametrize("what", ["sweep", "no_gpu"])
def test_a_variant_verified_in_part_is_ranked_like_the_others(make, what):
    records = make(what).records()
    best = ranked(records, response_of(records))[0]
    partly = tuple(replace(record, status=Status.PARTIAL) if record is best else record for record in records)
    assert ranked(partly, response_of(partly))[0].variant == best.variant
