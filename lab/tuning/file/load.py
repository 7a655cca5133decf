"""Read a tuning file into a checked `Tuning`, with valid names, values and sizes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.base import shipped, yamlfile
from lab.base.errors import Location, UserError
from lab.base.expressions import Scalar, names_in
from lab.base.validation import validate
from lab.base.yamlfile import Document, Key
from lab.store.tuning_model import ProblemType
from lab.templates import front_matter
from lab.templates.front_matter import Template
from lab.templates.instance import Instance
from lab.tuning.file import names
from lab.tuning.file.size_lists import Sizes, read
from lab.tuning.file.tuning_schema import (
    BenchmarkModel,
    GroupModel,
    HalvingModel,
    LibraryModel,
    ProblemModel,
    TimingModel,
    TuningFile,
)
from lab.tuning.product import product

_MOST_COMBINATIONS = 200_000
_BATCHES = "gemm/tensile.cu.j2"
"""A template that supports batches, for messages."""
_BATCH_INDICES: dict[int, tuple[int, ...]] = {2: (), 3: (2,)}
"""Batch indices by the number of C's indices."""

_PRECISIONS = {"S": "float32", "H": "float16", "B": "bfloat16", "D": "float64", "C": "complex64", "Z": "complex128"}


@dataclass(frozen=True)
class Option:
    """One combination of some parameters.

    Attributes:
        given: Values by the template's names.
        values: The same in the file's names and words, for tables.
    """

    given: names.Given
    values: Mapping[str, str]


@dataclass(frozen=True)
class Benchmark:
    """Step 2, 4 or 6: combinations to time.

    Attributes:
        options: Every combination of the step's parameters.
        sizes: Sizes at which they are timed.
    """

    options: tuple[Option, ...]
    sizes: Sizes


@dataclass(frozen=True)
class Join:
    """Step 5: keep the fastest of the kernels with equal values.

    Attributes:
        by: Names of parameters or derived values.
        sizes: Sizes that decide.
    """

    by: tuple[str, ...]
    sizes: Sizes


@dataclass(frozen=True)
class Group:
    """A group of kernels and the steps that choose among them.

    Attributes:
        name: Its name.
        template: The template of all of its kernels.
        type: The problem type.
        constraints: Expressions, each with its place in the file.
        initial: Step 1.
        common: Step 2, or None.
        fork: Step 3: every combination; one empty option where the step is empty.
        fork_benchmark: Step 4, or None.
        join: Step 5, or None.
        join_benchmark: Step 6, or None.
        final: Step 7.
        single: The kernel that size-tuned ones are compared with, or None.
    """

    name: str
    template: Template
    type: ProblemType
    constraints: tuple[tuple[str, Location], ...]
    initial: names.Given
    common: Benchmark | None
    fork: tuple[Option, ...]
    fork_benchmark: Benchmark | None
    join: Join | None
    join_benchmark: Benchmark | None
    final: Sizes
    single: names.Given | None = None


@dataclass(frozen=True)
class Tuning:
    """A checked tuning file.

    Attributes:
        name: The file's stem.
        file: The file.
        text: Its text.
        question: The question that it asks.
        groups: In file order.
        arch: Architecture, `native` unresolved.
        toolchain: Name, `auto` unresolved.
        gpu: The GPU to predict for, or None.
        baselines: Names.
        seed: Seed of the inputs and of the random sizes.
        halving: What step 7 may leave out; None for nothing.
        timing: How points are timed.
        library: The library to write, or None.
    """

    name: str
    file: Path
    text: str
    question: str
    groups: tuple[Group, ...]
    arch: str
    toolchain: str
    gpu: str | None
    baselines: tuple[str, ...]
    seed: int
    halving: HalvingModel | None
    timing: TimingModel
    library: LibraryModel | None

    @property
    def types(self) -> tuple[ProblemType, ...]:
        """Problem types in file order, without repetitions."""
        return tuple(dict.fromkeys(group.type for group in self.groups))


def load(file: Path) -> Tuning:
    """Read and check a tuning file, or the one of that name that comes with lab.

    Raises:
        UserError: something is wrong with it or with a template that it names; the error has file and line.
    """
    file = shipped.experiment(file)
    return from_text(yamlfile.read_text(file, label="the tuning file"), file)


def from_text(text: str, file: Path) -> Tuning:
    """Check the text of a tuning file.

    Args:
        text: Its text.
        file: Its name, for messages; relative paths in the text start from its folder.

    Raises:
        UserError: see `load`.
    """
    document = yamlfile.parse(text, file)
    raw = validate(TuningFile, document)
    groups = tuple(_group(i, raw, document) for i in range(len(raw.groups)))
    seen_groups: set[tuple[str, ProblemType]] = set()
    for i, group in enumerate(groups):
        if (group.name, group.type) in seen_groups:
            accepted = "a different name for each group of a problem type"
            at = document.at("groups", i, "name")
            raise UserError(
                "two groups have the same name",
                code="duplicate",
                at=at,
                key=f"groups[{i}].name",
                found=group.name,
                accepted=accepted,
            )
        seen_groups.add((group.name, group.type))
    if raw.library is not None and len(precisions := {group.type.dtype for group in groups}) > 1:
        raise UserError(
            "libraries of two precisions would have the same names",
            code="duplicate",
            at=document.at("library"),
            key="library",
            found=sorted(precisions),
            accepted="groups of one precision, or no library",
        )
    if raw.library is not None and len({group.type.batched for group in groups}) > 1:
        raise UserError(
            "libraries of products and of batches would have the same names",
            code="duplicate",
            at=document.at("library"),
            key="library",
            found="groups with NumIndicesC 2 and 3",
            accepted="groups of products alone or of batches alone, or no library",
        )
    return Tuning(
        name=file.name.split(".")[0] or "tuning",
        file=file,
        text=document.text,
        question=raw.question.strip(),
        groups=groups,
        arch=raw.arch,
        toolchain=raw.toolchain,
        gpu=raw.gpu,
        baselines=tuple(dict.fromkeys(raw.baselines)),
        seed=raw.seed,
        halving=raw.halving,
        timing=raw.timing,
        library=raw.library,
    )


def problem_type(model: ProblemModel, document: Document, place: Key) -> ProblemType:
    """Translate Tensile's index assignments to the layout of a GEMM or a batched GEMM.

    C's indices are 0 (rows) and 1 (columns), and of a batch 2; the index behind them is summed over. The first index of
    a matrix is the contiguous one, and that of the batch is the last.

    Raises:
        UserError: the indices are those of no product of two matrices, and of no batch.
    """
    if model.NumIndicesC not in _BATCH_INDICES:
        raise UserError(
            "only products of two matrices and batches of them can be tuned",
            code="unsupported",
            at=document.at(*place, "NumIndicesC"),
            key=yamlfile.dotted((*place, "NumIndicesC")),
            found=f"NumIndicesC {model.NumIndicesC}, A {model.IndexAssignmentsA}, B {model.IndexAssignmentsB}",
            accepted="NumIndicesC: 2, or NumIndicesC: 3 for a batch; an experiment of `lab run` with "
            "operator: contraction takes all indices",
        )
    batch, summed = _BATCH_INDICES[model.NumIndicesC], model.NumIndicesC
    letters = ""
    for side, assignment, layouts in (
        ("A", model.IndexAssignmentsA, {(0, summed, *batch): "n", (summed, 0, *batch): "t"}),
        ("B", model.IndexAssignmentsB, {(summed, 1, *batch): "n", (1, summed, *batch): "t"}),
    ):
        key = f"IndexAssignments{side}"
        letter = layouts.get(tuple(assignment))
        if letter is None:
            accepted = " or ".join(f"{list(indices)} ({letter})" for indices, letter in layouts.items())
            at = document.at(*place, key)
            raise UserError(
                f"these are not the indices of {side} in a {'batch of products' if batch else 'matrix product'}",
                code="mismatch",
                at=at,
                key=yamlfile.dotted((*place, key)),
                found=assignment,
                accepted=accepted,
            )
        letters += letter
    return ProblemType(_PRECISIONS[model.Precision], letters, batched=bool(batch))


def _group(i: int, raw: TuningFile, document: Document) -> Group:
    model, place = raw.groups[i], ("groups", i)
    template = front_matter.load(
        model.template,
        front_matter.search_path(Path(document.file).parent),
        at=document.at(*place, "template"),
        key=yamlfile.dotted((*place, "template")),
    )
    problem_place: Key = (*place, "problem") if model.problem else ("problem",)
    kind = problem_type(model.problem or raw.problem, document, problem_place)
    refused = template.unsupported(product(kind, kind.least))
    if template.declares.operator != "gemm" or refused:
        accepted = f"a template of the operator gemm that supports {kind.dtype} and layout {kind.layout}"
        accepted += f", and batches, as {_BATCHES} does" if kind.batched else ""
        at, key = document.at(*place, "template"), yamlfile.dotted((*place, "template"))
        raise UserError(
            "the template does not compute this problem",
            code="unsupported",
            at=at,
            key=key,
            found=model.template,
            accepted=accepted,
        )
    reader = _Reader(model, template, kind, document, place)
    final = read(model.BenchmarkFinalParameters, kind, document, (*place, "BenchmarkFinalParameters"))
    if not final.all:
        at = document.at(*place, "BenchmarkFinalParameters")
        accepted = f"at least one size of layout {kind.layout}"
        key = f"groups[{i}].BenchmarkFinalParameters"
        raise UserError(
            "step 7 has no sizes", code="nothing-left", at=at, key=key, found="none of this layout", accepted=accepted
        )
    return Group(
        name=model.name,
        template=template,
        type=kind,
        constraints=reader.constraints(),
        initial=reader.fixed("InitialSolutionParameters", model.InitialSolutionParameters),
        common=reader.benchmark("BenchmarkCommonParameters", model.BenchmarkCommonParameters),
        fork=reader.options(("ForkParameters",), model.ForkParameters),
        fork_benchmark=reader.benchmark("BenchmarkForkParameters", model.BenchmarkForkParameters),
        join=reader.join(),
        join_benchmark=reader.benchmark("BenchmarkJoinParameters", model.BenchmarkJoinParameters),
        final=final,
        single=None if model.single_tuned is None else reader.fixed("single_tuned", model.single_tuned),
    )


@dataclass(frozen=True)
class _Reader:
    """Reader of one group in the file."""

    model: GroupModel
    template: Template
    type: ProblemType
    document: Document
    place: tuple[str, int]

    def fixed(self, step: str, values: Mapping[str, object]) -> dict[str, Scalar]:
        """Read a mapping with one value for each parameter."""
        parameters: dict[str, Scalar] = {}
        for name, value in values.items():
            path = (*self.place, step, name)
            added = names.assigned(self.template, name, value, self.document.at(*path), yamlfile.dotted(path))
            parameters = names.merged(parameters, added)
        return parameters

    def options(self, step: Key, choices: Mapping[str, object]) -> tuple[Option, ...]:
        """Read a mapping with a list of values for each parameter: all combinations, the last varying fastest."""
        axes = [list(self._axis((*self.place, *step, name), name, values)) for name, values in choices.items()]
        count = 1
        for axis in axes:
            count *= len(axis)
        if count > _MOST_COMBINATIONS:
            path = (*self.place, *step)
            accepted = f"at most {_MOST_COMBINATIONS}"
            at = self.document.at(*path)
            raise UserError(
                "too many combinations",
                code="out-of-range",
                at=at,
                key=yamlfile.dotted(path),
                found=count,
                accepted=accepted,
            )
        result = []
        for combination in itertools.product(*axes):
            merged: dict[str, Scalar] = {}
            labels: dict[str, str] = {}
            for sets, name, value in combination:
                merged, labels = names.merged(merged, sets), {**labels, name: names.shown(value)}
            result.append(Option(merged, labels))
        return tuple(result)

    def _axis(self, path: Key, name: str, values: object) -> Iterator[tuple[dict[str, Scalar], str, object]]:
        at, key = self.document.at(*path), yamlfile.dotted(path)
        if not isinstance(values, list) or not values:
            accepted = "a list of one or more values"
            raise UserError(
                "this is not a list of values", code="wrong-type", at=at, key=key, found=values, accepted=accepted
            )
        for value in values:
            yield names.assigned(self.template, name, value, at, key), name, value

    def benchmark(self, step: str, model: BenchmarkModel | None) -> Benchmark | None:
        """Read step 2, 4 or 6; None if the file has no such step."""
        if model is None:
            return None
        return Benchmark(self.options((step, "parameters"), model.parameters), self._sizes(step, model.sizes is None))

    def join(self) -> Join | None:
        """Read step 5; None if the file has no such step."""
        model = self.model.JoinParameters
        if model is None:
            return None
        scope = Instance(self.template, self.template.completed({}), product(self.type, self.type.least)).names
        for i, name in enumerate(model.parameters):
            if names.joined(name, scope) is None:
                path = (*self.place, "JoinParameters", "parameters", i)
                accepted = sorted(key for key, value in scope.items() if isinstance(value, bool | int | float | str))
                at = self.document.at(*path)
                raise UserError(
                    "no parameter or derived value has this name",
                    code="unknown-name",
                    at=at,
                    key=yamlfile.dotted(path),
                    found=name,
                    accepted=accepted,
                )
        return Join(tuple(model.parameters), self._sizes("JoinParameters", model.sizes is None))

    def _sizes(self, step: str, default: bool) -> Sizes:
        """Read a step's own sizes, else the group's."""
        path = (*self.place, "benchmark") if default else (*self.place, step, "sizes")
        models = self.model.benchmark if default else getattr(self.model, step).sizes
        sizes = read(models, self.type, self.document, path)
        if not sizes.all:
            at, key = self.document.at(*self.place, step), yamlfile.dotted((*self.place, step))
            accepted = "`sizes` in the step or `benchmark` in the group, with at least one size of this layout"
            raise UserError("the step has no sizes to time at", code="nothing-left", at=at, key=key, accepted=accepted)
        return sizes

    def constraints(self) -> tuple[tuple[str, Location], ...]:
        """Read the group's constraints and check their names."""
        scope = Instance(self.template, self.template.completed({}), product(self.type, self.type.least)).names
        checked = []
        for i, text in enumerate(self.model.constraints):
            path = (*self.place, "constraints", i)
            at = self.document.at(*path)
            for name in sorted(names_in(text, at=at, key=yamlfile.dotted(path)) - scope.keys()):
                accepted = sorted(scope)
                raise UserError(
                    f"a constraint uses the unknown name {name!r}",
                    code="unknown-name",
                    at=at,
                    key=yamlfile.dotted(path),
                    found=text,
                    accepted=accepted,
                )
            checked.append((text, at))
        return tuple(checked)
