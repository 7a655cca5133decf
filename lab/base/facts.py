"""Values of expressions and templates, and what they may know of larger objects.

An expression never holds a Python object of the bench: what it knows of a mapping, say, is a `FactValue`, which holds
the mapping's text and a list of named facts. A fact is a value again; nothing can be changed, and no attribute of
Python's is ever looked up.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from lab.base.errors import did_you_mean

LARGEST = 2**63
"""Whole numbers beyond are refused; no launch or tile needs them."""

MOST_TEXT = 10_000
"""Characters of a text that an expression makes."""

MOST_PARTS = 10_000
"""Values of a list or a range: unrolled code of that length takes hours to compile."""

Value = Any
"""None, a boolean, a number, a text, a tuple, range or table of values, or a `FactValue`. (Any: it contains itself.)

A table is a dictionary, which nothing changes once it is made.
"""

Number = int | float
Text = str
Count = int
"""From 1 to 2^31 - 1."""


class OperandError(ValueError):
    """An operation or a function does not accept its operands. Evaluators add where it stands; no user sees it."""

    def __init__(self, message: str, *, accepted: str | None = None, suggestion: str | None = None) -> None:
        """Describe what was refused.

        Args:
            message: What is wrong.
            accepted: What is accepted.
            suggestion: What to write instead.
        """
        self.message, self.accepted, self.suggestion = message, accepted, suggestion
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class FactValue(ABC):
    """An object as expressions see it: its named facts, which are values.

    A subclass lists them: `facts` take no arguments, `methods` do. Both are functions of what `read` makes of the text.

    Attributes:
        text: The notation from which `read` makes the object.
    """

    text: str

    kind: ClassVar[str]
    facts: ClassVar[Mapping[str, Callable[[Any], Value]]]
    methods: ClassVar[Mapping[str, Callable[..., Value]]]

    @classmethod
    @abstractmethod
    def read(cls, text: str) -> Any:  # noqa: ANN401 - of any type
        """Return the object; the same one each time, since it is asked for each fact."""

    def __str__(self) -> str:
        return str(self.read(self.text))

    def fact(self, name: str) -> Value:
        """Return a fact.

        Raises:
            OperandError: There is none of this name.
        """
        if name in self.facts:
            return self.facts[name](self.read(self.text))
        if name in self.methods:
            shown = usage(name, self.methods[name], skip=1)
            raise OperandError(f"{name} of a {self.kind} takes arguments", accepted=shown)
        raise self._unknown(name)

    def call(self, name: str, arguments: Sequence[Value], keywords: Mapping[str, Value]) -> Value:
        """Return a fact that takes arguments.

        Raises:
            OperandError: There is none of this name, or it does not accept these arguments.
        """
        if name in self.methods:
            return called(name, self.methods[name], (self.read(self.text), *arguments), keywords, skip=1)
        if name in self.facts:
            raise OperandError(f"{name} of a {self.kind} takes no arguments", accepted=f"{name} without parentheses")
        raise self._unknown(name)

    def _unknown(self, name: str) -> OperandError:
        known = [*self.facts, *(usage(one, function, skip=1) for one, function in self.methods.items())]
        near = did_you_mean(name, [*self.facts, *self.methods])
        return OperandError(f"a {self.kind} has no fact {name!r}", accepted=", ".join(known), suggestion=near)


def called(
    name: str,
    function: Callable[..., Value],
    arguments: Sequence[Value],
    keywords: Mapping[str, Value],
    *,
    skip: int = 0,
) -> Value:
    """Call a function if its signature accepts the arguments.

    Annotations of its parameters are checked: `int`, `Number`, `Text`, `bool`, `Count` (all may be `| None`), `Listed`
    (a list, a range or a text); any other annotation accepts any value.

    Args:
        name: What expressions call it.
        function: The function.
        arguments: Arguments by position.
        keywords: Arguments by name.
        skip: How many of the first arguments are not the user's.

    Raises:
        OperandError: The arguments do not fit, or the function refuses them.
    """
    signature = _signature(function)
    try:
        given = signature.bind(*arguments, **keywords)
    except TypeError as error:
        raise OperandError(f"{name}: {error}", accepted=usage(name, function, skip=skip)) from None
    for parameter, value in list(given.arguments.items())[skip:]:
        declared = signature.parameters[parameter]
        several = declared.kind is inspect.Parameter.VAR_POSITIONAL
        for one in value if several else (value,):
            wanted = _mismatch(str(declared.annotation), one)
            if wanted:
                message = f"{name}: {parameter} is {described(one)}"
                raise OperandError(message, accepted=f"{wanted}; {usage(name, function, skip=skip)}")
    try:
        return function(*arguments, **keywords)
    except OperandError:
        raise
    except (ValueError, TypeError, ArithmeticError, LookupError) as error:
        raise OperandError(f"{name}: {error}", accepted=usage(name, function, skip=skip)) from None


@lru_cache(maxsize=256)
def _signature(function: Callable[..., Value]) -> inspect.Signature:
    return inspect.signature(function)


def usage(name: str, function: Callable[..., Value], *, skip: int = 0) -> str:
    """Return how a function is called: ``sectors(element_bytes, vector=1, *, row=None)``."""
    parameters = list(_signature(function).parameters.values())[skip:]
    bare = [one.replace(annotation=inspect.Parameter.empty) for one in parameters]
    return f"{name}{inspect.Signature(bare)}"


def described(value: Value) -> str:
    """Return a value and its type as a message names them: ``the text 'a'``."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    if isinstance(value, int) and abs(value) > LARGEST:  # Python refuses to write very long ones
        return "a very large number"
    if isinstance(value, FactValue):
        return f"a {value.kind}"
    shown = repr(value)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."  # noqa: PLR2004 - a line has room for it
    kinds = {
        int: "the number",
        float: "the number",
        str: "the text",
        tuple: "the list",
        range: "the range",
        dict: "the table",
    }
    return f"{kinds[type(value)]} {shown}" if type(value) in kinds else "a value that expressions do not know"


def _mismatch(annotation: str, value: Value) -> str:
    """Say what a parameter wants instead of a value; empty where it accepts it."""
    if value is None and annotation.endswith("| None"):
        return ""
    fits, wanted = _CHECKS.get(annotation.removesuffix("| None").strip(), (_anything, ""))
    return "" if fits(value) else wanted


def _anything(value: Value) -> bool:
    del value
    return True


_CHECKS: Mapping[str, tuple[Callable[[Value], bool], str]] = {
    "int": (lambda value: isinstance(value, int), "a whole number"),
    "Number": (lambda value: isinstance(value, int | float), "a number"),
    "Text": (lambda value: isinstance(value, str), "a text"),
    "bool": (lambda value: isinstance(value, bool), "true or false"),
    "Count": (
        lambda value: isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**31,
        "a whole number from 1 to 2147483647",
    ),
    "Listed": (lambda value: isinstance(value, tuple | list | range | str), "a list"),
}
"""What annotations accept; the left side of each is how a signature spells it."""
