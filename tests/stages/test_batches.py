"""Several builds to a worker: how many, and what one of them that hangs or dies costs the others."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from dataclasses import dataclass

import pytest
from pebble import ProcessPool

from lab.stages import batches
from lab.stages.batches import Batches
from lab.stages.build import BuildFailure, Built
from lab.toolchain.base import Build


def made(seconds, *, cached=False):
    return Built(Build("", b"", {}, "", "", "nvrtc", "13", "sm_90", seconds), None, cached, {}, {}, "", {})


def play(tasks):
    """A compiler: each task says what becomes of it."""
    for task in tasks:
        if task == "hang":
            time.sleep(600)
        if task == "die":
            os.kill(os.getpid(), signal.SIGSEGV)
        if task == "memory":
            raise MemoryError
    return [BuildFailure(task) if task == "refused" else made(0.01) for task in tasks]


@pytest.fixture
def working(monkeypatch):
    monkeypatch.setattr(batches, "build", play)
    monkeypatch.setattr(batches, "BATCH_TIMEOUT_S", 0.5)
    monkeypatch.setattr(batches, "BUILD_TIMEOUT_S", 1.0)
    with ProcessPool(max_workers=1, context=multiprocessing.get_context("spawn")) as pool:
        yield Batches(pool, 1)
        pool.stop()


@dataclass
class Done:
    """A future that has a result."""

    value: object

    def result(self):
        return self.value


@dataclass
class Taking:
    """A pool that takes work and does none of it."""

    def schedule(self, function, args, timeout):
        return None


@pytest.mark.parametrize("fate", ["hang", "die", "memory"])
def test_a_batch_that_fails_is_built_one_by_one_and_costs_one_variant(working, fate):
    together = ["fine", fate, "refused"]
    assert working.outcomes(working.start(together), 3) is None
    alone = [working.outcomes(working.start([task]), 1) for task in together]
    assert alone[0] == [made(0.01)]
    assert alone[2] == [BuildFailure("refused")]
    [failure] = alone[1]
    assert failure.reason.startswith(
        {
            "hang": "the build took longer than 1 s",
            "die": "the build process ended by itself",
            "memory": "the build needs more memory than its share",
        }[fate]
    )


def sizes(waiting, jobs, known=()):
    """Sizes of batches until nothing waits."""
    planning, found = Batches(Taking(), jobs), []
    while waiting:
        size = min(waiting, planning.size(waiting))
        planning.start(["task"] * size)
        planning.outcomes(Done(list(known)), size)
        found.append(size)
        waiting -= size
    return found


def test_the_first_are_alone_and_the_last_are_small():
    found = sizes(240, 16)
    assert found[:16] == [1] * 16
    assert found[16:30] == [8] * 14
    assert found[30:] == sorted(found[30:], reverse=True)
    assert found[-1] == 1
    assert sizes(2, 8) == [1, 1]


def test_what_compiles_long_is_not_built_together():
    assert max(sizes(100, 2, [made(0.2)])) == 8
    assert max(sizes(100, 2, [made(2.0)])) == 2
    assert max(sizes(100, 2, [made(60.0), BuildFailure("refused")])) == 1
    assert max(sizes(100, 2, [made(60.0, cached=True)])) == 8
