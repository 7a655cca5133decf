"""The sandboxed Jinja environment of templates, and of the expressions in constraints and geometry.

Nothing in an experiment file or a template can run code. Attributes and methods that lead out of the sandbox are
refused, undefined names are errors, and operators that could exhaust memory are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NoReturn

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, Undefined, UndefinedError
from jinja2.exceptions import SecurityError
from jinja2.nodes import Name
from jinja2.sandbox import ImmutableSandboxedEnvironment

from lab.base.errors import Location, UserError, did_you_mean

Scalar = bool | int | float | str

_LARGEST = 2**63
"""Larger results of `*` and `**` are refused; no launch or tile needs them."""

_MAX_EXPRESSION = 1000
"""Most characters of an expression. A longer one is refused before Jinja reads it."""


def ceil_div(numerator: int, denominator: int) -> int:
    """Return the least integer that is at least numerator / denominator."""
    return -(-numerator // denominator)


def _template_error(message: str) -> NoReturn:
    raise UserError(message)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ceil_div": ceil_div,
    "min": min,
    "max": max,
    "abs": abs,
    "error": _template_error,
}
"""Functions that expressions and templates may call. `error("why")` ends the rendering with that message."""


class Sandbox(ImmutableSandboxedEnvironment):
    """The sandbox with strict names and bounded arithmetic."""

    intercepted_binops = frozenset(["*", "**", "<<", "%"])

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:  # noqa: ANN401 - Jinja's signature
        """Bound the operators whose result can be far larger than their operands."""
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        if not numbers:
            raise SecurityError(f"the operands of '{operator}' must be numbers")
        if operator == "**" and (abs(right) > 64 or abs(left) > _LARGEST):  # noqa: PLR2004 - 2**64 exceeds the limit
            raise SecurityError("the result of ** is too large")
        result = super().call_binop(context, operator, left, right)
        if isinstance(result, int) and abs(result) > _LARGEST:
            raise SecurityError(f"the result of {operator} is too large")
        return result


def environment(**options: Any) -> Sandbox:  # noqa: ANN401 - handed to Jinja as they are
    """Return a sandboxed, strict environment with `FUNCTIONS` and `range` as its only globals."""
    env = Sandbox(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True, **options)
    env.globals.clear()
    env.globals.update(FUNCTIONS)
    env.globals["range"] = _short_range
    return env


def _short_range(*args: int) -> range:
    result = range(*args)
    if len(result) > 10_000:  # noqa: PLR2004 - unrolled code of that length takes hours to compile
        raise SecurityError(f"a range of {len(result)} elements; at most 10000 are accepted")
    return result


_ENV = environment()


def names_in(expression: str, *, at: Location, key: str) -> frozenset[str]:
    """Return the names that an expression uses, without functions.

    Raises:
        UserError: The text is not a Jinja expression.
    """
    return _compiled(expression, at, key)[0]


def evaluate(expression: str | float, names: Mapping[str, object], *, at: Location, key: str) -> Scalar:
    """Return the value of an expression.

    Args:
        expression: A Jinja expression without braces; a number is its own value.
        names: Names that it may use, with their values.
        at: Its location, for errors.
        key: Its key, for errors.

    Returns:
        A number, a boolean or a string.

    Raises:
        UserError: The expression has a syntax error or an unknown name, or the sandbox refuses an operation.
    """
    if not isinstance(expression, str):
        return expression
    used, _ = _compiled(expression, at, key)
    for name in sorted(used - names.keys()):
        raise UserError(
            f"unknown name {name!r} in an expression",
            at=at,
            key=key,
            found=expression,
            accepted=sorted(names),
            suggestion=did_you_mean(name, names),
        )
    return _value(expression, at, key, tuple((name, type(names[name]), names[name]) for name in used))


@lru_cache(maxsize=65536)
def _value(expression: str, at: Location, key: str, given: tuple[tuple[str, type, object], ...]) -> Scalar:
    """Return the value for given values of the names; their types are in the key because 1, 1.0 and true are equal.

    A sweep evaluates the same few expressions at every point: `block_m % thread_m == 0` has a dozen cases in all.
    """
    try:
        value = _compiled(expression, at, key)[1](**{name: value for name, _, value in given})
        if isinstance(value, Undefined):
            str(value)  # raises the error that names what is missing or what the sandbox refused
    except (TemplateError, ArithmeticError, TypeError, ValueError, RecursionError, MemoryError, NameError) as error:
        # Jinja itself raises a NameError: it compiles 1e999 to the name `inf`
        raise UserError(f"the expression cannot be evaluated: {error}", at=at, key=key, found=expression) from error
    if not isinstance(value, bool | int | float | str):
        raise UserError(
            "the value of the expression has an unsupported type",
            at=at,
            key=key,
            found=expression,
            accepted="a number, a boolean or a string",
        )
    return value


@lru_cache(maxsize=4096)
def _compiled(expression: str, at: Location, key: str) -> tuple[frozenset[str], Callable[..., object]]:
    """Return the names of an expression, and a function that evaluates it with keyword arguments for them.

    Cached, since a sweep evaluates few expressions many times.

    Raises:
        UserError: The text is not an expression.
    """
    if len(expression) > _MAX_EXPRESSION:
        raise UserError("the expression is too long", at=at, key=key, accepted=f"at most {_MAX_EXPRESSION} characters")
    try:
        # compile_expression expects the text between braces; it would misread `{{ a }}{{ b }}`
        if re.search(r"\{[{%#]|[}%#]\}", expression):
            raise TemplateSyntaxError("write the expression without braces", 1)
        compiled = _ENV.compile_expression(expression, undefined_to_none=False)
        tree = _ENV.parse("{{ (" + expression + ") }}")
    except (TemplateError, UndefinedError, RecursionError) as error:
        raise UserError(f"not a Jinja expression: {error}", at=at, key=key, found=expression) from error
    used = frozenset(n.name for n in tree.find_all(Name) if n.ctx == "load") - set(FUNCTIONS) - {"range"}
    return used, compiled
