"""From an experiment file to a checked `Experiment`: every name, type and value in it is known to be good."""

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
from lab.experiment.problems import ProblemCase, problems, values_of
from lab.experiment.reading import PlainReading, check_emulated
from lab.experiment.schema import ExperimentFile, KernelModel, MeasuringFile, PlainFile, SearchModel
from lab.experiment.triton import TRITON, is_triton, triton_kernel
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
        run_operator: An operator of the user's own may run, in a worker.

    Raises:
        UserError: Something is wrong with it or with a template that it names; the error has file and line.
        OperatorFault: The user's operator raised, returned what it must not, or took too long.
    """
    file = shipped.experiment(file)
    return from_text(yamlfile.read_text(file, what="the experiment"), file, run_operator=run_operator)


def from_text(text: str, file: Path, *, run_operator: bool = True) -> Experiment:
    """Check the text of an experiment; `file` names it, and relative paths start from its folder."""
    document = yamlfile.parse(text, file)
    if isinstance(document.data, dict) and "groups" in document.data and "kernels" not in document.data:
        raise UserError("this is a tuning file", at=Location(file), key="groups", suggestion=f"lab tune {file}")
    if isinstance(document.data, dict) and "source" in document.data:
        return _of_plain_kernel(text, file, document)
    for i, one in enumerate(_listed(document)):
        if isinstance(one, dict) and "source" in one:
            with _below("kernels", i):
                check_quotes(document.below("kernels", i))
    raw = validate(ExperimentFile, document)
    with opened(raw.operator, file.parent, at=document.at("operator"), trusted=run_operator) as computed:
        wanted, problem_axes = problems(computed, raw, document)
        cases = offered(computed, wanted) if any(one.source for one in raw.kernels) else ()
    return Experiment(
        question=raw.question.strip(),
        operator=computed,
        operator_reference=_absolute(raw.operator, file),
        problems=wanted,
        problem_axes=problem_axes,
        kernels=_kernels(raw, wanted, cases, document),
        **_common(raw, text, file, document),
    )


def _listed(document: yamlfile.Document) -> list[object]:
    """The entries of `kernels` before they are judged; none where there is no list."""
    given = document.data.get("kernels") if isinstance(document.data, dict) else None
    return given if isinstance(given, list) else []


@contextmanager
def _below(*place: str | int) -> Iterator[None]:
    """Give mistakes in a part of the file, which has keys of its own, those of the file."""
    try:
        yield
    except UserError as error:
        raise error.below(yamlfile.dotted(place)) from error


def _of_plain_kernel(text: str, file: Path, document: yamlfile.Document) -> Experiment:
    """The experiment of a kernel without a template: see `lab.experiment.plain`."""
    check_quotes(document)
    raw = validate(PlainFile, document)
    reading = PlainReading(raw, document)
    check_emulated(reading)
    given = triton_kernel(reading) if is_triton(raw.source) else plain_kernel(reading)
    _check_toolchains(raw, given.entry.toolchain, document)
    reference = given.declaration.reference
    computed = operator(reference)
    wanted, problem_axes = problems(computed, raw, document)
    swept = " and ".join(given.entry.swept)
    question = raw.question or (f"Which {swept} is fastest?" if swept else f"What does {given.entry.name} do?")
    return Experiment(
        question=question.strip(),
        operator=computed,
        operator_reference=reference,
        problems=wanted,
        problem_axes=problem_axes,
        kernels=(given.entry,),
        baseline={name: value for name, value in given.baseline.items() if value in given.entry.axes[name]},
        baseline_rules={name: str(rule) for name, rule in given.baseline.items() if rule not in given.entry.axes[name]},
        **_common(raw, text, file, document),
    )


def _check_toolchains(raw: PlainFile, only: str, document: yamlfile.Document) -> None:
    """Refuse other compilers for PTX and Triton functions, which have a toolchain each."""
    others = [name for name in raw.toolchains if only and compiler_of(name) not in ("auto", only)]
    if others:
        message = "a Triton function is compiled by Triton" if only == TRITON else "PTX is assembled, not compiled"
        accepted = f"{only}, or no toolchains at all"
        raise UserError(message, at=document.at("toolchains"), key="toolchains", found=others, accepted=accepted)


def _common(raw: MeasuringFile, text: str, file: Path, document: yamlfile.Document) -> dict[str, Any]:
    """What every experiment file may say."""
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
    sets = option_sets(raw)
    for name in raw.toolchains:  # what `auto` means is known where the machine's compilers are looked for
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
                error.message, at=at, key="gpu", found=name, accepted=error.accepted, suggestion=error.suggestion
            ) from None
    return names


def _search(raw: MeasuringFile, document: yamlfile.Document) -> SearchModel | None:
    """The search of a file, whose keys belong to its strategy.

    Raises:
        UserError: One is missing, or is another strategy's.
    """
    search = raw.search
    if search is None:
        return None
    draws = search.strategy == "random"
    needed = ("sample",) if draws else () if search.strategy == "exhaustive" else ("evaluations", "seconds")
    if needed and all(getattr(search, name) is None for name in needed):
        key = f"search.{needed[0]}"
        accepted = f"{' or '.join(needed)}: the strategy {search.strategy} needs a number of variants to measure"
        raise UserError("missing", at=document.at("search"), key=key, accepted=accepted)
    others = {"evaluations", "seconds", "batch", "stop"} if draws else {"sample", "refine"}
    if search.strategy not in {"prior", "surrogate"}:
        others |= {"candidates", "known"}
    for name in sorted(others & search.model_fields_set):
        whose = "the strategies prior and surrogate" if name in {"candidates", "known"} else "the other strategies"
        whose = "the strategy random" if name in {"sample", "refine"} else whose
        raise UserError(
            f"a key of {whose}",
            at=document.at("search", name),
            key=f"search.{name}",
            found=f"strategy: {search.strategy}",
            accepted="keys of this strategy: " + ", ".join(_keys_of(search.strategy)),
        )
    if search.strategy == "prior" and search.candidates == 0 and search.known is None:
        raise UserError(
            "nothing to order", at=document.at("search", "candidates"), key="search.candidates", accepted="1 or more"
        )
    if search.known is not None and search.candidates is not None:
        raise UserError(
            "both known times and candidates to predict",
            at=document.at("search", "candidates"),
            key="search.candidates",
            accepted="one of the two: with known times, nothing is predicted",
        )
    several = [name for name in ("toolchains", "archs") if not draws and len(getattr(raw, name)) > 1]
    if several:
        raise UserError(
            f"a search by the strategy {search.strategy} compares variants of one compiler and architecture",
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


def check_options(options: Sequence[str], compiler: str, where: yamlfile.Document | Location) -> None:
    """Check an experiment's compiler options.

    Args:
        options: The options.
        compiler: Name of the compiler that gets them; if empty, any.
        where: The experiment, or its place where only that is known.

    Raises:
        UserError: One is not accepted.
    """
    try:
        accepted(options, compiler)
    except UserError as error:
        match = re.search(r"\[(\d+)\]", error.key or "")
        place = ("options", int(match[1])) if match else ("options",)
        raise error.placed(where if isinstance(where, Location) else where.at(*place), error.key) from None


def _absolute(reference: str, file: Path) -> str:
    if ":" not in reference:
        return reference
    path, _, name = reference.rpartition(":")
    return f"{(file.parent / path).resolve()}:{name}"


def _kernels(
    raw: ExperimentFile, wanted: tuple[ProblemCase, ...], cases: Cases, document: yamlfile.Document
) -> tuple[KernelEntry, ...]:
    entries = tuple(
        _own_kernel(i, one, cases, document) if _names_source(i, one, document) else _kernel(i, raw, wanted, document)
        for i, one in enumerate(raw.kernels)
    )
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


def _names_source(i: int, entry: KernelModel, document: yamlfile.Document) -> bool:
    """Return whether an entry names a source, not a template.

    Raises:
        UserError: It names both or none, or says of a template what only sources need.
    """
    place = ("kernels", i)
    if (entry.template is None) == (entry.source is None):
        key = "source" if entry.source is not None else "template"
        raise UserError(
            "a kernel has either a template or a source",
            at=document.at(*place, key),
            key=yamlfile.dotted((*place, key)),
            found=entry.source,
            accepted="one of the keys template and source",
        )
    for key in sorted(entry.model_fields_set) if entry.template is not None else ():
        if key not in ("template", "name", "parameters", "constraints"):
            raise UserError(
                f"a key of a source; a template itself says its {key}",
                at=document.at(*place, key),
                key=yamlfile.dotted((*place, key)),
                accepted="template, name, parameters, constraints",
            )
    return entry.source is not None


def _own_kernel(i: int, entry: KernelModel, cases: Cases, document: yamlfile.Document) -> KernelEntry:
    """A kernel without a template: see `lab.experiment.beside`."""
    with _below("kernels", i):
        made = own_kernel(entry, document.below("kernels", i), cases)
    return replace(made, name=entry.name or made.name)


def _kernel(i: int, raw: ExperimentFile, wanted: tuple[ProblemCase, ...], document: yamlfile.Document) -> KernelEntry:
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
    known = list(dict.fromkeys([*template.declares.parameters, *wanted[0].values, *wanted[0].values.absent, *FACTS]))
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
