"""Whether a folder's unfinished run may be gone on with: what it made must have been made under the same conditions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.base.errors import StoreError


def differing(
    state: Mapping[str, Any] | None, conditions: Mapping[str, object], *, resume: bool | None, folder: Path, made: str
) -> str | None:
    """What an earlier run had otherwise than this one.

    Args:
        state: The earlier run's `conditions`, and whether it `finished`; None where there was none.
        conditions: Of this run, by name; values that JSON can hold.
        resume: Go on with what is there; None means only if it is unfinished; False never.
        folder: Where the earlier run is.
        made: What it holds and how that came to be, in words: `records were made`.

    Returns:
        Names of conditions, `seed, GPU`; empty where this run goes on with what is there, None where it does not ask.

    Raises:
        StoreError: `resume` asks to go on, and conditions differ.
    """
    if state is None or resume is False or (resume is None and state["finished"]):
        return None
    asked = json.loads(json.dumps(conditions))
    names = ", ".join(name for name in asked if state["conditions"].get(name) != asked[name])
    if names and resume:
        raise StoreError(
            f"{folder} cannot be gone on with: its {made} with another {names}; run with --no-resume to begin again"
        )
    return names
