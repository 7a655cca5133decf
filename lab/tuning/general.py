"""Kernels with size requirements in a library's logic.

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
from lab.library.batch_expressions import takes
from lab.library.grid import Floats, Grid
from lab.library.package import LibraryKernel
from lab.library.tree import Logic


@dataclass(frozen=True)
class Requiring:
    """The kernels of a problem type that have size requirements.

    Attributes:
        kernels: By name.
        layout: BLAS letters of A and B.
        general: What picks another kernel.
    """

    kernels: Mapping[str, LibraryKernel]
    layout: str
    general: Logic

    def pick(self, logic: Logic, size: Size) -> str:
        """Return the name of the kernel that runs at a size without padding: the logic's pick, else the general one."""
        name = logic.kernels[logic.select(*size)]
        if name not in self.kernels or takes(self.kernels[name], self.layout, np.array([size], dtype=np.int64))[0]:
            return name
        return self.general.kernels[self.general.select(*size)]

    def with_others(self, grid: Grid) -> Grid:
        """Return a grid with the time of the general logic's pick wherever a kernel does not support the size.

        A kernel has no time there where the pick has none.
        """
        columns = self._columns(grid)
        if not columns:
            return grid
        times = np.array(grid.times, dtype=np.float64)
        fallback_times = self._others(grid, times)
        for i, able in columns.items():
            times[:, i] = np.where(able, times[:, i], fallback_times)
        return Grid(grid.sizes, grid.kernels, tuple(map(tuple, times.tolist())))

    def gains(self, grid: Grid) -> dict[str, Floats]:
        """Return each kernel's gain on the general logic's pick, as a share of the fastest kernel's time.

        Where the pick has no time, the fastest kernel without requirements stands for it; where none has one, a kernel
        gains its whole time.

        Returns:
            Gains at the grid's sizes by the kernels' names; NaN where a kernel cannot take the size, minus infinity
            where it can but has no time.
        """
        columns, losses = self._columns(grid), grid.losses
        free = [i for i in range(len(grid.kernels)) if i not in columns]
        fastest = np.fmin.reduce(losses[:, free], axis=1, initial=np.nan)
        fallback_losses = self._others(grid, losses)
        fallback_losses = np.where(np.isnan(fallback_losses), fastest, fallback_losses)
        gained = {}
        for i, able in columns.items():
            gain = np.where(np.isnan(fallback_losses), 1.0, fallback_losses - losses[:, i])
            gained[grid.kernels[i]] = np.where(able, np.where(np.isnan(losses[:, i]), -np.inf, gain), np.nan)
        return gained

    def _columns(self, grid: Grid) -> dict[int, NDArray[np.bool_]]:
        """Return the kernels' columns, and for each the grid's sizes it supports."""
        sizes = np.array(grid.sizes, dtype=np.int64)
        return {
            i: takes(self.kernels[name], self.layout, sizes)
            for i, name in enumerate(grid.kernels)
            if name in self.kernels
        }

    def _others(self, grid: Grid, values: Floats) -> Floats:
        """Return the general picks' values from a table of sizes x kernels; NaN for a pick that the grid lacks."""
        place = {name: i for i, name in enumerate(grid.kernels)}
        picks = (self.general.kernels[self.general.select(*size)] for size in grid.sizes)
        return np.array([values[row, place[name]] if name in place else np.nan for row, name in enumerate(picks)])
