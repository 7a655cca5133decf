"""Calibrations: constants of the estimates that `lab calibrate` measured on a GPU of this user's.

They stand in one file in the user's configuration folder, by the driver's name of the GPU's model. From then on every
estimate for that model takes them in place of what is built in (`calibrated`).

A constant is one of three kinds, as `CONSTANTS` says:

measured
    The microbenchmark measures what the constant means; its value replaces the built-in one.
scaled
    The constant holds under load, or for a mixture, and was fitted; the microbenchmark measures something that grows
    with it. The built-in value is multiplied by what is measured here over what the same microbenchmark gave on the
    H200 (`GpuConstant.reference`), so that an H200 keeps its constants.
shown
    No estimate uses it; it says what the GPU does.
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
"""Variable of the environment that names another file than the user's."""


@dataclass(frozen=True, slots=True)
class GpuConstant:
    """A constant that a microbenchmark gives.

    Attributes:
        unit: Unit of the value.
        least: Smallest value that any GPU can have.
        most: Largest one.
        about: What it is, for readers.
        sets: Field of `SmLatencies` that it decides; empty where no estimate uses it.
        factor: Units of the field for one of the constant.
        reference: The same microbenchmark's value on an H200 (reports/h200/micro), where the field is scaled by their
            ratio; None where the value replaces the field.
    """

    unit: str
    least: float
    most: float
    about: str
    sets: str = ""
    factor: float = 1.0
    reference: float | None = None

    def field(self, value: float, built_in: float) -> float:
        """Return what the field becomes whose built-in value is given."""
        return built_in * value / self.reference if self.reference else value * self.factor


_LANES, _CYCLES = "lanes a cycle and SM", "cycles"
CONSTANTS: Final[Mapping[str, GpuConstant]] = MappingProxyType(
    {
        "fma_lanes": GpuConstant(_LANES, 1, 1024, "float32 multiply-adds; estimates take the documented lanes"),
        "integer_lanes": GpuConstant(_LANES, 1, 1024, "integer multiply-adds", "integer_lanes"),
        "special_lanes": GpuConstant(_LANES, 0.5, 1024, "special functions", "special_lanes"),
        "convert_lanes": GpuConstant(_LANES, 0.5, 1024, "conversions between float32 and int32", "convert_lanes"),
        "float64_lanes": GpuConstant(_LANES, 0.1, 1024, "float64 multiply-adds; estimates take the documented lanes"),
        "shared_load_lanes": GpuConstant(_LANES, 1, 1024, "loads from shared memory"),
        "dependent_fma": GpuConstant(
            _CYCLES, 1, 100, "from a multiply-add to the next that needs it, the loop around it included",
            "dependent_cycles", reference=5.00013),
        "dependent_special": GpuConstant(
            _CYCLES, 1, 1000, "the same of special functions", "variable_latency", reference=17.2315),
        "dependent_shared_load": GpuConstant(
            _CYCLES, 1, 1000, "the same of loads from shared memory", "shared_latency", reference=29.9676),
        "shared_wavefronts": GpuConstant(
            "a cycle and SM", 0.05, 16, "passes through shared memory", "shared_wavefronts"),
        "l1_lines": GpuConstant("a cycle and SM", 0.05, 16, "lines of 128 bytes that loads look up in L1", "l1_lines"),
        "l1_latency": GpuConstant(_CYCLES, 5, 10_000, "load after load in L1", "l1_latency", reference=60.7218),
        "l2_latency": GpuConstant(_CYCLES, 10, 10_000, "load after load in L2", "l2_latency", reference=386.851),
        "dram_latency": GpuConstant(
            _CYCLES, 20, 100_000, "load after load in DRAM", "global_latency", reference=689.109),
        "l2_read_bytes": GpuConstant(
            "bytes a cycle and SM", 1, 1024, "what L2 sends while all SMs read half of it", "l2_read_bytes"),
        "l2_scattered_bytes": GpuConstant(
            "bytes a cycle and SM", 0.5, 1024, "the same of single sectors at random places", "l2_scattered_bytes"),
        "dram_copy": GpuConstant("GB/s", 1, 100_000, "bytes that a copy reads and writes"),
        "dram_sectors": GpuConstant("sectors/ns", 0.01, 10_000, "random sectors of 32 bytes from DRAM"),
        "launch": GpuConstant("µs", 0.1, 1000, "a launch of one block in a graph", "launch_s", reference=1.59037),
        "block_start": GpuConstant("ns", 0.01, 1000, "from the start of a block to the next", "block_start_s", 1e-9),
        "block_turn": GpuConstant(
            _CYCLES, 10, 100_000, "from a block of 1024 threads to the next in its place", "block_latency",
            reference=391.342),
        "atomic_update": GpuConstant("ns", 0.01, 1000, "integer updates of one word", "atomic_update_s", 1e-9),
        "float_update": GpuConstant("ns", 0.01, 1000, "floating-point updates of one word", "float_update_s", 1e-9),
        "l2_slices": GpuConstant("slices", 1, 4096, "slices of L2 that update at a time", "l2_slices"),
        "shared_updates": GpuConstant(_LANES, 0.01, 1024, "integer updates of shared memory"),
        "barrier_exchange": GpuConstant(
            _CYCLES, 2, 100_000, "an exchange of 1024 threads between two barriers", "block_barrier",
            reference=258.35),
    }
)  # fmt: skip
"""Every constant by its name in the file."""


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
    """What was measured on one model of GPU.

    Attributes:
        date: When, ISO 8601.
        driver: Driver's version.
        lab: Version of lab.
        arch: Such as `sm_80`.
        clock_mhz: SM clock that cycles are counted at.
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
    """The file."""

    schema_: int = Field(alias="schema")
    gpus: dict[str, Calibration]


def default_file() -> Path:
    """Return the file that `$LAB_CALIBRATION` names, or the user's on this system."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else Path(platformdirs.user_config_dir("lab", appauthor=False)) / "calibration.yaml"


def read(file: Path) -> Mapping[str, Calibration]:
    """Return the calibrations of a file by GPU model; none where there is no file.

    Raises:
        UserError: The file is damaged, of another schema, or holds an impossible value.
    """
    if not file.exists():
        return {}
    document = yamlfile.parse(yamlfile.read_text(file, what="the calibration"), file)
    _check_schema(document)
    found = validate(CalibrationFile, document).gpus
    for model, one in found.items():
        for name, constant in one.constants.items():
            _check(document, model, name, constant)
    return found


def _check_schema(document: Document) -> None:
    data = document.data
    found = data.get("schema") if isinstance(data, dict) else None
    if found != SCHEMA:
        raise UserError(
            "this is no calibration that this version of lab reads", code="version",
            at=document.at("schema"), key="schema",
            found="nothing" if found is None else found, accepted=str(SCHEMA),
            suggestion="calibrate again: lab calibrate",
        )  # fmt: skip


def _check(document: Document, model: str, name: str, constant: MeasuredConstant) -> None:
    known = CONSTANTS.get(name)
    path = ("gpus", model, "constants", name)
    if known is None:
        raise UserError(
            "unknown constant", code="unknown-name",
            at=document.at(*path), key=yamlfile.dotted(path), accepted=tuple(CONSTANTS),
            suggestion=did_you_mean(name, CONSTANTS),
        )  # fmt: skip
    for key, found, accepted, fits in (
        ("value", constant.value, f"a number from {known.least:g} to {known.most:g}",
         known.least <= constant.value <= known.most),
        ("unit", constant.unit, known.unit, constant.unit == known.unit),
        ("spread", constant.spread, "a finite number", constant.spread < float("inf")),
    ):  # fmt: skip
        if not fits:
            at, named = document.at(*path, key), yamlfile.dotted((*path, key))
            raise UserError(
                "impossible in a calibration", code="wrong-value", at=at, key=named, found=found, accepted=accepted
            )


def text_of(calibrations: Mapping[str, Calibration]) -> str:
    """Return the file's text, a constant a line."""
    lines = [
        "# Constants of lab's estimates, measured by `lab calibrate`; `lab calibrate --show` explains them.",
        f"schema: {SCHEMA}",
        "gpus:" if calibrations else "gpus: {}",
    ]
    for model, one in sorted(calibrations.items()):
        lines.append(f"  {_quoted(model)}:")
        lines += [f"    {key}: {_quoted(getattr(one, key))}" for key in ("date", "driver", "lab", "arch")]
        lines += [f"    {key}: {getattr(one, key)}" for key in ("clock_mhz", "sms", "l2_bytes")]
        lines.append("    constants:" if one.constants else "    constants: {}")
        lines += [f"      {name}: {_flow(constant)}" for name, constant in one.constants.items()]
    return "\n".join(lines) + "\n"


def _flow(constant: MeasuredConstant) -> str:
    unit, experiment = _quoted(constant.unit), _quoted(constant.experiment)
    spread = f"{constant.spread!r}, n: {constant.n}"
    return f"{{value: {constant.value!r}, unit: {unit}, spread: {spread}, experiment: {experiment}}}"


def _quoted(text: str) -> str:
    """Return a text in YAML's double quotes."""
    return f'"{"".join(map(_escaped, text))}"'


_BASIC: Final = 0xFFFF
"""Last code point that JSON's and YAML's escapes with four digits reach."""


def _escaped(character: str) -> str:
    code = ord(character)
    if character in {'"', "\\"}:
        return "\\" + character
    return character if character.isprintable() and code <= _BASIC else f"\\U{code:08x}"


def write(file: Path, model: str, found: Calibration) -> None:
    """Put a model's calibration into the file, in place of an earlier one; other models keep theirs.

    Raises:
        UserError: The file that is there cannot be read, or cannot be written.
    """
    text = text_of({**read(file), model: found})
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, text)
    except OSError as error:
        raise UserError(
            f"the calibration cannot be written: {error.strerror}", code="unwritable", at=Location(file)
        ) from error


def in_use() -> Mapping[str, Calibration]:
    """Return the calibrations of the user's file; it is read again when it changes.

    Raises:
        UserError: As `read` does.
    """
    file = default_file()
    try:
        state = file.stat()
    except OSError:
        return {}
    return _read_once(file, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=4)  # asked for every variant
def _read_once(file: Path, _changed: int, _size: int) -> Mapping[str, Calibration]:
    return read(file)


def calibrated(gpu: Gpu, calibrations: Mapping[str, Calibration] | None = None) -> Gpu:
    """Return a GPU with the constants that were measured on its model, or as it is where none were.

    Args:
        gpu: The GPU.
        calibrations: By model; those of the user's file by default.

    Raises:
        UserError: As `read` does.
    """
    known = in_use() if calibrations is None else calibrations
    if not known:
        return gpu
    model = model_of(gpu.name)
    found = next((one for name, one in known.items() if model_of(name) == model), None)
    return gpu if found is None else _applied(gpu, found)


def known_gpu(name: str) -> Gpu | None:
    """Return the GPU of a name with the user's calibration of its model; None where it is in no table and has none.

    Raises:
        UserError: The calibration is damaged.
    """
    try:
        gpu = gpu_for(name)
    except UserError:
        found = in_use().get(name)
        return None if found is None else _applied(described(name, found), found)
    return calibrated(gpu)


def described(name: str, found: Calibration) -> Gpu:
    """Return a GPU that is in no table, by what its calibration says of it, with the built-in constants.

    Raises:
        UserError: Its architecture is in no table.
    """
    given = GpuDescription(name, found.arch, found.sms, found.clock_mhz, 0, found.l2_bytes, found.driver, "")
    return from_description(given)


def _applied(gpu: Gpu, found: Calibration) -> Gpu:
    built_in, changed = gpu.latencies, dict[str, Any]()
    for name, one in found.constants.items():
        known = CONSTANTS[name]
        if known.sets:
            changed[known.sets] = known.field(one.value, getattr(built_in, known.sets))
    if "l2_slices" in changed:
        changed["l2_slices"] = max(1, round(changed["l2_slices"]))
    if "shared_latency" in changed:  # a shuffle's latency is taken as that of shared memory
        changed["shuffle_cycles"] = built_in.shuffle_cycles * changed["shared_latency"] / built_in.shared_latency
    if "variable_latency" in changed:  # the same microbenchmark, for a warp alone
        changed["special_cycles"] = built_in.special_cycles * changed["variable_latency"] / built_in.variable_latency
    bandwidth, copied = gpu.dram_gb_s, found.constants.get("dram_copy")
    if copied is not None:  # of a GPU without a datasheet in the table, the copy's is the bandwidth
        bandwidth = bandwidth or copied.value
        changed["dram_share"] = min(1.0, copied.value / bandwidth)
    latencies: SmLatencies = replace(built_in, **changed, source=f"calibration of {found.date}")
    return replace(gpu, latencies=latencies, dram_gb_s=bandwidth, calibrated=found.date[:10])
