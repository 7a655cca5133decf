"""Derive a GPU's constants from microbenchmark times: pure functions of records.

Each rule names its microbenchmark (experiments/micro) and uses the rows that isolate the constant. A dependency
chain is timed including its launch, so the launch time is subtracted.
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
"""Instruction kinds in pipes.yaml."""


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
    """Microbenchmark timings of one GPU.

    Attributes:
        gpu: The GPU.
        timings: Timings by microbenchmark.
    """

    gpu: GpuDescription
    timings: Mapping[str, tuple[Timing, ...]]

    @property
    def sm(self) -> Architecture:
        """The SM architecture."""
        return architecture_for(self.gpu.arch)

    def rows(self, experiment: str, **criteria: Scalar) -> list[Timing]:
        """Return the rows with these values.

        Raises:
            LookupError: No row has them.
        """
        matching = [
            timing
            for timing in self.timings.get(experiment, ())
            if all(timing.values.get(name) == value for name, value in criteria.items())
        ]
        if not matching:
            words = ", ".join(f"{name}={value}" for name, value in criteria.items())
            raise LookupError(f"{experiment} has no measured variant {words}".rstrip())
        return matching

    def row(self, experiment: str, **criteria: Scalar) -> Timing:
        """Return the first row with these values; raises like `rows`."""
        return self.rows(experiment, **criteria)[0]

    def largest(self, experiment: str, width: int, limit_bytes: float) -> Timing:
        """Return the row whose `words` of `width` bytes are the most that fit the limit; raises like `rows`."""
        fitting = [timing for timing in self.rows(experiment) if width * float(timing.values["words"]) <= limit_bytes]
        if not fitting:
            raise LookupError(f"{experiment} has no measured variant of at most {limit_bytes:.0f} bytes")
        return max(fitting, key=lambda timing: float(timing.values["words"]))


Value = tuple[float, Sequence[Timing]]
"""A constant with the rows it is derived from."""


def timings_of(records: Sequence[VariantRecord], gpu: GpuDescription) -> tuple[Timing, ...]:
    """Return the measured variants of a run."""
    timings = []
    for record in records:
        if record.measurement is None or record.status.failed:
            continue
        samples, states = record.measurement.samples, (record.measurement.before, record.measurement.after)
        low, middle, high = samples.quantiles(0.2, 0.5, 0.8)
        clock = max((state.sm_clock_mhz or 0 for state in states), default=0) or gpu.sm_clock_mhz
        values = {**record.problem, **record.parameters}
        timings.append(Timing(values, middle * 1e3, (high - low) / 2 / middle, samples.n, clock))
    return tuple(timings)


def derive(bench: MicroTimings) -> tuple[dict[str, MeasuredConstant], dict[str, str]]:
    """Derive every constant the microbenchmarks give.

    Returns:
        Constants by name, and the reason each of the others is missing.
    """
    constants, missing = dict[str, MeasuredConstant](), dict[str, str]()
    for name, (experiment, rule) in RULES.items():
        constant = CONSTANTS[name]
        try:
            value, rows = rule(bench)
        except LookupError as error:
            missing[name] = str(error.args[0])
            continue
        if not constant.least <= value <= constant.most:
            missing[name] = (
                f"{value:.4g} {constant.unit} cannot be: {constant.least:g} to {constant.most:g} is possible"
            )
            continue
        spread, n = max(row.spread for row in rows), sum(row.n for row in rows)
        constants[name] = MeasuredConstant(
            value=_rounded(value), unit=constant.unit, spread=_rounded(spread), n=n, experiment=experiment
        )
    return constants, missing


def calibration_of(bench: MicroTimings, date: str, lab: str) -> tuple[Calibration, dict[str, str]]:
    """Return the calibration of a GPU, with the reason for each missing constant, as `derive` does."""
    constants, missing = derive(bench)
    gpu = bench.gpu
    calibration = Calibration(
        date=date, driver=gpu.driver, lab=lab, arch=gpu.arch, clock_mhz=gpu.sm_clock_mhz, sms=gpu.sms,
        l2_bytes=gpu.l2_bytes, constants=constants,
    )  # fmt: skip
    return calibration, missing


def _rounded(value: float) -> float:
    """Round to six digits, the resolution of the clock."""
    return float(f"{value:.6g}")


def _launch_us(bench: MicroTimings) -> Timing:
    return min(bench.rows("launch", blocks=1), key=lambda timing: timing.us)


def _launch(bench: MicroTimings) -> Value:
    row = _launch_us(bench)
    return row.us, [row]


def _lanes(kind: int, per_step: int = 1) -> Callable[[MicroTimings], Value]:
    """Return a rule for the lanes an SM issues per cycle; a step is `per_step` instructions."""

    def rule(bench: MicroTimings) -> Value:
        row = max(bench.rows("pipes", kind=kind), key=lambda timing: float(timing.values["blocks"]))
        steps, chains, threads, blocks = (float(row.values[name]) for name in ("steps", "chains", "threads", "blocks"))
        busy = _cycles(bench, row) * bench.gpu.sms
        return per_step * steps * chains * threads * blocks / busy, [row]

    return rule


def _dependent(kind: int) -> Callable[[MicroTimings], Value]:
    """Return a rule for the latency of a dependent instruction in cycles."""

    def rule(bench: MicroTimings) -> Value:
        row = bench.row("pipes", kind=kind, blocks=1)
        return (row.us - _launch_us(bench).us) * row.clock_mhz / float(row.values["steps"]), [row]

    return rule


def _cycles(bench: MicroTimings, row: Timing) -> float:
    """Return a row's cycles, less the launch where its time is known."""
    launch = _launch_us(bench).us if bench.timings.get("launch") else 0.0
    return (row.us - launch) * row.clock_mhz


def _wavefronts(bench: MicroTimings) -> Value:
    row = max(bench.rows("banks"), key=lambda timing: float(timing.values["stride"]))
    warps = float(row.values["blocks"]) * float(row.values["threads"]) / WARP_SIZE
    passes = float(row.values["steps"]) * warps * max(1.0, float(row.values["stride"]))
    return passes / (_cycles(bench, row) * bench.gpu.sms), [row]


def _lines(bench: MicroTimings) -> Value:
    """Return L1 line look-ups per cycle: one thread per 64-word row, each word looked up in a line of its own."""
    rows = bench.rows("l1_reuse", words=64, shared=0)
    row = min(rows, key=lambda timing: timing.us)
    return float(row.values["n"]) * 64 * 2 / (_cycles(bench, row) * bench.gpu.sms), [row]


def _chase(words: int | None) -> Callable[[MicroTimings], Value]:
    """Return a rule for the latency of dependent loads in cycles, by default in the largest buffer."""

    def rule(bench: MicroTimings) -> Value:
        rows = bench.rows("chase") if words is None else bench.rows("chase", words=words)
        row = max(rows, key=lambda timing: float(timing.values["words"]))
        if words is None and 4 * float(row.values["words"]) < 2 * bench.gpu.l2_bytes:
            raise LookupError("chase has no measured variant beyond L2")
        return (row.us - _launch_us(bench).us) * row.clock_mhz / float(row.values["steps"]), [row]

    return rule


_VECTOR = 16
_WORD = 4


def _l2_read(bench: MicroTimings) -> Value:
    """Return L2 read bandwidth at half of L2, where an H200's two halves exchange lines as in kernels."""
    row = bench.largest("working_set", _VECTOR, 0.55 * bench.gpu.l2_bytes)
    bytes_read = _VECTOR * float(row.values["passes"]) * float(row.values["threads"]) * float(row.values["blocks"])
    return bytes_read / (_cycles(bench, row) * bench.gpu.sms), [row]


def _sectors(row: Timing) -> float:
    return float(row.values["passes"]) * float(row.values["threads"]) * float(row.values["blocks"])


def _l2_scattered(bench: MicroTimings) -> Value:
    row = bench.largest("random_sectors", _WORD, 0.25 * bench.gpu.l2_bytes)
    return SECTOR_BYTES * _sectors(row) / (_cycles(bench, row) * bench.gpu.sms), [row]


def _dram_sectors(bench: MicroTimings) -> Value:
    row = max(bench.rows("random_sectors"), key=lambda timing: float(timing.values["words"]))
    if _WORD * float(row.values["words"]) < 4 * bench.gpu.l2_bytes:
        raise LookupError("random_sectors has no measured variant beyond L2")
    return _sectors(row) / (1e3 * (row.us - _launch_us(bench).us)), [row]


def _copy(bench: MicroTimings) -> Value:
    """Return the bandwidth of the fastest copy of any block size; it reads and writes 4 bytes per element."""
    row = min(bench.rows("block_tail"), key=lambda timing: timing.us)
    return 2 * _WORD * float(row.values["n"]) / (1e3 * row.us), [row]


_LARGE_BLOCK = 1024


def _block_start(bench: MicroTimings) -> Value:
    rows = [timing for timing in bench.rows("block_rate") if float(timing.values["threads"]) < _LARGE_BLOCK]
    if not rows:
        raise LookupError("block_rate has no measured variant of small blocks")
    row = min(rows, key=lambda timing: timing.us)
    return 1e3 * (row.us - _launch_us(bench).us) / float(row.values["blocks"]), [row]


def _block_turn(bench: MicroTimings) -> Value:
    row = min(bench.rows("block_rate", threads=_LARGE_BLOCK), key=lambda timing: timing.us)
    places = bench.gpu.sms * (bench.sm.warps_per_sm * WARP_SIZE // _LARGE_BLOCK)
    return _cycles(bench, row) * places / float(row.values["blocks"]), [row]


def _exchange(bench: MicroTimings) -> Value:
    """Return the cost of additional rounds, which excludes loads, stores and block starts."""
    rows = sorted(bench.rows("barriers", threads=_LARGE_BLOCK), key=lambda timing: float(timing.values["rounds"]))
    fewer, longer = rows[-2:] if len(rows) > 1 else (None, None)
    if fewer is None or longer is None:
        raise LookupError("barriers has fewer than two measured variants of 1024 threads")
    rounds = float(longer.values["rounds"]) - float(fewer.values["rounds"])
    blocks = float(longer.values["n"]) / _LARGE_BLOCK
    places = bench.gpu.sms * (bench.sm.warps_per_sm * WARP_SIZE // _LARGE_BLOCK)
    return (longer.us - fewer.us) * longer.clock_mhz / rounds * places / blocks, [fewer, longer]


def _update(kind: str) -> Callable[[MicroTimings], Value]:
    def rule(bench: MicroTimings) -> Value:
        row = min(bench.rows("atomics_global", T=kind, known=0, together=0, counters=1), key=lambda timing: timing.us)
        return 1e3 * (row.us - _launch_us(bench).us) / float(row.values["updates"]), [row]

    return rule


_APART = 65536


def _slices(bench: MicroTimings) -> Value:
    """Return the speed-up of scattered atomic updates over contended ones."""
    contended_ns, rows = _update("unsigned")(bench)
    apart = bench.rows("atomics_global", T="unsigned", known=0, together=0, counters=_APART)
    row = min(apart, key=lambda timing: timing.us)
    scattered_ns = 1e3 * (row.us - _launch_us(bench).us) / float(row.values["updates"])
    return contended_ns / scattered_ns, [*rows, row]


def _shared_updates(bench: MicroTimings) -> Value:
    rows = bench.rows("atomics_shared", T="unsigned", known=0, together=0, counters=1024, spread=1)
    row = rows[0]
    return float(row.values["updates"]) / (_cycles(bench, row) * bench.gpu.sms), [row]


RULES: Final[Mapping[str, tuple[str, Callable[[MicroTimings], Value]]]] = {
    "fma_lanes": ("pipes", _lanes(_FMA)),
    "integer_lanes": ("pipes", _lanes(_MAD)),
    "special_lanes": ("pipes", _lanes(_SPECIAL)),
    "convert_lanes": ("pipes", _lanes(_CONVERT, per_step=2)),
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
