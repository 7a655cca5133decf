"""Conversion of functions of tunable parameters to expressions, by calling them once per setting."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from lab.base.errors import UserError
from lab.base.expressions import Scalar

Space = Mapping[str, Sequence[Scalar]]
Setting = tuple[tuple[str, Scalar], ...]

MOST_SETTINGS: Final = 100_000
"""Largest number of settings for which a function is called."""

_MOST_CHARACTERS: Final = 1000
"""Longest expression; see `lab.base.parser`."""

_MOST_CONSTRAINTS: Final = 2000


class _Watched(dict[str, Any]):
    """A setting that records which of its parameters are read."""

    def __init__(self, setting: Mapping[str, Scalar], names_read: set[str]) -> None:
        super().__init__(setting)
        self._read = names_read

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - a parameter's value
        self._read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401
        self._read.add(name)
        return super().get(name, default)

    def __iter__(self) -> Iterator[str]:
        self._read.update(super().keys())
        return super().__iter__()

    def keys(self) -> Any:  # noqa: ANN401 - a view
        self._read.update(super().keys())
        return super().keys()

    def items(self) -> Any:  # noqa: ANN401
        self._read.update(super().keys())
        return super().items()

    def values(self) -> Any:  # noqa: ANN401
        self._read.update(super().keys())
        return super().values()


def tabulated(function: Callable[[dict[str, Any]], Any], space: Space, key: str) -> dict[Setting, Any]:
    """Call a function for every setting.

    Returns:
        Its results, by the values of the parameters that it reads.

    Raises:
        UserError: The space is too large, or the function raises an error.
    """
    names = tuple(space)
    count = 1
    for values in space.values():
        count *= len(values)
    if count > MOST_SETTINGS:
        accepted = f"an expression as text, or at most {MOST_SETTINGS} settings, since the function is called for each"
        raise UserError(f"a function of {count} settings", code="out-of-range", key=key, accepted=accepted)
    names_read: set[str] = set()
    results = []
    for values in itertools.product(*space.values()):
        setting = dict(zip(names, values, strict=True))
        try:
            results.append((setting, function(_Watched(setting, names_read))))
        except Exception as error:  # the caller's code may raise anything
            message = f"the function raised {type(error).__name__}: {error}"
            raise UserError(message, code="user-code", key=key, found=setting) from error
    return {tuple((name, setting[name]) for name in names if name in names_read): result for setting, result in results}


def literal(value: Scalar) -> str:
    """Return a value as an expression literal."""
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def expression(table: Mapping[Setting, Scalar], key: str) -> str:
    """Return a table of values as one expression.

    Raises:
        UserError: The expression is too long.
    """
    by_value: dict[str, list[Setting]] = {}
    for setting, value in table.items():
        by_value.setdefault(literal(value), []).append(setting)
    *less_common, (last, _) = sorted(by_value.items(), key=lambda group: len(group[1]))
    text = "".join(f"{value} if {' or '.join(_conditions(settings))} else " for value, settings in less_common) + last
    if len(text) > _MOST_CHARACTERS:
        accepted = "text: an expression over the parameters, such as 'block_size_x * tile_size'"
        raise UserError("the function has too many different values", code="out-of-range", key=key, accepted=accepted)
    return text


def constraints(table: Mapping[Setting, Any], key: str) -> list[str]:
    """Return constraints that exclude every setting for which a function returns false.

    Raises:
        UserError: There are too many constraints, or one is too long.
    """
    out = [
        f"not ({condition})"
        for condition in _conditions([setting for setting, is_allowed in table.items() if not is_allowed])
    ]
    if len(out) > _MOST_CONSTRAINTS or any(len(constraint) > _MOST_CHARACTERS for constraint in out):
        accepted = "a list of expressions as text, such as ['block_size_x * block_size_y <= 1024']"
        raise UserError("the function excludes too many settings", code="out-of-range", key=key, accepted=accepted)
    return out or ["true"][:0]


def _conditions(settings: Sequence[Setting]) -> list[str]:
    """Return conditions for the settings, merging those that differ only in the last parameter."""
    grouped: dict[Setting, list[Scalar]] = {}
    for setting in settings:
        if not setting:
            return ["true"]
        grouped.setdefault(setting[:-1], []).append(setting[-1][1])
    conditions = []
    for first, values in grouped.items():
        name = settings[0][-1][0]
        last = f"{name} == {literal(values[0])}"
        if len(values) > 1:
            last = f"{name} in [{', '.join(map(literal, values))}]"
        conditions.append(" and ".join([*(f"{parameter} == {literal(value)}" for parameter, value in first), last]))
    return conditions


def preprocessor(table: Mapping[Setting, str], key: str) -> str:
    """Return a table of texts as a chain of `#if` that compares integer parameters.

    Raises:
        UserError: A parameter that selects the text is not an integer.
    """
    if len(set(table.values())) == 1:
        return next(iter(table.values()))
    lines: list[str] = []
    for setting, text in table.items():
        for name, value in setting:
            if not isinstance(value, int):
                raise UserError(
                    "the source depends on a parameter that is not an integer",
                    code="conflict",
                    key=key,
                    found={name: value},
                    accepted="integers",
                )
        condition = " && ".join(f"{name} == {int(value)}" for name, value in setting)
        lines += [f"{'#elif' if lines else '#if'} {condition}", text]
    return "\n".join([*lines, "#endif"])
