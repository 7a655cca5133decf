"""Sizes that gain most from kernels of their own: tables II and III of the Tensile paper, for a tuning run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from lab.base.elements import ELEMENT_BYTES, operations
from lab.report.tuning.data import SizeWinner, TuningAnalysis
from lab.store.tuning_model import block_tile

MOST_GAINS: Final = 144
"""Rows of the table, as many as the paper's two tables have together."""


@dataclass(frozen=True, slots=True)
class Gain:
    """The gain of one size over the single-tuned kernel.

    Attributes:
        type: The problem type's label.
        winner: The size's fastest kernel, and the times beside it.
        tile: Rows and columns of C that a block of it computes; None where its template does not name them.
        flop_per_byte: Operations on each byte of A and B that a block reads, by its tile; None without one.
        over_single: Throughput over that of the single-tuned kernel.
    """

    type: str
    winner: SizeWinner
    tile: tuple[int, int] | None
    flop_per_byte: float | None
    over_single: float

    @property
    def gflops(self) -> float:
        """Throughput of the size's fastest kernel, GFLOP/s."""
        return 1e3 * self.winner.tflops

    @property
    def single_gflops(self) -> float:
        """Throughput of the single-tuned kernel, GFLOP/s."""
        return self.gflops / self.over_single


def gains(analysis: TuningAnalysis) -> tuple[Gain, ...]:
    """Return every size with a time of the single-tuned kernel, of all problem types, the highest gain first.

    Gains that agree in four decimals keep the file's order, so that a sample's last digits do not decide it.
    """
    size_gains = []
    for problem_type in analysis.types:
        dtype = analysis.facts.types[problem_type.label].dtype
        tiles = {champion.facts.name: block_tile(champion.facts.parameters) for champion in problem_type.kernels}
        for winner in problem_type.winners:
            tile, over = tiles[winner.kernel], winner.over_single
            if over is not None:
                size_gains.append(
                    Gain(problem_type.label, winner, tile, flop_per_byte(tile, dtype) if tile else None, over)
                )
    return tuple(sorted(size_gains, key=lambda gain: -round(gain.over_single, 4)))


def flop_per_byte(tile: tuple[int, int], dtype: str) -> float:
    """Return a block's operations per byte read of A and B: 2 rows columns / (rows + columns) / bytes.

    Of complex elements, four times as many.

    The ratio of the Tensile paper's tables II and III: 32 for 128 x 128 in float32. k cancels out; C is not counted.

    Args:
        tile: Rows and columns of C that a block computes.
        dtype: Type of the elements of A and B.
    """
    return operations(dtype) * math.prod(tile) / (sum(tile) * ELEMENT_BYTES[dtype])
