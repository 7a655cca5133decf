"""Problem sizes of a tuning file: exact ones, ranges, random ones, and lists in CSV files."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from lab.base import yamlfile
from lab.base.errors import Location, UserError
from lab.base.files import within
from lab.base.sizes import Size
from lab.base.yamlfile import Document, Key
from lab.library.grid import AXES, LARGEST
from lab.tuning.file.schema import RandomModel, SizeRange, SizesModel

_MOST_SIZES = 100_000
_RANGE = 4
"""Numbers of a range: start, stride, increment of the stride, stop."""


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
        """All sizes, each once, those of ranges first."""
        return tuple(dict.fromkeys((*self.ranges, *self.exact)))

    @cached_property
    def set(self) -> frozenset[Size]:
        """All sizes, to look one up."""
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
        raise UserError("this is not a range of sizes", found=dimension, accepted=accepted)
    start, stride, increment, stop = numbers
    if not 1 <= start <= stop <= LARGEST or stride < 1 or increment < 0:
        raise UserError("this range has no valid sizes", found=dimension, accepted=accepted)
    values: list[int] = []
    while start <= stop and len(values) <= _MOST_SIZES:
        values.append(start)
        start, stride = start + stride, stride + increment
    return tuple(values)


def drawn(model: RandomModel) -> tuple[Size, ...]:
    """Draw random sizes, evenly over the logarithms of each dimension; a small box may give fewer.

    Raises:
        UserError: The box has no sizes.
    """
    low, high = ([own] * 3 if isinstance(own, int) else own for own in (model.low, model.high))
    if not all(1 <= a <= b <= LARGEST for a, b in zip(low, high, strict=True)):
        accepted = f"low and high of 1 to {LARGEST}, low at most high"
        raise UserError("this box has no sizes", found=f"low {model.low}, high {model.high}", accepted=accepted)
    rng = np.random.default_rng(model.seed)
    found: dict[Size, None] = {}
    for _ in range(100):
        wanted = (model.count - len(found), 3)
        values = np.exp(rng.uniform(np.log(low), np.log(np.array(high) + 1), wanted)).astype(np.int64)
        rounded = np.maximum(values // model.multiple * model.multiple, model.multiple)
        values = np.clip(np.where(rng.random(wanted) < model.aligned, rounded, values), low, high)
        found.update(dict.fromkeys((int(m), int(n), int(k)) for m, n, k in values))
        if len(found) == model.count:
            break
    return tuple(found)


def read(models: Sequence[SizesModel], layout: str, document: Document, place: Key) -> Sizes:
    """Return every size that a list in a tuning file names.

    Args:
        models: The list.
        layout: Layout of the problem type; rows of a CSV file with other transposes are skipped.
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
        given = [form for form in ("exact", "range", "random", "csv") if getattr(model, form) is not None]
        if len(given) != 1:
            accepted = (
                "one key: `exact: [m, n, k]`, `range: [m, n, k]` with ranges for numbers, "
                "`random: {count: N, high: SIZE}`, or `csv: FILE`"
            )
            raise UserError("sizes need exactly one key", at=at, key=key, found=given, accepted=accepted)
        try:
            if model.range is not None:
                ranges.update(dict.fromkeys(_product(model.range)))
            elif model.random is not None:
                there = drawn(model.random)
                scattered.update(set(there) - ranges.keys())
                ranges.update(dict.fromkeys(there))
            elif model.exact is not None:
                m, n, k = (along(dimension) for dimension in model.exact)
                exact[m[0], n[0], k[0]] = None
            elif model.csv is not None:
                file = within(model.csv, Path(document.file).parent, at=document.at(*place, i, "csv"), key=f"{key}.csv")
                exact.update(dict.fromkeys(from_csv(file, layout)))
        except UserError as error:
            raise UserError(
                error.message, at=error.at or at, key=error.key or key, found=error.found, accepted=error.accepted
            ) from error
        if len(ranges) + len(exact) > _MOST_SIZES:
            raise UserError("there are too many sizes", at=at, key=key, accepted=f"at most {_MOST_SIZES}")
    return Sizes(tuple(ranges), tuple(exact), frozenset(scattered))


def _product(dimensions: Sequence[SizeRange]) -> Iterator[Size]:
    """Return every size of a range.

    Raises:
        UserError: the range has too many; none is made then.
    """
    m, n, k = (along(dimension) for dimension in dimensions)
    if len(m) * len(n) * len(k) > _MOST_SIZES:
        raise UserError("there are too many sizes", accepted=f"at most {_MOST_SIZES}")
    return itertools.product(m, n, k)


def from_csv(file: Path, layout: str) -> tuple[Size, ...]:
    """Return the sizes of one layout from a CSV file with the columns m, n, k, a_t and b_t (1: transposed).

    Raises:
        UserError: a column is missing, or a row is not a size.
    """
    sizes: dict[Size, None] = {}
    rows = csv.DictReader(io.StringIO(yamlfile.read_text(file)))
    wanted = (*AXES, "a_t", "b_t")
    missing = [name for name in wanted if name not in (rows.fieldnames or ())]
    if missing:
        raise UserError("the file lacks a column", at=Location(file, 1), found=rows.fieldnames, accepted=wanted)
    for row in rows:
        try:
            m, n, k, a_t, b_t = (int(row[name]) for name in wanted)
        except (TypeError, ValueError):
            m = n = k = a_t = b_t = 0
        if not all(1 <= size <= LARGEST for size in (m, n, k)) or not {a_t, b_t} <= {0, 1}:
            accepted = f"m, n, k of 1 to {LARGEST}; 0 or 1 for a_t and b_t"
            raise UserError("this row is not a size", at=Location(file, rows.line_num), found=row, accepted=accepted)
        if layout == "nt"[a_t] + "nt"[b_t]:
            sizes[m, n, k] = None
    return tuple(sizes)
