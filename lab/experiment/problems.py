"""The problems of an experiment: one mapping with lists swept like parameters, or a list of mappings.

A mapping of the list may have two keys besides the operator's: `name`, the problem's name in reports, and `emulate`,
fields to replace when this problem is emulated.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from lab.base import yamlfile
from lab.base.errors import UserError
from lab.base.expressions import Scalar
from lab.base.yamlfile import Document, Key
from lab.experiment.schema import MOST_NAME_LENGTH, ExperimentFile, PlainFile
from lab.operators.base import Problem
from lab.operators.foreign import Described

NAMED = ("name", "emulate")
"""Keys of a problem in a list that are not the operator's."""

FULL = "full"
"""Value of `emulate` that emulates the problem at its full size."""

_OF_THE_FILE = ("arguments", "metrics", "reference")
"""Keys of the file whose mistakes show only with a problem."""

_MOST_PROBLEMS = 10_000
_MOST_VALUES = 10_000
"""Maximum number of values of one range."""


@dataclass(frozen=True)
class ProblemCase:
    """One problem of an experiment.

    Attributes:
        values: The problem.
        emulate: The problem at the emulated size; None if the file has none.
        label: Text to distinguish it from the others: its name, or ``layout=nt m=2048``; empty for a single problem.
        whole: The full-size problem is emulated, which takes machine code.
    """

    values: Problem
    emulate: Problem | None
    label: str
    whole: bool = False

    def at_full_size(self) -> ProblemCase:
        """Return the case with the full-size problem emulated."""
        return replace(self, emulate=self.values, whole=True)


@dataclass(frozen=True)
class _Given:
    """A problem as the file gives it.

    Attributes:
        values: The operator's fields.
        place: Path of the problem in the file.
        name: Its name in reports; None if the file does not name it.
        emulate: Fields of its own to replace on the CPU, or `FULL`.
    """

    values: Mapping[str, object]
    place: Key
    name: str | None
    emulate: Mapping[str, object] | str | None


def problems(
    computed: Described, raw: ExperimentFile | PlainFile, document: Document
) -> tuple[tuple[ProblemCase, ...], tuple[str, ...]]:
    """List the problems of a file, and the fields by which they differ.

    Raises:
        UserError: A field is unknown or wrong, or there are too many problems.
    """
    listed = getattr(getattr(computed, "problem_type", Problem), "number_lists", ())
    entries = list(_given(raw.problem, document, listed))
    axes = _axes(entries)
    cases: dict[str, ProblemCase] = {}
    for entry in entries:
        complete = _complete(computed, entry, {}, document, entry.place)
        emulate = None
        full_size = (entry.emulate or raw.emulate) == FULL
        if not full_size and (raw.emulate is not None or entry.emulate is not None):
            place = (*entry.place, "emulate") if entry.emulate is not None else ("emulate",)
            fields = {**_fields(raw.emulate), **_fields(entry.emulate)}
            emulate = _complete(computed, entry, _smaller(entry.values, fields), document, place)
        label = " ".join(
            show(complete[name]) if name == "name" else f"{name}={show(complete[name])}"
            for name in axes
            if name in complete
        )
        case = ProblemCase(complete, emulate, label)
        cases.setdefault(repr(sorted(complete.items())), case.at_full_size() if full_size else case)
    return tuple(cases.values()), axes


def _fields(emulate: Mapping[str, object] | str | None) -> Mapping[str, object]:
    """Return the fields that `emulate` replaces."""
    return emulate if isinstance(emulate, Mapping) else {}


def _axes(entries: list[_Given]) -> tuple[str, ...]:
    """Return the fields by which problems differ; only `name` if each problem has a different name."""
    names = {entry.name for entry in entries}
    if len(entries) > 1 and len(names) == len(entries) and None not in names:
        return ("name",)
    fields = [{**({"name": entry.name} if entry.name else {}), **entry.values} for entry in entries]
    field_names = dict.fromkeys(name for values in fields for name in values)
    return tuple(name for name in field_names if len({repr(values.get(name)) for values in fields}) > 1)


def values_of(setting: object, document: Document, place: Key) -> list[object]:
    """Return the values of one entry: a scalar, a list, or `{range: [start, stop, step]}`.

    Raises:
        UserError: An empty list, or a wrong range.
    """
    if isinstance(setting, dict):
        return _range(setting, document, place)
    values = list(setting) if isinstance(setting, list) else [setting]
    if not values:
        raise _error("the list is empty", document, place, setting, "at least one value")
    return values


def show(value: Scalar) -> str:
    """Return a value as YAML spells it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _numbers_as_text(setting: object) -> object:
    """Return `0,3,2` for the list `[0, 3, 2]`, and a list of such texts for a list of lists."""
    if not isinstance(setting, list) or not setting:
        return setting
    if all(type(number) is int for number in setting):
        return ",".join(map(str, setting))
    return [_numbers_as_text(value) for value in setting]


def _given(problem: object, document: Document, listed: Collection[str]) -> Iterator[_Given]:
    """Yield each problem as the file gives it; the fields of `listed` as text."""
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
        axes = {
            key: values_of(_numbers_as_text(value) if key in listed else value, document, (*place, key))
            for key, value in entry.items()
            if key not in own
        }
        count += math.prod(len(values) for values in axes.values())
        if count > _MOST_PROBLEMS:
            raise _error("too many problems", document, place, count, f"at most {_MOST_PROBLEMS}")
        for values in itertools.product(*axes.values()):
            yield _Given(dict(zip(axes, values, strict=True)), place, name, emulate)


def _smaller(values: Mapping[str, object], emulate: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of `emulate`, keeping sizes that are already smaller in the problem."""
    chosen = dict(emulate)
    for name, size in emulate.items():
        match values.get(name), size:
            case (bool(), _) | (_, bool()):
                pass
            case int(own), int(wanted):
                chosen[name] = min(own, wanted)
    return chosen


def _range(setting: dict[str, object], document: Document, place: Key) -> list[object]:
    """Return `start`, `start + step`, … up to `stop`, which is included where a step lands on it."""
    accepted = "{range: [start, stop, step]}, integers, stop included, step ≥ 1"
    bounds = setting.get("range")
    if list(setting) != ["range"] or not isinstance(bounds, list) or len(bounds) != 3:  # noqa: PLR2004 - see accepted
        raise _error("not a range", document, place, setting, accepted)
    if any(isinstance(bound, bool) or not isinstance(bound, int) for bound in bounds):
        raise _error("not a range", document, place, setting, accepted)
    start, stop, step = bounds
    if step < 1 or stop < start:
        raise _error("the range has no values", document, place, setting, accepted)
    if (stop - start) // step >= _MOST_VALUES:
        raise _error("the range has too many values", document, place, setting, f"at most {_MOST_VALUES} values")
    return list(range(start, stop + 1, step))


def _complete(
    computed: Described, entry: _Given, replaced: Mapping[str, object], document: Document, place: Key
) -> Problem:
    """Make the operator's problem, with some of its fields replaced."""
    fields = {**entry.values, **replaced}
    for key, value in fields.items():
        if not isinstance(value, bool | int | float | str):
            raise _error("wrong type", document, (*place, key), value, "a single value")
    try:
        problem: Problem = computed.problem(fields)
    except UserError as error:
        key = error.key or ""
        own = tuple(key.split("."))
        if len(own) > 1 and own[0] in _OF_THE_FILE:  # a mistake in the file's arguments or metrics
            raise error.placed(document.at(*own), key) from error
        field = key.removeprefix("problem").lstrip(".")
        path = (*place, field) if field else place
        raise error.placed(document.at(*path), yamlfile.dotted(path)) from error
    return problem.titled(entry.name) if entry.name else problem


def _error(message: str, document: Document, place: Key, value: object, accepted: str) -> UserError:
    return UserError(
        message, code="wrong-value", at=document.at(*place), key=yamlfile.dotted(place), found=value, accepted=accepted
    )
