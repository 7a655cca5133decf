"""Tests of the shipped templates, most of which launch one program at several sizes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import wraps
from weakref import WeakSet

import pytest

from lab.emulator import api
from lab.emulator.program import Program


@pytest.fixture(scope="session", autouse=True)
def _traced_once() -> Iterator[None]:
    """What the first blocks read again is counted at the first launch of a program only.

    Nothing here reads that count, and every launch executes its first blocks once more for it: a quarter of the time.
    """
    traced, seen = api._traced, WeakSet[Program]()

    @wraps(traced)
    def traced_once(request):
        if request.program in seen:
            return None
        seen.add(request.program)
        return traced(request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api, "_traced", traced_once)
        yield
