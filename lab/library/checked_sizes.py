"""A library compared with cuBLAS at sizes it was not tuned for: rows, classes of sizes, summary figures."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lab.base.sizes import AXES, BATCH_AXES, Size, extents
from lab.library.alignment import VECTOR
from lab.measured.timing import Samples

TINY_MFLOP = 20.0
"""GEMMs with fewer MFLOP are tiny: on an H200 they take about as long as an empty launch."""

THIN, DEEP = 64, 16
"""A product is thin where m or n is at most `THIN`, deep where k is `DEEP` times the geometric mean of m and n."""


@dataclass(frozen=True, slots=True)
class CheckedSize:
    """A library's kernel compared with cuBLAS at one size.

    Attributes:
        layout: BLAS letters of A and B.
        size: Of the product or of the batch.
        kernel: Name of the kernel that the library picks.
        expected_ms: The time that the library expects; None where it has no measured times.
        samples: Its times in ms; None where it failed.
        cublas: Those of cuBLAS; None where there are none.
        cache: State of L2, `cold` or `warm`.
        error: Largest error against float64, relative to its scale; None where nothing was compared.
        failure: Why there is no time; empty where there is one.
    """

    layout: str
    size: Size
    kernel: str
    expected_ms: float | None
    samples: Samples | None
    cublas: Samples | None
    cache: str
    error: float | None
    failure: str

    @property
    def ratio(self) -> float | None:
        """Throughput relative to cuBLAS; None if either has no time."""
        return self.cublas.median / self.samples.median if self.samples and self.cublas else None

    @property
    def expectation_error(self) -> float | None:
        """Relative error of the expected time against the median; None if either is missing."""
        return abs(self.expected_ms / self.samples.median - 1) if self.expected_ms and self.samples else None

    @property
    def classes(self) -> tuple[str, ...]:
        """Shape class, and whether `VECTOR` divides every dimension."""
        return shape_of(self.size), "aligned" if all(x % VECTOR == 0 for x in self.size[: len(AXES)]) else "unaligned"


@dataclass(frozen=True, slots=True)
class CheckSummary:
    """Ratios to cuBLAS over a set of sizes.

    Attributes:
        name: What they have in common.
        sizes: How many there are.
        mean: Geometric mean.
        p5: The 5th percentile.
        worst: The least.
        faster: Share of the sizes at which the library is faster.
    """

    name: str
    sizes: int
    mean: float
    p5: float
    worst: float
    faster: float


def shape_of(size: Size) -> str:
    """Return the class of a size: the first that applies of `tiny`, `thin`, `deep` and `large`."""
    m, n, k, batch = extents(size)
    if 2e-6 * m * n * k * batch < TINY_MFLOP:
        return "tiny"
    if min(m, n) <= THIN:
        return "thin"
    return "deep" if k > DEEP * math.sqrt(m * n) else "large"


def summaries(rows: Sequence[CheckedSize]) -> tuple[CheckSummary, ...]:
    """Summarise the ratios over all sizes, per layout and per class; classes without a ratio are left out."""
    groups: dict[str, list[float]] = {}
    for row in rows:
        if row.ratio is not None:
            for name in ("all", row.layout, *row.classes):
                groups.setdefault(name, []).append(row.ratio)
    order = ("all", "nn", "nt", "tn", "tt", "tiny", "thin", "deep", "large", "aligned", "unaligned")
    return tuple(_summary(name, groups[name]) for name in order if name in groups)


def _summary(name: str, ratios: Sequence[float]) -> CheckSummary:
    values = np.array(ratios)
    mean = float(np.exp(np.log(values).mean()))
    return CheckSummary(
        name, len(values), mean, float(np.percentile(values, 5)), float(values.min()), float((values > 1).mean())
    )


def to_csv(rows: Iterable[CheckedSize]) -> str:
    """Return the rows as CSV, times as median, spread and number of samples in ms.

    There is a column of the products of a batch where some row has one.
    """
    text = io.StringIO()
    lines: list[Mapping[str, object]] = [_line(row) for row in rows]
    longest = max(lines, key=len, default={"layout": ""})
    writer = csv.DictWriter(text, fieldnames=list(longest), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def _line(row: CheckedSize) -> dict[str, object]:
    line: dict[str, object] = {"layout": row.layout, **dict(zip(BATCH_AXES, row.size, strict=False))}
    line |= {"shape": row.classes[0]}
    line |= {"alignment": row.classes[1], "kernel": row.kernel}
    line |= {"cache": row.cache, "failure": row.failure, "expected_ms": row.expected_ms}
    for name, samples in (("ours", row.samples), ("cublas", row.cublas)):
        line |= {
            f"{name}_ms": samples.median if samples else "",
            f"{name}_spread": samples.spread if samples else "",
            f"{name}_n": samples.n if samples else "",
        }
    return {**line, "ratio": row.ratio if row.ratio is not None else "", "max_error": row.error}
