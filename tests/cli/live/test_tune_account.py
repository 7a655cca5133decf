"""The account of a tuning run in progress."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.cli.live.snapshot import Stage
from lab.cli.live.tune_account import TuneAccount, class_text, size_class
from lab.measured.timing import Kind
from lab.tuning.watched import SizeLeader


@pytest.fixture
def now():
    return [0.0]


@pytest.fixture
def account(now):
    made = TuneAccount(lambda: now[0])
    made.began(cast("Any", SimpleNamespace(name="sizes", question="Which?")), "NVIDIA H200")
    return made


def test_sizes_kernels_and_times_are_counted(account):
    account.built(SimpleNamespace(name="good", failure=""))
    account.built(SimpleNamespace(name="bad", failure="it spills"))
    assert account.snapshot().latest == "built: bad"
    account.asked("float32_nn, step 7", 20)
    account.timed((64, 64, 64), 7)
    account.timed((96, 64, 64), 5)
    found = account.snapshot(0)
    assert found.stages == (Stage("kernels built", 2), Stage("sizes of this step", 2, 20), Stage("times", 12))
    assert [(row.name, row.reason) for row in found.failures] == [("bad", "it spills")]
    account.asked("float32_nt, step 7", 5)
    assert account.snapshot().stages[1] == Stage("sizes of this step", 0, 5)


def test_each_class_of_sizes_has_its_best(account):
    account.asked("float32_nn, step 7", 3)
    account.timed((1024, 1024, 1024), 2, SizeLeader("tile", 30.0, Kind.MEASURED, 1.1))
    account.timed((64, 64, 64), 2, SizeLeader("small", 0.005, Kind.MEASURED))
    account.timed((1100, 1024, 1024), 2, SizeLeader("other", 31.0, Kind.MEASURED, 0.9))
    assert [(one.group, one.name, one.figure, one.kind) for one in account.snapshot().best] == [
        ("1 GFLOP to 10 GFLOP", "other at 1100 x 1024 x 1024", "31 TFLOP/s, 0.90 x cublas", "measured"),
        ("100 kFLOP to 1 MFLOP", "small at 64 x 64 x 64", "0.005 TFLOP/s", "measured"),
    ]
    assert next(row.name for row in account.snapshot(0).rows) == "1024 x 1024 x 1024: tile"


def test_the_time_left_is_that_of_the_step(account, now):
    account.asked("float32_nn, step 7", 10)
    now[0] = 5.0
    account.timed((64, 64, 64), 0)  # known from before
    assert account.snapshot().left_s is None
    now[0] = 7.0
    account.timed((96, 64, 64), 3)
    assert account.snapshot().left_s == pytest.approx(16)
    assert "later steps are not included" in account.snapshot().pace


def test_steps_are_notes(account):
    account.resumed(8)
    account.stepped(SimpleNamespace(group="g", number=2, title="tiles", text="3 of 9 are kept"))
    assert account.snapshot().notes == ("g, step 2, tiles: 3 of 9 are kept",)
    assert "8 times" in account.snapshot().latest


@pytest.mark.parametrize(
    ("size", "text"),
    [
        ((1, 1, 1), "1 FLOP to 10 FLOP"),
        ((8, 8, 8), "1 kFLOP to 10 kFLOP"),
        ((8192, 8192, 8192), "1 TFLOP to 10 TFLOP"),
    ],
)
def test_a_class_is_a_decade_of_operations(size, text):
    assert class_text(size_class(size)) == text
