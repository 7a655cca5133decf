"""The Jinja sandbox of templates: immutable values, listed functions and filters, and a step budget.

A template sees numbers, texts, lists, dictionaries that it wrote itself, and `FactValue`s. No attribute of a Python
object is ever looked up: what stands behind a dot is a fact, a part of `loop`, a key of a dictionary, or a macro of an
imported template. Operators, joined texts, filters and output are bounded; every turn of a loop and every call is a
step, and steps are counted. What these bounds let through is stopped by the limits of the process
(`lab.templates.rendering`).
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from jinja2 import (
    BaseLoader,
    StrictUndefined,
    TemplateError,
    TemplateNotFound,
    TemplateSyntaxError,
    Undefined,
    nodes,
    pass_context,
)
from jinja2.environment import TemplateModule
from jinja2.filters import FILTERS
from jinja2.loaders import split_template_path
from jinja2.runtime import BlockReference, Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.tests import TESTS
from jinja2.visitor import NodeTransformer

from lab.base.errors import Location, UserError
from lab.base.facts import LARGEST, FactValue, OperandError, Value, called, described
from lab.base.files import check_below, read_regular
from lab.base.functions import FUNCTIONS, RaisedError

MOST_STEPS: Final = 200_000
"""Budget of loop iterations and calls per rendering; shipped templates need some hundreds."""

MOST_OUTPUT: Final = 4 * 2**20
"""Limit of characters in a source or intermediate text. Compilers take hours for such a source."""

_MOST_ITEMS = 100_000
"""Limit of values in a list."""

_MOST_SOURCE = 4 * 2**20
"""Size limit of a template or an include in bytes."""

_MOST_INDENT = 200
_MOST_DIGITS = 20

_FAILURES = (
    TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    NameError,
    RecursionError,
    TypeError,
    ValueError,
)
"""Exceptions of Jinja and called functions that are mistakes of the template's author."""

_steps: ContextVar[list[int]] = ContextVar("_steps")
"""Remaining steps of the current rendering."""


def rendered(name: str, roots: tuple[Path, ...], names: Mapping[str, Value]) -> str:
    """Render a template in this process.

    Args:
        name: Its name below one of the roots.
        roots: Folders in which it and what it includes lie.
        names: What it may refer to.

    Raises:
        UserError: It fails, with its line.
    """
    before = _steps.set([MOST_STEPS])
    try:
        return str(_environment(roots).get_template(name).render(**names))
    except _FAILURES as error:
        raise _placed(error, Location(next((r / name for r in roots if (r / name).is_file()), Path(name)))) from error
    finally:
        _steps.reset(before)


def environment(**options: Any) -> Sandbox:  # noqa: ANN401 - handed to Jinja as they are
    """Return a sandboxed, strict Jinja environment with `FUNCTIONS` as its only globals."""
    env = Sandbox(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True, **options)
    env.globals.clear()
    env.globals.update({name: _Function(name, function) for name, function in FUNCTIONS.items()})
    env.filters = {**{name: FILTERS[name] for name in _FILTERS}, **_OWN_FILTERS}
    env.tests = {name: TESTS[name] for name in _TESTS}
    return env


@cache
def _environment(roots: tuple[Path, ...]) -> Sandbox:
    return environment(loader=ConfinedLoader(roots), trim_blocks=True, lstrip_blocks=True)


class ConfinedLoader(BaseLoader):
    """A loader of templates below some folders: regular files of a bounded size, with links resolved."""

    def __init__(self, roots: tuple[Path, ...]) -> None:
        """Store the folders in order of priority."""
        self.roots = roots

    def get_source(self, environment: Any, template: str) -> tuple[str, str, Callable[[], bool]]:  # noqa: ANN401, ARG002 - Jinja's signature
        """Return a template's text, its file, and a function that tells whether the file is unchanged.

        Raises:
            TemplateNotFound: There is none.
            UserError: It lies outside the folders, or is no text of an acceptable size.
        """
        parts = split_template_path(template)  # refuses `..`
        for root in self.roots:
            file = root.joinpath(*parts)
            if not file.exists():
                continue
            check_below(file, self.roots)
            changed = _changed(file)
            try:
                text = read_regular(file, _MOST_SOURCE).decode()
            except UnicodeDecodeError as error:
                raise UserError(f"the file is not UTF-8 text: {error}", code="syntax", at=Location(file)) from error
            return text, str(file), partial(_is_unchanged, file, changed)
        raise TemplateNotFound(template)


def _is_unchanged(file: Path, changed: int) -> bool:
    return _changed(file) == changed


def _changed(file: Path) -> int:
    """Return a file's modification time in nanoseconds; -1 if it no longer exists."""
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return -1


def _spend(steps: int) -> None:
    remaining = _steps.get(None)
    if remaining is None:
        return
    remaining[0] -= steps
    if remaining[0] < 0:
        message = f"the template takes more than {MOST_STEPS} steps"
        raise OperandError(message, accepted="fewer turns of loops, and fewer calls of macros")


@dataclass(frozen=True, slots=True)
class _Function:
    """A function available to templates."""

    name: str
    function: Callable[..., Value]

    def __call__(self, *arguments: Value, **keywords: Value) -> Value:
        return called(self.name, self.function, arguments, keywords)


@dataclass(frozen=True, slots=True)
class _Method:
    """A fact with arguments."""

    value: FactValue
    name: str

    def __call__(self, *arguments: Value, **keywords: Value) -> Value:
        return self.value.call(self.name, [tuple(a) if isinstance(a, list) else a for a in arguments], keywords)


_NOTHING: Final = object()
_LOOP = frozenset(
    ["index", "index0", "revindex", "revindex0", "first", "last", "length", "previtem", "nextitem", "depth", "depth0"]
)
_DICTIONARY: Mapping[str, Callable[..., Value]] = {
    "items": lambda of: list(of.items()),
    "keys": list,
    "values": lambda of: list(of.values()),
}


def _of_loop(loop: LoopContext, attribute: str) -> Any:  # noqa: ANN401 - what a loop knows
    if attribute == "cycle":
        return _Function(attribute, loop.cycle)
    return getattr(loop, attribute) if attribute in _LOOP else _NOTHING


def _of_dictionary(values: dict[Any, Any], attribute: str) -> Any:  # noqa: ANN401 - what it holds
    if attribute in values:
        return values[attribute]
    return _Function(attribute, partial(_DICTIONARY[attribute], values)) if attribute in _DICTIONARY else _NOTHING


def _concatenated(parts: Iterable[str]) -> str:
    texts = list(parts)  # steps bound how many there are
    _check_length(sum(map(len, texts)))
    return "".join(texts)


def _check_length(length: int) -> None:
    if length > MOST_OUTPUT:
        raise OperandError("the template makes a text that is too long", accepted=f"at most {MOST_OUTPUT} characters")


class Sandbox(ImmutableSandboxedEnvironment):
    """The Jinja environment of the sandbox."""

    intercepted_binops = frozenset(["+", "-", "*", "**", "%"])
    concat = staticmethod(_concatenated)

    def _generate(self, source: nodes.Template, *args: Any, **kwargs: Any) -> str:  # noqa: ANN401 - Jinja's signature
        return super()._generate(_Guarded(self).visit(source), *args, **kwargs)

    def get_template(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - Jinja's signature
        """Return a template; each include counts as a step, since mutual includes grow exponentially."""
        _spend(1)
        return super().get_template(*args, **kwargs)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:  # noqa: ANN401 - Jinja's signature
        """Limit the results of operators that can be far larger than their operands."""
        for value in (left, right):
            if isinstance(value, Undefined):
                str(value)  # raises the error that names what is missing
        if operator == "+" and isinstance(left, str) and isinstance(right, str):
            _check_length(len(left) + len(right))
            return left + right
        if operator == "+" and isinstance(left, list | tuple) and type(left) is type(right):
            if len(left) + len(right) > _MOST_ITEMS:
                raise OperandError("the list is too long", accepted=f"at most {_MOST_ITEMS} values")
            return super().call_binop(context, operator, left, right)
        if not (isinstance(left, int | float) and isinstance(right, int | float)):
            raise OperandError(f"the operands of '{operator}' must be numbers")
        if operator == "**" and (abs(right) > 64 or abs(left) > LARGEST):  # noqa: PLR2004 - 2**64 exceeds the limit
            raise OperandError("the result of ** is too large")
        result = super().call_binop(context, operator, left, right)
        if isinstance(result, int) and abs(result) > LARGEST:
            raise OperandError(f"the result of {operator} is too large")
        return result

    def call(self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401, PYI063 - Jinja's signature
        """Call a permitted object, as one step."""
        _spend(1)
        if isinstance(__obj, Undefined):
            str(__obj)
        if not isinstance(__obj, Macro | BlockReference | _Function | _Method):
            raise OperandError(f"{_shown(__obj)} cannot be called")
        if isinstance(__obj, _Function | _Method):
            for value in (*args, *kwargs.values()):
                if isinstance(value, Undefined):
                    str(value)
        return super().call(__context, __obj, *args, **kwargs)

    def getattr(self, obj: Any, attribute: str) -> Any:  # noqa: ANN401 - Jinja's signature
        """Return a permitted attribute."""
        if isinstance(obj, Undefined):
            str(obj)
        result: Any = _NOTHING
        if isinstance(obj, FactValue):
            result = _Method(obj, attribute) if attribute in obj.methods else obj.fact(attribute)
        elif isinstance(obj, LoopContext):
            result = _of_loop(obj, attribute)
        elif isinstance(obj, dict):
            result = _of_dictionary(obj, attribute)
        elif isinstance(obj, TemplateModule) and not attribute.startswith("_"):
            result = vars(obj).get(attribute, _NOTHING)
        return self.undefined(hint=f"{_shown(obj)} has no {attribute!r}") if result is _NOTHING else result

    def getitem(self, obj: Any, argument: Any) -> Any:  # noqa: ANN401 - Jinja's signature
        """Return the element at an index."""
        if isinstance(obj, dict) and isinstance(argument, str | int | float | tuple) and argument in obj:
            return obj[argument]
        if isinstance(obj, Undefined):
            str(obj)
        if (
            isinstance(obj, str | list | tuple | range)
            and isinstance(argument, int)
            and -len(obj) <= argument < len(obj)
        ):
            return obj[argument]
        return self.undefined(hint=f"{_shown(obj)} has no element {_shown(argument)}")


def _shown(value: object) -> str:
    if isinstance(value, list | dict):
        return f"a {'list' if isinstance(value, list) else 'dictionary'} of {len(value)}"
    return described(value)


class _Guarded(NodeTransformer):
    """A transformer that adds the step budget to loops and the length limit to concatenations."""

    def __init__(self, env: Sandbox) -> None:
        self.env = env

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - Jinja's name
        if node.recursive:
            raise TemplateSyntaxError("recursive loops are not supported", node.lineno)
        self.generic_visit(node)
        node.iter = self._filtered(node.iter, "turns")
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802 - Jinja's name
        self.generic_visit(node)
        return self._filtered(nodes.List(node.nodes, lineno=node.lineno), "joined")

    def _filtered(self, node: nodes.Node, name: str) -> nodes.Filter:
        wrapped = nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)
        wrapped.set_environment(self.env)
        return wrapped


# ---- filters


@pass_context
def _turns(context: Context, values: Any) -> Any:  # noqa: ANN401 - any iterable, or undefined
    """Count the iterations of a loop in advance. The context keeps Jinja from folding this at compile time."""
    del context
    if isinstance(values, Undefined):
        str(values)  # raises the error that names what is missing
    if not isinstance(values, Iterable):
        raise OperandError(f"a loop over {_shown(values)}", accepted="a list, a range, a text or a dictionary")
    items = values if isinstance(values, list | tuple | range | str) else list(islice(values, _MOST_ITEMS + 1))
    if len(items) > _MOST_ITEMS:
        raise OperandError("the list is too long", accepted=f"at most {_MOST_ITEMS} values")
    _spend(len(items))
    return items


def _text(value: Value) -> str:
    if isinstance(value, int) and abs(value) > LARGEST:
        raise OperandError("the number is too large to be written")
    return str(value)


def _joined(values: Iterable[Value], d: str = "") -> str:
    parts, length = [], 0
    for value in values:
        parts.append(_text(value))
        length += len(parts[-1]) + len(d)
        _check_length(length)
    return d.join(parts)


def _replace(text: str, old: str, new: str) -> str:
    text = _text(text)
    _check_length(len(text) + text.count(old) * len(new))
    return text.replace(old, new)


def _indent(text: str, width: int = 4, first: bool = False, blank: bool = False) -> str:
    """Indent a text by Jinja's filter, with a limit."""
    text = _text(text)
    if not isinstance(width, int) or not 0 <= width <= _MOST_INDENT:
        raise OperandError(f"indent by {_shown(width)}", accepted=f"a whole number from 0 to {_MOST_INDENT}")
    _check_length(len(text) + (text.count("\n") + 1) * width)
    return str(FILTERS["indent"](text, width, first, blank))


def _rounded(number: float, digits: int = 0) -> float:
    if not isinstance(digits, int) or abs(digits) > _MOST_DIGITS:
        raise OperandError(f"round: {_shown(digits)} digits", accepted=f"from -{_MOST_DIGITS} to {_MOST_DIGITS}")
    return round(float(number), digits)


_FILTERS = (
    *(
        "abs",
        "capitalize",
        "count",
        "d",
        "default",
        "first",
        "float",
        "int",
        "items",
        "last",
        "length",
        "list",
        "lower",
    ),
    *("max", "min", "reject", "reverse", "select", "sort", "string", "sum", "trim", "unique", "upper"),
)
"""Jinja filters without attribute access whose results are about as large as their inputs."""

_OWN_FILTERS: Mapping[str, Callable[..., Any]] = {
    "indent": _indent,
    "join": _joined,
    "joined": _joined,
    "replace": _replace,
    "round": _rounded,
    "turns": _turns,
}
_TESTS = (
    *("boolean", "defined", "divisibleby", "even", "false", "float", "in", "integer", "iterable", "lower", "mapping"),
    *("none", "number", "odd", "sequence", "string", "true", "undefined", "upper"),
    *("==", "!=", "<", "<=", ">", ">=", "eq", "ne", "lt", "le", "gt", "ge", "equalto", "greaterthan", "lessthan"),
)


# ---- errors


def _placed(error: Exception, template: Location) -> UserError:
    """Return an error of Jinja or of a called function, with the template's line."""
    if isinstance(error, TemplateSyntaxError):
        at = Location(error.filename or template.file, error.lineno)
        return UserError(f"the template has a syntax error: {error.message}", code="syntax", at=at)
    if isinstance(error, TemplateNotFound):
        return UserError(f"no such include: {error.name}", code="missing-file", at=template)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.endswith(".j2")]
    place = Location(frames[-1].filename, frames[-1].lineno) if frames else template
    if isinstance(error, RaisedError):
        return UserError(error.message, code="syntax", at=place)
    if isinstance(error, OperandError):
        message = f"the template fails: {error.message}"
        return UserError(message, code="syntax", at=place, accepted=error.accepted, suggestion=error.suggestion)
    if isinstance(error, MemoryError):
        return UserError("the template needs too much memory", code="out-of-range", at=place)
    return UserError(f"the template fails: {error}", code="user-code", at=place)
