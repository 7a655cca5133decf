"""Comparison of a run's figures with those of its repetition in another process."""

from __future__ import annotations

from lab.recorded.run_records import RepeatRecord
from lab.store.figures import Response, percent


def sentences(repeat: RepeatRecord, response: Response) -> tuple[str, ...]:
    """Describe how the ranking figure changed in the second run, and what that means."""
    lines = [_ranked(repeat, response)]
    if repeat.winners and not _equal(repeat):
        again = f"{repeat.same_winners} of {repeat.winners} best variants are the same"
        if repeat.winners == 1:
            again = "the best variant is the same" if repeat.same_winners else "another variant is the best"
        lines.append(f"In the second run {again}{_correlation(repeat)}.")
    if repeat.not_measured:
        lines.append("No times were compared: this shows that the figures depend only on the input.")
    elif repeat.outside:
        lines.append(
            f"{repeat.outside} of {repeat.variants} variants differ by more than the scatter within the runs explains: "
            "two sessions differ in other ways, too."
        )
    return tuple(lines)


def facts(repeat: RepeatRecord) -> str:
    """Describe what was compared."""
    text = (
        f"The second run began {repeat.started}. Of {repeat.variants} variants of both runs "
        f"{repeat.same_code} have the same machine code and {repeat.same_status} the same status"
    )
    return f"{text}; {repeat.only_one} were tried in only one run." if repeat.only_one else f"{text}."


def _equal(repeat: RepeatRecord) -> bool:
    return not any(repeat.differences.values())


def _ranked(repeat: RepeatRecord, response: Response) -> str:
    if not repeat.figures:
        return "The run was repeated; no variant has a figure in both runs."
    first, again = repeat.figures[0], f"Run again in another process, the {response.kind} {response.title}"
    if _equal(repeat):
        return f"{again} is the same for all {first.variants} variants."
    return (
        f"{again} differs by {percent(first.median, 2)} in the median, by less than {percent(first.p95, 2)} for "
        f"95\N{NO-BREAK SPACE}% of {first.variants} variants, and by {percent(abs(first.largest), 2)} at most."
    )


def _correlation(repeat: RepeatRecord) -> str:
    if repeat.rank_correlation is None:
        return ""
    return f", and Spearman's rank correlation of both runs is {repeat.rank_correlation:.3f}"
