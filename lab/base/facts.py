"""Values of expressions and templates, and the attributes they can read from larger objects.

An expression never holds one of lab's Python objects: it sees a mapping, for example, as a `FactValue`, which holds
the mapping's text and a list of named facts. A fact is itself a value; nothing can be modified, and no Python
attribute is ever looked up.
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
"""Largest absolute value of an integer; no launch or tile needs more."""

MOST_TEXT = 10_000
"""Longest string that an expression may produce, in characters."""

MOST_PARTS = 10_000
"""Longest list or range: unrolled code of that length takes hours to compile."""

Value = Any
"""None, bool, number, string, a tuple, range or dict of values, or a `FactValue`. (Any, since the type is recursive.)

A table is a dictionary that is never modified after its creation.
"""

Number = int | float
Text = str
Count = int
"""An integer from 1 to 2^31 - 1."""


class OperandError(ValueError):
    """An operation or function rejected its operands. Evaluators add the location, so users never see it as such."""

    def __init__(self, message: str, *, accepted: str | None = None, suggestion: str | None = None) -> None:
        """Describe the rejected operands.

        Args:
            message: What is wrong.
            accepted: What is accepted.
            suggestion: What to write instead.
        """
        self.message, self.accepted, self.suggestion = message, accepted, suggestion
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class FactValue(ABC):
    """An object as seen by expressions: its named facts, which are values.

    A subclass lists them: `facts` take no arguments, `methods` do. Both take the object that `read` returns.

    Attributes:
        text: The notation that `read` parses.
    """

    text: str

    kind: ClassVar[str]
    facts: ClassVar[Mapping[str, Callable[[Any], Value]]]
    methods: ClassVar[Mapping[str, Callable[..., Value]]]

    @classmethod
    @abstractmethod
    def read(cls, text: str) -> Any:  # noqa: ANN401 - of any type
        """Return the object, always the same one, since it is requested for each fact."""

    def __str__(self) -> str:
        return str(self.read(self.text))

    def fact(self, name: str) -> Value:
        """Return a fact.

        Raises:
            OperandError: No fact has this name.
        """
        if name in self.facts:
            return self.facts[name](self.read(self.text))
        if name in self.methods:
            signature = usage(name, self.methods[name], skip=1)
            raise OperandError(f"{name} of a {self.kind} takes arguments", accepted=signature)
        raise self._unknown(name)

    def call(self, name: str, arguments: Sequence[Value], keywords: Mapping[str, Value]) -> Value:
        """Return the value of a fact that takes arguments.

        Raises:
            OperandError: No fact has this name, or it does not accept these arguments.
        """
        if name in self.methods:
            return called(name, self.methods[name], (self.read(self.text), *arguments), keywords, skip=1)
        if name in self.facts:
            raise OperandError(f"{name} of a {self.kind} takes no arguments", accepted=f"{name} without parentheses")
        raise self._unknown(name)

    def _unknown(self, name: str) -> OperandError:
        available = [
            *self.facts,
            *(usage(method_name, function, skip=1) for method_name, function in self.methods.items()),
        ]
        near = did_you_mean(name, [*self.facts, *self.methods])
        return OperandError(f"a {self.kind} has no fact {name!r}", accepted=", ".join(available), suggestion=near)


def called(
    name: str,
    function: Callable[..., Value],
    arguments: Sequence[Value],
    keywords: Mapping[str, Value],
    *,
    skip: int = 0,
) -> Value:
    """Call a function if its signature accepts the arguments.

    Arguments are checked against the annotations `int`, `Number`, `Text`, `bool`, `Count` (all may be `| None`) and
    `Listed` (a list, a range or a string); any other annotation accepts any value.

    Args:
        name: Its name in expressions.
        function: The function.
        arguments: Arguments by position.
        keywords: Arguments by name.
        skip: Number of leading arguments that do not come from the user.

    Raises:
        OperandError: The arguments do not match the signature, or the function rejects them.
    """
    signature = _signature(function)
    try:
        bound = signature.bind(*arguments, **keywords)
    except TypeError as error:
        raise OperandError(f"{name}: {error}", accepted=usage(name, function, skip=skip)) from None
    for parameter, value in list(bound.arguments.items())[skip:]:
        declared = signature.parameters[parameter]
        several = declared.kind is inspect.Parameter.VAR_POSITIONAL
        for argument in value if several else (value,):
            expected = _mismatch(str(declared.annotation), argument)
            if expected:
                message = f"{name}: {parameter} is {described(argument)}"
                raise OperandError(message, accepted=f"{expected}; {usage(name, function, skip=skip)}")
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
    """Return the signature of a function as users call it: ``sectors(element_bytes, vector=1, *, row=None)``."""
    parameters = list(_signature(function).parameters.values())[skip:]
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    return f"{name}{inspect.Signature(bare)}"


def described(value: Value) -> str:
    """Return a value with its type, for messages: ``the text 'a'``."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    if isinstance(value, int) and abs(value) > LARGEST:  # Python refuses to write very long ones
        return "a very large number"
    if isinstance(value, FactValue):
        return f"a {value.kind}"
    text = repr(value)
    text = text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 - a line has room for it
    kinds = {
        int: "the number",
        float: "the number",
        str: "the text",
        tuple: "the list",
        range: "the range",
        dict: "the table",
    }
    return f"{kinds[type(value)]} {text}" if type(value) in kinds else "a value that expressions do not support"


def _mismatch(annotation: str, value: Value) -> str:
    """Return what a parameter expects, if it does not accept a value; else an empty string."""
    if value is None and annotation.endswith("| None"):
        return ""
    fits, expected = _CHECKS.get(annotation.removesuffix("| None").strip(), (_anything, ""))
    return "" if fits(value) else expected


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
"""Check and description for each annotation, keyed by its spelling in a signature."""
