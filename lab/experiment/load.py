"""Loads an experiment file into a checked `Experiment`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.base import shipped, yamlfile
from lab.base.errors import Location, UserError, did_you_mean
from lab.base.expressions import Scalar, names_in
from lab.base.validation import validate
from lab.experiment.beside import Cases, offered, own_kernel
from lab.experiment.machine import FACTS
from lab.experiment.model import Experiment, KernelEntry, compiler_of
from lab.experiment.plain import check_quotes, plain_kernel
from lab.experiment.plain_checks import PlainReading, check_emulated
from lab.experiment.problems import ProblemCase, problems, values_of
from lab.experiment.schema import ExperimentFile, KernelModel, MeasuringFile, PlainFile, SearchModel
from lab.experiment.triton_entry import TRITON, is_triton, triton_kernel
from lab.hardware.gpus import gpu_for
from lab.measured.baselines import BASELINES
from lab.operators.builtin import operator
from lab.operators.foreign import opened
from lab.templates import front_matter
from lab.toolchain.options import accepted


def load(file: Path, *, run_operator: bool = True) -> Experiment:
    """Read and check an experiment file.

    Args:
        file: The file, or the name of an experiment that comes with lab.
        run_operator: A user-defined operator may run, in a worker.

    Raises:
        UserError: The file or a template it names is invalid; the error has file and line.
        OperatorFault: The user's operator raised, returned an invalid result, or took too long.
    """
    file = shipped.experiment(file)
    return from_text(yamlfile.read_text(file, label="the experiment"), file, run_operator=run_operator)


def from_text(text: str, file: Path, *, run_operator: bool = True) -> Experiment:
    """Check the text of an experiment; `file` names it, and relative paths start from its folder."""
    document = yamlfile.parse(text, file)
    if isinstance(document.data, dict) and "groups" in document.data and "kernels" not in document.data:
        raise UserError(
            "this is a tuning file", code="unsupported", at=Location(file), key="groups", suggestion=f"lab tune {file}"
        )
    if isinstance(document.data, dict) and "source" in document.data:
        return _of_plain_kernel(text, file, document)
    for i, entry in enumerate(_listed(document)):
        if isinstance(entry, dict) and "source" in entry:
            with _below("kernels", i):
                check_quotes(document.below("kernels", i))
    raw = validate(ExperimentFile, document)
    with opened(raw.operator, file.parent, at=document.at("operator"), trusted=run_operator) as computed:
        problem_cases, problem_axes = problems(computed, raw, document)
        cases = offered(computed, problem_cases) if any(kernel.source for kernel in raw.kernels) else ()
    return Experiment(
        question=raw.question.strip(),
        operator=computed,
        operator_reference=_absolute(raw.operator, file),
        problems=problem_cases,
        problem_axes=problem_axes,
        kernels=_kernels(raw, problem_cases, cases, document),
        **_common(raw, text, file, document),
    )


def _listed(document: yamlfile.Document) -> list[object]:
    """Return the entries of `kernels` before validation; empty if there is no list."""
    entries = document.data.get("kernels") if isinstance(document.data, dict) else None
    return entries if isinstance(entries, list) else []


@contextmanager
def _below(*place: str | int) -> Iterator[None]:
    """Prefix the keys of errors in a section with the section's path in the file."""
    try:
        yield
    except UserError as error:
        raise error.below(yamlfile.dotted(place)) from error


def _of_plain_kernel(text: str, file: Path, document: yamlfile.Document) -> Experiment:
    """Load the experiment of a kernel without a template; see `lab.experiment.plain`."""
    check_quotes(document)
    raw = validate(PlainFile, document)
    reading = PlainReading(raw, document)
    check_emulated(reading)
    kernel = triton_kernel(reading) if is_triton(raw.source) else plain_kernel(reading)
    _check_toolchains(raw, kernel.entry.toolchain, document)
    reference = kernel.declaration.reference
    computed = operator(reference)
    problem_cases, problem_axes = problems(computed, raw, document)
    swept = " and ".join(kernel.entry.swept)
    question = raw.question or (f"Which {swept} is fastest?" if swept else f"What does {kernel.entry.name} do?")
    return Experiment(
        question=question.strip(),
        operator=computed,
        operator_reference=reference,
        problems=problem_cases,
        problem_axes=problem_axes,
        kernels=(kernel.entry,),
        baseline={name: value for name, value in kernel.baseline.items() if value in kernel.entry.axes[name]},
        baseline_rules={
            name: str(rule) for name, rule in kernel.baseline.items() if rule not in kernel.entry.axes[name]
        },
        **_common(raw, text, file, document),
    )


def _check_toolchains(raw: PlainFile, only: str, document: yamlfile.Document) -> None:
    """Reject other compilers for PTX and Triton functions, which have their own toolchains."""
    conflicting = [name for name in raw.toolchains if only and compiler_of(name) not in ("auto", only)]
    if conflicting:
        message = "a Triton function is compiled by Triton" if only == TRITON else "PTX is assembled, not compiled"
        accepted = f"{only}, or no toolchains at all"
        raise UserError(
            message,
            code="unsupported",
            at=document.at("toolchains"),
            key="toolchains",
            found=conflicting,
            accepted=accepted,
        )


def _common(raw: MeasuringFile, text: str, file: Path, document: yamlfile.Document) -> dict[str, Any]:
    """Return the settings common to all experiment files."""
    for i, name in enumerate(raw.baselines):
        if name not in BASELINES:
            raise UserError(
                "unknown baseline",
                code="unknown-name",
                at=document.at("baselines", i),
                key=f"baselines[{i}]",
                found=name,
                accepted=tuple(BASELINES),
                suggestion=did_you_mean(name, BASELINES),
            )
    sets = option_sets(raw)
    for name in raw.toolchains:  # `auto` is resolved when the machine's compilers are searched
        compiler = compiler_of(name)
        for options in sets:
            check_options(options, "" if compiler == "auto" else compiler, document)
    return {
        "name": file.name.split(".")[0] or "experiment",
        "file": file,
        "text": text,
        "baselines": tuple(dict.fromkeys(raw.baselines)),
        "cache": raw.cache,
        "toolchains": tuple(dict.fromkeys(raw.toolchains)),
        "archs": tuple(dict.fromkeys(raw.archs)),
        "options": sets,
        "gpu": _gpus(raw, document),
        "seed": raw.seed,
        "search": _search(raw, document),
        "emulate_at_most": raw.emulate_at_most,
        "profile": raw.profile,
    }


def _gpus(raw: MeasuringFile, document: yamlfile.Document) -> tuple[str, ...]:
    """Return the names of the GPUs to predict for.

    Raises:
        UserError: A name is not in the table.
    """
    names = (raw.gpu,) if isinstance(raw.gpu, str) else tuple(raw.gpu or ())
    for i, name in enumerate(names):
        try:
            gpu_for(name)
        except UserError as error:
            at = document.at("gpu") if isinstance(raw.gpu, str) else document.at("gpu", i)
            raise UserError(
                error.message,
                code=error.code,
                at=at,
                key="gpu",
                found=name,
                accepted=error.accepted,
                suggestion=error.suggestion,
            ) from None
    return names


def _search(raw: MeasuringFile, document: yamlfile.Document) -> SearchModel | None:
    """Check the search of a file, whose keys depend on its strategy.

    Raises:
        UserError: A key is missing, or belongs to another strategy.
    """
    search = raw.search
    if search is None:
        return None
    draws = search.strategy == "random"
    required_keys = ("sample",) if draws else () if search.strategy == "exhaustive" else ("evaluations", "seconds")
    if required_keys and all(getattr(search, name) is None for name in required_keys):
        key = f"search.{required_keys[0]}"
        accepted = f"{' or '.join(required_keys)}: the strategy {search.strategy} needs a number of variants to measure"
        raise UserError("missing", code="missing-key", at=document.at("search"), key=key, accepted=accepted)
    foreign_keys = {"evaluations", "seconds", "batch", "stop"} if draws else {"sample", "refine"}
    if search.strategy not in {"prior", "surrogate"}:
        foreign_keys |= {"candidates", "known"}
    for name in sorted(foreign_keys & search.model_fields_set):
        whose = "the strategies prior and surrogate" if name in {"candidates", "known"} else "the other strategies"
        whose = "the strategy random" if name in {"sample", "refine"} else whose
        raise UserError(
            f"a key of {whose}",
            code="unknown-key",
            at=document.at("search", name),
            key=f"search.{name}",
            found=f"strategy: {search.strategy}",
            accepted="keys of this strategy: " + ", ".join(_keys_of(search.strategy)),
        )
    if search.strategy == "prior" and search.candidates == 0 and search.known is None:
        raise UserError(
            "nothing to order",
            code="missing-key",
            at=document.at("search", "candidates"),
            key="search.candidates",
            accepted="1 or more",
        )
    if search.known is not None and search.candidates is not None:
        raise UserError(
            "both known times and candidates to predict",
            code="conflict",
            at=document.at("search", "candidates"),
            key="search.candidates",
            accepted="one of the two: with known times, nothing is predicted",
        )
    several = [name for name in ("toolchains", "archs") if not draws and len(getattr(raw, name)) > 1]
    if several:
        raise UserError(
            f"a search by the strategy {search.strategy} compares variants of one compiler and architecture",
            code="conflict",
            at=document.at(several[0]),
            key=several[0],
            found=getattr(raw, several[0]),
            accepted="one",
        )
    return search


def _keys_of(strategy: str) -> tuple[str, ...]:
    if strategy == "random":
        return ("sample", "seed", "prune", "refine")
    candidates = ("candidates", "known") if strategy in {"prior", "surrogate"} else ()
    return ("evaluations", "seconds", *candidates, "batch", "stop", "seed", "prune")


def option_sets(raw: MeasuringFile) -> tuple[tuple[str, ...], ...]:
    """Return the sets of compiler options of a file, each once; a plain list is one set."""
    swept = [options for options in raw.options if isinstance(options, list)]
    return tuple(dict.fromkeys(map(tuple, swept))) or (tuple(map(str, raw.options)),)


def check_options(options: Sequence[str], compiler: str, source: yamlfile.Document | Location) -> None:
    """Check an experiment's compiler options.

    Args:
        options: The options.
        compiler: Name of the compiler; empty for any.
        source: The experiment, or its location.

    Raises:
        UserError: One is not accepted.
    """
    try:
        accepted(options, compiler)
    except UserError as error:
        match = re.search(r"\[(\d+)\]", error.key or "")
        place = ("options", int(match[1])) if match else ("options",)
        raise error.placed(source if isinstance(source, Location) else source.at(*place), error.key) from None


def _absolute(reference: str, file: Path) -> str:
    if ":" not in reference:
        return reference
    path, _, name = reference.rpartition(":")
    return f"{(file.parent / path).resolve()}:{name}"


def _kernels(
    raw: ExperimentFile, problem_cases: tuple[ProblemCase, ...], cases: Cases, document: yamlfile.Document
) -> tuple[KernelEntry, ...]:
    entries = tuple(
        _own_kernel(i, kernel, cases, document)
        if _names_source(i, kernel, document)
        else _kernel(i, raw, problem_cases, document)
        for i, kernel in enumerate(raw.kernels)
    )
    indices: dict[str, int] = {}
    for i, entry in enumerate(entries):
        if entry.name in indices:
            raise UserError(
                "two kernels have the same name",
                code="duplicate",
                at=document.at("kernels", i),
                key=f"kernels[{i}].name",
                found=entry.name,
                accepted=f"another name; kernels[{indices[entry.name]}] already has this one",
            )
        indices[entry.name] = i
    return entries


def _names_source(i: int, entry: KernelModel, document: yamlfile.Document) -> bool:
    """Return whether an entry names a source, not a template.

    Raises:
        UserError: It names both or neither, or gives a template a key that only sources have.
    """
    place = ("kernels", i)
    if (entry.template is None) == (entry.source is None):
        key = "source" if entry.source is not None else "template"
        raise UserError(
            "a kernel has either a template or a source",
            code="missing-key",
            at=document.at(*place, key),
            key=yamlfile.dotted((*place, key)),
            found=entry.source,
            accepted="one of the keys template and source",
        )
    for key in sorted(entry.model_fields_set) if entry.template is not None else ():
        if key not in ("template", "name", "parameters", "constraints"):
            raise UserError(
                f"only a source has this key; a template defines its own {key}",
                code="unknown-key",
                at=document.at(*place, key),
                key=yamlfile.dotted((*place, key)),
                accepted="template, name, parameters, constraints",
            )
    return entry.source is not None


def _own_kernel(i: int, entry: KernelModel, cases: Cases, document: yamlfile.Document) -> KernelEntry:
    """Load a kernel without a template; see `lab.experiment.beside`."""
    with _below("kernels", i):
        kernel = own_kernel(entry, document.below("kernels", i), cases)
    return replace(kernel, name=entry.name or kernel.name)


def _kernel(
    i: int, raw: ExperimentFile, problem_cases: tuple[ProblemCase, ...], document: yamlfile.Document
) -> KernelEntry:
    entry, place = raw.kernels[i], ("kernels", i)
    assert entry.template is not None  # noqa: S101 - the caller has looked
    template = front_matter.load(
        entry.template,
        front_matter.search_path(Path(document.file).parent),
        at=document.at(*place, "template"),
        key=yamlfile.dotted((*place, "template")),
    )
    if template.declares.operator != raw.operator:
        raise UserError(
            f"the template is for the operator {template.declares.operator!r}",
            code="unsupported",
            at=document.at(*place, "template"),
            key=yamlfile.dotted((*place, "template")),
            found=entry.template,
            accepted=f"a template for the operator {raw.operator!r}",
        )
    refused = [template.unsupported(problem.values) for problem in problem_cases]
    if refused[0] and all(refused):  # if it supports some of the problems, the others are left out
        field, values = refused[0]
        raise UserError(
            f"the template {entry.template} does not support this problem",
            code="unsupported",
            at=document.at("problem", field),
            key=f"problem.{field}",
            found=problem_cases[0].values.get(field),
            accepted=values,
        )
    return KernelEntry(
        name=entry.name or template.stem,
        template=template,
        axes=_axes(entry, template, document, place),
        constraints=_constraints(entry, template, problem_cases, document, place),
    )


def _axes(
    entry: KernelModel, template: front_matter.Template, document: yamlfile.Document, place: tuple[str, int]
) -> Mapping[str, tuple[Scalar, ...]]:
    declared = template.declares.parameters
    axes: dict[str, tuple[Scalar, ...]] = {}
    for name, setting in entry.parameters.items():
        at = document.at(*place, "parameters", name)
        key = yamlfile.dotted((*place, "parameters", name))
        if name not in declared:
            raise UserError(
                f"the template {template.name} has no such parameter",
                code="unknown-name",
                at=at,
                key=key,
                accepted=list(declared) or "no parameter: the template declares none",
                suggestion=did_you_mean(name, declared),
            )
        values: list[Any] = values_of(setting, document, (*place, "parameters", name))
        for value in values:
            accepted = declared[name].refuses(value)
            if accepted:
                raise UserError(
                    f"wrong value for {name} ({declared[name].help})",
                    code="wrong-value",
                    at=at,
                    key=key,
                    found=value,
                    accepted=accepted,
                )
        # Python says that 1 equals true, but they are not duplicates here; types were checked above
        axes[name] = tuple(dict.fromkeys(values))
    for name, parameter in declared.items():
        axes.setdefault(name, (parameter.default,))
    return axes


def _constraints(
    entry: KernelModel,
    template: front_matter.Template,
    problem_cases: tuple[ProblemCase, ...],
    document: yamlfile.Document,
    place: tuple[str, int],
) -> tuple[tuple[str, Location], ...]:
    valid_names = list(
        dict.fromkeys(
            [*template.declares.parameters, *problem_cases[0].values, *problem_cases[0].values.absent, *FACTS]
        )
    )
    for i, expression in enumerate(entry.constraints):
        at, key = document.at(*place, "constraints", i), yamlfile.dotted((*place, "constraints", i))
        for name in sorted(names_in(expression, at=at, key=key)):
            if name not in valid_names:
                raise UserError(
                    f"unknown name {name!r} in a constraint",
                    code="unknown-name",
                    at=at,
                    key=key,
                    found=expression,
                    accepted=valid_names,
                    suggestion=did_you_mean(name, valid_names),
                )
    return tuple((text, document.at(*place, "constraints", i)) for i, text in enumerate(entry.constraints))
