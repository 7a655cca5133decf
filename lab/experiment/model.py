"""A checked experiment: every name, type and value in it is valid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lab.base import yamlfile
from lab.base.errors import Location, UserError
from lab.base.expressions import Scalar
from lab.experiment.problems import ProblemCase
from lab.experiment.schema import ProfileModel, SearchModel
from lab.operators.foreign import Described
from lab.templates import front_matter

OWN_TOOLCHAINS: Final = ("ptx", "triton")
"""Toolchains that compile only one kind of source."""


def compiler_of(toolchain: str) -> str:
    """Return a toolchain's name without its version: `nvrtc` of `nvrtc==13.5`."""
    return toolchain.split("==", maxsplit=1)[0].strip()


@dataclass(frozen=True)
class KernelEntry:
    """One kernel of an experiment.

    Attributes:
        name: Its name in the report.
        template: The template.
        axes: Every parameter of the template, in the file's order and then the template's, with the values it
            takes; one value means fixed.
        constraints: Expressions, each with its source line.
        facts: Further names that constraints may use, with their values: those of `lab.experiment.machine`, once the
            architecture is known.
        toolchain: The only toolchain that compiles it, `triton` or `ptx`; empty if the experiment's do.
    """

    name: str
    template: front_matter.Template
    axes: Mapping[str, tuple[Scalar, ...]]
    constraints: tuple[tuple[str, Location], ...]
    facts: Mapping[str, Scalar] = field(default_factory=dict)
    toolchain: str = ""

    @property
    def swept(self) -> tuple[str, ...]:
        """Parameters with more than one value."""
        return tuple(name for name, values in self.axes.items() if len(values) > 1)

    def compilers(self, toolchains: Sequence[str]) -> tuple[str, ...]:
        """Return the named toolchains that compile it, or its own toolchain."""
        if not self.toolchain:
            return tuple(name for name in toolchains if compiler_of(name) not in OWN_TOOLCHAINS)
        return tuple(name for name in toolchains if compiler_of(name) == self.toolchain) or (self.toolchain,)


@dataclass(frozen=True)
class Experiment:
    """A checked experiment.

    Attributes:
        name: The file's stem.
        file: The file.
        text: Its text.
        question: Its question.
        operator: Its operator.
        operator_reference: The operator as the file names it, a path made absolute.
        problems: The problems, each complete and with its size on the CPU.
        problem_axes: Fields by which the problems differ; empty for a single one.
        kernels: In file order.
        baselines: Names; ratios refer to the first.
        cache: State of the L2 cache before a launch: `auto`, `cold` or `warm`.
        toolchains: Names, `auto` unresolved.
        archs: Architectures, `native` unresolved.
        options: Sets of compiler options; every variant is built with each.
        gpu: GPUs to predict for, each for the architecture whose code it runs; empty for the usual ones.
        seed: Seed of the inputs.
        search: The search of the space; None if every point is run.
        emulate_at_most: Variants to emulate in a sweep or in a round of a search; None means all.
        baseline: Baseline setting of the parameters; empty for none.
        baseline_rules: Parameters of that setting whose values follow from the architecture, with the expressions of
            `lab.experiment.machine`; empty once it is known.
        profile: Selection of variants whose hardware counters are read; None for none.
    """

    name: str
    file: Path
    text: str
    question: str
    operator: Described
    operator_reference: str
    problems: tuple[ProblemCase, ...]
    problem_axes: tuple[str, ...]
    kernels: tuple[KernelEntry, ...]
    baselines: tuple[str, ...]
    cache: str
    toolchains: tuple[str, ...]
    archs: tuple[str, ...]
    options: tuple[tuple[str, ...], ...]
    gpu: tuple[str, ...]
    seed: int
    search: SearchModel | None = None
    emulate_at_most: int | None = None
    profile: ProfileModel | None = None
    baseline: Mapping[str, Scalar] = field(default_factory=dict)
    baseline_rules: Mapping[str, str] = field(default_factory=dict)

    def at(self, *path: str | int) -> Location:
        """Return a key's location in the file, or the file if it lacks the key."""
        try:
            document = yamlfile.parse(self.text, self.file)
        except UserError:  # the text of an experiment that was put together without a file
            return Location(self.file)
        return (
            document.at(*path) if isinstance(document.data, dict) and path[0] in document.data else Location(self.file)
        )

    @property
    def swept(self) -> tuple[str, ...]:
        """Parameters that take more than one value in some kernel, in file order."""
        return tuple(dict.fromkeys(name for kernel in self.kernels for name in kernel.swept))
