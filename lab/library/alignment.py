"""Where the columns of matrices begin: what of a size decides how wide copies can be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lab.base.elements import ELEMENT_BYTES
from lab.base.sizes import AXES

WIDEST_BYTES: Final = 16
"""The most bytes that a thread copies at once (PTX ISA, ld.v4.b32 and cp.async). Bulk copies want columns that begin at
multiples of as many."""

VECTOR: Final = 4
"""The elements of such a copy, of float32."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """Which dimensions decide where columns begin, and by what they should be divided.

    Attributes:
        vector: Elements of the widest copies: a kernel may take another path where this does not divide a dimension.
        decides: Of m, n and k, whether the columns of some matrix are that long.
    """

    vector: int = VECTOR
    decides: tuple[bool, bool, bool] = (True, True, True)

    @classmethod
    def of(cls, dtype: str, layout: str) -> Alignment:
        """Return that of column-major matrices without padding.

        Args:
            dtype: Element type of A, B and C.
            layout: BLAS letters of A and B.
        """
        columns = {"m", "m" if layout[0] == "n" else "k", "k" if layout[1] == "n" else "n"}
        return cls(max(1, WIDEST_BYTES // ELEMENT_BYTES[dtype]), tuple(axis in columns for axis in AXES))  # type: ignore[arg-type]

    def divided(self, sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether wide copies reach along m, n and k, n sizes x 3; true for what decides nothing.

        Args:
            sizes: n x axes: m, n, k, and of batches their products, which change no copy.
        """
        found: NDArray[np.bool_] = (sizes[:, : len(AXES)] % self.vector == 0) | ~np.array(self.decides)
        return found


ALL: Final = Alignment()
"""Of float32, wherever every dimension decides."""
