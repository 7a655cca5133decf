"""Column alignment of matrices: the dimensions that decide how wide copies can be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lab.base.elements import ELEMENT_BYTES
from lab.base.sizes import AXES

WIDEST_BYTES: Final = 16
"""Bytes of the widest copy of one thread (PTX ISA: ld.v4.b32, cp.async). TMA needs columns aligned to this, too."""

VECTOR: Final = 4
"""float32 elements per widest copy."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """The dimensions that decide the alignment of columns, and the vector length that must divide them.

    Attributes:
        vector: Elements of the widest copies: a kernel may take another path where this does not divide a dimension.
        decides: Of m, n and k, whether the columns of some matrix are that long.
    """

    vector: int = VECTOR
    decides: tuple[bool, bool, bool] = (True, True, True)

    @classmethod
    def of(cls, dtype: str, layout: str) -> Alignment:
        """Return the alignment of column-major matrices without padding.

        Args:
            dtype: Element type of A, B and C.
            layout: BLAS letters of A and B.
        """
        columns = {"m", "m" if layout[0] == "n" else "k", "k" if layout[1] == "n" else "n"}
        return cls(max(1, WIDEST_BYTES // ELEMENT_BYTES[dtype]), tuple(axis in columns for axis in AXES))  # type: ignore[arg-type]

    def divided(self, sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether wide copies are possible along m, n and k: sizes x 3.

        Args:
            sizes: n x axes: m, n, k, and of batches their products, which change no copy.
        """
        divisible: NDArray[np.bool_] = (sizes[:, : len(AXES)] % self.vector == 0) | ~np.array(self.decides)
        return divisible


ALL: Final = Alignment()
"""The alignment of float32 matrices if every dimension decides it."""
