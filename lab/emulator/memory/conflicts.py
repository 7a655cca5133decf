"""Conflicts: accesses to memory that should not have happened together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.emulator.arrays import Indices
from lab.emulator.results import FindingKind


@dataclass(frozen=True, slots=True, eq=False)
class Conflict:
    """A fault of some threads of one access. The arrays have one element for each piece at fault.

    Attributes:
        kind: `uninitialised-read`, `shared-race`, `async-not-waited`, `mbarrier-misuse` or `missing-proxy-fence`.
        which: Positions, in the checked access, of the threads at fault.
        other_thread: The batch's indices of the other threads; None where there is no other side.
        other_instruction: Indices of the other instructions; None where it is the same instruction.
        other_kind: What the other threads did, `read` or `write`.
        detail: One sentence.
    """

    kind: FindingKind
    which: Indices
    other_thread: NDArray[np.integer] | None = None
    other_instruction: NDArray[np.integer] | None = None
    other_kind: str = "write"
    detail: str = ""
