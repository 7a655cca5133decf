"""YAML files: parsed to plain values with the line of each key, for schema errors."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.composer import Composer
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode
from ruamel.yaml.tag import Tag

from lab.base.errors import Location, UserError
from lab.base.files import read_regular

Key = tuple[str | int, ...]

MOST_BYTES = 4 * 2**20
"""Default size limit of `read_text`, in bytes."""

MOST_YAML_BYTES = 2**20
MOST_ENTRIES = 10_000
MOST_MERGES = 100
MOST_NODES = 20_000
MOST_DEPTH = 50
MOST_EXPANDED = 200_000
MOST_KEY_LENGTH = 200
INTEGERS = range(-(2**63), 2**64)
"""Limits of a YAML document. No experiment comes near them, and they bound the time to reject one: the parser takes
0.1 ms per node and compares each merge key `<<` with all others. Entries are counted before parsing, as lines and
commas; nodes and their depth while parsing; nodes again after aliases are expanded."""


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document.

    Attributes:
        file: Its file.
        text: Its text.
        data: Plain dicts, lists, strings, numbers, booleans and None.
        lines: Maps the path of a key (or list element) to its line, from 1.
    """

    file: Path | str
    text: str
    data: Any
    lines: Mapping[Key, int]

    def at(self, *key: str | int) -> Location:
        """Return the location of a key, or of its nearest ancestor that has one."""
        path = key
        while path and path not in self.lines:
            path = path[:-1]
        return Location(self.file, self.lines.get(path, 1))

    def below(self, *path: str | int) -> Document:
        """Return the content of an existing key as a document of its own, in the same file."""
        data = self.data
        for component in path:
            data = data[component]
        lines = {key[len(path) :]: line for key, line in self.lines.items() if key[: len(path)] == path}
        return Document(self.file, self.text, data, lines)


def decoded(content: bytes, file: Path | str, label: str = "the file") -> str:
    """Decode the text of a user's file, dropping a byte-order mark.

    Raises:
        UserError: It is not UTF-8; the error names the line.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        likely = "UTF-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "LATIN1"
        raise UserError(
            f"{label} is not UTF-8 text",
            code="syntax",
            at=Location(file, line),
            found=f"byte 0x{content[error.start]:02x}",
            accepted="UTF-8",
            suggestion=f"if it is {likely}: iconv -f {likely} -t UTF-8 {file} > NEW",
        ) from error


def read_text(file: Path, most_bytes: int = MOST_BYTES, label: str = "the file") -> str:
    """Return the text of a file named by a user.

    Raises:
        UserError: The file cannot be read, is not UTF-8, is too large, or is not a regular file.
    """
    text = decoded(read_regular(file, most_bytes, label), file, label)
    return text.replace("\r\n", "\n").replace("\r", "\n")  # universal newlines


def parse(text: str, file: Path | str, *, first_line: int = 1) -> Document:
    """Parse one YAML document.

    Args:
        text: The document.
        file: Its name, for errors.
        first_line: The line of `file` at which `text` begins.

    Raises:
        UserError: The text is not YAML, has a duplicate key or anchor, a tag or a key that is not a string, or is
            too large.
    """
    offset = first_line - 1
    _check_size(text, file)
    loader = YAML(typ="rt", pure=True)
    loader.Composer = _Bounded
    loader.allow_duplicate_keys = False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ReusedAnchorWarning)
            documents = list(islice(loader.load_all(text), 2))
    except ReusedAnchorWarning as error:  # YAML allows it, but it is surely a mistake
        lines = [int(number) for number in re.findall(r"line (\d+)", str(error))]
        at = Location(file, max(lines) + offset if lines else None)
        raise UserError(
            "an anchor is defined twice", code="duplicate", at=at, suggestion="rename one of the two"
        ) from error
    except _TooLargeError as error:
        raise UserError(
            str(error), code="syntax", at=Location(file, error.line + 1 + offset), accepted=error.accepted
        ) from None
    except DuplicateKeyError as error:
        raise UserError(
            _first_line(error.problem), code="syntax", at=_mark(error, file, offset), suggestion="remove one"
        ) from error
    except MarkedYAMLError as error:
        problem = str(error.problem or error.context)
        hint = None
        if r"'\t'" in problem:
            hint = "replace the tab by spaces: YAML allows only spaces for indentation"
        elif "flow" in f"{error.context}":
            hint = "quote texts that contain , [ ] { } or :"
        raise UserError(
            f"not YAML: {problem}", code="syntax", at=_mark(error, file, offset), suggestion=hint
        ) from error
    except ValueError as error:
        if "integer string conversion" not in str(error):
            raise UserError(f"not YAML: {_first_line(str(error))}", code="syntax", at=Location(file)) from error
        accepted = "integers of at most 64 bits"  # Python itself refuses thousands of digits
        raise UserError("an integer is too large", code="out-of-range", at=Location(file), accepted=accepted) from None
    except (YAMLError, RecursionError, AttributeError, TypeError, KeyError, IndexError) as error:
        raise UserError(f"not YAML: {_first_line(str(error))}", code="syntax", at=Location(file)) from error
    if len(documents) != 1:
        finding = "several documents" if documents else "no document"
        raise UserError("expected exactly one YAML document", code="duplicate", at=Location(file), found=finding)
    reader = _Plain(file, offset)
    data = reader.plain(documents[0], ())
    return Document(file, text, data, reader.lines)


def _check_size(text: str, file: Path | str) -> None:
    """Reject a text that would take long to parse."""
    entries = text.count("\n") + text.count(",")
    for count, limit, unit in (
        (len(text), MOST_YAML_BYTES, "characters"),
        (entries, MOST_ENTRIES, "lines and commas"),
        (text.count("<<"), MOST_MERGES, "merge keys `<<`"),
    ):
        if count > limit:
            at, accepted = Location(file), f"at most {limit} {unit}"
            raise UserError(
                "the document is too large", code="out-of-range", at=at, found=f"{count} {unit}", accepted=accepted
            )


_TEXT = Tag(suffix="tag:yaml.org,2002:str")


class _TooLargeError(Exception):
    """A document has too many nodes, or is nested too deeply."""

    def __init__(self, message: str, line: int, accepted: str) -> None:
        self.line, self.accepted = line, accepted
        super().__init__(message)


class _Bounded(Composer):
    """A ruamel composer that stops at a document that is too large instead of reading all of it."""

    nodes = levels = 0

    def compose_node(self, parent: Any, index: Any) -> Any:  # noqa: ANN401 - as ruamel declares it
        self.nodes += 1
        self.levels += 1
        if self.nodes > MOST_NODES or self.levels > MOST_DEPTH:
            line = self.parser.peek_event().start_mark.line
            if self.levels > MOST_DEPTH:
                raise _TooLargeError("the document is nested too deeply", line, f"at most {MOST_DEPTH} levels")
            raise _TooLargeError("the document is too large", line, f"at most {MOST_NODES} keys and values")
        try:
            return _joined(super().compose_node(parent, index))
        finally:
            self.levels -= 1


def _joined(node: Any) -> Any:  # noqa: ANN401 - any node of ruamel
    """Join what YAML split at a comma in parentheses: `[f(a, b), c]` has the items `f(a, b)` and `c`.

    Only plain texts are joined, and only where the parentheses of the whole then balance.
    """
    if isinstance(node, SequenceNode) and node.flow_style:
        node.value = [part[0] for part in _rejoined([(item,) for item in node.value])]
    elif isinstance(node, MappingNode) and node.flow_style:
        node.value = _rejoined(node.value)
    return node


def _rejoined(entries: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the entries of a list or of a mapping, those of one text in parentheses as one."""
    kept: list[tuple[Any, ...]] = []
    at = 0
    while at < len(entries):
        entry, end = entries[at], at + 1
        words = [entry[-1].value] if _is_plain(entry[-1]) else []
        while words and _depth(words) and end < len(entries) and (word := _continuation(entries[end])) is not None:
            words.append(word)
            end += 1
        if len(words) > 1 and _depth(words) == 0:
            last = entries[end - 1][0]
            text = ScalarNode(
                tag=_TEXT, value=", ".join(words), start_mark=entry[-1].start_mark, end_mark=last.end_mark, style=None
            )
            entry = (*entry[:-1], text)
        else:
            end = at + 1
        kept.append(entry)
        at = end
    return kept


def _is_plain(node: Any) -> bool:  # noqa: ANN401 - any node of ruamel
    return isinstance(node, ScalarNode) and node.style is None and node.anchor is None


def _continuation(entry: tuple[Any, ...]) -> str | None:
    """Return what follows a comma in a text: an item, or a key without a value; None for anything else."""
    is_alone = len(entry) == 1 or (_is_plain(entry[1]) and not entry[1].value)
    return entry[0].value if _is_plain(entry[0]) and is_alone else None


def _depth(words: Sequence[str]) -> int | None:
    """Return how many parentheses are open at the end of a text that commas split; None where one closes too many."""
    depth = 0
    for sign in "".join(words):
        depth += (sign == "(") - (sign == ")")
        if depth < 0:
            return None
    return depth


class _Plain:
    """Converts ruamel's round-trip nodes to plain values and records the line of each key."""

    def __init__(self, file: Path | str, offset: int) -> None:
        self.file, self.offset = file, offset
        self.lines: dict[Key, int] = {}
        self.nodes = 0

    def plain(self, node: Any, path: Key) -> Any:  # noqa: ANN401 - any YAML value
        self.nodes += 1
        if self.nodes > MOST_EXPANDED or len(path) > MOST_DEPTH:
            raise UserError(
                "the document is too large once its aliases are expanded", code="out-of-range", at=Location(self.file)
            )
        if isinstance(node, CommentedMap | CommentedSeq) and node.tag.value is not None:
            raise self._refused(node, path)
        if isinstance(node, CommentedMap):
            return {self._key(node, key, path): self.plain(value, (*path, key)) for key, value in node.items()}
        if isinstance(node, CommentedSeq):
            for i in range(len(node)):
                self.lines[(*path, i)] = node.lc.item(i)[0] + 1 + self.offset
            return [self.plain(value, (*path, i)) for i, value in enumerate(node)]
        for kind in (bool, int, float, str):
            if isinstance(node, kind):
                if kind is int and int(node) not in INTEGERS:
                    raise UserError(
                        "the integer is too large",
                        code="out-of-range",
                        at=Location(self.file, self.lines.get(path)),
                        key=dotted(path),
                        accepted="an integer of at most 64 bits",
                    )
                # ruamel keeps the spelling of a boolean with an anchor, of hexadecimal numbers, of quotes; drop it
                return kind(node)
        if node is None:
            return None
        raise self._refused(node, path)

    def _refused(self, node: object, path: Key) -> UserError:
        return UserError(
            "this kind of value is not supported",
            code="wrong-type",
            at=Location(self.file, self.lines.get(path)),
            key=dotted(path),
            found=str(node),
            accepted="strings, numbers, booleans, lists and mappings, without tags",
        )

    def _key(self, node: CommentedMap, key: object, path: Key) -> str:
        line = Location(self.file, node.lc.line + 1 + self.offset)
        if not isinstance(key, str):
            raise UserError(
                "a key must be a string",
                code="wrong-type",
                at=line,
                key=dotted(path),
                found=str(key),
                accepted="a string",
            )
        if len(key) > MOST_KEY_LENGTH:
            accepted = f"at most {MOST_KEY_LENGTH} characters"
            raise UserError(
                "the key is too long",
                code="out-of-range",
                at=line,
                key=dotted(path) or None,
                found=key,
                accepted=accepted,
            )
        # keys merged in with `<<` have no line of their own
        place = node.lc.data.get(key) if node.lc.data else None
        self.lines[(*path, str(key))] = (place[0] if place else node.lc.line) + 1 + self.offset
        return str(key)


def dotted(path: Sequence[str | int]) -> str:
    """Return a path of keys in dotted notation: ``kernels[0].template`` for ``('kernels', 0, 'template')``."""
    text = ""
    for component in path:
        text += f"[{component}]" if isinstance(component, int) else f".{component}" if text else component
    return text


def _mark(error: MarkedYAMLError, file: Path | str, offset: int) -> Location:
    mark = error.problem_mark or error.context_mark
    return Location(file, mark.line + 1 + offset, mark.column + 1) if mark else Location(file)


def _first_line(text: str | None) -> str:
    return (text or "unreadable").strip().splitlines()[0]
