"""Cached CPU executions, so that no run repeats one. Runs in worker processes.

The cache key covers the variant's PTX, its launch arguments and this program, so an entry never becomes stale.
Executions that depend on a user's Python code are not cached, since what it reads is unknown.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass

from pydantic import ConfigDict, TypeAdapter, ValidationError

from lab.operators.builtin import users_python
from lab.predict.schedulers.estimate import Pace
from lab.recorded.run_records import EmulationRecord
from lab.stages.emulate import EmulationTask
from lab.stages.estimate import EstimateTask, execute
from lab.stages.program import program
from lab.toolchain.cache import Cache, default_folder


@dataclass(frozen=True, slots=True)
class Execution:
    """A cached emulation result.

    Attributes:
        record: The emulation's record.
        pace: The estimate from it; None without an estimate.
    """

    record: EmulationRecord
    pace: Pace | None


# JSON has neither infinity nor NaN, which errors and rates can be
Execution.__pydantic_config__ = ConfigDict(ser_json_inf_nan="strings")  # type: ignore[attr-defined]


def execution(task: EmulationTask, ptx: str, model: EstimateTask | None) -> tuple[EmulationRecord, Pace | None]:
    """Return the result of `lab.stages.estimate.execute`, cached per user.

    Failed executions are not cached: the cause may be the machine, not the variant.
    """
    if users_python(task.operator):
        return execute(task, ptx, model)
    cache, key = Cache(default_folder()), key_of(task, ptx, model)
    if (cached := _read(cache.fields(key))) is not None:
        return cached.record, cached.pace
    record, pace = execute(task, ptx, model)
    if record.verification is not None:
        fields = _adapter().dump_python(entry := Execution(record, pace), mode="json")
        if _read(fields) == entry:  # the cached entry must equal what this run records
            cache.keep(key, fields)
    return record, pace


def key_of(task: EmulationTask, ptx: str, model: EstimateTask | None) -> str:
    """Return the SHA-256, in hex, of everything an execution and its estimate depend on."""
    facts = ("execution", program(), ptx, repr(task), repr(model))
    return hashlib.sha256("\0".join(facts).encode("utf-8", "surrogatepass")).hexdigest()


@functools.cache
def _adapter() -> TypeAdapter[Execution]:
    return TypeAdapter(Execution)


def _read(fields: dict[str, object] | None) -> Execution | None:
    """Return a cached execution; None if there is none, or it has another schema."""
    try:
        return None if fields is None else _adapter().validate_python(fields)
    except ValidationError:
        return None
