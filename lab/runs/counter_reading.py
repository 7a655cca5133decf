"""Select variants for hardware counters and read them: the last stage of a run on a GPU."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lab.experiment.schema import ProfileModel
from lab.experiment.variants import Plan
from lab.gpu.counters.profile import ProfileOrder
from lab.gpu.process.cards import Cards
from lab.recorded.run_records import VariantRecord
from lab.runs.flow import FlowContext, job_of
from lab.runs.recorder import Recorder
from lab.runs.services import ReadCounters
from lab.search.pruning import Group, Rank, score, worths
from lab.stages.record import built_before


@dataclass(frozen=True, slots=True)
class _Candidate:
    """The facts of a timed variant that selection needs; ten thousand whole records would fill the memory."""

    variant: str
    kernel: str
    rank: Rank
    off: float
    """|ln(predicted / measured)|; 0 without a prediction."""


def chosen(records: Iterable[VariantRecord], rules: ProfileModel) -> tuple[str, ...]:
    """Return the ids of the variants to profile, in the order of the records.

    These are the fastest variants of each kernel for each problem, which explain where each kernel wins, and the
    outliers, which explain the model's errors. Where there are more problems than room, evenly spread ones are chosen,
    the first and the last among them; where one problem has too many kernels, the fastest ones.
    """
    candidates = [candidate for record in records if (candidate := _candidate(record))]
    furthest = sorted((candidate for candidate in candidates if candidate.off), key=lambda candidate: -candidate.off)[
        : min(rules.strays, rules.at_most)
    ]
    strays = {candidate.variant for candidate in furthest}
    winners = _spread(_winners(candidates, rules.top), rules.at_most - len(strays))
    selected = strays | {candidate.variant for candidate in winners}
    return tuple(candidate.variant for candidate in candidates if candidate.variant in selected)


def _candidate(record: VariantRecord) -> _Candidate | None:
    rate, rank = record.throughput, score(record, 0)
    if not record.status.sound or not rate or rank is None:
        return None
    predicted = record.estimate.tflops if record.estimate else record.ceiling or 0.0
    off = abs(math.log(predicted / rate)) if predicted > 0 else 0.0
    return _Candidate(record.variant, record.kernel, rank, off)


def _winners(candidates: Sequence[_Candidate], top: int) -> list[list[_Candidate]]:
    """Return the best variants of each kernel, problem by problem, best first."""
    problems: dict[Group, list[_Candidate]] = {}
    for candidate in candidates:
        problems.setdefault(candidate.rank.group, []).append(candidate)
    return [_best(members, top) for members in problems.values()]


def _best(members: Sequence[_Candidate], top: int) -> list[_Candidate]:
    """Return the best variants of each kernel for one problem, best first."""
    worth, counts = worths([candidate.rank for candidate in members]), Counter[str]()
    chosen = []
    for candidate in sorted(members, key=lambda candidate: -worth(candidate.rank)):
        counts[candidate.kernel] += 1
        if counts[candidate.kernel] <= top:
            chosen.append(candidate)
    return chosen


def _spread(problems: Sequence[Sequence[_Candidate]], room: int) -> list[_Candidate]:
    """Return the winners of as many evenly spread problems as fit."""
    largest = max(map(len, problems), default=0)
    if not largest or room < 1:
        return []
    number = min(len(problems), max(1, room // largest))
    places = {round(i * (len(problems) - 1) / max(1, number - 1)) for i in range(number)}
    return [candidate for place in sorted(places) for candidate in problems[place]][:room]


def count(
    recorder: Recorder,
    cards: Cards | None,
    context: FlowContext,
    planned: Plan,
    *,
    read_counters: ReadCounters,
) -> None:
    """Read the counters of the selected variants that have none yet, storing each profile as it arrives.

    Args:
        recorder: Where profiles go.
        cards: The GPUs; None means that nothing is read.
        context: The run; without `profile` rules in its experiment nothing is read.
        planned: The variants of the run, by position.
        read_counters: Reads the counters.
    """
    experiment, store = context.experiment, recorder.store
    rules = experiment.profile
    if cards is None or rules is None:
        return
    selected = chosen(store.each(), rules)
    missing = {variant: record for variant in selected if (record := store.record(variant)).profile is None}
    if not missing:
        return
    recorder.observer.counting(len(missing))
    cards.release()  # their memory may be needed
    places = {variant: place for place, variant in enumerate(planned.variants)}
    orders = [
        ProfileOrder(
            job_of(
                experiment,
                built_before(experiment, planned[places[variant]], record, context.gpu),
                store.read_file(variant, "kernel.cubin"),
            ),
            record.measurement.cache if record.measurement else "cold",
            cards.cards[0].visible,
        )
        for variant, record in missing.items()
    ]
    for counted in read_counters(orders, seconds=rules.seconds):
        recorder.note(*counted.notes)
        for variant, profile in counted.profiles.items():
            store.write(replace(missing[variant], profile=profile), places[variant])
        recorder.observer.counted(len(counted.profiles))
