from __future__ import annotations

from pathlib import Path

import pytest

from lab.base.errors import StoreError
from lab.store.resume import differing

CONDITIONS = {"seed": 0, "GPU": "H200", "sizes": (1, 2)}


def compared(state: dict[str, object] | None, *, resume: bool | None, **changed: object) -> str | None:
    now = {**CONDITIONS, **changed}
    return differing(state, now, resume=resume, folder=Path("there"), content="records were made")


def earlier(*, finished: bool) -> dict[str, object]:
    """As JSON gives it back: lists for tuples."""
    return {"conditions": {"seed": 0, "GPU": "H200", "sizes": [1, 2]}, "finished": finished}


@pytest.mark.parametrize(
    ("resume", "finished", "expected"),
    [(None, False, ""), (None, True, None), (True, False, ""), (True, True, ""), (False, False, None)],
)
def test_when_a_run_is_resumed(resume: bool | None, finished: bool, expected: str | None) -> None:
    assert compared(earlier(finished=finished), resume=resume) == expected


@pytest.mark.parametrize("resume", [None, True, False])
def test_without_an_earlier_run_everything_is_new(resume: bool | None) -> None:
    assert compared(None, resume=resume) is None


def test_other_conditions_are_named() -> None:
    assert compared(earlier(finished=False), resume=None, GPU="H100", seed=1) == "seed, GPU"


def test_a_condition_that_the_earlier_run_did_not_know_differs() -> None:
    assert compared(earlier(finished=False), resume=None, cache="cold") == "cache"


def test_what_was_asked_for_and_cannot_be_done_is_an_error() -> None:
    with pytest.raises(StoreError, match=r"cannot resume the run in there: its records were made with another seed; "):
        compared(earlier(finished=True), resume=True, seed=1)
