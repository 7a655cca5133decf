"""Candidates are compiled in worker processes, each once, in any order."""

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
"""Sizes whose launches together use every entry point that a kernel has: large and small, aligned and not."""


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
        """Return what the template requires that a size does not meet; empty where the kernel computes it."""
        if size not in self._refusals:
            found = _instance(self.candidate, size).unmet()
            self._refusals[size] = f"not for this size: {found.that} ({found.because})" if found else ""
        return self._refusals[size]

    @cached_property
    def _refusals(self) -> dict[Size, str]:
        """What was found out, since every step of a run asks."""
        return {}

    def launches(self, size: Size) -> Launches:
        """Return what is launched at a size that the kernel computes."""
        made = _instance(self.candidate, size).launches
        return made.built(BuiltLaunch(residency=self.residency)) if made.wait_for_occupancy else made

    def predicted_ms(self, size: Size, gpu: Gpu) -> float | None:
        """Return the time in ms that the model predicts; None where no entry point that is launched multiplies."""
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
    """A candidate to build, its id, its launches at the sizes of `_PROBES`, and the task for a worker."""

    candidate: Candidate
    identity: str
    probes: tuple[Launch, ...]
    task: BuildTask


@dataclass
class Workshop:
    """Builds kernels for one architecture.

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
        """Start with no knowledge of how long the compiler takes."""
        self._sizes = BatchSizes(self.executor.workers)

    def make(self, candidates: Sequence[Candidate]) -> dict[str, Kernel]:
        """Build the candidates that are not built yet.

        Returns:
            The kernels of all candidates by name; the facts of one that could not be built say why.

        Raises:
            MissingToolError: the compiler or the disassembler cannot run here.
            UserError: a template includes a file that it may not, or that is not there.
        """
        waiting: dict[str, _Piece] = {}
        names: dict[str, str] = {}
        for one in candidates:
            request, identity = self._request(one)
            if identity not in self.known and identity not in waiting:
                probes = _probes(one)
                task = BuildTask(self.toolchain, request, tuple(dict.fromkeys(step.entry for step in probes)))
                waiting[identity] = _Piece(one, identity, probes, task)
            names[one.name] = identity
        pieces = tuple(waiting.values())
        tasks = [piece.task for piece in pieces]
        for i, outcome in build_each(self.executor, tasks, function=self.function, sizes=self._sizes):
            kernel = self._kernel(pieces[i], outcome)
            self.known[kernel.facts.id] = kernel
            self.built(kernel.facts)
        return {name: self.known[identity] for name, identity in names.items()}

    def _request(self, one: Candidate) -> tuple[CompileRequest, str]:
        problem = product(one.group.type, one.group.type.least)
        instance = Instance(one.group.template, one.parameters, problem)
        source, included = gather(instance.source, instance.template.roots)
        request = CompileRequest(source, SOURCE_NAME, self.arch, (), tuple(included.items()))
        return request, self._id(one, request)

    def _id(self, one: Candidate, request: CompileRequest) -> str:
        """Return a short hash of everything that decides the machine code and how it is launched."""
        facts = {
            "template": one.group.template.name,
            "parameters": dict(sorted(one.parameters.items())),
            "type": one.group.type.label,
            "declares": fingerprint(one.group.template),
            "request": fingerprint(request),
            "toolchain": fingerprint(self.toolchain),
        }
        return short_hash(facts)

    def _kernel(self, piece: _Piece, outcome: Built | BuildFailure) -> Kernel:
        one, group = piece.candidate, piece.candidate.group
        facts = KernelFacts(
            id=piece.identity,
            name=one.name,
            group=group.name,
            type=group.type.label,
            template=group.template.name,
            parameters=dict(one.parameters),
            arch=self.arch,
        )
        problem = product(group.type, group.type.least)
        words = {key: value for key, value in problem.items() if isinstance(value, str)}
        names = Instance(group.template, one.parameters, words).names
        if isinstance(outcome, BuildFailure):
            return Kernel(one, replace(facts, failure=outcome.reason), b"", names, {})
        if outcome.disassembly.lacking:  # the protocol chooses by the census of SASS
            return Kernel(one, replace(facts, failure=outcome.disassembly.lacking), b"", names, {})
        loops: dict[str, ProductLoop] = {}
        for step in piece.probes:
            used, mix = outcome.build.resources[step.entry], outcome.sass[step.entry]
            found = loop_of(self.gpu, mix, used, step, group.type.dtype)
            if found is None:
                continue
            if not loops:  # the first probe's is the entry point for aligned sizes
                facts = _with_resources(facts, self.gpu, outcome, step, group.type)
            loops.setdefault(step.entry, found)
        if not loops and piece.probes:  # the model does not know what multiplies
            facts = _with_resources(facts, self.gpu, outcome, piece.probes[0], group.type)
        residency = Residency(self.gpu, outcome.build.resources)
        return Kernel(one, facts, outcome.build.cubin, names, loops, residency)


def _with_resources(facts: KernelFacts, gpu: Gpu, outcome: Built, step: Launch, of: ProblemType) -> KernelFacts:
    """The facts with what a launch uses, and the census and the peak of its main loop."""
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


def _instance(one: Candidate, size: Size) -> Instance:
    return Instance(one.group.template, one.parameters, product(one.group.type, size))


def _probes(one: Candidate) -> tuple[Launch, ...]:
    """Return everything that is launched at the sizes of `_PROBES` that the kernel computes, in their order."""
    of = one.group.type
    instances = [_instance(one, (*size, *of.least[len(size) :])) for size in _PROBES]
    return tuple(step for instance in instances if instance.unmet() is None for step in instance.launches.steps)
