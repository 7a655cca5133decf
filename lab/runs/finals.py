"""Finals: time the best variants again, interleaved on one card, and the winners in a fresh process.

A result must repeat, and variants timed on two cards are compared on one card before one of them wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Final

from lab.base import interrupts
from lab.experiment.variants import Plan
from lab.gpu.process.cards import Cards, Ran
from lab.gpu.process.job import Job, JobResult, Policy
from lab.measured.card_comparison import LIMIT, CardRecord
from lab.measured.timing import EarlierTiming, Measurement, Samples
from lab.recorded.run_records import VariantRecord
from lab.runs import flow
from lab.runs.flow import FlowContext
from lab.runs.recorder import Recorder
from lab.search.pruning import Group, Rank, leaders, worths
from lab.stages.record import built_before

FINALISTS: Final = 5
"""Most variants of a problem in its finals."""

ROUNDS: Final = 3
"""Rounds of a final, interleaved: A B C A B C A B C."""

CHALLENGES: Final = 3
"""Further finals of a problem, each against a variant whose sweep time beats the last winner."""


@dataclass(frozen=True)
class _Finals:
    """Data shared by all finals of a run.

    Attributes:
        context: Data shared by all variants of the run.
        recorder: Where the records are.
        cards: The GPUs.
        planned: The variants of the run, by position.
        variants: Their ids.
    """

    context: FlowContext
    recorder: Recorder
    cards: Cards
    planned: Plan
    variants: Sequence[str]

    @classmethod
    def of(cls, context: FlowContext, recorder: Recorder, cards: Cards, planned: Plan) -> _Finals:
        """Create it, listing the ids once: making a variant to see its id takes a thousand times as long."""
        return cls(context, recorder, cards, planned, planned.variants)

    def record(self, rank: Rank) -> VariantRecord:
        """Return the record of a finished variant."""
        return self.recorder.store.record(self.variants[rank.position])

    def job(self, rank: Rank, record: VariantRecord) -> Job:
        """Return the GPU job of a variant."""
        context = self.context
        planned = built_before(context.experiment, self.planned[rank.position], record, context.gpu)
        cubin = self.recorder.store.read_file(planned.variant, "kernel.cubin")
        return flow.job_of(context.experiment, planned, cubin, context.reference)

    def keep(self, rank: Rank, record: VariantRecord) -> None:
        """Replace a variant's record."""
        self.recorder.replace(rank.position, record)


def mark_rows(
    context: FlowContext, recorder: Recorder, cards: Cards, planned: Plan, compared_cards: Sequence[CardRecord]
) -> None:
    """Mark every variant whose card times differently, and remove marks that no longer hold.

    Args:
        context: What is the same for all variants of the run.
        recorder: Where the records are.
        cards: The GPUs.
        planned: The variants of the run, by position.
        compared_cards: The cards, compared.
    """
    differs = {card.id: card.differs for card in compared_cards}
    own = _Finals.of(context, recorder, cards, planned)
    for rank in tuple(recorder.scores.values()):
        if rank.rate is None or (not differs.get(rank.card) and not rank.doubt):
            continue
        record = own.record(rank)
        if record.measurement is not None:
            own.keep(rank, replace(record, measurement=replace(record.measurement, doubt=differs.get(rank.card, ""))))


def time_finalists(
    context: FlowContext, recorder: Recorder, cards: Cards, planned: Plan, compared_cards: Sequence[CardRecord]
) -> None:
    """Time the best variants of each problem interleaved on one card, preferably one that does not differ.

    The finalists are those that can be the best: their throughput, corrected for their card's known speed, is
    within the cards' tolerance and their own scatter of the best one's. A problem that one card did alone has none. The
    records then hold the final's times, and the sweep's beside them. If a variant that was not among them is
    still faster by the sweep's time, it challenges the winner on the same card.

    Args:
        context: What is the same for all variants of the run.
        recorder: Its scores say how fast each variant was; the records are in its store.
        cards: The GPUs.
        planned: The variants of the run, by position.
        compared_cards: The cards, compared.
    """
    finals = _Finals.of(context, recorder, cards, planned)
    groups: dict[Group, list[Rank]] = {}
    for rank in recorder.scores.values():
        if rank.rate is not None:
            groups.setdefault(rank.group, []).append(rank)
    ids = {card.id for card in cards.cards}
    present = sorted((card for card in compared_cards if card.id in ids), key=_distance)
    alike = [card for card in present if not card.differs] or present[:1]
    contests = [
        (ranks, alike[place % len(alike)].id)
        for place, ranks in enumerate(ranks for ranks in groups.values() if len({rank.card for rank in ranks}) > 1)
    ]
    contests += [(ranks, alike[0].id) for ranks in groups.values() if _alone_and_marked(ranks, alike)]
    fresh, slower = set[str](), {card.id: card.control or 1.0 for card in compared_cards}
    started = []
    for ranks, card in contests:
        chosen = tuple(finalists(ranks, slower, finals))
        started.append((ranks, card, chosen, _start(finals, chosen, card, fresh=card not in fresh)))
        fresh.add(card)
    for ranks, card, chosen, running in started:
        _finish(finals, chosen, running)
        _challenge(finals, ranks, card, {rank.position for rank in chosen})


def _distance(card: CardRecord) -> tuple[bool, float]:
    return bool(card.differs), abs((card.control or 1.0) - 1)


def _alone_and_marked(ranks: Sequence[Rank], alike: Sequence[CardRecord]) -> bool:
    """Return whether a single, differing card did a problem although another card does not differ."""
    (first, *other_cards) = {rank.card for rank in ranks}
    return not other_cards and any(rank.doubt for rank in ranks) and first not in {card.id for card in alike}


def finalists(ranks: Sequence[Rank], slower: Mapping[str, float], finals: _Finals) -> list[Rank]:
    """Return a problem's variants that may be the best, most promising first."""
    ordered, worth = leaders(ranks, FINALISTS, slower), worths(ranks, slower)
    best = worth(ordered[0])
    chosen = []
    for rank in ordered:
        timed = finals.record(rank).measurement
        scatter = timed.samples.spread / 2 if timed else 0.0
        if worth(rank) >= best * (1 - LIMIT - scatter):
            chosen.append(rank)
    return chosen


def _start(finals: _Finals, chosen: Sequence[Rank], card: str, *, fresh: bool) -> list[Future[Ran]]:
    """Queue all rounds on the card; none where an earlier, interrupted run got this far."""
    records = [finals.record(rank) for rank in chosen]
    if all(record.measurement and record.measurement.sweep for record in records):
        return []
    jobs = [finals.job(rank, record) for rank, record in zip(chosen, records, strict=True)]
    policy = flow.policy_of(finals.context.experiment)
    return [
        finals.cards.submit(job, _turn(policy, turn), card=card, fresh=fresh and turn == place == 0)
        for turn in range(ROUNDS)
        for place, job in enumerate(jobs)
    ]


def _turn(policy: Policy, turn: int) -> Policy:
    """Return the policy of one turn: fewer samples, with outputs checked once more on this card."""
    least = policy.min_samples
    return replace(
        policy, check=turn == 0, first_samples=least, max_samples=2 * least, budget_s=policy.budget_s / ROUNDS
    )


def _finish(finals: _Finals, chosen: Sequence[Rank], running: Sequence[Future[Ran]]) -> None:
    """Write the final's times if all rounds ran on one card; otherwise keep the sweep's times, with a note."""
    if not running:
        return
    ran = [interrupts.wait(future.result) for future in running]
    alike = len({outcome.card for outcome in ran}) == 1
    for place, rank in enumerate(chosen):
        record = finals.record(rank)
        if record.measurement is None:
            continue
        turns = [outcome.result.measurement for outcome in ran[place :: len(chosen)]]
        timed = [turn for turn in turns if turn is not None]
        if len(timed) == len(turns) and alike:
            measurement = in_turns(record.measurement, timed, ran[place].card, len(chosen))
        else:
            reason = "its card was lost" if not alike else _failure(ran[place :: len(chosen)])
            note = f"the final on one card failed: {reason}"
            measurement = replace(record.measurement, notes=(*record.measurement.notes, note))
        finals.keep(rank, replace(record, measurement=measurement))


def _failure(ran: Sequence[Ran]) -> str:
    reasons = (outcome.result.failure.reason for outcome in ran if outcome.result.failure)
    return next(reasons, "no measurement")


def _challenge(finals: _Finals, ranks: Sequence[Rank], card: str, timed_positions: set[int]) -> None:
    """Let variants outside the final challenge its winner while one is faster by its sweep's time."""
    for _ in range(CHALLENGES):
        now = [finals.recorder.scores[rank.position] for rank in ranks]
        (best,) = leaders([rank for rank in now if not rank.doubt] or now, 1)
        if best.position in timed_positions or best.rate is None:
            return
        (winner,) = leaders([rank for rank in now if rank.position in timed_positions], 1)
        timed_positions.add(best.position)
        _finish(finals, (winner, best), _start(finals, (winner, best), card, fresh=False))
    _doubt_the_rest(finals, [finals.recorder.scores[rank.position] for rank in ranks], timed_positions)


def _doubt_the_rest(finals: _Finals, ranks: Sequence[Rank], timed_positions: set[int]) -> None:
    """Mark variants that beat the finals' winner only by the sweep's time: they do not win by it."""
    worth = worths(ranks)
    best = max(worth(rank) for rank in ranks if rank.position in timed_positions)
    for rank in ranks:
        if rank.position in timed_positions or rank.doubt or worth(rank) <= best:
            continue
        record = finals.record(rank)
        if record.measurement is not None:
            doubt = "it was not in the final on one card, and is faster than its winner by the sweep's time alone"
            finals.keep(rank, replace(record, measurement=replace(record.measurement, doubt=doubt)))


def in_turns(first: Measurement, turns: Sequence[Measurement], card: str, finalists: int) -> Measurement:
    """Return a final's turns as one measurement, with the sweep's times beside it.

    Args:
        first: The measurement of the sweep, or of an earlier final.
        turns: The measurement of each turn.
        card: Id of the card.
        finalists: Number of interleaved variants.
    """
    sweep = first.sweep or EarlierTiming(first.card, first.samples, first.baseline)
    last = turns[-1]
    bases = [turn.baseline for turn in turns if turn.baseline is not None]
    rivals = finalists - 1
    among = f"interleaved with {rivals} other{'s' if rivals > 1 else ''}" if rivals else "alone"
    samples = _joined([turn.samples for turn in turns])
    note = (
        f"timed again on one card, {among}, in {len(turns)} rounds: median {samples.median:.6g} ms; "
        f"the sweep's was {sweep.samples.median:.6g} ms"
    )
    return replace(
        first,
        samples=samples,
        baseline=_joined(bases) if len(bases) == len(turns) else None,
        baseline_name=last.baseline_name if len(bases) == len(turns) else None,
        others={
            name: _joined([turn.others[name] for turn in turns])
            for name in last.others
            if all(name in turn.others for turn in turns)
        },
        cache=last.cache,
        before=turns[0].before,
        after=last.after,
        card=card,
        doubt="",
        sweep=sweep,
        notes=(*first.notes, note),
    )


def _joined(parts: Sequence[Samples]) -> Samples:
    """Join the samples of several turns, whose batches are interchangeable."""
    begins = [sum(len(samples.ms) for samples in parts[:place]) for place in range(len(parts))]
    return Samples(
        tuple(ms for samples in parts for ms in samples.ms),
        min(samples.batch for samples in parts),
        tuple(begin + index for begin, samples in zip(begins, parts, strict=True) for index in samples.unused),
    )


def repeat_winners(context: FlowContext, recorder: Recorder, cards: Cards, planned: Plan) -> None:
    """Measure the fastest variant of each problem again in a fresh process, shared per card.

    Args:
        context: What is the same for all variants of the run.
        recorder: Its scores say which variants these are; the records are in its store.
        cards: The GPUs.
        planned: The variants of the run, by position.
    """
    finals = _Finals.of(context, recorder, cards, planned)
    policy, fresh = flow.policy_of(context.experiment), set[str]()
    running: list[tuple[Rank, Future[Ran]]] = []
    for winner in leaders(recorder.scores.values(), 1):
        if winner.rate is None:
            continue
        record = finals.record(winner)
        if record.measurement is None or record.measurement.remeasured:
            continue  # an earlier, interrupted run came so far
        card = record.measurement.card
        running.append((winner, cards.submit(finals.job(winner, record), policy, card=card, fresh=card not in fresh)))
        fresh.add(card)
    for winner, future in running:
        record, again = finals.record(winner), interrupts.wait(future.result).result
        if record.measurement is not None:
            finals.keep(winner, replace(record, measurement=repeated(record.measurement, again)))


def repeated(first: Measurement, again: JobResult) -> Measurement:
    """Return a measurement with its repetition's samples, or with a note why it has none."""
    if again.measurement is None:
        reason = again.failure.reason if again.failure else "no measurement"
        note = f"measured once only: the repetition in a fresh process failed: {reason}"
        return replace(first, notes=(*first.notes, note))
    second = again.measurement
    change = second.samples.median / first.samples.median - 1
    note = f"in a fresh process: median {second.samples.median:.6g} ms ({change:+.1%})"
    if second.ratio_to_baseline is not None:
        note += f", {second.ratio_to_baseline:.3f} of {second.baseline_name}'s throughput there"
    notes = (*first.notes, note, *(f"in the fresh process: {text}" for text in second.notes))
    return replace(first, remeasured=second.samples, notes=notes)
