r"""The files that a source may include: those given with it and CUDA's headers, nothing else on the machine.

`gather` reads the files that a source names, from folders of the user's experiment, when a request is made; from then
on they travel with it as text. `check` runs before every compiler. It rejects each spelling that could make a
compiler open another file: absolute names, `..`, names made by macros, `#include_next`, `#import`,
`#embed`, header units.

A directive is recognised without knowing what is a comment or a string, so that no trick with quotes, raw strings or
`#if 0` hides one from `check` that a compiler sees. What a compiler sees as a directive begins a line, or follows a
comment's end; `#` may be `%:` or `??=`; lines may be continued by a backslash or by `??/`. Text inside of a comment or
a string that looks like a directive at the beginning of a line is treated as one.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lab.base.errors import CompileError, Location, UserError
from lab.base.files import read_regular

MOST_FILES = 200
MOST_BYTES = 4 * 2**20
"""Limits on the number and total size of the files that a source may include from the user's folders."""

_MOST_GAP_COMMENTS = 16
_MARK = re.compile(r"\#|%:|\?\?=")
_WORD = re.compile(r"[\w\\$]+")
_UNIVERSAL = re.compile(r"\\[uUN]")
_HEADER_NAME = re.compile(r'<[^>\n]*>|"[^"\n]*"')
_NAMES_A_FILE = frozenset({"include", "include_next", "import", "embed", "using", "include_alias"})
_IMPORT = re.compile(r"\b(?:export\b[ \t\f\v]{0,99})?import\b")
_HAS_INCLUDE = re.compile(
    r'__has_include(?P<next>\w*)(?P<call>\s{0,99}\(\s{0,99}(?P<name><[^>\n]*>|"[^"\n]*")\s{0,99}\))?'
)
_ASKED_FOR = re.compile(r"(?:\bdefined[ \t]*\(?|#[ \t]*(?:ifdef|ifndef|elifdef|elifndef))[ \t]*$")
_PRAGMA = re.compile(r"\b(?:pch_preprocess|include_alias)\b|\bGCC\s+dependency\b")
_PRAGMA_WORDS = ("pch_preprocess", "include_alias", "dependency")
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+\-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.+\-]*)*")
_SPLICE, _LOOSE_SPLICE = re.compile(r"\\\r?\n"), re.compile(r"\\[ \t\f\v]*\r?\n")
_CONTROL = re.compile(r"[\0-\x08\x0e-\x1f\x7f]|\r(?!\n)")


@dataclass(frozen=True, slots=True)
class Include:
    """One include directive.

    Attributes:
        name: The file as the source names it: `mine/types.h`.
        quoted: Whether it is in quotes, so that it may be beside the including file.
        start: Position of the name's quote or bracket in the text.
        end: Position after the closing one.
    """

    name: str
    quoted: bool
    start: int
    end: int


def check(source: str, file: str, included: Mapping[str, str], command: str = "") -> None:
    """Reject a source that could make a compiler open files that are not given with it.

    Args:
        source: CUDA C++.
        file: Its name, for messages.
        included: The texts given with it, by name; they are checked, too.
        command: The compiler's command, for the error.

    Raises:
        CompileError: The first such place; its log names file and line.
    """
    for name in included:
        if not _PLAIN.fullmatch(name) or name == file:
            raise _refused(name[:100], 1, "an included file cannot have this name", command)
    for name, text in ((file, source), *included.items()):
        try:
            includes(text)
        except _RefusedError as error:
            raise _refused(name, error.line, str(error), command) from None


def includes(text: str, *, upwards: bool = False) -> list[Include]:
    """Return the include directives of a text.

    Args:
        text: CUDA C++.
        upwards: Take names with `..` and `./`, which no compiler may get.

    Raises:
        _RefusedError: It has one that is not accepted.
    """
    if control := _CONTROL.search(text):
        raise _RefusedError(text, control.start(), "the source contains a control character")
    for view in _views(text):
        if _named_in(view, _PRAGMA_WORDS) and (pragma := _PRAGMA.search(view)):
            raise _RefusedError(view, pragma.start(), f"this pragma reads a file: {pragma[0]}")
        _check_imports(view)
        _check_questions(view)
    directives = list(_directives(text, upwards=upwards))
    plain = Counter(include.name for include in directives)
    for view in _views(text):
        if view == text:
            continue
        # `renamed` sees only those of the text itself
        for name in Counter(directive.name for directive in _directives(view, upwards=upwards)) - plain:
            advice = f"write the directive that includes {name} on one line, without trigraphs"
            raise _RefusedError(text, max(0, text.find(name)), advice)
    return directives


def resolve_questions(text: str, exists: Callable[[Include], bool]) -> str:
    """Replace every `__has_include(…)` by its value for a compiler that sees only the given files."""

    def answer(match: re.Match[str]) -> str:
        if match["call"] is None:
            return match[0]
        lines = "\n" * match[0].count("\n")
        include = Include(match["name"][1:-1], match["name"].startswith('"'), match.start("name"), match.end("name"))
        return f"({int(exists(include))}){lines}"

    return _HAS_INCLUDE.sub(answer, text)


def renamed(text: str, name_of: Callable[[Include], str | None], *, upwards: bool = False) -> str:
    """Replace the names of included files where `name_of` returns another one; line numbers are kept."""
    parts, position = [], 0
    for include in includes(text, upwards=upwards):
        if (name := name_of(include)) is not None:
            parts += [text[position : include.start], f'"{name}"']
            position = include.end
    return "".join((*parts, text[position:]))


@dataclass(frozen=True, slots=True)
class Tree:
    """The files that a source may include: those below one root, and those below folders that its user names.

    Attributes:
        beside: Folder of the source.
        root: The highest folder that include lines reach by `..`.
        search: Further folders of headers, as behind `-I`.
    """

    beside: Path
    root: Path
    search: tuple[Path, ...] = ()

    @classmethod
    def of(cls, folder: Path) -> Tree:
        """Return the tree of a source that includes nothing above its folder."""
        return cls(folder, folder)

    @property
    def folders(self) -> tuple[Path, ...]:
        """The include search path, in search order."""
        return tuple(dict.fromkeys((self.beside, *self.search, self.root)))

    def holds(self, path: Path) -> bool:
        """Return whether a path without links may be included."""
        return any(path.is_relative_to(folder.resolve()) for folder in self.folders)

    def name_of(self, path: Path, names: Mapping[Path, str]) -> str:
        """Return a name for a file by its place, which no other file has."""
        below = next((one.resolve() for one in (*self.folders, self.root) if path.is_relative_to(one.resolve())), None)
        name = path.relative_to(below).as_posix() if below else path.name
        name = re.sub(r"(?<![^/])[^A-Za-z0-9_]|[^A-Za-z0-9_.+\-/]", "_", name)
        while name in names.values():
            name = f"up/{name}"
        return name


def gather(source: str, folders: Sequence[Path] | Tree) -> tuple[str, dict[str, str]]:
    """Read the files that a source includes from the user's folders.

    Args:
        source: CUDA C++.
        folders: Where they may be, the first one first. Links are followed, and must not lead out of them.

    Returns:
        The source, and a mapping from the name of every file that it can reach, by its place in its folder, to its
        text. Include lines name the files so. What is not in the folders is left to the compiler. A source that
        `check` refuses is returned as it is.

    Raises:
        UserError: A file cannot be read, or there are too many, or an include line leads out of the tree.
    """
    if not folders:
        return source, {}
    tree = folders if isinstance(folders, Tree) else Tree(folders[0], folders[0], tuple(folders[1:]))
    reached: dict[str, str] = {}
    names: dict[Path, str] = {}
    try:
        text, pending = _named(source, tree.beside, tree, names)
        while pending:
            name, path = pending.popitem()
            content = decoded_source(read_regular(path, MOST_BYTES, "the included file"))
            reached[name], newly_named = _named(content, path.parent, tree, names)
            pending |= {key: value for key, value in newly_named.items() if key not in reached}
            if len(reached) + len(pending) > MOST_FILES or sum(map(len, reached.values())) > MOST_BYTES:
                accepted = f"at most {MOST_FILES} files of {MOST_BYTES} bytes together"
                raise UserError(
                    "the source includes too much", code="out-of-range", at=Location(path), accepted=accepted
                )
    except _RefusedError:
        return source, {}
    return text, reached


def inlined(source: str, included: Mapping[str, str]) -> str:
    """Return a source with the text of each file in place of the first line that includes it.

    Args:
        source: CUDA C++, as `gather` returns it.
        included: The files, by the names in include lines.
    """
    seen: set[str] = set()

    def expanded(text: str) -> str:
        pieces, done = list[str](), 0
        with suppress(_RefusedError):
            for include in includes(text):
                if include.name not in included:
                    continue
                start, end = text.rfind("\n", 0, include.start) + 1, text.find("\n", include.end)
                end = end if end >= 0 else len(text)
                pieces.append(text[done:start])
                if include.name not in seen:
                    seen.add(include.name)
                    pieces.append(expanded(included[include.name]))
                done = end
        return "".join([*pieces, text[done:]])

    return expanded(source)


def decoded_source(data: bytes) -> str:
    """Return the text of a source: UTF-8, or Latin-1 where it is not, as in a name in an old comment."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return text.replace("\r\n", "\n")


def read_source(file: Path, most_bytes: int = MOST_BYTES, label: str = "the file") -> str:
    """Return the text of a CUDA source that a user named; see `decoded_source`.

    Raises:
        UserError: The file cannot be read, is too large, or is not a regular file.
    """
    return decoded_source(read_regular(file, most_bytes, label)).replace("\r", "\n")


def _named(text: str, beside: Path, tree: Tree, names: dict[Path, str]) -> tuple[str, dict[str, Path]]:
    """Rename the included files of a text to their names in the folders; return it with those files."""
    paths: dict[str, Path] = {}

    def name_of(include: Include) -> str | None:
        outside = None
        for folder in dict.fromkeys((beside, *tree.folders) if include.quoted else tree.folders):
            with suppress(OSError, RuntimeError, ValueError):  # too long a name, links in a circle
                path = folder / include.name
                if include.name.startswith("/") or not path.exists():
                    continue
                path = path.resolve()
                if tree.holds(path):
                    names.setdefault(path, tree.name_of(path, names))
                    paths.setdefault(names[path], path)
                    return names[path]
                outside = path
        if outside is not None and ".." in include.name.split("/"):
            raise UserError(
                "an include line leads out of the source's tree",
                code="wrong-value",
                key="root",
                found=include.name,
                accepted=f"a file below {tree.root}, or a higher folder by --root, or the key root of an experiment",
            )
        if include.name.startswith("/") or _PLAIN.fullmatch(include.name):
            return None
        return posixpath.normpath(include.name).lstrip("./") or None  # the compiler says that it is missing

    return renamed(text, name_of, upwards=True), paths


def _views(text: str) -> Iterator[str]:
    """Yield a text as compilers may read it: with lines joined and trigraphs replaced, or not."""
    plain = text.replace("\r\n", "\n")
    yield plain
    if "\\" in plain:
        yield _SPLICE.sub("", plain)
        yield _LOOSE_SPLICE.sub("", plain)
    if "??" in plain:
        replaced = plain.replace("??/", "\\").replace("??=", "#")
        yield replaced
        yield _LOOSE_SPLICE.sub("", replaced)


def _directives(text: str, *, upwards: bool) -> Iterator[Include]:
    """Yield the include directives of one view.

    Raises:
        _RefusedError: One is not accepted.
    """
    gaps = _Gaps(text)
    for mark in _MARK.finditer(text):
        if not _begins_a_line(text, mark.start()):
            continue
        word = _WORD.match(text, gaps.end(mark.end()))
        if word is None:
            continue
        if _UNIVERSAL.search(word[0]):
            raise _RefusedError(text, word.start(), f"this is not a directive: #{word[0]}")
        if word[0] not in _NAMES_A_FILE:
            continue
        if word[0] != "include":
            raise _RefusedError(text, word.start(), f"#{word[0]} is not accepted; #include is")
        header_name = _HEADER_NAME.match(text, gaps.end(word.end()))
        if header_name is None:
            line = text[word.start() : word.start() + 100].split("\n", 1)[0]
            raise _RefusedError(text, word.start(), f"the directive does not name a file: #{line}")
        name = header_name[0][1:-1]
        if not upwards:
            _check_name(text, header_name.start(), name)
        yield Include(name, header_name[0].startswith('"'), header_name.start(), header_name.end())


def _begins_a_line(text: str, place: int) -> bool:
    """Return whether only blanks, or a comment's end and blanks, precede a position in its line."""
    while place and text[place - 1] in " \t\f\v":
        place -= 1
    return place == 0 or text[place - 1] == "\n" or text[max(0, place - 2) : place] == "*/"


class _Gaps:
    """A scanner that skips blanks and comments; comment ends are cached, since positions only increase."""

    def __init__(self, text: str) -> None:
        self._text, self._close = text, -1

    def end(self, place: int) -> int:
        """Return the first position from here on that is neither blank nor in a comment.

        Raises:
            _RefusedError: There are more comments than anyone writes in a directive.
        """
        text = self._text
        for _ in range(_MOST_GAP_COMMENTS):
            while place < len(text) and text[place] in " \t\f\v":
                place += 1
            if not text.startswith("/*", place):
                return place
            if not place + 2 <= self._close:
                self._close = text.find("*/", place + 2)
            if self._close < 0:
                return len(text)
            place = self._close + 2
        raise _RefusedError(text, min(place, len(text)), "there are too many comments in a directive")


def _named_in(text: str, words: Sequence[str]) -> bool:
    """Return whether a text contains one of some words; ten times as fast as a pattern of them."""
    return any(word in text for word in words)


def _check_imports(text: str) -> None:
    if not _named_in(text, ("import",)):
        return
    gaps = _Gaps(text)
    for match in _IMPORT.finditer(text):
        if _begins_a_line(text, match.start()) and text.startswith(("<", '"'), gaps.end(match.end())):
            raise _RefusedError(text, match.start(), "header units cannot be imported; #include is accepted")


def _check_questions(text: str) -> None:
    for match in _HAS_INCLUDE.finditer(text):
        if match["next"]:
            raise _RefusedError(text, match.start(), f"__has_include{match['next']} is not accepted")
        if match["call"] is not None:
            _check_name(text, match.start(), match["name"][1:-1])
        elif not _ASKED_FOR.search(text[max(0, match.start() - 80) : match.start()]):
            advice = 'write __has_include("name") or defined(__has_include)'
            raise _RefusedError(text, match.start(), advice)


def _check_name(text: str, place: int, name: str) -> None:
    if not _PLAIN.fullmatch(name) or len(name) > 200:  # noqa: PLR2004 - longer than any header's name
        excerpt = name if len(name) <= 100 else f"{name[:100]}…"  # noqa: PLR2004 - a line
        raise _RefusedError(
            text,
            place,
            f"this file cannot be included: {excerpt}; accepted: a name in or below the template's folder, or a header "
            "of CUDA, without .. or a leading /",
        )


class _RefusedError(Exception):
    """A part of a source that is not accepted."""

    def __init__(self, text: str, place: int, message: str) -> None:
        self.line = text.count("\n", 0, place) + 1
        super().__init__(message)


def _refused(file: str, line: int, message: str, command: str) -> CompileError:
    log = f"{file}({line}): error: {message}"
    return CompileError(log, log, command)
