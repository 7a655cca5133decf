"""Passes CUDA's headers to NVRTC in memory, under names that are the same on every machine.

A header from NVRTC's include path enters the PTX's `.file` table with its path on this machine. A header that is passed
in memory as `/cuda/cuda_fp16.h` enters with that name. The include lines that lead from the source to CUDA's headers
are rewritten to those names in place, so that line numbers stay. Files of the user's own are passed as `/mine.h`.

NVRTC looks for a name among the texts in memory first. A name that leads nowhere is passed, too, as a text that is an
error: without it, NVRTC would look for the file on the disk, from the root folder, where its source pretends to be.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lab.toolchain.includes import Include, includes, renamed, resolve_questions
from lab.toolchain.nvrtc.standard import FOLDER, replaced, standard, uses_std

ROOT = "/cuda"
"""The folder under which line tables name CUDA's headers."""

_LINE = re.compile(r"^[ \t]*#[ \t]*line[ \t]+(\d{1,9})[^\n]*\n", re.MULTILINE)
_MACRO_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]+[A-Za-z_]", re.MULTILINE)
_INCLUDE = re.compile(r'^([ \t]*#[ \t]*include[ \t]*)(<[^>\n]+>|"[^"\n]+")', re.MULTILINE)


def roots(folder: Path) -> tuple[Path, ...]:
    """Return the include path of a folder of CUDA headers: the folder, and that of CCCL in it if there is one."""
    return tuple(root for root in (folder, folder / "cccl") if root.is_dir())


def includes_any(source: str) -> bool:
    """Return whether a source has any include lines."""
    return bool(_INCLUDE.search(source) or _MACRO_INCLUDE.search(source))


@dataclass(frozen=True, slots=True)
class Embedded:
    """A source for NVRTC, with everything that it may include.

    Attributes:
        source: The text, with its include lines rewritten.
        texts: Maps the names in include lines to texts.
        search: Folders that NVRTC searches for CUDA's headers, where they could not be passed in memory.
    """

    source: str
    texts: Mapping[str, str]
    search: tuple[Path, ...] = ()


def embed(source: str, name: str, own: Mapping[str, str], folder: Path | None) -> Embedded:
    """Collect what a source includes, and rewrite its include lines.

    If a header includes a file whose name is a macro (parts of CCCL do), CUDA's headers stay on the disk, since some
    would otherwise be read twice, from memory and from the disk. Line tables then name folders of this machine.

    Args:
        source: CUDA C++ that `lab.toolchain.includes.check` accepts.
        name: Its name, for messages.
        own: The user's own files, by the names in include lines.
        folder: A folder of CUDA headers, or None.
    """
    reached: dict[str, str] = {}
    pending: list[str] = []
    texts = _with_standard({"": source, **own}, folder)
    own = {key: text for key, text in texts.items() if key}
    found = {key: _rewritten(text, key or name, own, folder, pending) for key, text in texts.items()}
    while pending and folder is not None:
        relative = pending.pop()
        header = f"{ROOT}/{relative}"
        if header not in reached:
            reached[header], further = _header(folder, relative)
            if _MACRO_INCLUDE.search(reached[header]):
                found = {key: _rewritten(text, key or name, own, folder, None) for key, text in texts.items()}
                reached, search = {}, roots(folder)
                break
            pending.extend(further)
    else:
        search = ()
    missing = {key: text for _, nowhere in found.values() for key, text in nowhere.items()}
    given = {f"/{key}": text for key, (text, _) in found.items() if key}
    return Embedded(found[""][0], {**missing, **reached, **given}, search)


def _with_standard(texts: Mapping[str, str], folder: Path | None) -> dict[str, str]:
    """Add the standard headers that the user's texts name and CUDA's folder lacks, and those that these name."""
    with_std = any(uses_std(text) for text in texts.values())
    every, pending = dict(texts), list(texts.values())
    while pending:
        for name in _named(pending.pop()):
            key = f"{FOLDER}/{name}"
            if name in texts or key in every:
                continue
            text = replaced(name)
            if text is None and _cuda(name, None, folder) is None:
                text = standard(name, with_std=with_std and folder is not None)
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
    text: str, name: str, own: Mapping[str, str], folder: Path | None, pending: list[str] | None
) -> tuple[str, dict[str, str]]:
    """Rewrite the include lines of a text of the user's.

    Args:
        text: The text.
        name: Its name, for messages.
        own: The user's own files.
        folder: A folder of CUDA headers, or None.
        pending: Receives the headers of CUDA that it includes; None if these stay on the disk.

    Returns:
        The text, and a text that is an error for each name that leads nowhere.
    """
    nowhere: dict[str, str] = {}

    def is_there(one: Include) -> bool:
        return one.name in own or f"{FOLDER}/{one.name}" in own or _cuda(one.name, None, folder) is not None

    def name_of(one: Include) -> str | None:
        if one.name in own:
            return f"/{one.name}"
        if f"{FOLDER}/{one.name}" in own:
            return f"/{FOLDER}/{one.name}"
        header = _cuda(one.name, None, folder)
        if header is None:
            line = _line(text, one.start)
            what = f'could not open source file "{one.name}": it is not in the folder of the source or of CUDA'
            what += "; python -m pip install nvidia-curand brings it" if one.name.startswith("curand") else ""
            nowhere[one.name] = f'#line {line} "{name}"\n#error {what}\n'
            return None
        if pending is None:
            return None
        pending.append(header)
        return f"{ROOT}/{header}"

    text = resolve_questions(text, is_there)
    return renamed(text, name_of), nowhere


def _line(text: str, position: int) -> int:
    """Return the number of a position's line, from 1, as compilers count after `#line` directives."""
    before = text[:position]
    told = list(_LINE.finditer(before))
    if not told:
        return before.count("\n") + 1
    return int(told[-1][1]) + before.count("\n", told[-1].end())


@functools.cache  # headers do not change while the process lives, and reading all of them takes 15 ms
def _header(folder: Path, relative: str) -> tuple[str, tuple[str, ...]]:
    path = folder / relative
    text, includes = _rewrite(path.read_text(errors="replace"), path.parent, folder)
    return text, tuple(includes)


def _rewrite(text: str, own_folder: Path, folder: Path) -> tuple[str, list[str]]:
    """Rewrite the include lines of one of CUDA's headers."""
    found: list[str] = []

    def replace(match: re.Match[str]) -> str:
        header = _cuda(match[2][1:-1], own_folder if match[2].startswith('"') else None, folder)
        if header is None:
            return match[0]
        found.append(header)
        return f'{match[1]}"{ROOT}/{header}"'

    return _INCLUDE.sub(replace, text), found


def _cuda(name: str, beside: Path | None, folder: Path | None) -> str | None:
    """Return the path of one of CUDA's headers below their folder; None for any other file."""
    if folder is None:
        return None
    for root in (*([beside] if beside else []), *roots(folder)):
        path = root / name
        with suppress(OSError):  # too long a name
            if path.is_file() and path.resolve().is_relative_to(folder.resolve()):
                return path.resolve().relative_to(folder.resolve()).as_posix()
    return None
