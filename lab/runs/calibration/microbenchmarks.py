"""Run the microbenchmarks of experiments/micro on this machine's GPU, each with the few variants needed."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from lab.base import shipped, yamlfile
from lab.base.errors import MissingToolError, StoreError, UserError, did_you_mean
from lab.base.files import scratch
from lab.measured.timing import GpuDescription
from lab.runs.calibration.derive import MicroTimings, Timing, timings_of
from lab.runs.pipeline import RunOptions, run
from lab.runs.services import Services
from lab.runs.sides import read_side

NARROWED: Final[Mapping[str, Mapping[str, Any]]] = {
    "launch": {"problem": {"blocks": 1}, "parameters": {"threads": 32}},
    "pipes": {"parameters": {"kind": [0, 1, 3, 5, 6, 7]}},
    "banks": {"parameters": {"stride": [1, 32]}},
    "chase": {},
    "working_set": {"parameters": {"words": [65536, 524288, 1048576, 2097152, 4194304]}},
    "random_sectors": {"parameters": {"words": [262144, 2097152, 8388608, 134217728]}},
    "l1_reuse": {"parameters": {"threads": [32, 128], "words": 64, "shared": 0}},
    "block_tail": {"parameters": {"threads": [128, 256, 512], "items": [4, 8]}},
    "block_rate": {"parameters": {"threads": [128, 512, 1024], "shared": 0}},
    "barriers": {"parameters": {"threads": 1024, "rounds": [16, 64]}},
    "atomics_global": {
        "parameters": {"known": 0, "together": 0, "counters": [1, 65536], "spread": [8, 32]},
        "constraints": ["counters > 1 or spread == 8", "T == 'unsigned' or counters == 1"],
    },
    "atomics_shared": {"parameters": {"T": "unsigned", "known": 0, "together": 0, "counters": 1024, "spread": 1}},
}
"""Overrides of each microbenchmark's keys; mappings are merged key by key. The launch comes first, since others
subtract it."""

MOST_SECONDS: Final = 270.0
"""Default limit in seconds after which no microbenchmark starts, so that all end within five minutes."""


def narrowed(name: str, folder: Path) -> Path:
    """Write a microbenchmark, reduced to the variants needed, and its sources into a folder.

    Returns:
        The experiment file.

    Raises:
        UserError: `lab` lacks its files.
    """
    place = shipped.folder("experiments") / "micro"
    data = dict(yamlfile.parse(yamlfile.read_text(place / f"{name}.yaml"), place / f"{name}.yaml").data)
    for key, value in NARROWED[name].items():
        data[key] = {**data[key], **value} if isinstance(value, dict) else [*data.get(key, ()), *value]
    for source in (*place.glob("*.cu"), *place.glob("*.py")):
        shutil.copy(source, folder)
    file = folder / f"{name}.yaml"
    file.write_text(json.dumps(data))  # JSON is YAML
    return file


def chosen(only: Collection[str]) -> tuple[str, ...]:
    """Return the microbenchmarks to run: the named ones and the launch, or all.

    Raises:
        UserError: A name is unknown.
    """
    for name in only:
        if name not in NARROWED:
            raise UserError(
                "no such microbenchmark", code="unknown-name",
                key="--only", found=name, accepted=tuple(NARROWED),
                suggestion=did_you_mean(name, NARROWED),
            )  # fmt: skip
    return tuple(name for name in NARROWED if not only or name in only or name == "launch")


def measure(
    only: Collection[str] = (),
    services: Services | None = None,
    tell: Callable[[str], object] = lambda _: None,
    seconds: float = MOST_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> MicroTimings:
    """Run the microbenchmarks on the first GPU.

    Args:
        only: Those to run; all by default.
        services: The environment; this machine by default.
        tell: Called with one line per microbenchmark.
        seconds: No microbenchmark starts later than this.
        clock: A monotonic clock in seconds.

    Raises:
        MissingToolError: There is no GPU, or nothing can be measured on it.
        UserError: A microbenchmark is unknown.
    """
    names = chosen(only)
    services = replace(services or Services(), render=lambda _: ())
    cards, no_gpu_reason = services.find_cards(measure=True, every=False, model="")
    if not cards:
        raise MissingToolError(f"{no_gpu_reason} Use --from to calibrate from runs made elsewhere.")
    gpu, timings, began = cards[0].description, dict[str, tuple[Timing, ...]](), clock()
    with scratch("lab-calibrate-") as folder:
        for name in names:
            if clock() - began > seconds:
                tell(f"{name}: left out, {seconds:.0f} s are over")
                continue
            options = RunOptions(output=folder / "runs" / name, emulate=False, resume=False, command="lab calibrate")
            outcome = run(narrowed(name, folder), options, None, services)
            if outcome.interrupted:
                raise KeyboardInterrupt
            records = outcome.records
            timings[name] = timings_of(records, gpu)
            failed = next((record for record in records if record.status.failed), None)
            reason = "" if failed is None else f"; {failed.label}: {failed.status}, {failed.reason}"
            tell(f"{name}: {len(timings[name])} of {len(records)} variants measured{reason}")
    return MicroTimings(gpu, timings)


def measured_before(folder: Path) -> tuple[MicroTimings, str, str]:
    """Read earlier microbenchmark runs from a folder's subfolders, each a run or committed results.

    Returns:
        The timings, the start of the latest run, and the version of lab that made it.

    Raises:
        UserError: There are no such runs, or they are of several GPUs.
        StoreError: A run cannot be read.
    """
    timings, gpus, latest = dict[str, tuple[Timing, ...]](), dict[str, GpuDescription](), ("", "")
    for name, place in _runs(folder):
        side = read_side(str(place))
        if side.run.gpu is None:
            continue
        gpus[side.run.gpu.name] = side.run.gpu
        timings[name] = timings_of(side.records, side.run.gpu)
        latest = max(latest, (side.run.started, side.run.lab_version))
    if len(gpus) > 1:
        raise UserError(
            "these runs are of several GPUs",
            code="mismatch",
            key="--from",
            found=", ".join(sorted(gpus)),
            accepted="runs of one model",
        )
    if not gpus:
        raise UserError(
            "no measured run of a microbenchmark was found here", code="nothing-left", key="--from", found=str(folder),
            accepted=f"a folder with folders of runs, named {', '.join(NARROWED)}",
        )  # fmt: skip
    (gpu,) = gpus.values()
    return MicroTimings(gpu, timings), *latest


def _runs(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the microbenchmarks' names and run folders."""
    if not folder.is_dir():
        raise StoreError(f"{folder} is not a folder")
    for name in NARROWED:
        if (folder / name).is_dir():
            yield name, folder / name
