"""What a run's repetition in another process says about its figures, in words."""

from __future__ import annotations

from lab.store.figures import Response, percent
from lab.store.model import RepeatRecord


def sentences(found: RepeatRecord, response: Response) -> tuple[str, ...]:
    """How the figure that the variants are ranked by came out again, and what the reader may make of it."""
    said = [_ranked(found, response)]
    if found.winners and not _equal(found):
        again = f"{found.same_winners} of {found.winners} best variants are the same"
        if found.winners == 1:
            again = "the best variant is the same" if found.same_winners else "another variant is the best"
        said.append(f"In the second run {again}{_correlation(found)}.")
    if found.not_measured:
        said.append("No time was compared: this says that the figures depend on nothing but the input.")
    elif found.outside:
        said.append(
            f"{found.outside} of {found.variants} variants differ by more than the scatter within the runs explains: "
            "two sessions differ in more than that."
        )
    return tuple(said)


def facts(found: RepeatRecord) -> str:
    """What was compared."""
    text = (
        f"The second run began {found.started}. Of {found.variants} variants of both runs "
        f"{found.same_code} have the same machine code and {found.same_status} the same status"
    )
    return f"{text}; {found.only_one} were tried in one run alone." if found.only_one else f"{text}."


def _equal(found: RepeatRecord) -> bool:
    return not any(found.differences.values())


def _ranked(found: RepeatRecord, response: Response) -> str:
    if not found.figures:
        return "The run was repeated; no variant has a figure in both runs."
    first, again = found.figures[0], f"Run again in another process, the {response.kind} {response.title}"
    if _equal(found):
        return f"{again} is the same for all {first.variants} variants."
    return (
        f"{again} differs by {percent(first.median, 2)} in the median, by less than {percent(first.p95, 2)} for "
        f"95\N{NO-BREAK SPACE}% of {first.variants} variants, and by {percent(abs(first.largest), 2)} at most."
    )


def _correlation(found: RepeatRecord) -> str:
    if found.rank_correlation is None:
        return ""
    return f", and Spearman's rank correlation of both runs is {found.rank_correlation:.3f}"
