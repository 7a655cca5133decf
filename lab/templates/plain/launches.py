"""Parser of kernel launches in host code: `add<float, 4><<<grid, block, bytes>>>(…)`.

Host code has names of its own: `main` computes `blocks` from `count`, which the kernel knows as `n`. A name that is
passed for a parameter of the kernel stands for that parameter, and any other for what the host gives it once. What
remains unknown, as a result of an occupancy query, is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from tree_sitter import Node

from lab.base.elements import ELEMENT_BYTES
from lab.base.errors import Location, UserError
from lab.base.expressions import evaluate
from lab.isa.cuda.definitions import definitions
from lab.isa.cuda.kernels import SourceKernel, read_kernels, template_parameter, type_aliases
from lab.isa.cuda.syntax_tree import (
    SourceTree,
    declarators,
    declared_name,
    find,
    function_around,
    line,
    parse,
    parse_expression,
    span,
    words,
    written,
)
from lab.isa.cuda.types import TYPE_NAMES, element_type

_SIDES = "xyz"
_MOST_STEPS = 100
"""Most names to follow in one expression."""
_INTEGER = re.compile(r"(0[xX][0-9a-fA-F']+|\d[\d']*)[uUlLzZ]*")
_FRACTION = re.compile(r"(-?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?)[fF]?")
_WORD = re.compile(r"[A-Za-z_]\w*")
_OPERATORS = {"+": "+", "-": "-", "*": "*", "%": "%", "/": "//", "<<": "<<", ">>": ">>"}
_FUNCTIONS = frozenset({"min", "max", "ceil_div"})
_DIVIDES_UP = re.compile(r"(?i)i?_?(ceil_?div(ide)?|div_?(round_?)?up|div_?ceil|cdiv|round_?up_?div|ceiling_?div\w*)")
_ROUNDED = re.compile(r"\((?P<all>.+) \+ (?:(?P<less>\d+)|\(?(?P<side>.+) - 1\)?)\) // (?P<by>\w+|\(.+\))")


@dataclass(frozen=True, slots=True)
class HostLaunch:
    """A launch, in experiment-file expressions over the kernel's parameters.

    Attributes:
        template: Arguments of the kernel's template, with numbers for constants; one that is unknown is empty.
        grid: Blocks along x, y and z, as far as there are several; empty where they are unknown.
        block: Threads of a block, likewise.
        shared_bytes: Dynamic shared memory of a block; empty where there is none, or nobody knows how much.
        counts: The host's variables that are sides of the grid; empty where a side is another expression.
        shared_words: These bytes as the host has them.
        values: What the host passes for the kernel's numbers, by their names.
        shares: The host passes one variable for several of them, so that a size in the grid may be the wrong one.
        lengths: Bytes that the host allocates for the kernel's arrays, by their names.
        cleared: Arrays that the host clears or copies to.
        variables: The host's variables that are passed for the kernel's parameters, by their names.
        line: The source line of the launch; 0 where there is none.
        stream: The stream as the host calls it; empty for the default stream.
        inside: Arrays of which the host passes a pointer behind their first element: `x + 3`, `&x[3]`.
        bytes_set: What `cudaMemset` fills arrays with that the host copies nothing to, by their names.
    """

    template: tuple[str, ...] = ()
    grid: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    shared_bytes: str = ""
    counts: tuple[str, ...] = ()
    shared_words: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    shares: bool = False
    lengths: Mapping[str, str] = field(default_factory=dict)
    cleared: frozenset[str] = frozenset()
    variables: Mapping[str, str] = field(default_factory=dict)
    line: int = 0
    stream: str = ""
    inside: frozenset[str] = frozenset()
    bytes_set: Mapping[str, int] = field(default_factory=dict)


class _Unknown(Exception):  # noqa: N818  a way out of an expression, not an error
    """Raised for an expression with a part known only at run time of the host."""


@dataclass(frozen=True, slots=True)
class HostCode:
    """The code of a source outside of its kernels.

    Attributes:
        source: The whole source.
        bodies: Offsets of the bodies of kernels.
        values: What the host gives names, by declarations and assignments.
        changed: Names that have further values: by `++`, `+=`, or a function that gets their address.
        reshaped: Names of which a member is assigned to.
    """

    source: SourceTree
    bodies: tuple[tuple[int, int], ...]
    values: Mapping[str, Sequence[Node]]
    changed: frozenset[str]
    reshaped: frozenset[str]

    def find(self, *kinds: str) -> list[Node]:
        """Return all nodes of some types outside of kernels."""
        return _outside(self.source.find(*kinds), self.bodies)


@lru_cache(maxsize=16)
def host_code(text: str) -> HostCode:
    """Read what a source has outside of its kernels."""
    source, bodies = parse(text), tuple(kernel.body for kernel in read_kernels(text))
    values: dict[str, list[Node]] = {definition.name: [] for definition in definitions(text)}
    for definition in definitions(text):
        if definition.value and not definition.function_like and (value := parse_expression(definition.value)):
            values[definition.name].append(value)
    changed, reshaped = set[str](), set[str]()
    for node in _outside(source.find(*_GIVING), bodies):
        for name, value in _given(node):
            values.setdefault(name, []).append(value)
        left = node.child_by_field_name("left")
        if left is not None and left.type == "field_expression":
            reshaped.add(written(left.children[0]))
        elif left is not None and node.children[1].type != "=":
            changed.add(written(left))
    altered = _outside(source.find("update_expression", "argument_list"), bodies)
    for node in altered:
        addresses = [one for one in node.children if one.type == "pointer_expression" and written(one).startswith("&")]
        for operand in addresses or [node]:
            argument = operand.child_by_field_name("argument")
            if argument is not None and argument.type == "identifier":
                changed.add(written(argument))
    return HostCode(source, bodies, values, frozenset(changed), frozenset(reshaped))


_GIVING = (
    *("init_declarator", "declaration", "field_declaration", "optional_parameter_declaration", "assignment_expression"),
)


def _given(node: Node) -> Iterator[tuple[str, Node]]:
    """Yield the names that a declaration or an assignment gives values."""
    if node.type == "assignment_expression":
        left, right = node.children[0], node.child_by_field_name("right")
        if left.type == "identifier" and node.children[1].type == "=" and right is not None:
            yield written(left), right
    elif node.type == "init_declarator":
        name, value = declared_name(node), node.child_by_field_name("value")
        if name is not None and value is not None:
            yield written(name), value
    else:
        for declarator in declarators(node):  # `dim3 grid(n, m);` reads as a function's declaration
            name, listed = declared_name(declarator), declarator.child_by_field_name("parameters")
            if declarator.type == "function_declarator" and name is not None and listed is not None:
                yield written(name), listed
        # if (int n = 3), void f(int n = 3)
        value = node.child_by_field_name("value") or node.child_by_field_name("default_value")
        name = declared_name(node.child_by_field_name("declarator"))
        if value is not None and name is not None:
            yield written(name), value


def _outside(nodes: Sequence[Node], bodies: Sequence[tuple[int, int]]) -> list[Node]:
    return [node for node in nodes if not any(low <= span(node)[0] < high for low, high in bodies)]


def read_launch(text: str, kernel: SourceKernel, known_names: Collection[str]) -> HostLaunch:
    """Read the first `<<<…>>>` launch of a kernel; return an empty one if there is none.

    Args:
        text: The source.
        kernel: One of its kernels.
        known_names: Names that the experiment has: sizes and parameters.
    """
    return next(iter(read_launches(text, kernel, known_names)), HostLaunch())


def read_launches(text: str, kernel: SourceKernel, known: Collection[str]) -> Iterator[HostLaunch]:
    """Yield the launches of a kernel by `<<<…>>>` in the order of the source; see `read_launch`."""
    host = host_code(text)
    for call in host.find("kernel_call_syntax"):
        launch = call.parent
        name = declared_name(launch.child_by_field_name("function")) if launch else None
        if launch is None or name is None or written(name) != kernel.name:
            continue
        template = [
            item for listed in find(launch.children[0], "template_argument_list")[:1] for item in _items(listed)
        ]
        arguments = launch.child_by_field_name("arguments")
        passed = list(zip(kernel.parameters, _items(arguments) if arguments else (), strict=False))
        sizes = [(word, one.name) for one, part in passed if one.name in known and (word := _variable(part))]
        named = [
            (word, one.name)
            for part, one in zip(template, kernel.template or (), strict=False)
            if one.name in known and (word := _variable(part))
        ]
        called = dict(reversed([*sizes, *named]))  # of two parameters, a variable stands for the first
        names = {name: name for name in known if name not in called.values()} | called
        function = function_around(launch)
        reader, numbers = _Reader(host, names, function), _Reader(host, {}, function)
        grid, block, shared, stream, *_ = (*_items(call), None, None, None, None)
        variables = {one.name: word for one, part in passed if (word := _variable(part))}
        buffers = {one.name: variables[one.name] for one, _ in passed if one.is_pointer and one.name in variables}
        lengths = {one: reader.extent(size) for one, size in _allocated(host, buffers)}
        yield HostLaunch(
            _arguments(text, host, numbers, template),
            reader.sides(grid, is_fixed=False) if grid else (),
            reader.sides(block, is_fixed=True) if block else (),
            bytes_ if shared and (bytes_ := reader.side(shared, is_fixed=True)) != "0" else "",
            reader.variables(grid) if grid else (),
            _joined(shared) if shared else "",
            {one.name: value for one, part in passed if not one.is_pointer and (value := numbers.number(part))},
            len({word for word, _ in sizes}) < len(sizes),
            {one: size for one, size in lengths.items() if size},
            frozenset(name for name, word in buffers.items() if word in _filled(host)),
            variables,
            line(launch),
            _joined(stream) if stream is not None and written(stream) != "0" else "",
            frozenset(one.name for one, part in passed if one.is_pointer and _is_moved(part)),
            _bytes_set(host, buffers, numbers),
        )


def launched_kernels(text: str, kernels: Sequence[SourceKernel]) -> tuple[SourceKernel, ...]:
    """Return the kernels that the host launches, each once, in the order of the source."""
    by_name = {kernel.name: kernel for kernel in reversed(kernels)}
    names = [
        written(name)
        for call in host_code(text).find("kernel_call_syntax")
        if call.parent is not None and (name := declared_name(call.parent.child_by_field_name("function"))) is not None
    ]
    return tuple(by_name[name] for name in dict.fromkeys(names) if name in by_name)


def _is_moved(part: Node) -> bool:
    """Return whether an argument is a pointer into an array: `x + 3`, `&x[3]`."""
    element = part.child_by_field_name("argument") if part.type == "pointer_expression" else None
    return part.type == "binary_expression" or (element is not None and element.type == "subscript_expression")


def _allocated(host: HostCode, buffers: Mapping[str, str]) -> Iterator[tuple[str, Node]]:
    """Yield the arrays that the host allocates with `cudaMalloc`, and their bytes."""
    for function, arguments in _calls(host):
        if not function.startswith("cudaMalloc") or len(arguments) < 2:  # noqa: PLR2004 - pointer and bytes
            continue
        yield from ((name, arguments[1]) for name, word in buffers.items() if word == _designated(arguments[0]))


def _filled(host: HostCode) -> set[str]:
    """Return the variables whose arrays the host clears or copies to, and those that it may fill itself."""
    filled = set[str]()
    for function, arguments in _calls(host):
        if function.startswith(("cudaMemset", "cudaMemcpy", "cudaMallocManaged", "cudaMallocHost")) and arguments:
            filled.add(_designated(arguments[0]))
    return filled


def _bytes_set(host: HostCode, buffers: Mapping[str, str], numbers: _Reader) -> dict[str, int]:
    """Return the byte that the host fills arrays with; none for an array that it fills otherwise, too."""
    given: dict[str, set[str]] = {}
    for function, arguments in _calls(host):
        if function.startswith(("cudaMemset", "cudaMemcpy", "cudaMallocManaged")) and len(arguments) > 1:
            is_set = function in ("cudaMemset", "cudaMemsetAsync")
            given.setdefault(_designated(arguments[0]), set()).add(numbers.number(arguments[1]) if is_set else "")
    words = {name: given.get(word, {""}) for name, word in buffers.items()}
    return {name: int(next(iter(of))) & 0xFF for name, of in words.items() if len(of) == 1 and "" not in of}


def _calls(host: HostCode) -> Iterator[tuple[str, list[Node]]]:
    for call in host.find("call_expression"):
        function, arguments = call.child_by_field_name("function"), call.child_by_field_name("arguments")
        if function is not None and arguments is not None:
            *_, name = ["", *words(function)]
            yield name if name != ">" else words(function)[0], _items(arguments)


def _designated(part: Node) -> str:
    """Return the variable in `(void **)&x`."""
    while True:
        inner = part.child_by_field_name("argument") if part.type == "pointer_expression" else None
        if part.type == "cast_expression":
            inner = part.child_by_field_name("value")
        elif part.type == "parenthesized_expression":
            inner = next(iter(part.named_children), None)
        elif part.type == "call_expression" and part.child_by_field_name("arguments") is not None:
            listed = part.child_by_field_name("arguments")
            # a method such as `host.data()` takes no argument
            inner = next(iter(listed.named_children), None) if listed is not None else None
        if inner is None:
            return written(part)
        part = inner


def extents_in(text: str, known_names: Collection[str]) -> Callable[[Node], str]:
    """Return a function that translates an array extent to experiment-file syntax; it returns "" for unknown ones.

    Args:
        text: The source.
        known_names: Names that the experiment has.
    """
    return _Reader(host_code(text), {name: name for name in known_names}).extent


def _items(listed: Node) -> list[Node]:
    """Return what stands between the commas of a list. An item of `dim3 grid(n, m);` is read as an expression."""
    nodes = listed.named_children
    if listed.type == "parameter_list":
        return [value for node in nodes if (value := parse_expression(written(node)))]
    return nodes


def _variable(expression: Node) -> str:
    """Return the variable passed as an argument, such as `rows` for `(int)rows`; empty if it is not a variable."""
    while expression.type not in ("identifier", "type_identifier"):
        inner = _behind_cast(expression)
        if inner is None:
            return ""
        expression = inner
    return written(expression)


def _behind_cast(node: Node) -> Node | None:
    """Return the position after a cast (`(int)`, `unsigned(…)`, `static_cast<int>`) or `ns::`; 0 if there is none."""
    type_, listed = node.child_by_field_name("type"), node.child_by_field_name("arguments")
    if node.type in ("parenthesized_expression", "type_descriptor") and node.named_child_count == 1:
        return node.named_child(0)
    if node.type == "qualified_identifier":
        return node.child_by_field_name("name")
    if node.type == "cast_expression" and type_ is not None:
        is_number = all(token in TYPE_NAMES or token.endswith("_t") for token in words(type_))
        return node.child_by_field_name("value") if is_number else None
    if node.type == "call_expression" and listed is not None and listed.named_child_count == 1:
        function = words(node.children[0])
        is_cast = "static_cast" in function[:1] or TYPE_NAMES.issuperset(function[-1:])
        return listed.named_child(0) if is_cast else None
    return None


def _arguments(text: str, host: HostCode, numbers: _Reader, template: Sequence[Node]) -> tuple[str, ...]:
    """Return template arguments: numbers, else types; empty if a host template leaves one open."""
    aliases = type_aliases(text) if template else {}
    types = host.find("type_parameter_declaration", "optional_type_parameter_declaration")
    open_ = {written(name) for one in types if (name := template_parameter(one)[0])}

    def argument(expression: Node) -> str:
        text_ = _joined(expression)
        if number := {"true": "1", "false": "0"}.get(text_, "") or numbers.number(expression):
            return number
        return aliases.get(text_, "" if open_.intersection(words(expression)) else text_)

    return tuple(map(argument, template))


def _joined(part: Node) -> str:
    """Join words to a text, with blanks around operators."""
    return re.sub(r"(?<!\w) | (?!\w)", "", " ".join(words(part)))


class _Reader:
    """A translator of host expressions to experiment-file expressions."""

    def __init__(self, host: HostCode, names: Mapping[str, str], function: Node | None = None) -> None:
        """Store the host code, macros and names.

        Args:
            host: The host code.
            names: What names of the host are called in the experiment; other names are followed.
            function: The function whose variables the expressions name, if it declares them.
        """
        self._host, self._names, self._function = host, names, function
        self._steps = 0

    def sides(self, expression: Node, *, is_fixed: bool) -> tuple[str, ...]:
        """Return the sides of a grid or block by `side`; nothing if one is unknown."""
        sides = [self.side(side, is_fixed=is_fixed) for side in self._listed(expression)]
        while len(sides) > 1 and sides[-1] == "1":
            sides.pop()
        return tuple(sides) if all(sides) else ()

    def variables(self, expression: Node) -> tuple[str, ...]:
        """Return the variable of each side of a grid, empty for a side that is another expression; () without any."""
        names = tuple(_variable(side) for side in self._listed(expression))
        return names if any(names) else ()

    def side(self, expression: Node, *, is_fixed: bool) -> str:
        """Translate an expression; return "" if it is unknown.

        Args:
            expression: The host's.
            is_fixed: What is computed from numbers alone is so whatever the sizes are; otherwise, it is unknown.
        """
        result = self.extent(expression)
        if set(_WORD.findall(result)) - _FUNCTIONS or result.isdigit():
            return result
        return _number(result) if is_fixed else ""

    def extent(self, expression: Node) -> str:
        """Translate an expression, which may be purely numeric; return "" if it is unknown."""
        self._steps = 0
        try:
            return _simplified(self._expression(expression))
        except _Unknown:
            return ""

    def number(self, expression: Node) -> str:
        """Return the number of an expression in experiment-file syntax; empty if it is not a number."""
        self._steps = 0
        try:
            if _WORD.fullmatch(name := written(expression)):
                expression = self._value(name)
            if match := _FRACTION.fullmatch("".join(words(expression))):
                return match[1]
            return _number(_simplified(self._expression(expression)))
        except _Unknown:
            return ""

    def _listed(self, expression: Node) -> Sequence[Node]:
        """Return the sides of `dim3(…)`, a host `dim3` variable or a single number."""
        name = written(expression)
        sides = sides_of(expression) or (self._dimensions(name) if name not in self._names else ())
        return sides or [expression]

    def _dimensions(self, name: str) -> Sequence[Node]:
        """Return the sides of a `dim3` the host declares once; nothing if there is none or its sides change."""
        values = self._values(name)
        return sides_of(values[0]) if len(values) == 1 and name not in self._host.reshaped else ()

    def _expression(self, node: Node) -> str:
        """Translate an expression.

        Raises:
            _Unknown: A part of it is.
        """
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise _Unknown
        operator = node.child_by_field_name("operator")
        if operator is not None and written(operator) in _OPERATORS and node.type.startswith(("binary", "unary")):
            parts = [one if one == operator else self._expression(one) for one in node.children]
            return " ".join(one if isinstance(one, str) else _OPERATORS[written(one)] for one in parts)
        if node.type in ("identifier", "type_identifier"):
            name = written(node)
            return self._names[name] if name in self._names else self._within(self._value(name))
        if node.type == "number_literal" and (number := _INTEGER.fullmatch(written(node))):
            digits = number[1].replace("'", "")
            return str(int(digits, 16)) if digits[:2] in ("0x", "0X") else digits
        if node.type == "sizeof_expression":
            return _bytes_of(" ".join(words(node)[2:-1]))
        if node.type == "field_expression":
            return self._side(written(node.children[0]), written(node.children[-1]))
        return self._call_or_cast(node)

    def _call_or_cast(self, node: Node) -> str:
        if (inner := _behind_cast(node)) is not None:
            return self._within(inner) if node.type.endswith("expression") else self._expression(inner)
        function, listed = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if function is None or listed is None:
            raise _Unknown
        *_, name = ["", *words(function)]
        if name not in _FUNCTIONS:
            if not _DIVIDES_UP.fullmatch(name):
                raise _Unknown
            name = "ceil_div"
        return f"{name}({', '.join(map(self._expression, listed.named_children))})"

    def _side(self, name: str, side: str) -> str:
        sides = self._dimensions(name)
        if not sides or side not in _SIDES:
            raise _Unknown
        place = _SIDES.index(side)
        return self._within(sides[place]) if place < len(sides) else "1"

    def _within(self, node: Node) -> str:
        result = _simplified(self._expression(node))
        return result if re.fullmatch(r"\w+|\w+\([^()]*\)", result) else f"({result})"

    def _values(self, name: str) -> Sequence[Node]:
        """Return what the host gives a name: in the function, or anywhere where the function gives it nothing."""
        values = self._host.values.get(name, ())
        own = [value for value in values if self._function is not None and function_around(value) == self._function]
        return own or values

    def _value(self, name: str) -> Node:
        """Return the only value that the host assigns to a name.

        Raises:
            _Unknown: It gives it nothing or several values, or lets a function write there.
        """
        values = self._values(name)
        if name in self._host.changed | self._host.reshaped or len({_joined(value) for value in values}) != 1:
            raise _Unknown
        value = values[0]
        if value.type in ("initializer_list", "argument_list"):  # `int n{3};`, `int n(3);`
            if value.named_child_count != 1:
                raise _Unknown
            value = value.named_children[0]
        return value


def sides_of(value: Node) -> Sequence[Node]:
    """Return the sides in `dim3(…)`, `dim3{…}`, `{…}`, or in what stands behind a name, `(…)`."""
    if value.type in ("call_expression", "compound_literal_expression") and written(value.children[0]) == "dim3":
        value = value.children[-1]
    return _items(value) if value.type in ("argument_list", "initializer_list", "parameter_list") else ()


def _bytes_of(c_type: str) -> str:
    """Return the size of a type in bytes, as text.

    Raises:
        _Unknown: It is a structure, or a variable.
    """
    element = element_type(c_type)
    if element is None or element.dtype not in ELEMENT_BYTES:
        raise _Unknown
    return str(ELEMENT_BYTES[element.dtype] * element.lanes)


def _simplified(text: str) -> str:
    """Return an expression with rounded-up quotients as `ceil_div` and constant products evaluated."""
    while text[:1] == "(" and text[-1:] == ")" and _is_whole(text[1:-1]):
        text = text[1:-1]
    if (match := _ROUNDED.fullmatch(text)) and _is_whole(match["all"]) and _is_whole(match["by"].strip("()")):
        by = _simplified(match["by"])
        if match["side"] == by or (match["less"] and by == str(int(match["less"]) + 1)):
            return f"ceil_div({_simplified(match['all'])}, {by})"
    return (re.fullmatch(r"\d+(?: \* \d+)+|\d+ << \d{1,2}", text) and _number(text)) or text


def _number(expression: str) -> str:
    """Return the integer value of an expression; empty if it has names or is not an integer."""
    try:
        value = evaluate(expression, {}, at=Location(Path()), key="")
    except UserError:
        return ""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def _is_whole(text: str) -> bool:
    """Return whether brackets are balanced."""
    depth = 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if depth < 0:
            return False
    return depth == 0
