"""Kernels with a grid-wide barrier, which need a cooperative launch.

`grid.sync()` of cooperative groups finds its barrier's memory through the special registers %envreg1 and %envreg2,
which the driver fills only in a cooperative launch.
"""

from __future__ import annotations

import re
from typing import Final

_MARK: Final = "%envreg2"
_FUNCTION: Final = re.compile(r"\.(entry|func)\b\s*(?:\([^()]*\)\s*)?([\w$]+)")


def grid_sync_entries(ptx: str) -> frozenset[str]:
    """Return the symbols of the kernels that may execute a grid-wide barrier.

    Args:
        ptx: A module's text. If a device function has such a barrier, all kernels count.
    """
    if _MARK not in ptx:
        return frozenset()
    functions = list(_FUNCTION.finditer(ptx))
    ends = [*(match.start() for match in functions[1:]), len(ptx)]
    waiting = [match for match, end in zip(functions, ends, strict=True) if _MARK in ptx[match.end() : end]]
    if any(match[1] == "func" for match in waiting):
        waiting = functions
    return frozenset(match[2] for match in waiting if match[1] == "entry")
