"""Cards compared by the same variants on each of them."""

from __future__ import annotations

import pytest

from lab.measured.card_comparison import CardRecord, ControlTiming, standing

CARDS = tuple(CardRecord(name, f"GPU {name}", "", 10) for name in "abc")


def timings(cards, variants="vw", **facts):
    """The same variants on each card: of every card its time, or its time and further facts."""
    return [
        ControlTiming(variant, card, ms, 0.002, **facts.get(card, {})) for variant in variants for card, ms in cards
    ]


def test_a_card_that_takes_longer_than_the_middle_one_is_named():
    a, b, c = standing(CARDS, timings([("a", 1.0), ("b", 1.01), ("c", 1.05)]))
    assert (a.control, b.control, c.control) == pytest.approx((1 / 1.01, 1.0, 1.05 / 1.01))
    assert (a.differs, b.differs) == ("", "")
    assert c.differs == "the same variants take 4.0% longer there (2 controls, which scatter by 0.1%)"
    assert (c.controls, c.scatter, c.variants) == (2, 0.001, 10)


def test_of_two_cards_the_slower_one_differs():
    a, b = standing(CARDS[:2], timings([("a", 1.05), ("b", 1.0)], "v"))
    assert (a.differs, b.differs) == ("the same variants take 5.0% longer there (1 control, which scatter by 0.1%)", "")


def test_a_difference_within_the_scatter_is_none():
    noisy = [ControlTiming("v", "a", 1.05, 0.2), ControlTiming("v", "b", 1.0, 0.01)]
    assert [card.differs for card in standing(CARDS[:2], noisy)] == ["", ""]


def test_a_control_that_one_card_alone_timed_says_nothing():
    a, b, _ = standing(CARDS, [ControlTiming("v", "a", 1.0, 0.01), ControlTiming("w", "b", 2.0, 0.01)])
    assert (a.control, a.controls, b.control) == (None, 0, None)


def test_a_lower_clock_a_slowdown_and_another_process_are_reasons_too():
    facts = {
        "a": {"sm_clock_mhz": 1980, "power_w": 600.0, "temperature_c": 50, "neighbours": 0},
        "b": {"sm_clock_mhz": 1755, "power_w": 500.0, "temperature_c": 80, "slowdown": True, "neighbours": 2},
        "c": {"sm_clock_mhz": 1980, "neighbours": 0},
    }
    a, b, c = standing(CARDS, timings([("a", 1.0), ("b", 1.0), ("c", 1.0)], **facts))
    assert (a.differs, c.differs) == ("", "")
    assert (a.sm_clock_mhz, a.power_w, a.temperature_c) == (1980, 600.0, 50)
    assert b.differs == (
        "its SM clock under them is 1755 MHz, and 1980 MHz on other cards; it throttles because of its temperature or "
        "power supply; 2 other processes used it"
    )


def test_what_all_cards_share_names_none():
    facts = {name: {"slowdown": True, "neighbours": 1, "sm_clock_mhz": 1500} for name in "abc"}
    assert [card.differs for card in standing(CARDS, timings([(name, 1.0) for name in "abc"], **facts))] == [""] * 3
