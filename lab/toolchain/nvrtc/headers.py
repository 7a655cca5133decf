"""Pass the headers of CUDA and CUTLASS to NVRTC in memory, under names that are the same on every machine.

A header from NVRTC's include path enters the PTX's `.file` table with its path on this machine. A header that is passed
in memory as `/cuda/cuda_fp16.h` enters with that name. The include lines that lead from the source to CUDA's headers
are rewritten to those names in place, so that line numbers stay. CUTLASS's headers are passed as
`/cutlass/cute/tensor.hpp`, files of the user's own as `/mine.h`.

NVRTC looks for a name among the texts in memory first. A missing header is passed, too, since NVRTC would
otherwise look for it on disk, from the root folder, where its source pretends to be. Its text is only a warning, since
many kernels are part of a framework's extension, whose headers serve host code.
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
"""CuTe's `get` for integer sequences. CCCL has one, too, since about CUDA 13.1, so that calls are ambiguous."""
_LACKING = {"cuda/ptx": ("cuda_fp16.h", "cuda_bf16.h")}
"""CUDA headers and the headers they use without including them: CCCL 13.3 uses `__half2`."""
_BROUGHT = (
    ("curand", "python -m pip install nvidia-curand"),
    ("cute/", "python -m pip install --no-deps nvidia-cutlass"),
    ("cutlass/", "python -m pip install --no-deps nvidia-cutlass"),
)
"""Prefixes of header names that need another package, and the command that installs it."""
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
    """Header folders of CUDA and CUTLASS.

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
        by_root = ((ROOT, self.cuda), (CUTLASS_ROOT, self.cutlass))
        return [(root, folder) for root, folder in by_root if folder is not None]


@functools.cache  # as `_header`
def _places(folder: Path) -> tuple[Path, tuple[str, ...]]:
    """Return a folder without symbolic links, and its include path."""
    return folder.resolve(), tuple(str(root) for root in roots(folder))


@functools.cache  # headers name each other some two thousand times, and each time a path has ten links to look for
def _below(folder: Path, path: str) -> str | None:
    """Return the path of a file within a folder, without symbolic links; None for one that is elsewhere."""
    real, resolved = _places(folder)[0], Path(os.path.realpath(path))
    return resolved.relative_to(real).as_posix() if resolved.is_relative_to(real) else None


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
    """An included file that was not found.

    Attributes:
        name: Its name in the include line.
        file: The file with that line.
        line: Its number.
    """

    name: str
    file: str
    line: int

    @property
    def told(self) -> str:
        """The warning about it in a compiler's log."""
        return f'"{self.name}"{LEFT_OUT}'

    @property
    def text(self) -> str:
        """The text that the compiler reads in its place."""
        return f'#line {self.line} "/{self.file}"\n#warning {self.told}\n'

    @property
    def why(self) -> str:
        """The remark for an error that it may have caused."""
        text = f'{self.file}({self.line}): could not open source file "{self.name}"'
        text += ": it is neither in the source's folder nor in CUDA's"
        return text + next((f"; {command} brings it" for start, command in _BROUGHT if self.name.startswith(start)), "")


@dataclass(frozen=True, slots=True)
class Embedded:
    """A source for NVRTC, with everything that it may include.

    Attributes:
        source: The text, with its include lines rewritten.
        texts: Maps the names in include lines to texts.
        search: Folders that NVRTC searches for CUDA's headers, where they could not be passed in memory.
        left_out: The missing files, in whose place NVRTC reads a warning, by the names in include lines.
    """

    source: str
    texts: Mapping[str, str]
    search: tuple[Path, ...] = ()
    left_out: Mapping[str, LeftOut] = field(default_factory=dict)


def embed(source: str, name: str, own: Mapping[str, str], folders: Headers) -> Embedded:
    """Collect the files that a source includes, and rewrite its include lines.

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
        rewritten = {
            key: _rewritten(text, key or name, own, folders, pending=pending, in_memory=in_memory)
            for key, text in texts.items()
        }
        reached, is_complete = _reached(pending, folders, in_memory)
        if is_complete:
            break
    left_out = {key: missing_file for _, nowhere in rewritten.values() for key, missing_file in nowhere.items()}
    missing = {key: missing_file.text for key, missing_file in left_out.items()}
    includes_driver = any(_DRIVER_INCLUDE.search(text) for text in reached.values())
    if folders.find(DRIVER) is not None and (includes_driver or ROOT not in in_memory):
        missing[DRIVER] = replaced(DRIVER) or ""  # for headers of CUDA that include it
    own_texts = {f"/{key}": text for key, (text, _) in rewritten.items() if key}
    if ROOT in in_memory or folders.cuda is None:
        return Embedded(rewritten[""][0], {**missing, **reached, **own_texts}, left_out=left_out)
    changed = (*_LACKING, _INTEGERS)
    completed = {key: _header(folders, file, ()).text for key in changed if (file := folders.find(key)) is not None}
    return Embedded(rewritten[""][0], {**missing, **completed, **reached, **own_texts}, roots(folders.cuda), left_out)


def includes_cutlass(embedded: Embedded) -> bool:
    """Return whether a source reaches any of CUTLASS's headers."""
    return any(name.startswith(f"{CUTLASS_ROOT}/") for name in embedded.texts)


def _reached(pending: list[str], folders: Headers, in_memory: tuple[str, ...]) -> tuple[dict[str, str], bool]:
    """Return the texts of headers and of those that they include, and whether these are all.

    If CUDA's headers are passed in memory and one of them includes a file whose name is a macro, the search ends there.
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
    """Add the standard headers that the user's texts include and CUDA's folder lacks, transitively."""
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
    """Return the names of files in a text's includes and `__has_include` tests."""
    names: list[str] = []

    def note(include: Include) -> bool:
        names.append(include.name)
        return False

    resolve_questions(text, note)
    return [*names, *(include.name for include in includes(text))]


def _rewritten(
    text: str, name: str, own: Mapping[str, str], folders: Headers, *, pending: list[str], in_memory: tuple[str, ...]
) -> tuple[str, dict[str, LeftOut]]:
    """Rewrite the include lines of one of the user's texts.

    Args:
        text: The text.
        name: Its name, for messages.
        own: The user's own files.
        folders: Where the other headers are.
        pending: Receives the other headers that it includes and that are passed in memory.
        in_memory: The roots of those; others stay on the disk.

    Returns:
        The text, and the missing files by name.
    """
    nowhere: dict[str, LeftOut] = {}

    def is_there(include: Include) -> bool:
        return include.name in own or f"{FOLDER}/{include.name}" in own or folders.find(include.name) is not None

    def name_of(include: Include) -> str | None:
        if include.name in own:
            return f"/{include.name}"
        answer = f"{FOLDER}/{include.name}"
        if answer in own and answer != name:  # a text may extend the header that it replaces
            return f"/{answer}"
        header = folders.find(include.name)
        if header is None:
            nowhere.setdefault(include.name, LeftOut(include.name, name, _line(text, include.start)))
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
    directives = list(_LINE.finditer(before))
    if not directives:
        return before.count("\n") + 1
    return int(directives[-1][1]) + before.count("\n", directives[-1].end())


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
    """Read a header and rewrite its include lines."""
    path = folders.path(name)
    text, included = path.read_text(errors="replace"), list[str]()
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
        included.append(header)
        return f'{match[1]}"{header}"'

    lacking = next((names for key, names in _LACKING.items() if name.endswith(f"/{key}")), ())
    available = [header for header in lacking if folders.find(header) is not None]
    text = "".join(f"#include <{header}>\n" for header in available) + f"#line 1\n{text}" if available else text
    text = _INCLUDE.sub(replace, text)
    return _Header(text, tuple(included), bool(_MACRO_INCLUDE.search(text)))


def _preferred(get: str) -> str:
    """Return `_GET` as a more specialised template, which calls with a non-empty sequence then resolve to."""
    get = get.replace("T... Ints", "T First, T... Ints").replace("<T, Ints...>", "<T, First, Ints...>")
    return get.replace("sizeof...(Ints)", "sizeof...(Ints) + 1")


@functools.cache
def _std_has_tuples(cuda: Path | None) -> bool:
    """Return whether CCCL declares std::tuple_size and std::tuple_element without a standard library.

    It does since about CUDA 13.1, with one type. CUTLASS 4.2 declares them itself, with a pack as in CCCL at the time.
    """
    for root in roots(cuda) if cuda is not None else ():
        with suppress(OSError):
            return "_CCCL_BEGIN_NAMESPACE_STD" in (root / "cuda/std/__tuple_dir/tuple_size.h").read_text()
    return False
