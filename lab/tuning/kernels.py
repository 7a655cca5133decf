"""Candidates become machine code: in worker processes, each once, in any order."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

from lab.base import workers
from lab.base.expressions import Scalar
from lab.base.sizes import Size
from lab.experiment.variants import SOURCE_NAME, short_hash
from lab.hardware.gpus import Gpu
from lab.hardware.occupancy import occupancy
from lab.stages.batches import Batches
from lab.stages.build import BuildFailure, BuildTask, Built
from lab.store.tuning_model import KernelFacts
from lab.templates.instance import Instance
from lab.templates.launches import Launch, Launches
from lab.toolchain.base import CompileRequest, Toolchain
from lab.toolchain.cubin import image
from lab.tuning.choose.census import census
from lab.tuning.choose.protocol import Candidate
from lab.tuning.predicted import Loop, loop_of, pass_ms, product_ms, tile_of

_PROBES: tuple[Size, ...] = ((4096, 4096, 4096), (4095, 4095, 4095), (16, 16, 16), (7, 7, 7))
"""Sizes whose launches, together, use every entry point that a kernel has: large and small, aligned and not."""


@dataclass(frozen=True)
class Kernel:
    """A candidate that was built.

    Attributes:
        candidate: What it is.
        facts: What is remembered of it.
        cubin: Machine code; empty where it could not be built.
        names: What its template's expressions know at compile time.
        loops: Of the entry points that multiply, what the model of `lab.tuning.predicted` needs.
    """

    candidate: Candidate
    facts: KernelFacts
    cubin: bytes
    names: Mapping[str, object]
    loops: Mapping[str, Loop]

    def launches(self, size: Size) -> Launches:
        """What is launched at a size."""
        one = self.candidate
        return Instance(one.group.template, one.parameters, one.group.type.problem(size)).launches

    def predicted_ms(self, size: Size, gpu: Gpu) -> float | None:
        """Time by the model; None where it has nothing to say."""
        steps, total = self.launches(size).steps, 0.0
        if not any(step.entry in self.loops for step in steps):
            return None
        for step in steps:
            loop = self.loops.get(step.entry)
            if loop is None:
                total += pass_ms(gpu, step, size)
                continue
            prefetch = bool(self.names.get("prefetch_global_read", self.names.get("double_buffer", True)))
            tile = tile_of(self.names, size, math.prod(step.grid))
            adds = bool(self.names.get("atomic", False))
            total += product_ms(gpu, loop, step, size, tile, prefetch=prefetch, adds=adds)
        return total


@dataclass(frozen=True, slots=True)
class _Piece:
    """A candidate to build: what it is remembered as, everything that is launched of it, and what a worker needs."""

    candidate: Candidate
    identity: str
    probes: tuple[Launch, ...]
    task: BuildTask


@dataclass
class Workshop:
    """Builds for one architecture. Use as a context manager.

    Attributes:
        toolchain: The compiler.
        arch: What for.
        gpu: What predictions are for.
        jobs: Worker processes.
        built: Told of every kernel that is done.
    """

    toolchain: Toolchain
    arch: str
    gpu: Gpu
    jobs: int
    built: Callable[[KernelFacts], None]
    known: dict[str, Kernel] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self._pool = workers.pool(self.jobs)
        self._batches = Batches(self._pool, self.jobs)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        workers.end(self._pool, finished=kind is None)

    def make(self, candidates: Sequence[Candidate]) -> dict[str, Kernel]:
        """Build what is not there yet.

        Returns:
            By name; a kernel that could not be built says why in its facts.
        """
        waiting: deque[_Piece] = deque()
        names: dict[str, str] = {}
        for one in candidates:
            request, identity = self._request(one)
            if identity not in self.known and identity not in names.values():
                probes = _probes(one)
                task = BuildTask(self.toolchain, request, tuple(dict.fromkeys(step.entry for step in probes)))
                waiting.append(_Piece(one, identity, probes, task))
            names[one.name] = identity
        building: dict[Future[Any], list[_Piece]] = {}
        while waiting or building:
            while waiting and len(building) < 2 * self.jobs:
                size = min(len(waiting), self._batches.size(len(waiting)))
                self._start([waiting.popleft() for _ in range(size)], building)
            for done in wait(building, return_when=FIRST_COMPLETED).done:
                self._ended(done, building)
        return {name: self.known[identity] for name, identity in names.items()}

    def _start(self, batch: list[_Piece], building: dict[Future[Any], list[_Piece]]) -> None:
        building[self._batches.start([piece.task for piece in batch])] = batch

    def _ended(self, done: Future[Any], building: dict[Future[Any], list[_Piece]]) -> None:
        batch = building.pop(done)
        outcomes = self._batches.outcomes(done, len(batch))
        if outcomes is None:
            for piece in batch:
                self._start([piece], building)
            return
        for piece, outcome in zip(batch, outcomes, strict=True):
            kernel = self._kernel(piece, outcome)
            self.known[kernel.facts.id] = kernel
            self.built(kernel.facts)

    def _request(self, one: Candidate) -> tuple[CompileRequest, str]:
        problem = one.group.type.problem((1, 1, 1))
        source = Instance(one.group.template, one.parameters, problem).source
        request = CompileRequest(source, SOURCE_NAME, self.arch, ())
        return request, self._id(one, request)

    def _id(self, one: Candidate, request: CompileRequest) -> str:
        """Ten hexadecimal digits over everything that decides the machine code and how it is launched."""
        facts = {
            "template": one.group.template.name,
            "parameters": dict(sorted(one.parameters.items())),
            "type": one.group.type.label,
            "source": request.source,
            "arch": request.arch,
            "toolchain": self.toolchain.name,
            "version": self.toolchain.version,
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
        words: dict[str, Scalar] = {"dtype": group.type.dtype, "layout": group.type.layout}
        names = Instance(group.template, one.parameters, words).names
        if isinstance(outcome, BuildFailure):
            return Kernel(one, replace(facts, failure=outcome.reason), b"", names, {})
        loops: dict[str, Loop] = {}
        for step in piece.probes:
            used = outcome.build.resources[step.entry]
            found = loop_of(self.gpu, outcome.sass[step.entry], used, step)
            if found is None:
                continue
            if not loops:  # the first probe's is the entry point for aligned sizes
                held = occupancy(
                    self.gpu.architecture, used, math.prod(step.block), step.dynamic_shared_bytes
                ).blocks_per_sm
                facts = replace(
                    facts,
                    registers=used.registers,
                    spill_bytes=used.spill_bytes,
                    shared_bytes=used.shared_bytes + step.dynamic_shared_bytes,
                    threads=math.prod(step.block),
                    blocks_per_sm=held,
                    cluster=image.kernels(outcome.build.cubin)[step.entry].cluster,
                    census=census(outcome.sass[step.entry]),
                )
            loops.setdefault(step.entry, found)
        return Kernel(one, facts, outcome.build.cubin, names, loops)


def _probes(one: Candidate) -> tuple[Launch, ...]:
    """Everything that is launched at the sizes of `_PROBES`, in their order."""
    template, kind = one.group.template, one.group.type
    return tuple(
        step for size in _PROBES for step in Instance(template, one.parameters, kind.problem(size)).launches.steps
    )
