"""Strip host code from a CUDA source, keeping line numbers.

A file that was written for nvcc holds its host code beside its kernels: `main`, launches, timers, helpers on
`std::vector`. NVRTC refuses all of these. By CUDA's rules, device code cannot use them: it cannot call a function
without `__device__`, or read a variable without a memory space, unless it is constant. They are therefore blanked, with
every line and column in its place. What is `constexpr` may be used in constants, and becomes `__host__ __device__`.

The source is read before preprocessing, as `lab.isa.cuda.kernels` reads it. Directives stay; where both branches of a
condition head one body, an annotation in either keeps it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise

from lab.isa.cuda.definitions import definitions
from lab.isa.cuda.tokens import Token, TokenKind, behind, live_tokens
from lab.toolchain.nvrtc.standard import is_trait

_DEVICE = frozenset({"__global__", "__device__", "__constant__", "__shared__", "__managed__", "__tile_global__"})
_CONSTANT = frozenset({"constexpr", "consteval", "constinit"})
_STAYS = frozenset({"typedef", "using", "static_assert", "asm", "concept", "enum", "__asm__", "_Static_assert"})
_NO_NAME = frozenset(
    {
        *("alignas", "__align__", "__attribute__", "__declspec", "__launch_bounds__", "__cluster_dims__", "decltype"),
        *("noexcept", "explicit", "requires", "sizeof", "alignof", "__maxnreg__", "__block_size__", "static_assert"),
    }
)
"""Words followed by parentheses that hold no parameters."""

_DEVICE_STD = frozenset(
    """
    size_t ptrdiff_t nullptr_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t intptr_t uintptr_t
    numeric_limits min max clamp swap move forward abs sqrt pow exp log sin cos is_same is_same_v enable_if enable_if_t
    conditional conditional_t true_type false_type integral_constant remove_cv_t remove_reference_t decay_t tuple array
    pair complex is_floating_point is_floating_point_v is_integral is_integral_v initializer_list index_sequence
    make_index_sequence common_type_t underlying_type_t is_signed_v is_unsigned_v optional span plus minus multiplies
    byte bit_cast less greater make_unsigned_t make_signed_t void_t declval invoke_result_t remove_const_t
    """.split()  # noqa: SIM905 - words
)
"""Names of `std` usable in device code, as far as declarations outside of functions need them."""

_HOST_STD = frozenset(
    """
    vector string wstring map set unordered_map unordered_set multimap list deque queue stack thread mutex ofstream
    ifstream fstream ostream istream stringstream ostringstream istringstream shared_ptr unique_ptr weak_ptr function
    chrono future atomic_flag condition_variable mt19937 default_random_engine random_device filesystem string_view
    normal_distribution uniform_real_distribution uniform_int_distribution runtime_error exception ratio
    """.split()  # noqa: SIM905 - words
)
_HOST_ROOTS = frozenset(
    """
    boost cv Eigen nlohmann fmt po spdlog google absl folly arrow testing benchmark nvbench tbb cxxopts argparse torch
    at c10 caffe2 pybind11 py nanobind nb tvm tensorflow tsl xla jax paddle phi mxnet nvinfer1 onnxruntime Ort rmm raft
    cudf cuvs
    """.split()  # noqa: SIM905 - words
)
"""Namespaces of host libraries, unless a text opens one of that name."""
_HOST_OF_THRUST = frozenset({"device_vector", "host_vector", "universal_vector", "device_ptr"})
_NAMESPACES = frozenset({"std", "nvcuda", "cooperative_groups", "cub", "thrust", "cuda", "nv", "cute", "cutlass"})
_VALUES = (TokenKind.NUMBER, TokenKind.STRING, TokenKind.CHAR)
_KEPT_DIRECTIVE = re.compile(r"#\s*(?!pragma\b|warning\b|error\b)")
_INCLUDE = re.compile(r"#\s*include\b")
_DEPTH = 16
"""Limit on the depth of nested macros."""


class _Kind(Enum):
    FUNCTION = "function"
    CLASS = "class"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class _Item:
    """One declaration.

    Attributes:
        kind: What it declares.
        head: Its tokens without bodies and directives.
        end: Position behind its last token.
        name: Position of a function's name or parenthesis; of others, of the first token.
        body: Position of a body's opening brace, or None.
        first: Position of its first token behind `template <…>`.
    """

    kind: _Kind
    head: Sequence[Token]
    end: int
    name: str = ""
    body: int | None = None
    first: int = 0


@dataclass(frozen=True, slots=True)
class _Borrowed:
    """A using-declaration or a type alias.

    Attributes:
        first: Position of its first token.
        last: Position behind its last one.
        name: The name that it gives.
        is_alias: Whether it gives a name of its own.
        is_foreign: Whether what it names is in no namespace of the texts.
    """

    first: int
    last: int
    name: str
    is_alias: bool
    is_foreign: bool


@dataclass(frozen=True)
class Knowledge:
    """Facts collected from all texts of one source.

    Attributes:
        macros: Macros and what they stand for.
        functions: Macros that take arguments.
        annotated: Functions that are declared for the device without a body, which may stand elsewhere.
        namespaces: Names of namespaces.
        uses_std: The names of `std` are used without it.
    """

    macros: Mapping[str, str]
    functions: frozenset[str]
    annotated: frozenset[str]
    namespaces: frozenset[str]
    uses_std: bool

    def words(self, stream: Iterable[Token]) -> set[str]:
        """Return the words of a declaration, with macros expanded."""
        expanded: set[str] = set()
        pending = [(token.text, 0) for token in stream if token.kind is TokenKind.WORD]
        while pending:
            word, depth = pending.pop()
            if word not in expanded:
                expanded.add(word)
                if depth < _DEPTH and word in self.macros:
                    pending += [(inner, depth + 1) for inner in re.findall(r"[^\W\d]\w*", self.macros[word])]
        return expanded


def device_part(text: str, companions: Iterable[str] = ()) -> str:
    """Return a source without host code; line numbers are kept.

    Args:
        text: CUDA C++. A source without host code is returned as it is.
        companions: Texts that it is compiled with, whose macros and declarations count.
    """
    texts = [text, *companions]
    streams = [live_tokens(source) for source in texts]
    macros: dict[str, str] = {}  # of a macro with several values, all: each may be that of a branch that counts
    for one in (definition for source in texts for definition in definitions(source)):
        macros[one.name] = f"{macros.get(one.name, '')} {one.value}".strip()
    knowledge = Knowledge(
        macros=macros,
        functions=frozenset(
            definition.name for text in texts for definition in definitions(text) if definition.function_like
        ),
        annotated=frozenset(),
        namespaces=_known_namespaces(streams),
        uses_std=any(re.search(r"\busing\s+namespace\s+std\s*;", definition) for definition in texts),
    )
    annotated = {name for stream in streams for name in _Reader(stream, knowledge).prototypes()}
    knowledge = replace(knowledge, annotated=frozenset(annotated))
    reader = _Reader(streams[0], knowledge)
    reader.read(0, len(reader.stream), in_class=False)
    if reader.borrowed:
        reader.blanked += _unused(reader, [_read(stream, knowledge) for stream in streams[1:]])
    reader.blanked += _lambda_annotations(reader.stream, reader.blanked)
    return _edited(text, reader)


def holds_kernel(texts: Iterable[str]) -> bool:
    """Return whether any text may define a kernel; without one, the compiler reports what is wrong."""
    return any("__global__" in text for text in texts)


def _known_namespaces(streams: Iterable[Sequence[Token]]) -> frozenset[str]:
    """Return the namespaces opened by the texts or known from CUDA, and their aliases."""
    namespaces, aliases = set(_NAMESPACES), dict[str, str]()
    for stream in streams:
        for at, (word, name) in enumerate(pairwise(stream)):
            is_used = at > 0 and stream[at - 1].text == "using"
            if word.text != "namespace" or name.kind is not TokenKind.WORD or is_used:
                continue
            behind_name = [token.text for token in stream[at + 2 : at + 5] if token.text != "::"]
            if behind_name[:1] == ["="]:
                aliases[name.text] = behind_name[1] if len(behind_name) > 1 else ""
            else:
                namespaces.add(name.text)
    while added := {name for name, target in aliases.items() if target in namespaces} - namespaces:
        namespaces |= added
    return frozenset(namespaces)


def _read(stream: Sequence[Token], knowledge: Knowledge) -> _Reader:
    reader = _Reader(stream, knowledge)
    reader.read(0, len(stream), in_class=False)
    return reader


def _unused(reader: _Reader, other_readers: Sequence[_Reader]) -> list[tuple[int, int]]:
    """Return the token ranges of using-declarations whose names are stripped or otherwise unused.

    The latter come from headers that serve the host, such as `using torch::Tensor;`.
    """
    texts = (reader, *other_readers)
    declared = set[str]().union(*(scanned.declared for scanned in texts))
    blanked_names = set[str]().union(*(scanned.gone for scanned in texts)) - declared
    hidden = [borrowed for borrowed in reader.borrowed if not borrowed.is_alias and borrowed.name in blanked_names]
    pending = [
        borrowed
        for borrowed in reader.borrowed
        if borrowed not in hidden and (borrowed.is_foreign or borrowed.name not in declared)
    ]
    used = set[str]().union(*(scanned.used(scanned.blanked) for scanned in other_readers))
    used |= reader.used([*reader.blanked, *((borrowed.first, borrowed.last) for borrowed in (*hidden, *pending))])
    while required := [borrowed for borrowed in pending if borrowed.name in used]:
        pending = [borrowed for borrowed in pending if borrowed not in required]
        used |= {token.text for borrowed in required for token in reader.stream[borrowed.first : borrowed.last]}
    return [(borrowed.first, borrowed.last) for borrowed in (*hidden, *pending)]


def _lambda_annotations(stream: Sequence[Token], blanked: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the token ranges of lambda annotations outside of stripped code.

    nvcc asks for the annotation (`--extended-lambda`); where all code is device code, it is refused.
    """
    ranges = []
    for at, token in enumerate(stream[:-1]):
        end = at + 1
        while end < len(stream) and stream[end].text in ("__device__", "__host__"):
            end += 1
        is_lambda = token.text == "]" and end > at + 1 and stream[at - 1].text != "]"  # [[…]] is an attribute
        if is_lambda and not any(first <= at < last for first, last in blanked):
            ranges.append((at + 1, end))
    return ranges


def _edited(text: str, reader: _Reader) -> str:
    """Blank the stripped code except for needed directives, and annotate constexpr functions."""
    pieces, position = list[str](), 0
    stream = reader.stream
    edits = [(stream[first].start, stream[last - 1].end, first, last) for first, last in reader.blanked]
    edits += [(stream[at].start, stream[at].start, at, at) for at in reader.constants]
    for start, end, first, last in sorted(edits):
        pieces.append(text[position:start])
        position = start
        if first == last:
            pieces.append("__host__ __device__ ")
        for token in stream[first:last]:
            if token.kind is TokenKind.DIRECTIVE and _KEPT_DIRECTIVE.match(token.text):
                pieces += [_blank(text[position : token.start]), text[token.start : token.end]]
                position = token.end
        if first < last:
            pieces.append(_blank(text[position:end]))
        position = end
    return "".join([*pieces, text[position:]])


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


@dataclass(slots=True)
class _Reader:
    """A reader of the declarations in one text.

    Attributes:
        stream: Its tokens.
        known: What all texts say.
        blanked: Positions of the first token and behind the last one of what only the host can use.
        constants: Positions of `constexpr` functions that have no annotation.
        hosts: Types that were blanked.
        gone: Functions, types and variables that were blanked.
        declared: Those that stay.
        borrowed: What gives a name to something declared elsewhere, and stays.
    """

    stream: Sequence[Token]
    known: Knowledge
    blanked: list[tuple[int, int]] = field(default_factory=list)
    constants: list[int] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    declared: set[str] = field(default_factory=set)
    borrowed: list[_Borrowed] = field(default_factory=list)

    def used(self, blanked: Iterable[tuple[int, int]]) -> set[str]:
        """Return the words of the text outside of some token ranges."""
        hidden = {at for first, last in blanked for at in range(first, last)}
        words: set[str] = set()
        for at, token in enumerate(self.stream):
            if token.kind is TokenKind.DIRECTIVE and not _INCLUDE.match(token.text):
                words.update(re.findall(r"[^\W\d]\w*", token.text))
            elif at not in hidden:
                words.add(token.text)
        return words

    def prototypes(self) -> set[str]:
        """Return the device functions declared without a body."""
        names: set[str] = set()
        at = 0
        while at < len(self.stream):
            inner = self._scope(at)
            if inner is not None or self.stream[at].text in (";", "}"):
                at = inner if inner is not None else at + 1
                continue
            item = self._item(at, len(self.stream))
            if item.kind is _Kind.CLASS and item.body is not None:
                at = item.body + 1
                continue
            if item.kind is _Kind.FUNCTION and item.body is None and self._words(item) & _DEVICE:
                names.add(item.name)
            at = max(item.end, at + 1)
        return names

    def read(self, at: int, end: int, *, in_class: bool) -> None:
        """Classify the declarations between two positions."""
        while at < end:
            token = self.stream[at]
            inner = self._scope(at)
            if inner is not None:
                at = inner
            elif token.kind is TokenKind.DIRECTIVE or token.text in (";", "}"):
                at += 1
            elif in_class and token.text in ("public", "private", "protected") and self._text(at + 1) == ":":
                at += 2
            elif (behind_macro := self._macro(at)) is not None:
                at = behind_macro
            else:
                at = self._judge(at, end, in_class=in_class)

    def _text(self, at: int) -> str:
        return self.stream[at].text if at < len(self.stream) else ""

    def _scope(self, at: int) -> int | None:
        """Return the position after the opening of a namespace or an `extern "C"` block, or None."""
        if self._text(at) == "inline" and self._text(at + 1) == "namespace":
            at += 1
        if self._text(at) == "namespace":
            while self._text(at) not in ("{", ";", "=", ""):
                at += 1
            return at + 1 if self._text(at) == "{" else None
        if self._text(at) == "extern" and self._text(at + 1) == '"C"' and self._text(at + 2) == "{":
            return at + 3
        return None

    def _macro(self, at: int) -> int | None:
        """Return the position after a function-like macro that expands to declarations, or None."""
        name = self._text(at)
        value = self.known.macros.get(name, "")
        if name not in self.known.functions or self._text(at + 1) != "(" or not re.search(r"[;{]", value):
            return None
        end = behind(self.stream, at + 1)
        words = self.known.words(self.stream[at:end])
        if not words & (_DEVICE | _STAYS | {"struct", "class", "template"}):
            self.blanked.append((at, end))
        return end

    def _judge(self, at: int, end: int, *, in_class: bool) -> int:
        item = self._item(at, end)
        words = self._words(item)
        last = max(item.end, at + 1)
        is_host = False
        if item.kind is _Kind.CLASS:
            return self._class(at, item, last)
        outer = self.known.words(_outside_parentheses(item.head)) - self.known.macros.keys()
        if words & _DEVICE or any(_is_foreign_annotation(word) for word in outer):
            pass
        elif item.kind is _Kind.FUNCTION:
            is_host = self._is_host_function(item, words, in_class=in_class)
        elif item.head and item.head[0].text in ("typedef", "using", "namespace"):
            is_host = self._names_host(item.head) or self._uses_unknown_namespace(item.head)
            if is_host and item.head[0].text != "namespace":
                self.hosts.add(
                    item.head[1].text if "=" in [token.text for token in item.head] else _last_word(item.head)
                )
        elif not in_class and not words & (_STAYS | _CONSTANT):
            is_host = not self._is_constant(item.head) or self._names_host(item.head)
        if is_host:
            self.blanked.append((at, last))
        self._note(item, at, last, is_host=is_host, in_class=in_class)
        return last

    def _note(self, item: _Item, at: int, last: int, *, is_host: bool, in_class: bool) -> None:
        """Record the names that a declaration introduces."""
        names = self.gone if is_host else self.declared
        texts = [token.text for token in item.head]
        if item.kind is _Kind.FUNCTION:
            names.add(item.name)
        elif texts[:1] not in (["using"], ["typedef"]):
            names.update(token.text for token in item.head if token.kind is TokenKind.WORD and not is_host)
            names.add(_last_word(item.head[: texts.index("=")] if "=" in texts else item.head))
        elif texts[1:2] != ["namespace"] and not is_host and not in_class:
            is_alias = texts[0] == "typedef" or "=" in texts
            name = texts[1] if texts[0] == "using" and is_alias else _last_word(item.head)
            template = {token.text for token in self.stream[at : item.first]}
            roots = {
                root
                for before, root, mark in zip(["", *texts], texts, texts[1:], strict=False)
                if mark == "::" and root[:1].isidentifier() and before != "::"
            } - template
            is_foreign = bool(roots - self.known.namespaces)
            if is_foreign if is_alias else not roots & _NAMESPACES:
                self.borrowed.append(_Borrowed(at, last, name, is_alias, is_foreign))

    def _is_host_function(self, item: _Item, words: set[str], *, in_class: bool) -> bool:
        texts = [token.text for token in item.head]
        if words & _CONSTANT:
            if not self._names_host(item.head):
                place = next(i for i in range(item.first, item.end) if self.stream[i].kind is TokenKind.WORD)
                self.constants.append(place)
                return False
            return True
        if item.first < len(self.stream) and self.stream[item.first].text in _STAYS:
            is_host = self._names_host(item.head)
            if is_host:
                self.hosts.add(_last_word(item.head))
            return is_host
        if item.name in self.known.annotated and item.body is not None:
            return False
        is_defaulted = in_class and texts[-2:] in (["=", "default"], ["=", "delete"]) and "virtual" not in texts
        return not is_defaulted

    def _class(self, at: int, item: _Item, last: int) -> int:
        name = _class_name(item.head)
        if item.body is None:
            self.declared.add(name)
            return last
        body_end = behind(self.stream, item.body)
        if self._names_host(item.head) or self._has_host_member(item.body + 1, body_end - 1):
            self.hosts.add(name)
            self.gone.add(name)
            self.blanked.append((at, last))
            return last
        self.declared.add(name)
        self.read(item.body + 1, body_end - 1, in_class=True)
        return last

    def _has_host_member(self, at: int, end: int) -> bool:
        """Return whether a class has a member of a host-only type."""
        while at < end:
            if self.stream[at].kind is TokenKind.DIRECTIVE or self._text(at) in (";", "}"):
                at += 1
            elif self._text(at) in ("public", "private", "protected") and self._text(at + 1) == ":":
                at += 2
            else:
                item = self._item(at, end)
                holds = item.kind is _Kind.OTHER and not (item.head and item.head[0].text in ("using", "typedef"))
                if holds and self._names_host(item.head):
                    return True
                at = max(item.end, at + 1)
        return False

    def _words(self, item: _Item) -> set[str]:
        return self.known.words(item.head)

    def _names_host(self, head: Sequence[Token]) -> bool:
        """Return whether a declaration names a host-only type."""
        texts = [token.text for token in head]
        for at, text in enumerate(texts):
            following = texts[at + 1 : at + 3]
            before = texts[at - 1] if at else ""
            if text == "std" and following[:1] == ["::"] and following[1:] and not _is_device_std(following[1]):
                return True
            if text == "thrust" and following[1:] and following[1] in _HOST_OF_THRUST:
                return True
            is_root = text in _HOST_ROOTS and following[:1] == ["::"] and text not in self.known.namespaces
            if before != "::" and (text in self.hosts or is_root):
                return True
            if text == "FILE" or (
                self.known.uses_std and text in _HOST_STD and before not in ("::", ".") and self._is_type(head, at)
            ):
                return True
        return False

    @staticmethod
    def _is_type(head: Sequence[Token], at: int) -> bool:
        following = head[at + 1] if at + 1 < len(head) else None
        return following is not None and (following.kind is TokenKind.WORD or following.text in ("<", "&", "*"))

    def _uses_unknown_namespace(self, head: Sequence[Token]) -> bool:
        texts = [token.text for token in head]
        if texts[:2] == ["using", "namespace"]:
            root = next((text for text in texts[2:] if text != "::"), "")
        elif texts[:1] == ["namespace"]:
            root = next((text for text in texts[texts.index("=") + 1 :] if text != "::"), "") if "=" in texts else "std"
        else:
            return False
        return root not in self.known.namespaces

    def _is_constant(self, head: Sequence[Token]) -> bool:
        """Return whether a variable is constant, so that device code may use it."""
        texts = [token.text for token in head]
        declared = texts[: texts.index("=")] if "=" in texts else texts
        if "[" in texts[len(declared) :][:2]:  # a lambda belongs to the host without an annotation
            return False
        if "*" in declared:
            star = len(declared) - 1 - declared[::-1].index("*")
            return "const" in declared[star:]
        return "const" in declared

    def _item(self, at: int, end: int) -> _Item:
        """Read one declaration."""
        first = at = self._behind_template(at, end)
        head = list(self.stream[at:at])
        state = _State()
        while at < end:
            token = self.stream[at]
            if token.kind is TokenKind.DIRECTIVE:
                at += 1
                continue
            if token.text in (";", "}"):
                return state.item(head, at + (token.text == ";"), first)
            if token.text == "{":
                if state.is_body(self._before(at)):
                    state.body = at
                    at = behind(self.stream, at)
                    if state.parameters:
                        return state.item(head, at, first)
                    continue
                at = behind(self.stream, at)
                continue
            if token.text == "operator":
                head.append(token)
                at = self._operator(at + 1, end)
                state.name = "operator"
                continue
            if token.text in ("(", "["):
                if token.text == "(":
                    self._note_parameters(at, state)
                inner = behind(self.stream, at)
                head += [
                    inner_token for inner_token in self.stream[at:inner] if inner_token.kind is not TokenKind.DIRECTIVE
                ]
                at = inner
                continue
            state.note(token)
            head.append(token)
            at += 1
        return state.item(head, at, first)

    def _before(self, at: int) -> Token | None:
        before = at - 1
        while before >= 0 and self.stream[before].kind is TokenKind.DIRECTIVE:
            before -= 1
        return self.stream[before] if before >= 0 else None

    def _behind_template(self, at: int, end: int) -> int:
        """Return the position after all `template <…>` heads."""
        while at < end and self._text(at) == "template" and self._text(at + 1) == "<":
            angles, at = 0, at + 1
            while at < end:
                if self._text(at) == "(":
                    at = behind(self.stream, at)
                    continue
                angles += (self._text(at) == "<") - (self._text(at) == ">")
                at += 1
                if angles == 0:
                    break
        return at

    def _operator(self, at: int, end: int) -> int:
        """Return the position of the parenthesis after an operator's name."""
        if self._text(at) == "(" and self._text(at + 1) == ")":
            return at + 2
        while at < end and self._text(at) != "(":
            at += 1
        return at

    def _note_parameters(self, at: int, state: _State) -> None:
        before = self._before(at)
        if state.parameters or state.equals:
            return
        is_named = before is not None and before.kind is TokenKind.WORD and before.text not in _NO_NAME
        if self._holds_value(at):
            return
        is_operator = state.name == "operator"
        if is_operator or (is_named and self._text(at + 1) not in ("*", "&")):
            state.parameters = True
            state.name = state.name or (before.text if before else "")

    def _holds_value(self, at: int) -> bool:
        """Return whether a parenthesis holds a variable's value: `unsigned n(4);`, `int m(n / 2);`, `int m(N);`."""
        inside = self.stream[at + 1 : behind(self.stream, at) - 1]
        if inside and inside[0].kind in _VALUES:
            return True
        is_product = any(parenthese.text in ("+", "-", "/", "%", "?") for parenthese in _outside_parentheses(inside))
        return is_product or (len(inside) == 1 and self.known.macros.get(inside[0].text, "")[:1].isdigit())


@dataclass(slots=True)
class _State:
    """The state of a declaration while its tokens are read."""

    parameters: bool = False
    equals: bool = False
    is_class: bool = False
    is_enum: bool = False
    initialises: bool = False
    name: str = ""
    body: int | None = None

    def note(self, token: Token) -> None:
        if token.text == "enum":
            self.is_enum = True
        elif token.text in ("class", "struct", "union") and not self.is_enum:
            self.is_class = True
        elif token.text == "=" and not self.parameters:
            self.equals = True
        elif token.text == ":" and self.parameters:
            self.initialises = True

    def is_body(self, before: Token | None) -> bool:
        """Return whether a brace opens a body and not an initialiser."""
        if self.equals:
            return False
        if self.parameters:
            is_member = before is not None and (before.kind is TokenKind.WORD or before.text == ">")
            return not (self.initialises and is_member)
        return self.is_class

    def item(self, head: Sequence[Token], end: int, first: int) -> _Item:
        kind = _Kind.FUNCTION if self.parameters else _Kind.OTHER
        if self.is_class and not self.parameters and not self.equals:
            names = [token for token in head if token.kind is TokenKind.WORD]
            is_declared = self.body is None and len(names) > 2  # noqa: PLR2004 - struct, its name, a variable's
            kind = _Kind.OTHER if is_declared else _Kind.CLASS
        return _Item(kind, head, end, self.name, self.body, first)


def _outside_parentheses(head: Sequence[Token]) -> list[Token]:
    outside, depth = list[Token](), 0
    for token in head:
        depth -= token.text == ")"
        if depth <= 0:
            outside.append(token)
        depth += token.text == "("
    return outside


def _is_device_std(name: str) -> bool:
    return name in _DEVICE_STD or is_trait(name)


def _is_foreign_annotation(word: str) -> bool:
    """Return whether a word looks like a library's macro for `__device__`, such as `CUTLASS_HOST_DEVICE`."""
    return word.isupper() and "DEVICE" in word and not word.startswith("__")


def _last_word(head: Sequence[Token]) -> str:
    return next((token.text for token in reversed(head) if token.kind is TokenKind.WORD), "")


def _class_name(head: Sequence[Token]) -> str:
    texts = [token.text for token in head if token.kind is TokenKind.WORD]
    return next((text for text in texts if text not in ("class", "struct", "union", "final", *_NO_NAME)), "")
