"""Which control timings are ordered, on which cards, and what becomes of them."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from gpu_jobs import QUIET, job, measurement_of
from run_support import DecidedSession, cards_of

from lab.gpu.process.cards import Cards, Ran
from lab.measured.card_comparison import CardRecord, ControlTiming
from lab.runs.controls import APART, MOST, Controls, notes_on

NAMES = {"GPU-a": ["GPU 0", ""], "GPU-b": ["GPU 1", ""]}
GROUP = (("m", 1),)


class Ordered:
    """Cards that answer when the test says so; the second one takes a tenth longer."""

    def __init__(self, cards: int = 0) -> None:
        self.cards = cards_of(cards)
        self.orders: list[tuple[str, str, Future[Ran]]] = []

    def submit(self, job: Any, policy: Any, *, card: str) -> Future[Ran]:
        self.orders.append((job.variant, card, Future()))
        return self.orders[-1][2]

    def answer(self) -> None:
        for variant, card, future in self.orders:
            if not future.done():
                future.set_result(ran(variant, card))

    @property
    def asked(self) -> list[tuple[str, str]]:
        return [(variant, card) for variant, card, _ in self.orders]


def ran(variant: str, card: str) -> Ran:
    result = DecidedSession().run(replace(job(), variant=variant), QUIET)
    timed = measurement_of(result)
    slower = 1.1 if card == "GPU-b" else 1.0
    samples = replace(timed.samples, ms=tuple(ms * slower for ms in timed.samples.ms))
    return Ran(replace(result, measurement=replace(timed, samples=samples)), card, 1)


def controls(variants: int, known: Any = (), cards_there: int = 0) -> tuple[Controls, Ordered]:
    cards = Ordered(cards_there)
    card_controls = Controls(cast("Cards", cards), QUIET, NAMES, known)
    planned = [SimpleNamespace(problem=SimpleNamespace(values={"m": 1}))] * variants
    card_controls.plan(cast("Any", planned))
    return card_controls, cards


def measure(card_controls: Controls, place: int, card: str) -> None:
    card_controls.begin(GROUP, card)
    card_controls.learn(GROUP, replace(job(), variant=f"{place:x}"), ran(f"{place:x}", card))


def test_the_first_variant_is_timed_on_every_card_that_works_on_the_problem():
    card_controls, cards = controls(4)
    card_controls.begin(GROUP, "GPU-a")
    card_controls.begin(GROUP, "GPU-b")  # both got a variant before any was measured
    measure(card_controls, 1, "GPU-a")
    measure(card_controls, 2, "GPU-b")
    assert cards.asked == [("1", "GPU-b")]
    cards.answer()
    a, b = card_controls.standing()
    assert (a.label, a.variants, a.control, a.differs) == ("GPU 0", 1, 1.0, "")
    assert (b.label, b.variants, round(b.control or 0, 3)) == ("GPU 1", 1, 1.1)
    (note,) = notes_on((a, b))
    assert note.startswith("GPU 1 differs from the other cards: the same variants take 10.0% longer there")
    assert note.endswith("Its 1 variants are marked, and none of them wins without being timed again on another card.")


def test_a_card_that_comes_later_times_the_control_first_and_a_card_alone_times_none():
    card_controls, cards = controls(40)
    for place in range(20):
        measure(card_controls, place, "GPU-a")
    assert cards.asked == []
    card_controls.begin(GROUP, "GPU-b")
    assert cards.asked == [("10", "GPU-b")]  # the latest: 16 in hexadecimal


def test_all_cards_are_compared_on_the_first_problem_even_where_one_does_it_alone():
    card_controls, cards = controls(4, cards_there=2)
    measure(card_controls, 1, "GPU-a")
    assert cards.asked == [("1", "GPU-b")]


def test_controls_are_evenly_spread_and_few():
    card_controls, cards = controls(400)
    card_controls.begin(GROUP, "GPU-b")
    for place in range(400):
        measure(card_controls, place, "GPU-a")
    assert cards.asked == [(f"{place:x}", "GPU-b") for place in range(0, 400, 80)]
    assert len(cards.asked) == MOST
    card_controls, cards = controls(APART * 2)
    card_controls.begin(GROUP, "GPU-b")
    for place in range(APART * 2):
        measure(card_controls, place, "GPU-a")
    assert [variant for variant, _ in cards.asked] == ["0", f"{APART:x}"]


def test_an_interrupted_runs_timings_count():
    card_controls, cards = controls(4)
    card_controls.begin(GROUP, "GPU-b")
    measure(card_controls, 1, "GPU-a")
    cards.answer()
    again, _ = controls(4, [ControlTiming(**one) for one in card_controls.noted()])
    assert [card.control for card in again.standing()] == [card.control for card in card_controls.standing()]


def test_a_control_that_failed_says_nothing_and_cards_that_are_alike_are_not_noted():
    card_controls, cards = controls(4)
    card_controls.begin(GROUP, "GPU-b")
    measure(card_controls, 1, "GPU-a")
    (_, _, future) = cards.orders[0]
    future.set_result(replace(ran("1", "GPU-b"), result=replace(ran("1", "GPU-b").result, measurement=None)))
    card_controls.finish()
    assert [card.control for card in card_controls.standing()] == [None, None]
    assert notes_on((CardRecord("GPU-a", "GPU 0", "", 1),)) == ()
