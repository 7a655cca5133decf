"""The account of a run in progress."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from live_support import Clock, begin, build

from lab.cli.live import run_account
from lab.cli.live.run_account import RunAccount
from lab.cli.live.snapshot import Phase, Stage
from lab.measured.timing import Samples
from lab.recorded.run_records import Status
from lab.store import figures
from lab.store.figures import Basis


@pytest.fixture
def clock():
    return Clock()


def stages(account):
    return {stage.name: (stage.done, stage.total) for stage in account.snapshot().stages}


def best(account):
    (best_variant,) = account.snapshot().best
    return best_variant


def test_stages_count_what_every_variant_went_through(make):
    records = make("sweep").records()
    account = RunAccount()
    assert account.snapshot().phase is Phase.STARTING
    begin(account, len(records))
    assert account.snapshot().phase is Phase.WORKING
    build(account, records[0])
    build(account, records[1])
    account.recorded(records[0])
    account.executed(records[0])
    assert account.snapshot().stages == (
        Stage("built", 2, len(records)),
        Stage("executed on the CPU", 1),
        Stage("measured", 1),
        Stage("recorded", 1, len(records)),
    )
    account.more(3)
    account.confirming()
    assert "measured again" in account.snapshot().latest
    account.counting(4)
    account.counted(2)
    assert stages(account)["recorded"] == (1, len(records) + 3)
    assert stages(account)["profiled"] == (2, 4)


def test_the_first_build_is_known_at_once(make):
    record = make("sweep").records()[0]
    account = RunAccount()
    begin(account, 4)
    build(account, record)
    assert account.snapshot().latest == f"built: {record.variant} {record.label}"
    account.executed(record)
    assert account.snapshot().latest.startswith(f"executed on the CPU: {record.variant}")
    assert "registers" in account.snapshot().latest


def test_the_best_is_the_one_of_the_report(make):
    for what in ("sweep", "no_gpu"):
        records = make(what).records()
        account = RunAccount()
        begin(account, len(records))
        for record in records:
            account.recorded(record)
        response = figures.response_of(records)
        first = figures.ranked(records, response)[0]
        assert response.of(
            next(record for record in records if record.variant == best(account).variant)
        ) == response.of(first)
        value = response.of(first) or 0
        if what == "sweep":
            assert best(account).kind == run_account.KIND_WORDS[response.basis]
            assert best(account).figure == f"{response.text(value)} {response.unit}"
        else:
            assert best(account).kind == f"{run_account.KIND_WORDS[response.basis]} for {first.prediction.gpu}"
            figure, unit = best(account).figure.removeprefix("≈ ").split()
            assert unit == "TFLOP/s"
            assert float(figure) == pytest.approx(value, rel=0.05)


def test_a_measured_variant_is_better_than_any_prediction(make):
    fast = max(make("sweep").records(), key=lambda one: one.throughput)
    account = RunAccount()
    begin(account, 2)
    unmeasured = replace(fast, variant="predicted", measurement=None)
    account.recorded(unmeasured)
    assert best(account).kind.startswith("predicted")
    account.recorded(fast)
    assert (best(account).variant, best(account).kind) == (fast.variant, "measured")


def test_a_ratio_in_turns_decides_until_a_variant_has_none(make):
    first, second, third = make("sweep").records()[:3]
    samples, name = first.measurement.samples, first.measurement.baseline_name
    slower = Samples(tuple(1.1 * ms for ms in samples.ms))
    early = replace(first.measurement, baseline=samples)
    late = replace(early, samples=slower, baseline=Samples(tuple(1.2 * ms for ms in samples.ms)))
    account = RunAccount()
    begin(account, 3)
    account.recorded(replace(first, measurement=early))
    account.recorded(replace(second, measurement=late))
    assert name
    assert best(account).variant == second.variant
    account.recorded(replace(third, measurement=replace(late, baseline=None)))
    assert best(account).variant == first.variant


def test_a_time_of_a_card_that_differs_does_not_win(make):
    slow, fast = sorted(make("sweep").records(), key=lambda one: one.throughput)[::23]
    account = RunAccount()
    begin(account, 2)
    account.recorded(slow)
    account.recorded(replace(fast, measurement=replace(fast.measurement, doubt="this card is 5 % slower")))
    assert best(account).variant == slow.variant


def test_each_problem_has_its_own_best(make):
    sweep_record = make("sweep").records()[0]
    other = replace(sweep_record, variant="other", problem={**sweep_record.problem, "m": 2048})
    account = RunAccount()
    problems = [
        SimpleNamespace(values=record.problem, label=f"m={record.problem['m']}") for record in (sweep_record, other)
    ]
    begin(account, 2, problems)
    account.recorded(sweep_record)
    account.recorded(other)
    assert [(found.group, found.variant) for found in account.snapshot().best] == [
        (f"m={sweep_record.problem['m']}", sweep_record.variant),
        ("m=2048", "other"),
    ]
    assert account.snapshot().groups == 2


def test_failures_come_as_rows_and_win_nothing(make):
    record = replace(make("sweep").records()[0], status=Status.NOT_EXECUTED, reason="no result within 60 s")
    account = RunAccount()
    begin(account, 1)
    account.recorded(record)
    now = account.snapshot(0)
    (row,) = now.failures
    assert (row.variant, row.status, row.reason, row.figure) == (record.variant, Status.NOT_EXECUTED, record.reason, "")
    assert now.failed == 1
    assert now.rows == (row,)
    assert now.best == ()


def test_scores_are_given_up_where_there_are_too_many_variants(make, monkeypatch):
    records = [replace(record, estimate=None, measurement=None) for record in make("no_gpu").records()]
    monkeypatch.setattr(run_account, "_MOST_SCORED", 2)
    account = RunAccount()
    begin(account, len(records))
    for record in records[:2]:
        account.recorded(record)
    scored = bool(figures.scored(records[:2]))
    gpu = records[0].prediction.gpu
    assert best(account).kind == f"{'predicted' if scored else 'predicted, ceiling'} for {gpu}"
    account.recorded(records[2])
    assert best(account).kind == f"predicted, ceiling for {gpu}"


def test_predicted_figures_have_the_digits_of_their_error(make, counting_bytes):
    record = counting_bytes(make("no_gpu")).records()[0]
    assert run_account._amount(3179.99, record, Basis.SCORE) == "≈ 3.2 TB/s"
    assert run_account._amount(3179.99, record, Basis.CEILING) == "3.180 TB/s"
    assert run_account._amount(3179.99, record, Basis.MEASURED) == "3179.99 GB/s"


def test_bytes_beyond_the_bandwidth_are_shown_as_a_time(make, counting_bytes):
    record = counting_bytes(make("no_gpu")).records()[0]
    assert run_account._amount(66_220.0, record, Basis.SCORE).endswith("s")
    assert "B/s" not in run_account._amount(66_220.0, record, Basis.SCORE)


def test_the_time_left_is_that_of_the_last_variants(make, clock):
    records = make("sweep").records()
    account = RunAccount(clock)
    begin(account, 10)
    assert account.snapshot().left_s is None
    for place, record in enumerate(records[:4], 1):
        build(account, record)
        clock.now = 2.0 * place
        account.recorded(record)
    now = account.snapshot()
    assert now.left_s == pytest.approx(12)
    assert now.pace.startswith("the time of the last 4 variants")
    account.drawing()
    assert account.snapshot().left_s is None


def test_what_an_earlier_run_left_says_nothing_of_the_pace(make, clock):
    kept, new_record = make("sweep").records()[:2]
    account = RunAccount(clock)
    begin(account, 10)
    account.resumed(1)
    account.recorded(kept)
    assert stages(account) == {"built": (1, 10), "recorded": (1, 10), "measured": (1, None)}
    assert account.snapshot().left_s is None
    build(account, new_record)
    clock.now = 3.0
    account.recorded(new_record)
    assert account.snapshot().left_s == pytest.approx(24)
