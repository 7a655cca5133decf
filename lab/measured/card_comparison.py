"""Comparison of cards of one model by the same variants, timed on each of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

LIMIT: Final = 0.02
"""Relative difference of a card's control timings, or of its clock under them, above which it is reported."""

SLOWDOWNS: Final = frozenset({"HwSlowdown", "SwThermalSlowdown", "HwThermalSlowdown", "HwPowerBrakeSlowdown"})
"""Throttle reasons specific to a card. SwPowerCap follows from the work on any card; the clock shows it."""


@dataclass(frozen=True, slots=True)
class ControlTiming:
    """One timing of a variant that was timed on several cards.

    Attributes:
        variant: Its id.
        card: Id of the card.
        ms: Median time.
        spread: (p80 - p20) / median.
        sm_clock_mhz: SM clock at its end; None where NVML does not say.
        power_w: Power of the board then.
        temperature_c: Temperature then.
        slowdown: One of `SLOWDOWNS` was active.
        neighbours: Other processes on the card; None where NVML does not say.
    """

    variant: str
    card: str
    ms: float
    spread: float
    sm_clock_mhz: int | None = None
    power_w: float | None = None
    temperature_c: int | None = None
    slowdown: bool = False
    neighbours: int | None = None


@dataclass(frozen=True, slots=True)
class CardRecord:
    """A card of a run.

    Attributes:
        id: Its UUID.
        label: Its name on the page.
        host: Its machine; empty for the one of the command.
        variants: Variants that were timed on it.
        controls: Variants that were timed on it and on others.
        control: Their times over those on the reference, median; above 1 is slower. None without controls.
        scatter: Relative scatter of these times, within which differences are not significant.
        sm_clock_mhz: SM clock under the controls, median, MHz.
        power_w: Power under them, median, W.
        temperature_c: Temperature under them, median, °C.
        differs: Reason its times are not comparable with other cards'; empty if they are.
    """

    id: str
    label: str
    host: str
    variants: int
    controls: int = 0
    control: float | None = None
    scatter: float = 0.0
    sm_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    differs: str = ""


def standing(cards: Sequence[CardRecord], timings: Iterable[ControlTiming]) -> tuple[CardRecord, ...]:
    """Compare cards by their control timings.

    A card's figure is the median, over the controls, of its time over the reference time. The reference is the median
    card of that control; of an even number, the faster of the two in the middle, since a card that differs is nearly
    always slower.

    Args:
        cards: The cards, without their controls.
        timings: Timings of any variants; variants timed on one card only are ignored.
    """
    by_variant: dict[str, dict[str, ControlTiming]] = {}
    for timing in timings:
        by_variant.setdefault(timing.variant, {}).setdefault(timing.card, timing)
    shared = [times for times in by_variant.values() if len(times) > 1]
    own = {card.id: [(times[card.id], _reference(times)) for times in shared if card.id in times] for card in cards}
    clocks = {
        name: median(clock_samples) for name, pairs in own.items() if (clock_samples := _known(pairs, "sm_clock_mhz"))
    }
    clock = sorted(clocks.values())[len(clocks) // 2] if clocks else None
    quiet = any(pairs and not _slowed(pairs) for pairs in own.values())
    alone = any(pairs and not _neighbours(pairs) for pairs in own.values())
    return tuple(_judged(card, own[card.id], clock, quiet=quiet, alone=alone) for card in cards)


_Pairs = Sequence[tuple[ControlTiming, ControlTiming]]
"""A card's timings, each with the reference's timing of the same variant."""


def _reference(times: Mapping[str, ControlTiming]) -> ControlTiming:
    ordered = sorted(times.values(), key=lambda timing: timing.ms)
    return ordered[(len(ordered) - 1) // 2]


def _known(pairs: _Pairs, name: str) -> list[float]:
    return [value for timing, _ in pairs if (value := getattr(timing, name)) is not None]


def _slowed(pairs: _Pairs) -> bool:
    return sum(timing.slowdown for timing, _ in pairs) * 2 >= len(pairs)


def _neighbours(pairs: _Pairs) -> int:
    return max((timing.neighbours or 0 for timing, _ in pairs), default=0)


def _judged(card: CardRecord, pairs: _Pairs, clock: float | None, *, quiet: bool, alone: bool) -> CardRecord:
    if not pairs:
        return card
    control = median(timing.ms / reference.ms for timing, reference in pairs)
    scatter = median(max(timing.spread, reference.spread) / 2 for timing, reference in pairs)
    conditions = {name: _known(pairs, name) for name in ("sm_clock_mhz", "power_w", "temperature_c")}
    middle = {name: median(values) if values else None for name, values in conditions.items()}
    reasons, own_clock = [], middle["sm_clock_mhz"]
    if abs(control - 1) > max(LIMIT, scatter):
        side = "longer" if control > 1 else "less"
        over = f"{len(pairs)} control{'s' if len(pairs) > 1 else ''}, which scatter by {scatter:.1%}"
        reasons.append(f"the same variants take {abs(control - 1):.1%} {side} there ({over})")
    if clock and own_clock is not None and own_clock < (1 - LIMIT) * clock:
        reasons.append(f"its SM clock under them is {own_clock:.0f} MHz, and {clock:.0f} MHz on other cards")
    if quiet and _slowed(pairs):
        reasons.append("it throttles because of its temperature or power supply")
    if alone and (number := _neighbours(pairs)):
        reasons.append(f"{number} other process{'es' if number > 1 else ''} used it")
    return CardRecord(
        card.id,
        card.label,
        card.host,
        card.variants,
        len(pairs),
        control,
        scatter,
        **middle,
        differs="; ".join(reasons),
    )
