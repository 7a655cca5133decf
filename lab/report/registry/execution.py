"""Columns of execution: emulated memory traffic, instructions and findings, and hardware counters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from lab.measured.counters import PIPES
from lab.measured.timing import Kind
from lab.recorded.run_records import VariantRecord
from lab.report.columns import Column
from lab.report.facts import counted
from lab.report.registry.getters import conflicts, executed, executed_share, profiled, sectors, traffic
from lab.report.variant.executed_counts import executed_by_class
from lab.store import figures
from lab.store.matrix_traffic import TensorFigures, tensor_figures

P, E, M = Kind.PREDICTED, Kind.EMULATED, Kind.MEASURED


def _executed_fma_share(record: VariantRecord) -> float | None:
    by_class = executed_by_class(record, hot=True)
    return by_class.get("fma", 0) / sum(by_class.values()) if by_class else None


def _accesses(*names: str) -> Iterator[Column]:
    """Yield columns of predicted accesses, and of emulated figures that have no other column."""
    for name in names:
        space, _, verb = name.partition(".")
        unit, about = ("sectors", "32-byte sectors") if space == "global" else ("conflicts", "bank conflicts")
        title, key = f"{unit} per {space} {verb}", f"{unit}_per_{space}_{verb}"
        yield Column(
            f"predicted_{key}",
            title,
            P,
            lambda r, name=name: r.accesses.get(name),  # type: ignore[misc]  # the default binds the loop's name
            format=".2f",
            shown=True,
            about=f"{about} per warp request, from the variant's mappings",
        )
        if verb == "store":
            figure = sectors if space == "global" else conflicts
            about = f"{about} per warp request; whole launch on the CPU"
            yield Column(key, title, E, traffic((name,), figure), format=".2f", about=about)


def _moved_per_needed(record: VariantRecord) -> float | None:
    emulation = record.emulation
    if emulation is None or emulation.executed is None or not emulation.bytes_needed:
        return None
    bytes_moved = sum(
        count.bytes_moved for access, count in emulation.executed.memory.items() if access.startswith("global.")
    )
    return bytes_moved / emulation.bytes_needed


EXECUTION: Final = (
    Column(
        "conflicts_per_shared_load",
        "conflicts per shared load",
        E,
        traffic(("shared.load",), conflicts),
        format=".2f",
        shown=True,
        about="wavefronts beyond the conflict-free number, per warp request; whole launch on the CPU",
    ),
    Column(
        "sectors_per_global_load",
        "sectors per global load",
        E,
        traffic(figures.GLOBAL_LOADS, sectors),
        format=".2f",
        shown=True,
        about="32-byte sectors per warp request, cp.async included; whole launch on the CPU",
    ),
    *_accesses("global.load", "global.store", "shared.load", "shared.store"),
    Column(
        "predicted_sectors",
        "sectors per request",
        P,
        figures.predicted_sectors,
        format=".2f",
        about="mean of the 32-byte sectors per warp request of loads and of stores, from the variant's mappings",
    ),
    Column(
        "emulated_sectors",
        "sectors per request",
        E,
        figures.emulated_sectors,
        format=".2f",
        about="mean of the 32-byte sectors per warp request of loads and of stores; whole launch on the CPU",
    ),
    Column(
        "emulated_excess",
        "bytes moved per byte used",
        E,
        figures.emulated_excess,
        format=".2f",
        about="bytes of the sectors of global requests over the bytes asked for; 1 is perfectly coalesced",
    ),
    Column(
        "emulated_conflicts",
        "conflicts per request",
        E,
        figures.emulated_conflicts,
        format=".2f",
        about="bank conflicts per warp request, shared loads and stores; whole launch on the CPU",
    ),
    Column(
        "moved_per_byte_needed",
        "bytes moved per byte needed",
        E,
        _moved_per_needed,
        format=".2f",
        about="bytes of sectors of global memory over the problem's least traffic, as if there were no caches",
    ),
    Column(
        "counted_per_byte_needed",
        "DRAM bytes per byte needed",
        M,
        counted.dram_per_needed,
        format=".2f",
        shown=True,
        about="bytes that DRAM read and wrote, by its counters, over the problem's least traffic; below 1 where L2 "
        "still holds what was written",
    ),
    Column(
        "l2_per_byte_needed",
        "L2 bytes per byte needed",
        M,
        counted.l2_per_needed,
        format=".2f",
        about="bytes of the 32-byte sectors requested from L2, by its counters, over the problem's least traffic",
    ),
    Column(
        "achieved_occupancy",
        "achieved occupancy",
        M,
        profiled(lambda p: p.occupancy),
        format=".0%",
        shown=True,
        about="resident warps over the most that an SM holds, counted while it was active",
    ),
    Column(
        "counted_wait",
        "warps wait most for",
        M,
        counted.wait,
        shown=True,
        about="most frequent reason that warps cannot issue, by the counters, and its share of all such warps",
    ),
    Column(
        "counted_issue_share",
        "issue slots used",
        M,
        profiled(lambda p: p.issue_share),
        format=".0%",
        about="active cycles in which a scheduler issued, by the counters",
    ),
    *(
        Column(
            f"counted_pipe_{pipe}",
            f"{pipe} pipe",
            M,
            profiled(lambda p, pipe=pipe: p.pipes.get(pipe)),  # type: ignore[misc]  # the default binds the loop's name
            format=".0%",
            about=f"use of the pipe for {description}, as a share of its peak, by the counters",
        )
        for pipe, description in PIPES.items()
    ),
    Column(
        "counted_clock",
        "SM clock",
        M,
        profiled(lambda p: None if p.clock_hz is None else p.clock_hz / 1e9),
        unit="GHz",
        format=".2f",
        about="cycles of the SMs over the time of the launch, by the counters",
    ),
    Column(
        "counted_instructions",
        "warp instructions",
        M,
        profiled(lambda p: p.instructions),
        format=",.0f",
        about="executed by all launches at the problem's full size, by the counters",
    ),
    Column(
        "executed_special_share",
        "executed special-function share",
        E,
        executed_share("special"),
        format=".1%",
        about="exponentials, reciprocals and the like over all warp instructions executed",
    ),
    Column(
        "executed_convert_share",
        "executed conversion share",
        E,
        executed_share("convert"),
        format=".1%",
        about="conversions between types over all warp instructions executed",
    ),
    Column(
        "executed_fma_share",
        "executed FMA share",
        E,
        _executed_fma_share,
        format=".1%",
        about="fma over all thread instructions executed in the PTX's hot loop",
    ),
    Column(
        "executed_warp_instructions",
        "warp instructions",
        E,
        executed(lambda e: e.warps),
        format=",d",
        about="PTX instructions executed by the launch at the experiment's emulate size",
    ),
    Column(
        "emulated_max_error",
        "largest error",
        E,
        lambda r: r.emulation.verification.max_error if r.emulation and r.emulation.verification else None,
        format=".3g",
        about="largest scaled difference of the CPU execution from the float64 reference",
    ),
    Column(
        "findings",
        "findings",
        E,
        lambda r: len(r.emulation.findings) if r.emulation and r.emulation.verification else None,
        format=",d",
        about="races, bad accesses and divergent barriers that the CPU execution found",
    ),
    Column(
        "suspicions",
        "suspicions",
        E,
        lambda r: len(r.emulation.suspicions) if r.emulation and r.emulation.verification else None,
        format=",d",
        about="faults at the problem's own size, in another order, in another launch, on other inputs",
    ),
    Column(
        "first_suspicion",
        "first suspicion",
        E,
        lambda r: r.emulation.suspicions[0].summary if r.emulation and r.emulation.suspicions else None,
        about="the condition, the fault and its line",
    ),
)


def tensor_columns(records: Sequence[VariantRecord]) -> tuple[Column, ...]:
    """Return columns on the operand traffic of variants with matrix instructions."""
    by_variant = {record.variant: tensor_figures(record) for record in records}

    def column(
        name: str, title: str, of: Callable[[TensorFigures], float | None], form: str, about: str, *, unit: str = ""
    ) -> Column:
        def get(record: VariantRecord) -> float | None:
            tensor = by_variant.get(record.variant)
            return None if tensor is None else of(tensor)

        return Column(name, title, E, get, unit, form, about=about)

    return (
        column(
            "matrix_flop_per_shared_byte",
            "matrix FLOP per shared byte",
            lambda tensor: tensor.flop_per_shared_byte,
            ".1f",
            "of what threads, ldmatrix and wgmma read in shared memory; whole launch on the CPU",
        ),
        column(
            "matrix_flop_per_global_byte",
            "matrix FLOP per global byte",
            lambda tensor: tensor.flop_per_global_byte,
            ".1f",
            "of the sectors that loads and asynchronous copies fetch; whole launch on the CPU",
        ),
        column(
            "matrix_instruction_share",
            "matrix instructions",
            lambda tensor: tensor.share,
            ".1%",
            "share of all warp instructions of the PTX; whole launch on the CPU",
        ),
        column(
            "bytes_in_flight",
            "bytes in flight",
            lambda tensor: tensor.bytes_in_flight,
            ",.0f",
            "of a block: the stages that asynchronous copies fill while another one is read",
            unit="B",
        ),
    )
