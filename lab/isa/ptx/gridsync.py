"""Kernels whose blocks wait for the whole grid, and so need a cooperative launch.

`grid.sync()` of cooperative groups finds the memory through which the blocks meet in the special registers %envreg1 and
%envreg2, which only the driver fills, and only in a cooperative launch.
"""

from __future__ import annotations

import re
from typing import Final

_MARK: Final = "%envreg2"
_FUNCTION: Final = re.compile(r"\.(entry|func)\b\s*(?:\([^()]*\)\s*)?([\w$]+)")


def grid_sync_entries(ptx: str) -> frozenset[str]:
    """Return the symbols of the kernels in which the whole grid may meet.

    Args:
        ptx: A module's text. Where a function that is not a kernel waits, all kernels count.
    """
    if _MARK not in ptx:
        return frozenset()
    found = list(_FUNCTION.finditer(ptx))
    ends = [*(match.start() for match in found[1:]), len(ptx)]
    waiting = [match for match, end in zip(found, ends, strict=True) if _MARK in ptx[match.end() : end]]
    if any(match[1] == "func" for match in waiting):
        waiting = found
    return frozenset(match[2] for match in waiting if match[1] == "entry")
