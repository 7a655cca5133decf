from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import cast

from library_support import small_library
from played_surveys import Played

from lab.base.sizes import Size
from lab.gpu.process.cards import Cards
from lab.gpu.timing.survey import SurveyPolicy
from lab.library.archive import StoredLibrary
from lab.library.checked import CheckedSize
from lab.tuning.check import check

LIBRARY = small_library()
STORED = StoredLibrary(
    LIBRARY, MappingProxyType({one.cubin: one.name.encode() for one in LIBRARY.kernels}), Path("sgemm")
)
SIZES: list[Size] = [(16, 16, 64), *((700 + i, 333, 17 + i) for i in range(12)), (5000, 1000, 3104)]
POLICY = SurveyPolicy(samples=2, enough_ms=1, drop=None)


def test_every_size_is_timed_with_the_kernel_that_the_library_picks() -> None:
    cards, seen = Played(), list[CheckedSize]()
    rows = check(STORED, SIZES, cast("Cards", cards), policy=POLICY, seed=3, done=seen.append)
    assert [row.size for row in rows] == SIZES
    assert list(rows) == seen
    picked = [LIBRARY.kernels[LIBRARY.logic.select(*size)] for size in SIZES]
    assert [row.kernel for row in rows] == [one.name for one in picked]
    assert [list(cubins.values()) for cubins in cards.cubins] == [[one.name.encode()] for one in picked]
    assert all(order.baseline and order.policy is POLICY for order in cards.orders)
    assert {row.ratio for row in rows} == {2.0}
    assert {(row.layout, row.failure, row.cache, row.error) for row in rows} == {("nn", "", "warm", 1e-8)}


def test_one_ground_is_large_enough_for_every_size() -> None:
    cards = Played()
    check(STORED, SIZES, cast("Cards", cards), policy=POLICY)
    grounds = {id(order.ground): order.ground for order in cards.orders}
    (ground,) = grounds.values()
    for order in cards.orders:
        m, n, k = (int(order.problem[name]) for name in "mnk")
        assert ground.elements >= (m * k, k * n, m * n)
        assert all(a >= b for a, b in zip(ground.elements, (m * k, k * n, m * n), strict=True))
        (entrant,) = order.entrants
        assert ground.workspace_bytes >= sum(buffer.bytes for buffer in entrant.launches.workspace)
