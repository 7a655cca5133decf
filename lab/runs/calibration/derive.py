"""Constants of a GPU from the times of the microbenchmarks: pure functions of records.

Each rule names its microbenchmark (experiments/micro) and takes the rows that measure the constant alone. A chain of
dependent instructions is timed with its launch, so what a launch takes is subtracted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lab.base.expressions import Scalar
from lab.base.warp import SECTOR_BYTES, WARP_SIZE
from lab.hardware.calibration import CONSTANTS, Calibration, MeasuredConstant
from lab.hardware.gpus import Architecture, architecture_for
from lab.measured.timing import GpuDescription
from lab.recorded.run_records import VariantRecord

_MAD, _SPECIAL, _CONVERT, _DOUBLE, _SHARED = 1, 3, 5, 6, 7
_FMA = 0
"""Kinds of instructions in pipes.yaml."""


@dataclass(frozen=True, slots=True)
class Timing:
    """One measured variant of a microbenchmark.

    Attributes:
        values: Its parameters and its problem.
        us: Median time in microseconds.
        spread: Half of the range of the middle 60 % of its samples, over the median.
        n: Samples.
        clock_mhz: SM clock while it ran.
    """

    values: Mapping[str, Scalar]
    us: float
    spread: float
    n: int
    clock_mhz: float


@dataclass(frozen=True, slots=True)
class MicroTimings:
    """The measured microbenchmarks of one GPU.

    Attributes:
        gpu: The GPU.
        timings: By microbenchmark.
    """

    gpu: GpuDescription
    timings: Mapping[str, tuple[Timing, ...]]

    @property
    def sm(self) -> Architecture:
        """Its SM."""
        return architecture_for(self.gpu.arch)

    def rows(self, experiment: str, **wanted: Scalar) -> list[Timing]:
        """Return the rows with these values, all that there are.

        Raises:
            LookupError: There is none.
        """
        found = [
            one
            for one in self.timings.get(experiment, ())
            if all(one.values.get(name) == value for name, value in wanted.items())
        ]
        if not found:
            words = ", ".join(f"{name}={value}" for name, value in wanted.items())
            raise LookupError(f"{experiment} has no measured variant {words}".rstrip())
        return found

    def row(self, experiment: str, **wanted: Scalar) -> Timing:
        """Return the first row with these values; errors as `rows`."""
        return self.rows(experiment, **wanted)[0]

    def largest(self, experiment: str, width: int, most: float) -> Timing:
        """Return the row whose `words` of `width` bytes are the most that fit into so many bytes; errors as `rows`."""
        fitting = [one for one in self.rows(experiment) if width * float(one.values["words"]) <= most]
        if not fitting:
            raise LookupError(f"{experiment} has no measured variant of at most {most:.0f} bytes")
        return max(fitting, key=lambda one: float(one.values["words"]))


Value = tuple[float, Sequence[Timing]]
"""A constant and the rows that it comes from."""


def timings_of(records: Sequence[VariantRecord], gpu: GpuDescription) -> tuple[Timing, ...]:
    """Return the measured variants of a run."""
    found = []
    for one in records:
        if one.measurement is None or one.status.failed:
            continue
        samples, states = one.measurement.samples, (one.measurement.before, one.measurement.after)
        low, middle, high = samples.quantiles(0.2, 0.5, 0.8)
        clock = max((state.sm_clock_mhz or 0 for state in states), default=0) or gpu.sm_clock_mhz
        values = {**one.problem, **one.parameters}
        found.append(Timing(values, middle * 1e3, (high - low) / 2 / middle, samples.n, clock))
    return tuple(found)


def derive(bench: MicroTimings) -> tuple[dict[str, MeasuredConstant], dict[str, str]]:
    """Return every constant that the microbenchmarks give.

    Returns:
        Constants by name, and why each of the others is missing.
    """
    found, missing = dict[str, MeasuredConstant](), dict[str, str]()
    for name, (experiment, rule) in RULES.items():
        known = CONSTANTS[name]
        try:
            value, rows = rule(bench)
        except LookupError as error:
            missing[name] = str(error.args[0])
            continue
        if not known.least <= value <= known.most:
            missing[name] = f"{value:.4g} {known.unit} cannot be: {known.least:g} to {known.most:g} is possible"
            continue
        spread, n = max(row.spread for row in rows), sum(row.n for row in rows)
        found[name] = MeasuredConstant(
            value=_rounded(value), unit=known.unit, spread=_rounded(spread), n=n, experiment=experiment
        )
    return found, missing


def calibration_of(bench: MicroTimings, date: str, lab: str) -> tuple[Calibration, dict[str, str]]:
    """Return the calibration of a GPU, and why constants are missing from it, as `derive` does."""
    found, missing = derive(bench)
    gpu = bench.gpu
    made = Calibration(
        date=date, driver=gpu.driver, lab=lab, arch=gpu.arch, clock_mhz=gpu.sm_clock_mhz, sms=gpu.sms,
        l2_bytes=gpu.l2_bytes, constants=found,
    )  # fmt: skip
    return made, missing


def _rounded(value: float) -> float:
    """Six digits: the clock that measures has no more."""
    return float(f"{value:.6g}")


def _launch_us(bench: MicroTimings) -> Timing:
    return min(bench.rows("launch", blocks=1), key=lambda one: one.us)


def _launch(bench: MicroTimings) -> Value:
    row = _launch_us(bench)
    return row.us, [row]


def _lanes(kind: int, each: int = 1) -> Callable[[MicroTimings], Value]:
    """Lanes that an SM starts in a cycle; a step is `each` instructions."""

    def rule(bench: MicroTimings) -> Value:
        row = max(bench.rows("pipes", kind=kind), key=lambda one: float(one.values["blocks"]))
        steps, chains, threads, blocks = (float(row.values[name]) for name in ("steps", "chains", "threads", "blocks"))
        busy = _cycles(bench, row) * bench.gpu.sms
        return each * steps * chains * threads * blocks / busy, [row]

    return rule


def _dependent(kind: int) -> Callable[[MicroTimings], Value]:
    """Cycles from an instruction to the next one of its chain."""

    def rule(bench: MicroTimings) -> Value:
        row = bench.row("pipes", kind=kind, blocks=1)
        return (row.us - _launch_us(bench).us) * row.clock_mhz / float(row.values["steps"]), [row]

    return rule


def _cycles(bench: MicroTimings, row: Timing) -> float:
    """Cycles of a row without its launch, where that is known."""
    launch = _launch_us(bench).us if bench.timings.get("launch") else 0.0
    return (row.us - launch) * row.clock_mhz


def _wavefronts(bench: MicroTimings) -> Value:
    row = max(bench.rows("banks"), key=lambda one: float(one.values["stride"]))
    warps = float(row.values["blocks"]) * float(row.values["threads"]) / WARP_SIZE
    passes = float(row.values["steps"]) * warps * max(1.0, float(row.values["stride"]))
    return passes / (_cycles(bench, row) * bench.gpu.sms), [row]


def _lines(bench: MicroTimings) -> Value:
    """Rows of 64 words, a thread each, whose two lines L1 holds: every word is looked up in a line of its own."""
    rows = bench.rows("l1_reuse", words=64, shared=0)
    row = min(rows, key=lambda one: one.us)
    return float(row.values["n"]) * 64 * 2 / (_cycles(bench, row) * bench.gpu.sms), [row]


def _chase(words: int | None) -> Callable[[MicroTimings], Value]:
    """Cycles of a load that the next one waits for; in the largest buffer by default."""

    def rule(bench: MicroTimings) -> Value:
        rows = bench.rows("chase") if words is None else bench.rows("chase", words=words)
        row = max(rows, key=lambda one: float(one.values["words"]))
        if words is None and 4 * float(row.values["words"]) < 2 * bench.gpu.l2_bytes:
            raise LookupError("chase has no measured variant beyond L2")
        return (row.us - _launch_us(bench).us) * row.clock_mhz / float(row.values["steps"]), [row]

    return rule


_VECTOR = 16
_WORD = 4


def _l2_read(bench: MicroTimings) -> Value:
    """Half of L2, at which an H200's two halves exchange lines as they do in kernels."""
    row = bench.largest("working_set", _VECTOR, 0.55 * bench.gpu.l2_bytes)
    moved = _VECTOR * float(row.values["passes"]) * float(row.values["threads"]) * float(row.values["blocks"])
    return moved / (_cycles(bench, row) * bench.gpu.sms), [row]


def _sectors(row: Timing) -> float:
    return float(row.values["passes"]) * float(row.values["threads"]) * float(row.values["blocks"])


def _l2_scattered(bench: MicroTimings) -> Value:
    row = bench.largest("random_sectors", _WORD, 0.25 * bench.gpu.l2_bytes)
    return SECTOR_BYTES * _sectors(row) / (_cycles(bench, row) * bench.gpu.sms), [row]


def _dram_sectors(bench: MicroTimings) -> Value:
    row = max(bench.rows("random_sectors"), key=lambda one: float(one.values["words"]))
    if _WORD * float(row.values["words"]) < 4 * bench.gpu.l2_bytes:
        raise LookupError("random_sectors has no measured variant beyond L2")
    return _sectors(row) / (1e3 * (row.us - _launch_us(bench).us)), [row]


def _copy(bench: MicroTimings) -> Value:
    """The fastest copy, whatever its blocks are: it reads and writes 4 bytes for each element."""
    row = min(bench.rows("block_tail"), key=lambda one: one.us)
    return 2 * _WORD * float(row.values["n"]) / (1e3 * row.us), [row]


_LARGE_BLOCK = 1024


def _block_start(bench: MicroTimings) -> Value:
    rows = [one for one in bench.rows("block_rate") if float(one.values["threads"]) < _LARGE_BLOCK]
    if not rows:
        raise LookupError("block_rate has no measured variant of small blocks")
    row = min(rows, key=lambda one: one.us)
    return 1e3 * (row.us - _launch_us(bench).us) / float(row.values["blocks"]), [row]


def _block_turn(bench: MicroTimings) -> Value:
    row = min(bench.rows("block_rate", threads=_LARGE_BLOCK), key=lambda one: one.us)
    places = bench.gpu.sms * (bench.sm.warps_per_sm * WARP_SIZE // _LARGE_BLOCK)
    return _cycles(bench, row) * places / float(row.values["blocks"]), [row]


def _exchange(bench: MicroTimings) -> Value:
    """What more rounds add, so that loads, stores and starts of blocks are not in it."""
    rows = sorted(bench.rows("barriers", threads=_LARGE_BLOCK), key=lambda one: float(one.values["rounds"]))
    fewer, more = rows[-2:] if len(rows) > 1 else (None, None)
    if fewer is None or more is None:
        raise LookupError("barriers has fewer than two measured variants of 1024 threads")
    rounds = float(more.values["rounds"]) - float(fewer.values["rounds"])
    blocks = float(more.values["n"]) / _LARGE_BLOCK
    places = bench.gpu.sms * (bench.sm.warps_per_sm * WARP_SIZE // _LARGE_BLOCK)
    return (more.us - fewer.us) * more.clock_mhz / rounds * places / blocks, [fewer, more]


def _update(kind: str) -> Callable[[MicroTimings], Value]:
    def rule(bench: MicroTimings) -> Value:
        row = min(bench.rows("atomics_global", T=kind, known=0, together=0, counters=1), key=lambda one: one.us)
        return 1e3 * (row.us - _launch_us(bench).us) / float(row.values["updates"]), [row]

    return rule


_APART = 65536


def _slices(bench: MicroTimings) -> Value:
    """How many times as fast updates are that lie apart."""
    one, rows = _update("unsigned")(bench)
    apart = bench.rows("atomics_global", T="unsigned", known=0, together=0, counters=_APART)
    row = min(apart, key=lambda found: found.us)
    each = 1e3 * (row.us - _launch_us(bench).us) / float(row.values["updates"])
    return one / each, [*rows, row]


def _shared_updates(bench: MicroTimings) -> Value:
    rows = bench.rows("atomics_shared", T="unsigned", known=0, together=0, counters=1024, spread=1)
    row = rows[0]
    return float(row.values["updates"]) / (_cycles(bench, row) * bench.gpu.sms), [row]


RULES: Final[Mapping[str, tuple[str, Callable[[MicroTimings], Value]]]] = {
    "fma_lanes": ("pipes", _lanes(_FMA)),
    "integer_lanes": ("pipes", _lanes(_MAD)),
    "special_lanes": ("pipes", _lanes(_SPECIAL)),
    "convert_lanes": ("pipes", _lanes(_CONVERT, each=2)),
    "float64_lanes": ("pipes", _lanes(_DOUBLE)),
    "shared_load_lanes": ("pipes", _lanes(_SHARED)),
    "dependent_fma": ("pipes", _dependent(_FMA)),
    "dependent_special": ("pipes", _dependent(_SPECIAL)),
    "dependent_shared_load": ("pipes", _dependent(_SHARED)),
    "shared_wavefronts": ("banks", _wavefronts),
    "l1_lines": ("l1_reuse", _lines),
    "l1_latency": ("chase", _chase(16384)),
    "l2_latency": ("chase", _chase(131072)),
    "dram_latency": ("chase", _chase(None)),
    "l2_read_bytes": ("working_set", _l2_read),
    "l2_scattered_bytes": ("random_sectors", _l2_scattered),
    "dram_copy": ("block_tail", _copy),
    "dram_sectors": ("random_sectors", _dram_sectors),
    "launch": ("launch", _launch),
    "block_start": ("block_rate", _block_start),
    "block_turn": ("block_rate", _block_turn),
    "atomic_update": ("atomics_global", _update("unsigned")),
    "float_update": ("atomics_global", _update("float")),
    "l2_slices": ("atomics_global", _slices),
    "shared_updates": ("atomics_shared", _shared_updates),
    "barrier_exchange": ("barriers", _exchange),
}
"""Each constant's microbenchmark and rule, in the order of `CONSTANTS`."""
