"""Tests of the shipped templates, most of which launch one program at several sizes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import wraps
from typing import Final

import pytest

from lab.emulator import api

_SEEN: Final = set[str]()
"""Names of kernels that this process has traced."""


@pytest.fixture(scope="module", autouse=True)
def _traced_once() -> Iterator[None]:
    """What the first blocks read again is counted at the first launch of a kernel of a name only.

    Nothing here reads that count, and every launch executes its first blocks once more for it: a quarter of the time.
    It ends with the module, since tests of other rooms do read it.
    """
    traced = api._traced

    @wraps(traced)
    def traced_once(request):
        if request.program.kernel.name in _SEEN:
            return None
        _SEEN.add(request.program.kernel.name)
        return traced(request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api, "_traced", traced_once)
        yield
