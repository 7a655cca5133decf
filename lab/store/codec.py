"""Records to JSON text and back."""

from __future__ import annotations

import contextlib
import gc
import json
import math
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, TypeAdapter
from pydantic_core import PydanticSerializationError

from lab.base.folder import is_name
from lab.base.spelling import spelled
from lab.recorded.run_records import RepeatRecord, RunRecord, VariantRecord


def _checked(record: VariantRecord) -> VariantRecord:
    """Return the record after checks of its id and its quantities.

    Raises:
        ValueError: They are not.
    """
    if not is_name(record.variant):
        raise ValueError(f"variant {record.variant[:300]!r} is not a name of a folder")
    if record.flops < 0 or record.bytes_moved < 0:
        raise ValueError(f"flops and bytes_moved must not be negative, found {record.flops} and {record.bytes_moved}")
    timed = record.measurement
    for samples in () if timed is None else (timed.samples, timed.baseline, timed.remeasured, *timed.others.values()):
        if samples is not None and not (samples.used and all(0 <= ms < math.inf for ms in samples.ms)):
            raise ValueError("samples of a time must be some, finite, and not negative")
    return record


# JSON has neither infinity nor NaN; an error can be either, and null would not tell which
for _record in (VariantRecord, RunRecord):
    _record.__pydantic_config__ = ConfigDict(ser_json_inf_nan="strings")  # type: ignore[union-attr]
VARIANT: TypeAdapter[VariantRecord] = TypeAdapter(Annotated[VariantRecord, AfterValidator(_checked)])
RUN = TypeAdapter(RunRecord)
REPEAT = TypeAdapter(RepeatRecord)


def record_to_json(record: VariantRecord | RunRecord) -> dict[str, object]:
    """Return the record as plain JSON values, as stored in `records.json`."""
    value: dict[str, object] = json.loads(record_to_text(record))
    return value


def record_to_text(record: VariantRecord | RunRecord) -> str:
    """Return the record as JSON text."""
    try:
        text = VARIANT.dump_json(record) if isinstance(record, VariantRecord) else RUN.dump_json(record)
    except PydanticSerializationError as error:
        if "KeyboardInterrupt" in str(error):  # Ctrl-C came while pydantic was asking an object for its fields
            raise KeyboardInterrupt from error
        if "surrogates not allowed" not in str(error):
            raise
        adapter: TypeAdapter[Any] = VARIANT if isinstance(record, VariantRecord) else RUN
        text = adapter.dump_json(adapter.validate_python(_spelled(adapter.dump_python(record))))
    return text.decode()


def _spelled(value: Any) -> Any:  # noqa: ANN401 - whatever a record holds
    """Return a value with all its text encodable in UTF-8: file names are bytes."""
    match value:
        case str():
            return spelled(value)
        case dict():
            return {_spelled(key): _spelled(item) for key, item in value.items()}
        case list() | tuple():
            return type(value)(_spelled(item) for item in value)
    return value


@contextlib.contextmanager
def settled() -> Iterator[None]:
    """Restrict the garbage collector to objects created within the `with` block.

    What is drawn has many, and a hundred megabytes of it would wait for the end.
    """
    enabled = gc.isenabled()
    gc.freeze()
    gc.enable()
    try:
        yield
    finally:
        gc.unfreeze()
        if not enabled:
            gc.disable()
