"""Evaluates the expressions of a kernel to polynomials and pointers, and records what they access."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from lab.base.elements import ELEMENT_BYTES
from lab.isa.cuda.body.polynomials import ONE, ZERO, Polynomial, atom, number
from lab.isa.cuda.body.symbolic_values import (
    BLOCK,
    BLOCK_SIDES,
    GRID_SIDES,
    THREAD,
    Found,
    GlobalAccess,
    IndexBound,
    Opaque,
    Pointer,
    SharedAccess,
    Structure,
    ThreadGroup,
    Touch,
    Value,
)
from lab.isa.cuda.syntax_tree import line, parse_expression, words, written
from lab.isa.cuda.types import TYPE_NAMES, element_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tree_sitter import Node

    from lab.isa.cuda.body.outer_declarations import Surroundings

_INTEGER = re.compile(r"(0[xX][0-9a-fA-F']+|0[bB][01']+|\d[\d']*)[uUlLzZ]*")
_DIVIDES_UP = re.compile(r"(?i)i?_?(ceil_?div(ide)?|div_?(round_?)?up|div_?ceil|cdiv|round_?up_?div|ceiling_?div\w*)")
_BUILTIN = {*THREAD, *BLOCK, *BLOCK_SIDES, *GRID_SIDES}
_OF_GROUPS = {
    "group_index": "blockIdx",
    "block_index": "blockIdx",
    "thread_index": "threadIdx",
    "group_dim": "blockDim",
    "dim_threads": "blockDim",
    "dim_blocks": "gridDim",
}
_GROUPS = {
    "this_thread_block": "block",
    "this_grid": "grid",
    "tiled_partition": "tile",
    "coalesced_threads": "tile",
}
_WARP = 32
_MOST_TERMS = 40
_DEEPEST_CALL = 6
_RANGES = {"uint8": (0, 255), "int8": (-128, 127), "uint16": (0, 65535), "int16": (-32768, 32767), "bool": (0, 1)}


class Returned(Exception):  # noqa: N818 - a way out of a function, not an error
    """A function that is executed in place has returned."""


class Expressions:
    """The state of a symbolic execution, and the values of expressions in it."""

    def __init__(self, names: Surroundings, variables: Mapping[str, Value], kinds: Mapping[str, str]) -> None:
        """Begin.

        Args:
            names: What the source declares outside of the kernel.
            variables: Values of the kernel's parameters.
            kinds: Element types of arrays, by name.
        """
        self.found = Found()
        self.names = names
        self.variables: dict[str, Value] = dict(variables)
        self.bounds: list[IndexBound] = []
        self._kinds = dict(kinds)
        self._memo: dict[tuple[str, Polynomial, Polynomial], Polynomial] = {}
        self._depth = 0
        self._line = 0

    # -- atoms -------------------------------------------------------------------------------------------------------

    def fresh(self, meaning: Opaque) -> Polynomial:
        """Return a new atom."""
        name = f"#{len(self.found.opaque)}"
        self.found.opaque[name] = meaning
        return atom(name)

    def unknown(self, *sources: Value | None) -> Polynomial:
        """Return a new atom of which nothing is known but whether its sources depend on data."""
        return self.fresh(Opaque(is_data=any(self.depends_on_data(source) for source in sources)))

    def depends_on_data(self, value: Value | None) -> bool:
        """Return whether a value depends on the content of an array."""
        atoms = value.atoms if isinstance(value, Polynomial) else frozenset()
        return any(name in self.found.opaque and self.found.opaque[name].is_data for name in atoms)

    def divided(self, left: Polynomial, right: Polynomial) -> Polynomial:
        """Return the quotient, rounded down."""
        if right == ONE or not left.terms:
            return left
        if (exact := left.quotient(right)) is not None:
            return exact
        if left.number is not None and right.number:
            return number(left.number // right.number)
        if (up := (left - right + ONE)) and right.number != 1 and self._is_size(right) and _loses(left, right):
            return self._operation("ceil", up, right)
        return self._operation("/", left, right)

    def remainder(self, left: Polynomial, right: Polynomial) -> Polynomial:
        """Return the remainder."""
        if left.quotient(right) is not None:
            return ZERO
        if left.number is not None and right.number:
            return number(left.number % right.number)
        return self._operation("%", left, right)

    def _operation(self, operation: str, left: Polynomial, right: Polynomial) -> Polynomial:
        key = (operation, left, right)
        if key not in self._memo:
            uppers = (right - ONE,) if operation == "%" else ()
            self._memo[key] = self.fresh(
                Opaque(
                    uppers,
                    lower=ZERO,
                    is_data=self.depends_on_data(left) or self.depends_on_data(right),
                    operation=operation,
                    operands=(left, right),
                )
            )
        return self._memo[key]

    def _is_size(self, value: Polynomial) -> bool:
        return not any(name.startswith("#") or name in THREAD or name in BLOCK for name in value.atoms)

    def _difference(self, left: Polynomial, right: Polynomial) -> Polynomial:
        """Return a difference; `x - x / y * y` is the remainder."""
        result = left - right
        for name in sorted(right.atoms):
            meaning = self.found.opaque.get(name)
            if meaning is not None and meaning.operation == "/":
                dividend, divisor = meaning.operands
                if right == atom(name) * divisor:
                    return result - dividend + right + self.remainder(dividend, divisor)
        return result

    # -- accesses ----------------------------------------------------------------------------------------------------

    def touch(self, pointer: Pointer, touch: Touch, node: Node) -> None:
        """Record an access."""
        if pointer.space == "shared":
            known = pointer.indices if pointer.extents and len(pointer.indices) == len(pointer.extents) else None
            indices = known or (pointer.offset,)
            extents = pointer.extents if known or len(pointer.extents) == 1 else (None,)
            self.found.shared.append(
                SharedAccess(
                    pointer.array, indices, extents, tuple(self.bounds), self._line or line(node), pointer.unit
                )
            )
        elif pointer.space == "global":
            own = self._bytes(pointer.array)
            index, span = pointer.offset, 1
            if pointer.unit != own and own and pointer.unit:
                index = self.divided(pointer.offset * number(pointer.unit), number(own))
                span = max(1, pointer.unit // own)
            self.found.accesses.append(
                GlobalAccess(pointer.array, index, span, touch, tuple(self.bounds), self._line or line(node))
            )

    def _bytes(self, array: str) -> int:
        return bytes_of(self._kinds.get(array, ""))

    def _loaded(self, pointer: Pointer, node: Node) -> Polynomial:
        self.touch(pointer, Touch.LOAD, node)
        element = element_type(self._kinds.get(pointer.array, ""))
        is_view = pointer.unit != self._bytes(pointer.array)
        low, high = _RANGES.get(element.dtype if element and not is_view else "", (None, None))
        uppers = (number(high),) if high is not None else ()
        is_integer = pointer.space == "global" and element is not None and "int" in element.dtype and not is_view
        return self.fresh(
            Opaque(
                uppers,
                lower=number(low) if low is not None else None,
                is_data=True,
                array=pointer.array if is_integer else "",
            )
        )

    # -- expressions -------------------------------------------------------------------------------------------------

    def number(self, node: Node | None) -> Polynomial:
        """Return the value of an expression that is a number."""
        value = self.value(node)
        return value if isinstance(value, Polynomial) else self.unknown()

    def value(self, node: Node | None) -> Value:
        """Return the value of an expression, and record its accesses."""
        if node is None:
            return self.unknown()
        handler = getattr(self, f"_{node.type}", None)
        value: Value
        if handler is not None:
            value = handler(node)
        else:
            parts = [self.value(child) for child in node.named_children]
            value = parts[0] if len(parts) == 1 and node.type == "parenthesized_expression" else self.unknown(*parts)
        if isinstance(value, Polynomial) and len(value.terms) > _MOST_TERMS:
            return self.unknown(value)
        return value

    def _number_literal(self, node: Node) -> Value:
        match = _INTEGER.fullmatch(written(node))
        if match is None:
            text = re.sub(r"[fF]$", "", written(node))
            return number(int(float(text))) if re.fullmatch(r"\d+\.0*", text) else self.fresh(Opaque())
        digits = match[1].replace("'", "")
        is_octal = digits.startswith("0") and digits.isdecimal() and len(digits) > 1
        return number(
            int(digits, 8) if is_octal and not set(digits) & {"8", "9"} else int(digits, 0 if not is_octal else 10)
        )

    def _true(self, _: Node) -> Value:
        return ONE

    def _false(self, _: Node) -> Value:
        return ZERO

    def _identifier(self, node: Node) -> Value:
        name = written(node)
        if name in self.variables:
            value = self.variables[name]
            return self._loaded(value, node) if isinstance(value, Pointer) and not value.rank else value
        if name == "warpSize":
            return number(_WARP)
        if (constant := self.names.constants.get(name)) is not None and self._depth < _DEEPEST_CALL:
            self._depth += 1
            try:
                return self.value(constant)
            finally:
                self._depth -= 1
        if name in self.names.arrays:
            inner = tuple(self.number(extent) for extent in self.names.arrays[name][1:])
            return Pointer(name, ZERO, 1, inner, space="local", rank=len(inner) + 1)
        return atom(name)

    def _field_expression(self, node: Node) -> Value:
        argument, member = node.child_by_field_name("argument"), node.child_by_field_name("field")
        name = f"{written(argument)}.{written(member)}" if argument and member else ""
        if name in _BUILTIN:
            return atom(name)
        if (
            argument is not None
            and argument.type == "call_expression"
            and (index := self._of_group(argument, written(member) if member else ""))
        ):
            return index
        value = self.value(argument)
        if isinstance(value, Structure):
            path = f"{value.path}.{written(member) if member else ''}"
            return self.variables.get(path, atom(path))
        if isinstance(value, Pointer) and "->" in [written(child) for child in node.children]:
            return self._loaded(value, node)
        return self.unknown(value) if isinstance(value, Polynomial) else self.fresh(Opaque(is_data=True))

    def _of_group(self, call: Node, axis: str) -> Polynomial | None:
        function = call.child_by_field_name("function")
        method = function.child_by_field_name("field") if function is not None else None
        word = _OF_GROUPS.get(written(method)) if method is not None else None
        return atom(f"{word}.{axis}") if word and axis in "xyz" else None

    def _cast_expression(self, node: Node) -> Value:
        return self._cast(node.child_by_field_name("type"), self.value(node.child_by_field_name("value")))

    def _cast(self, type_: Node | None, value: Value) -> Value:
        if isinstance(value, Pointer) and type_ is not None:
            unit = bytes_of(" ".join(word for word in words(type_) if word not in ("*", "const", "volatile")))
            if unit and unit != value.unit:
                offset = self.divided(value.offset * number(value.unit), number(unit)) if value.unit else value.offset
                return Pointer(value.array, offset, unit, (), value.space)
        return value

    def _unary_expression(self, node: Node) -> Value:
        operator, value = written(node.children[0]), self.value(node.child_by_field_name("argument"))
        if isinstance(value, Polynomial) and operator in ("-", "+"):
            return -value if operator == "-" else value
        return self.unknown(value)

    def _binary_expression(self, node: Node) -> Value:
        operator = written(node.children[1])
        left_node, right_node = node.child_by_field_name("left"), node.child_by_field_name("right")
        if operator in ("&&", "||"):
            when, unless = self.condition(left_node, -1)
            with self.under(when if operator == "&&" else unless):
                self.value(right_node)
            return self.unknown()
        left, right = self.value(left_node), self.value(right_node)
        if isinstance(left, Pointer) or isinstance(right, Pointer):
            return self._moved(left, right, operator)
        if not isinstance(left, Polynomial) or not isinstance(right, Polynomial):
            return self.unknown()
        return self.operate(operator, left, right)

    def _moved(self, left: Value, right: Value, operator: str) -> Value:
        """Return a pointer that is moved by a number."""
        if isinstance(right, Pointer) and isinstance(left, Polynomial):
            left, right = right, left
        if isinstance(left, Pointer) and isinstance(right, Polynomial) and operator in ("+", "-"):
            step = right * left.row
            return replace(left, offset=left.offset + (step if operator == "+" else -step), rank=left.rank or 1)
        return self.unknown()

    def operate(  # noqa: PLR0911 - an operator each
        self, operator: str, left: Polynomial, right: Polynomial
    ) -> Polynomial:
        """Return the result of an operator."""
        if operator == "+":
            return left + right
        if operator == "-":
            return self._difference(left, right)
        if operator == "*":
            return left * right if len(left.terms) * len(right.terms) <= _MOST_TERMS else self.unknown(left, right)
        shift = right.number
        if operator in ("<<", ">>") and shift is not None and 0 <= shift < 63:  # noqa: PLR2004 - bits
            return left * number(1 << shift) if operator == "<<" else self.divided(left, number(1 << shift))
        if operator == "/" and right.number != 0:
            return self.divided(left, right)
        if operator == "%" and right.number != 0:
            return self.remainder(left, right)
        if operator == "&":
            return self._masked(left, right)
        return self.unknown(left, right)

    def _masked(self, left: Polynomial, right: Polynomial) -> Polynomial:
        """Return `left & right`: the remainder for a mask of low bits."""
        mask = right.number if right.number is not None else left.number
        value = left if right.number is not None else right
        if mask is not None and mask >= 0:
            if mask & (mask + 1) == 0:
                return self.remainder(value, number(mask + 1))
            return self.fresh(Opaque((number(mask),), lower=ZERO, is_data=self.depends_on_data(value)))
        return self.fresh(Opaque((left, right), is_data=self.depends_on_data(left) or self.depends_on_data(right)))

    def _conditional_expression(self, node: Node) -> Value:
        branch = node.id
        when, unless = self.condition(node.child_by_field_name("condition"), branch)
        with self.under(when):
            first = self.value(node.child_by_field_name("consequence"))
        with self.under(unless):
            second = self.value(node.child_by_field_name("alternative"))
        return self.merged(first, second, when, unless)

    def merged(self, first: Value, second: Value, when: Sequence[IndexBound], unless: Sequence[IndexBound]) -> Value:
        """Return the value of a variable behind two branches."""
        if first == second:
            return first
        if isinstance(first, Polynomial) and isinstance(second, Polynomial):
            choices = (self._limited(first, when), self._limited(second, unless))
            is_data = self.depends_on_data(first) or self.depends_on_data(second)
            return self.fresh(Opaque(choices=choices, is_data=is_data))
        return first if isinstance(first, Pointer) else second if isinstance(second, Pointer) else self.unknown()

    def _limited(self, value: Polynomial, bounds: Sequence[IndexBound]) -> Polynomial:
        """Return a value with the limits that conditions about it set."""
        own = {name for name in value.atoms if not self._is_size(atom(name))}
        uppers = [
            value - bound.excess
            for bound in bounds
            if bound.excess is not None and own and not own & (bound.excess - value).atoms
        ]
        if not uppers:
            return value
        return self.fresh(Opaque((value, *uppers), is_data=self.depends_on_data(value)))

    def _subscript_expression(self, node: Node) -> Value:
        pointer = self.place(node)
        if not isinstance(pointer, Pointer):
            return self.fresh(Opaque(is_data=True))
        return pointer if pointer.rank else self._loaded(pointer, node)

    def _pointer_expression(self, node: Node) -> Value:
        argument = node.child_by_field_name("argument")
        if written(node.children[0]) == "&":
            place = self.place(argument)
            if place is None:
                return self.unknown()
            return replace(place, rank=place.rank or 1)
        value = self.value(argument)
        if not isinstance(value, Pointer):
            return self.fresh(Opaque(is_data=True))
        return self._loaded(value, node)

    def place(self, node: Node | None) -> Pointer | None:  # noqa: PLR0911 - a form of expression each
        """Return what an expression designates in memory, without an access; None for a variable."""
        while node is not None and node.type == "parenthesized_expression" and node.named_child_count == 1:
            node = node.named_child(0)
        if node is None:
            return None
        if node.type == "identifier":  # a reference to an element
            value = self.variables.get(written(node))
            return value if isinstance(value, Pointer) and not value.rank else None
        if node.type == "subscript_expression":
            holder = self.value_of_array(node.child_by_field_name("argument"))
            listed = node.child_by_field_name("indices")
            indices = [self.number(child) for child in listed.named_children] if listed else []
            if not isinstance(holder, Pointer) or len(indices) != 1:
                return None
            return Pointer(
                holder.array,
                holder.offset + indices[0] * holder.row,
                holder.unit,
                holder.inner[1:],
                holder.space,
                (*holder.indices, indices[0]),
                holder.extents,
                max(0, holder.rank - 1),
            )
        if node.type == "pointer_expression" and written(node.children[0]) == "*":
            value = self.value(node.child_by_field_name("argument"))
            return value if isinstance(value, Pointer) else None
        if node.type == "field_expression":  # a lane, or a member of an element
            place = self.place(node.child_by_field_name("argument"))
            if place is None and "->" in [written(child) for child in node.children]:
                held = self.value(node.child_by_field_name("argument"))
                place = held if isinstance(held, Pointer) else None
            return place
        return self._place_of_call(node)

    def _place_of_call(self, node: Node) -> Pointer | None:
        """Return the place that a macro with arguments stands for: `FLOAT4(a[i])`."""
        expansion = self._expansion(node)
        if expansion is None:
            return None
        with self._expanding(node):
            return self.place(expansion)

    def _expansion(self, node: Node) -> Node | None:
        """Return the expression of a macro with arguments; None where a node is no such macro."""
        function = node.child_by_field_name("function") if node.type == "call_expression" else None
        macro = self.names.macros.get(written(function)) if function is not None else None
        listed = node.child_by_field_name("arguments")
        if macro is None or listed is None or self._depth >= _DEEPEST_CALL:
            return None
        given = dict(zip(macro.parameters, map(written, listed.named_children), strict=False))
        return parse_expression(re.sub(r"[^\W\d]\w*", lambda word: given.get(word[0], word[0]), macro.value))

    @contextmanager
    def _expanding(self, node: Node) -> Iterator[None]:
        """Evaluate what a macro stands for: its lines are those of the call."""
        before, self._line = self._line, self._line or line(node)
        self._depth += 1
        try:
            yield
        finally:
            self._line = before
            self._depth -= 1

    def value_of_array(self, node: Node | None) -> Value:
        """Return the value of an indexed operand; a partly indexed array is not an access."""
        while node is not None and node.type == "parenthesized_expression" and node.named_child_count == 1:
            node = node.named_child(0)
        if node is not None and node.type == "subscript_expression":
            place = self.place(node)
            if place is not None and place.rank:
                return place
        return self.value(node)

    def _assignment_expression(self, node: Node) -> Value:
        operator, left = written(node.children[1]), node.child_by_field_name("left")
        value = self.value(node.child_by_field_name("right"))
        name = self.variable(left)
        if name:
            if operator != "=":
                old = self.variables[name]
                if isinstance(old, Pointer):
                    value = self._moved(old, value, operator[:-1])
                elif isinstance(old, Polynomial) and isinstance(value, Polynomial):
                    value = self.operate(operator[:-1], old, value)
            self.variables[name] = value
            return value
        place = self.place(left)
        if place is not None:
            self.touch(place, Touch.STORE if operator == "=" else Touch.UPDATE, node)
        return value

    def _update_expression(self, node: Node) -> Value:
        argument = node.child_by_field_name("argument")
        name = self.variable(argument)
        if not name:
            place = self.place(argument)
            if place is not None:
                self.touch(place, Touch.UPDATE, node)
            return self.fresh(Opaque(is_data=True))
        step = ONE if "++" in [written(child) for child in node.children] else -ONE
        old = self.variables[name]
        moved = self._moved(old, step, "+") if isinstance(old, Pointer) else self.number(argument) + step
        self.variables[name] = moved
        return moved if node.children[0].type in ("++", "--") else old

    def variable(self, node: Node | None) -> str:
        """Return the local variable that an expression is; empty where it is something else."""
        while node is not None and node.type == "parenthesized_expression" and node.named_child_count == 1:
            node = node.named_child(0)
        name = written(node) if node is not None and node.type == "identifier" else ""
        value = self.variables.get(name)
        return name if value is not None and not (isinstance(value, Pointer) and not value.rank) else ""

    def _call_expression(self, node: Node) -> Value:
        function, listed = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        arguments = [child for child in listed.named_children if child.type != "comment"] if listed else []
        if function is None:
            return self.unknown()
        name = [word for word in words(function) if re.fullmatch(r"\w+", word)]
        plain = name[0] if function.type == "template_function" and name else (name[-1] if name else "")
        if function.type == "qualified_identifier":
            inner = function.child_by_field_name("name")
            while inner is not None and inner.type == "qualified_identifier":
                inner = inner.child_by_field_name("name")
            first = words(inner)[:1] if inner is not None else []
            plain = first[0] if first else plain
        if function.type == "field_expression":
            return self._method(function, arguments)
        return self.call(plain, function, arguments, node)

    def _method(self, function: Node, arguments: Sequence[Node]) -> Value:
        holder = self.value(function.child_by_field_name("argument"))
        member = function.child_by_field_name("field")
        for argument in arguments:
            self.value(argument)
        if isinstance(holder, ThreadGroup) and member is not None:
            method, x = written(member), atom(THREAD[0])
            if method == "thread_rank" and holder.kind == "block":
                return x
            if method == "thread_rank" and holder.kind == "grid":
                return atom(BLOCK[0]) * atom(BLOCK_SIDES[0]) + x
            if method == "thread_rank":
                return self.remainder(x, number(_WARP))
            if method in ("size", "num_threads") and holder.kind in ("block", "grid"):
                return atom(BLOCK_SIDES[0]) * (atom(GRID_SIDES[0]) if holder.kind == "grid" else ONE)
        return self.fresh(Opaque(is_data=True))

    def call(self, name: str, function: Node, arguments: Sequence[Node], node: Node) -> Value:
        """Return the result of a function or a macro."""
        if name in _GROUPS:
            return ThreadGroup(_GROUPS[name])
        if name.endswith("_cast") and len(arguments) == 1:
            types = [child for child in _descendants(function) if child.type == "type_descriptor"]
            return self._cast(types[0] if types else None, self.value(arguments[0]))
        if (expansion := self._expansion(node)) is not None:
            with self._expanding(node):
                return self.value(expansion)
        if (body := self.names.functions.get(name)) is not None and self._depth < _DEEPEST_CALL:
            return self.executed(body, [self.value(argument) for argument in arguments])
        values = [self.value(argument) for argument in arguments]
        return self._builtin(name, values, node)

    def executed(self, function: Node, values: Sequence[Value]) -> Value:
        """Return the result of a function of the source. The reader of statements executes it."""
        raise NotImplementedError

    def _builtin(  # noqa: PLR0911 - a function each
        self, name: str, values: Sequence[Value], node: Node
    ) -> Value:
        numbers = [value for value in values if isinstance(value, Polynomial)]
        pointers = [value for value in values if isinstance(value, Pointer)]
        if name in ("min", "umin", "max", "umax", "fminf", "fmaxf") and len(numbers) == 2 and len(values) == 2:  # noqa: PLR2004
            is_data = any(map(self.depends_on_data, numbers))
            if name.endswith(("min", "minf")):
                return self.fresh(Opaque(uppers=tuple(numbers), is_data=is_data))
            return self.fresh(Opaque(choices=tuple(numbers), is_data=is_data))
        if name in ("ceil", "ceilf") and len(numbers) == 1:
            return self._rounded_up(numbers[0])
        if _DIVIDES_UP.fullmatch(name) and len(numbers) == 2:  # noqa: PLR2004
            return self.divided(numbers[0] + numbers[1] - ONE, numbers[1])
        if name in TYPE_NAMES or name.endswith("_t") or name in ("__umul24", "__mul24"):
            if name.endswith("mul24") and len(numbers) == 2:  # noqa: PLR2004
                return numbers[0] * numbers[1]
            return numbers[0] if len(numbers) == 1 else self.unknown(*values)
        if name.startswith("atomic") and pointers:
            self.touch(pointers[0], Touch.ATOMIC, node)
            return self.fresh(Opaque(is_data=True))
        if name.startswith("__ld") and pointers:
            return self._loaded(pointers[0], node)
        if name.startswith("__st") and pointers:
            self.touch(pointers[0], Touch.STORE, node)
            return self.fresh(Opaque())
        if name == "__pipeline_memcpy_async" and len(pointers) == 2:  # noqa: PLR2004 - to, from
            self.touch(pointers[1], Touch.LOAD, node)
            self.touch(pointers[0], Touch.STORE, node)
            return self.fresh(Opaque())
        self.found.escaped.update(pointer.array for pointer in pointers if pointer.space == "global")
        return self.fresh(
            Opaque(is_data=bool(pointers) or name.startswith("__shfl") or any(map(self.depends_on_data, numbers)))
        )

    def _rounded_up(self, value: Polynomial) -> Polynomial:
        names = list(value.atoms)
        meaning = self.found.opaque.get(names[0]) if len(names) == 1 and value == atom(names[0]) else None
        if meaning is not None and meaning.operation == "/":
            left, right = meaning.operands
            return self.divided(left + right - ONE, right)
        return value

    # -- conditions --------------------------------------------------------------------------------------------------

    def condition(self, node: Node | None, branch: int) -> tuple[list[IndexBound], list[IndexBound]]:
        """Return what holds where a condition is true, and where it is false, and record its accesses."""
        while node is not None and node.type in ("parenthesized_expression", "condition_clause"):
            inner = node.child_by_field_name("value")
            node = inner if inner is not None else node.named_child(node.named_child_count - 1)
        if node is None:
            return [], []
        at = self._line or line(node)
        operator = written(node.children[1]) if node.type == "binary_expression" else ""
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if operator in ("&&", "||"):
            when, unless = self.condition(left, branch)
            with self.under(when if operator == "&&" else unless):
                more, fewer = self.condition(right, branch)
            other = [IndexBound(None, at, branch, side=operator == "||")]
            return (when + more, other) if operator == "&&" else (other, unless + fewer)
        if node.type == "unary_expression" and written(node.children[0]) == "!":
            when, unless = self.condition(node.child_by_field_name("argument"), branch)
            return [_turned(bound) for bound in unless], [_turned(bound) for bound in when]
        if operator in ("<", "<=", ">", ">=", "==", "!="):
            first, second = self.number(left), self.number(right)
        else:
            operator, first, second = "!=", self.number(node), ZERO
        return self._compared(operator, first, second, at, branch)

    def _compared(
        self, operator: str, first: Polynomial, second: Polynomial, at: int, branch: int
    ) -> tuple[list[IndexBound], list[IndexBound]]:
        def bound(excess: Polynomial | None, *, side: bool) -> IndexBound:
            return IndexBound(excess, at, branch, side)

        less, more = first - second, second - first
        if operator == "<":
            return [bound(less + ONE, side=True)], [bound(more, side=False)]
        if operator == "<=":
            return [bound(less, side=True)], [bound(more + ONE, side=False)]
        if operator == ">":
            return [bound(more + ONE, side=True)], [bound(less, side=False)]
        if operator == ">=":
            return [bound(more, side=True)], [bound(less + ONE, side=False)]
        same = [bound(less, side=operator == "=="), bound(more, side=operator == "==")]
        # of an index, which is never negative, that it is not 0 says that it is at least 1
        is_positive = second == ZERO and len(first.terms) == 1
        other = [bound(ONE - first if is_positive else None, side=operator == "!=")]
        if self.depends_on_data(first) or self.depends_on_data(second):
            other = [bound(None, side=operator == "!=")]
        return (same, other) if operator == "==" else (other, same)

    @contextmanager
    def under(self, bounds: Sequence[IndexBound]) -> Iterator[None]:
        """Evaluate under further conditions."""
        size = len(self.bounds)
        self.bounds += bounds
        self.found.guards += bounds
        try:
            yield
        finally:
            del self.bounds[size:]

    @contextmanager
    def binding(self, values: Mapping[str, Value]) -> Iterator[None]:
        """Evaluate with further variables, as in a function."""
        before, self.variables = self.variables, {**self.variables, **values}
        self._depth += 1
        try:
            yield
        finally:
            self.variables = before
            self._depth -= 1


def _turned(bound: IndexBound) -> IndexBound:
    return IndexBound(bound.excess, bound.line, bound.branch, not bound.side, bound.is_assumed)


def _loses(left: Polynomial, right: Polynomial) -> bool:
    """Return whether a quotient is written as `(x + y - 1) / y`, or `(x + 31) / 32`."""
    size = right.number
    if size is not None:
        return left.constant == size - 1 and bool(left.atoms)
    return all(left.terms.get(monomial, 0) == factor for monomial, factor in right.terms.items()) and (
        left.constant == right.constant - 1
    )


def _descendants(node: Node) -> Iterator[Node]:
    pending = [node]
    while pending:
        inner = pending.pop()
        yield inner
        pending += inner.children


def bytes_of(c_type: str) -> int:
    """Return the size of a type of elements; 0 where it is unknown."""
    element = element_type(c_type)
    return ELEMENT_BYTES.get(element.dtype, 0) * element.lanes if element else 0
