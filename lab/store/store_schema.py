"""The version of what is stored, and its check."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lab.base.errors import StoreError

SCHEMA: Final = 27
"""Version of the stored fields of runs and tuning runs, raised with each change; no other version is read."""


def check_schema(schema: object, path: Path, advice: str = "") -> None:
    """Check that this version of lab reads a file.

    Args:
        schema: As the file gives it.
        path: The file.
        advice: End of the message: what to do.

    Raises:
        StoreError: The file has another schema.
    """
    if schema != SCHEMA:
        raise StoreError(
            f"{path} was written by another version of lab: schema {schema!r}, this reads {SCHEMA}{advice}"
        )
