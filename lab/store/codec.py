"""Rows to JSON text and back."""

from __future__ import annotations

import contextlib
import gc
import json
from collections.abc import Iterator

from pydantic import ConfigDict, TypeAdapter
from pydantic_core import PydanticSerializationError

from lab.store.model import RepeatRecord, RunRecord, VariantRecord

SCHEMA = 10
"""Raised when a stored record's shape changes; an older store is refused, never misread."""

READ_TOO = (7, 9)
"""Older schemas whose records are those of this one without optional fields: 7 had no `profile` and no `compiler`, 9 no
`aside` of loops."""

# JSON has no infinity and no NaN; an error can be either, and null would lose which
for _record in (VariantRecord, RunRecord):
    _record.__pydantic_config__ = ConfigDict(ser_json_inf_nan="strings")  # type: ignore[union-attr]
VARIANT = TypeAdapter(VariantRecord)
RUN = TypeAdapter(RunRecord)
REPEAT = TypeAdapter(RepeatRecord)


def record_to_json(record: VariantRecord | RunRecord) -> dict[str, object]:
    """The record as plain JSON values, as `records.json` holds it."""
    value: dict[str, object] = json.loads(record_to_text(record))
    return value


def record_to_text(record: VariantRecord | RunRecord) -> str:
    """The record as JSON text."""
    try:
        text = VARIANT.dump_json(record) if isinstance(record, VariantRecord) else RUN.dump_json(record)
    except PydanticSerializationError as error:
        if "KeyboardInterrupt" in str(error):  # Ctrl-C came while pydantic was asking an object for its fields
            raise KeyboardInterrupt from error
        raise
    return text.decode()


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Without the collector of cycles, which would look at every record again and again; records have none."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
