from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base.sizes import Size
from lab.measured.timing import Samples
from lab.tuning.choose.replay import replay
from lab.tuning.file.schema import HalvingModel
from lab.tuning.file.sizes import Sizes

A, B, C = ((64 << i, 64 << i, 64) for i in range(3))
SIZES = Sizes(ranges=(A, B, C))
"""Every second one is coarse: A and C, of m and n as long as each other."""


def rules(**given_: float) -> HalvingModel:
    return HalvingModel.model_validate({"coarse": 2, "nearest": 2, "keep": 0.3, "drop": 10.0, **given_})


def table(**ms: tuple[float, float, float]) -> dict[str, dict[Size, Samples]]:
    return {name: {s: Samples((t, t)) for s, t in zip((A, B, C), own, strict=True)} for name, own in ms.items()}


def test_a_kernel_that_is_best_between_coarse_sizes_alone_is_lost() -> None:
    replayed = replay(SIZES, table(even=(1.0, 1.1, 1.0), humped=(2.0, 1.0, 2.0)), rules())
    assert (replayed.coarse, replayed.pairs, replayed.run, replayed.sampled_once) == (2, 6, 5, 0)
    assert replayed.losses == {A: 0, B: pytest.approx(0.1), C: 0}
    assert replayed.mean == pytest.approx(0.1 / 3)
    assert replayed.worst == B
    assert replayed.quantile(0.5) == 0
    assert replayed.quantile(1.0) == pytest.approx(0.1)
    assert replayed.brute_ms == pytest.approx(2 * (3.1 + 5.0))
    assert replayed.halved_ms == pytest.approx(2 * (3.1 + 4.0))


def test_a_kernel_that_is_slow_at_first_keeps_that_sample() -> None:
    times = table(good=(1.0, 1.0, 1.0), late=(5.0, 5.0, 5.0))
    times["late"][A] = Samples((1.5, 0.5, 0.5), batch=4)
    replayed = replay(SIZES, times, rules(drop=0.2))
    assert (replayed.run, replayed.sampled_once) == (6, 3)
    assert replayed.losses == {A: pytest.approx(1.0), B: 0, C: 0}
    # at A both would have taken three samples, late's of four launches each
    assert replayed.brute_ms == pytest.approx(3 * (1.0 + 4 * 0.5) + 2 * 2 * (1.0 + 5.0))
    assert replayed.halved_ms == pytest.approx(3 * 1.0 + 4 * 1.5 + 2 * (2 * 1.0 + 5.0))


def test_where_nothing_is_known_around_all_kernels_run() -> None:
    times: dict[str, dict[Size, Samples]] = {
        "new": {B: Samples((1.0,))},
        "old": {A: Samples((1.0,)), C: Samples((1.0,))},
    }
    assert replay(SIZES, times, rules()).losses == {A: 0, B: 0, C: 0}


@given(st.lists(st.lists(st.floats(0.1, 9.0), min_size=9, max_size=9), min_size=1, max_size=4), st.integers(1, 3))
def test_without_cuts_nothing_is_saved_and_nothing_is_lost(times: list[list[float]], every: int) -> None:
    sizes = Sizes(ranges=tuple(itertools.product((16, 64, 256), (16, 64, 256), (512,))))
    given_ = {
        f"k{i}": {size: Samples((ms,)) for size, ms in zip(sizes.all, own, strict=True)} for i, own in enumerate(times)
    }
    replayed = replay(sizes, given_, rules(coarse=every, keep=1e6, drop=1e6))
    assert (replayed.run, replayed.sampled_once, replayed.mean) == (replayed.pairs, 0, 0)
    assert replayed.halved_ms == pytest.approx(replayed.brute_ms)
    cut = replay(sizes, given_, rules(coarse=every, keep=0.0, drop=0.0))
    assert cut.run <= cut.pairs
    assert min(cut.losses.values()) >= 0
