"""The JSON Schemas that `lab schema` writes."""

from __future__ import annotations

from typing import Any, Literal


def schema_of(kind: Literal["experiment", "task", "verdict"]) -> dict[str, Any]:
    """Return the JSON Schema of a kind of file."""
    if kind == "task":
        from lab.judging.schema import task_schema  # noqa: PLC0415 - each kind imports its own models

        return task_schema()
    if kind == "verdict":
        from lab.judging.verdict import verdict_schema  # noqa: PLC0415 - likewise

        return verdict_schema()
    from lab.experiment.schema import json_schema  # noqa: PLC0415 - likewise

    return json_schema()
