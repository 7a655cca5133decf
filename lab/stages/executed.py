"""Executions on the CPU, kept between runs: one that is known is not repeated. Runs in worker processes.

An execution depends on the variant's PTX, on what it is launched with, and on this program. All of that makes its key,
so an entry of the cache never needs to be dropped because it is out of date. What a user's own Python decides is not
kept: nobody can tell what that reads.
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
    """What the cache keeps.

    Attributes:
        record: What was executed.
        pace: The estimate that follows from it; None where there is none.
    """

    record: EmulationRecord
    pace: Pace | None


# JSON has neither infinity nor NaN, which errors and rates can be
Execution.__pydantic_config__ = ConfigDict(ser_json_inf_nan="strings")  # type: ignore[attr-defined]


def execution(task: EmulationTask, ptx: str, model: EstimateTask | None) -> tuple[EmulationRecord, Pace | None]:
    """Return what `lab.stages.estimate.execute` does, from the user's cache where it is there.

    A variant that could not be executed is tried again: the reason may lie in the machine, not in the variant.
    """
    if users_python(task.operator):
        return execute(task, ptx, model)
    cache, key = Cache(default_folder()), key_of(task, ptx, model)
    if (known := _read(cache.fields(key))) is not None:
        return known.record, known.pace
    record, pace = execute(task, ptx, model)
    if record.verification is not None:
        fields = _adapter().dump_python(made := Execution(record, pace), mode="json")
        if _read(fields) == made:  # what is read later must be what this run records
            cache.keep(key, fields)
    return record, pace


def key_of(task: EmulationTask, ptx: str, model: EstimateTask | None) -> str:
    """Return the SHA-256, in hex, of everything that decides an execution and the estimate that follows from it."""
    facts = ("execution", program(), ptx, repr(task), repr(model))
    return hashlib.sha256("\0".join(facts).encode("utf-8", "surrogatepass")).hexdigest()


@functools.cache
def _adapter() -> TypeAdapter[Execution]:
    return TypeAdapter(Execution)


def _read(fields: dict[str, object] | None) -> Execution | None:
    """An execution from what the cache keeps; None where there is nothing, or of another shape."""
    try:
        return None if fields is None else _adapter().validate_python(fields)
    except ValidationError:
        return None
