"""Executes a drafted experiment once, so that a draft that does not run says what is missing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from lab.base.errors import LabError, MissingToolError
from lab.cli.guesses import PROVISIONAL
from lab.experiment.load import load
from lab.experiment.space import expand
from lab.experiment.variants import plan
from lab.gpu.device.describe import DEFAULT_ARCH
from lab.gpu.process.hostmemory import within_free_memory
from lab.recorded.run_records import Status
from lab.runs import flow
from lab.runs.flow import FlowContext
from lab.runs.reference import ReferenceVariant
from lab.stages.build import build, build_task
from lab.stages.emulate import emulate
from lab.toolchain.select import toolchain

_MOST_VARIANTS = 100_000


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The outcome of one execution.

    Attributes:
        status: The verdict on the first variant; None where none was reached.
        reason: Why it did not run, or what its verdict rests on.
    """

    status: Status | None
    reason: str

    @property
    def runs(self) -> bool:
        """Return whether the draft was executed and nothing was found wrong."""
        return self.status is not None and self.status.sound

    @property
    def heading(self) -> str:
        """The comment at the top of a draft that does not run, or that a fault was found with."""
        if self.status in (Status.WRONG, Status.SUSPECT):
            return f"# Executed once on the CPU: {self.status}: {self.reason}"
        return f"# This draft does not run yet: {self.reason}"

    def verdict(self, *, is_guess: bool) -> str:
        """Return the outcome in words; nothing is judged where the draft holds a guess."""
        words = f"{self.status}: {self.reason}" if self.status and self.reason else str(self.status or self.reason)
        return f"not judged; {PROVISIONAL}{words}" if is_guess else words


def rehearse(file: Path) -> Rehearsal:
    """Execute the first variant of an experiment at its small size on the CPU.

    Raises:
        MissingToolError: There is no compiler.
    """
    try:
        experiment = load(file)
        points = expand(experiment, max_variants=_MOST_VARIANTS).points
        planned = plan(experiment, points[:1], [toolchain("nvrtc")], [DEFAULT_ARCH])[0]
        context = FlowContext(experiment, None, emulate=True)
        variant = flow.inspect(context, planned, build([build_task(planned)])[0], None)
        if not experiment.operator.has_reference:
            first = ReferenceVariant(variant.planned, variant.ptx, variant.cubin)
            context = replace(context, reference=first)
        if flow.step_after_build(context, variant, spared=False) is flow.NextStep.EMULATE:
            with within_free_memory():
                executed = emulate(flow.emulation_task(context, variant), variant.ptx)
            variant = flow.judge(variant, (executed, None))
    except MissingToolError:
        raise
    except LabError as error:
        return Rehearsal(None, " ".join(str(error).split()))
    return Rehearsal(variant.record.status, " ".join(variant.record.reason.split()))
