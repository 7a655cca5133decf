"""The problems of an experiment: one mapping with lists swept like parameters, or a list of mappings.

A mapping of the list may have two keys besides the operator's: `name`, what reports call the problem, and `emulate`,
fields to replace where this problem is executed on the CPU.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from lab.base import yamlfile
from lab.base.errors import UserError
from lab.base.expressions import Scalar
from lab.base.yamlfile import Document, Key
from lab.experiment.schema import MOST_NAME_LENGTH, ExperimentFile, PlainFile
from lab.operators.base import Problem
from lab.operators.foreign import Described

NAMED = ("name", "emulate")
FULL = "full"
"""What `emulate` says to execute the problem itself on the CPU."""
"""Keys of a problem in a list that are not the operator's."""

_OF_THE_FILE = ("arguments", "metrics", "reference")
"""Keys of the file whose mistakes show only once there is a problem."""

_MOST_PROBLEMS = 10_000
_MOST_VALUES = 10_000
"""The most values of one range; more are a mistake."""


@dataclass(frozen=True)
class ProblemCase:
    """One problem of an experiment.

    Attributes:
        values: The problem.
        emulate: The same at the size that is executed on the CPU; None where the file has none.
        label: What tells it from the others: its name, or ``layout=nt m=2048``; empty for a single problem.
        whole: The problem itself is executed, which takes machine code.
    """

    values: Problem
    emulate: Problem | None
    label: str
    whole: bool = False

    def at_full_size(self) -> ProblemCase:
        """Return the case with the problem itself executed on the CPU."""
        return replace(self, emulate=self.values, whole=True)


@dataclass(frozen=True)
class _Given:
    """A problem as the file gives it.

    Attributes:
        values: The operator's fields.
        place: Where the problem stands.
        name: What reports call it; None where the file does not name it.
        emulate: Fields of its own to replace on the CPU, or `FULL`.
    """

    values: Mapping[str, object]
    place: Key
    name: str | None
    emulate: Mapping[str, object] | str | None


def problems(
    computed: Described, raw: ExperimentFile | PlainFile, document: Document
) -> tuple[tuple[ProblemCase, ...], tuple[str, ...]]:
    """List every problem of a file, and the fields by which they differ.

    Raises:
        UserError: A field is unknown or wrong, or there are too many problems.
    """
    given = list(_given(raw.problem, document))
    axes = _axes(given)
    made: dict[str, ProblemCase] = {}
    for one in given:
        complete = _complete(computed, one, {}, document, one.place)
        emulate = None
        whole = (one.emulate or raw.emulate) == FULL
        if not whole and (raw.emulate is not None or one.emulate is not None):
            place = (*one.place, "emulate") if one.emulate is not None else ("emulate",)
            fields = {**_fields(raw.emulate), **_fields(one.emulate)}
            emulate = _complete(computed, one, _smaller(one.values, fields), document, place)
        label = " ".join(
            show(complete[name]) if name == "name" else f"{name}={show(complete[name])}"
            for name in axes
            if name in complete
        )
        case = ProblemCase(complete, emulate, label)
        made.setdefault(repr(sorted(complete.items())), case.at_full_size() if whole else case)
    return tuple(made.values()), axes


def _fields(emulate: Mapping[str, object] | str | None) -> Mapping[str, object]:
    """Return the fields that an `emulate` replaces."""
    return emulate if isinstance(emulate, Mapping) else {}


def _axes(given: list[_Given]) -> tuple[str, ...]:
    """Return the fields by which problems differ; only `name` where each problem has a name of its own."""
    names = {one.name for one in given}
    if len(given) > 1 and len(names) == len(given) and None not in names:
        return ("name",)
    fields = [{**({"name": one.name} if one.name else {}), **one.values} for one in given]
    known = dict.fromkeys(name for values in fields for name in values)
    return tuple(name for name in known if len({repr(values.get(name)) for values in fields}) > 1)


def values_of(given: object, document: Document, place: Key) -> list[object]:
    """Return the values that one entry stands for: a scalar, a list, or `{range: [start, stop, step]}`.

    Raises:
        UserError: An empty list, or a wrong range.
    """
    if isinstance(given, dict):
        return _range(given, document, place)
    values = list(given) if isinstance(given, list) else [given]
    if not values:
        raise _error("the list is empty", document, place, given, "at least one value")
    return values


def show(value: Scalar) -> str:
    """Return a value as YAML spells it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _given(problem: object, document: Document) -> Iterator[_Given]:
    """Yield each problem as the file gives it."""
    entries = problem if isinstance(problem, list) else [problem]
    if not entries:
        raise _error("the list is empty", document, ("problem",), problem, "at least one mapping")
    count = 0
    for i, entry in enumerate(entries):
        place: Key = ("problem", i) if isinstance(problem, list) else ("problem",)
        if not isinstance(entry, dict):
            raise _error("wrong type", document, place, entry, "a mapping of the operator's fields")
        own = {key: entry[key] for key in NAMED if key in entry} if isinstance(problem, list) else {}
        name, emulate = own.get("name"), own.get("emulate")
        if "name" in own and not (isinstance(name, str) and name):
            raise _error("wrong type", document, (*place, "name"), name, "a name for the problem, as text")
        if isinstance(name, str) and len(name) > MOST_NAME_LENGTH:
            raise _error(
                "the name is too long", document, (*place, "name"), name, f"at most {MOST_NAME_LENGTH} characters"
            )
        if "emulate" in own and not isinstance(emulate, dict) and emulate != FULL:
            accepted = f"a mapping of the operator's fields, or {FULL}"
            raise _error("wrong type", document, (*place, "emulate"), emulate, accepted)
        axes = {key: values_of(value, document, (*place, key)) for key, value in entry.items() if key not in own}
        count += math.prod(len(values) for values in axes.values())
        if count > _MOST_PROBLEMS:
            raise _error("too many problems", document, place, count, f"at most {_MOST_PROBLEMS}")
        for values in itertools.product(*axes.values()):
            yield _Given(dict(zip(axes, values, strict=True)), place, name, emulate)


def _smaller(values: Mapping[str, object], emulate: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of `emulate`, except sizes that are smaller in the problem: these stay."""
    chosen = dict(emulate)
    for name, size in emulate.items():
        match values.get(name), size:
            case (bool(), _) | (_, bool()):
                pass
            case int(own), int(wanted):
                chosen[name] = min(own, wanted)
    return chosen


def _range(given: dict[str, object], document: Document, place: Key) -> list[object]:
    """Return `start`, `start + step`, … up to `stop`, which is included where a step lands on it."""
    accepted = "{range: [start, stop, step]}, integers, stop included, step ≥ 1"
    bounds = given.get("range")
    if list(given) != ["range"] or not isinstance(bounds, list) or len(bounds) != 3:  # noqa: PLR2004 - see accepted
        raise _error("not a range", document, place, given, accepted)
    if any(isinstance(bound, bool) or not isinstance(bound, int) for bound in bounds):
        raise _error("not a range", document, place, given, accepted)
    start, stop, step = bounds
    if step < 1 or stop < start:
        raise _error("the range has no values", document, place, given, accepted)
    if (stop - start) // step >= _MOST_VALUES:
        raise _error("the range has too many values", document, place, given, f"at most {_MOST_VALUES} values")
    return list(range(start, stop + 1, step))


def _complete(
    computed: Described, given: _Given, replaced: Mapping[str, object], document: Document, place: Key
) -> Problem:
    """Make the operator's problem, with some of its fields replaced."""
    fields = {**given.values, **replaced}
    for key, value in fields.items():
        if not isinstance(value, bool | int | float | str):
            raise _error("wrong type", document, (*place, key), value, "a single value")
    try:
        made: Problem = computed.problem(fields)
    except UserError as error:
        key = error.key or ""
        own = tuple(key.split("."))
        if len(own) > 1 and own[0] in _OF_THE_FILE:  # a mistake in what the file says of arguments or metrics
            raise error.placed(document.at(*own), key) from error
        field = key.removeprefix("problem").lstrip(".")
        path = (*place, field) if field else place
        raise error.placed(document.at(*path), yamlfile.dotted(path)) from error
    return made.titled(given.name) if given.name else made


def _error(message: str, document: Document, place: Key, found: object, accepted: str) -> UserError:
    return UserError(
        message, code="wrong-value", at=document.at(*place), key=yamlfile.dotted(place), found=found, accepted=accepted
    )
