"""Progress tracking: changes of memory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class MemoryProgress:
    """The memory changes of a launch.

    Attributes:
        changes: Stores and updates that changed memory; while `exact` is False, every store counts as one.
        exact: Stores check whether memory changes, which takes time.
    """

    changes: int = 0
    exact: bool = False
