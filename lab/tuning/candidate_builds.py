"""Builds of candidates: each is compiled once in a worker process, in any order."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from lab.base.elements import ELEMENT_BYTES, arithmetic_of
from lab.base.executor import Executor
from lab.base.sizes import Size
from lab.experiment.identity import fingerprint
from lab.experiment.variants import SOURCE_NAME, short_hash
from lab.hardware.gpus import Gpu
from lab.hardware.occupancy import occupancy
from lab.predict.bounds import peak_of
from lab.stages.batches import BatchSizes, BuildFunction, build_each
from lab.stages.build import BuildFailure, BuildTask, Built, build
from lab.store.tuning_model import KernelFacts, ProblemType
from lab.templates.instance import Instance
from lab.templates.launches import BuiltLaunch, Launch, Launches, Residency
from lab.toolchain.base import CompileRequest, Toolchain
from lab.toolchain.cubin import image
from lab.toolchain.includes import gather
from lab.tuning.choose.census import census
from lab.tuning.choose.protocol import Candidate
from lab.tuning.predicted import ProductLoop, loop_of, pass_ms, product_ms, tile_of
from lab.tuning.product import product

_PROBES: tuple[Size, ...] = ((4096, 4096, 4096), (4095, 4095, 4095), (16, 16, 16), (7, 7, 7))
"""Sizes whose launches together use all of a kernel's entry points: large and small, aligned and unaligned."""


@dataclass(frozen=True)
class Kernel:
    """A candidate after its build.

    Attributes:
        candidate: The candidate.
        facts: What is stored of it.
        cubin: Machine code; empty where the build failed.
        names: The names that its template's expressions can use at compile time.
        loops: Entry points that multiply, with what the model of `lab.tuning.predicted` needs of each.
        residency: The GPU and what the kernel's entry points take of it, for grids that depend on both; None where the
            build failed.
    """

    candidate: Candidate
    facts: KernelFacts
    cubin: bytes
    names: Mapping[str, object]
    loops: Mapping[str, ProductLoop]
    residency: Residency | None = None

    def refused(self, size: Size) -> str:
        """Return the requirement that a size violates; empty if the kernel supports it."""
        if size not in self._refusals:
            requirement = _instance(self.candidate, size).unmet()
            self._refusals[size] = (
                f"not for this size: {requirement.that} ({requirement.because})" if requirement else ""
            )
        return self._refusals[size]

    @cached_property
    def _refusals(self) -> dict[Size, str]:
        """A cache of results, since every step of a run needs them."""
        return {}

    def launches(self, size: Size) -> Launches:
        """Return the launches at a supported size."""
        resolved_launches = _instance(self.candidate, size).launches
        return (
            resolved_launches.built(BuiltLaunch(residency=self.residency))
            if resolved_launches.wait_for_occupancy
            else resolved_launches
        )

    def predicted_ms(self, size: Size, gpu: Gpu) -> float | None:
        """Return the predicted time in ms; None if none of the launched entry points multiplies."""
        steps, total = self.launches(size).steps, 0.0
        if not any(step.entry in self.loops for step in steps):
            return None
        for step in steps:
            loop = self.loops.get(step.entry)
            if loop is None:
                total += pass_ms(gpu, step, size, ELEMENT_BYTES[self.candidate.group.type.dtype])
                continue
            prefetch = bool(self.names.get("prefetch_global_read", self.names.get("double_buffer", True)))
            tile = tile_of(self.names, size, math.prod(step.grid))
            adds = bool(self.names.get("atomic", False))
            total += product_ms(gpu, loop, step, size, tile, prefetch=prefetch, adds=adds)
        return total


@dataclass(frozen=True, slots=True)
class _Piece:
    """A candidate to build: its id, its launches at the sizes of `_PROBES`, and its build task."""

    candidate: Candidate
    identity: str
    probes: tuple[Launch, ...]
    task: BuildTask


@dataclass
class Workshop:
    """A builder of kernels for one architecture.

    Attributes:
        toolchain: The compiler.
        arch: The architecture.
        gpu: The GPU that predictions are for.
        executor: Where kernels are built.
        built: Called with each kernel that is done.
        function: Builds a batch of kernels on the executor.
        known: Every kernel that was built, by its id.
    """

    toolchain: Toolchain
    arch: str
    gpu: Gpu
    executor: Executor
    built: Callable[[KernelFacts], None]
    function: BuildFunction = build
    known: dict[str, Kernel] = field(default_factory=dict)
    _sizes: BatchSizes = field(init=False)

    def __post_init__(self) -> None:
        """Start without estimates of the compile time."""
        self._sizes = BatchSizes(self.executor.workers)

    def make(self, candidates: Sequence[Candidate]) -> dict[str, Kernel]:
        """Build the candidates that are not yet built.

        Returns:
            The kernels of all candidates by name; the facts of one that could not be built say why.

        Raises:
            MissingToolError: the compiler or the disassembler cannot run here.
            UserError: a template includes a file that it may not, or that is not there.
        """
        waiting: dict[str, _Piece] = {}
        names: dict[str, str] = {}
        for candidate in candidates:
            request, identity = self._request(candidate)
            if identity not in self.known and identity not in waiting:
                probes = _probes(candidate)
                task = BuildTask(self.toolchain, request, tuple(dict.fromkeys(step.entry for step in probes)))
                waiting[identity] = _Piece(candidate, identity, probes, task)
            names[candidate.name] = identity
        pieces = tuple(waiting.values())
        tasks = [piece.task for piece in pieces]
        for i, outcome in build_each(self.executor, tasks, function=self.function, sizes=self._sizes):
            kernel = self._kernel(pieces[i], outcome)
            self.known[kernel.facts.id] = kernel
            self.built(kernel.facts)
        return {name: self.known[identity] for name, identity in names.items()}

    def _request(self, candidate: Candidate) -> tuple[CompileRequest, str]:
        problem = product(candidate.group.type, candidate.group.type.least)
        instance = Instance(candidate.group.template, candidate.parameters, problem)
        source, included = gather(instance.source, instance.template.roots)
        request = CompileRequest(source, SOURCE_NAME, self.arch, (), tuple(included.items()))
        return request, self._id(candidate, request)

    def _id(self, candidate: Candidate, request: CompileRequest) -> str:
        """Return a short hash of everything that affects the machine code and its launches."""
        facts = {
            "template": candidate.group.template.name,
            "parameters": dict(sorted(candidate.parameters.items())),
            "type": candidate.group.type.label,
            "declares": fingerprint(candidate.group.template),
            "request": fingerprint(request),
            "toolchain": fingerprint(self.toolchain),
        }
        return short_hash(facts)

    def _kernel(self, piece: _Piece, outcome: Built | BuildFailure) -> Kernel:
        candidate, group = piece.candidate, piece.candidate.group
        facts = KernelFacts(
            id=piece.identity,
            name=candidate.name,
            group=group.name,
            type=group.type.label,
            template=group.template.name,
            parameters=dict(candidate.parameters),
            arch=self.arch,
        )
        problem = product(group.type, group.type.least)
        words = {key: value for key, value in problem.items() if isinstance(value, str)}
        names = Instance(group.template, candidate.parameters, words).names
        if isinstance(outcome, BuildFailure):
            return Kernel(candidate, replace(facts, failure=outcome.reason), b"", names, {})
        if outcome.disassembly.lacking:  # the protocol chooses by the census of SASS
            return Kernel(candidate, replace(facts, failure=outcome.disassembly.lacking), b"", names, {})
        loops: dict[str, ProductLoop] = {}
        for step in piece.probes:
            used, mix = outcome.build.resources[step.entry], outcome.sass[step.entry]
            loop = loop_of(self.gpu, mix, used, step, group.type.dtype)
            if loop is None:
                continue
            if not loops:  # the first probe's is the entry point for aligned sizes
                facts = _with_resources(facts, self.gpu, outcome, step, group.type)
            loops.setdefault(step.entry, loop)
        if not loops and piece.probes:  # the model does not know what multiplies
            facts = _with_resources(facts, self.gpu, outcome, piece.probes[0], group.type)
        residency = Residency(self.gpu, outcome.build.resources)
        return Kernel(candidate, facts, outcome.build.cubin, names, loops, residency)


def _with_resources(facts: KernelFacts, gpu: Gpu, outcome: Built, step: Launch, of: ProblemType) -> KernelFacts:
    """Return the facts with a launch's resources, and the census and peak of its main loop."""
    used, threads = outcome.build.resources[step.entry], math.prod(step.block)
    return replace(
        facts,
        registers=used.registers,
        spill_bytes=used.spill_bytes,
        shared_bytes=used.shared_bytes + step.dynamic_shared_bytes,
        threads=threads,
        blocks_per_sm=occupancy(
            gpu.architecture, used, threads, step.dynamic_shared_bytes, step.carveout
        ).blocks_per_sm,
        cluster=image.kernels(outcome.build.cubin)[step.entry].cluster,
        census=census(outcome.sass[step.entry]),
        peak_tflops=peak_of(gpu, outcome.sass[step.entry], arithmetic_of(of.dtype)),
    )


def _instance(candidate: Candidate, size: Size) -> Instance:
    return Instance(candidate.group.template, candidate.parameters, product(candidate.group.type, size))


def _probes(candidate: Candidate) -> tuple[Launch, ...]:
    """Return all launches at the supported sizes of `_PROBES`, in order."""
    of = candidate.group.type
    instances = [_instance(candidate, (*size, *of.least[len(size) :])) for size in _PROBES]
    return tuple(step for instance in instances if instance.unmet() is None for step in instance.launches.steps)
