"""Figures derived from one record: hot-loop counts, the response, shares of peak.

The one place where the report decides *which* counts a figure is made of.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.isa.mix import Counts, KernelMix, LoopMix
from lab.isa.model import InstructionClass
from lab.measurement import Kind
from lab.store import Status, VariantRecord


def hot_loop(mix: KernelMix | None) -> LoopMix | None:
    """The loop marked hot, or None (nothing was read, or the kernel has no loop)."""
    return None if mix is None else next((loop for loop in mix.loops if loop.hot), None)


def hot_counts(mix: KernelMix | None) -> Counts | None:
    """Counts of the hot loop; of the whole kernel where it has no loop; None where nothing was read."""
    if mix is None:
        return None
    loop = hot_loop(mix)
    return mix.counts if loop is None else loop.counts


def class_count(mix: KernelMix | None, cls: InstructionClass) -> int | None:
    """Instructions of a class in the hot loop."""
    counts = hot_counts(mix)
    return None if counts is None else counts.by_class.get(cls, 0)


def fma_share(mix: KernelMix | None) -> float | None:
    """Instructions that are fma over all instructions of the hot loop, 0 to 1; None for an empty body."""
    counts = hot_counts(mix)
    if counts is None or not counts.instructions:
        return None
    return counts.by_class.get(InstructionClass.FMA, 0) / counts.instructions


def fma_per_ld_shared(mix: KernelMix | None) -> float | None:
    """Ratio fma : ld.shared of the hot loop; None without a load from shared memory."""
    fma, loads = class_count(mix, InstructionClass.FMA), class_count(mix, InstructionClass.LD_SHARED)
    return None if fma is None or not loads else fma / loads


def fma_over_fma_plus_ld_shared(mix: KernelMix | None) -> float | None:
    """Share fma/(fma + ld.shared) of the hot loop, 0 to 1; None with neither of them."""
    fma, loads = class_count(mix, InstructionClass.FMA), class_count(mix, InstructionClass.LD_SHARED)
    return None if fma is None or loads is None or not fma + loads else fma / (fma + loads)


def bytes_per_fma_shared(mix: KernelMix | None) -> float | None:
    """Bytes that a thread loads from shared memory for each fma of the hot loop; None without fma."""
    counts, fma = hot_counts(mix), class_count(mix, InstructionClass.FMA)
    return None if counts is None or not fma else counts.load_bytes_shared / fma


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
        """The response of one variant, in TFLOP/s; None where it has none or failed."""
        if record.status.failed:
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


def executed(record: VariantRecord) -> bool:
    """The variant's outputs were compared with the reference and agree."""
    return record.status is Status.VERIFIED
