"""Batches of a launch take turns: a block that waits for another block's data lets that one run.

All blocks of a launch count as resident at the same time. A batch runs as far as it can before the next one starts, so
that a launch whose blocks are independent never holds more than one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from lab.emulator.batch import Batch, make_batch, padded_threads
from lab.emulator.machine import Interpreter, LaunchState, Turn
from lab.emulator.special import machine_clock

_MOST_BLOCKS = 200
"""Most basic blocks of a turn where dice choose who runs."""


def run_batches(launch: LaunchState, batch_threads: int) -> int:
    """Run every block of a launch in batches of about `batch_threads` threads; return the steps taken.

    Raises:
        StepBudgetSpent: the launch's budget is used up; the finding is noted.
        UnsupportedInstruction: an instruction that the emulator does not know.
    """
    clock = machine_clock(launch.machine)
    pending = _batches(launch, batch_threads)
    running: list[Interpreter] = []
    while True:
        batch = next(pending, None)
        if batch is not None:
            running.append(Interpreter(launch, batch, clock))
            if launch.dice is not None:  # all at once, so that any two blocks may meet
                running += [Interpreter(launch, other, clock) for other in pending]
        if not running:
            return clock.steps
        ended = [_turn(launch, one) for one in running]
        launch.finished.extend(one.blocks for one, turn in zip(running, ended, strict=True) if turn == "done")
        if launch.monitor is not None:
            launch.monitor.finished = sum(map(len, launch.finished))
        running = [one for one, turn in zip(running, ended, strict=True) if turn != "done"]
        stuck = all(one.stuck_at == launch.progress.changes for one in running)
        if running and stuck and batch is None and not any(one.nudge() for one in running):
            for one in running:
                one.give_up()
            return clock.steps


def _turn(launch: LaunchState, one: Interpreter) -> Turn:
    return one.turn() if launch.dice is None else one.turn(1 + int(launch.dice.integers(_MOST_BLOCKS)))


def _batches(launch: LaunchState, batch_threads: int) -> Iterator[Batch]:
    """Cut a launch into batches of equal size; clusters are whole."""
    total = launch.grid[0] * launch.grid[1] * launch.grid[2] if launch.chosen is None else len(launch.chosen)
    cluster = math.prod(launch.cluster)
    most = max(1, batch_threads // (padded_threads(launch.block) * cluster))  # clusters
    count = -(-total // (most * cluster))
    share = -(-total // (count * cluster)) * cluster
    firsts = np.arange(0, total, share)
    if launch.dice is not None:
        launch.dice.shuffle(firsts)
    for first in firsts.tolist():
        size = min(share, total - first)
        yield make_batch(launch.grid, launch.block, first, size, cluster=launch.cluster, chosen=launch.chosen)
