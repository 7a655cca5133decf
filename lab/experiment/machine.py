"""Facts of an SM that an experiment's rules may name: `4 if block_shared_bytes > 200000 else 2` stages.

Constraints and the setting that variants are compared with can name them. Their values are those of the architecture
that is built for, which is known once the machine has been looked at: `on` puts them in.
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
    "block_shared_bytes": lambda one: one.shared_per_block,
    "sm_shared_bytes": lambda one: one.shared_per_sm,
    "sm_registers": lambda one: one.registers_per_sm,
    "sm_threads": lambda one: one.threads_per_sm,
    "sm_blocks": lambda one: one.blocks_per_sm,
}
"""Name to the limit: the most shared memory of a block that opted in and of an SM, in bytes; the 32-bit registers, and
the most resident threads and blocks, of an SM. A parameter or a field of the problem with the same name hides one."""


def facts_of(arch: str) -> dict[str, Scalar]:
    """Return every fact of an architecture by its name.

    Raises:
        UserError: The architecture is not in the table.
    """
    architecture = architecture_for(arch)
    return {name: of(architecture) for name, of in FACTS.items()}


def depends(experiment: Experiment) -> bool:
    """Whether a rule of the experiment names a fact, so that its points depend on the architecture."""
    return bool(experiment.baseline_rules) or any(_named(kernel) for kernel in experiment.kernels)


def on(experiment: Experiment, archs: Sequence[str]) -> Experiment:
    """Return the experiment with the facts of its architectures in place of their names.

    Args:
        experiment: The experiment.
        archs: Its architectures, `native` resolved.

    Raises:
        UserError: An architecture is not in the table, a fact that a rule names differs between the architectures, or
            no variant has the value that a rule gives.
    """
    if not depends(experiment):
        return experiment
    each = [facts_of(arch) for arch in archs]
    used = {name for kernel in experiment.kernels for name in _named(kernel)}
    for text in experiment.baseline_rules.values():
        used |= names_in(text, at=experiment.at("baseline"), key="baseline") & FACTS.keys()
    for name in sorted(used):
        if len({facts[name] for facts in each}) > 1:
            found = ", ".join(f"{facts[name]} on {arch}" for arch, facts in zip(archs, each, strict=True))
            raise UserError(
                f"a rule names {name}, which differs between the architectures",
                code="conflict",
                at=experiment.at("archs"),
                key="archs",
                found=found,
                accepted="one architecture, or several in which it is the same",
            )
    facts = each[0]
    kernels = tuple(replace(kernel, facts=facts) for kernel in experiment.kernels)
    ruled = {name: _ruled(experiment, name, text, facts) for name, text in experiment.baseline_rules.items()}
    return replace(experiment, kernels=kernels, baseline={**experiment.baseline, **ruled}, baseline_rules={})


def _named(kernel: KernelEntry) -> set[str]:
    """The facts that a kernel's constraints name, less those that its parameters hide."""
    found = {name for text, at in kernel.constraints for name in names_in(text, at=at, key="constraints")}
    return (found & FACTS.keys()) - kernel.axes.keys()


def _ruled(experiment: Experiment, name: str, text: str, facts: Mapping[str, Scalar]) -> Scalar:
    """The value of a parameter in the setting that variants are compared with."""
    at, key = experiment.at("baseline", name), f"baseline.{name}"
    value = evaluate(text, facts, at=at, key=key)
    taken = tuple(dict.fromkeys(one for kernel in experiment.kernels for one in kernel.axes.get(name, ())))
    if value not in taken:
        raise UserError(
            "no variant has the value of this rule", code="nothing-left", at=at, key=key, found=value, accepted=taken
        )
    return value
