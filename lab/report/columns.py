"""The one registry of columns: CSV, JSON, the page's table and its charts are drawn from it.

A column has a name (its CSV header), a title with a unit, the kind of its figures, a getter and a format. The
format is a format specification that Python and d3 read alike (``.3f``, ``,d``, ``.1%``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lab.emulator.results import ExecutedCounts, MemoryCount
from lab.isa.mix import Counts
from lab.isa.model import Isa
from lab.measured.counters import PIPES, Profile
from lab.measured.timing import CardState, Kind, Measurement, Merit
from lab.report.facts import counted
from lab.report.facts.agreement import loss
from lab.report.variant.executed import executed_by_class
from lab.store import figures
from lab.store.model import BuildRecord, RepeatRecord, RunRecord, VariantRecord

Value = bool | int | float | str | None
Getter = Callable[[VariantRecord], Value]


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        name: CSV header.
        title: Header on the page, without the unit.
        kind: Kind of the figures; None for what identifies a variant rather than describes its code.
        get: Value of a record, None for an empty cell.
        unit: Unit of the figures; empty for counts, shares and text.
        format: Format specification, empty for text.
        shown: In the page's table without asking.
        field: Name that charts use; free of characters that a chart language would interpret.
        about: One line: what exactly the figure is.
    """

    name: str
    title: str
    kind: Kind | None
    get: Getter
    unit: str = ""
    format: str = ""
    shown: bool = False
    field: str = ""
    about: str = ""

    @property
    def key(self) -> str:
        """Field name in chart data."""
        return self.field or self.name

    @property
    def header(self) -> str:
        """Title with its unit in parentheses."""
        return f"{self.title} ({self.unit})" if self.unit else self.title

    @property
    def is_share(self) -> bool:
        """Its figures are shares, shown in per cent."""
        return self.format.endswith("%")

    def text(self, value: Value) -> str:
        """A value of this column as the page shows it; empty for None."""
        if value is None:
            return ""
        if isinstance(value, bool):
            return str(value).lower()
        return format(value, self.format) if self.format and not isinstance(value, str) else str(value)


def _build(getter: Callable[[BuildRecord], Value]) -> Getter:
    return lambda record: None if record.build is None else getter(record.build)


def _counted(getter: Callable[[Profile], Value]) -> Getter:
    """A figure of the hardware counters."""
    return lambda record: None if record.profile is None else getter(record.profile)


def _timed(getter: Callable[[Measurement], Value]) -> Getter:
    return lambda record: None if record.measurement is None or record.status.failed else getter(record.measurement)


def _card(getter: Callable[[CardState], Value]) -> Getter:
    return _timed(lambda measurement: getter(measurement.after))


def _rate(record: VariantRecord, quantile: str) -> float | None:
    """Throughput at a quantile of the time."""
    if record.measurement is None or record.status.failed:
        return None
    samples = record.measurement.samples
    return record.rate(samples.p20 if quantile == "p20" else samples.p80)


def _again(record: VariantRecord) -> float | None:
    """Throughput of a winner that was measured again."""
    again = record.measurement.remeasured if record.measurement and not record.status.failed else None
    return None if again is None else record.rate(again.median)


def _share_of_peak(record: VariantRecord, rate: float | None) -> float | None:
    peak = figures.peak(record)
    return None if rate is None or peak is None else rate / peak


def _label(record: VariantRecord, isa: str) -> str | None:
    mix = record.ptx if isa == "ptx" else record.sass
    if mix is None:
        return None
    loop = mix.hot_loop
    return loop.label if loop else "whole kernel"


def _live(record: VariantRecord) -> int | None:
    if record.sass is None:
        return None
    return (record.sass.hot_loop or record.sass).live_registers


def _hot(isa: Isa, getter: Callable[[Counts], Value]) -> Getter:
    """A figure of the hot loop of the PTX or the SASS."""

    def get(record: VariantRecord) -> Value:
        counts = figures.hot_counts(record.ptx if isa == "ptx" else record.sass)
        return None if counts is None else getter(counts)

    return get


def _ceiling_name(record: VariantRecord) -> str | None:
    ceiling = record.prediction.ceiling if record.prediction else None
    return ceiling.name if ceiling else None


def _executed(getter: Callable[[ExecutedCounts], Value]) -> Getter:
    """A figure of the whole emulated launch."""

    def get(record: VariantRecord) -> Value:
        executed = record.emulation.executed if record.emulation else None
        return None if executed is None else getter(executed)

    return get


def _traffic(accesses: tuple[str, ...], getter: Callable[[MemoryCount], float]) -> Getter:
    """A figure of some kinds of memory access of the emulated launch, together; empty where there was none."""

    def get(record: VariantRecord) -> float | None:
        total = figures.emulated_traffic(record, *accesses)
        return getter(total) if total else None

    return get


def _executed_share(cls: str) -> Getter:
    """A class's share of the warp instructions of the emulated launch; empty where none was executed."""
    return _executed(lambda e: e.warps_by_class.get(cls, 0) / e.warps if e.warps else None)


def _executed_fma_share(record: VariantRecord) -> float | None:
    by_class = executed_by_class(record, hot=True)
    return by_class.get("fma", 0) / sum(by_class.values()) if by_class else None


def _accesses(*names: str) -> Iterator[Column]:
    """What the template predicts of its accesses, and the emulated figures that no other column has."""
    for name in names:
        space, _, verb = name.partition(".")
        what, about = ("sectors", "32-byte sectors") if space == "global" else ("conflicts", "bank conflicts")
        title, key = f"{what} per {space} {verb}", f"{what}_per_{space}_{verb}"
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
            figure = _sectors if space == "global" else _conflicts
            about = f"{about} per warp request; whole launch on the CPU"
            yield Column(key, title, E, _traffic((name,), figure), format=".2f", about=about)


def _sectors(count: MemoryCount) -> float:
    return count.sectors_per_request


def _conflicts(count: MemoryCount) -> float:
    return count.bank_conflicts / count.requests


def _moved_per_needed(record: VariantRecord) -> float | None:
    done = record.emulation
    if done is None or done.executed is None or not done.bytes_needed:
        return None
    moved = sum(count.bytes_moved for access, count in done.executed.memory.items() if access.startswith("global."))
    return moved / done.bytes_needed


S, P, E, M = Kind.STATIC, Kind.PREDICTED, Kind.EMULATED, Kind.MEASURED

IDENTITY: Final = (
    Column("variant", "variant", None, lambda r: r.variant, shown=True, about="short hash of what decides the code"),
    Column("kernel", "kernel", None, lambda r: r.kernel, shown=True),
    Column("label", "label", None, lambda r: r.label, about="what tells the variant from its siblings"),
    Column("status", "status", None, lambda r: str(r.status), shown=True),
    Column("reason", "reason", None, lambda r: r.reason or None),
)

FIGURES: Final = (
    Column(
        "measured_tflops",
        "throughput",
        M,
        figures.measured,
        "TFLOP/s",
        ".2f",
        shown=True,
        about="operations of the problem over the median time",
    ),
    Column(
        "measured_peak_share",
        "throughput / peak",
        M,
        lambda r: _share_of_peak(r, figures.measured(r)),
        format=".1%",
        shown=True,
    ),
    Column(
        "ratio_to_baseline",
        "ratio to baseline",
        M,
        _timed(lambda m: m.ratio_to_baseline),
        format=".3f",
        shown=True,
        about="throughput over the baseline's, interleaved; above 1 is faster",
    ),
    Column("measured_ms", "median time", M, _timed(lambda m: m.samples.median), "ms", ".4f", shown=True),
    Column(
        "measured_spread",
        "spread",
        M,
        _timed(lambda m: m.samples.spread),
        format=".1%",
        about="of the time: 80th percentile less the 20th, over the median",
    ),
    Column(
        "remeasured_tflops",
        "in a fresh process",
        M,
        _again,
        "TFLOP/s",
        ".2f",
        about="throughput of a problem's winner by its median time in a second process",
    ),
    Column(
        "predicted_tflops",
        "predicted ceiling",
        P,
        figures.predicted,
        "TFLOP/s",
        ".2f",
        shown=True,
        about="the least of the bounds",
    ),
    Column("predicted_bound", "binding bound", P, _ceiling_name, shown=True, about="the bound that is least"),
    Column(
        "estimated_tflops",
        "estimate",
        P,
        figures.estimated,
        "TFLOP/s",
        ".2f",
        shown=True,
        about="by a model of the schedulers that issues the hot loop's SASS; no ceiling",
    ),
    Column("estimated_loss", "costs most besides fma", P, loss, shown=True, about="share of the model's cycles"),
    Column(
        "occupancy",
        "occupancy",
        P,
        lambda r: r.prediction.occupancy if r.prediction else None,
        format=".0%",
        shown=True,
        about="resident warps over the most that an SM holds",
    ),
    Column(
        "ptx_fma_per_ld_shared",
        "PTX fma : ld.shared",
        S,
        _hot("ptx", lambda c: c.fma_per_ld_shared),
        format=".2f",
        shown=True,
        about="hot loop; empty without a load from shared memory",
    ),
    Column(
        "ptx_fma_share",
        "PTX FMA share",
        S,
        _hot("ptx", lambda c: c.fma_share),
        format=".1%",
        shown=True,
        about="fma over all instructions of the hot loop",
    ),
    Column(
        "sass_fma_share",
        "SASS FMA share",
        S,
        _hot("sass", lambda c: c.fma_share),
        format=".1%",
        shown=True,
        about="fma over all instructions of the hot loop",
    ),
    Column(
        "registers",
        "registers",
        S,
        _build(lambda b: b.resources.registers),
        format=",d",
        shown=True,
        about="per thread, as ptxas allocated them",
    ),
    Column(
        "spill_bytes",
        "spills",
        S,
        _build(lambda b: b.resources.spill_bytes),
        "B",
        ",d",
        shown=True,
        about="spill stores and loads per thread",
    ),
    Column(
        "shared_bytes",
        "shared memory",
        S,
        figures.shared_bytes,
        "B",
        ",d",
        shown=True,
        about="per block, static and dynamic",
    ),
    Column(
        "predicted_peak_share",
        "ceiling / peak",
        P,
        lambda r: _share_of_peak(r, figures.predicted(r)),
        format=".1%",
    ),
    Column(
        "baseline_ms", "baseline median", M, _timed(lambda m: m.baseline.median if m.baseline else None), "ms", ".4f"
    ),
    Column("p20_ms", "time p20", M, _timed(lambda m: m.samples.p20), "ms", ".4f"),
    Column("p80_ms", "time p80", M, _timed(lambda m: m.samples.p80), "ms", ".4f"),
    Column("samples", "samples", M, _timed(lambda m: m.samples.n), format=",d"),
    Column(
        "tflops_p20",
        "throughput at p80 time",
        M,
        lambda r: _rate(r, "p80"),
        "TFLOP/s",
        ".2f",
    ),
    Column(
        "tflops_p80",
        "throughput at p20 time",
        M,
        lambda r: _rate(r, "p20"),
        "TFLOP/s",
        ".2f",
    ),
    Column(
        "max_error",
        "largest error",
        None,
        lambda r: r.verification.max_error if r.verification else None,
        format=".3g",
        about="largest scaled difference from the float64 reference",
    ),
    Column(
        "conflicts_per_shared_load",
        "conflicts per shared load",
        E,
        _traffic(("shared.load",), _conflicts),
        format=".2f",
        shown=True,
        about="wavefronts beyond the conflict-free number, per warp request; whole launch on the CPU",
    ),
    Column(
        "sectors_per_global_load",
        "sectors per global load",
        E,
        _traffic(figures.GLOBAL_LOADS, _sectors),
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
        about="32-byte sectors of global memory over the problem's least traffic, as if there were no caches",
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
        about="32-byte sectors that L2 was asked for, by its counters, over the problem's least traffic",
    ),
    Column(
        "achieved_occupancy",
        "achieved occupancy",
        M,
        _counted(lambda p: p.occupancy),
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
        about="most frequent state of warps that cannot issue, by the counters, and its share of them",
    ),
    Column(
        "counted_issue_share",
        "issue slots used",
        M,
        _counted(lambda p: p.issue_share),
        format=".0%",
        about="active cycles in which a scheduler issued, by the counters",
    ),
    *(
        Column(
            f"counted_pipe_{pipe}",
            f"{pipe} pipe",
            M,
            _counted(lambda p, pipe=pipe: p.pipes.get(pipe)),  # type: ignore[misc]  # the default binds the loop's name
            format=".0%",
            about=f"use of the pipe for {what}, as a share of its peak, by the counters",
        )
        for pipe, what in PIPES.items()
    ),
    Column(
        "counted_instructions",
        "warp instructions",
        M,
        _counted(lambda p: p.instructions),
        format=",.0f",
        about="executed by all launches at the problem's full size, by the counters",
    ),
    Column(
        "executed_special_share",
        "executed special-function share",
        E,
        _executed_share("special"),
        format=".1%",
        about="exponentials, reciprocals and their like over all warp instructions executed",
    ),
    Column(
        "executed_convert_share",
        "executed conversion share",
        E,
        _executed_share("convert"),
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
        _executed(lambda e: e.warps),
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
    Column("cache", "L2 cache", M, _timed(lambda m: m.cache), about="cold: flushed before each repetition; warm: not"),
    Column("sm_clock_mhz", "SM clock", M, _card(lambda c: c.sm_clock_mhz), "MHz", ",d"),
    Column(
        "ptx_fma_over_fma_plus_ld_shared",
        "PTX fma/(fma+ld.shared)",
        S,
        _hot("ptx", lambda c: c.fma_over_fma_plus_ld_shared),
        format=".3f",
    ),
    Column(
        "sass_fma_over_fma_plus_ld_shared",
        "SASS fma/(fma+ld.shared)",
        S,
        _hot("sass", lambda c: c.fma_over_fma_plus_ld_shared),
        format=".3f",
    ),
    Column(
        "sass_fma_per_ld_shared", "SASS fma : ld.shared", S, _hot("sass", lambda c: c.fma_per_ld_shared), format=".2f"
    ),
    Column(
        "sass_shared_bytes_per_fma",
        "shared bytes per fma",
        S,
        _hot("sass", lambda c: c.bytes_per_fma_shared),
        "B",
        ".2f",
    ),
    Column("ptx_fma", "PTX fma", S, _hot("ptx", lambda c: c.fma), format=",d"),
    Column(
        "ptx_ld_shared",
        "PTX ld.shared",
        S,
        _hot("ptx", lambda c: c.ld_shared),
        format=",d",
    ),
    Column(
        "ptx_instructions",
        "PTX hot-loop length",
        S,
        _hot("ptx", lambda c: c.instructions),
        format=",d",
    ),
    Column(
        "sass_instructions",
        "SASS hot-loop length",
        S,
        _hot("sass", lambda c: c.instructions),
        format=",d",
    ),
    Column(
        "sass_live_registers",
        "live registers",
        S,
        _live,
        format=",d",
        about="most live general-purpose registers in the SASS hot loop",
    ),
    Column("ptx_hot_loop", "PTX hot loop", S, lambda r: _label(r, "ptx")),
    Column("sass_hot_loop", "SASS hot loop", S, lambda r: _label(r, "sass")),
    Column("limited_by", "occupancy limited by", P, lambda r: r.prediction.limited_by if r.prediction else None),
    Column(
        "peak_tflops",
        "peak",
        P,
        figures.peak,
        "TFLOP/s",
        ".1f",
        about="of the GPU, for the kernel's arithmetic type",
    ),
    Column("toolchain", "toolchain", None, _build(lambda b: b.toolchain)),
    Column("toolchain_version", "toolchain version", None, _build(lambda b: b.version)),
    Column("arch", "arch", None, lambda r: r.arch),
    Column("compile_seconds", "compile time", None, _build(lambda b: b.seconds), "s", ".2f"),
    Column("sass_sha256", "SASS hash", S, _build(lambda b: b.sass_sha256)),
    Column("folder", "folder", None, lambda r: f"variants/{r.variant}"),
)


def _bandwidth(column: Column) -> Column:
    """A column of throughput as it stands where throughput counts bytes; every other one as it is."""
    if column.unit != Merit.TFLOPS:
        return column
    about = _ABOUT_BYTES.get(column.name, column.about)
    name = figures.column_name(column.name, Merit.BANDWIDTH)
    return replace(column, name=name, unit=str(Merit.BANDWIDTH), format=",.1f", about=about)


_ABOUT_BYTES: Final = {
    "measured_tflops": "least bytes of the problem over the median time",
    "peak_tflops": "memory bandwidth of the GPU",
}


def _parameter(name: str, index: int, *, swept: bool) -> Column:
    return Column(
        f"p.{name}",
        name,
        None,
        lambda r: r.parameters.get(name),
        shown=swept,
        field=f"parameter_{index}",
        about="parameter of the template",
    )


def _problem(name: str, index: int) -> Column:
    return Column(
        f"problem.{name}",
        name,
        None,
        lambda r: r.problem.get(name),
        shown=True,
        field=f"problem_{index}",
        about="field of the problem",
    )


def columns_for(
    run: RunRecord, records: Sequence[VariantRecord], repeat: RepeatRecord | None = None
) -> tuple[Column, ...]:
    """Every column of a run: identity, problem fields that vary, parameters (swept ones first), the figures.

    Args:
        run: The run's facts.
        records: Its records.
        repeat: How it came out a second time; None where it was not repeated.
    """
    names = dict.fromkeys(run.swept)
    for record in records:
        names.update(dict.fromkeys(record.parameters))
    parameters = tuple(_parameter(name, index, swept=name in run.swept) for index, name in enumerate(names))
    problems = tuple(_problem(name, index) for index, name in enumerate(run.problem_axes))
    bytes_count = figures.merit_of(records) is Merit.BANDWIDTH
    others = dict.fromkeys(name for record in records if record.measurement for name in record.measurement.others)
    compared = tuple(column for name in others for column in _compared(name))
    several = len({record.compiler for record in records}) > 1
    compiler = Column("compiler", "compiler", None, lambda r: r.compiler, shown=several, about="toolchain and version")
    again = (_repeated(repeat),) if repeat is not None else ()
    made = (*IDENTITY, compiler, *problems, *parameters, *again, *FIGURES, *compared)
    if any(record.profile for record in records):  # the emulated traffic stands beside the counted one
        made = tuple(replace(one, shown=True) if one.name == "moved_per_byte_needed" else one for one in made)
    return tuple(map(_bandwidth, made)) if bytes_count else made


def _repeated(repeat: RepeatRecord) -> Column:
    """How the figure that variants are ranked by came out in the second run."""
    kind = repeat.figures[0].kind if repeat.figures else M
    differences = repeat.differences
    about = "of the figure that ranks the variants: second run over first, less 1"
    return Column(
        "run_to_run", "run to run", kind, lambda r: differences.get(r.variant), format="+.2%", shown=True, about=about
    )


def _compared(name: str) -> tuple[Column, Column]:
    """What a further baseline did, beside each variant."""
    return (
        Column(
            f"ratio_to_{name}",
            f"ratio to {name}",
            M,
            _timed(lambda m: m.ratio_to(name)),
            format=".3f",
            shown=True,
            about=f"throughput over that of {name}, interleaved; above 1 is faster",
        ),
        Column(f"{name}_ms", f"{name} median", M, _timed(lambda m: _median_of(m, name)), "ms", ".4f"),
    )


def _median_of(measurement: Measurement, name: str) -> float | None:
    other = measurement.others.get(name)
    return None if other is None else other.median


def row(record: VariantRecord, columns: Iterable[Column]) -> dict[str, Value]:
    """A record's cells by column name; None is an empty cell."""
    return {column.name: column.get(record) for column in columns}


def cells(record: VariantRecord, columns: Iterable[Column]) -> dict[str, Value]:
    """A record's cells by column key; None is an empty cell."""
    return {column.key: column.get(record) for column in columns}
