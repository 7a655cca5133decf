"""SM limits that an experiment's expressions can use: `4 if block_shared_bytes > 200000 else 2` stages.

Constraints and the baseline setting can name them. Their values depend on the target architecture, which is known once
the machine has been inspected: `on` substitutes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from lab.base.errors import UserError
from lab.base.expressions import Scalar, evaluate, names_in
from lab.experiment.model import Experiment, KernelEntry
from lab.hardware.gpus import Architecture, architecture_for

FACTS: Final[Mapping[str, Callable[[Architecture], int]]] = {
    "block_shared_bytes": lambda architecture: architecture.shared_per_block,
    "sm_shared_bytes": lambda architecture: architecture.shared_per_sm,
    "sm_registers": lambda architecture: architecture.registers_per_sm,
    "sm_threads": lambda architecture: architecture.threads_per_sm,
    "sm_blocks": lambda architecture: architecture.blocks_per_sm,
}
"""The limits by name: shared memory per block (opt-in) and per SM, in bytes; 32-bit registers, resident threads and
resident blocks per SM. A parameter or a field of the problem with the same name hides a limit."""


def facts_of(arch: str) -> dict[str, Scalar]:
    """Return the SM limits of an architecture by name.

    Raises:
        UserError: The architecture is not in the table.
    """
    architecture = architecture_for(arch)
    return {name: of(architecture) for name, of in FACTS.items()}


def depends(experiment: Experiment) -> bool:
    """Return whether an expression of the experiment uses an SM limit, so that its points depend on the arch."""
    return bool(experiment.baseline_rules) or any(_named(kernel) for kernel in experiment.kernels)


def on(experiment: Experiment, archs: Sequence[str]) -> Experiment:
    """Return the experiment with SM limits replaced by the values of its architectures.

    Args:
        experiment: The experiment.
        archs: Its architectures, `native` resolved.

    Raises:
        UserError: An architecture is not in the table, a fact that a rule names differs between the architectures, or
            no variant has the value that a rule gives.
    """
    if not depends(experiment):
        return experiment
    facts_by_arch = [facts_of(arch) for arch in archs]
    used = {name for kernel in experiment.kernels for name in _named(kernel)}
    for text in experiment.baseline_rules.values():
        used |= names_in(text, at=experiment.at("baseline"), key="baseline") & FACTS.keys()
    for name in sorted(used):
        if len({facts[name] for facts in facts_by_arch}) > 1:
            differing = ", ".join(f"{facts[name]} on {arch}" for arch, facts in zip(archs, facts_by_arch, strict=True))
            raise UserError(
                f"a rule names {name}, which differs between the architectures",
                code="conflict",
                at=experiment.at("archs"),
                key="archs",
                found=differing,
                accepted="one architecture, or several in which it is the same",
            )
    facts = facts_by_arch[0]
    kernels = tuple(replace(kernel, facts=facts) for kernel in experiment.kernels)
    ruled = {name: _ruled(experiment, name, text, facts) for name, text in experiment.baseline_rules.items()}
    return replace(experiment, kernels=kernels, baseline={**experiment.baseline, **ruled}, baseline_rules={})


def _named(kernel: KernelEntry) -> set[str]:
    """Return the SM limits a kernel's constraints use, except those hidden by its parameters."""
    names = {name for text, at in kernel.constraints for name in names_in(text, at=at, key="constraints")}
    return (names & FACTS.keys()) - kernel.axes.keys()


def _ruled(experiment: Experiment, name: str, text: str, facts: Mapping[str, Scalar]) -> Scalar:
    """Return the value of a parameter in the baseline setting."""
    at, key = experiment.at("baseline", name), f"baseline.{name}"
    value = evaluate(text, facts, at=at, key=key)
    axis_values = tuple(
        dict.fromkeys(axis_value for kernel in experiment.kernels for axis_value in kernel.axes.get(name, ()))
    )
    if value not in axis_values:
        raise UserError(
            "no variant has the value of this rule",
            code="nothing-left",
            at=at,
            key=key,
            found=value,
            accepted=axis_values,
        )
    return value
