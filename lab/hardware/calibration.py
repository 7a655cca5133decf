"""Calibrations: constants of the estimates that `lab calibrate` measured on one of the user's GPUs.

They are stored in one file in the user's configuration folder, by the driver's name of the GPU model. Estimates for
that model then use them instead of the built-in constants (`calibrated`).

A constant in `CONSTANTS` is of one of three kinds:

measured
    The microbenchmark measures the constant itself; its value replaces the built-in one.
scaled
    The constant was fitted, under load or to a mixture; the microbenchmark measures a related quantity. The built-in
    value is multiplied by the ratio of the measured value to that of the same microbenchmark on an H200
    (`GpuConstant.reference`), so an H200 keeps its constants.
shown
    No estimate uses it; it is for information only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import platformdirs
from pydantic import Field

from lab.base import yamlfile
from lab.base.errors import Location, UserError, did_you_mean
from lab.base.files import write_atomically
from lab.base.validation import Strict, validate
from lab.base.yamlfile import Document
from lab.hardware.gpus import Gpu, from_description, gpu_for, model_of
from lab.hardware.latencies import SmLatencies
from lab.measured.timing import GpuDescription

SCHEMA: Final = 1
VARIABLE: Final = "LAB_CALIBRATION"
"""Environment variable that names a file other than the user's."""


@dataclass(frozen=True, slots=True)
class GpuConstant:
    """A constant measured by a microbenchmark.

    Attributes:
        unit: Unit of the value.
        least: Smallest plausible value.
        most: Largest plausible value.
        about: Description for readers.
        sets: Field of `SmLatencies` that it determines; empty if no estimate uses it.
        factor: Conversion factor from the constant's unit to the field's.
        reference: The same microbenchmark's value on an H200 (reports/h200/micro), if the field is scaled by the
            ratio; None if the value replaces the field.
    """

    unit: str
    least: float
    most: float
    about: str
    sets: str = ""
    factor: float = 1.0
    reference: float | None = None

    def field(self, value: float, built_in: float) -> float:
        """Return the new value of a field, given its built-in value."""
        return built_in * value / self.reference if self.reference else value * self.factor


_LANES, _CYCLES = "lanes a cycle and SM", "cycles"
CONSTANTS: Final[Mapping[str, GpuConstant]] = MappingProxyType(
    {
        "fma_lanes": GpuConstant(_LANES, 1, 1024, "float32 FMAs; estimates use the documented lanes"),
        "integer_lanes": GpuConstant(_LANES, 1, 1024, "integer multiply-adds", "integer_lanes"),
        "special_lanes": GpuConstant(_LANES, 0.5, 1024, "special functions", "special_lanes"),
        "convert_lanes": GpuConstant(_LANES, 0.5, 1024, "conversions between float32 and int32", "convert_lanes"),
        "float64_lanes": GpuConstant(_LANES, 0.1, 1024, "float64 FMAs; estimates use the documented lanes"),
        "shared_load_lanes": GpuConstant(_LANES, 1, 1024, "loads from shared memory"),
        "dependent_fma": GpuConstant(
            _CYCLES, 1, 100, "FMA to dependent FMA, including the loop around it",
            "dependent_cycles", reference=5.00013),
        "dependent_special": GpuConstant(
            _CYCLES, 1, 1000, "special function to dependent special function", "variable_latency", reference=17.2315),
        "dependent_shared_load": GpuConstant(
            _CYCLES, 1, 1000, "shared-memory load to dependent load", "shared_latency", reference=29.9676),
        "shared_wavefronts": GpuConstant(
            "a cycle and SM", 0.05, 16, "shared-memory wavefronts", "shared_wavefronts"),
        "l1_lines": GpuConstant("a cycle and SM", 0.05, 16, "L1 tag lookups of 128-byte lines", "l1_lines"),
        "l1_latency": GpuConstant(_CYCLES, 5, 10_000, "dependent loads that hit L1", "l1_latency", reference=60.7218),
        "l2_latency": GpuConstant(_CYCLES, 10, 10_000, "dependent loads that hit L2", "l2_latency", reference=386.851),
        "dram_latency": GpuConstant(
            _CYCLES, 20, 100_000, "dependent loads from DRAM", "global_latency", reference=689.109),
        "l2_read_bytes": GpuConstant(
            "bytes a cycle and SM", 1, 1024, "L2 reads, all SMs reading half of its size", "l2_read_bytes"),
        "l2_scattered_bytes": GpuConstant(
            "bytes a cycle and SM", 0.5, 1024, "L2 reads of random single sectors", "l2_scattered_bytes"),
        "dram_copy": GpuConstant("GB/s", 1, 100_000, "copy bandwidth, reads plus writes"),
        "dram_sectors": GpuConstant("sectors/ns", 0.01, 10_000, "random 32-byte sectors from DRAM"),
        "launch": GpuConstant("µs", 0.1, 1000, "launch of a single block in a graph", "launch_s", reference=1.59037),
        "block_start": GpuConstant("ns", 0.01, 1000, "interval between block starts", "block_start_s", 1e-9),
        "block_turn": GpuConstant(
            _CYCLES, 10, 100_000, "end of a 1024-thread block to the start of its successor", "block_latency",
            reference=391.342),
        "atomic_update": GpuConstant("ns", 0.01, 1000, "integer atomics on one word", "atomic_update_s", 1e-9),
        "float_update": GpuConstant("ns", 0.01, 1000, "floating-point atomics on one word", "float_update_s", 1e-9),
        "l2_slices": GpuConstant("slices", 1, 4096, "L2 slices that process atomics concurrently", "l2_slices"),
        "shared_updates": GpuConstant(_LANES, 0.01, 1024, "integer atomics on shared memory"),
        "barrier_exchange": GpuConstant(
            _CYCLES, 2, 100_000, "exchange between 1024 threads, with two barriers", "block_barrier",
            reference=258.35),
    }
)  # fmt: skip
"""Constants by their names in the file."""


class MeasuredConstant(Strict):
    """A value of the file.

    Attributes:
        value: In the constant's unit.
        unit: That unit.
        spread: Half of the range of the middle 60 % of the samples, over the median.
        n: Samples.
        experiment: The microbenchmark that gave it.
    """

    value: float
    unit: str
    spread: float = Field(ge=0)
    n: int = Field(ge=1)
    experiment: str


class Calibration(Strict):
    """The measured constants of one GPU model.

    Attributes:
        date: Date, ISO 8601.
        driver: Driver's version.
        lab: Version of lab.
        arch: Such as `sm_80`.
        clock_mhz: SM clock to which cycles refer.
        sms: Streaming multiprocessors.
        l2_bytes: Bytes of L2 cache.
        constants: By their names in `CONSTANTS`.
    """

    date: str
    driver: str
    lab: str
    arch: str
    clock_mhz: int = Field(ge=1)
    sms: int = Field(ge=1)
    l2_bytes: int = Field(ge=0)
    constants: dict[str, MeasuredConstant]


class CalibrationFile(Strict):
    """The calibration file."""

    schema_: int = Field(alias="schema")
    gpus: dict[str, Calibration]


def default_file() -> Path:
    """Return the file named by `$LAB_CALIBRATION`, or the user's default one."""
    override = os.environ.get(VARIABLE)
    return (
        Path(override) if override else Path(platformdirs.user_config_dir("lab", appauthor=False)) / "calibration.yaml"
    )


def read(file: Path) -> Mapping[str, Calibration]:
    """Return the calibrations of a file by GPU model; none if the file does not exist.

    Raises:
        UserError: The file is damaged, of another schema, or holds an impossible value.
    """
    if not file.exists():
        return {}
    document = yamlfile.parse(yamlfile.read_text(file, label="the calibration"), file)
    _check_schema(document)
    calibrations = validate(CalibrationFile, document).gpus
    for model, calibration in calibrations.items():
        for name, constant in calibration.constants.items():
            _check(document, model, name, constant)
    return calibrations


def _check_schema(document: Document) -> None:
    data = document.data
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema != SCHEMA:
        raise UserError(
            "this version of lab cannot read this calibration", code="version",
            at=document.at("schema"), key="schema",
            found="nothing" if schema is None else schema, accepted=str(SCHEMA),
            suggestion="calibrate again: lab calibrate",
        )  # fmt: skip


def _check(document: Document, model: str, name: str, constant: MeasuredConstant) -> None:
    definition = CONSTANTS.get(name)
    path = ("gpus", model, "constants", name)
    if definition is None:
        raise UserError(
            "unknown constant", code="unknown-name",
            at=document.at(*path), key=yamlfile.dotted(path), accepted=tuple(CONSTANTS),
            suggestion=did_you_mean(name, CONSTANTS),
        )  # fmt: skip
    for key, actual, accepted, fits in (
        ("value", constant.value, f"a number from {definition.least:g} to {definition.most:g}",
         definition.least <= constant.value <= definition.most),
        ("unit", constant.unit, definition.unit, constant.unit == definition.unit),
        ("spread", constant.spread, "a finite number", constant.spread < float("inf")),
    ):  # fmt: skip
        if not fits:
            at, dotted_key = document.at(*path, key), yamlfile.dotted((*path, key))
            raise UserError(
                "impossible in a calibration",
                code="wrong-value",
                at=at,
                key=dotted_key,
                found=actual,
                accepted=accepted,
            )


def text_of(calibrations: Mapping[str, Calibration]) -> str:
    """Return the file's text, one constant per line."""
    lines = [
        "# Constants of lab's estimates, measured by `lab calibrate`; `lab calibrate --show` explains them.",
        f"schema: {SCHEMA}",
        "gpus:" if calibrations else "gpus: {}",
    ]
    for model, calibration in sorted(calibrations.items()):
        lines.append(f"  {_quoted(model)}:")
        lines += [f"    {key}: {_quoted(getattr(calibration, key))}" for key in ("date", "driver", "lab", "arch")]
        lines += [f"    {key}: {getattr(calibration, key)}" for key in ("clock_mhz", "sms", "l2_bytes")]
        lines.append("    constants:" if calibration.constants else "    constants: {}")
        lines += [f"      {name}: {_flow(constant)}" for name, constant in calibration.constants.items()]
    return "\n".join(lines) + "\n"


def _flow(constant: MeasuredConstant) -> str:
    unit, experiment = _quoted(constant.unit), _quoted(constant.experiment)
    spread = f"{constant.spread!r}, n: {constant.n}"
    return f"{{value: {constant.value!r}, unit: {unit}, spread: {spread}, experiment: {experiment}}}"


def _quoted(text: str) -> str:
    """Return a text as a double-quoted YAML string."""
    return f'"{"".join(map(_escaped, text))}"'


_BASIC: Final = 0xFFFF
"""Largest code point that four-digit escapes of JSON and YAML can express."""


def _escaped(character: str) -> str:
    code = ord(character)
    if character in {'"', "\\"}:
        return "\\" + character
    return character if character.isprintable() and code <= _BASIC else f"\\U{code:08x}"


def write(file: Path, model: str, calibration: Calibration) -> None:
    """Store a model's calibration in the file, replacing an earlier one; keep those of other models.

    Raises:
        UserError: The existing file cannot be read, or the new one cannot be written.
    """
    text = text_of({**read(file), model: calibration})
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, text)
    except OSError as error:
        raise UserError(
            f"the calibration cannot be written: {error.strerror}", code="unwritable", at=Location(file)
        ) from error


def in_use() -> Mapping[str, Calibration]:
    """Return the calibrations of the user's file; it is reread when it changes.

    Raises:
        UserError: As `read` does.
    """
    file = default_file()
    try:
        state = file.stat()
    except OSError:
        return {}
    return _read_once(file, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=4)  # called for every variant
def _read_once(file: Path, _changed: int, _size: int) -> Mapping[str, Calibration]:
    return read(file)


def calibrated(gpu: Gpu, calibrations: Mapping[str, Calibration] | None = None) -> Gpu:
    """Return a GPU with the calibrated constants of its model, or unchanged if there are none.

    Args:
        gpu: The GPU.
        calibrations: By model; those of the user's file by default.

    Raises:
        UserError: As `read` does.
    """
    available = in_use() if calibrations is None else calibrations
    if not available:
        return gpu
    model = model_of(gpu.name)
    calibration = next((candidate for name, candidate in available.items() if model_of(name) == model), None)
    return gpu if calibration is None else _applied(gpu, calibration)


def known_gpu(name: str) -> Gpu | None:
    """Return a GPU by name, calibrated if its model is; None if it is neither in the table nor calibrated.

    Raises:
        UserError: The calibration is damaged.
    """
    try:
        gpu = gpu_for(name)
    except UserError:
        calibration = in_use().get(name)
        return None if calibration is None else _applied(described(name, calibration), calibration)
    return calibrated(gpu)


def described(name: str, calibration: Calibration) -> Gpu:
    """Return a GPU that is not in the table, from its calibration, with the built-in constants.

    Raises:
        UserError: Its architecture is not in the table.
    """
    description = GpuDescription(
        name, calibration.arch, calibration.sms, calibration.clock_mhz, 0, calibration.l2_bytes, calibration.driver, ""
    )
    return from_description(description)


def _applied(gpu: Gpu, calibration: Calibration) -> Gpu:
    built_in, changed = gpu.latencies, dict[str, Any]()
    for name, measured in calibration.constants.items():
        definition = CONSTANTS[name]
        if definition.sets:
            changed[definition.sets] = definition.field(measured.value, getattr(built_in, definition.sets))
    if "l2_slices" in changed:
        changed["l2_slices"] = max(1, round(changed["l2_slices"]))
    if "shared_latency" in changed:  # a shuffle is assumed to have the latency of shared memory
        changed["shuffle_cycles"] = built_in.shuffle_cycles * changed["shared_latency"] / built_in.shared_latency
    if "variable_latency" in changed:  # the same microbenchmark, for a single warp
        changed["special_cycles"] = built_in.special_cycles * changed["variable_latency"] / built_in.variable_latency
    bandwidth, copied = gpu.dram_gb_s, calibration.constants.get("dram_copy")
    if copied is not None:  # without a datasheet in the table, use the bandwidth of the copy
        bandwidth = bandwidth or copied.value
        changed["dram_share"] = min(1.0, copied.value / bandwidth)
    latencies: SmLatencies = replace(built_in, **changed, source=f"calibration of {calibration.date}")
    return replace(gpu, latencies=latencies, dram_gb_s=bandwidth, calibrated=calibration.date[:10])
