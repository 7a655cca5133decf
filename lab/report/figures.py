"""Figures derived from one record: hot-loop counts, the response, shares of peak.

The one place where the report decides *which* counts a figure is made of.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lab.emulator.results import MemoryCount
from lab.isa.mix import Counts, KernelMix
from lab.measurement import Kind, Merit
from lab.store import VariantRecord


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


def merit_of(records: Iterable[VariantRecord]) -> Merit:
    """What throughput counts in a run: all of its records share the operator."""
    return next((record.merit for record in records), Merit.TFLOPS)


def predicted(record: VariantRecord) -> float | None:
    """The predicted ceiling, the least bound, in the unit of the record's merit."""
    ceiling = record.prediction.ceiling if record.prediction else None
    return ceiling.rate if ceiling else None


def measured(record: VariantRecord) -> float | None:
    """Median throughput of a variant whose outputs were right, in the unit of its merit; a failed one has none."""
    return None if record.status.failed else record.throughput


def peak(record: VariantRecord) -> float | None:
    """The GPU's peak in the unit of the record's merit; None where it is not known."""
    return (record.prediction.peak or None) if record.prediction else None


def emulated_traffic(record: VariantRecord, space: str) -> MemoryCount | None:
    """All loads and stores of one space (`global`, `shared`) of the emulated launch; None where there was none."""
    executed = record.emulation.executed if record.emulation else None
    counts = [count for name, count in executed.memory.items() if name.startswith(f"{space}.")] if executed else []
    total = sum(counts, MemoryCount())
    return total if total.requests else None


def emulated_sectors(record: VariantRecord) -> float | None:
    """Mean of the sectors a request of global loads and of global stores, as `predicted_sectors` has it."""
    executed = record.emulation.executed if record.emulation else None
    counts = [count for name, count in executed.memory.items() if name.startswith("global.")] if executed else []
    found = [count.sectors_per_request for count in counts if count.requests]
    return sum(found) / len(found) if found else None


def emulated_excess(record: VariantRecord) -> float | None:
    """Bytes of the sectors that global accesses touch over the bytes that they ask for: 1 is perfectly coalesced."""
    total = emulated_traffic(record, "global")
    return total.bytes_moved / total.bytes_used if total and total.bytes_used else None


def emulated_conflicts(record: VariantRecord) -> float | None:
    """Bank conflicts a request to shared memory, loads and stores together."""
    total = emulated_traffic(record, "shared")
    return total.bank_conflicts / total.requests if total else None


def predicted_sectors(record: VariantRecord) -> float | None:
    """Mean of the sectors a request that the template predicts for its global loads and for its global stores."""
    found = [cost for name, cost in record.accesses.items() if name.startswith("global.")]
    return sum(found) / len(found) if found else None


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
        unit: What throughput counts.
    """

    kind: Kind
    column: str
    title: str
    unit: Merit = Merit.TFLOPS

    def of(self, record: VariantRecord) -> float | None:
        """The response of one variant, in `unit`; None where it has none or failed."""
        if record.status.failed:
            return None
        return measured(record) if self.kind is Kind.MEASURED else predicted(record)

    @property
    def axis(self) -> str:
        """Axis title with kind and unit."""
        return f"{self.title} ({self.unit}, {self.kind})"


def response_of(records: tuple[VariantRecord, ...]) -> Response:
    """Measured throughput if any variant has one, else the predicted ceiling; never a mixture."""
    merit = merit_of(records)
    if any(measured(record) is not None for record in records):
        return Response(Kind.MEASURED, column_name("measured_tflops", merit), "throughput", merit)
    return Response(Kind.PREDICTED, column_name("predicted_tflops", merit), "throughput ceiling", merit)


def column_name(name: str, merit: Merit) -> str:
    """A throughput column's name where throughput counts `merit`: ``measured_tflops`` → ``measured_gb_s``."""
    return name if merit is Merit.TFLOPS else name.replace("tflops", "gb_s")


def ranked(records: tuple[VariantRecord, ...], response: Response) -> tuple[VariantRecord, ...]:
    """Records with a response, best first; equal ones stay in the experiment's order."""
    having = [(value, record) for record in records if (value := response.of(record)) is not None]
    return tuple(record for _, record in sorted(having, key=lambda pair: -pair[0]))
