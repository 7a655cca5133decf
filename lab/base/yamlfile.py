"""Reads YAML with line numbers: text to plain values, and schema errors that name the line."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError

from lab.base.errors import Location, UserError, did_you_mean

Key = tuple[str | int, ...]

_MOST_BYTES = 4 * 2**20
_MOST_NODES = 200_000
_MOST_DEPTH = 50
"""Aliases can make a short file expand without end. No experiment comes near these limits."""

_MOST_BITS = 64
"""Of a whole number: seeds take all of them."""


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document.

    Attributes:
        file: The file that it was read from.
        text: Its text.
        data: Plain dicts, lists, strings, numbers, booleans and None.
        lines: Maps the path of a key (or list element) to its line, from 1.
    """

    file: Path | str
    text: str
    data: Any
    lines: Mapping[Key, int]

    def at(self, *key: str | int) -> Location:
        """Return the location of a key, or of the nearest enclosing key that has one."""
        path = key
        while path and path not in self.lines:
            path = path[:-1]
        return Location(self.file, self.lines.get(path, 1))


def read_text(file: Path) -> str:
    """Return the text of a file that a user named.

    Raises:
        UserError: The file cannot be read, is not UTF-8, or is too large.
    """
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise UserError("the file is too large", at=Location(file), accepted=f"at most {_MOST_BYTES} bytes")
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        folder = file.parent
        siblings = sorted(p.name for p in folder.glob(f"*{file.suffix}")) if folder.is_dir() else []
        raise UserError(
            "no such file",
            at=Location(file),
            accepted=siblings[:20] or None,
            suggestion=did_you_mean(file.name, siblings),
        ) from None
    except UnicodeDecodeError as error:
        raise UserError(f"the file is not UTF-8 text: {error}", at=Location(file)) from error
    except OSError as error:
        raise UserError(f"cannot read the file: {error.strerror}", at=Location(file)) from error


def parse(text: str, file: Path | str, *, first_line: int = 1) -> Document:
    """Read one YAML document.

    Args:
        text: The document.
        file: Its name, for errors.
        first_line: The line of `file` at which `text` begins.

    Raises:
        UserError: The text is not YAML, has a duplicate key or anchor, a tag or a key that is not a string, or is
            too large.
    """
    offset = first_line - 1
    loader = YAML(typ="rt", pure=True)
    loader.allow_duplicate_keys = False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ReusedAnchorWarning)
            documents = list(loader.load_all(text))
    except ReusedAnchorWarning as error:  # YAML allows it, but two names were surely meant
        lines = [int(number) for number in re.findall(r"line (\d+)", str(error))]
        at = Location(file, max(lines) + offset if lines else None)
        raise UserError("an anchor is defined twice", at=at, suggestion="rename one of the two") from error
    except DuplicateKeyError as error:
        raise UserError(_first_line(error.problem), at=_mark(error, file, offset), suggestion="remove one") from error
    except MarkedYAMLError as error:
        raise UserError(f"not YAML: {error.problem or error.context}", at=_mark(error, file, offset)) from error
    except (YAMLError, ValueError, RecursionError, AttributeError, TypeError, KeyError, IndexError) as error:
        raise UserError(f"not YAML: {_first_line(str(error))}", at=Location(file)) from error
    if len(documents) != 1:
        found = f"{len(documents)} documents"
        raise UserError("expected exactly one YAML document", at=Location(file), found=found)
    reader = _Plain(file, offset)
    data = reader.plain(documents[0], ())
    return Document(file, text, data, reader.lines)


class _Plain:
    """Turns ruamel's round-trip nodes into plain values and records the line of each key."""

    def __init__(self, file: Path | str, offset: int) -> None:
        self.file, self.offset = file, offset
        self.lines: dict[Key, int] = {}
        self.nodes = 0

    def plain(self, node: Any, path: Key) -> Any:  # noqa: ANN401 - any YAML value
        self.nodes += 1
        if self.nodes > _MOST_NODES or len(path) > _MOST_DEPTH:
            raise UserError("the document is too large once its aliases are expanded", at=Location(self.file))
        if isinstance(node, CommentedMap | CommentedSeq) and node.tag.value is not None:
            raise self._refused(node, path)
        if isinstance(node, CommentedMap):
            return {self._key(node, key, path): self.plain(value, (*path, key)) for key, value in node.items()}
        if isinstance(node, CommentedSeq):
            for i in range(len(node)):
                self.lines[(*path, i)] = node.lc.item(i)[0] + 1 + self.offset
            return [self.plain(value, (*path, i)) for i, value in enumerate(node)]
        if isinstance(node, int) and node.bit_length() > _MOST_BITS:  # Python refuses to write very long ones
            raise UserError(
                f"the number has {node.bit_length()} bits",
                at=Location(self.file, self.lines.get(path)),
                key=dotted(path),
                accepted=f"a whole number of at most {_MOST_BITS} bits",
            )
        for kind in (bool, int, float, str):
            if isinstance(node, kind):
                # ruamel keeps the spelling of a boolean with an anchor, of hexadecimal numbers, of quotes; drop it
                return kind(node)
        if node is None:
            return None
        raise self._refused(node, path)

    def _refused(self, node: object, path: Key) -> UserError:
        return UserError(
            "this kind of value is not supported",
            at=Location(self.file, self.lines.get(path)),
            key=dotted(path),
            found=str(node),
            accepted="strings, numbers, booleans, lists and mappings, without tags",
        )

    def _key(self, node: CommentedMap, key: object, path: Key) -> str:
        line = Location(self.file, node.lc.line + 1 + self.offset)
        if not isinstance(key, str):
            raise UserError("a key must be a string", at=line, key=dotted(path), found=str(key), accepted="a string")
        # keys merged in with `<<` have no line of their own
        place = node.lc.data.get(key) if node.lc.data else None
        self.lines[(*path, str(key))] = (place[0] if place else node.lc.line) + 1 + self.offset
        return str(key)


def dotted(path: Sequence[str | int]) -> str:
    """Write a path of keys with dots: ``kernels[0].template`` for ``('kernels', 0, 'template')``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _mark(error: MarkedYAMLError, file: Path | str, offset: int) -> Location:
    mark = error.problem_mark or error.context_mark
    return Location(file, mark.line + 1 + offset, mark.column + 1) if mark else Location(file)


def _first_line(text: str | None) -> str:
    return (text or "unreadable").strip().splitlines()[0]
