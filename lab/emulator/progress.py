"""What counts as progress: memory that changes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class MemoryProgress:
    """Changes of memory in a launch.

    Attributes:
        changes: Stores and updates that changed memory; while `exact` is False, every store counts as one.
        exact: Stores look whether memory changes, which takes time.
    """

    changes: int = 0
    exact: bool = False
