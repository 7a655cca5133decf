"""Measured kernel times per size, and the loss of a selection against the best kernels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lab.base.errors import UserError
from lab.base.sizes import BATCH_AXES, Size

LARGEST = 2**31 - 1
"""The largest dimension: kernels take sizes as 32-bit integers."""


Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Grid:
    """Kernel times at a set of sizes.

    Attributes:
        sizes: Each once.
        kernels: Names, each once.
        times: For each size a time in ms for each kernel; NaN where it was not measured.
    """

    sizes: tuple[Size, ...]
    kernels: tuple[str, ...]
    times: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        """Check sizes, kernels and times.

        Raises:
            UserError: A size has no time or stands there twice, or a time is not valid.
        """
        if not self.sizes or len(set(self.sizes)) != len(self.sizes) or len(set(self.kernels)) != len(self.kernels):
            accepted = "at least one size, no size and no kernel twice"
            raise UserError("the grid's sizes or kernels are wrong", code="wrong-value", key="sizes", accepted=accepted)
        if len(self.times) != len(self.sizes) or any(len(row) != len(self.kernels) for row in self.times):
            accepted = f"{len(self.sizes)} rows of {len(self.kernels)} times"
            raise UserError(
                "the grid's times do not fit its sizes and kernels", code="mismatch", key="times", accepted=accepted
            )
        times = np.array(self.times, dtype=np.float64)
        nothing: NDArray[np.bool_] = np.logical_and.reduce(np.isnan(times), axis=1)
        wrong: NDArray[np.bool_] = np.logical_or.reduce((times <= 0) | np.isinf(times), axis=1)
        for i, (size, row) in enumerate(zip(self.sizes, self.times, strict=True)):
            check_size(*size)
            if nothing[i]:
                raise UserError(
                    "no kernel was measured at a size",
                    code="nothing-left",
                    key="times",
                    found=size,
                    accepted="at least one",
                )
            if wrong[i]:
                accepted = "ms above 0, or NaN where a kernel was not measured"
                raise UserError(
                    f"a time at {size} is not valid", code="wrong-value", key="times", found=row, accepted=accepted
                )

    @classmethod
    def of(cls, times: Mapping[Size, Mapping[str, float]]) -> Grid:
        """Make a grid from size → kernel → time in ms; missing times count as not measured."""
        kernels = tuple(dict.fromkeys(name for row in times.values() for name in row))
        rows = (tuple(float(row.get(name, math.nan)) for name in kernels) for row in times.values())
        return cls(tuple(times), kernels, tuple(rows))

    @cached_property
    def losses(self) -> Floats:
        """Sizes x kernels: extra time relative to the best kernel of a size; NaN if not measured."""
        times = np.array(self.times, dtype=np.float64)
        lost: Floats = times / np.nanmin(times, axis=1, keepdims=True) - 1
        return lost

    def fastest(self) -> tuple[str, ...]:
        """Return the fastest kernel of each size."""
        return tuple(self.kernels[i] for i in np.nanargmin(self.losses, axis=1))


@dataclass(frozen=True, slots=True)
class Loss:
    """The loss of a selection against always picking the best kernel.

    Attributes:
        mean: Mean over sizes of the time lost, as a share of the best kernel's time.
        max: The largest.
        worst: Its size.
        sizes: How many sizes the figures are over.
        unmeasured: Sizes, not counted in `sizes`, at which the picked kernel was not measured.
    """

    mean: float
    max: float
    worst: Size
    sizes: int
    unmeasured: int = 0


def check_size(*size: int) -> Size:
    """Return the size if all of its dimensions, those of `BATCH_AXES`, are integers from 1 to `LARGEST`.

    Raises:
        UserError: One of them is not.
    """
    for axis, value in zip(BATCH_AXES, size, strict=False):
        try:
            fits = value == int(value) and 1 <= value <= LARGEST
        except (TypeError, ValueError, OverflowError):
            fits = False
        if not fits:
            raise UserError(
                "not a size", code="syntax", key=axis, found=value, accepted=f"an integer from 1 to {LARGEST}"
            )
    return tuple(map(int, size))


def loss_of(grid: Grid, picked: Sequence[str]) -> Loss:
    """Return the loss of one picked kernel per size of a grid.

    Raises:
        UserError: None of them was measured at its size.
    """
    column = {name: i for i, name in enumerate(grid.kernels)}
    lost = np.array(
        [row[column[name]] if name in column else np.nan for row, name in zip(grid.losses, picked, strict=True)]
    )
    measured = np.isfinite(lost)
    if not measured.any():
        raise UserError(
            "no size of the grid has a time of the picked kernel", code="nothing-left", found=sorted(set(picked))
        )
    worst = int(np.nanargmax(lost))
    count = int(measured.sum())
    return Loss(float(lost[measured].mean()), float(lost[worst]), grid.sizes[worst], count, len(lost) - count)
