"""Read from the files around a CUDA source how its project compiles it: its root, `-I` and `-D`.

compile_commands.json is read first, then a Makefile: variables are expanded as far as they are plain texts, and the
recipe of the source counts, else the first that calls nvcc. Nothing is run: `$(shell …)` is empty.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.base.errors import Location, UserError
from lab.base.files import read_regular
from lab.toolchain.includes import Tree

MOST_BYTES = 32 * 2**20
COMMANDS, MAKEFILES = "compile_commands.json", ("GNUmakefile", "makefile", "Makefile")
_ROOTS = (".git", ".hg", COMMANDS, "CMakeLists.txt", "pyproject.toml", "setup.py", *MAKEFILES)
"""What stands in the folder of a project, or of a part of it."""
_BUILDS = (".", "build", "out", "cmake-build-release", "cmake-build-debug")
_ASSIGNMENT = re.compile(r"^(?:export\s+|override\s+)?([\w.-]+)\s*(\+|\?|::?)?=\s*(.*)$")
_RULE = re.compile(r"^([^\s#:=][^:=#]*?)\s*::?(?!=)([^=]*)$")
_VARIABLE = re.compile(r"\$(?:\((\w[\w.-]*)\)|\{(\w[\w.-]*)\}|([@<^?*]))")
_CALL = re.compile(r"\$[({](?:shell|wildcard|patsubst|filter|foreach|call|if|info|error|warning)\b[^(){}]*[)}]")
_DEEPEST = 20
_MACRO = re.compile(r"[A-Za-z_]\w*(?:=[^\n]*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Flags:
    """Compilation flags of a source.

    Attributes:
        search: Folders behind `-I`.
        macros: `NAME` or `NAME=value` behind `-D`.
        file: Where this stands; None for the command line.
        more: Further compiler options, such as `--maxrregcount=32`.
    """

    search: tuple[Path, ...] = ()
    macros: tuple[str, ...] = ()
    file: Path | None = None
    more: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The flags as a command has them."""
        return shlex.join([*(f"-I{one}" for one in self.search), *(f"-D{macro}" for macro in self.macros)])

    @property
    def options(self) -> tuple[str, ...]:
        """The macros as options of a compiler, and the further options."""
        return (*(f"-D{macro}" for macro in self.macros), *self.more)


def root_of(source: Path) -> Path:
    """Return the highest folder whose files a source may include.

    It is the nearest folder above with a repository, else the highest one with a file of a build, and no lower than the
    working directory where the source is below that. Neither a file system's root nor a home directory counts.
    """
    folder = source.resolve().parent
    never = {Path(folder.anchor), Path.home()}
    above = [one for one in (folder, *folder.parents) if one not in never]
    marked = [one for one in above if any((one / mark).exists() for mark in _ROOTS)]
    repository = next((one for one in marked if (one / ".git").exists() or (one / ".hg").exists()), None)
    candidates = [folder, repository or next(reversed(marked), folder)]
    here = Path.cwd()
    if here in above:
        candidates.append(here)
    return min(candidates, key=lambda one: len(one.parts))


def tree_of(source: Path, root: Path | None, flags: Flags) -> Tree:
    """Return the files that a source may include.

    Args:
        source: The source.
        root: The folder that its user names; by default, as `root_of` finds it.
        flags: Its flags.

    Raises:
        UserError: The source is not below that folder, or a folder does not exist.
    """
    folder = source.resolve().parent
    if root is not None and not folder.is_relative_to(root.resolve()):
        raise UserError(
            "the source is not below the root",
            code="wrong-value",
            key="--root",
            found=str(root),
            accepted="a folder above it",
        )
    for one in flags.search:
        if not one.is_dir():
            raise UserError(
                "not a folder", code="wrong-value", key="-I", found=str(one), accepted="a folder of headers"
            )
    return Tree(folder, root.resolve() if root else root_of(source), tuple(one.resolve() for one in flags.search))


def flags_of(source: Path, root: Path | None = None) -> Flags:
    """Return the flags that the files around a source give; none where these do not tell.

    Folders outside of the root are left out, as CUDA's own are.
    """
    source = source.resolve()
    highest = (root or root_of(source)).resolve()
    folders = [one for one in (source.parent, *source.parent.parents) if one.is_relative_to(highest)]
    for folder in folders:
        for build in _BUILDS:
            if (folder / build / COMMANDS).is_file() and (flags := _of_commands(folder / build / COMMANDS, source)):
                return _within(flags, highest)
        for name in MAKEFILES:
            if (folder / name).is_file() and (flags := _of_makefile(folder / name, source)):
                return _within(flags, highest)
    return Flags()


def of_words(search: Sequence[Path], macros: Sequence[str]) -> Flags:
    """Return the flags of a command line.

    Raises:
        UserError: A macro is malformed.
    """
    for macro in macros:
        if not _MACRO.fullmatch(macro):
            raise UserError("not a macro", code="wrong-value", key="-D", found=macro, accepted="NAME or NAME=value")
    return Flags(tuple(search), tuple(macros))


def merged(own: Flags, found: Flags) -> Flags:
    """Return the flags of a command line with those of files; of a macro that both define, the former's."""
    names = {macro.partition("=")[0] for macro in own.macros}
    macros = (*own.macros, *(macro for macro in found.macros if macro.partition("=")[0] not in names))
    return Flags(tuple(dict.fromkeys((*own.search, *found.search))), macros, found.file)


def _within(flags: Flags, root: Path) -> Flags:
    folders = [one.resolve() for one in flags.search if one.is_dir()]
    search = tuple(dict.fromkeys(folder for folder in folders if folder.is_relative_to(root)))
    return Flags(search, tuple(macro for macro in flags.macros if _MACRO.fullmatch(macro)), flags.file)


def _flags(words: Iterable[str], folder: Path, file: Path) -> Flags:
    """Return the flags among the words of a command."""
    search, macros, pending = list[Path](), dict[str, str](), iter(words)
    for word in pending:
        for flag in ("-isystem", "--include-path=", "--define-macro=", "-I", "-D", "-U"):
            if not word.startswith(flag):
                continue
            value = word.removeprefix(flag) or next(pending, "")
            if flag in ("-D", "--define-macro="):
                macros[value.partition("=")[0]] = value
            elif flag == "-U":
                macros.pop(value, None)
            elif value:
                search.append(folder / value)
            break
    return Flags(tuple(search), tuple(macros.values()), file)


def _of_commands(file: Path, source: Path) -> Flags | None:
    """Return the flags of a source in compile_commands.json, or, of a header, those of the first CUDA source."""
    try:
        entries: Any = json.loads(read_regular(file, MOST_BYTES, "the compile commands"))
    except ValueError as error:
        raise UserError(f"not JSON: {error}", code="syntax", at=Location(file)) from None
    chosen: Mapping[str, Any] | None = None
    others = list[Mapping[str, Any]]()
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict) or not isinstance(entry.get("file"), str):
            continue
        path = Path(str(entry.get("directory", file.parent)), entry["file"])
        with suppress(OSError, RuntimeError, ValueError):
            if path.resolve() == source:
                chosen = entry
                break
        if path.suffix == ".cu":
            others.append(entry)
    chosen = chosen or (next(iter(others), None) if source.suffix != ".cu" else None)
    if chosen is None:
        return None
    given = chosen.get("arguments")
    words = [str(one) for one in given] if isinstance(given, list) else _split(str(chosen.get("command", "")))
    return _flags(words, Path(str(chosen.get("directory", file.parent))), file)


def _of_makefile(file: Path, source: Path) -> Flags | None:
    text = read_regular(file, MOST_BYTES, "the Makefile").decode("utf-8", errors="replace")
    variables: dict[str, str] = {"NVCC": "nvcc", "CURDIR": str(file.parent)}
    recipes = list[tuple[str, str]]()  # what a rule is about, and a command of it
    about = ""
    for line in _joined(text):
        if line.startswith("\t"):
            recipes.append((about, line.strip().lstrip("@-+")))
        elif match := _ASSIGNMENT.match(line.strip()):
            _assign(variables, match)
        elif match := _RULE.match(line):
            about = f"{match[1]} {match[2]}"
    commands = [(_expanded(one, variables), _expanded(about, variables)) for about, one in recipes]
    named = [
        (command, Path(source.name).stem in re.findall(r"[\w.-]+(?=\.cu)|[\w-]+", f"{command} {about}"))
        for command, about in commands
        if re.search(r"\bnvcc\b", command)
    ]
    chosen = next((command for command, is_named in named if is_named), named[0][0] if named else "")
    flags = _flags(_split(chosen), file.parent, file)
    return flags if flags.search or flags.macros else None


def _joined(text: str) -> Iterator[str]:
    for line in re.sub(r"\\\n\s*", " ", text).split("\n"):
        yield line if line.startswith("\t") else re.sub(r"(?<!\\)#.*", "", line)


def _assign(variables: dict[str, str], match: re.Match[str]) -> None:
    name, kind, value = match[1], match[2] or "", match[3].strip()
    if kind == "+":
        value = f"{variables.get(name, '')} {value}".strip()
    elif kind == "?" and name in variables:
        return
    elif kind.startswith(":"):
        value = _expanded(value, variables)
    variables[name] = value


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    for _ in range(_DEEPEST):
        text = _CALL.sub("", text)
        changed = _VARIABLE.sub(lambda match: variables.get(match[1] or match[2] or "", ""), text)
        if changed == text or len(changed) > MOST_BYTES:
            break
        text = changed
    return text


def _split(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # an open quote
        return command.split()
