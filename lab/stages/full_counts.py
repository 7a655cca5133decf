"""Count what random blocks execute at the problem's own size.

Trip counts, divergence and addresses are those of the real problem there, which the counts of a smaller one have to be
extrapolated to. The verification's sampled blocks (`lab.stages.full_size`) lie at the edges of the grid and so do not
stand for the others.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from lab.base.errors import LabError
from lab.base.warp import WARP_SIZE
from lab.emulator.allowance import PER_STEP
from lab.emulator.batch import padded_threads
from lab.emulator.monitor import LaunchMonitor
from lab.emulator.program import program_of
from lab.emulator.results import Emulation
from lab.emulator.waiting.clusters import cluster_shape
from lab.isa.model import InstructionClass
from lab.operators.builtin import operator
from lab.operators.indexed import IndexedInputs
from lab.stages.full_size import FullSizeTask, materialised, pointers, writable_arrays
from lab.stages.memory import DeviceMemory, IndexedMemory
from lab.stages.sequence import launch_step
from lab.templates.launches import Launch, Launches
from lab.verdict.sampling import neighbouring_blocks, random_blocks

_MOST: Final = 256
_FEWEST: Final = 4
"""Most and fewest blocks of a launch that are counted; a smaller grid is counted whole."""

_INTERPRETED: Final = 16_000_000
"""Work of the interpreter for the counts of a launch: some tenths of a second."""

_LIMIT_S: Final = 2.0
"""Processor seconds after which a launch is stopped, and not counted."""


@dataclass(frozen=True, slots=True)
class CountedLaunch:
    """A launch of which some blocks were counted.

    Attributes:
        step: The launch.
        blocks: Number of these blocks.
        result: Their counts, and the data reuse of neighbouring blocks.
    """

    step: Launch
    blocks: int
    result: Emulation


def count_full_size(task: FullSizeTask, ptx: str) -> tuple[CountedLaunch, ...]:
    """Execute random blocks of every launch, unchecked, for their counts.

    Args:
        task: The problem, with the expected instructions of a block.
        ptx: The variant's PTX.

    Returns:
        Nothing if some launch cannot be counted: it reads what all blocks of an earlier one write, its blocks wait for
        others or take too long, or it multiplies on tensor cores, whose sample says more.
    """
    computed, launches = operator(task.operator), task.full.launches
    try:
        inputs = computed.indexed_inputs(computed.restored(task.full.problem), task.seed)
        if inputs is None:
            return ()
        counted: list[CountedLaunch] = []
        for step in launches.steps:
            if counted and writable_arrays(launches, inputs) & pointers(step):
                return ()
            outcome = _counted(task, step, ptx, inputs)
            if outcome is None:
                return ()
            counted.append(outcome)
    except (LabError, MemoryError):  # the small problem has counts
        return ()
    return tuple(counted)


def _counted(task: FullSizeTask, step: Launch, ptx: str, inputs: IndexedInputs) -> CountedLaunch | None:
    program, threads = program_of(ptx, step.entry), padded_threads(step.block)
    if program.has_async_proxy or any(instruction.cls is InstructionClass.MMA for _, instruction in program.code):
        return None
    cluster = cluster_shape(program, step.grid, step.cluster)
    steps = task.block_warps * WARP_SIZE / threads  # of a block whose warps advance together
    affordable = (_INTERPRETED / max(1.0, steps) - PER_STEP) / threads
    blocks = random_blocks(step.grid, cluster, task.seed, max(_FEWEST, min(_MOST, int(affordable))))
    traced = neighbouring_blocks(step.grid, cluster, threads)
    if affordable >= _FEWEST:
        memory: DeviceMemory | IndexedMemory = IndexedMemory(inputs, task.full.launches)
        result = _launched(ptx, step, memory, blocks, traced, compiled=False)
    else:
        arrays = materialised(task.operator, task.full.problem, task.seed)
        if arrays is None:
            return None
        memory = DeviceMemory(arrays, task.full.launches, traced=True)
        result = _launched(ptx, step, memory, blocks, traced, compiled=True)
    if result.findings or result.finished < len(blocks) or result.counts is None:
        return None
    return CountedLaunch(step, len(blocks), result)


def _launched(
    ptx: str,
    step: Launch,
    memory: DeviceMemory | IndexedMemory,
    blocks: Sequence[int],
    traced: Sequence[int],
    *,
    compiled: bool,
) -> Emulation:
    return launch_step(
        ptx,
        step,
        memory,
        check=False,
        engine="compiled" if compiled else "interpreted",
        monitor=LaunchMonitor(_LIMIT_S, clock=time.process_time),
        blocks=blocks,
        trace=True,
        traced=traced,
    )


def counted_launches(launches: Launches, counted: Sequence[CountedLaunch]) -> Launches:
    """Return the launches with grids of as many blocks as were counted."""
    steps = tuple(replace(done.step, grid=(done.blocks, 1, 1)) for done in counted)
    return replace(launches, steps=steps)


def counted_share(counted: Sequence[CountedLaunch]) -> float:
    """Return the share of the blocks of all launches that were counted."""
    return sum(done.blocks for done in counted) / sum(math.prod(done.step.grid) for done in counted)
