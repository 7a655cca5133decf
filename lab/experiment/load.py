"""From an experiment file to a checked `Experiment`: every name, type and value in it is known to be good."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.base import yamlfile
from lab.base.errors import Location, UserError, did_you_mean
from lab.base.expressions import Scalar, names_in
from lab.base.validation import validate
from lab.experiment.problems import ProblemCase, problems, values_of
from lab.experiment.schema import ExperimentFile, KernelModel, ProfileModel, SearchModel
from lab.measured.baselines import BASELINES
from lab.operators.foreign import Described, opened
from lab.templates import front_matter


@dataclass(frozen=True)
class KernelEntry:
    """One kernel of an experiment.

    Attributes:
        name: Its name in the report.
        template: The template.
        axes: Every parameter of the template, in the file's order and then the template's, with the values it
            takes; one value means fixed.
        constraints: Expressions with the line where each stands.
    """

    name: str
    template: front_matter.Template
    axes: Mapping[str, tuple[Scalar, ...]]
    constraints: tuple[tuple[str, Location], ...]

    @property
    def swept(self) -> tuple[str, ...]:
        """Parameters with more than one value."""
        return tuple(name for name, values in self.axes.items() if len(values) > 1)


@dataclass(frozen=True)
class Experiment:
    """A checked experiment.

    Attributes:
        name: The file's stem.
        file: The file.
        text: Its text.
        question: What it asks.
        operator: What is computed.
        operator_reference: The operator as the file names it, a path made absolute.
        problems: The problems, each complete and with its size on the CPU.
        problem_axes: Fields by which the problems differ; empty for a single one.
        kernels: In file order.
        baselines: Names; ratios refer to the first.
        cache: State of the L2 cache before a launch: `auto`, `cold` or `warm`.
        toolchains: Names, `auto` unresolved.
        archs: Architectures, `native` unresolved.
        options: Compiler options.
        gpu: The GPU to predict for, or None.
        seed: Seed of the inputs.
        search: How the space is searched; None where every point is run.
        emulate_at_most: Variants to execute on the CPU in a sweep or in a round of a search; None means all.
        profile: Which variants' hardware counters are read; None for none.
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
    options: tuple[str, ...]
    gpu: str | None
    seed: int
    search: SearchModel | None = None
    emulate_at_most: int | None = None
    profile: ProfileModel | None = None

    @property
    def swept(self) -> tuple[str, ...]:
        """Parameters that take more than one value in some kernel, in file order."""
        return tuple(dict.fromkeys(name for kernel in self.kernels for name in kernel.swept))


def load(file: Path, *, run_operator: bool = True) -> Experiment:
    """Read and check an experiment file.

    Args:
        file: The file.
        run_operator: An operator of the user's own may run, in a worker.

    Raises:
        UserError: Something is wrong with it or with a template that it names; the error has file and line.
        OperatorFault: The user's operator raised, returned what it must not, or took too long.
    """
    return from_text(yamlfile.read_text(file), file, run_operator=run_operator)


def from_text(text: str, file: Path, *, run_operator: bool = True) -> Experiment:
    """Check the text of an experiment; `file` names it, and relative paths start from its folder."""
    document = yamlfile.parse(text, file)
    raw = validate(ExperimentFile, document)
    with opened(raw.operator, file.parent, at=document.at("operator"), trusted=run_operator) as computed:
        wanted, problem_axes = problems(computed, raw, document)
    for i, name in enumerate(raw.baselines):
        if name not in BASELINES:
            raise UserError(
                "unknown baseline",
                at=document.at("baselines", i),
                key=f"baselines[{i}]",
                found=name,
                accepted=tuple(BASELINES),
                suggestion=did_you_mean(name, BASELINES),
            )
    return Experiment(
        name=file.name.split(".")[0] or "experiment",
        file=file,
        text=text,
        question=raw.question.strip(),
        operator=computed,
        operator_reference=_absolute(raw.operator, file),
        problems=wanted,
        problem_axes=problem_axes,
        kernels=_kernels(raw, wanted, document),
        baselines=tuple(dict.fromkeys(raw.baselines)),
        cache=raw.cache,
        toolchains=tuple(dict.fromkeys(raw.toolchains)),
        archs=tuple(dict.fromkeys(raw.archs)),
        options=tuple(raw.options),
        gpu=raw.gpu,
        seed=raw.seed,
        search=raw.search,
        emulate_at_most=raw.emulate_at_most,
        profile=raw.profile,
    )


def _absolute(reference: str, file: Path) -> str:
    if ":" not in reference:
        return reference
    path, _, name = reference.rpartition(":")
    return f"{(file.parent / path).resolve()}:{name}"


def _kernels(
    raw: ExperimentFile, wanted: tuple[ProblemCase, ...], document: yamlfile.Document
) -> tuple[KernelEntry, ...]:
    entries = tuple(_kernel(i, raw, wanted, document) for i in range(len(raw.kernels)))
    seen: dict[str, int] = {}
    for i, entry in enumerate(entries):
        if entry.name in seen:
            raise UserError(
                "two kernels have the same name",
                at=document.at("kernels", i),
                key=f"kernels[{i}].name",
                found=entry.name,
                accepted=f"another name; kernels[{seen[entry.name]}] already has this one",
            )
        seen[entry.name] = i
    return entries


def _kernel(i: int, raw: ExperimentFile, wanted: tuple[ProblemCase, ...], document: yamlfile.Document) -> KernelEntry:
    entry, place = raw.kernels[i], ("kernels", i)
    template = front_matter.load(
        entry.template,
        front_matter.search_path(Path(document.file).parent),
        at=document.at(*place, "template"),
        key=yamlfile.dotted((*place, "template")),
    )
    if template.declares.operator != raw.operator:
        raise UserError(
            f"the template is for the operator {template.declares.operator!r}",
            at=document.at(*place, "template"),
            key=yamlfile.dotted((*place, "template")),
            found=entry.template,
            accepted=f"a template for the operator {raw.operator!r}",
        )
    refused = [template.unsupported(problem.values) for problem in wanted]
    if refused[0] and all(refused):  # where it supports some of the problems, the others are left out
        field, values = refused[0]
        raise UserError(
            f"the template {entry.template} does not support this problem",
            at=document.at("problem", field),
            key=f"problem.{field}",
            found=wanted[0].values.get(field),
            accepted=values,
        )
    return KernelEntry(
        name=entry.name or template.stem,
        template=template,
        axes=_axes(entry, template, document, place),
        constraints=_constraints(entry, template, wanted, document, place),
    )


def _axes(
    entry: KernelModel, template: front_matter.Template, document: yamlfile.Document, place: tuple[str, int]
) -> Mapping[str, tuple[Scalar, ...]]:
    declared = template.declares.parameters
    axes: dict[str, tuple[Scalar, ...]] = {}
    for name, given in entry.parameters.items():
        at = document.at(*place, "parameters", name)
        key = yamlfile.dotted((*place, "parameters", name))
        if name not in declared:
            raise UserError(
                f"the template {template.name} has no such parameter",
                at=at,
                key=key,
                accepted=list(declared) or "no parameter: the template declares none",
                suggestion=did_you_mean(name, declared),
            )
        values: list[Any] = values_of(given, document, (*place, "parameters", name))
        for value in values:
            accepted = declared[name].refuses(value)
            if accepted:
                raise UserError(
                    f"wrong value for {name} ({declared[name].help})", at=at, key=key, found=value, accepted=accepted
                )
        # Python says that 1 equals true, but they are not duplicates here; types were checked above
        axes[name] = tuple(dict.fromkeys(values))
    for name, parameter in declared.items():
        axes.setdefault(name, (parameter.default,))
    return axes


def _constraints(
    entry: KernelModel,
    template: front_matter.Template,
    wanted: tuple[ProblemCase, ...],
    document: yamlfile.Document,
    place: tuple[str, int],
) -> tuple[tuple[str, Location], ...]:
    known = list(dict.fromkeys([*template.declares.parameters, *wanted[0].values]))
    for i, expression in enumerate(entry.constraints):
        at, key = document.at(*place, "constraints", i), yamlfile.dotted((*place, "constraints", i))
        for name in sorted(names_in(expression, at=at, key=key)):
            if name not in known:
                raise UserError(
                    f"unknown name {name!r} in a constraint",
                    at=at,
                    key=key,
                    found=expression,
                    accepted=known,
                    suggestion=did_you_mean(name, known),
                )
    return tuple((text, document.at(*place, "constraints", i)) for i, text in enumerate(entry.constraints))
