"""The reference variant of an experiment that names no reference: the first that compiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.base import interrupts
from lab.base.executor import Executor
from lab.experiment.model import Experiment
from lab.experiment.variants import Planned
from lab.measured.timing import GpuDescription
from lab.stages.batches import BUILD_TIMEOUT_S, BuildFunction
from lab.stages.build import Built, build_task
from lab.stages.record import built

_MOST_TRIED = 20
"""Most variants built in search of one that compiles."""


@dataclass(frozen=True, slots=True)
class ReferenceVariant:
    """A variant others are compared with.

    Attributes:
        planned: The variant.
        ptx: Its PTX.
        cubin: Its machine code.
    """

    planned: Planned
    ptx: str
    cubin: bytes


def first_that_compiles(
    experiment: Experiment,
    planned: Sequence[Planned],
    executor: Executor,
    function: BuildFunction,
    gpu: GpuDescription | None,
) -> ReferenceVariant | None:
    """Build variants one after another until one compiles; None where none of the first few does.

    Args:
        experiment: The experiment.
        planned: Its variants.
        executor: Where they are built.
        function: Builds them.
        gpu: The GPU that measures, or None.

    Raises:
        MissingToolError: the compiler or the disassembler cannot run here.
    """
    for variant in planned[:_MOST_TRIED]:
        try:
            (outcome,) = interrupts.wait(
                executor.submit(function, [build_task(variant)], timeout_s=BUILD_TIMEOUT_S).result
            )
        except TimeoutError:
            continue
        if isinstance(outcome, Built):
            build = outcome.build
            return ReferenceVariant(built(experiment, variant, build, gpu), build.ptx, build.cubin)
    return None


def note_of(reference: ReferenceVariant | None) -> str:
    """Return a note on what the outputs were compared with."""
    if reference is None:
        return "No reference is given, and no variant compiles: no output was checked."
    title = f"{reference.planned.point.kernel.name} {reference.planned.label}".strip()
    return (
        f"No reference is given. The outputs of the first variant, {title}, stand in for it, unless it has faults of "
        "its own: variants that agree with it may all be wrong."
    )
