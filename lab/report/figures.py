"""Figures derived from one record: hot-loop counts, the response, shares of peak.

The one place where the report decides *which* counts a figure is made of.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.isa.mix import Counts, KernelMix
from lab.measurement import Kind
from lab.store import RunRecord, Status, VariantRecord


def hot_counts(mix: KernelMix | None) -> Counts | None:
    """Counts of the hot loop; of the whole kernel where it has no loop; None where nothing was read."""
    if mix is None:
        return None
    loop = mix.hot_loop
    return mix.counts if loop is None else loop.counts


def fma_share(mix: KernelMix | None) -> float | None:
    """Share of fma in the instructions of the hot loop, 0 to 1."""
    counts = hot_counts(mix)
    return None if counts is None else counts.fma_share


def predicted_tflops(record: VariantRecord) -> float | None:
    """The predicted ceiling in TFLOP/s: the least bound."""
    ceiling = record.prediction.ceiling if record.prediction else None
    return ceiling.tflops if ceiling else None


def measured_tflops(record: VariantRecord) -> float | None:
    """Median throughput in TFLOP/s of a variant whose outputs were right; a failed variant has none."""
    return None if record.status.failed else record.tflops


def shared_bytes(record: VariantRecord) -> int | None:
    """Static and dynamic shared memory of a block, in bytes."""
    if record.build is None:
        return None
    return record.build.resources.shared_bytes + (record.launch.dynamic_shared_bytes if record.launch else 0)


@dataclass(frozen=True, slots=True)
class Response:
    """What the variants are ranked and compared by: one figure of one kind for the whole page.

    Attributes:
        kind: Measured where any variant was measured, else predicted.
        column: Name of the column that holds it.
        title: Axis title without the unit.
    """

    kind: Kind
    column: str
    title: str
    unit: str = "TFLOP/s"

    def of(self, record: VariantRecord) -> float | None:
        """The response of one variant, in TFLOP/s; None where it has none, failed or was pruned."""
        if record.status.failed or record.status is Status.PRUNED:
            return None
        return measured_tflops(record) if self.kind is Kind.MEASURED else predicted_tflops(record)

    @property
    def axis(self) -> str:
        """Axis title with kind and unit."""
        return f"{self.title} ({self.unit}, {self.kind})"


def response_of(records: tuple[VariantRecord, ...]) -> Response:
    """Measured throughput if any variant has one, else the predicted ceiling; never a mixture."""
    if any(measured_tflops(record) is not None for record in records):
        return Response(Kind.MEASURED, "measured_tflops", "throughput")
    return Response(Kind.PREDICTED, "predicted_tflops", "throughput ceiling")


def ranked(records: tuple[VariantRecord, ...], response: Response) -> tuple[VariantRecord, ...]:
    """Records with a response, best first; equal ones stay in the experiment's order."""
    having = [(value, record) for record in records if (value := response.of(record)) is not None]
    return tuple(record for _, record in sorted(having, key=lambda pair: -pair[0]))


def by_problem(run: RunRecord, records: tuple[VariantRecord, ...]) -> dict[str, tuple[VariantRecord, ...]]:
    """The records of each problem by its label, ``m=2048 layout=nt``; one group without a label for one problem.

    Only variants of the same problem compete: each has its winner and its baseline.
    """
    groups: dict[str, list[VariantRecord]] = {}
    for record in records:
        label = " ".join(f"{name}={text(record.problem.get(name))}" for name in run.problem_axes)
        groups.setdefault(label, []).append(record)
    return {label: tuple(group) for label, group in groups.items()}


def text(value: object) -> str:
    """A value as experiment files write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
