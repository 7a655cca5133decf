"""The fastest variant of each problem: a sentence for each where they are few, otherwise a summary and a table.

Only variants of the same problem compete: each problem has its own winner and baselines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from lab.measured.timing import Kind
from lab.recorded.run_records import RunRecord, VariantRecord
from lab.report.columns import Column, Value
from lab.report.registry import errors
from lab.store import figures
from lab.store.figures import Basis, Response, name_of, percent

MOST_SENTENCES: Final = 4
"""Most problems that get a sentence each; beyond that, the opening has a summary and the page a table."""

MOST_ROWS: Final = 1000
"""Most problems in the table."""

_NAMED: Final = 3
"""Most problems, and most kernels, that a summary names."""

_SIGN: Final = {Basis.MEASURED: "", Basis.ESTIMATE: "≈ ", Basis.SCORE: "≈ ", Basis.CEILING: "≤ "}
_WORDS: Final = {
    Basis.MEASURED: "reach",
    Basis.ESTIMATE: "have estimates of",
    Basis.SCORE: "are predicted to reach",
    Basis.CEILING: "have predicted ceilings of",
}


@dataclass(frozen=True, slots=True)
class Winner:
    """The best variant of a problem.

    Attributes:
        problem: The problem's label.
        record: The variant.
        value: Its response.
        tied: Variants of the problem that cannot be told apart from it, including this one.
        variants: Variants of the problem that have a response.
    """

    problem: str
    record: VariantRecord
    value: float
    tied: int
    variants: int

    @property
    def name(self) -> str:
        """Its name in a sentence or a cell, without the problem's label."""
        return name_of(self.record, without=self.problem)

    @property
    def ratios(self) -> Mapping[str, float]:
        """Its throughput over that of each baseline timed beside it, by the baseline's name."""
        timed = self.record.measurement
        names = () if timed is None else (timed.baseline_name, *timed.others)
        by_baseline = {name: timed.ratio_to(name) for name in names if timed and name}
        return {name: ratio for name, ratio in by_baseline.items() if ratio is not None}


@dataclass(frozen=True, slots=True)
class WinnerRow:
    """A problem in the table.

    Attributes:
        problem: Its label.
        variant: Id of the winner.
        name: The winner's name, or how many variants share the best prediction.
        values: A value for each column.
    """

    problem: str
    variant: str
    name: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class WinnerTable:
    """The table of winners, problem by problem.

    Attributes:
        columns: Figures of the winners.
        rows: At most `MOST_ROWS`, in the experiment's order.
        problems: Number of problems with a winner.
    """

    columns: tuple[Column, ...]
    rows: tuple[WinnerRow, ...]
    problems: int


def winners(run: RunRecord, records: tuple[VariantRecord, ...], response: Response) -> tuple[Winner, ...]:
    """Return the winner of each problem that has one, in the experiment's order."""
    best_of_problems = []
    for label, group in figures.by_problem(run, records).items():
        if best := figures.ranked(group, response):
            values = [response.of(record) or 0.0 for record in best]
            tied = sum(response.tied(best[0], record) for record in best)
            best_of_problems.append(Winner(label, best[0], values[0], tied, len(best)))
    return tuple(best_of_problems)


def sentences(fastest: Sequence[Winner], response: Response) -> tuple[str, list[str]]:
    """Write the headline and the opening's sentences about the winners; there must be at least one."""
    rates = [winner.value for winner in fastest]
    low, high = response.text(min(rates)), response.text(max(rates))
    span = f"{low} {response.unit}" if low == high else f"{low} to {high} {response.unit}"
    headline = f"{_SIGN[response.basis]}{span} over {len(fastest)} problems"
    reached = f"The best variants of {len(fastest)} problems {_WORDS[response.basis]}"
    if response.basis is Basis.CEILING and low == high:
        return headline, [f"{reached} {span}."]  # one limit for all: nobody wins
    if len(fastest) <= MOST_SENTENCES:
        return headline, [f"{reached} {span}.", *(_sentence(winner, response) for winner in fastest)]
    middle = response.text(median(rates))
    lines = [
        f"{reached} {_range({w.problem: w.value for w in fastest}, response.format)} {response.unit}, median {middle}."
    ]
    if response.kind is Kind.MEASURED:
        baselines = dict.fromkeys(name for winner in fastest for name in winner.ratios)
        lines += [_against(name, fastest) for name in baselines]
        lines += _again(fastest)
    if response.basis is not Basis.CEILING:
        lines += _kernels(fastest)
    return headline, lines


def table(
    run: RunRecord, records: tuple[VariantRecord, ...], columns: Sequence[Column], response: Response
) -> WinnerTable | None:
    """Make the table; None where the opening has a sentence for each problem."""
    fastest = winners(run, records, response) if run.problem_axes else ()
    if len(fastest) <= MOST_SENTENCES:
        return None
    listed = fastest[:MOST_ROWS]
    chosen = telling_columns(columns, [winner.record for winner in listed], response)
    rows = tuple(
        WinnerRow(
            winner.problem, winner.record.variant, _cell(winner, response), tuple(c.get(winner.record) for c in chosen)
        )
        for winner in listed
    )
    return WinnerTable(chosen, rows, len(fastest))


def telling_columns(
    columns: Sequence[Column], records: Sequence[VariantRecord], response: Response
) -> tuple[Column, ...]:
    """Return the columns of a short table: throughput, spread, ratios, ceiling and its limit, where present."""
    by_name = {column.name: column for column in columns}
    names = [response.column]
    if response.kind is Kind.MEASURED:
        again = figures.column_name("remeasured_tflops", response.unit)
        names += ["measured_spread", again, "ratio_to_baseline", *(n for n in by_name if n.startswith("ratio_to_"))]
        names += [name for name in errors.telling(records) if name in by_name]
    elif response.basis in (Basis.ESTIMATE, Basis.SCORE):
        names.append(figures.column_name("predicted_tflops", response.unit))
    names += ["predicted_bound", "estimated_loss", "counted_wait"]
    first = {record.measurement.baseline_name for record in records if record.measurement}
    present = [by_name[name] for name in dict.fromkeys(names) if any(by_name[name].get(r) is not None for r in records)]
    if len(first) == 1 and (name := first.pop()):
        return tuple(replace(c, title=f"ratio to {name}") if c.name == "ratio_to_baseline" else c for c in present)
    return tuple(present)


def _cell(winner: Winner, response: Response) -> str:
    if response.kind is Kind.PREDICTED and winner.tied > 1:
        return f"{winner.tied} of {winner.variants} variants"
    return winner.name


def _sentence(winner: Winner, response: Response) -> str:
    """Describe one problem's winner."""
    tie = f" (tied with {winner.tied - 1} of {winner.variants})" if winner.tied > 1 else ""
    if response.kind is Kind.MEASURED:
        tie = ""  # the scatter of each is in the table
    text = f"{winner.problem}: {winner.name} with {response.text(winner.value)} {response.unit}{tie}"
    timed = winner.record.measurement if response.kind is Kind.MEASURED else None
    if timed and timed.ratio_to_baseline is not None:
        text += f", {timed.ratio_to_baseline:.3f} times {timed.baseline_name or 'the baseline'}"
    if timed and timed.remeasured:
        text += f"; {response.text(winner.record.rate(timed.remeasured.median))} in a fresh process"
    return f"{text}."


def _range(values: Mapping[str, float], form: str) -> str:
    """Format the least and the largest value with their problems: `0.972 (n=1024) to 1.052 (n=1536)`."""
    (low, least), *_, (high, greatest) = sorted(
        ((value, problem) for problem, value in values.items()), key=lambda v: v[0]
    )
    ends = format(low, form), format(high, form)
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} ({least}) to {ends[1]} ({greatest})"


def _against(baseline: str, fastest: Sequence[Winner]) -> str:
    """Report how much faster or slower than a baseline the winners are, naming problems of the rarer case."""
    ratios = {winner.problem: winner.ratios[baseline] for winner in fastest if baseline in winner.ratios}
    above = sorted((problem for problem, ratio in ratios.items() if ratio > 1), key=lambda problem: -ratios[problem])
    below = sorted((problem for problem, ratio in ratios.items() if ratio < 1), key=lambda problem: ratios[problem])
    text = f"Compared with {baseline}"
    if len(ratios) < len(fastest):
        text += f", which was timed in {len(ratios)} of them,"
    text += f" they reach {_range(ratios, '.3f')} times its throughput"
    if len(set(ratios.values())) > 1:
        text += f", median {median(ratios.values()):.3f}"
    if len(above) == len(ratios) or len(below) == len(ratios):
        return f"{text}: {'faster' if above else 'slower'} in all."
    rare, often = (below, above) if len(below) <= len(above) else (above, below)
    examples = ", ".join(rare[:_NAMED]) + (f" and {len(rare) - _NAMED} others" if len(rare) > _NAMED else "")
    side, opposite = ("slower", "faster") if rare is below else ("faster", "slower")
    level = len(ratios) - len(above) - len(below)
    ties = f", equal in {level}" if level else ""
    return f"{text}: {opposite} in {len(often)} problems, {side} in {len(rare)} ({examples}){ties}."


def _again(fastest: Sequence[Winner]) -> list[str]:
    """Report how much the winners' throughput changed in a fresh process."""
    timed = [winner.record.measurement for winner in fastest]
    changes = [
        abs(measurement.samples.median / measurement.remeasured.median - 1)
        for measurement in timed
        if measurement and measurement.remeasured
    ]
    if not changes:
        return []
    text = f"Measured again in fresh processes, their throughput differs by up to {percent(max(changes))}"
    return [f"{text}, median {percent(median(changes))}."]


def _kernels(fastest: Sequence[Winner]) -> list[str]:
    """Report how often each kernel wins; empty where one kernel always wins."""
    counts = Counter(winner.record.kernel for winner in fastest).most_common()
    if len(counts) == 1:
        return []
    leading = "; ".join(f"{kernel} in {wins}" for kernel, wins in counts[:_NAMED])
    remainder = counts[_NAMED:]
    remainder_text = f"; {len(remainder)} others in {sum(wins for _, wins in remainder)}" if remainder else ""
    return [f"Winning kernels: {leading}{remainder_text}."]
