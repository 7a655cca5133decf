"""A candidate compiled for its task; runs in worker processes."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TypeGuard

from lab.base.errors import CompileError, MissingToolError, UserError
from lab.base.expressions import Scalar
from lab.emulator.program import Program, program_of
from lab.emulator.results import FindingKind
from lab.experiment.machine import depends, on
from lab.experiment.model import Experiment
from lab.experiment.space import expand
from lab.experiment.variants import plan, toolchains
from lab.gpu.device.describe import DEFAULT_ARCH
from lab.isa.model import Module
from lab.isa.ptx.module import read_ptx
from lab.judging.code import float_constants, narrow_arithmetic, prints, size_constants
from lab.judging.combined import experiment_of, placed
from lab.judging.faults import Fault, Ruling
from lab.judging.task import CandidateError, CandidateSource, Request, Task, candidate_of, load_task
from lab.operators.declared.operator import Declared
from lab.runs import flow
from lab.runs.flow import FlowContext, InspectedVariant, excused_for
from lab.stages.build import BuildFailure, build, build_task
from lab.templates.instance import Instance
from lab.templates.launches import Launches


class RejectedError(Exception):
    """A candidate that cannot be executed, with the fault that decides about it."""

    def __init__(self, fault: Fault) -> None:
        """Keep the fault."""
        self.fault = fault
        super().__init__(fault)


@dataclass(frozen=True, eq=False)
class Case:
    """A compiled candidate.

    Attributes:
        task: Its task.
        candidate: Its source.
        experiment: The two as an experiment.
        context: The run that it would be in.
        variant: The compiled variant.
        seed: Seed of everything that is drawn.
    """

    task: Task
    candidate: CandidateSource
    experiment: Experiment
    context: FlowContext
    variant: InspectedVariant
    seed: int

    @property
    def operator(self) -> Declared:
        """The operator that the task declares."""
        assert isinstance(self.experiment.operator, Declared)  # noqa: S101 - every task declares its own
        return self.experiment.operator

    @property
    def emulated(self) -> Mapping[str, Scalar]:
        """The complete problem at the emulated size."""
        point = self.variant.planned.point
        assert point.problem.emulate is not None  # noqa: S101 - every task has one
        return dict(self.experiment.operator.for_parameters(point.problem.emulate, point.parameters))

    @property
    def launches(self) -> Launches:
        """The launches at the emulated size."""
        point = self.variant.planned.point
        launches = Instance(point.kernel.template, point.parameters, self.emulated).launches
        return launches.built(self.variant.planned.known)

    @property
    def excused(self) -> frozenset[FindingKind]:
        """Kinds of findings that are the compiler's fault."""
        return excused_for(self.variant.planned.toolchain.name)

    @cached_property
    def module(self) -> Module:
        """The PTX module."""
        return read_ptx(self.variant.ptx, self.candidate.file)

    @cached_property
    def programs(self) -> tuple[Program, ...]:
        """The program of every kernel that is launched."""
        return tuple(program_of(self.variant.ptx, entry) for entry in dict.fromkeys(self.launches.entries))

    @cached_property
    def float_constants(self) -> tuple[float, ...]:
        """Floats that the PTX compares numbers with, in order."""
        return float_constants(self.module)

    @cached_property
    def untried_sizes(self) -> tuple[int, ...]:
        """Constants of comparisons between the largest emulated size and the largest one of the problem itself."""
        sizes = [value for value in self.emulated.values() if _is_size(value)]
        real = [value for value in self.variant.planned.point.problem.values.values() if _is_size(value)]
        largest, most = (max([int(size) for size in group], default=0) for group in (sizes, real))
        return tuple(value for value in size_constants(self.module) if largest < value <= most)

    @cached_property
    def narrow_arithmetic(self) -> tuple[str, str] | None:
        """A type with fewer bits than every float of the task, in which the PTX computes, and the instruction."""
        return narrow_arithmetic(self.module, [argument.dtype for argument in self.operator.declaration.arguments])


@lru_cache(maxsize=2)
def case_of(request: Request) -> Case:
    """Compile a candidate; builds are cached on disk, so that several workers can ask for one.

    Raises:
        RejectedError: The candidate does not fit the task or does not compile.
        UserError: The task is wrong.
        MissingToolError: Its compiler is missing.
    """
    task = load_task(request.task, request.task_text)
    try:
        candidate = candidate_of(request.text, request.file, task)
        with tempfile.TemporaryDirectory(prefix="lab-judge-") as folder:
            return _compiled(task, candidate, Path(folder), request.seed)
    except CandidateError as error:
        raise RejectedError(_fault_of(error)) from None


def _fault_of(error: CandidateError) -> Fault:
    line = f"{Path(error.at.file).name}:{error.at.line}" if error.at is not None and error.at.line else ""
    return Fault(Ruling.WRONG, "declaration", "; ".join(map(str.strip, str(error).splitlines())), line=line)


def _compiled(task: Task, candidate: CandidateSource, folder: Path, seed: int) -> Case:
    experiment = experiment_of(task, candidate, folder, seed)
    experiment = replace(experiment, archs=tuple(_resolved(arch) for arch in experiment.archs))
    try:
        if depends(experiment):
            experiment = on(experiment, experiment.archs)
        expansion = expand(experiment)
        planned = plan(experiment, expansion.points, toolchains(experiment), experiment.archs)[0]
        (outcome,) = build([build_task(planned)])
    except UserError as error:
        raise placed(error, task, candidate) from None
    except MissingToolError:
        raise
    except CompileError as error:
        raise RejectedError(Fault(Ruling.WRONG, "compile", _shortened(str(error)))) from None
    if isinstance(outcome, BuildFailure):
        raise RejectedError(Fault(Ruling.WRONG, "compile", _shortened(outcome.reason)))
    context = FlowContext(experiment, None, emulate=True)
    try:
        variant = flow.inspect(context, planned, outcome, None)
        mistake = flow.argument_mistake(context, variant, outcome) or flow.constant_mistake(context, variant, outcome)
    except UserError as error:
        raise placed(error, task, candidate) from None
    if mistake is not None:
        raise RejectedError(Fault(Ruling.WRONG, "declaration", _shortened(" ".join(str(mistake).split()))))
    if variant.record.status.failed:
        raise RejectedError(Fault(Ruling.WRONG, "launch", variant.record.reason))
    case = Case(task, candidate, experiment, context, variant, seed)
    if not task.raw.policy.printing and (place := prints(case.module)) is not None:
        reason = "the kernel prints, which the task does not allow"
        raise RejectedError(Fault(Ruling.UNSAFE, "printing", reason, line=place))
    return case


def _is_size(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _resolved(arch: str) -> str:
    """Return the architecture for which candidates are compiled, whatever GPU this machine has."""
    return DEFAULT_ARCH if arch in ("auto", "native") else arch


def _shortened(text: str, most: int = 600) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
