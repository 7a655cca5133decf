"""Parses CUDA C++ into a syntax tree, before preprocessing, and queries the tree.

Preprocessor lines, attributes with arguments, annotation macros and statements in a macro's arguments would break the
grammar: they are blanked before parsing. If the branches of a condition are not whole declarations or statements, such
as two signatures of one body, a tree holds one branch. Any text parses: text that is not CUDA becomes `ERROR` nodes.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser

from lab.isa.cuda.definitions import Definition, definitions
from lab.isa.cuda.tokens import CLOSING, OPENING, Token, TokenKind, condition_word, live_tokens

_LANGUAGE = Language(tree_sitter_cuda.language())
_ENCODING = "utf-16-le"
"""Two bytes per character, so that an offset in the text is half of a node's."""
_WIDE = re.compile("[\0\ud800-\udfff\U00010000-\U0010ffff]")
ATTRIBUTES = frozenset(
    {
        "__launch_bounds__",
        "__cluster_dims__",
        "__block_size__",
        "__maxnreg__",
        "__attribute__",
        "__align__",
        "alignas",
        "__declspec",
    }
)
"""Attributes with parenthesised arguments, which declare nothing."""
_ANNOTATIONS = frozenset(
    {"__host__", "__device__", "__forceinline__", "__inline__", "__noinline__", "inline", "static", "constexpr"}
    | {"__restrict__", "__restrict"}
)
_MACRO = re.compile(r"_*[A-Z][A-Z0-9_]+")
_FOREIGN = re.compile(r"_*[A-Z][A-Z0-9_]*(?:DEVICE|INLINE|_HOST|_API|NODISCARD|HIDE_FROM_ABI|RESTRICT)[A-Z0-9_]*")
"""Annotation macros of libraries: `CUTLASS_HOST_DEVICE`."""
_MOST_BRANCHES = 8
_CHUNK = 1 << 16
_FEWEST_CHECKS, _CHECKS_PER_CHARACTER = 100, 0.1
"""Limit on the parser's progress callbacks. None of 444 CUTLASS and CCCL files exceeds 0.011 per character."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute with arguments: `__launch_bounds__(256, 2)`.

    Attributes:
        name: Its name.
        arguments: The arguments as written.
        start: Offset in the text.
    """

    name: str
    arguments: tuple[str, ...]
    start: int


@dataclass(frozen=True)
class SourceTree:
    """A parsed source.

    Attributes:
        text: The text parsed; attributes and preprocessor lines are blank.
        root: The tree.
        attributes: The attributes that are not in the tree.
    """

    text: str
    root: Node
    attributes: tuple[Attribute, ...]

    def find(self, *kinds: str) -> list[Node]:
        """Return all nodes of some types, in source order."""
        nodes = [node for kind in kinds for node in self._by_kind.get(kind, ())]
        return sorted(nodes, key=lambda node: (node.start_byte, -node.end_byte)) if len(kinds) > 1 else nodes

    @cached_property
    def _by_kind(self) -> Mapping[str, Sequence[Node]]:
        # tree-sitter's own queries are quadratic in a tree's depth
        nodes: dict[str, list[Node]] = {}
        for node in walk(self.root):
            nodes.setdefault(node.type, []).append(node)
        return nodes


def parse(text: str) -> SourceTree:
    """Parse a source. If a condition cannot be parsed as a whole, the first branch counts."""
    return parse_branches(text)[0]


@lru_cache(maxsize=16)  # of the files that one source includes
def parse_branches(text: str, *, with_bodies: bool = True) -> tuple[SourceTree, ...]:
    """Parse a source once per branch of the conditions that cannot be parsed as a whole.

    Args:
        text: CUDA C++.
        with_bodies: Parse function bodies, too. Without them, no body can break the parse of its signature.
    """
    stream = live_tokens(text)
    conditions = [branches for branches in _conditions(stream) if not all(_is_whole(branch) for branch in branches)]
    sources = []
    for i in range(min(max(map(len, conditions), default=1), _MOST_BRANCHES)):
        hidden = {
            token.start
            for branches in conditions
            for at, branch in enumerate(branches)
            if at != min(i, len(branches) - 1)
            for token in branch
        }
        code = _without_annotations([token for token in stream if token.start not in hidden], definitions(text))
        code, attributes = _split_attributes(text, _without_statements(code))
        prepared = _only(text, code if with_bodies else _without_bodies(code))
        sources.append(SourceTree(prepared, _tree(prepared), attributes))
    return tuple(sources)


def _tree(text: str) -> Node:
    """Parse a prepared text. A text over the parser's limit, as no compilable text is, counts as empty."""
    data, checks = text.encode(_ENCODING), itertools.count()
    limit = _FEWEST_CHECKS + len(text) * _CHECKS_PER_CHARACTER
    try:
        tree = Parser(_LANGUAGE).parse(
            lambda offset, _: data[offset : offset + _CHUNK],
            encoding="utf16le",
            progress_callback=lambda _, __: next(checks) > limit,
        )
    except ValueError:  # it was stopped
        tree = Parser(_LANGUAGE).parse(b"")
    return tree.root_node


def parse_expression(text: str) -> Node | None:
    """Parse one expression, such as a macro's value; return None if it is not an expression."""
    source = parse(f"_ = {text};")
    assignments = source.find("assignment_expression")
    is_one = source.root.named_child_count == 1 and assignments and not source.root.has_error
    return assignments[0].child_by_field_name("right") if is_one else None


def function_around(node: Node) -> Node | None:
    """Return the innermost function that a node is in."""
    outer = node.parent
    while outer is not None and outer.type != "function_definition":
        outer = outer.parent
    return outer


def written(node: Node) -> str:
    """Return the text of a node, without comments and preprocessor lines."""
    return (node.text or b"").decode(_ENCODING)


def span(node: Node) -> tuple[int, int]:
    """Return the half-open range of a node's offsets in the text."""
    return node.start_byte // 2, node.end_byte // 2


def line(node: Node) -> int:
    """Return the line on which a node begins, from 1."""
    return node.start_point.row + 1


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all its descendants, in source order."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        pending += reversed(node.children)


def find(node: Node, *kinds: str) -> list[Node]:
    """Return all nodes of some types in a tree, in source order."""
    return [descendant for descendant in walk(node) if descendant.type in kinds]


def leaves(node: Node, *without: Node | None) -> Iterator[Node]:
    """Yield the tokens of a node, without those of excluded subtrees."""
    pending = [node]
    while pending:
        node = pending.pop()
        if node in without:
            continue
        if node.child_count and node.type != "string_literal":
            pending += reversed(node.children)
        elif node.end_byte > node.start_byte:
            yield node


def words(node: Node, *without: Node | None) -> list[str]:
    """Return the tokens of a node as text, without those of excluded subtrees."""
    return [written(leaf) for leaf in leaves(node, *without)]


def declarators(node: Node) -> list[Node]:
    """Return the declarators of a declaration: `*a` and `b[2]` of `float *a, b[2];`."""
    return node.children_by_field_name("declarator")


def declared_name(declarator: Node | None) -> Node | None:
    """Return the name in a declarator: `a` of `(*a)[2]`, `k` of `ns::k<int>(float *x)`."""
    *_, last = [None, *_chain(declarator)]
    return last if last is not None and last.type.endswith("identifier") else None


def arrays_in(declarator: Node | None) -> list[Node]:
    """Return the array declarators in a declarator, in order: `a[3]` and `a[3][n]` of `a[3][n]`."""
    return [nested for nested in _chain(declarator) if nested.type.endswith("array_declarator")][::-1]


def _chain(declarator: Node | None) -> Iterator[Node]:
    """Yield a declarator, the one nested in it, and so on to the name."""
    while declarator is not None:
        yield declarator
        inner = declarator.child_by_field_name("declarator") or declarator.child_by_field_name("name")
        is_around = inner is None and declarator.named_child_count and declarator.type.endswith(_AROUND)
        declarator = declarator.named_children[-1] if is_around else inner


_AROUND = ("reference_declarator", "parenthesized_declarator", "variadic_declarator")


def _conditions(stream: Sequence[Token]) -> list[list[list[Token]]]:
    """Return the branches of each condition that has several."""
    closed: list[list[list[Token]]] = []
    opened: list[list[list[Token]]] = []
    for token in stream:
        word = condition_word(token.text) if token.kind is TokenKind.DIRECTIVE else ""
        if word.startswith("if"):
            opened.append([[]])
        elif word.startswith("el") and opened:
            opened[-1].append([])
        elif word == "endif" and opened:
            closed.append(opened.pop())
            if opened:
                opened[-1][-1] += [inner for branch in closed[-1] for inner in branch]
        elif opened and token.kind is not TokenKind.DIRECTIVE:
            opened[-1][-1].append(token)
    return [branches for branches in closed if len(branches) > 1]


def _is_whole(branch: Sequence[Token]) -> bool:
    """Return whether a branch is balanced in brackets and ends like a declaration, statement or list item."""
    depth = 0
    for token in branch:
        depth += (token.text in OPENING) - (token.text in CLOSING)
        if depth < 0:
            return False
    return depth == 0 and (not branch or branch[-1].text in (";", "}", ",", ":"))


def _without_annotations(stream: Sequence[Token], defined: Sequence[Definition]) -> list[Token]:
    """Drop directives, and macros that only stand for function annotations, judged by their names."""
    annotation_macros = {definition.name for definition in defined if not definition.function_like}
    annotation_macros -= {
        definition.name for definition in defined if not _ANNOTATIONS.issuperset(definition.value.split())
    }
    code = [token for token in stream if token.kind is not TokenKind.DIRECTIVE]
    return [
        token
        for token, following in itertools.zip_longest(code, code[1:])
        if token.text not in annotation_macros and not (following and _is_annotation(token.text, following))
    ]


def _is_annotation(word: str, following: Token) -> bool:
    """Return whether a word looks like a macro for an annotation, a pragma or a scope: `UNROLL for (…)`."""
    if following.text in ("for", "while", "do", "template", "namespace", "using", "class", "struct", "__global__"):
        return _MACRO.fullmatch(word) is not None
    return following.kind is TokenKind.WORD and _FOREIGN.fullmatch(word) is not None


def _without_statements(code: Sequence[Token]) -> list[Token]:
    """Drop the arguments of macros that take statements: `NV_IF_TARGET(NV_IS_DEVICE, (x = 1;))`."""
    hidden, opened, holds = set[int](), list[int](), set[int]()
    for at, token in enumerate(code):
        if token.text in OPENING:
            opened.append(at)
        elif token.text in CLOSING and opened:
            opening = opened.pop()
            if opening in holds and token.text == ")":
                hidden.update(range(opening + 1, at))
                holds.update(opened[-1:])
        elif token.text == ";" and opened and code[opened[-1]].text == "(" and code[opened[-1] - 1].text != "for":
            holds.add(opened[-1])
    return [token for at, token in enumerate(code) if at not in hidden]


def _without_bodies(code: Sequence[Token]) -> list[Token]:
    """Drop braced bodies that follow a closing parenthesis."""
    ends, opened = dict[int, int](), list[int]()
    for index, token in enumerate(code):
        if token.text == "{":
            opened.append(index)
        elif token.text == "}" and opened:
            ends[opened.pop()] = index
    remaining, index = list[Token](), 0
    while index < len(code):
        remaining.append(code[index])
        is_body = index > 0 and code[index].text == "{" and code[index - 1].text == ")"
        index = ends.get(index, index + 1) if is_body else index + 1
    return remaining


def _split_attributes(text: str, code: Sequence[Token]) -> tuple[list[Token], tuple[Attribute, ...]]:
    """Separate attributes with arguments from the other tokens."""
    remaining, attributes, index = list[Token](), list[Attribute](), 0
    while index < len(code):
        token = code[index]
        if token.text not in ATTRIBUTES or index + 1 == len(code) or code[index + 1].text != "(":
            remaining.append(token)
            index += 1
            continue
        index, depth, begin = index + 2, 1, code[index + 1].end
        arguments = list[str]()
        while index < len(code) and depth:
            depth += (code[index].text in OPENING) - (code[index].text in CLOSING)
            if depth == 0 or (depth == 1 and code[index].text == ","):
                arguments.append(text[begin : code[index].start].strip())
                begin = code[index].end
            index += 1
        attributes.append(Attribute(token.text, tuple(filter(None, arguments)), token.start))
    return remaining, tuple(attributes)


def _only(text: str, code: Sequence[Token]) -> str:
    """Blank the text between tokens, and replace characters wider than two bytes in UTF-16."""
    pieces, position = [], 0
    for token in code:
        gap = text[position : token.start]
        pieces += [gap if gap.isspace() else re.sub(r"[^\n]", " ", gap), text[token.start : token.end]]
        position = token.end
    pieces.append(re.sub(r"[^\n]", " ", text[position:]))
    return _WIDE.sub("_", "".join(pieces))
