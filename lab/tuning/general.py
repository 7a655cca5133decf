"""Kernels that cannot take every size, in the logic of a library.

Such a kernel is one whose template requires something of sizes, as tensor maps do of leading dimensions. A library
that has it needs a second, general logic of kernels that take whatever comes. At a size that a kernel cannot take,
picking it costs what the general logic's pick takes there, since that one runs when the library is called. What it
gains on that pick where it runs itself decides whether it may be picked at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.base.sizes import Size
from lab.library.arrays import takes
from lab.library.grid import Floats, Grid
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
        columns = self._columns(grid)
        if not columns:
            return grid
        times = np.array(grid.times, dtype=np.float64)
        others = self._others(grid, times)
        for i, able in columns.items():
            times[:, i] = np.where(able, times[:, i], others)
        return Grid(grid.sizes, grid.kernels, tuple(map(tuple, times.tolist())))

    def gains(self, grid: Grid) -> dict[str, Floats]:
        """Return what each kernel gains on the general logic's pick, as a share of the fastest kernel's time.

        Where the pick has no time, the fastest kernel without requirements stands for it; where none has one, a kernel
        gains its whole time.

        Returns:
            Gains at the grid's sizes by the kernels' names; NaN where a kernel cannot take the size, minus infinity
            where it can but has no time.
        """
        columns, losses = self._columns(grid), grid.losses
        free = [i for i in range(len(grid.kernels)) if i not in columns]
        fastest = np.fmin.reduce(losses[:, free], axis=1, initial=np.nan)
        others = self._others(grid, losses)
        others = np.where(np.isnan(others), fastest, others)
        gained = {}
        for i, able in columns.items():
            gain = np.where(np.isnan(others), 1.0, others - losses[:, i])
            gained[grid.kernels[i]] = np.where(able, np.where(np.isnan(losses[:, i]), -np.inf, gain), np.nan)
        return gained

    def _columns(self, grid: Grid) -> dict[int, NDArray[np.bool_]]:
        """Return the columns of the kernels, and which of the grid's sizes each takes."""
        sizes = np.array(grid.sizes, dtype=np.int64)
        return {
            i: takes(self.kernels[name], self.layout, sizes)
            for i, name in enumerate(grid.kernels)
            if name in self.kernels
        }

    def _others(self, grid: Grid, values: Floats) -> Floats:
        """Return what the general logic's picks have of a table of sizes x kernels; NaN for one that the grid lacks."""
        place = {name: i for i, name in enumerate(grid.kernels)}
        picks = (self.general.kernels[self.general.select(*size)] for size in grid.sizes)
        return np.array([values[row, place[name]] if name in place else np.nan for row, name in enumerate(picks)])
