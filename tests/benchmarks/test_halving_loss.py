"""Halving replayed on a table of times, and the complete part of a table that halving cut."""

from __future__ import annotations

import itertools
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted_tuning import GPU, LABEL, SIZES, plant

from lab.base.sizes import Size
from lab.measured.timing import Samples
from lab.store.tuning_model import FinalSizes
from lab.tuning.file.size_lists import Sizes
from lab.tuning.file.tuning_schema import HalvingModel

ONE = Samples((1.0,))
A, B, C, D = ((i, i, i) for i in range(1, 5))


@pytest.fixture(scope="module")
def script(benchmark_script):
    return benchmark_script("halving_loss")


def test_sizes_with_most_kernels_count_and_kernels_that_are_at_all_of_them(script):
    known = {"x": {A: ONE, B: ONE, C: ONE}, "y": {A: ONE, C: ONE}, "z": {A: ONE, C: ONE, D: ONE}, "w": {}}
    sizes, table = script.complete(FinalSizes(ranges=(A, B), exact=(C, D)), known)
    assert (sizes.ranges, sizes.exact) == ((A,), (C,))
    assert table == {"x": {A: ONE, C: ONE}, "y": {A: ONE, C: ONE}, "z": {A: ONE, C: ONE}}


def test_without_times_nothing_is_complete(script):
    assert script.complete(FinalSizes(ranges=(A,), exact=()), {"x": {}})[1] == {}


def test_a_run_is_replayed(script, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["", str(plant(tmp_path, GPU)), "--coarse", "1", "4", "--keep", "0.1"])
    script.main()
    title, _, every, few = capsys.readouterr().out.splitlines()
    assert title == f"{LABEL}, measured: {len(SIZES)} sizes, 3 kernels"
    assert every.split()[5:7] == ["16", "100.0%"]
    assert every.split()[10:12] == ["0.00%", "0.0%"]
    assert few.split()[5] == "4"


SQUARES = ((64, 64, 64), (128, 128, 64), (256, 256, 64))
REPLAYED = Sizes(ranges=SQUARES)
"""Every second one is coarse: the first and the last, of m and n as long as each other."""


def rules(**given_: float) -> HalvingModel:
    return HalvingModel.model_validate({"coarse": 2, "nearest": 2, "keep": 0.3, "drop": 10.0, **given_})


def table(**ms: tuple[float, float, float]) -> dict[str, dict[Size, Samples]]:
    return {name: {s: Samples((t, t)) for s, t in zip(SQUARES, own, strict=True)} for name, own in ms.items()}


def test_a_kernel_that_is_best_between_coarse_sizes_alone_is_lost(script):
    replayed = script.replay(REPLAYED, table(even=(1.0, 1.1, 1.0), humped=(2.0, 1.0, 2.0)), rules())
    assert (replayed.coarse, replayed.pairs, replayed.run, replayed.sampled_once) == (2, 6, 5, 0)
    assert replayed.losses == {SQUARES[0]: 0, SQUARES[1]: pytest.approx(0.1), SQUARES[2]: 0}
    assert replayed.mean == pytest.approx(0.1 / 3)
    assert replayed.worst == SQUARES[1]
    assert replayed.quantile(0.5) == 0
    assert replayed.quantile(1.0) == pytest.approx(0.1)
    assert replayed.brute_ms == pytest.approx(2 * (3.1 + 5.0))
    assert replayed.halved_ms == pytest.approx(2 * (3.1 + 4.0))


def test_a_kernel_that_is_slow_at_first_keeps_that_sample(script):
    times = table(good=(1.0, 1.0, 1.0), late=(5.0, 5.0, 5.0))
    times["late"][SQUARES[0]] = Samples((1.5, 0.5, 0.5), batch=4)
    replayed = script.replay(REPLAYED, times, rules(drop=0.2))
    assert (replayed.run, replayed.sampled_once) == (6, 3)
    assert replayed.losses == {SQUARES[0]: pytest.approx(1.0), SQUARES[1]: 0, SQUARES[2]: 0}
    # at SQUARES[0] both would have taken three samples, late's of four launches each
    assert replayed.brute_ms == pytest.approx(3 * (1.0 + 4 * 0.5) + 2 * 2 * (1.0 + 5.0))
    assert replayed.halved_ms == pytest.approx(3 * 1.0 + 4 * 1.5 + 2 * (2 * 1.0 + 5.0))


def test_where_nothing_is_known_around_all_kernels_run(script):
    times: dict[str, dict[Size, Samples]] = {
        "new": {SQUARES[1]: Samples((1.0,))},
        "old": {SQUARES[0]: Samples((1.0,)), SQUARES[2]: Samples((1.0,))},
    }
    assert script.replay(REPLAYED, times, rules()).losses == {SQUARES[0]: 0, SQUARES[1]: 0, SQUARES[2]: 0}


@given(st.lists(st.lists(st.floats(0.1, 9.0), min_size=9, max_size=9), min_size=1, max_size=4), st.integers(1, 3))
def test_without_cuts_nothing_is_saved_and_nothing_is_lost(script, times: list[list[float]], every: int):
    sizes = Sizes(ranges=tuple(itertools.product((16, 64, 256), (16, 64, 256), (512,))))
    given_ = {
        f"k{i}": {size: Samples((ms,)) for size, ms in zip(sizes.all, own, strict=True)} for i, own in enumerate(times)
    }
    replayed = script.replay(sizes, given_, rules(coarse=every, keep=1e6, drop=1e6))
    assert (replayed.run, replayed.sampled_once, replayed.mean) == (replayed.pairs, 0, 0)
    assert replayed.halved_ms == pytest.approx(replayed.brute_ms)
    cut = script.replay(sizes, given_, rules(coarse=every, keep=0.0, drop=0.0))
    assert cut.run <= cut.pairs
    assert min(cut.losses.values()) >= 0
