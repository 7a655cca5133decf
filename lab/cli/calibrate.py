"""`lab calibrate`: measures or derives the constants of a GPU, keeps them, and shows what is in use."""

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
from lab.runs.calibration.measure import MOST_SECONDS, measure, measured_before
from lab.runs.services import Services

_REFERENCE = "H200"


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What a calibration gave.

    Attributes:
        file: Where it stands.
        model: The GPU's.
        calibration: All that the file now holds of it.
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
    """Measure the constants of the GPU that is there, or derive them from runs, and write them.

    Args:
        console: Gets a line for each microbenchmark.
        only: Microbenchmarks to run; the constants of others stay as they are.
        runs: Folder of finished runs to derive from, in place of measuring.
        file: The calibration file; the user's by default.
        seconds: No microbenchmark begins later; the constants of those that do not stay as they are.
        services: The surroundings; this machine by default.

    Raises:
        MissingToolError: There is no GPU.
        StoreError: A run cannot be read.
        UserError: The runs are of several GPUs, nothing follows from them, or the file is damaged.
    """
    file = file or default_file()
    before = read(file)  # a damaged file is reported before minutes are spent
    if runs is not None:
        if only:
            raise UserError(
                "--only chooses what is measured, and --from measures nothing", code="conflict", key="--only"
            )
        bench, date, version = measured_before(runs)
    else:
        date, version = datetime.now(UTC).isoformat(timespec="seconds"), VERSION
        bench = measure(only, services, lambda line: console.print(Text(line)), seconds)
    made, missing = calibration_of(bench, date, version)
    model = bench.gpu.name
    if not made.constants:
        reasons = "; ".join(f"{name}: {why}" for name, why in list(missing.items())[:3])
        raise UserError(
            "no constant follows from these measurements", code="nothing-left", key="calibrate", found=reasons
        )
    if runs is None and model in before:
        made = made.model_copy(update={"constants": {**before[model].constants, **made.constants}})
        missing = {name: why for name, why in missing.items() if name not in made.constants}
    write(file, model, made)
    return Calibrated(file, model, made, missing, _built_in(model, bench.gpu))


def _built_in(model: str, live: GpuDescription | None) -> Gpu:
    return from_description(live) if live is not None else gpu_for(model)


def rows(gpu: Gpu, found: Calibration | None) -> list[dict[str, Any]]:
    """Return a row for each constant of a GPU: what estimates take, what was measured, and where from.

    Args:
        gpu: The GPU with its built-in constants.
        found: Its calibration, or None.
    """
    used = gpu if found is None else calibrated(gpu, {gpu.name: found})
    made = []
    for name, known in CONSTANTS.items():
        one = found.constants.get(name) if found else None
        takes: float | None = getattr(used.latencies, known.sets) if known.sets else None
        built_in: float | None = getattr(gpu.latencies, known.sets) if known.sets else None
        if name == "dram_copy":
            takes, built_in = used.latencies.dram_share, gpu.latencies.dram_share
        origin = "" if takes is None else gpu.constants if one is None else f"calibrated {used.calibrated}"
        if one is not None and known.reference:
            origin += f", scaled from {known.reference:g} on an {_REFERENCE}"
        made.append(
            {
                "constant": name,
                "measured": one and one.value,
                "unit": known.unit,
                "spread": one and one.spread,
                "n": one and one.n,
                "experiment": one and one.experiment,
                "field": known.sets or ("dram_share" if name == "dram_copy" else ""),
                "used": takes,
                "built_in": built_in,
                "origin": origin,
                "about": known.about,
            }
        )
    return made


def shown(names: Collection[str], file: Path | None = None) -> dict[str, list[dict[str, Any]]]:
    """Return what is in use, by GPU: of those named, or of every calibrated model and the H200.

    Raises:
        UserError: A GPU is neither in the table nor in the file, or the file is damaged.
    """
    known = read(file or default_file())
    wanted = list(names) or list(dict.fromkeys([*known, *([] if _REFERENCE in map(model_of, known) else [_REFERENCE])]))
    found = {}
    for name in wanted:
        match = next((one for one in known if model_of(one) == model_of(name)), None)
        calibration = known[match] if match is not None else None
        try:
            gpu = gpu_for(name)
        except UserError:
            if calibration is None:
                raise
            gpu = described(match or name, calibration)
        found[match or gpu.name] = rows(gpu, calibration)
    return found


def print_rows(console: Console, model: str, table: list[dict[str, Any]]) -> None:
    """Print the constants of a GPU, those that estimates take first."""
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


def as_json(found: Calibrated) -> dict[str, Any]:
    """Return a calibration as plain values."""
    made = asdict(found) | {"calibration": found.calibration.model_dump(), "gpu": found.gpu.name}
    return made | {"file": str(found.file), "constants": rows(found.gpu, found.calibration)}
