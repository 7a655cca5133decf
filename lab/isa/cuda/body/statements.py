"""Executes a kernel's statements symbolically: a loop's body once, its variables being functions of the turn."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from lab.base.elements import ELEMENT_BYTES
from lab.isa.cuda.body.expressions import Expressions, bytes_of
from lab.isa.cuda.body.outer_declarations import Surroundings, assigned_in, surroundings
from lab.isa.cuda.body.polynomials import ONE, ZERO, Polynomial, atom
from lab.isa.cuda.body.symbolic_values import (
    BLOCK,
    THREAD,
    IndexBound,
    KernelBody,
    Opaque,
    Pointer,
    Stride,
    Structure,
    Value,
)
from lab.isa.cuda.kernels import SourceKernel, SourceParameter
from lab.isa.cuda.struct_declarations import parts_of, read_structures
from lab.isa.cuda.syntax_tree import (
    arrays_in,
    declarators,
    declared_name,
    find,
    leaves,
    line,
    parse,
    parse_expression,
    span,
    words,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

_LEAVING = ("return_statement", "continue_statement", "break_statement")
_STORAGE = {"__shared__", "extern", "static", "const", "volatile"}
_FLOATING = {"float", "double", "half", "__half", "__nv_bfloat16", "real"}


@lru_cache(maxsize=16)
def read_body(text: str, kernel: SourceKernel) -> KernelBody | None:
    """Execute a kernel symbolically; None where its body cannot be found in the tree.

    Args:
        text: The source.
        kernel: One of its kernels.
    """
    function = next(
        (
            node
            for node in parse(text).find("function_definition")
            if (body := node.child_by_field_name("body")) is not None and span(body) == kernel.body
        ),
        None,
    )
    if function is None:
        return None
    reader = _Statements(surroundings(text), *_parameters(text, kernel, function))
    reader.run(function.child_by_field_name("body"))
    found = reader.found
    return KernelBody(
        tuple(found.accesses),
        tuple(found.shared),
        found.opaque,
        tuple(found.strides),
        frozenset(found.escaped),
        tuple(found.guards),
    )


def _parameters(text: str, kernel: SourceKernel, function: Node) -> tuple[dict[str, Value], dict[str, str]]:
    """Return the values of a kernel's parameters, and the element types of its arrays."""
    structures = read_structures(text)
    values: dict[str, Value] = {}
    kinds: dict[str, str] = {}
    listed = next(iter(find(function, "parameter_list")), None)
    inner = _inner_extents(listed) if listed is not None else {}

    def declare(parameter: SourceParameter, path: str) -> None:
        if parameter.is_pointer:
            kind = _element(parameter)
            kinds[path] = kind
            constants = Expressions(surroundings(text), {}, {})
            extents = tuple(constants.number(node) for node in inner.get(path, ()))
            values[path] = Pointer(path, ZERO, bytes_of(kind), extents, rank=len(extents) + 1)
        elif parts := parts_of(parameter, structures):
            values[path] = Structure(path)
            for part in parts:
                declare(part, f"{path}.{part.name}")
        else:
            values[path] = atom(path)

    for parameter in kernel.parameters:
        if parameter.name:
            declare(parameter, parameter.name)
    return values, kinds


def _element(parameter: SourceParameter) -> str:
    """Return a parameter's element type as C++ calls it."""
    if parameter.dtype is None or parameter.dtype not in ELEMENT_BYTES:
        return " ".join(word for word in parameter.c_type.replace("*", "").split() if word not in ("const", "volatile"))
    return " ".join(parameter.c_type.replace("*", "").replace("const", "").split()) or parameter.dtype


def _inner_extents(listed: Node) -> dict[str, tuple[Node, ...]]:
    """Return the extents behind the first of parameters that are arrays: those of `float a[][N]`."""
    extents = {}
    for node in listed.named_children:
        declarator = node.child_by_field_name("declarator")
        name, arrays = declared_name(declarator), arrays_in(declarator)
        if name is not None and len(arrays) > 1:
            sizes = [array.child_by_field_name("size") for array in arrays[1:]]
            extents[written(name)] = tuple(size for size in sizes if size is not None)
    return extents


class _Statements(Expressions):
    """Executes statements."""

    def __init__(self, names: Surroundings, variables: Mapping[str, Value], kinds: Mapping[str, str]) -> None:
        """See `Expressions`."""
        super().__init__(names, variables, kinds)
        self._results: list[Value] = []

    def run(self, node: Node | None) -> None:
        """Execute a statement."""
        if node is None:
            return
        handler = getattr(self, f"_run_{node.type}", None)
        if handler is not None:
            handler(node)
        elif node.type.endswith("_expression"):
            self.value(node)
        else:
            for child in node.named_children:
                self.run(child)

    def _run_function_definition(self, _: Node) -> None:
        """A nested function is not executed where it stands."""

    def _run_compound_statement(self, node: Node) -> None:
        before = dict(self.variables)
        declared = set[str]()
        for child in node.named_children:
            if child.type == "declaration":
                declared |= {
                    written(own) for declarator in declarators(child) if (own := declared_name(declarator)) is not None
                }
            self.run(child)
        for name in declared:
            if name in before:
                self.variables[name] = before[name]
            else:
                self.variables.pop(name, None)

    def _run_declaration(self, node: Node) -> None:
        head = words(node, *declarators(node))
        is_shared, type_ = "__shared__" in head, node.child_by_field_name("type")
        words_of = [word for word in head if word.isidentifier() and word not in _STORAGE]
        unit = bytes_of(" ".join(words_of))
        for declarator in declarators(node):
            name = declared_name(declarator)
            if name is None:
                continue
            value = declarator.child_by_field_name("value") if declarator.type == "init_declarator" else None
            arrays = arrays_in(declarator)
            self.variables[written(name)] = (
                self._array(written(name), arrays, unit, is_shared=is_shared, value=value)
                if arrays or is_shared
                else self._declared(declarator, value, type_, head)
            )

    def _array(self, name: str, arrays: Sequence[Node], unit: int, *, is_shared: bool, value: Node | None) -> Pointer:
        if value is not None:
            self.value(value)
        sizes = [array.child_by_field_name("size") for array in arrays]
        extents = tuple(self.number(size) if size is not None else None for size in sizes)
        inner = tuple(extent if extent is not None else self.fresh(Opaque()) for extent in extents[1:])
        space = "shared" if is_shared else "local"
        return Pointer(name, ZERO, unit, inner, space, (), extents, max(1, len(extents)))

    def _declared(self, declarator: Node, value: Node | None, type_: Node | None, head: Sequence[str]) -> Value:
        """Return the first value of a variable."""
        if value is None:  # `T w(0);` reads as a function
            parameters = declarator.child_by_field_name("parameters")
            if parameters is not None:
                before, self._line = self._line, self._line or line(declarator)
                for item in parameters.named_children:
                    self.value(parse_expression(written(item)))
                self._line = before
                return self.fresh(Opaque(is_data=True))
            return self.fresh(Opaque())
        if value.type in ("initializer_list", "argument_list"):
            items = [self.value(child) for child in value.named_children]
            value_ = items[0] if len(items) == 1 else self.unknown(*items)
        else:
            inner = declarator.child_by_field_name("declarator")
            is_reference = inner is not None and inner.type == "reference_declarator"
            place = self.place(value) if is_reference else None
            value_ = place if place is not None else self.value(value)
        if isinstance(value_, Polynomial) and _FLOATING & set(head) and type_ is not None:
            return self.fresh(Opaque(is_data=True))
        return value_

    def _run_expression_statement(self, node: Node) -> None:
        for child in node.named_children:
            self.value(child)

    def _comma_expression(self, node: Node) -> Value:
        values = [self.value(child) for child in node.named_children]
        return values[-1]

    def _run_if_statement(self, node: Node) -> None:
        condition = node.child_by_field_name("condition")
        if condition is not None:
            self.run(condition.child_by_field_name("initializer"))
        when, unless = self.condition(condition, node.id)
        consequence, alternative = node.child_by_field_name("consequence"), node.child_by_field_name("alternative")
        before = dict(self.variables)
        with self.under(when):
            self.run(consequence)
        after = self.variables
        self.variables = dict(before)
        with self.under(unless):
            self.run(alternative)
        leaves_first, leaves_second = _leaves(consequence), _leaves(alternative)
        if leaves_first:
            self._hold(unless)
        elif leaves_second:
            self.variables = after
            self._hold(when)
        else:
            for name in before:
                self.variables[name] = self.merged(after[name], self.variables[name], when, unless)

    def _hold(self, bounds: Sequence[IndexBound]) -> None:
        """Let conditions hold until the end of the enclosing branch."""
        kept = [IndexBound(bound.excess, bound.line, -1, is_assumed=bound.is_assumed) for bound in bounds]
        self.bounds += kept
        self.found.guards += kept

    def _run_for_statement(self, node: Node) -> None:
        before = dict(self.variables)
        self.run(node.child_by_field_name("initializer"))
        self._loop(node, node.child_by_field_name("condition"), node.child_by_field_name("update"))
        self._forget(before)

    def _run_while_statement(self, node: Node) -> None:
        self._loop(node, node.child_by_field_name("condition"), None)

    def _run_do_statement(self, node: Node) -> None:
        self._loop(node, None, None)

    def _run_for_range_loop(self, node: Node) -> None:
        self.run(node.child_by_field_name("body"))

    def _run_switch_statement(self, node: Node) -> None:
        self.number(node.child_by_field_name("condition"))
        changed = assigned_in(node)
        with self.under([IndexBound(None, line(node))]):
            self.run(node.child_by_field_name("body"))
        self._scramble(changed)

    def _loop(self, node: Node, condition: Node | None, update: Node | None) -> None:
        body = node.child_by_field_name("body")
        changed = sorted(name for name in assigned_in(node) if name in self.variables)
        turn, after = f"@{node.start_byte:08}", dict[str, Value]()
        steps = {name: step for name in changed if (step := self._step(name, node, body, update)) is not None}
        for name in changed:
            start, step = self.variables[name], steps.get(name)
            if isinstance(start, Polynomial):
                self.variables[name] = self._varying(name, start, step, node, turn)
            elif isinstance(start, Pointer):
                offset = start.offset + atom(turn) * step if step is not None else self.fresh(Opaque())
                self.found.opaque.setdefault(turn, Opaque(lower=ZERO))
                self.variables[name] = replace(start, offset=offset)
        bounds, _ = self.condition(condition, -1) if condition is not None else ([], [])
        with self.under([*self._rounded(bounds, turn), *bounds]):
            self.run(body)
            self.run(update)
        after.update(self.variables)
        self._scramble(changed)

    def _rounded(self, bounds: Sequence[IndexBound], turn: str) -> Iterator[IndexBound]:
        """Yield what holds where a loop's step divides the length that it covers, as a tile's width does."""
        meaning = self.found.opaque.get(turn)
        if meaning is None or meaning.step is None or meaning.step == ONE:
            return
        for bound in bounds:
            if bound.excess is None or bound.excess.coefficient((turn,)) != meaning.step:
                continue
            if not any(name in bound.excess.atoms for name in (*THREAD, *BLOCK)):
                yield IndexBound(bound.excess + meaning.step - ONE, bound.line, is_assumed=True)

    def _varying(self, name: str, start: Polynomial, step: Polynomial | None, node: Node, turn: str) -> Polynomial:
        """Return a loop's variable as a function of the turn."""
        if step is not None:
            if turn not in self.found.opaque:
                self.found.opaque[turn] = Opaque(lower=ZERO, step=step)
            if any(axis in start.atoms for axis in THREAD):
                self.found.strides.append(Stride(start, step, line(node)))
            return start + atom(turn) * step
        changes = find(node, "assignment_expression", "update_expression")
        operators = {
            written(inner.children[1]) if inner.type == "assignment_expression" else "++"
            for inner in changes
            if _target(inner) == name
        }
        shrinks, grows = (bool(operators) and operators <= signs for signs in ({">>=", "/="}, {"<<=", "*="}))
        lower = ZERO if shrinks else start if grows else None
        return self.fresh(Opaque((start,) if shrinks else (), lower=lower, is_data=self.depends_on_data(start)))

    def _step(  # noqa: PLR0911 - a form of assignment each
        self, name: str, node: Node, body: Node | None, update: Node | None
    ) -> Polynomial | None:
        """Return what a turn adds to a variable; None where it is not the same for each turn."""
        changes = [
            inner
            for inner in find(node, "assignment_expression", "update_expression")
            if _target(inner) == name and (update is None or inner.start_byte >= update.start_byte)
        ]
        if len(changes) != 1:
            return None
        change = changes[0]
        if not (update is not None and _is_within(change, update)) and not _is_plain(change, body):
            return None
        if change.type == "update_expression":
            return ONE if "++" in [written(child) for child in change.children] else -ONE
        operator, right = written(change.children[1]), change.child_by_field_name("right")
        if operator == "=" and right is not None and right.type == "binary_expression":
            parts = [written(child) for child in right.children]
            if name not in parts or parts[1] not in ("+", "-") or (parts[1] == "-" and parts[0] != name):
                return None
            operator, right = f"{parts[1]}=", right.children[2 if parts[0] == name else 0]
        if (
            operator not in ("+=", "-=")
            or right is None
            or assigned_in(node) & {written(leaf) for leaf in leaves(right)}
        ):
            return None
        amount = self.value(right)
        if not isinstance(amount, Polynomial) or self.depends_on_data(amount):
            return None
        return amount if operator == "+=" else -amount

    def _scramble(self, names: Collection[str]) -> None:
        """Forget the values of variables behind a loop that changed them."""
        for name in sorted(self.variables.keys() & set(names)):
            value = self.variables[name]
            if isinstance(value, Polynomial):
                self.variables[name] = self.fresh(Opaque(is_data=self.depends_on_data(value)))
            elif isinstance(value, Pointer):
                offset = self.fresh(Opaque())
                self.variables[name] = replace(value, offset=offset)

    def _forget(self, before: dict[str, Value]) -> None:
        self.variables = {name: self.variables.get(name, value) for name, value in before.items()}

    def _run_return_statement(self, node: Node) -> None:
        values = [self.value(child) for child in node.named_children]
        if values:
            self._results.append(values[0])

    def executed(self, function: Node, values: Sequence[Value]) -> Value:
        """Execute a function of the source in place, and return its result."""
        listed = next(iter(find(function, "parameter_list")), None)
        nodes = [child for child in (listed.named_children if listed else []) if "parameter" in child.type]
        names = [declared_name(node.child_by_field_name("declarator")) for node in nodes]
        given = {written(name): value for name, value in zip(names, values, strict=False) if name is not None}
        size, results = len(self.bounds), self._results
        self._results = []
        with self.binding(given):
            self.run(function.child_by_field_name("body"))
        del self.bounds[size:]
        returned, self._results = self._results, results
        if len(returned) == 1:
            return returned[0]
        numbers = [value for value in returned if isinstance(value, Polynomial)]
        return self.fresh(Opaque(choices=tuple(numbers))) if numbers else self.fresh(Opaque(is_data=True))


def _leaves(node: Node | None) -> bool:
    """Return whether a statement ends a function or a loop's turn."""
    while node is not None and node.type in ("compound_statement", "else_clause") and node.named_child_count:
        node = node.named_child(node.named_child_count - 1)
    return node is not None and node.type in _LEAVING


def _target(change: Node) -> str:
    target = change.child_by_field_name("left") or change.child_by_field_name("argument")
    return written(target) if target is not None and target.type == "identifier" else ""


def _is_within(node: Node, outer: Node) -> bool:
    return outer.start_byte <= node.start_byte and node.end_byte <= outer.end_byte


def _is_plain(change: Node, body: Node | None) -> bool:
    """Return whether a change is a statement of a loop's body itself, and not of a branch in it."""
    parent = change.parent
    while parent is not None and parent.type in ("expression_statement", "comma_expression"):
        parent = parent.parent
    return parent is not None and body is not None and parent == body
