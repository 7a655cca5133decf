from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import cast

import pytest
from library_support import mapped_library, small_library
from played_surveys import Played

from lab.base.sizes import Size
from lab.gpu.process.cards import Cards
from lab.gpu.timing.survey import SurveyPolicy
from lab.library.archive import StoredLibrary
from lab.library.checked_sizes import CheckedSize
from lab.toolchain.cubin import image
from lab.toolchain.cubin.image import CubinKernel
from lab.tuning.library_check import check

LIBRARY = small_library()
STORED = StoredLibrary(
    LIBRARY, MappingProxyType({kernel.cubin: kernel.name.encode() for kernel in LIBRARY.kernels}), Path("sgemm")
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


def test_grids_are_what_the_card_holds_and_kernels_are_those_that_take_the_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = mapped_library()
    cubins = {kernel.cubin: kernel.name.encode() for kernel in library.kernels}
    stored = StoredLibrary(library, MappingProxyType(cubins), Path("sgemm"))
    uses = {"mapped": CubinKernel(registers=32, stack_bytes=0, shared_bytes=0, constant_bytes=0, barriers=1)}
    monkeypatch.setattr(image, "kernels", lambda cubin: {b"mapped": uses}[cubin])
    cards = Played()
    rows = check(stored, [(64, 32, 8), (65, 32, 8), (16384, 16384, 8)], cast("Cards", cards), policy=POLICY)
    assert [row.kernel for row in rows] == ["mapped", "small", "mapped"]
    small, _, large = (order.entrants[0].launches for order in cards.orders)
    assert small.steps[0].grid == (4, 1, 1)
    sms = cards.cards[0].description.sms
    assert large.steps[0].grid == (3 * sms, 1, 1)  # of 227 KiB an SM holds three blocks of 65 KiB
    assert [one.of for one in large.tensor_maps] == ["A", "packed"]
