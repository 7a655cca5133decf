"""Execute one variant's PTX on the CPU at the experiment's `emulate` size: a stage that runs in worker processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from lab import emulator
from lab.emulator.results import LineCount
from lab.errors import LabError
from lab.expressions import Scalar
from lab.kernels import Launch
from lab.measurement import Verification
from lab.operators import Inputs, operator
from lab.store import EmulationRecord, ExecutedLines, LaunchRecord

_MOST_FINDINGS = 20
"""Findings kept in a record; one fault tends to show on many lines."""


@dataclass(frozen=True, slots=True)
class EmulationTask:
    """One launch to execute.

    Attributes:
        launch: Geometry and arguments for `problem`.
        operator: As the experiment names it.
        problem: The problem at emulated size, complete.
        seed: Of the inputs.
        hot_loop: Label of the PTX's hot loop, or None.
    """

    launch: Launch
    operator: str
    problem: Mapping[str, Scalar]
    seed: int
    hot_loop: str | None


def emulate(task: EmulationTask, ptx: str) -> EmulationRecord:
    """Execute, compare with the reference, and keep counts and findings.

    What the emulator cannot execute is a record that says so, never a guess.
    """
    launch, computed = task.launch, operator(task.operator)
    inputs = computed.inputs(task.problem, task.seed)
    outputs = {name: inputs.arrays[name].copy() for name in inputs.outputs}
    try:
        done = emulator.launch(
            ptx,
            launch.entry,
            launch.grid,
            launch.block,
            [_argument(name, kind, inputs, outputs) for name, kind in launch.arguments],
            dynamic_shared_bytes=launch.dynamic_shared_bytes,
        )
    except LabError as error:
        return not_executed(task, str(error))
    reference = computed.reference(task.problem, inputs)
    largest, tolerance, worst = computed.verify(task.problem, reference, outputs)
    hot = next((loop.counts for loop in done.loops if loop.label == task.hot_loop), None)
    return EmulationRecord(
        problem=task.problem,
        entry=launch.entry,
        launch=_geometry(launch),
        verification=Verification(largest <= tolerance, largest, tolerance, worst, "emulator"),
        executed=done.counts,
        hot_loop=hot,
        findings=done.findings[:_MOST_FINDINGS],
        steps=done.steps,
        notes=(*done.notes, *_left_out(len(done.findings))),
        lines=alike(done.lines),
    )


def alike(lines: Iterable[LineCount]) -> tuple[ExecutedLines, ...]:
    """Put lines of one class with the same counts together, in the order of their first lines."""
    found: dict[tuple[object, ...], tuple[list[int], LineCount]] = {}
    for line in lines:
        key = (line.cls, line.warps, line.threads, *line.memory.items())
        found.setdefault(key, ([], line))[0].append(line.line)
    return tuple(
        ExecutedLines(tuple(numbers), line.cls, line.warps, line.threads, line.memory)
        for numbers, line in found.values()
    )


def _left_out(findings: int) -> tuple[str, ...]:
    if findings <= _MOST_FINDINGS:
        return ()
    return (f"{findings} findings; the first {_MOST_FINDINGS} are kept",)


def not_executed(task: EmulationTask, reason: str) -> EmulationRecord:
    """The record of a launch that has no result, with the reason."""
    return EmulationRecord(task.problem, task.launch.entry, _geometry(task.launch), unsupported=reason)


def _geometry(launch: Launch) -> LaunchRecord:
    return LaunchRecord(launch.grid, launch.block, launch.dynamic_shared_bytes)


def _argument(name: str, kind: str, inputs: Inputs, outputs: Mapping[str, np.ndarray]) -> object:
    if kind.endswith("*"):
        return outputs.get(name, inputs.arrays[name])
    return np.dtype(kind).type(inputs.scalars[name])
