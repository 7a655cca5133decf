"""Tests of the shipped templates, most of which launch one program at several sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Final

import pytest
from quick_conditions import QUICKER

from lab.emulator import api
from lab.emulator.results import BlockWait
from lab.stages import conditions as stage
from lab.stages import emulate
from lab.stages.conditions import other_conditions

ConditionsCheck = Callable[[Any], Any]
"""`lab.stages.conditions.other_conditions`."""

_SEEN: Final = set[str]()
"""Names of kernels that this process has traced."""


@pytest.fixture(scope="module", autouse=True)
def _traced_once() -> Iterator[None]:
    """Trace block reuse only at the first launch of each kernel name.

    Nothing here reads that count, nor which blocks wait for others, and every launch executes its first blocks once
    more for each: a quarter of the time. It ends with the module, since tests of other rooms do read them.
    """
    trace = api._traced

    @wraps(trace)
    def traced_once(request, tables, traced):
        if request.program.kernel.name in _SEEN:
            return None, ()
        _SEEN.add(request.program.kernel.name)
        return trace(request, tables, traced)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api, "_traced", traced_once)
        patch.setattr(api, "_block_waits", lambda request: BlockWait.NONE)
        yield


@pytest.fixture(autouse=True)
def _no_conditions(monkeypatch: pytest.MonkeyPatch) -> ConditionsCheck:
    """Execute kernels under no other conditions, which take twice as long as the first execution.

    They are for the tests that ask whether a kernel is right (`conditions`), not for those that count or plant faults.
    """
    monkeypatch.setattr(emulate, "other_conditions", lambda judged: ((), ()))
    return other_conditions


@pytest.fixture
def conditions(_no_conditions: ConditionsCheck, monkeypatch: pytest.MonkeyPatch) -> None:
    """Execute each text under other conditions, too, at a test's first point only: begin with the largest.

    They depend on the instructions of a text rather than on sizes. A suspicion of a shipped kernel fails the test. The
    second launch has other inputs and another order at once: the stage tries each by itself, to name the cause, and
    executes a kernel five times.
    """
    monkeypatch.setattr(stage, "_CHECKS", QUICKER)
    tried = set[str]()

    def once(judged):
        if judged.ptx in tried:
            return (), ()
        tried.add(judged.ptx)
        suspicions, untried = _no_conditions(judged)
        assert suspicions == (), "; ".join(suspicion.summary for suspicion in suspicions)
        return suspicions, untried

    monkeypatch.setattr(emulate, "other_conditions", once)
