"""Problem sizes of a tuning file: exact sizes, ranges, random sizes, and lists in CSV files."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np

from lab.base import yamlfile
from lab.base.errors import Location, UserError
from lab.base.files import within
from lab.base.sizes import BATCH_AXES, Size
from lab.base.yamlfile import Document, Key
from lab.library.grid import LARGEST
from lab.store.tuning_model import ProblemType
from lab.tuning.file.tuning_schema import RandomModel, SizeRange, SizesModel

T = TypeVar("T")

_MOST_SIZES = 100_000
_INDICES = ("m", "n", "batch", "k")
"""Dimensions of a batched GEMM in a file's order, the order of Tensile's indices."""

_RANGE = 4
"""The length of a full range: start, stride, increment of the stride, stop."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of one problem type.

    Attributes:
        ranges: Sizes that stand for those between them.
        exact: Sizes that stand for themselves alone.
        scattered: Sizes of `ranges` that were drawn at random, so that they form no grid.
    """

    ranges: tuple[Size, ...] = ()
    exact: tuple[Size, ...] = ()
    scattered: frozenset[Size] = frozenset()

    @property
    def all(self) -> tuple[Size, ...]:
        """All sizes without repetitions, those of ranges first."""
        return tuple(dict.fromkeys((*self.ranges, *self.exact)))

    @cached_property
    def set(self) -> frozenset[Size]:
        """All sizes as a set."""
        return frozenset(self.all)


def along(dimension: SizeRange) -> tuple[int, ...]:
    """Return the values of one dimension of a range.

    A number, alone or in a list, stands for itself. ``[start, stride, stop]`` has a fixed stride; in
    ``[start, stride, increment, stop]`` the stride grows by the increment after each value. So [16, 16, 16, 5632] is
    16, 32, 64, 112, …, 5632: 27 values.

    Raises:
        UserError: the dimension has another form, or no values.
    """
    numbers = [dimension] if isinstance(dimension, int) else list(dimension)
    if len(numbers) == 1:
        numbers = [numbers[0], 1, numbers[0]]
    if len(numbers) == _RANGE - 1:
        numbers.insert(2, 0)
    accepted = f"a size of 1 to {LARGEST}, [start, stride, stop] or [start, stride, increment, stop]"
    if len(numbers) != _RANGE:
        raise UserError("this is not a range of sizes", code="syntax", found=dimension, accepted=accepted)
    start, stride, increment, stop = numbers
    if not 1 <= start <= stop <= LARGEST or stride < 1 or increment < 0:
        raise UserError("this range has no valid sizes", code="nothing-left", found=dimension, accepted=accepted)
    values: list[int] = []
    while start <= stop and len(values) <= _MOST_SIZES:
        values.append(start)
        start, stride = start + stride, stride + increment
    return tuple(values)


def in_order(values: Sequence[T], axes: tuple[str, ...]) -> tuple[T, ...]:
    """Return the values that a file lists per dimension, in the order of the axes.

    Raises:
        UserError: There are more or fewer dimensions.
    """
    listed = _INDICES if axes == BATCH_AXES else axes
    if len(values) != len(listed):
        accepted = f"one number or range for each of {', '.join(listed)}"
        raise UserError("this is not a size of the problem", code="syntax", found=list(values), accepted=accepted)
    by_axis = dict(zip(listed, values, strict=True))
    return tuple(by_axis[axis] for axis in axes)


def drawn(model: RandomModel, axes: tuple[str, ...]) -> tuple[Size, ...]:
    """Draw log-uniform random sizes; a small box may give fewer.

    Args:
        model: The box.
        axes: The dimensions of a size. The number of products is never rounded to a multiple.

    Raises:
        UserError: The box has no sizes, or other dimensions.
    """
    low, high = ((own,) * len(axes) if isinstance(own, int) else in_order(own, axes) for own in (model.low, model.high))
    rounds = np.array([axis != "batch" for axis in axes])
    if not all(1 <= a <= b <= LARGEST for a, b in zip(low, high, strict=True)):
        accepted = f"low and high of 1 to {LARGEST}, low at most high"
        raise UserError(
            "this box has no sizes", code="nothing-left", found=f"low {model.low}, high {model.high}", accepted=accepted
        )
    rng = np.random.default_rng(model.seed)
    sizes: dict[Size, None] = {}
    for _ in range(100):
        shape = (model.count - len(sizes), len(axes))
        values = np.exp(rng.uniform(np.log(low), np.log(np.array(high) + 1), shape)).astype(np.int64)
        rounded = np.maximum(values // model.multiple * model.multiple, model.multiple)
        values = np.clip(np.where((rng.random(shape) < model.aligned) & rounds, rounded, values), low, high)
        sizes.update(dict.fromkeys(tuple(map(int, row)) for row in values))
        if len(sizes) == model.count:
            break
    return tuple(sizes)


def read(models: Sequence[SizesModel], of: ProblemType, document: Document, place: Key) -> Sizes:
    """Return all sizes of a list in a tuning file.

    Args:
        models: The list.
        of: The problem type; rows of a CSV file with other transposes are skipped.
        document: The tuning file, for errors.
        place: Place of the list in it.

    Raises:
        UserError: a size is invalid, a CSV file cannot be read, or there are too many sizes.
    """
    ranges: dict[Size, None] = {}
    exact: dict[Size, None] = {}
    scattered: set[Size] = set()
    for i, model in enumerate(models):
        at, key = document.at(*place, i), yamlfile.dotted((*place, i))
        keys = [form for form in ("exact", "range", "random", "csv") if getattr(model, form) is not None]
        if len(keys) != 1:
            listed = ", ".join(_INDICES if of.batched else of.axes)
            accepted = (
                f"one key: `exact: [{listed}]`, `range: [{listed}]` with ranges for numbers, "
                "`random: {count: N, high: SIZE}`, or `csv: FILE`"
            )
            raise UserError(
                "sizes need exactly one key", code="missing-key", at=at, key=key, found=keys, accepted=accepted
            )
        try:
            if model.range is not None:
                ranges.update(dict.fromkeys(_product(in_order(model.range, of.axes))))
            elif model.random is not None:
                box_sizes = drawn(model.random, of.axes)
                scattered.update(set(box_sizes) - ranges.keys())
                ranges.update(dict.fromkeys(box_sizes))
            elif model.exact is not None:
                exact[tuple(along(dimension)[0] for dimension in in_order(model.exact, of.axes))] = None
            elif model.csv is not None:
                file = within(model.csv, Path(document.file).parent, at=document.at(*place, i, "csv"), key=f"{key}.csv")
                exact.update(dict.fromkeys(from_csv(file, of)))
        except UserError as error:
            raise UserError(
                error.message,
                code=error.code,
                at=error.at or at,
                key=error.key or key,
                found=error.found,
                accepted=error.accepted,
            ) from error
        if len(ranges) + len(exact) > _MOST_SIZES:
            raise UserError(
                "there are too many sizes", code="out-of-range", at=at, key=key, accepted=f"at most {_MOST_SIZES}"
            )
    return Sizes(tuple(ranges), tuple(exact), frozenset(scattered))


def _product(dimensions: Sequence[SizeRange]) -> Iterator[Size]:
    """Return every size of a range.

    Raises:
        UserError: the range has too many; none is made then.
    """
    values = [along(dimension) for dimension in dimensions]
    if math.prod(map(len, values)) > _MOST_SIZES:
        raise UserError("there are too many sizes", code="out-of-range", accepted=f"at most {_MOST_SIZES}")
    return itertools.product(*values)


def from_csv(file: Path, of: ProblemType) -> tuple[Size, ...]:
    """Return a layout's sizes from a CSV file with the axes, a_t and b_t (1: transposed) as columns.

    Raises:
        UserError: a column is missing, or a row is not a size.
    """
    sizes: dict[Size, None] = {}
    rows = csv.DictReader(io.StringIO(yamlfile.read_text(file)))
    columns = (*of.axes, "a_t", "b_t")
    missing = [name for name in columns if name not in (rows.fieldnames or ())]
    if missing:
        raise UserError(
            "the file lacks a column", code="missing-key", at=Location(file, 1), found=rows.fieldnames, accepted=columns
        )
    for row in rows:
        try:
            *size, a_t, b_t = (int(row[name]) for name in columns)
        except (TypeError, ValueError):
            size, a_t, b_t = [0], 0, 0
        if not all(1 <= own <= LARGEST for own in size) or not {a_t, b_t} <= {0, 1}:
            accepted = f"{', '.join(of.axes)} of 1 to {LARGEST}; 0 or 1 for a_t and b_t"
            raise UserError(
                "this row is not a size", code="syntax", at=Location(file, rows.line_num), found=row, accepted=accepted
            )
        if of.layout == "nt"[a_t] + "nt"[b_t]:
            sizes[tuple(size)] = None
    return tuple(sizes)
