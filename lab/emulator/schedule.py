"""Batch scheduling: a block that waits for another block's data yields to it.

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
"""The maximum of basic blocks per turn under a random schedule."""


def run_batches(launch: LaunchState, batch_threads: int) -> int:
    """Run every block of a launch in batches of about `batch_threads` threads; return the steps taken.

    Raises:
        StepBudgetSpent: the launch's budget is used up; a finding is recorded.
        UnsupportedInstruction: the emulator does not support an instruction.
    """
    clock = machine_clock(launch.machine)
    pending = _batches(launch, batch_threads)
    running: list[Interpreter] = []
    while True:
        batch = next(pending, None)
        if batch is not None:
            running.append(Interpreter(launch, batch, clock))
            if launch.dice is not None:  # all at once, so that any two blocks can overlap
                running += [Interpreter(launch, next_batch, clock) for next_batch in pending]
        if not running:
            return clock.steps
        ended = [_turn(launch, interpreter) for interpreter in running]
        launch.finished.extend(
            interpreter.blocks for interpreter, turn in zip(running, ended, strict=True) if turn == "done"
        )
        if launch.monitor is not None:
            launch.monitor.finished = sum(map(len, launch.finished))
        running = [interpreter for interpreter, turn in zip(running, ended, strict=True) if turn != "done"]
        stuck = all(interpreter.stuck_at == launch.progress.changes for interpreter in running)
        if running and stuck and batch is None and not any(interpreter.nudge() for interpreter in running):
            for interpreter in running:
                interpreter.give_up()
            return clock.steps


def _turn(launch: LaunchState, interpreter: Interpreter) -> Turn:
    return interpreter.turn() if launch.dice is None else interpreter.turn(1 + int(launch.dice.integers(_MOST_BLOCKS)))


def _batches(launch: LaunchState, batch_threads: int) -> Iterator[Batch]:
    """Split a launch into batches of equal size, in whole clusters."""
    total = launch.grid[0] * launch.grid[1] * launch.grid[2] if launch.chosen is None else len(launch.chosen)
    cluster = math.prod(launch.cluster)
    clusters_per_batch = max(1, batch_threads // (padded_threads(launch.block) * cluster))  # clusters
    count = -(-total // (clusters_per_batch * cluster))
    share = -(-total // (count * cluster)) * cluster
    firsts = np.arange(0, total, share)
    if launch.dice is not None:
        launch.dice.shuffle(firsts)
    for first in firsts.tolist():
        size = min(share, total - first)
        yield make_batch(launch.grid, launch.block, first, size, cluster=launch.cluster, chosen=launch.chosen)
