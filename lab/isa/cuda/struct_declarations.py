"""Finds the plain structs of a CUDA source: values and pointers, no bit fields."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from tree_sitter import Node

from lab.isa.cuda.kernels import SourceParameter, read_declared, type_aliases
from lab.isa.cuda.syntax_tree import arrays_in, declarators, parse, written

_LANES = "xyzw"
_MOST_ELEMENTS = 64
_PASSED_OVER = frozenset(
    {"function_definition", "access_specifier", "alias_declaration", "using_declaration", "type_definition", "comment"}
    | {"friend_declaration", "static_assert_declaration", "template_declaration"}
)


def read_structures(text: str) -> dict[str, tuple[SourceParameter, ...]]:
    """Return the members of every plain struct of a source, in order, by the struct's name.

    Arrays, short vectors and nested structs are flattened: ``int size[2]`` becomes ``size_0`` and ``size_1``. A struct
    with a base class, a bit field or a member of unknown type is skipped.
    """
    source = parse(text)
    aliases = type_aliases(text)
    typedefs = {node.child_by_field_name("type"): declarators(node) for node in source.find("type_definition")}
    structures: dict[str, tuple[SourceParameter, ...]] = {}
    for node in source.find("struct_specifier", "class_specifier"):
        body = node.child_by_field_name("body")
        if body is None or any(child.type == "base_class_clause" for child in node.children):
            continue
        members = _members(body, aliases, structures)
        for name in (node.child_by_field_name("name"), *typedefs.get(node, ())[:1]):
            if members and name is not None and name.type == "type_identifier":
                structures.setdefault(written(name), members)
    return structures


def parts_of(
    parameter: SourceParameter, structures: Mapping[str, tuple[SourceParameter, ...]]
) -> tuple[SourceParameter, ...]:
    """Return the members of a parameter passed by value; none for a scalar or an unknown type."""
    if parameter.is_pointer:
        return ()
    if parameter.lanes > 1:
        return tuple(replace(parameter, name=lane, lanes=1) for lane in _LANES[: parameter.lanes])
    words = parameter.c_type.replace("const", " ").replace("struct", " ").split()
    if words == ["dim3"]:
        return tuple(replace(parameter, name=axis, dtype="uint32") for axis in _LANES[:3])
    return structures.get(words[-1].rpartition("::")[2], ()) if words and parameter.dtype is None else ()


def elements_of(
    parameter: SourceParameter, structures: Mapping[str, tuple[SourceParameter, ...]]
) -> tuple[SourceParameter, ...]:
    """Return the members of a pointer's target if it is a struct of values only; else none."""
    value = replace(parameter, pointer=0, c_type=parameter.c_type.rstrip("* "))
    members = parts_of(value, structures) if parameter.pointer == 1 else ()
    return () if any(member.is_pointer for member in members) else members


def _members(
    body: Node, aliases: Mapping[str, str], structures: Mapping[str, tuple[SourceParameter, ...]]
) -> tuple[SourceParameter, ...]:
    """Return the members of a struct, or nothing if one of them cannot be parsed."""
    members: list[SourceParameter] = []
    for node in body.named_children:
        if node.type in _PASSED_OVER or any(written(child) == "static" for child in node.children):
            continue
        if node.type != "field_declaration" or any(child.type == "bitfield_clause" for child in node.children):
            return ()
        for declarator in declarators(node):
            if declarator.type == "function_declarator":
                continue
            member, count = read_declared(node, declarator, aliases, decays=False), _elements(declarator)
            inner = (
                (member,) if member.is_pointer or (member.dtype and member.lanes == 1) else parts_of(member, structures)
            )
            if not inner or not 1 <= count <= _MOST_ELEMENTS:
                return ()
            for i in range(count):
                stem = member.name if count == 1 else f"{member.name}_{i}"
                names = [stem] if len(inner) == 1 else [f"{stem}_{field.name}" for field in inner]
                members += [replace(field, name=name) for field, name in zip(inner, names, strict=True)]
    return tuple(members)


def _elements(declarator: Node) -> int:
    """Return the number of elements of a member: 1 without extents, 0 if an extent is not a number."""
    sizes = [array.child_by_field_name("size") for array in arrays_in(declarator)]
    return math.prod(int(written(size)) if size and written(size).isdecimal() else 0 for size in sizes)
