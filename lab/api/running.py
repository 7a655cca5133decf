"""Run an experiment that is given as a mapping."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.api.given import without_file
from lab.api.mapping import INPUT, name_of, written
from lab.base.errors import UserError
from lab.runs.observer import RunObserver
from lab.runs.pipeline import RunOptions, RunOutcome, run
from lab.runs.services import Services


def run_mapping(
    given: Mapping[str, Any],
    options: RunOptions,
    observer: RunObserver | None = None,
    services: Services | None = None,
) -> RunOutcome:
    """Write the file that a mapping stands for into the run directory, and run it.

    Args:
        given: See `lab.api.mapping.written`.
        options: As for any run.
        observer: Receives the progress; nobody by default.
        services: The surroundings; this machine by default.

    Raises:
        UserError: Something in the mapping is wrong; the key says what.
        MissingToolError: There is no compiler or no disassembler.
        StoreError: The run directory cannot be written, or is in use.
    """
    services = services or Services()
    folder = options.output or Path("reports") / name_of(given)
    cards, _ = services.find_cards(measure=options.measure, every=bool(options.cluster), model=options.gpu_model)
    file = written(given, folder, measured=bool(cards))
    command = options.command or f"lab run {folder / INPUT / file.name} --output {folder}"
    try:
        return run(file, replace(options, output=folder, command=command), observer, services)
    except UserError as error:
        raise without_file(error, file) from None


def place(cluster: str) -> str:
    """Return where to run, as Python's callers may name it.

    Raises:
        UserError: It is neither empty nor ``local``.
    """
    if cluster not in {"", "local"}:
        raise UserError(
            "Python runs on this machine alone",
            code="unsupported",
            key="cluster",
            found=cluster,
            accepted='"local", or ""',
        )
    return cluster
