"""Cards that survey kernels without a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from types import MappingProxyType

from run_support import cards_of

from lab.base.sizes import Size
from lab.gpu.process.cards import Surveyed
from lab.gpu.timing.survey import BASELINE, Survey, SurveyPoint
from lab.measured.timing import Samples


class Played:
    """Cards whose surveys are done at once; every kernel takes a millisecond. `lost` cards are gone."""

    def __init__(self, cards: int = 1, slower: Mapping[str, float] = MappingProxyType({})) -> None:
        self.cards, self.slower = cards_of(cards), slower
        self.orders: list[Survey] = []
        self.cubins: list[Mapping[str, bytes]] = []
        self.at: list[tuple[Size, str]] = []
        self.lost: set[str] = set()

    def survey(self, order: Survey, cubins: Mapping[str, bytes], *, card: str | None = None) -> Future[Surveyed]:
        self.orders.append(order)
        self.cubins.append(cubins)
        self.cards = tuple(card for card in self.cards if card.id not in self.lost)
        there = [card.id for card in self.cards]
        used = card if card in there else there[len(self.orders) % len(there)]
        m, n, k = (int(order.problem[name]) for name in "mnk")
        self.at.append(((m, n, k), used))
        factor = self.slower.get(used, 1.0)
        points = [SurveyPoint(one.kernel, Samples((factor, factor)), "warm", 1e-8) for one in order.entrants]
        if order.baseline:
            points.append(SurveyPoint(BASELINE, Samples((2.0 * factor,)), "warm", None, note="cuBLAS 13"))
        future: Future[Surveyed] = Future()
        future.set_result(Surveyed(tuple(points), used))
        return future
