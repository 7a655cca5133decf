"""Plans the variants of an experiment: rendered sources, ids and launches."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import overload

from lab.base.errors import UserError, did_you_mean
from lab.base.text_compression import PackedText, TextPacker
from lab.experiment import identity
from lab.experiment.load import check_options
from lab.experiment.model import OWN_TOOLCHAINS, Experiment, KernelEntry
from lab.experiment.space import Point
from lab.experiment.triton_entry import divisible, ones
from lab.operators.declared.operator import Declared
from lab.templates.front_matter import Template
from lab.templates.instance import Instance, sources
from lab.templates.launches import BuiltLaunch, Launches
from lab.templates.plain.template import PlainTemplate
from lab.templates.plain.triton import TritonTemplate
from lab.templates.rendering import renderer
from lab.toolchain.base import CompileRequest, Toolchain, title
from lab.toolchain.includes import gather
from lab.toolchain.select import toolchain

_SLICE = 256
"""Points rendered at a time, several of them in one message."""

SOURCE_NAME = "kernel.cu"
_PLAIN_NAME = re.compile(r"\w[\w.+\-]{0,99}\.(?:cuh?|h|hh|hpp|hxx|inl|ptx)", re.ASCII)
"""Name of every variant's source in messages and line tables; a fixed one keeps builds equal everywhere."""


@dataclass(frozen=True)
class Planned:
    """One variant, ready to be built.

    Attributes:
        variant: Id, a short hash of everything that decides its machine code, and of its problem.
        position: Place in the experiment, from 0.
        point: Kernel, parameters and problem.
        label: Text that distinguishes it from its siblings.
        toolchain: The compiler.
        request: The compile request.
        instance: Everything that follows from the point's template, parameters and problem.
        launches: Those of the instance, with the kernels' names as the experiment has them.
        known: Launch facts from the build; empty before it.
    """

    variant: str
    position: int
    point: Point
    label: str
    toolchain: Toolchain
    request: CompileRequest
    instance: Instance
    launches: Launches
    known: BuiltLaunch = field(default_factory=BuiltLaunch)

    def built(self, built_launch: BuiltLaunch) -> Planned:
        """Return the variant as launched after its build."""
        return replace(self, known=built_launch)

    @cached_property
    def launched(self) -> Launches:
        """The launches after the build."""
        return self.launches.built(self.known)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of everything that determines this variant's record, not only its machine code."""
        return identity.fingerprint(self)


@dataclass(frozen=True, slots=True)
class _PackedSource:
    """A packed source and the files it includes, by name."""

    text: PackedText
    files: tuple[tuple[str, PackedText], ...]


_Source = _PackedSource | None
"""None if the request of the variant's compiler holds the text."""


_Way = tuple[Toolchain, str, tuple[str, ...]]
"""Toolchain, architecture and compiler options of a variant."""


@dataclass(frozen=True)
class _Planning:
    """State shared by all variants of a plan.

    Attributes:
        experiment: The experiment.
        toolchains: Toolchains, resolved.
        archs: Architectures, `native` resolved.
    """

    experiment: Experiment
    toolchains: tuple[Toolchain, ...]
    archs: tuple[str, ...]

    def ways(self, kernel: KernelEntry) -> tuple[_Way, ...]:
        """Return all builds of a kernel's points; PTX and Triton kernels beside others get no compiler options."""
        tools = [tool for tool in self.toolchains if _compiles(tool, kernel)]
        is_alone = isinstance(self.experiment.operator, Declared)
        options = ((),) if kernel.toolchain and not is_alone else self.experiment.options
        return tuple(itertools.product(tools, self.archs, options))

    def request(self, point: Point, instance: Instance, way: _Way, source: _Source) -> CompileRequest:
        """Return the compile request of a point."""
        (_, arch, options), template = way, point.kernel.template
        if isinstance(template, TritonTemplate):
            arguments = instance.own_launches.steps[0].arguments
            launched, computed = _launched(self.experiment, point), self.experiment.operator
            specialisations = divisible(launched, computed), ones(launched, computed)
            return template.request(arch, point.parameters, arguments, *specialisations)
        assert source is not None  # noqa: S101 - only Triton's functions have none
        files = tuple((name, str(text)) for name, text in source.files)
        return CompileRequest(str(source.text), _file_name(template), arch, options, files, _cpp_names(instance))

    def label(self, point: Point, way: int) -> str:
        """Return the text that distinguishes a variant from its siblings."""
        ways = self.ways(point.kernel)
        tool, arch, options = ways[way]
        tools, archs, sets = (len(dict.fromkeys(values)) for values in zip(*ways, strict=True))
        label = [point.label] if point.label else []
        label += [title(tool)] if tools > 1 else []
        label += [arch] if archs > 1 else []
        label += [" ".join(options) or "no options"] if sets > 1 else []
        return " ".join(label)


def _compiles(tool: Toolchain, kernel: KernelEntry) -> bool:
    return tool.name == kernel.toolchain if kernel.toolchain else tool.name not in OWN_TOOLCHAINS


@dataclass(frozen=True, slots=True)
class _Kept:
    """The data a plan stores per variant; everything else follows from it."""

    made: _Planning
    position: int
    point: Point
    way: int
    source: _Source
    variant: str

    def planned(self) -> Planned:
        """Return the variant."""
        instance, way = self.point.instance, self.made.ways(self.point.kernel)[self.way]
        return Planned(
            variant=self.variant,
            position=self.position,
            point=self.point,
            label=self.made.label(self.point, self.way),
            toolchain=way[0],
            request=self.made.request(self.point, instance, way, self.source),
            instance=instance,
            launches=instance.launches,
        )


class Plan(Sequence[Planned]):
    """The variants of a run, in order.

    Variants are built on each access, so that ten thousand sources and launches are not kept in memory.

    Attributes:
        variants: Ids of the variants, in order.
        points: Their points.
        positions: Their places in the experiment.
    """

    def __init__(self, entries: Sequence[_Kept] = ()) -> None:
        """Wrap the stored data of variants."""
        self._kept = tuple(entries)

    @property
    def variants(self) -> list[str]:
        """Ids of the variants, in order."""
        return [entry.variant for entry in self._kept]

    @property
    def points(self) -> list[Point]:
        """Points of the variants, in order."""
        return [entry.point for entry in self._kept]

    @property
    def positions(self) -> list[int]:
        """Places of the variants in the experiment, from 0."""
        return [entry.position for entry in self._kept]

    def __len__(self) -> int:
        return len(self._kept)

    @overload
    def __getitem__(self, place: int) -> Planned: ...

    @overload
    def __getitem__(self, place: slice) -> Plan: ...

    def __getitem__(self, place: int | slice) -> Planned | Plan:
        if isinstance(place, slice):
            return Plan(self._kept[place])
        return self._kept[place].planned()

    def __iter__(self) -> Iterator[Planned]:
        return (entry.planned() for entry in self._kept)

    def __add__(self, other_plan: Plan) -> Plan:
        return Plan(self._kept + other_plan._kept)


def toolchains(experiment: Experiment) -> tuple[Toolchain, ...]:
    """Return the toolchains that an experiment names, each once.

    Raises:
        UserError: A name is unknown.
        MissingToolError: A toolchain is not on this machine.
    """
    try:
        return tuple(dict.fromkeys(toolchain(name) for name in _needed(experiment)))
    except UserError as error:
        raise error.placed(experiment.at("toolchains"), error.key) from None


def _needed(experiment: Experiment) -> Iterator[str]:
    """Yield the toolchains the experiment names, or those its kernels need instead."""
    for kernel in experiment.kernels:
        compilers = kernel.compilers(experiment.toolchains)
        if not compilers:
            raise UserError(
                f"no toolchain compiles the kernel {kernel.name}",
                code="unsupported",
                key="toolchains",
                found=experiment.toolchains,
                accepted="auto, nvrtc or nvcc, too",
            )
        yield from compilers


def plan(
    experiment: Experiment,
    points: Sequence[Point],
    toolchains: Sequence[Toolchain],
    archs: Sequence[str],
    *,
    first: int = 0,
    options: Sequence[tuple[str, ...]] | None = None,
) -> Plan:
    """Render every point for every toolchain, architecture and set of compiler options.

    Args:
        experiment: The experiment.
        points: Its points.
        toolchains: Toolchains, resolved.
        archs: Architectures, `native` resolved.
        first: Position of the first.
        options: For each point the set of compiler options that it is built with; by default with each of the
            experiment's.

    Raises:
        UserError: A template fails, a geometry is illegal, an included file cannot be read, or a toolchain cannot
            target an architecture or has no such option.
    """
    for tool in toolchains:
        if tool.name not in OWN_TOOLCHAINS or isinstance(experiment.operator, Declared):
            for option_set in experiment.options:
                check_options(option_set, tool.name, experiment.at("options"))
        for arch in archs:
            if not tool.supports(arch):
                raise UserError(
                    f"{tool.name} {tool.version} cannot target {arch}",
                    code="unsupported",
                    at=experiment.at("archs"),
                    key="archs",
                    found=arch,
                    accepted=tool.architectures or None,
                    suggestion=did_you_mean(arch, tool.architectures) or "name one of these, or another toolchain",
                )
    _check_values(experiment, points)
    if not all(isinstance(point.kernel.template, PlainTemplate) for point in points):
        renderer().start()
    planning = _Planning(experiment, tuple(toolchains), tuple(archs))
    entries: list[_Kept] = []
    packer, source_cache = TextPacker(), dict[bytes, _Source]()
    for start in range(0, len(points), _SLICE):
        end = start + _SLICE
        slice_options = None if options is None else options[start:end]
        entries += _planned(
            planning, points[start:end], first + len(entries), packer, source_cache, options=slice_options
        )
    return Plan(entries)


def _planned(
    planning: _Planning,
    points: Sequence[Point],
    first: int,
    packer: TextPacker,
    source_cache: dict[bytes, _Source],
    *,
    options: Sequence[tuple[str, ...]] | None,
) -> Iterator[_Kept]:
    """Render points, and yield the stored data of their variants.

    Args:
        planning: The state they share.
        points: The points.
        first: Position of the first variant.
        packer: Packs sources.
        source_cache: Cache of the sources of earlier points; those of these points are added.
        options: For each point its set of compiler options; None for each of the experiment's.

    Raises:
        UserError: As of `plan`.
    """
    instances = [point.instance for point in points]
    for instance in instances:
        _ = instance.launches  # an illegal geometry ends the run here, not after the builds
    rendered = {
        device_only: _sources(points, instances, packer, source_cache, device_only=device_only)
        for device_only in {_takes_device_code_alone(tool) for tool in planning.toolchains}
    }
    places = itertools.count(first)
    for at, (point, instance) in enumerate(zip(points, instances, strict=True)):
        ways = planning.ways(point.kernel)
        for place, way in enumerate(ways):
            tool, _, way_options = way
            if (
                options is not None
                and way_options != options[at]
                and len({option_set for _, _, option_set in ways}) > 1
            ):
                continue
            source = rendered[_takes_device_code_alone(tool)][at]
            request = planning.request(point, instance, way, source)
            yield _Kept(planning, next(places), point, place, source, variant_id(point, request, tool))


def _check_values(experiment: Experiment, points: Sequence[Point]) -> None:
    """Check shapes, values and types that depend on parameters, before anything is built.

    Raises:
        UserError: One is invalid; the error has its location in the file.
    """
    computed = experiment.operator
    if not isinstance(computed, Declared) or not computed.declaration.parameters:
        return
    for point in points:
        for problem in (point.problem.values, point.problem.emulate):
            if problem is None:
                continue
            try:
                experiment.operator.for_parameters(problem, point.parameters)
            except UserError as error:
                key = error.key or "problem"
                document = point.kernel.template.document
                raise error.placed(document.at(*key.split(".")), f"{key} where {point.label}") from None


def _launched(experiment: Experiment, point: Point) -> list[Instance]:
    """Return a Triton function's instances, one for each problem this variant's machine code is launched for.

    A variant that stands in for a reference is launched for all problems.
    """
    computed = experiment.operator
    cases = [point.problem] if computed.has_reference else experiment.problems
    problems = [
        computed.for_parameters(one, point.parameters)
        for case in cases
        for one in (case.values, case.emulate)
        if one is not None
    ]
    return [Instance(point.kernel.template, point.parameters, problem) for problem in problems]


def _cpp_names(instance: Instance) -> tuple[str, ...]:
    """Return the kernels the compiler must look up as C++ names; templates with front matter name symbols."""
    is_cuda = isinstance(instance.template, PlainTemplate) and not isinstance(instance.template, TritonTemplate)
    return instance.launches.entries if is_cuda else ()


def _file_name(template: Template) -> str:
    """Return a source's name in messages and line tables: the user's own file if its name is a plain one."""
    if isinstance(template, PlainTemplate) and _PLAIN_NAME.fullmatch(template.name):
        return template.name
    return SOURCE_NAME


def _takes_device_code_alone(tool: Toolchain) -> bool:
    """Return whether a compiler rejects a source with host code."""
    return tool.name == "nvrtc"


def _sources(
    points: Sequence[Point],
    instances: Sequence[Instance],
    packer: TextPacker,
    source_cache: dict[bytes, _Source],
    *,
    device_only: bool,
) -> list[_Source]:
    """Render points, with the files their sources include.

    A template depends on the words of a problem, not on its numbers, so sizes share a source.

    Args:
        points: The points.
        instances: Their instances.
        packer: Packs sources.
        source_cache: Cache of rendered sources, by a hash of what determines them; new ones are added.
        device_only: Leave out host code of plain sources.
    """
    keys = []
    for point, instance in zip(points, instances, strict=True):
        words = tuple((name, value) for name, value in instance.problem.items() if isinstance(value, str | bool))
        facts = repr((device_only, point.kernel.name, point.parameters, words))
        keys.append(hashlib.sha256(facts.encode("utf-8", "surrogatepass")).digest())
    missing = {key: at for at, key in enumerate(keys) if key not in source_cache}
    templates = {}
    for key, at in missing.items():
        instance = instances[at]
        if isinstance(instance.template, TritonTemplate):
            source_cache[key] = None  # its request holds the text
        elif isinstance(instance.template, PlainTemplate):
            full_source, included = instance.template.unit(instance.parameters, device_only=device_only)
            source_cache[key] = _packed(packer, points[at], full_source, included)
        else:
            templates[key] = instance
    for (key, instance), text in zip(templates.items(), sources(list(templates.values())), strict=True):
        full_source, included = gather(text, instance.template.roots)
        source_cache[key] = _packed(packer, points[missing[key]], full_source, included)
    return [source_cache[key] for key in keys]


def _packed(packer: TextPacker, point: Point, source: str, included: Mapping[str, str]) -> _PackedSource:
    name = point.kernel.name
    files = tuple((file, packer.pack((name, file), text)) for file, text in included.items())
    return _PackedSource(packer.pack(name, source), files)


def variant_id(point: Point, request: CompileRequest, tool: Toolchain) -> str:
    """Return a ten-digit hex id of everything that determines a variant's machine code, and of its problem."""
    facts: dict[str, object] = {
        "kernel": point.kernel.name,
        "template": point.kernel.template.name,
        "parameters": dict(sorted(point.parameters.items())),
        "problem": dict(sorted(point.problem.values.items())),
        "source": request.source,
        "options": request.options,
        "arch": request.arch,
        "toolchain": tool.name,
        "version": tool.version,
    }
    if request.kernels:
        facts["kernels"] = request.kernels
    if request.included:
        facts["included"] = sorted(request.included)
    return short_hash(facts)


def short_hash(facts: Mapping[str, object]) -> str:
    """Return a ten-digit hex hash of facts that JSON can hold, independent of their order."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:10]
