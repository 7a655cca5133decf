"""Tuning files that are read, and times that are invented. Nothing here was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab.base.expressions import Scalar
from lab.base.sizes import Size
from lab.hardware.gpus import gpu_for
from lab.measured.timing import Kind, Samples
from lab.store.tuning_model import KernelFacts, ProblemType, Timed, TimingStage
from lab.templates.instance import Instance
from lab.tuning.bench import Ledger, TimingTask
from lab.tuning.candidate_builds import Kernel
from lab.tuning.choose.protocol import Candidate, Times, candidate
from lab.tuning.file.load import Group, Tuning, load
from lab.tuning.predicted import ProductLoop
from lab.tuning.product import product
from lab.tuning.race import TuningContext

H200 = gpu_for("H200")

BASE = """question: Which?
arch: sm_90
groups:
  - name: tensile
    template: gemm/tensile.cu.j2
{steps}
    BenchmarkFinalParameters: [{{exact: [64, 64, 64]}}, {{range: [[16, 16, 64], 16, 16]}}]
"""


def tuning(folder: Path, steps: str = "", text: str | None = None) -> Tuning:
    file = folder / "t.yaml"
    indented = "\n".join(f"    {line}" for line in steps.splitlines())
    file.write_text(text if text is not None else BASE.format(steps=indented))
    return load(file)


def invented(ms: float) -> Timed:
    return Timed(Samples((ms,)), Kind.PREDICTED)


class Bench:
    """Times by a function of parameters and size; remembers what it was asked."""

    def __init__(self, ms: Callable[[Mapping[str, Scalar], Size], float | None]) -> None:
        self.ms = ms
        self.asked: list[tuple[list[str], tuple[Size, ...]]] = []

    def __call__(self, candidates: Sequence[Candidate], sizes: Sequence[Size]) -> Times:
        self.asked.append(([candidate.name for candidate in candidates], tuple(sizes)))
        times = {}
        for tuning_kernel in candidates:
            found = {size: self.ms(tuning_kernel.parameters, size) for size in sizes}
            times[tuning_kernel.name] = {
                size: invented(ms) if ms is not None else Timed(None, Kind.PREDICTED, failure="it failed")
                for size, ms in found.items()
            }
        return times


LOOP = ProductLoop(rate=60e12 / H200.sms, blocks=2, fma=512, instructions=580, element_bytes=4)


def kernel(group: Group, *, loop: ProductLoop | None = LOOP, failure: str = "", **given: Scalar) -> Kernel:
    """A kernel that nobody built; its id is its name."""
    tuning_kernel = candidate(group, {**group.initial, **given})
    assert isinstance(tuning_kernel, Candidate), tuning_kernel
    facts = KernelFacts(
        id=tuning_kernel.name,
        name=tuning_kernel.name,
        group=group.name,
        type=group.type.label,
        template=group.template.name,
        parameters=tuning_kernel.parameters,
        arch="sm_90",
        blocks_per_sm=2,
        failure=failure,
    )
    steps = Instance(
        group.template, tuning_kernel.parameters, product(group.type, (64,) * len(group.type.axes))
    ).launches.steps
    loops = {} if loop is None else {step.entry: loop for step in steps}
    return Kernel(tuning_kernel, facts, b"\x7fELF", dict(tuning_kernel.parameters), loops)


@dataclass
class TableBench:
    """Writes times by a function of a kernel's name and a size, and remembers the tasks of each stage."""

    ledger: Ledger
    ms: Callable[[str, Size], float | None]
    kind: Kind = Kind.MEASURED
    library: str = ""
    tasks: dict[TimingStage, list[TimingTask]] = field(default_factory=dict)
    asked: list[tuple[float | None, bool]] = field(default_factory=list)

    def run(
        self, stage: TimingStage, of: ProblemType, tasks: Iterable[TimingTask], *, drop: float | None, baseline: bool
    ) -> None:
        self.asked.append((drop, baseline))
        for task in tasks:
            self.tasks.setdefault(stage, []).append(task)
            found = {kernel.facts.id: self._timed(kernel, task.size) for kernel in task.kernels}
            self.ledger.write(stage, task.size, found)

    def _timed(self, tuning_kernel: Kernel, size: Size) -> Timed:
        refused = tuning_kernel.facts.failure or tuning_kernel.refused(size)
        ms = None if refused else self.ms(tuning_kernel.facts.id, size)
        if ms is None:
            return Timed(None, self.kind, failure=refused or "it failed")
        return Timed(Samples((ms,) * 2), self.kind, "warm")

    def timed(self, stage: TimingStage) -> dict[Size, list[str]]:
        """Size to the names of the kernels that were asked for."""
        return {task.size: [kernel.facts.id for kernel in task.kernels] for task in self.tasks.get(stage, [])}


def context(read: Tuning, ledger: Ledger, ms: Callable[[str, Size], float | None]) -> tuple[TuningContext, TableBench]:
    bench = TableBench(ledger, ms)
    return TuningContext(read, bench, ledger, H200), bench
