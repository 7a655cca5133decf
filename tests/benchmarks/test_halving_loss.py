"""The complete part of a table that halving cut."""

from __future__ import annotations

import sys

import pytest
from planted_tuning import GPU, LABEL, SIZES, plant

from lab.measured.timing import Samples
from lab.store.tuning_model import FinalSizes

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
