"""Find what stands for the parameters of kernel templates, by the host's launches: `scale<float><<<grid, block>>>(x)`.

An argument that a launch leaves out is deduced from what the host passes. A launch in a template of the host counts
once for every call or explicit instantiation of that template. A type that nothing tells is assumed to be float.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tree_sitter import Node

from lab.isa.cuda.definitions import definitions
from lab.isa.cuda.kernels import SourceKernel, TemplateParameter, read_kernels, template_parameter, type_aliases
from lab.isa.cuda.names import NameKind, declarations
from lab.isa.cuda.syntax_tree import (
    SourceTree,
    declarators,
    declared_name,
    find,
    function_around,
    parse,
    words,
    written,
)
from lab.isa.cuda.types import TYPE_NAMES

_ASSUMED = "float"
_DEEPEST = 4
_MOST = 32
"""Instances of one kernel, and calls that a template of the host is followed through."""
_CAST = re.compile(
    r"(?:static|reinterpret|const)_cast<|(?:std::)?(?:forward|move|decay_t|remove_cvref_t|remove_reference_t|remove_cv_t)<"
)
_DATA = re.compile(r"(?:mutable_|const_)?data_ptr")
_WORD = re.compile(r"[A-Za-z_]\w*")
_QUALIFIERS = frozenset(
    {"const", "volatile", "static", "constexpr", "__restrict__", "__restrict", "restrict", "&", "&&"}
)

Scope = Mapping[str, str]
"""What stands for the parameters of a template of the host, by their names."""


@dataclass(frozen=True, slots=True)
class TemplateInstance:
    """One instance of a kernel template.

    Attributes:
        kernel: The template.
        expression: As C++ names the instance: `ns::scale<float, 4>`.
        assumed: Types that nothing tells: `T = float`.
    """

    kernel: SourceKernel
    expression: str
    assumed: tuple[str, ...] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of the template: `float` and `4`."""
        listed, depth = [""], 0
        for sign in self.expression.partition("<")[2].removesuffix(">"):
            depth += (sign in "<(") - (sign in ">)")
            listed[-1] += sign
            if sign == "," and not depth:
                listed[-1] = listed[-1][:-1]
                listed.append("")
        return tuple(argument.strip() for argument in listed)


def template_instances(text: str) -> tuple[TemplateInstance, ...]:
    """Return the instances of a source's kernel templates that its host code launches, in order.

    Args:
        text: CUDA C++ with the files that it includes in place.
    """
    kernels = [kernel for kernel in read_kernels(text) if kernel.template is not None]
    if not kernels:
        return ()
    host = _Host(parse(text), text)
    found: dict[str, TemplateInstance] = {}
    for kernel in kernels:
        for launch, scope in host.launches(kernel):
            instance = host.instance(kernel, launch, scope)
            if instance is not None and len(found) < _MOST:
                found.setdefault(instance.expression, instance)
    return tuple(found.values())


class _Host:
    """The host code of a source."""

    def __init__(self, source: SourceTree, text: str) -> None:
        self._source, self._text = source, text
        self._aliases = type_aliases(text)
        self._numbers = {
            definition.name: definition.value
            for definition in definitions(text)
            if not definition.function_like and definition.value
        }
        self._scopes = _declared_scopes(source)
        declared = {
            declaration.name
            for declaration in declarations(text)
            if declaration.kind in (NameKind.NAME, NameKind.FUNCTION)
        }
        self._known = declared | self._aliases.keys() | TYPE_NAMES | {"true", "false"}
        self._launches: list[tuple[str, Node]] = []
        for call in source.find("kernel_call_syntax"):
            name = declared_name(call.parent.child_by_field_name("function")) if call.parent else None
            if call.parent is not None and name is not None:
                self._launches.append((written(name), call.parent))
        called = [(one.start_byte, one.end_byte) for _, one in self._launches]
        for node in source.find(
            "template_function"
        ):  # `auto kernel = &k<float>;`, `cudaLaunchKernelEx(&config, k<2>, x)`
            name = node.child_by_field_name("name")
            if name is not None and not any(start <= node.start_byte < end for start, end in called):
                self._launches.append((written(name), node))

    def launches(self, kernel: SourceKernel) -> Iterator[tuple[Node, Scope]]:
        """Yield the launches of a kernel with what stands for the parameters of templates around them."""
        launches = [(node, node) for name, node in self._launches if name == kernel.name]
        for node, around in launches or self._hidden(kernel.name):
            for scope in self._around(around, 0):
                yield node, {**self._locals(around), **scope} if around is not node else scope

    def _hidden(self, name: str) -> Iterator[tuple[Node, Node]]:
        """Yield the launches of a kernel in arguments of macros, which the tree does not have, and what is around."""
        launched = rf"\b{name}\s*(?:<[^;{{}}]*?>\s*)?<<<[^;]*;"
        mentioned = rf"(?P<mention>\b{name}\s*<[^;{{}}<]*>)(?=\s*[,;)])"  # which the tree may have as a comparison
        for match in re.finditer(f"{launched}|{mentioned}", self._text):
            statement = f"{match['mention']}();" if match["mention"] else match[0]
            tree = parse(f"void launches() {{ {statement} }}")
            around = self._source.root.descendant_for_byte_range(2 * match.start(), 2 * match.start())
            found = [one.parent for one in tree.find("kernel_call_syntax")] or tree.find("template_function")
            for node in found:
                if node is not None:
                    yield node, around or node

    def _around(self, node: Node, depth: int) -> list[Scope]:
        """Return what stands for the parameters of the function around a node: one mapping for each of its calls."""
        function = function_around(node)
        template = function.parent if function is not None else None
        if function is None or template is None or depth > _DEEPEST:
            return [{}]
        if template.type != "template_declaration":
            return self._of_class(function) or [{}]
        name = declared_name(function.child_by_field_name("declarator"))
        listed = template.child_by_field_name("parameters")
        parameters = [template_parameter(one) for one in listed.named_children] if listed else []
        names = [written(one) if one else "" for one, _ in parameters]
        scopes: list[Scope] = []
        for call in self._calls(written(name) if name else ""):
            for outer in self._around(call, depth + 1)[:_MOST]:
                given = [self._replaced(argument, outer, call) for argument in _template_arguments(call)]
                scope = dict(zip(names, given, strict=False))
                for parameter, default in parameters[len(given) :]:
                    if parameter is not None and default is not None:
                        scope[written(parameter)] = written(default)
                deduced = self._deduced(function, [name for name in names if name not in scope], call, outer)
                scopes.append({**scope, **deduced})
        return [*{tuple(scope.items()): scope for scope in scopes}.values()][:_MOST] or self._of_class(function) or [{}]

    def _of_class(self, function: Node) -> list[Scope]:
        """Return what stands for the parameters of a member's class template, by the types that the source names."""
        outer: Node | None = function
        while outer is not None and outer.type not in ("class_specifier", "struct_specifier"):
            outer = outer.parent
        name = outer.child_by_field_name("name") if outer is not None else None
        template = outer.parent if outer is not None else function.parent
        if name is None:  # `template <class T> void Solver<T>::step() {`
            declarator = function.child_by_field_name("declarator")
            types = find(declarator, "template_type") if declarator is not None else []
            name = types[0].child_by_field_name("name") if types else None
        if name is None or template is None or template.type != "template_declaration":
            return []
        listed = template.child_by_field_name("parameters")
        names = [
            written(one) for node in (listed.named_children if listed else ()) if (one := template_parameter(node)[0])
        ]
        scopes: list[Scope] = []
        for node in self._source.find("template_type"):
            called = node.child_by_field_name("name")
            if called is None or written(called) != written(name):
                continue
            given = [_joined(words(one)) for one in find(node, "template_argument_list")[0].named_children]
            if given and not {*names} & {word for one in given for word in _WORD.findall(one)}:
                scopes.append(dict(zip(names, given, strict=False)))
        return [*{tuple(scope.items()): scope for scope in scopes}.values()][:_MOST]

    def _calls(self, name: str) -> Iterator[Node]:
        """Yield the calls and explicit instantiations of a function of the host."""
        for node in self._source.find("call_expression"):
            called = declared_name(node.child_by_field_name("function"))
            if called is not None and written(called) == name and not find(node.children[0], "kernel_call_syntax"):
                yield node
        for node in self._source.find("template_instantiation"):
            called = declared_name(node.child_by_field_name("declarator"))
            if called is not None and written(called) == name:
                yield node

    def instance(self, kernel: SourceKernel, launch: Node, scope: Scope) -> TemplateInstance | None:
        """Return the instance a launch selects; None if a non-type argument is unknown."""
        template = kernel.template or ()
        given = [self._replaced(argument, scope, launch) for argument in _template_arguments(launch)]
        passed = launch.child_by_field_name("arguments")
        types = [self.type_of(one, scope) for one in passed.named_children] if passed else []
        names = [one.name for one in template]
        deduced = dict[str, str]()
        for parameter, type_ in zip(kernel.parameters, types, strict=False):
            for name, meaning in _matched(parameter.c_type, names, type_).items():
                deduced.setdefault(name, meaning)
        arguments, assumed = list[str](), list[str]()
        for place, one in enumerate(template):
            value = given[place] if place < len(given) else deduced.get(one.name, "")
            if not value and one.default is not None:
                break
            if not value or self._is_open(value, scope, launch):
                value = _ASSUMED if _is_type(one) else "true" if one.kind == "bool" and value else ""
                if not value:
                    return None
                assumed.append(f"{one.name} = {value}")
            arguments.append(self._qualified(value, kernel))
        return TemplateInstance(kernel, f"{kernel.qualified_name}<{', '.join(arguments)}>", tuple(assumed))

    def _is_open(self, value: str, scope: Scope, launch: Node) -> bool:
        """Return whether a value names a parameter of a template of the host, or what a macro of a library declares."""
        names, outer = set[str](), launch.parent
        while outer is not None:
            listed = outer.child_by_field_name("parameters") if outer.type == "template_declaration" else None
            for node in listed.named_children if listed else ():
                names |= {written(one) for one in template_parameter(node)[:1] if one is not None}
            outer = outer.parent
        if value in ("scalar_t", "opmath_t", "auto") or (names - scope.keys()) & {*_WORD.findall(value)}:
            return True
        return value.isidentifier() and value not in self._known

    def _replaced(self, part: Node, scope: Scope, around: Node) -> str:
        """Return an argument of a template without names that only the host has."""
        text = _joined(words(part))
        for _ in range(_DEEPEST):
            local = self._locals(around)

            def meaning(match: re.Match[str], local: Mapping[str, str] = local) -> str:
                word = match[0]
                return scope.get(word) or local.get(word) or self._numbers.get(word) or word

            changed = re.sub(r"(?<![\w:.])[A-Za-z_]\w*(?!\s*::)", meaning, text)
            if changed == text:
                break
            text = changed
        return text

    def _locals(self, node: Node) -> dict[str, str]:
        """Return the constants and names for types that the function around a node declares."""
        function, found = function_around(node), dict[str, str]()
        if function is None:
            return found
        for one in find(function, "declaration", "alias_declaration", "type_definition"):
            if one.type == "alias_declaration":
                name, type_ = one.child_by_field_name("name"), one.child_by_field_name("type")
                if name is not None and type_ is not None:
                    found[written(name)] = _joined(words(type_))
            elif one.type == "type_definition":
                for declarator in declarators(one):
                    found[written(declarator)] = _joined(words(one, declarator)[1:-1])
            elif {"const", "constexpr"} & {*words(one)}:
                for declarator in declarators(one):
                    name, value = declared_name(declarator), declarator.child_by_field_name("value")
                    if name is not None and value is not None and len(declarators(one)) == 1:
                        text = _joined(words(value)).strip("{}()")
                        found[written(name)] = text if text.isalnum() else f"({text})"
        return found

    def _deduced(self, function: Node, names: Sequence[str], call: Node, scope: Scope) -> dict[str, str]:
        """Return what stands for parameters of a template of the host by the arguments of a call."""
        listed = next(iter(find(function.child_by_field_name("declarator") or function, "parameter_list")), None)
        passed = call.child_by_field_name("arguments")
        if listed is None or passed is None or not names:
            return {}
        found: dict[str, str] = {}
        for one, value in zip(listed.named_children, passed.named_children, strict=False):
            for name, meaning in _matched(_declared_type(one), names, self.type_of(value, scope)).items():
                found.setdefault(name, meaning)
        return found

    def type_of(self, value: Node, scope: Scope) -> str:
        """Return the type of an expression of the host; empty where it is unknown."""
        if value.type == "number_literal":
            return _type_of_number(written(value))
        readers: dict[str, Callable[[Node, Scope], str]] = {
            "true": lambda *_: "bool",
            "false": lambda *_: "bool",
            "parenthesized_expression": self._type_of_operands,
            "binary_expression": self._type_of_operands,
            "unary_expression": self._type_of_operands,
            "cast_expression": self._type_named,
            "compound_literal_expression": self._type_named,
            "pointer_expression": self._type_of_address,
            "subscript_expression": lambda node, around: _pointee(self.type_of(node.children[0], around)),
            "call_expression": self._type_of_call,
            "identifier": self._type_of_name,
        }
        reader = readers.get(value.type)
        return reader(value, scope) if reader else ""

    def _type_of_operands(self, value: Node, scope: Scope) -> str:
        types = {self.type_of(one, scope) for one in value.named_children} - {""}
        return next((one for one in ("double", "float") if one in types), next(iter(sorted(types)), ""))

    def _type_named(self, value: Node, scope: Scope) -> str:
        type_ = value.child_by_field_name("type")
        return self._meant(_joined(words(type_)), scope) if type_ is not None else ""

    def _type_of_address(self, value: Node, scope: Scope) -> str:
        inner = self.type_of(value.named_children[0], scope) if value.named_children else ""
        return (f"{inner} *" if inner else "") if written(value).startswith("&") else _pointee(inner)

    def _type_of_call(self, value: Node, scope: Scope) -> str:
        function = value.child_by_field_name("function")
        template = find(function, "template_argument_list")[:1] if function is not None else []
        name = declared_name(function) or (function.child_by_field_name("field") if function is not None else None)
        text = "".join(words(function)) if function is not None else ""
        if template and template[0].named_children:
            type_ = self._meant(_joined(words(template[0].named_children[0])), scope)
            if _CAST.match(text):
                return type_
            if _DATA.search(text):
                return f"{type_} *"
        return text if name is not None and text in self._scopes else ""

    def _type_of_name(self, value: Node, scope: Scope) -> str:
        name, function = written(value), function_around(value)
        for place in [function, self._source.root] if function is not None else [self._source.root]:
            for node in find(place, "declaration", "parameter_declaration") if place is function else place.children:
                if node.type not in ("declaration", "parameter_declaration"):
                    continue
                for declarator in declarators(node) or [node]:
                    declared = declared_name(declarator)
                    if declared is not None and written(declared) == name and declarator is not node:
                        return self._meant(_declared_type(node, declarator), scope)
        return ""

    def _meant(self, type_: str, scope: Scope) -> str:
        kept = [word for word in re.findall(r"\w+|&&|::|\S", type_) if word not in _QUALIFIERS]
        return _joined([scope.get(word) or self._aliases.get(word) or word for word in kept])

    def _qualified(self, value: str, kernel: SourceKernel) -> str:
        """Return an argument with the namespaces of types that stand in the kernel's."""
        if not any(kernel.scopes):
            return value

        def full(match: re.Match[str]) -> str:
            return "::".join([*filter(None, self._scopes.get(match[0], ())), match[0]])

        return re.sub(r"(?<![\w:.])[A-Za-z_]\w*", full, value)


def _declared_scopes(source: SourceTree) -> dict[str, tuple[str, ...]]:
    """Return the namespaces of the types that a source declares."""
    found: dict[str, tuple[str, ...]] = {}
    for node in source.find("struct_specifier", "class_specifier", "enum_specifier", "alias_declaration"):
        name, around = node.child_by_field_name("name"), list[str]()
        outer = node.parent
        while outer is not None:
            if outer.type == "namespace_definition":
                scope = outer.child_by_field_name("name")
                around.insert(0, written(scope) if scope is not None else "")
            outer = outer.parent
        if name is not None:
            found.setdefault(written(name), tuple(around))
    return found


def _template_arguments(call: Node) -> list[Node]:
    """Return the arguments of the template that a call or an explicit instantiation names."""
    head = call.child_by_field_name("function") or call.child_by_field_name("declarator") or call
    lists = find(head, "template_argument_list")[:1] if head is not None else []
    return lists[0].named_children if lists else []


def _declared_type(node: Node, declarator: Node | None = None) -> str:
    """Return the type of a parameter or a variable, with a `*` for each pointer and array."""
    declarator = declarator or node.child_by_field_name("declarator")
    type_ = node.child_by_field_name("type")
    if type_ is None:
        return ""
    inner = declarator
    if inner is not None and inner.type == "init_declarator":
        inner = inner.child_by_field_name("declarator")
    stars = (
        sum(word in ("*", "[") for word in words(inner)) if inner is not None and "function" not in inner.type else 0
    )
    return _joined([*words(type_), *["*"] * stars])


def _matched(pattern: str, names: Sequence[str], type_: str) -> dict[str, str]:
    """Return what names of a template stand for where a parameter's type is to be an argument's type."""
    kept = [word for word in re.findall(r"\w+|&&|::|\S", pattern) if word not in _QUALIFIERS]
    if not type_ or not {*kept} & {*names}:
        return {}
    seen: set[str] = set()
    parts = list[str]()
    for word in kept:
        if word in names:
            parts.append(f"(?P={word})" if word in seen else f"(?P<{word}>.+?)")
            seen.add(word)
        else:
            parts.append(re.escape(word))
    match = re.fullmatch(r"\s*".join(parts), type_)
    return {name: meaning.strip() for name, meaning in match.groupdict().items()} if match else {}


def _pointee(type_: str) -> str:
    return type_.removesuffix("*").strip() if type_.endswith("*") else ""


def _type_of_number(text: str) -> str:
    text = text.lower().replace("'", "")
    if text.startswith("0x") or not re.search(r"[.ef]", text):
        sign = "unsigned " if "u" in text else ""
        size = "long long" if "ll" in text else "long" if "l" in text else "int"
        return f"{sign}{size}"
    return "float" if text.endswith("f") else "double"


def _is_type(one: TemplateParameter) -> bool:
    return one.kind in ("typename", "class")


def _joined(parts: Sequence[str]) -> str:
    """Return a node's words as one text with the blanks that it needs."""
    return re.sub(r"(?<!\w) | (?!\w)", "", " ".join(parts))
