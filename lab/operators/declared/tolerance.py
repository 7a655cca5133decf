"""How far an output may be off, in a user's own words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.operators.base import Floats


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far an output may be off.

    Attributes:
        relative: Share of each value; without `absolute`, of the values' root mean square if that is larger.
        absolute: What is allowed besides, as `atol` of ``numpy.allclose``; None where the file gives none. Infinite
            for an array whose contents do not matter.
    """

    relative: float
    absolute: float | None = None

    @property
    def ignores_contents(self) -> bool:
        """Whether an output may hold anything, and may stay unwritten."""
        return self.absolute == math.inf

    def bound(self, held: NDArray[Any]) -> Floats:
        """Return the largest error of each value.

        Without an absolute part, elements that are small because larger ones cancel in them are judged by the typical
        size of the values.
        """
        with np.errstate(all="ignore"):
            size = np.abs(held.astype(np.complex128 if held.dtype.kind == "c" else np.float64))
            if self.absolute is not None:
                return np.asarray(self.absolute + self.relative * size, np.float64)
            finite = size[np.isfinite(size)]
            typical = math.sqrt(float(np.mean(finite * finite))) if finite.size else 0.0
            return np.asarray(self.relative * np.maximum(size, typical), np.float64)
