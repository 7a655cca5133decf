"""Running an experiment given as a mapping."""

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
    mapping: Mapping[str, Any],
    options: RunOptions,
    observer: RunObserver | None = None,
    services: Services | None = None,
) -> RunOutcome:
    """Write the experiment file for a mapping into the run directory, and run it.

    Args:
        mapping: See `lab.api.mapping.written`.
        options: Run options.
        observer: Receives progress events; none by default.
        services: The execution environment; this machine by default.

    Raises:
        UserError: The mapping is invalid; the error names the key.
        MissingToolError: No compiler or no disassembler is installed.
        StoreError: The run directory cannot be written, or is in use.
    """
    services = services or Services()
    folder = options.output or Path("reports") / name_of(mapping)
    cards, _ = services.find_cards(measure=options.measure, every=bool(options.cluster), model=options.gpu_model)
    file = written(mapping, folder, measured=bool(cards))
    command = options.command or f"lab run {folder / INPUT / file.name} --output {folder}"
    try:
        return run(file, replace(options, output=folder, command=command), observer, services)
    except UserError as error:
        raise without_file(error, file) from None


def place(cluster: str) -> str:
    """Check a `cluster` argument of the Python API and return it.

    Raises:
        UserError: It is neither empty nor ``local``.
    """
    if cluster not in {"", "local"}:
        raise UserError(
            "the Python API only runs on this machine",
            code="unsupported",
            key="cluster",
            found=cluster,
            accepted='"local", or ""',
        )
    return cluster
