"""Declarations outside a kernel: constants, macros and functions its body calls."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from tree_sitter import Node

from lab.isa.cuda.definitions import definitions, uncommented
from lab.isa.cuda.syntax_tree import (
    SourceTree,
    arrays_in,
    declarators,
    declared_name,
    find,
    parse,
    parse_expression,
    words,
    written,
)
from lab.isa.cuda.tokens import TokenKind, live_tokens

_MACRO = re.compile(r"#\s*define\s+([^\W\d]\w*)\(([^)]*)\)[ \t]*(.*)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro with arguments that stands for an expression.

    Attributes:
        parameters: Its arguments.
        value: The expression as written.
    """

    parameters: tuple[str, ...]
    value: str


@dataclass(frozen=True)
class Surroundings:
    """The names that a body may use.

    Attributes:
        constants: Values of macros, of constants and of enumerators.
        macros: Macros with arguments.
        functions: Functions with a body, by name.
        arrays: Extents of variables in global, constant or shared memory, by name.
    """

    constants: Mapping[str, Node]
    macros: Mapping[str, Macro]
    functions: Mapping[str, Node]
    arrays: Mapping[str, tuple[Node, ...]]


@lru_cache(maxsize=16)
def surroundings(text: str) -> Surroundings:
    """Read a source. A default in `#ifndef NAME` is left out, since the experiment sets it."""
    source = parse(text)
    constants: dict[str, Node] = {}
    for definition in definitions(text):
        value = None if definition.guarded or definition.function_like else parse_expression(definition.value)
        if value is not None:
            constants.setdefault(definition.name, value)
    for node in source.find("enumerator"):
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is not None and value is not None:
            constants.setdefault(written(name), value)
    arrays: dict[str, tuple[Node, ...]] = {}
    for node in (one for one in source.find("declaration") if not _is_in_function(one)):
        for declarator in declarators(node):
            name, value = declared_name(declarator), declarator.child_by_field_name("value")
            if name is None:
                continue
            extents = tuple(array.child_by_field_name("size") for array in arrays_in(declarator))
            if extents:
                arrays.setdefault(written(name), tuple(extent for extent in extents if extent is not None))
            elif value is not None and {"const", "constexpr"} & set(words(node)):
                constants.setdefault(written(name), value)
    return Surroundings(constants, _macros(text), _functions(source), arrays)


def _functions(source: SourceTree) -> dict[str, Node]:
    functions: dict[str, Node] = {}
    for node in source.find("function_definition"):
        name = declared_name(node.child_by_field_name("declarator"))
        if name is not None and not _is_kernel(node):
            functions.setdefault(written(name), node)
    return functions


def _macros(text: str) -> dict[str, Macro]:
    macros: dict[str, Macro] = {}
    for token in live_tokens(text):
        match = _MACRO.match(uncommented(token.text)) if token.kind is TokenKind.DIRECTIVE else None
        value = match[3].replace("\\\n", " ").strip() if match else ""
        if match and parse_expression(value) is not None:
            macros.setdefault(match[1], Macro(tuple(word.strip() for word in match[2].split(",")), value))
    return macros


def _is_kernel(node: Node) -> bool:
    body = node.child_by_field_name("body")
    return "__global__" in words(node, body)


def _is_in_function(node: Node) -> bool:
    parent = node.parent
    while parent is not None:
        if parent.type in ("function_definition", "lambda_expression", "class_specifier", "struct_specifier"):
            return True
        parent = parent.parent
    return False


def assigned_in(node: Node) -> set[str]:
    """Return the names of variables to which a statement assigns."""
    names = set()
    for inner in find(node, "assignment_expression", "update_expression"):
        target = inner.child_by_field_name("left") or inner.child_by_field_name("argument")
        while target is not None and target.type == "parenthesized_expression":
            target = target.named_child(0)
        if target is not None and target.type == "identifier":
            names.add(written(target))
    return names
