"""From an experiment to the variants that will be built: rendered, hashed, with their launches."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from lab.base.errors import UserError, did_you_mean
from lab.experiment import identity
from lab.experiment.load import check_options
from lab.experiment.model import Experiment
from lab.experiment.space import Point
from lab.experiment.triton import divisible
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

SOURCE_NAME = "kernel.cu"
_PLAIN_NAME = re.compile(r"\w[\w.+\-]{0,99}\.cuh?", re.ASCII)
"""Name of every variant's source in messages and line tables; a fixed one keeps builds equal everywhere."""


@dataclass(frozen=True)
class Planned:
    """One variant, ready to be built.

    Attributes:
        variant: Id, a short hash of everything that decides its machine code, and of its problem.
        position: Place in the experiment, from 0.
        point: Kernel, parameters and problem.
        label: What tells it from its siblings.
        toolchain: The compiler.
        request: What to compile.
        instance: Everything that follows from the point's template, parameters and problem.
        launches: Those of the instance, with the kernels' names as the experiment has them.
        known: What the build says of the launches; nothing before it.
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

    def built(self, known: BuiltLaunch) -> Planned:
        """Return the variant as it is launched once it is built."""
        return replace(self, known=known)

    @cached_property
    def launched(self) -> Launches:
        """The launches as they take place."""
        return self.launches.built(self.known)

    @cached_property
    def fingerprint(self) -> str:
        """Depends on everything that decides this variant's record, not its machine code alone."""
        return identity.fingerprint(self)


def toolchains(experiment: Experiment) -> tuple[Toolchain, ...]:
    """Return the toolchains that an experiment names, each once.

    Raises:
        UserError: A name is unknown.
        MissingToolError: A toolchain is not on this machine.
    """
    try:
        return tuple(dict.fromkeys(toolchain(name) for name in experiment.toolchains))
    except UserError as error:
        raise error.placed(experiment.at("toolchains"), error.key) from None


def plan(
    experiment: Experiment,
    points: Sequence[Point],
    toolchains: Sequence[Toolchain],
    archs: Sequence[str],
    *,
    first: int = 0,
    options: Sequence[tuple[str, ...]] | None = None,
) -> tuple[Planned, ...]:
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
        for one in experiment.options:
            check_options(one, tool.name, experiment.at("options"))
        for arch in archs:
            if not tool.supports(arch):
                raise UserError(
                    f"{tool.name} {tool.version} cannot target {arch}",
                    at=experiment.at("archs"),
                    key="archs",
                    found=arch,
                    accepted=tool.architectures or None,
                    suggestion=did_you_mean(arch, tool.architectures) or "name one of these, or another toolchain",
                )
    _check_values(experiment, points)
    planned: list[Planned] = []
    if not all(isinstance(point.kernel.template, PlainTemplate) for point in points):
        renderer().start()
    instances = [point.instance for point in points]
    every = [instance.launches for instance in instances]  # an illegal geometry ends the run here, not after the builds
    rendered = {
        device_only: _sources(points, instances, device_only=device_only)
        for device_only in {_takes_device_code_alone(tool) for tool in toolchains}
    }
    for place, (point, instance, launches) in enumerate(zip(points, instances, every, strict=True)):
        sets = experiment.options if options is None else (options[place],)
        for tool, arch, given in itertools.product(toolchains, archs, sets):
            template = point.kernel.template
            if isinstance(template, TritonTemplate):
                request = template.request(arch, point.parameters, _divisible(experiment, point))
            else:
                source, files = rendered[_takes_device_code_alone(tool)][place]
                request = CompileRequest(source, _file_name(template), arch, given, files, _cpp_names(instance))
            label = [point.label] if point.label else []
            label += [title(tool)] if len(toolchains) > 1 else []
            label += [arch] if len(archs) > 1 else []
            label += [" ".join(given) or "no options"] if len(experiment.options) > 1 else []
            planned.append(
                Planned(
                    variant=variant_id(point, request, tool),
                    position=first + len(planned),
                    point=point,
                    label=" ".join(label),
                    toolchain=tool,
                    request=request,
                    instance=instance,
                    launches=launches,
                )
            )
    return tuple(planned)


def _check_values(experiment: Experiment, points: Sequence[Point]) -> None:
    """Check shapes, values and types that follow parameters, before anything is built.

    Raises:
        UserError: One does not come out right, with its place in the file.
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


def _divisible(experiment: Experiment, point: Point) -> tuple[str, ...]:
    """Arguments of a Triton function that are multiples of 16 wherever this variant's machine code is launched.

    A variant that stands in for a reference is launched for all problems.
    """
    computed = experiment.operator
    assert isinstance(computed, Declared)  # noqa: S101 - plain sources have no other operator
    return divisible(computed, [point.problem] if computed.has_reference else experiment.problems, point.parameters)


def _cpp_names(instance: Instance) -> tuple[str, ...]:
    """Kernels that the compiler must look up as C++ names; templates with a front matter name symbols."""
    is_cuda = isinstance(instance.template, PlainTemplate) and not isinstance(instance.template, TritonTemplate)
    return instance.launches.entries if is_cuda else ()


def _file_name(template: Template) -> str:
    """What compilers call a source in messages and line tables: the user's own file where its name is a plain one."""
    if isinstance(template, PlainTemplate) and _PLAIN_NAME.fullmatch(template.name):
        return template.name
    return SOURCE_NAME


def _takes_device_code_alone(tool: Toolchain) -> bool:
    """Return whether a compiler refuses a source that holds host code."""
    return tool.name == "nvrtc"


def _sources(
    points: Sequence[Point], instances: Sequence[Instance], *, device_only: bool
) -> list[tuple[str, tuple[tuple[str, str], ...]]]:
    """Render every point, with the files that its source includes.

    A template knows the words of a problem, not its numbers: sizes share their source.

    Args:
        points: The points.
        instances: Their instances.
        device_only: Leave out host code of plain sources.
    """
    keys = []
    for point, instance in zip(points, instances, strict=True):
        words = tuple((name, value) for name, value in instance.problem.items() if isinstance(value, str | bool))
        keys.append((point.kernel.name, repr(point.parameters), words))
    distinct = dict(zip(keys, instances, strict=True))
    gathered: dict[tuple[object, ...], tuple[str, tuple[tuple[str, str], ...]]] = {}
    templates = {}
    for key, instance in distinct.items():
        if isinstance(instance.template, TritonTemplate):
            gathered[key] = "", ()  # its request holds the text
        elif isinstance(instance.template, PlainTemplate):
            whole, included = instance.template.unit(instance.parameters, device_only=device_only)
            gathered[key] = whole, tuple(included.items())
        else:
            templates[key] = instance
    for (key, instance), text in zip(templates.items(), sources(list(templates.values())), strict=True):
        whole, included = gather(text, instance.template.roots)
        gathered[key] = whole, tuple(included.items())
    return [gathered[key] for key in keys]


def variant_id(point: Point, request: CompileRequest, tool: Toolchain) -> str:
    """Return ten hexadecimal digits that depend on all that decides a variant's machine code, and on its problem."""
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
    """Return ten hexadecimal digits that depend on facts that JSON can hold, but not on their order."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:10]
