"""`lab calibrate`: measure or derive the constants of a GPU, store them, and show those in use."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from lab.base.errors import UserError
from lab.base.version import VERSION
from lab.cli.terminal import Text
from lab.hardware.calibration import CONSTANTS, Calibration, calibrated, default_file, described, read, write
from lab.hardware.gpus import Gpu, from_description, gpu_for, model_of
from lab.measured.timing import GpuDescription
from lab.runs.calibration.derive import calibration_of
from lab.runs.calibration.microbenchmarks import MOST_SECONDS, measure, measured_before
from lab.runs.services import Services

_REFERENCE = "H200"


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The result of a calibration.

    Attributes:
        file: The calibration file.
        model: The GPU's model.
        calibration: Its complete calibration in the file.
        missing: Constants that were not measured, each with the reason.
        gpu: The GPU with the built-in constants.
    """

    file: Path
    model: str
    calibration: Calibration
    missing: dict[str, str]
    gpu: Gpu


def calibrate(
    console: Console,
    *,
    only: Collection[str] = (),
    runs: Path | None = None,
    file: Path | None = None,
    seconds: float = MOST_SECONDS,
    services: Services | None = None,
) -> Calibrated:
    """Measure the constants of this machine's GPU, or derive them from runs, and write them.

    Args:
        console: Gets a line for each microbenchmark.
        only: Microbenchmarks to run; the constants of others are kept.
        runs: Folder of finished runs to derive from, in place of measuring.
        file: The calibration file; the user's by default.
        seconds: No microbenchmark starts later than this; the constants of those left out are kept.
        services: The environment; this machine by default.

    Raises:
        MissingToolError: There is no GPU.
        StoreError: A run cannot be read.
        UserError: The runs are of several GPUs or give no constants, or the file is damaged.
    """
    file = file or default_file()
    before = read(file)  # a damaged file is reported before minutes are spent
    if runs is not None:
        if only:
            raise UserError(
                "--only selects what is measured, but --from measures nothing", code="conflict", key="--only"
            )
        bench, date, version = measured_before(runs)
    else:
        date, version = datetime.now(UTC).isoformat(timespec="seconds"), VERSION
        bench = measure(only, services, lambda line: console.print(Text(line)), seconds)
    derived, missing = calibration_of(bench, date, version)
    model = bench.gpu.name
    if not derived.constants:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in list(missing.items())[:3])
        raise UserError(
            "no constant follows from these measurements", code="nothing-left", key="calibrate", found=reasons
        )
    if runs is None and model in before:
        derived = derived.model_copy(update={"constants": {**before[model].constants, **derived.constants}})
        missing = {name: reason for name, reason in missing.items() if name not in derived.constants}
    write(file, model, derived)
    return Calibrated(file, model, derived, missing, _built_in(model, bench.gpu))


def _built_in(model: str, live: GpuDescription | None) -> Gpu:
    return from_description(live) if live is not None else gpu_for(model)


def rows(gpu: Gpu, calibration: Calibration | None) -> list[dict[str, Any]]:
    """Return a row for each constant of a GPU: the value in use, the measured value, and the origin.

    Args:
        gpu: The GPU with its built-in constants.
        calibration: Its calibration, or None.
    """
    used = gpu if calibration is None else calibrated(gpu, {gpu.name: calibration})
    table_rows = []
    for name, constant in CONSTANTS.items():
        measured = calibration.constants.get(name) if calibration else None
        takes: float | None = getattr(used.latencies, constant.sets) if constant.sets else None
        built_in: float | None = getattr(gpu.latencies, constant.sets) if constant.sets else None
        if name == "dram_copy":
            takes, built_in = used.latencies.dram_share, gpu.latencies.dram_share
        origin = "" if takes is None else gpu.constants if measured is None else f"calibrated {used.calibrated}"
        if measured is not None and constant.reference:
            origin += f", scaled from {constant.reference:g} on an {_REFERENCE}"
        table_rows.append(
            {
                "constant": name,
                "measured": measured and measured.value,
                "unit": constant.unit,
                "spread": measured and measured.spread,
                "n": measured and measured.n,
                "experiment": measured and measured.experiment,
                "field": constant.sets or ("dram_share" if name == "dram_copy" else ""),
                "used": takes,
                "built_in": built_in,
                "origin": origin,
                "about": constant.about,
            }
        )
    return table_rows


def shown(names: Collection[str], file: Path | None = None) -> dict[str, list[dict[str, Any]]]:
    """Return the constants in use by GPU: of those named, or of every calibrated model and the H200.

    Raises:
        UserError: A GPU is neither in the table nor in the file, or the file is damaged.
    """
    calibrations = read(file or default_file())
    models = list(names) or list(
        dict.fromkeys([*calibrations, *([] if _REFERENCE in map(model_of, calibrations) else [_REFERENCE])])
    )
    tables = {}
    for name in models:
        match = next((model for model in calibrations if model_of(model) == model_of(name)), None)
        calibration = calibrations[match] if match is not None else None
        try:
            gpu = gpu_for(name)
        except UserError:
            if calibration is None:
                raise
            gpu = described(match or name, calibration)
        tables[match or gpu.name] = rows(gpu, calibration)
    return tables


def print_rows(console: Console, model: str, table: list[dict[str, Any]]) -> None:
    """Print the constants of a GPU, those that estimates use first."""
    shown_table = Table(box=None, pad_edge=False, title=Text(model), title_justify="left")
    for header in ("constant", "in use", "built in", "measured", "spread", "n", "by", "from"):
        shown_table.add_column(header, overflow="fold")
    for row in sorted(table, key=lambda row: not row["field"]):
        measured = "" if row["measured"] is None else f"{row['measured']:.4g} {row['unit']}"
        spread = "" if row["spread"] is None else f"{row['spread']:.2%}"
        cells = (
            f"{row['field'] or row['constant']}",
            _number(row["used"]),
            _number(row["built_in"]),
            measured,
            spread,
            "" if row["n"] is None else str(row["n"]),
            row["experiment"] or "",
            row["origin"] or "no estimate uses it",
        )
        shown_table.add_row(*map(Text, cells))
    console.print(shown_table)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def as_json(outcome: Calibrated) -> dict[str, Any]:
    """Return a calibration as plain values."""
    values = asdict(outcome) | {"calibration": outcome.calibration.model_dump(), "gpu": outcome.gpu.name}
    return values | {"file": str(outcome.file), "constants": rows(outcome.gpu, outcome.calibration)}
