"""The problems of an experiment: one mapping with lists swept like parameters, or a list of mappings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lab import yamlfile
from lab.errors import UserError
from lab.experiment.schema import ExperimentFile
from lab.expressions import Scalar
from lab.operators import Operator
from lab.yamlfile import Document, Key

_MOST_PROBLEMS = 10_000
_MOST_VALUES = 10_000
"""Values of one range; a file with more is a slip of the pen."""


@dataclass(frozen=True)
class Problem:
    """One problem of an experiment.

    Attributes:
        values: The operator's problem, complete.
        emulate: The same at the size that is executed on the CPU, complete; None where the file has none.
        label: What tells it from the others: ``layout=nt m=2048``; empty for a single problem.
    """

    values: Mapping[str, Scalar]
    emulate: Mapping[str, Scalar] | None
    label: str


def problems(
    computed: Operator, raw: ExperimentFile, document: Document
) -> tuple[tuple[Problem, ...], tuple[str, ...]]:
    """Every problem that the file names, and the fields by which they differ.

    Raises:
        UserError: a field is unknown or wrong, or there are too many problems.
    """
    given = list(_given(raw.problem, document))
    axes = tuple(
        name
        for name in dict.fromkeys(name for values, _ in given for name in values)
        if len({repr(values.get(name)) for values, _ in given}) > 1
    )
    made: dict[str, Problem] = {}
    for values, place in given:
        complete = _complete(computed, values, document, place)
        emulate = None
        if raw.emulate is not None:
            emulate = _complete(computed, _smaller(values, raw.emulate), document, ("emulate",))
        label = " ".join(f"{name}={show(complete[name])}" for name in axes if name in complete)
        made.setdefault(repr(sorted(complete.items())), Problem(complete, emulate, label))
    return tuple(made.values()), axes


def values_of(given: object, document: Document, place: Key) -> list[object]:
    """The values that one entry of a file stands for: a scalar for itself, a list, or `{range: [start, stop, step]}`.

    Raises:
        UserError: an empty list, or a range that is none.
    """
    if isinstance(given, dict):
        return _range(given, document, place)
    values = list(given) if isinstance(given, list) else [given]
    if not values:
        raise _error("an empty list sweeps nothing", document, place, given, "at least one value")
    return values


def show(value: Scalar) -> str:
    """A value as YAML spells it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _given(problem: object, document: Document) -> Iterator[tuple[dict[str, object], Key]]:
    """Each problem as the file gives it, with its place there."""
    entries = problem if isinstance(problem, list) else [problem]
    if not entries:
        raise _error("an empty list holds no problem", document, ("problem",), problem, "at least one mapping")
    count = 0
    for i, entry in enumerate(entries):
        place: Key = ("problem", i) if isinstance(problem, list) else ("problem",)
        if not isinstance(entry, dict):
            raise _error("wrong type", document, place, entry, "a mapping of the operator's fields")
        axes = {name: values_of(value, document, (*place, name)) for name, value in entry.items()}
        count += math.prod(len(values) for values in axes.values())
        if count > _MOST_PROBLEMS:
            raise _error("too many problems", document, place, count, f"at most {_MOST_PROBLEMS}")
        for values in itertools.product(*axes.values()):
            yield dict(zip(axes, values, strict=True)), place


def _smaller(values: Mapping[str, object], emulate: Mapping[str, object]) -> dict[str, object]:
    """The problem with the fields of `emulate`; a size that is smaller already stays: of a row, a row is executed."""
    chosen = {**values, **emulate}
    for name, size in emulate.items():
        match values.get(name), size:
            case (bool(), _) | (_, bool()):
                pass
            case int(own), int(wanted):
                chosen[name] = min(own, wanted)
    return chosen


def _range(given: dict[str, object], document: Document, place: Key) -> list[object]:
    """`start`, `start + step`, … up to `stop`, which is included where a step lands on it."""
    accepted = "{range: [start, stop, step]}, integers, stop included, step ≥ 1"
    bounds = given.get("range")
    if list(given) != ["range"] or not isinstance(bounds, list) or len(bounds) != 3:  # noqa: PLR2004 - see accepted
        raise _error("not a range", document, place, given, accepted)
    if any(isinstance(bound, bool) or not isinstance(bound, int) for bound in bounds):
        raise _error("not a range", document, place, given, accepted)
    start, stop, step = bounds
    if step < 1 or stop < start:
        raise _error("a range without values", document, place, given, accepted)
    values = range(start, stop + 1, step)
    if len(values) > _MOST_VALUES:
        raise _error("a range of too many values", document, place, given, f"at most {_MOST_VALUES} values")
    return list(values)


def _complete(computed: Operator, values: Mapping[str, object], document: Document, place: Key) -> Mapping[str, Scalar]:
    scalars: dict[str, Scalar] = {}
    for key, value in values.items():
        if not isinstance(value, bool | int | float | str):
            raise _error("wrong type", document, (*place, key), value, "a single value")
        scalars[key] = value
    try:
        return computed.problem(scalars)
    except UserError as error:
        field = (error.key or "").removeprefix("problem").lstrip(".")
        path = (*place, field) if field else place
        raise UserError(
            error.message,
            at=document.at(*path),
            key=yamlfile.dotted(path),
            found=error.found,
            accepted=error.accepted,
            suggestion=error.suggestion,
        ) from error


def _error(message: str, document: Document, place: Key, found: object, accepted: str) -> UserError:
    return UserError(message, at=document.at(*place), key=yamlfile.dotted(place), found=found, accepted=accepted)
