"""How a run's figures came out when it was repeated in another process."""

from __future__ import annotations

from lab.recorded.run_records import RepeatRecord
from lab.store.figures import Response, percent


def sentences(found: RepeatRecord, response: Response) -> tuple[str, ...]:
    """Say how the figure that ranks the variants came out again, and what that means."""
    said = [_ranked(found, response)]
    if found.winners and not _equal(found):
        again = f"{found.same_winners} of {found.winners} best variants are the same"
        if found.winners == 1:
            again = "the best variant is the same" if found.same_winners else "another variant is the best"
        said.append(f"In the second run {again}{_correlation(found)}.")
    if found.not_measured:
        said.append("No times were compared: this shows that the figures depend only on the input.")
    elif found.outside:
        said.append(
            f"{found.outside} of {found.variants} variants differ by more than the scatter within the runs explains: "
            "two sessions differ in other ways, too."
        )
    return tuple(said)


def facts(found: RepeatRecord) -> str:
    """Say what was compared."""
    text = (
        f"The second run began {found.started}. Of {found.variants} variants of both runs "
        f"{found.same_code} have the same machine code and {found.same_status} the same status"
    )
    return f"{text}; {found.only_one} were tried in only one run." if found.only_one else f"{text}."


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
