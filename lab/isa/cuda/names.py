"""The names that a CUDA source uses, defines, and expects as macros from its build."""

from __future__ import annotations

import keyword
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from tree_sitter import Node

from lab.isa.cuda.definitions import Definition, definitions, uncommented
from lab.isa.cuda.kernels import SourceKernel, read_kernels, template_parameter
from lab.isa.cuda.syntax_tree import SourceTree, declarators, declared_name, line, parse_branches, written
from lab.isa.cuda.tokens import Token, TokenKind, live_tokens
from lab.isa.cuda.types import TYPE_NAMES

KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """
        alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t
        class compl concept const consteval constexpr constinit const_cast continue co_await co_return co_yield
        decltype default delete do double dynamic_cast else enum explicit export extern false float for friend
        goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private
        protected public register reinterpret_cast requires return short signed sizeof static static_assert
        static_cast struct switch template this thread_local throw true try typedef typeid typename union
        unsigned using virtual void volatile wchar_t while xor xor_eq restrict defined
        """,
    )
)
"""C++ keywords, which no macro may be called."""

_BUILTINS = frozenset(
    re.findall(
        r"\w+",
        """
        threadIdx blockIdx blockDim gridDim clusterIdx clusterDim warpSize nullptr NULL assert printf std cuda
        cub thrust nvcuda cooperative_groups cg main INFINITY NAN FLT_MAX FLT_MIN FLT_EPSILON DBL_MAX DBL_MIN
        DBL_EPSILON INT_MAX INT_MIN UINT_MAX LONG_MAX LLONG_MAX CHAR_BIT SIZE_MAX M_PI M_PI_F M_E HUGE_VALF
        CUDART_INF_F CUDART_PI_F CUDART_NAN_F CUDART_INF CUDART_PI final override asm volatile x y z w
        fragment matrix_a matrix_b accumulator row_major col_major mem_row_major mem_col_major precision
        bmmaBitOpXOR bmmaBitOpAND bmmaAccumulateOpPOPC
        """,
    )
)
_TESTS = re.compile(r"#\s*(?:if|ifdef|ifndef|elif|elifdef|elifndef)\b(.*)$")
_READS = re.compile(r"#\s*(?:if|elif|pragma\s+unroll)\b(.*)$")
_WORD = re.compile(r"[^\W\d]\w*")
_FREE_WORD = re.compile(r"(?<![\w.:])[^\W\d]\w*+(?!\s*::)")
_INCLUDES_CUTLASS = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"](?:cute|cutlass)/", re.MULTILINE)
_OF_CUTLASS = re.compile(r"_\d+|X|SM\d+_\w+|[A-Z]\w*[a-z]\w*")
"""Pattern of CUTLASS and CuTe names: `_128`, `SM90_64x64x16_F16F16F16_SS`, `TiledCopy`."""
_TYPES = ("class_specifier", "struct_specifier", "union_specifier", "enum_specifier", "alias_declaration")
_NAMED = (*_TYPES, "namespace_definition", "namespace_alias_definition", "enumerator")
_LABELS = ("labeled_statement", "goto_statement")
_DECLARING = ("declaration", "field_declaration", "type_definition", "for_range_loop", "function_definition")


class NameKind(Enum):
    """The kind of a declared name."""

    NAME = "variable, type or enumerator"
    FUNCTION = "function or label"
    PARAMETER = "parameter of a function"
    TEMPLATE = "parameter of a template"


@dataclass(frozen=True, slots=True)
class DeclaredName:
    """A name that a source declares.

    Attributes:
        name: The name.
        kind: Its kind.
        line: Its line, from 1.
    """

    name: str
    kind: NameKind
    line: int


@dataclass(frozen=True, slots=True)
class ExpectedMacro:
    """A macro that a source expects from its build.

    Attributes:
        name: The macro.
        default: Its value if it is not defined; None if the source then does not compile.
        line: Line of its first use, or of its default, from 1.
    """

    name: str
    default: str | None
    line: int


@lru_cache(maxsize=64)  # of the files that one source includes
def used_names(text: str) -> frozenset[str]:
    """Return every identifier of a source outside comments and strings, including preprocessor lines."""
    names: set[str] = set()
    for token in live_tokens(text):
        if token.kind is TokenKind.WORD:
            names.add(token.text)
        elif token.kind is TokenKind.DIRECTIVE:
            names.update(_WORD.findall(uncommented(token.text)))
    return frozenset(names)


@lru_cache(maxsize=64)  # of the files that one source includes
def declarations(text: str) -> tuple[DeclaredName, ...]:
    """Return the names that a source declares, in line order."""
    names = {declaration for source in parse_branches(text) for declaration in _declarations(source)}
    return tuple(sorted(names, key=lambda declaration: declaration.line))


def _declarations(source: SourceTree) -> Iterator[DeclaredName]:
    candidates = [(NameKind.NAME, node.child_by_field_name("name")) for node in source.find(*_NAMED)]
    candidates += [
        (NameKind.NAME, node)
        for binding in source.find("structured_binding_declarator")
        for node in binding.named_children
    ]
    candidates += [(NameKind.NAME, _dereferenced(node)) for node in source.find("assignment_expression")]
    candidates += [(NameKind.FUNCTION, node.child_by_field_name("label")) for node in source.find(*_LABELS)]
    candidates += [(NameKind.FUNCTION, node.child_by_field_name("name")) for node in source.find("concept_definition")]
    candidates += [
        (NameKind.FUNCTION, declared_name(child))
        for node in source.find("using_declaration")
        for child in node.children
    ]
    hidden = _values_read_as_parameters(source)
    for node in source.find("parameter_list", "template_parameter_list"):
        for parameter in node.named_children if node.id not in hidden else ():
            if node.type == "template_parameter_list":
                candidates.append((NameKind.TEMPLATE, template_parameter(parameter)[0]))
            else:
                candidates.append((NameKind.PARAMETER, declared_name(parameter.child_by_field_name("declarator"))))
    variables = {written(node) for kind, node in candidates if node is not None and kind is NameKind.PARAMETER}
    for node in source.find(*_DECLARING):
        type_ = node.child_by_field_name("type")
        is_product = type_ is not None and written(type_) in variables  # `n * m;`
        for declarator in declarators(node):
            if is_product and declarator.type in ("pointer_declarator", "reference_declarator"):
                continue
            is_function = node.type == "function_definition" or declarator.child_by_field_name("parameters") is not None
            candidates.append((NameKind.FUNCTION if is_function else NameKind.NAME, declared_name(declarator)))
    for kind, name in candidates:
        if name is not None:
            yield DeclaredName(written(name), kind, line(name))


def _dereferenced(assignment: Node) -> Node | None:
    """Return `rows` of `float (*rows)[4] = tile;`, which parses as an assignment to an element of a call's result."""
    node = assignment.child_by_field_name("left")
    for kind, name in (("subscript_expression", "argument"), ("call_expression", "arguments")):
        node = node.child_by_field_name(name) if node is not None and node.type == kind else None
    pointers = [child for child in node.children if child.type == "pointer_expression"] if node is not None else []
    return declared_name(pointers[0].child_by_field_name("argument")) if pointers else None


def _values_read_as_parameters(source: SourceTree) -> set[int]:
    """Return the ids of lists in function bodies that parse as parameters but are arguments: `dim3 grid(n * m);`."""
    bodies: list[tuple[int, int]] = []
    for node in source.find("function_definition"):
        body = node.child_by_field_name("body")
        if body is not None and (not bodies or body.start_byte >= bodies[-1][1]):
            bodies.append((body.start_byte, body.end_byte))
    starts = [start for start, _ in bodies]
    hidden = set[int]()
    for node in source.find("declaration"):
        position = bisect_right(starts, node.start_byte) - 1
        if position >= 0 and node.start_byte < bodies[position][1]:
            hidden |= {
                listed.id
                for declarator in declarators(node)
                for listed in [declarator.child_by_field_name("parameters")]
                if listed
            }
    return hidden


def _first(text: str, name: str, kind: NameKind) -> int | None:
    return next(
        (
            declaration.line
            for declaration in declarations(text)
            if declaration.name == name and declaration.kind is kind
        ),
        None,
    )


def declared_line(text: str, name: str) -> int | None:
    """Return the line where a source declares a constant, variable or type of a name, or None.

    Parameters of functions and templates do not count: a macro of the same name is a separate case.
    """
    return _first(text, name, NameKind.NAME)


def parameter_line(text: str, name: str) -> int | None:
    """Return the line where a function has a parameter of a name, or None."""
    return _first(text, name, NameKind.PARAMETER)


def template_line(text: str, name: str) -> int | None:
    """Return the line where a template has a parameter of a name, or None."""
    return _first(text, name, NameKind.TEMPLATE)


def expected_macros(text: str) -> tuple[ExpectedMacro, ...]:
    """Return the macros that a source seems to expect, in source order.

    These are defaults in `#ifndef NAME`, and identifiers in kernels and `#if` conditions that neither the source nor
    C++ nor CUDA's headers declare, and no macro of the source declares. Macros tested only by `#ifdef` may stay
    undefined. The result is a heuristic: it does not see included files.
    """
    stream = live_tokens(text)
    defined = {definition.name: definition for definition in definitions(text)}
    expected = {
        definition.name: ExpectedMacro(definition.name, definition.value, definition.line)
        for definition in defined.values()
        if definition.guarded and definition.value and not definition.function_like
    }
    code = [token for token in stream if token.kind is not TokenKind.DIRECTIVE]
    declared = {declaration.name for declaration in declarations(text)}
    kernels = read_kernels(text)
    # `Type<2> name =`, which the parser of expressions may read as two comparisons
    assigned = {
        name.text
        for before, name, following in zip(code, code[1:], code[2:], strict=False)
        if following.text == "=" and (before.text == ">" or _is_unknown_word(before))
    }
    known_names = declared | set(defined) | _declared_by_macros(code, defined) | assigned
    if _INCLUDES_CUTLASS.search(text):
        known_names |= {token.text for token in code if _OF_CUTLASS.fullmatch(token.text)}
    for at, token in enumerate(code):
        inside = any(kernel.body[0] <= token.start < kernel.body[1] for kernel in kernels)
        if inside and token.text not in known_names and _is_free(code, at):
            expected.setdefault(token.text, ExpectedMacro(token.text, None, token.line))
    for kernel in kernels:
        for word in _words(*kernel.launch_bounds, *(parameter.c_type for parameter in kernel.parameters)):
            if word not in known_names and _is_unknown(word):
                expected.setdefault(word, ExpectedMacro(word, None, kernel.line))
    for token in stream:
        if token.kind is TokenKind.DIRECTIVE and (match := _READS.match(uncommented(token.text))):
            for word in _WORD.findall(match[1]):
                if word not in known_names and _is_unknown(word):
                    expected.setdefault(word, ExpectedMacro(word, None, token.line))
    return tuple(sorted(expected.values(), key=lambda macro: macro.line))


def _declared_by_macros(code: Sequence[Token], defined: Mapping[str, Definition]) -> set[str]:
    """Return the variables that uses of macros declare: `LOOP(i, n)`, which is `for (int i = 0; i < (n); ++i)`."""
    declaring = {
        name: [
            place
            for place, parameter in enumerate(definition.parameters)
            if any(
                type_ in TYPE_NAMES or type_ == "auto"
                for type_ in re.findall(rf"(\w+)\s+{parameter}\s*(?:=|;)", definition.value)
            )
        ]
        for name, definition in defined.items()
    }
    names = set[str]()
    for at, token in enumerate(code):
        for place in declaring.get(token.text, ()):
            arguments = _arguments(code, at + 1)
            names.update(arguments[place] if place < len(arguments) and len(arguments[place]) == 1 else ())
    return names


def _arguments(code: Sequence[Token], at: int) -> list[list[str]]:
    """Return the words of each argument of a macro whose opening parenthesis is at a position."""
    arguments: list[list[str]] = [[]]
    depth = 0
    for token in code[at:]:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0:
            break
        if depth == 1 and token.text == ",":
            arguments.append([])
        elif depth > 1 or token.text != "(":
            arguments[-1].append(token.text)
    return arguments


def template_parameters_in_conditions(text: str, kernel: SourceKernel) -> tuple[tuple[int, str], ...]:
    """Return the template parameters of a kernel that `#if` conditions in its body test, each with its line.

    The preprocessor runs before templates are instantiated: such a name is not a macro, so that `#if` reads it as 0 and
    `#ifdef` as undefined (C++17, 19.1 [cpp.cond]), whatever the template's argument is.

    Args:
        text: The source.
        kernel: A kernel that it defines.
    """
    names = {parameter.name for parameter in kernel.template or ()} - {macro.name for macro in definitions(text)}
    return tuple(
        (token.line, word)
        for token in live_tokens(text)
        if token.kind is TokenKind.DIRECTIVE and kernel.body[0] <= token.start < kernel.body[1]
        if (match := _TESTS.match(uncommented(token.text)))
        for word in dict.fromkeys(_WORD.findall(match[1]))
        if word in names
    )


def _words(*texts: str) -> list[str]:
    return [word for text in texts for word in _FREE_WORD.findall(text)]


def _is_unknown(word: str) -> bool:
    """Return whether a word is in neither C++ nor CUDA's headers, judged by its spelling."""
    return not (
        word in KEYWORDS
        or word in _BUILTINS
        or word in TYPE_NAMES
        or word.startswith(("__", "cuda", "CUDA", "cu_", "nv"))
        or word.endswith("_t")
    )


def _is_unknown_word(token: Token) -> bool:
    return token.kind is TokenKind.WORD and _is_unknown(token.text)


def _is_free(stream: Sequence[Token], at: int) -> bool:
    """Return whether a word in a kernel's body may be an undefined macro."""
    token = stream[at]
    if token.kind is not TokenKind.WORD or keyword.iskeyword(token.text) or not _is_unknown(token.text):
        return False
    before = stream[at - 1].text if at else ""
    following = stream[at + 1].text if at + 1 < len(stream) else ""
    return before not in (".", "->", "::") and following not in ("(", "::")
