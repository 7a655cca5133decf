"""Records to JSON text and back."""

from __future__ import annotations

import contextlib
import gc
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ConfigDict, TypeAdapter
from pydantic_core import PydanticSerializationError

from lab.base.folder import is_name
from lab.base.spelling import spelled
from lab.store.model import RepeatRecord, RunRecord, Status, VariantRecord

SCHEMA = 27
"""Version of the records' shape, raised with each change; an unknown one is refused, never misread."""

READ_TOO = (7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26)
"""Older schemas that are read as well. They lack optional fields: 7 `profile` and `compiler`, 9 `aside` of loops. Up to
10 a run had one text `baseline` in place of `baselines`, and records lacked `pruned_by`. Up to 11 they lacked
`fingerprint`, what was executed in any loop (`looped`), and the emulated `flops`; up to 12 `declared_rate` and
`declared_figures`; up to 13 what concerns several cards; up to 14 the `growth` of what is executed; up to 15 the
`reuse` of what is read; up to 16 its `growth_of_block` and a build's `warnings`; up to 17 the `chains` of its SASS; up
to 18 the `sample` that is executed for its counts; up to 19 the `carveout` of launches; up to 20 the
`errors` of baselines; up to 21 the `clock_hz` of counters; up to 22 the `copies_ahead` of loops, the
`map_alignments` of launches, and what is `fetched_by_map`; up to 23 the latter left out what lies beyond the tensors,
and launches had no `cluster`; up to 24 the counts of `loops` and of `resized` problems; up to 25 the `roles` of
kernels, which are read from their PTX where that was kept; up to 26 the `suspicions`, what was `not_shown` and the
`full_size` of executions. Up to 26 a variant that is wrong was called "verification failed", as was one that the CPU
could not execute, and one that a GPU could not run "launch failed" or "timed out"."""

_NOT_EXECUTED = "not executed: "
"""Beginning of the reason of a variant that failed for want of an execution, in schemas up to 26."""


def _with_verdict(record: VariantRecord) -> VariantRecord:
    """Return the record; one of a schema up to 26 that was not executed is not called wrong."""
    if record.status is not Status.WRONG or not record.reason.startswith(_NOT_EXECUTED):
        return record
    return replace(record, status=Status.NOT_EXECUTED, reason=record.reason.removeprefix(_NOT_EXECUTED))


def _checked(record: VariantRecord) -> VariantRecord:
    """Return the record, whose id names a folder and whose quantities are ones that there can be.

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


def _with_baselines(run: object) -> object:
    """The fields of a run's record, with the `baseline` of a schema up to 10 as `baselines`."""
    if not isinstance(run, dict) or "baseline" not in run:
        return run
    fields = {name: value for name, value in run.items() if name != "baseline"}
    return {**fields, "baselines": _by_label(str(run["baseline"]), run.get("problem_axes", ()))}


def _by_label(text: str, axes: Sequence[str]) -> dict[str, str]:
    """Take apart what was written as ``m=1 k=2, m=1 k=3: cublas (…); m=4 k=2: copy (…)``.

    Args:
        text: The text; one fact without labels where it was the same for all problems.
        axes: Fields in the problems' labels, in order.
    """
    if not text:
        return {}
    label = " ".join(rf"{re.escape(axis)}=[^\s,:;]+" for axis in axes)
    found = re.split(rf"(?:^|; )({label}(?:, {label})*): ", text) if axes else []
    if not found or found[0]:  # no label at its beginning
        return {"": text}
    pairs = zip(found[1::2], found[2::2], strict=True)
    return {one: fact for labels, fact in pairs for one in labels.split(", ")}


# JSON has neither infinity nor NaN; an error can be either, and null would not tell which
for _record in (VariantRecord, RunRecord):
    _record.__pydantic_config__ = ConfigDict(ser_json_inf_nan="strings")  # type: ignore[union-attr]
VARIANT: TypeAdapter[VariantRecord] = TypeAdapter(
    Annotated[VariantRecord, AfterValidator(_checked), AfterValidator(_with_verdict)]
)
RUN: TypeAdapter[RunRecord] = TypeAdapter(Annotated[RunRecord, BeforeValidator(_with_baselines)])
REPEAT = TypeAdapter(RepeatRecord)


def record_to_json(record: VariantRecord | RunRecord) -> dict[str, object]:
    """Return the record as plain JSON values, as `records.json` holds it."""
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
    """Return a value with every text in it as UTF-8 can hold it: names of files are bytes."""
    match value:
        case str():
            return spelled(value)
        case dict():
            return {_spelled(key): _spelled(one) for key, one in value.items()}
        case list() | tuple():
            return type(value)(_spelled(one) for one in value)
    return value


@contextlib.contextmanager
def settled() -> Iterator[None]:
    """Let the collector of reference cycles look only at what is made from now on; what is there has none.

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
