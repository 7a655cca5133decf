"""Passes the headers of CUDA and CUTLASS to NVRTC in memory, under names that are the same on every machine.

A header from NVRTC's include path enters the PTX's `.file` table with its path on this machine. A header that is passed
in memory as `/cuda/cuda_fp16.h` enters with that name. The include lines that lead from the source to CUDA's headers
are rewritten to those names in place, so that line numbers stay. CUTLASS's headers are passed as
`/cutlass/cute/tensor.hpp`, files of the user's own as `/mine.h`.

NVRTC looks for a name among the texts in memory first. A name that leads nowhere is passed, too: without it, NVRTC
would look for the file on the disk, from the root folder, where its source pretends to be. Its text is a warning that
it is left out, for most kernels that one meets stand in extensions of a framework, whose headers serve host code.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from lab.toolchain.base import LEFT_OUT
from lab.toolchain.includes import Include, includes, renamed, resolve_questions
from lab.toolchain.nvrtc.standard import DRIVER, FOLDER, replaced, standard, uses_pairs, uses_std

ROOT = "/cuda"
"""The folder under which line tables name CUDA's headers."""

CUTLASS_ROOT = "/cutlass"
"""The folder under which line tables name CUTLASS's headers."""

_LINE = re.compile(r"^[ \t]*#[ \t]*line[ \t]+(\d{1,9})[^\n]*\n", re.MULTILINE)
_OLD_TUPLES = re.compile(r"template <(?:size_t _Ip, )?class\.\.\. _Tp>\s+struct tuple_(?:size|element);")
_GET = re.compile(
    r"template <size_t I, class T, T\.\.\. Ints>\s+CUTE_HOST_DEVICE constexpr\s+"
    r"tuple_element_t<I, integer_sequence<T, Ints\.\.\.>>\s+get\(integer_sequence<T, Ints\.\.\.>\) \{\s+"
    r"static_assert\(I < sizeof\.\.\.\(Ints\)"
)
"""CuTe's `get` of a sequence of numbers. CCCL has one, too, since CUDA 13.1 or so, and calls are ambiguous."""
_LACKING = {"cuda/ptx": ("cuda_fp16.h", "cuda_bf16.h")}
"""Headers of CUDA that others of its headers use without an include line: those of CCCL 13.3 name `__half2`."""
_BROUGHT = (
    ("curand", "python -m pip install nvidia-curand"),
    ("cute/", "python -m pip install --no-deps nvidia-cutlass"),
    ("cutlass/", "python -m pip install --no-deps nvidia-cutlass"),
)
"""How names of headers begin that a further package brings."""
_INTEGERS = "cuda/std/cstdint"
_OF_64_BITS = re.compile(
    r"(\busing\s+u?int64_t\s*=\s*(?:un)?signed )long long|(\btypedef (?:un)?signed )long long(?= u?int64_t)"
)
"""CCCL's integers of 64 bits for NVRTC. nvcc on Linux has `long` there, and so has `standard`."""
_MACRO_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]+[A-Za-z_]", re.MULTILINE)
_INCLUDE = re.compile(r'^([ \t]*#[ \t]*include[ \t]*)(<[^>\n]+>|"[^"\n]+")', re.MULTILINE)

_DRIVER_INCLUDE = re.compile(rf'^[ \t]*#[ \t]*include[ \t]*[<"]{re.escape(DRIVER)}[>"]', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Headers:
    """Folders of headers that are not the user's.

    Attributes:
        cuda: CUDA's, or None.
        cutlass: CUTLASS's, with `cute` and `cutlass` in it, or None.
    """

    cuda: Path | None
    cutlass: Path | None = None

    def find(self, name: str, beside: Path | None = None) -> str | None:
        """Return the name under which a header is passed, `/cuda/mma.h`; None for any other file.

        Args:
            name: As an include line has it.
            beside: Folder of the header that includes it in quotes.
        """
        for root, folder in self._folders():
            own = (str(beside),) if beside is not None and beside.is_relative_to(folder) else ()
            for place in (*own, *_places(folder)[1]):
                path = os.path.join(place, name)  # noqa: PTH118 - of 400 headers, paths as objects would take half a second
                with suppress(OSError):  # too long a name
                    if os.path.isfile(path) and (below := _below(folder, path)) is not None:  # noqa: PTH113
                        return f"{root}/{below}"
        return None

    def path(self, name: str) -> Path:
        """Return the file behind a name that `find` returned."""
        return next(folder / name[len(root) + 1 :] for root, folder in self._folders() if name.startswith(f"{root}/"))

    def _folders(self) -> list[tuple[str, Path]]:
        named = ((ROOT, self.cuda), (CUTLASS_ROOT, self.cutlass))
        return [(root, folder) for root, folder in named if folder is not None]


@functools.cache  # as `_header`
def _places(folder: Path) -> tuple[Path, tuple[str, ...]]:
    """Return a folder without symbolic links, and its include path."""
    return folder.resolve(), tuple(str(root) for root in roots(folder))


@functools.cache  # headers name each other some two thousand times, and each time a path has ten links to look for
def _below(folder: Path, path: str) -> str | None:
    """Return the path of a file within a folder, without symbolic links; None for one that is elsewhere."""
    real, found = _places(folder)[0], Path(os.path.realpath(path))
    return found.relative_to(real).as_posix() if found.is_relative_to(real) else None


def roots(folder: Path) -> tuple[Path, ...]:
    """Return the include path of a folder of CUDA headers: the folder, and that of CCCL in it if there is one."""
    return tuple(root for root in (folder, folder / "cccl") if root.is_dir())


def includes_any(source: str) -> bool:
    """Return whether a source has any include lines."""
    return bool(_INCLUDE.search(source) or _MACRO_INCLUDE.search(source))


def names_cutlass(source: str) -> bool:
    """Return whether an include line of a source names a header of CUTLASS."""
    return any(match[2][1:].startswith(("cutlass/", "cute/")) for match in _INCLUDE.finditer(source))


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file that a source includes and that is not here.

    Attributes:
        name: As the include line has it.
        file: Where that line is.
        line: Its number.
    """

    name: str
    file: str
    line: int

    @property
    def told(self) -> str:
        """What a compiler's log says of it."""
        return f'"{self.name}"{LEFT_OUT}'

    @property
    def text(self) -> str:
        """What the compiler reads in its place."""
        return f'#line {self.line} "/{self.file}"\n#warning {self.told}\n'

    @property
    def why(self) -> str:
        """What an error says that it may have caused."""
        text = f'{self.file}({self.line}): could not open source file "{self.name}"'
        text += ": it is not in the folder of the source or of CUDA"
        return text + next((f"; {how} brings it" for start, how in _BROUGHT if self.name.startswith(start)), "")


@dataclass(frozen=True, slots=True)
class Embedded:
    """A source for NVRTC, with everything that it may include.

    Attributes:
        source: The text, with its include lines rewritten.
        texts: Maps the names in include lines to texts.
        search: Folders that NVRTC searches for CUDA's headers, where they could not be passed in memory.
        left_out: The files that are nowhere, in whose place NVRTC reads a warning, by the names in include lines.
    """

    source: str
    texts: Mapping[str, str]
    search: tuple[Path, ...] = ()
    left_out: Mapping[str, LeftOut] = field(default_factory=dict)


def embed(source: str, name: str, own: Mapping[str, str], folders: Headers) -> Embedded:
    """Collect what a source includes, and rewrite its include lines.

    If a header includes a file whose name is a macro (parts of CCCL do), CUDA's headers stay on the disk, since some
    would otherwise be read twice, from memory and from the disk. Line tables then name folders of this machine.

    Args:
        source: CUDA C++ that `lab.toolchain.includes.check` accepts.
        name: Its name, for messages.
        own: The user's own files, by the names in include lines.
        folders: Where the other headers are.
    """
    texts = _with_standard({"": source, **own}, folders)
    own = {key: text for key, text in texts.items() if key}
    for in_memory in ((ROOT, CUTLASS_ROOT), (CUTLASS_ROOT,)):
        pending: list[str] = []
        found = {
            key: _rewritten(text, key or name, own, folders, pending=pending, in_memory=in_memory)
            for key, text in texts.items()
        }
        reached, whole = _reached(pending, folders, in_memory)
        if whole:
            break
    left_out = {key: one for _, nowhere in found.values() for key, one in nowhere.items()}
    missing = {key: one.text for key, one in left_out.items()}
    named = any(_DRIVER_INCLUDE.search(text) for text in reached.values())
    if folders.find(DRIVER) is not None and (named or ROOT not in in_memory):
        missing[DRIVER] = replaced(DRIVER) or ""  # for headers of CUDA that include it
    given = {f"/{key}": text for key, (text, _) in found.items() if key}
    if ROOT in in_memory or folders.cuda is None:
        return Embedded(found[""][0], {**missing, **reached, **given}, left_out=left_out)
    changed = (*_LACKING, _INTEGERS)
    completed = {one: _header(folders, there, ()).text for one in changed if (there := folders.find(one)) is not None}
    return Embedded(found[""][0], {**missing, **completed, **reached, **given}, roots(folders.cuda), left_out)


def includes_cutlass(given: Embedded) -> bool:
    """Return whether a source reaches any of CUTLASS's headers."""
    return any(name.startswith(f"{CUTLASS_ROOT}/") for name in given.texts)


def _reached(pending: list[str], folders: Headers, in_memory: tuple[str, ...]) -> tuple[dict[str, str], bool]:
    """Return the texts of headers and of those that they include, and whether these are all.

    They are not where CUDA's headers are asked for and one includes a file whose name is a macro, at which this ends.
    """
    reached: dict[str, str] = {}
    while pending:
        name = pending.pop()
        if name not in reached:
            header = _header(folders, name, in_memory)
            reached[name] = header.text
            if ROOT in in_memory and header.includes_macro:
                return reached, False
            pending.extend(header.includes)
    return reached, True


def _with_standard(texts: Mapping[str, str], folders: Headers) -> dict[str, str]:
    """Add the standard headers that the user's texts name and CUDA's folder lacks, and those that these name."""
    with_std = any(uses_std(text) for text in texts.values())
    with_pairs = any(uses_pairs(text) for text in texts.values())
    every, pending = dict(texts), list(texts.values())
    while pending:
        for name in _named(pending.pop()):
            key = f"{FOLDER}/{name}"
            if name in texts or key in every:
                continue
            text = replaced(name)
            if text is None and folders.find(name) is None:
                text = standard(name, with_std=with_std and folders.cuda is not None, with_pairs=with_pairs)
            if text is not None:
                every[key] = text
                pending.append(text)
    return every


def _named(text: str) -> list[str]:
    """Return the names of files that a text includes or asks for."""
    asked: list[str] = []

    def note(one: Include) -> bool:
        asked.append(one.name)
        return False

    resolve_questions(text, note)
    return [*asked, *(one.name for one in includes(text))]


def _rewritten(
    text: str, name: str, own: Mapping[str, str], folders: Headers, *, pending: list[str], in_memory: tuple[str, ...]
) -> tuple[str, dict[str, LeftOut]]:
    """Rewrite the include lines of a text of the user's.

    Args:
        text: The text.
        name: Its name, for messages.
        own: The user's own files.
        folders: Where the other headers are.
        pending: Receives those of them that it includes and that are passed in memory.
        in_memory: The roots of those; others stay on the disk.

    Returns:
        The text, and the names that lead nowhere.
    """
    nowhere: dict[str, LeftOut] = {}

    def is_there(one: Include) -> bool:
        return one.name in own or f"{FOLDER}/{one.name}" in own or folders.find(one.name) is not None

    def name_of(one: Include) -> str | None:
        if one.name in own:
            return f"/{one.name}"
        answer = f"{FOLDER}/{one.name}"
        if answer in own and answer != name:  # a text may add to the header that it stands for
            return f"/{answer}"
        header = folders.find(one.name)
        if header is None:
            nowhere.setdefault(one.name, LeftOut(one.name, name, _line(text, one.start)))
            return None
        if not header.startswith(in_memory):
            return None
        pending.append(header)
        return header

    text = resolve_questions(text, is_there)
    return renamed(text, name_of), nowhere


def _line(text: str, position: int) -> int:
    """Return the number of a position's line, from 1, as compilers count after `#line` directives."""
    before = text[:position]
    told = list(_LINE.finditer(before))
    if not told:
        return before.count("\n") + 1
    return int(told[-1][1]) + before.count("\n", told[-1].end())


@dataclass(frozen=True, slots=True)
class _Header:
    """A header that is passed in memory.

    Attributes:
        text: The text, with its include lines rewritten.
        includes: The names of the headers that it includes.
        includes_macro: Whether it includes a file whose name is a macro.
    """

    text: str
    includes: tuple[str, ...]
    includes_macro: bool


@functools.cache  # headers do not change while the process lives, and reading all of them takes a quarter of a second
def _header(folders: Headers, name: str, in_memory: tuple[str, ...]) -> _Header:
    """Read a header."""
    path = folders.path(name)
    text, found = path.read_text(errors="replace"), list[str]()
    if name.startswith(f"{CUTLASS_ROOT}/"):
        text = _GET.sub(lambda match: _preferred(match[0]), text)
        if _std_has_tuples(folders.cuda):
            text = _OLD_TUPLES.sub(lambda match: "\n" * match[0].count("\n"), text)

    if name.endswith("/cstdint"):
        text = _OF_64_BITS.sub(lambda match: f"{match[1] or match[2]}long", text)

    def replace(match: re.Match[str]) -> str:
        header = folders.find(match[2][1:-1], path.parent if match[2].startswith('"') else None)
        if header is None or not header.startswith(in_memory) or header == f"{ROOT}/{DRIVER}":
            return match[0]
        found.append(header)
        return f'{match[1]}"{header}"'

    lacking = next((names for one, names in _LACKING.items() if name.endswith(f"/{one}")), ())
    there = [one for one in lacking if folders.find(one) is not None]
    text = "".join(f"#include <{one}>\n" for one in there) + f"#line 1\n{text}" if there else text
    text = _INCLUDE.sub(replace, text)
    return _Header(text, tuple(found), bool(_MACRO_INCLUDE.search(text)))


def _preferred(get: str) -> str:
    """Return `_GET` as a more specialised template, which every call with a sequence that is not empty then means."""
    get = get.replace("T... Ints", "T First, T... Ints").replace("<T, Ints...>", "<T, First, Ints...>")
    return get.replace("sizeof...(Ints)", "sizeof...(Ints) + 1")


@functools.cache
def _std_has_tuples(cuda: Path | None) -> bool:
    """Return whether CCCL declares std::tuple_size and std::tuple_element where there is no standard library.

    It does since CUDA 13.1 or so, with one type; CUTLASS 4.2 declares them itself, as CCCL's of then, with a pack.
    """
    for root in roots(cuda) if cuda is not None else ():
        with suppress(OSError):
            return "_CCCL_BEGIN_NAMESPACE_STD" in (root / "cuda/std/__tuple_dir/tuple_size.h").read_text()
    return False
