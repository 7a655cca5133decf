"""How the work of a problem grows from the size that the CPU executed to the real one.

Where throughput counts operations, these say it. Else the least bytes of the problem do, unless what was executed at
half of a size shows that instructions grow faster than bytes (`EmulationRecord.growth`): a row of attention reads all
keys, so that twice the queries and twice the keys are four times the work on twice the bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from lab.measured.timing import Merit
from lab.store.model import VariantRecord

_REGULAR: Final = 0.1
"""How far a power may lie from a whole number: what a block does once, and tiles filled in part, shift it so much."""
_CLEARLY: Final = 1.25
"""How many times faster than bytes instructions must grow to be what the work is taken from."""


@dataclass(frozen=True, slots=True)
class Growth:
    """The work of a problem over that of the executed one.

    Attributes:
        likely: The factor.
        most: The factor if growth that is not regular, with no whole power of a size, goes on as between the two sizes
            that were executed; else `likely`.
    """

    likely: float
    most: float


def declared(record: VariantRecord) -> float:
    """The work of the real problem over that of the small one: operations where they count, else bytes."""
    done = record.emulation
    if done is not None and record.merit is Merit.TFLOPS and done.flops and record.flops:
        return record.flops / done.flops
    return record.bytes_moved / done.bytes_needed if done is not None and done.bytes_needed else 1.0


def counted(records: Sequence[VariantRecord]) -> Growth | None:
    """How often as many instructions the variants of one problem execute at the real size.

    Returns:
        None where a size that differs was not halved in any variant, or throughput counts operations.
    """
    powers: dict[str, list[float]] = {}
    ratios: dict[str, float] = {}
    for record in records:
        if record.emulation is None or record.merit is Merit.TFLOPS:
            return None
        ratios |= _ratios(record)
        for name, power in record.emulation.growth.items():
            powers.setdefault(name, []).append(power)
    if not ratios or not ratios.keys() <= powers.keys():
        return None
    by_size = {name: median(powers[name]) for name in ratios}
    most = math.prod(ratio ** by_size[name] for name, ratio in ratios.items())
    if any(abs(power - round(power)) > _REGULAR for power in by_size.values()):
        return Growth(1.0, most)
    likely = math.prod(ratio ** round(by_size[name]) for name, ratio in ratios.items())
    return Growth(likely, likely)


def works(records: Sequence[VariantRecord]) -> dict[str, Growth]:
    """How the work of the variants of one problem grows, by variant id.

    What was counted decides where it grows clearly faster than what the problem declares.
    """
    shown = counted(records)
    found = {}
    for record in records:
        least = declared(record)
        if shown is None:
            found[record.variant] = Growth(least, least)
        else:
            likely, most = (x if x > _CLEARLY * least else least for x in (shown.likely, shown.most))
            found[record.variant] = Growth(likely, max(likely, most))
    return found


def _ratios(record: VariantRecord) -> dict[str, float]:
    """Real over executed size, of the sizes that differ."""
    assert record.emulation is not None  # noqa: S101 - the caller looked
    small = record.emulation.problem
    return {
        name: real / size
        for name, real in record.problem.items()
        if isinstance(real, int) and isinstance(size := small.get(name), int) and 0 < size < real
        if not isinstance(real, bool)
    }
