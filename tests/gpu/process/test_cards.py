"""The cards of this machine: their description, and the protocol they implement."""

from __future__ import annotations

from fake_device import FakeDevice

from lab.gpu.process.cards import Card, Cards
from lab.gpu.process.localcards import LocalCards
from lab.gpu.process.session import GpuSession


def test_this_machines_cards_are_cards():
    card = Card("GPU-a", "", "", FakeDevice().describe(), "GPU 0")
    with LocalCards([card], lambda _: GpuSession(FakeDevice)) as local:
        cards: Cards = local  # mypy compares the signatures
        assert cards.cards == (card,)
        assert cards.notes == ()
