"""Whether a folder's unfinished run may be resumed: only under the conditions under which its content was made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.base.errors import StoreError


def differing(
    state: Mapping[str, Any] | None, conditions: Mapping[str, object], *, resume: bool | None, folder: Path, made: str
) -> str | None:
    """Compare an earlier run's conditions with those of this run.

    Args:
        state: The earlier run's `conditions`, and whether it `finished`; None where there was none.
        conditions: Conditions of this run by name; values that JSON can hold.
        resume: True resumes the earlier run, False never does, None does so where it is unfinished.
        folder: Where the earlier run is.
        made: What it holds, for the error message: `records were made`.

    Returns:
        Names of the conditions that differ: `seed, GPU`; empty where this run resumes the earlier one; None where it
        begins anew.

    Raises:
        StoreError: `resume` is True, and conditions differ.
    """
    if state is None or resume is False or (resume is None and state["finished"]):
        return None
    asked = json.loads(json.dumps(conditions))
    names = ", ".join(name for name in asked if state["conditions"].get(name) != asked[name])
    if names and resume:
        raise StoreError(
            f"cannot resume the run in {folder}: its {made} with another {names}; use --no-resume to begin again"
        )
    return names
