"""Resuming unfinished runs: allowed only under the conditions of the earlier run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.base.errors import StoreError


def differing(
    state: Mapping[str, Any] | None,
    conditions: Mapping[str, object],
    *,
    resume: bool | None,
    folder: Path,
    content: str,
) -> str | None:
    """Compare an earlier run's conditions with those of this run.

    Args:
        state: The earlier run's `conditions`, and whether it `finished`; None where there was none.
        conditions: Conditions of this run by name; values that JSON can hold.
        resume: True resumes the earlier run, False never does, None does so where it is unfinished.
        folder: Where the earlier run is.
        content: What it holds, for the error message: `records were made`.

    Returns:
        Names of the conditions that differ: `seed, GPU`; empty where this run resumes the earlier one; None where it
        begins anew.

    Raises:
        StoreError: `resume` is True, and conditions differ.
    """
    if state is None or resume is False or (resume is None and state["finished"]):
        return None
    current = json.loads(json.dumps(conditions))
    names = ", ".join(name for name in current if state["conditions"].get(name) != current[name])
    if names and resume:
        raise StoreError(
            f"cannot resume the run in {folder}: its {content} with another {names}; use --no-resume to begin again"
        )
    return names
