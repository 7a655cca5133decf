"""Parses CUDA C++ into a syntax tree, before any preprocessing, and queries the tree.

Preprocessor lines, attributes with arguments, macros for annotations and statements in a macro's arguments would break
the grammar where they stand: they are blanked before the text is parsed. Of a condition whose branches are not whole
declarations or statements, such as two heads of one body, a tree holds one branch. Any text parses: what is not CUDA
becomes nodes `ERROR`.
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
"""Two bytes for a character, so that an offset in the text is half of a node's."""
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
"""Words that head parentheses and declare nothing."""
_ANNOTATIONS = frozenset(
    {"__host__", "__device__", "__forceinline__", "__inline__", "__noinline__", "inline", "static", "constexpr"}
    | {"__restrict__", "__restrict"}
)
_MACRO = re.compile(r"_*[A-Z][A-Z0-9_]+")
_FOREIGN = re.compile(r"_*[A-Z][A-Z0-9_]*(?:DEVICE|INLINE|_HOST|_API|NODISCARD|HIDE_FROM_ABI|RESTRICT)[A-Z0-9_]*")
"""Macros of libraries that stand for annotations: `CUTLASS_HOST_DEVICE`."""
_MOST_BRANCHES = 8
_CHUNK = 1 << 16
_FEWEST_CHECKS, _CHECKS_PER_CHARACTER = 100, 0.1
"""How often the parser may ask whether to go on. Of 444 files of CUTLASS and CCCL, none asks more than 0.011 times."""


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
    """A parsed text.

    Attributes:
        text: What was parsed; attributes and preprocessor lines are blank.
        root: The tree.
        attributes: The attributes that are not in the tree.
    """

    text: str
    root: Node
    attributes: tuple[Attribute, ...]

    def find(self, *kinds: str) -> list[Node]:
        """Return all nodes of some types, in the order of the text."""
        nodes = [node for kind in kinds for node in self._by_kind.get(kind, ())]
        return sorted(nodes, key=lambda node: (node.start_byte, -node.end_byte)) if len(kinds) > 1 else nodes

    @cached_property
    def _by_kind(self) -> Mapping[str, Sequence[Node]]:
        # tree-sitter's own queries take time that grows with the square of a tree's depth
        nodes: dict[str, list[Node]] = {}
        for node in walk(self.root):
            nodes.setdefault(node.type, []).append(node)
        return nodes


def parse(text: str) -> SourceTree:
    """Parse a source. Of a condition that cannot be parsed as a whole, the first branch counts."""
    return parse_branches(text)[0]


@lru_cache(maxsize=16)  # of the files that one source includes
def parse_branches(text: str, *, with_bodies: bool = True) -> tuple[SourceTree, ...]:
    """Parse a source once for each branch of the conditions that cannot be parsed as a whole.

    Args:
        text: CUDA C++.
        with_bodies: Parse the bodies of functions, too. Without them, nothing in a body can harm its head.
    """
    stream = live_tokens(text)
    conditions = [branches for branches in _conditions(stream) if not all(_is_whole(one) for one in branches)]
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
        kept = _only(text, code if with_bodies else _without_bodies(code))
        sources.append(SourceTree(kept, _tree(kept), attributes))
    return tuple(sources)


def _tree(text: str) -> Node:
    """Parse a prepared text. One that takes the parser too long, as no text for a compiler does, counts as empty."""
    data, checks = text.encode(_ENCODING), itertools.count()
    most = _FEWEST_CHECKS + len(text) * _CHECKS_PER_CHARACTER
    try:
        tree = Parser(_LANGUAGE).parse(
            lambda offset, _: data[offset : offset + _CHUNK],
            encoding="utf16le",
            progress_callback=lambda _, __: next(checks) > most,
        )
    except ValueError:  # it was stopped
        tree = Parser(_LANGUAGE).parse(b"")
    return tree.root_node


def parse_expression(text: str) -> Node | None:
    """Parse one expression, such as a macro's value; None where it is none."""
    source = parse(f"_ = {text};")
    assignments = source.find("assignment_expression")
    is_one = source.root.named_child_count == 1 and assignments and not source.root.has_error
    return assignments[0].child_by_field_name("right") if is_one else None


def written(node: Node) -> str:
    """Return the text of a node, without comments and preprocessor lines."""
    return (node.text or b"").decode(_ENCODING)


def span(node: Node) -> tuple[int, int]:
    """Return the offsets in the text of a node's first character and behind its last."""
    return node.start_byte // 2, node.end_byte // 2


def line(node: Node) -> int:
    """Return the line on which a node begins, from 1."""
    return node.start_point.row + 1


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all nodes in it, in the order of the text."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        pending += reversed(node.children)


def find(node: Node, *kinds: str) -> list[Node]:
    """Return all nodes of some types in a tree, in the order of the text."""
    return [one for one in walk(node) if one.type in kinds]


def leaves(node: Node, *without: Node | None) -> Iterator[Node]:
    """Yield the tokens of a node, except for those of some nodes in it."""
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
    """Return the tokens of a node as text, except for those of some nodes in it."""
    return [written(leaf) for leaf in leaves(node, *without)]


def declarators(node: Node) -> list[Node]:
    """Return what a declaration declares: `*a` and `b[2]` of `float *a, b[2];`."""
    return node.children_by_field_name("declarator")


def declared_name(declarator: Node | None) -> Node | None:
    """Return the name in a declarator: `a` of `(*a)[2]`, `k` of `ns::k<int>(float *x)`."""
    *_, last = [None, *_chain(declarator)]
    return last if last is not None and last.type.endswith("identifier") else None


def arrays_in(declarator: Node | None) -> list[Node]:
    """Return the parts of a declarator that have an extent, in order: `a[3]` and `a[3][n]` of `a[3][n]`."""
    return [one for one in _chain(declarator) if one.type.endswith("array_declarator")][::-1]


def _chain(declarator: Node | None) -> Iterator[Node]:
    """Yield a declarator, the one in it, and so on to the name."""
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
                opened[-1][-1] += [one for branch in closed[-1] for one in branch]
        elif opened and token.kind is not TokenKind.DIRECTIVE:
            opened[-1][-1].append(token)
    return [branches for branches in closed if len(branches) > 1]


def _is_whole(branch: Sequence[Token]) -> bool:
    """Return whether a branch has all brackets of a pair, and ends as a declaration, a statement or an item does."""
    depth = 0
    for token in branch:
        depth += (token.text in OPENING) - (token.text in CLOSING)
        if depth < 0:
            return False
    return depth == 0 and (not branch or branch[-1].text in (";", "}", ",", ":"))


def _without_annotations(stream: Sequence[Token], defined: Sequence[Definition]) -> list[Token]:
    """Leave out directives, and macros that stand for nothing but annotations of functions, as far as names tell."""
    own = {one.name for one in defined if not one.function_like}
    own -= {one.name for one in defined if not _ANNOTATIONS.issuperset(one.value.split())}
    code = [token for token in stream if token.kind is not TokenKind.DIRECTIVE]
    return [
        token
        for token, following in itertools.zip_longest(code, code[1:])
        if token.text not in own and not (following and _is_annotation(token.text, following))
    ]


def _is_annotation(word: str, following: Token) -> bool:
    """Return whether a word looks like a macro for an annotation, a pragma or a scope: `UNROLL for (…)`."""
    if following.text in ("for", "while", "do", "template", "namespace", "using", "class", "struct", "__global__"):
        return _MACRO.fullmatch(word) is not None
    return following.kind is TokenKind.WORD and _FOREIGN.fullmatch(word) is not None


def _without_statements(code: Sequence[Token]) -> list[Token]:
    """Leave out the arguments of macros that take statements: `NV_IF_TARGET(NV_IS_DEVICE, (x = 1;))`."""
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
    """Leave out what stands in braces behind a closing parenthesis."""
    ends, opened = dict[int, int](), list[int]()
    for at, token in enumerate(code):
        if token.text == "{":
            opened.append(at)
        elif token.text == "}" and opened:
            ends[opened.pop()] = at
    kept, at = list[Token](), 0
    while at < len(code):
        kept.append(code[at])
        is_body = at > 0 and code[at].text == "{" and code[at - 1].text == ")"
        at = ends.get(at, at + 1) if is_body else at + 1
    return kept


def _split_attributes(text: str, code: Sequence[Token]) -> tuple[list[Token], tuple[Attribute, ...]]:
    """Return the tokens without attributes that have arguments, and these."""
    kept, attributes, at = list[Token](), list[Attribute](), 0
    while at < len(code):
        token = code[at]
        if token.text not in ATTRIBUTES or at + 1 == len(code) or code[at + 1].text != "(":
            kept.append(token)
            at += 1
            continue
        at, depth, begin = at + 2, 1, code[at + 1].end
        arguments = list[str]()
        while at < len(code) and depth:
            depth += (code[at].text in OPENING) - (code[at].text in CLOSING)
            if depth == 0 or (depth == 1 and code[at].text == ","):
                arguments.append(text[begin : code[at].start].strip())
                begin = code[at].end
            at += 1
        attributes.append(Attribute(token.text, tuple(filter(None, arguments)), token.start))
    return kept, tuple(attributes)


def _only(text: str, code: Sequence[Token]) -> str:
    """Blank what stands between tokens. What takes more than two bytes in UTF-16 is replaced."""
    pieces, position = [], 0
    for token in code:
        gap = text[position : token.start]
        pieces += [gap if gap.isspace() else re.sub(r"[^\n]", " ", gap), text[token.start : token.end]]
        position = token.end
    pieces.append(re.sub(r"[^\n]", " ", text[position:]))
    return _WIDE.sub("_", "".join(pieces))
