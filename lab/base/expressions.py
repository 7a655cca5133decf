"""Jinja, fenced in: the one environment for templates, and for the expressions of constraints and geometry.

Nothing in an experiment file or a template can run code: attributes and methods that reach out of the
sandbox are refused, undefined names are errors, and the operators that could eat all memory are bounded.
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
"""Results of `*` and `**` beyond this are refused: no launch or tile needs them."""

_MAX_EXPRESSION = 1000
"""Characters of an expression. Longer ones are refused before Jinja sees them."""


def ceil_div(numerator: int, denominator: int) -> int:
    """The least integer that is at least numerator / denominator."""
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
"""What expressions and templates may call. `error("why")` ends a rendering that makes no sense."""


class Sandbox(ImmutableSandboxedEnvironment):
    """The sandbox with strict names and bounded arithmetic."""

    intercepted_binops = frozenset(["*", "**", "<<", "%"])

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:  # noqa: ANN401 - Jinja's signature
        """Bound the operators whose result can be far larger than their operands."""
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        if not numbers:
            raise SecurityError(f"'{operator}' takes numbers here")
        if operator == "**" and (abs(right) > 64 or abs(left) > _LARGEST):  # noqa: PLR2004 - 2**64 exceeds the limit
            raise SecurityError("the result of ** is too large")
        result = super().call_binop(context, operator, left, right)
        if isinstance(result, int) and abs(result) > _LARGEST:
            raise SecurityError(f"the result of {operator} is too large")
        return result


def environment(**options: Any) -> Sandbox:  # noqa: ANN401 - handed to Jinja as they are
    """A sandboxed, strict environment with `FUNCTIONS` as its only globals."""
    env = Sandbox(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True, **options)
    env.globals.clear()
    env.globals.update(FUNCTIONS)
    env.globals["range"] = _short_range
    return env


def _short_range(*args: int) -> range:
    result = range(*args)
    if len(result) > 10_000:  # noqa: PLR2004 - unrolled code of that length compiles for hours
        raise SecurityError(f"range of {len(result)} elements; 10000 at most")
    return result


_ENV = environment()


def names_in(expression: str, *, at: Location, key: str) -> frozenset[str]:
    """The names an expression uses, functions excluded.

    Raises:
        UserError: it is no Jinja expression.
    """
    return _compiled(expression, at, key)[0]


def evaluate(expression: str | float, names: Mapping[str, object], *, at: Location, key: str) -> Scalar:
    """The value of an expression.

    Args:
        expression: A Jinja expression, without braces; a number stands for itself.
        names: What it may refer to.
        at: Where it stands, for errors.
        key: Its key, for errors.

    Returns:
        A number, a boolean or a word.

    Raises:
        UserError: a syntax error, an unknown name, or an operation that the sandbox refuses.
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
    """The value for these values of the names that it uses; the types are there since 1, 1.0 and true are equal.

    A sweep asks the same few questions for every point: `block_m % thread_m == 0` has a dozen answers in all.
    """
    try:
        value = _compiled(expression, at, key)[1](**{name: value for name, _, value in given})
        if isinstance(value, Undefined):
            str(value)  # a strict undefined says what is missing, or what the sandbox refused
    except (TemplateError, ArithmeticError, TypeError, ValueError, RecursionError, MemoryError, NameError) as error:
        # a NameError is Jinja's own: it writes 1e999 down as `inf`
        raise UserError(f"the expression fails: {error}", at=at, key=key, found=expression) from error
    if not isinstance(value, bool | int | float | str):
        raise UserError(
            "the expression yields no plain value",
            at=at,
            key=key,
            found=expression,
            accepted="a number, a boolean or a word",
        )
    return value


@lru_cache(maxsize=4096)
def _compiled(expression: str, at: Location, key: str) -> tuple[frozenset[str], Callable[..., object]]:
    """The names of an expression and a function of them; a sweep evaluates few expressions many times.

    Raises:
        UserError: it is no expression.
    """
    if len(expression) > _MAX_EXPRESSION:
        raise UserError("the expression is too long", at=at, key=key, accepted=f"at most {_MAX_EXPRESSION} characters")
    try:
        # `{{ a }}{{ b }}` is no expression; compile_expression takes what stands between braces and nothing else
        if re.search(r"\{[{%#]|[}%#]\}", expression):
            raise TemplateSyntaxError("write the expression without braces", 1)
        compiled = _ENV.compile_expression(expression, undefined_to_none=False)
        tree = _ENV.parse("{{ (" + expression + ") }}")
    except (TemplateError, UndefinedError, RecursionError) as error:
        raise UserError(f"not a Jinja expression: {error}", at=at, key=key, found=expression) from error
    used = frozenset(n.name for n in tree.find_all(Name) if n.ctx == "load") - set(FUNCTIONS) - {"range"}
    return used, compiled
