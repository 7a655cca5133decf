"""From an experiment to the variants that will be built: rendered, hashed, with their launches."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.base.errors import Location, UserError
from lab.experiment.load import Experiment
from lab.experiment.space import Point
from lab.templates.instance import Instance, sources
from lab.templates.launches import Launches
from lab.templates.rendering import renderer
from lab.toolchain.base import CompileRequest, Toolchain, title
from lab.toolchain.select import toolchain

SOURCE_NAME = "kernel.cu"
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
        launches: Those of the instance.
    """

    variant: str
    position: int
    point: Point
    label: str
    toolchain: Toolchain
    request: CompileRequest
    instance: Instance
    launches: Launches


def toolchains(experiment: Experiment) -> tuple[Toolchain, ...]:
    """Return the toolchains that an experiment names, each once.

    Raises:
        UserError: A name is unknown.
        MissingToolError: A toolchain is not on this machine.
    """
    return tuple(dict.fromkeys(toolchain(name) for name in experiment.toolchains))


def plan(
    experiment: Experiment,
    points: Sequence[Point],
    toolchains: Sequence[Toolchain],
    archs: Sequence[str],
    *,
    first: int = 0,
) -> tuple[Planned, ...]:
    """Render every point for every toolchain and architecture.

    Args:
        experiment: The experiment.
        points: Its points.
        toolchains: Toolchains, resolved.
        archs: Architectures, `native` resolved.
        first: Position of the first.

    Raises:
        UserError: A template fails, a geometry is illegal, or a toolchain cannot target an architecture.
    """
    for arch in archs:
        for tool in toolchains:
            if not tool.supports(arch):
                raise UserError(
                    f"{tool.name} {tool.version} cannot target {arch}",
                    at=Location(experiment.file),
                    key="archs",
                    found=arch,
                    suggestion="leave the architecture out, or name a toolchain that supports it",
                )
    planned: list[Planned] = []
    renderer().start()
    instances = [point.instance for point in points]
    every = [instance.launches for instance in instances]  # an illegal geometry ends the run here, not after the builds
    rendered = _sources(points, instances)
    for point, instance, launches, source in zip(points, instances, every, rendered, strict=True):
        for tool in toolchains:
            for arch in archs:
                request = CompileRequest(source, SOURCE_NAME, arch, experiment.options)
                label = [point.label] if point.label else []
                label += [title(tool)] if len(toolchains) > 1 else []
                label += [arch] if len(archs) > 1 else []
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


def _sources(points: Sequence[Point], instances: Sequence[Instance]) -> list[str]:
    """Render every point. A template knows the words of a problem, not its numbers: sizes share their source."""
    keys = []
    for point, instance in zip(points, instances, strict=True):
        words = tuple((name, value) for name, value in instance.problem.items() if isinstance(value, str | bool))
        keys.append((point.kernel.name, repr(point.parameters), words))
    distinct = dict(zip(keys, instances, strict=True))
    texts = dict(zip(distinct, sources(list(distinct.values())), strict=True))
    return [texts[key] for key in keys]


def variant_id(point: Point, request: CompileRequest, tool: Toolchain) -> str:
    """Return ten hexadecimal digits that depend on all that decides a variant's machine code, and on its problem."""
    facts = {
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
    return short_hash(facts)


def short_hash(facts: Mapping[str, object]) -> str:
    """Return ten hexadecimal digits that depend on facts that JSON can hold, but not on their order."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:10]
