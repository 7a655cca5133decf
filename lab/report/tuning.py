"""The report of a tuning run: a page, PNGs and tables, from its store alone."""

from __future__ import annotations

from pathlib import Path

from lab.tune.store import TuningStore


def render(store: TuningStore) -> tuple[Path, ...]:
    """Write the report."""
    del store
    return ()
