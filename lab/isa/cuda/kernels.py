"""Finds the `__global__` functions of a CUDA source and reads their heads.

The source is read as it was written, before preprocessing, since a user's file does not yet have the macros that it
expects. Kernels that a macro writes, and kernels in files that it includes, are therefore not found. Nothing here
fails: a head that cannot be read is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tree_sitter import Node

from lab.isa.cuda.definitions import definitions
from lab.isa.cuda.tree import (
    SourceTree,
    arrays_in,
    declarators,
    declared_name,
    find,
    line,
    parse,
    parse_branches,
    span,
    words,
    written,
)
from lab.isa.cuda.types import element_type

_DEEPEST_ALIAS = 16
_STORAGE = frozenset(
    {"__grid_constant__", "__constant__", "__device__", "static", "extern", "register", "mutable", "typedef"}
)
_GLOBAL = re.compile(r"\b__global__\b")


@dataclass(frozen=True, slots=True)
class SourceParameter:
    """One parameter of a kernel.

    Attributes:
        name: Its name; empty where it has none.
        c_type: Its type as written, with single blanks and without `__restrict__`: `const float *`.
        pointer: Number of pointer levels; an array counts as one.
        is_const: A pointer's target cannot be written through it; a value is const.
        dtype: What it points to or holds, by NumPy's name or `bfloat16`; None where that is unknown.
        lanes: Elements of a short vector type: 4 for `float4 *`, else 1.
    """

    name: str
    c_type: str
    pointer: int
    is_const: bool
    dtype: str | None
    lanes: int = 1

    @property
    def is_pointer(self) -> bool:
        """Whether it is a pointer."""
        return self.pointer > 0


@dataclass(frozen=True, slots=True)
class TemplateParameter:
    """One parameter of a kernel template.

    Attributes:
        kind: What stands before its name: `typename`, `int`, `typename...`.
        name: Its name; empty where it has none.
        default: Its default as written, or None.
    """

    kind: str
    name: str
    default: str | None = None


@dataclass(frozen=True, slots=True)
class SourceKernel:
    """One `__global__` function that a source defines.

    Attributes:
        name: Its name without namespaces.
        scopes: The namespaces around it, from outside; an anonymous one is empty.
        parameters: In order.
        template: Template parameters; None for a function that is no template.
        launch_bounds: Arguments of `__launch_bounds__` as written; empty where it has none.
        is_extern_c: Whether it is declared `extern "C"`, so that its symbol is its name.
        line: Line of its name, from 1.
        body: Offsets of the braces around its body in the source: first and behind the last.
    """

    name: str
    scopes: tuple[str, ...]
    parameters: tuple[SourceParameter, ...]
    template: tuple[TemplateParameter, ...] | None
    launch_bounds: tuple[str, ...]
    is_extern_c: bool
    line: int
    body: tuple[int, int]

    @property
    def qualified_name(self) -> str:
        """The name as an expression at the end of the file calls it: `ns::add`."""
        return "::".join([*filter(None, self.scopes), self.name])

    @property
    def title(self) -> str:
        """The qualified name with the template's parameters: `ns::add<T, block_size>`."""
        if self.template is None:
            return self.qualified_name
        return f"{self.qualified_name}<{', '.join(one.name or one.kind for one in self.template)}>"

    @property
    def signature(self) -> str:
        """The parameters as written: `(float * c, int n)`."""
        return f"({', '.join(f'{one.c_type} {one.name}'.strip() for one in self.parameters)})"


def base_name(expression: str) -> str:
    """Return the name that a C++ expression of a kernel begins with: ``ns::add`` of ``ns::add<float, 128>``."""
    return expression.partition("<")[0].strip()


def read_kernels(text: str, macros: Mapping[str, str] | None = None) -> tuple[SourceKernel, ...]:
    """Return the kernels that a source defines, in order; those that differ in the condition around them, too.

    Args:
        text: CUDA C++.
        macros: Values of macros, which may stand for types: `{"real": "float"}`.
    """
    return _kernels(text, tuple((macros or {}).items()))


@lru_cache(maxsize=16)
def _kernels(text: str, macros: tuple[tuple[str, str], ...]) -> tuple[SourceKernel, ...]:
    if "__global__" not in text:
        return ()
    aliases = {**type_aliases(text), **dict(macros)}
    found = {}
    for source in parse_branches(text, with_bodies=False):
        for item in _items(source.root):
            found.update(_kernel(source, item, aliases))
    return tuple(found[start] for start in sorted(found))


@dataclass(frozen=True, slots=True)
class _Item:
    """A declaration outside of functions and classes.

    Attributes:
        node: It, behind `template <…>`.
        start: Offset of its first token, attributes and macros included.
        scopes: The namespaces around it.
        extern_c: It stands in `extern "C"`.
        template: Its template's parameters.
    """

    node: Node
    start: int
    scopes: tuple[str, ...] = ()
    extern_c: bool = False
    template: Node | None = None


def _items(root: Node) -> Iterator[_Item]:
    """Yield the declarations of a source that are in no function and no class, in order."""
    pending = [_Item(root, 0)]
    while pending:
        item = pending.pop()
        node, body = item.node, item.node.child_by_field_name("body")
        if node.type in ("translation_unit", "declaration_list", "ERROR"):
            pending += reversed([*_inner(item)])
        elif node.type == "namespace_definition" and body is not None:
            name = node.child_by_field_name("name")
            scope = "".join(word for word in words(name) if word != "inline") if name else ""
            pending.append(replace(item, node=body, scopes=(*item.scopes, scope)))
        elif node.type == "linkage_specification" and body is not None:
            value = node.child_by_field_name("value")
            pending.append(replace(item, node=body, extern_c=value is not None and written(value) == '"C"'))
        elif node.type == "template_declaration":
            template = node.child_by_field_name("parameters")
            pending.append(replace(item, node=node.children[-1], template=template))
        else:
            yield item


def _inner(item: _Item) -> Iterator[_Item]:
    """Yield what a scope holds. What lacks its semicolon, such as a macro, begins the declaration behind it."""
    start = span(item.node)[0] if item.node.type == "declaration_list" else item.start
    for child in item.node.children:
        yield replace(item, node=child, start=start)
        if child.type != "ERROR" and not (child.child_count and child.children[-1].is_missing):
            start = span(child)[1]


def _kernel(source: SourceTree, item: _Item, aliases: Mapping[str, str]) -> dict[int, SourceKernel]:
    """Return a kernel by the offset of its name; nothing where the declaration is none."""
    declarator, body = item.node.child_by_field_name("declarator"), item.node.child_by_field_name("body")
    if declarator is None or body is None or item.node.type != "function_definition":
        return {}
    name, listed = declared_name(declarator), next(iter(find(declarator, "parameter_list")), None)
    begin, end = span(body)
    if name is None or listed is None or not _GLOBAL.search(source.text, item.start, begin):
        return {}
    template = tuple(_template_parameter(one) for one in item.template.named_children) if item.template else None
    own = {one.name for one in template or ()}
    known = {name: meaning for name, meaning in aliases.items() if name not in own}
    bounds = [
        one.arguments
        for one in source.attributes
        if item.start <= one.start < begin and one.name == "__launch_bounds__"
    ]
    kernel = SourceKernel(
        name=written(name),
        scopes=item.scopes,
        parameters=tuple(_parameters(listed, known)),
        template=template,
        launch_bounds=bounds[0] if bounds else (),
        is_extern_c=item.extern_c or '"C"' in source.text[item.start : begin],
        line=line(name),
        body=(begin, end),
    )
    return {span(name)[0]: kernel}


def type_aliases(text: str) -> dict[str, str]:
    """Return the names that the source gives to types, by `typedef`, `using` and `#define`."""
    found = [(one.line, one.name, one.value) for one in definitions(text) if one.value and not one.function_like]
    for node in parse(text).find("type_definition", "alias_declaration"):
        if node.type == "alias_declaration":
            type_ = node.child_by_field_name("type")
            pairs = [(node.child_by_field_name("name"), words(type_) if type_ else [])]
        else:
            named = [(one, declared_name(one)) for one in declarators(node)]
            pairs = [(name, [*_specifiers(node), *words(one, name)]) for one, name in named]
        for name, meaning in pairs:
            if name is not None and "{" not in meaning:
                found.append((line(node), written(name), " ".join(meaning)))
    aliases: dict[str, str] = {}
    for _, alias, c_type in sorted(found, key=lambda one: one[0]):
        aliases.setdefault(alias, c_type)
    return aliases


def _parameters(listed: Node, aliases: Mapping[str, str]) -> Iterator[SourceParameter]:
    groups: list[list[Node]] = [[]]
    for node in listed.children[1:-1]:
        if node.type == ",":
            groups.append([])
        else:
            groups[-1].append(node)
    for group in groups:
        declared = [one for one in group if one.type.endswith("parameter_declaration") and written(one) != "void"]
        for node in declared[-1:]:
            yield read_declared(node, node.child_by_field_name("declarator"), aliases)


def read_declared(
    node: Node, declarator: Node | None, aliases: Mapping[str, str], *, decays: bool = True
) -> SourceParameter:
    """Read what a declaration declares by one of its declarators.

    Args:
        node: The declaration of a parameter, a member or a variable.
        declarator: The declarator; None where a parameter has neither name nor `*`.
        aliases: Further names of types.
        decays: An array counts as a pointer.
    """
    name, arrays = declared_name(declarator), arrays_in(declarator)
    extents = [one for array in arrays for one in array.children if one != array.child_by_field_name("declarator")]
    if declarator is not None and declarator.type == "init_declarator":
        declarator = declarator.child_by_field_name("declarator")
    kept = [*_specifiers(node), *(words(declarator, name, *extents) if declarator else ())]
    meant = _with_pointers(kept, aliases)
    pointer = meant.count("*") + (is_array := decays and bool(arrays))
    first_star = meant.index("*") if "*" in meant else len(meant)
    pointee = meant[:first_star]
    element = element_type(" ".join(pointee), aliases) if pointer <= 1 and "(" not in meant else None
    return SourceParameter(
        name=written(name) if name else "",
        c_type=_spelled([text for text in kept if not text.strip("_").startswith("restrict")]) + "*" * is_array,
        pointer=pointer,
        is_const="const" in pointee,
        dtype=element.dtype if element else None,
        lanes=element.lanes if element else 1,
    )


def _specifiers(node: Node) -> list[str]:
    """Return the words of a declaration's type, which all of its declarators share."""
    marks = [one for one in node.children if one.type in ("=", ",", ";", "attribute_declaration")]
    without = [*declarators(node), *marks, node.child_by_field_name("default_value")]
    return [word for word in words(node, *without) if word not in _STORAGE]


def _with_pointers(texts: Sequence[str], aliases: Mapping[str, str]) -> list[str]:
    """Replace a name of a pointer type by its meaning: `in_ptr` by `const float *`.

    A `const` in front of such a name makes the pointer constant, not what it points to.
    """
    for _ in range(_DEEPEST_ALIAS):
        named = next((text for text in texts if text in aliases), None)
        meaning = re.findall(r"\w+|\S", aliases[named]) if named is not None else []
        if "*" not in meaning and not (len(meaning) == 1 and meaning[0] in aliases):
            break
        outside = [text for text in texts if text not in (named, "const")] if "*" in meaning else []
        texts = [*meaning, *outside]
    return list(texts)


def _spelled(texts: Sequence[str]) -> str:
    """Join a type's tokens as a person writes them: `const vec<float> *`."""
    joined = " ".join(texts)
    joined = re.sub(r" ?(::|<|>|\(|\)) ?", r"\1", joined)
    return re.sub(r">(?=\w|\*|&)", "> ", joined).replace(" ,", ",").replace(" ...", "...").strip()


def template_parameter(node: Node) -> tuple[Node | None, Node | None]:
    """Return the name of a template's parameter, and its default."""
    default = node.child_by_field_name("default_value") or node.child_by_field_name("default_type")
    name = node.child_by_field_name("name") or declared_name(node.child_by_field_name("declarator"))
    if name is None and node.type != "parameter_declaration":
        name = next((one for one in reversed(find(node, "type_identifier")) if one.end_byte == node.end_byte), None)
    return name, default


def _template_parameter(node: Node) -> TemplateParameter:
    name, default = template_parameter(node)
    return TemplateParameter(
        kind=_spelled([word for word in words(node, name, default) if word != "="]),
        name=written(name) if name else "",
        default=" ".join(written(default).split()) if default else None,
    )
