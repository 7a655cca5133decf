"""Kernels that cannot take every size, in the logic of a library.

Such a kernel is one whose template requires something of sizes, as tensor maps do of leading dimensions. A library
that has it needs a second, general logic of kernels that take whatever comes. At a size that a kernel cannot take,
picking it costs what the general logic's pick takes there, since that one runs when the library is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lab.base.sizes import Size
from lab.library.arrays import takes
from lab.library.grid import Grid
from lab.library.package import LibraryKernel
from lab.library.tree import Logic


@dataclass(frozen=True)
class Requiring:
    """The kernels of a problem type that cannot take every size.

    Attributes:
        kernels: By name.
        layout: BLAS letters of A and B.
        general: What picks another kernel.
    """

    kernels: Mapping[str, LibraryKernel]
    layout: str
    general: Logic

    def pick(self, logic: Logic, size: Size) -> str:
        """Return the name of the kernel that runs at a size, of matrices without padding; a logic decides first."""
        name = logic.kernels[logic.select(*size)]
        if name not in self.kernels or takes(self.kernels[name], self.layout, np.array([size], dtype=np.int64))[0]:
            return name
        return self.general.kernels[self.general.select(*size)]

    def with_others(self, grid: Grid) -> Grid:
        """Return a grid with the time of the general logic's pick wherever a kernel cannot take the size.

        A kernel has no time there where the pick has none.
        """
        columns = [i for i, name in enumerate(grid.kernels) if name in self.kernels]
        if not columns:
            return grid
        sizes, times = np.array(grid.sizes, dtype=np.int64), np.array(grid.times, dtype=np.float64)
        place = {name: i for i, name in enumerate(grid.kernels)}
        picks = (self.general.kernels[self.general.select(*size)] for size in grid.sizes)
        others = np.array([times[row, place[name]] if name in place else np.nan for row, name in enumerate(picks)])
        for i in columns:
            able = takes(self.kernels[grid.kernels[i]], self.layout, sizes)
            times[:, i] = np.where(able, times[:, i], others)
        return Grid(grid.sizes, grid.kernels, tuple(map(tuple, times.tolist())))
