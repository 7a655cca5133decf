"""CUDA's headers, handed to NVRTC from memory under names that are the same on every machine.

A header named on NVRTC's include path enters the PTX's `.file` table with its path on this machine. Given
from memory as `/cuda/cuda_fp16.h`, it enters with that name. The include lines that lead from the source to
CUDA's headers are rewritten to those names, in place, so that line numbers stay.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

ROOT = "/cuda"
"""The folder under which line tables name CUDA's headers."""

_MACRO_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]+[A-Za-z_]", re.MULTILINE)
_INCLUDE = re.compile(r'^([ \t]*#[ \t]*include[ \t]*)(<[^>\n]+>|"[^"\n]+")', re.MULTILINE)


def roots(folder: Path) -> tuple[Path, ...]:
    """The include path that a CUDA header folder stands for: itself, and CCCL's where it lies there."""
    return tuple(root for root in (folder, folder / "cccl") if root.is_dir())


def includes_any(source: str) -> bool:
    """Whether a source has include lines, whatever they name."""
    return bool(_INCLUDE.search(source) or _MACRO_INCLUDE.search(source))


def embed(source: str, folder: Path) -> tuple[str, dict[str, str]]:
    """Rewrite the include lines that lead to CUDA's headers and collect those headers.

    Args:
        source: CUDA C++.
        folder: A folder of CUDA headers.

    Returns:
        The source, and virtual name to text of every header that it can reach. An include that is not
        CUDA's is left as it is. Where a header takes an include's name from a macro (parts of CCCL do), the
        source is returned as it was, without headers: half of them from memory and half from the disk
        would meet twice. It compiles from the disk alone, and line tables then name this machine's folders.
    """
    reached: dict[str, str] = {}
    text, pending = _rewrite(source, None, folder)
    while pending:
        relative = pending.pop()
        name = f"{ROOT}/{relative}"
        if name not in reached:
            reached[name], further = _header(folder, relative)
            if _MACRO_INCLUDE.search(reached[name]):
                return source, {}
            pending.extend(further)
    return text, reached


@functools.cache  # a header does not change while the process lives; reading the set costs 15 ms
def _header(folder: Path, relative: str) -> tuple[str, tuple[str, ...]]:
    path = folder / relative
    text, includes = _rewrite(path.read_text(errors="replace"), path.parent, folder)
    return text, tuple(includes)


def _rewrite(text: str, own_folder: Path | None, folder: Path) -> tuple[str, list[str]]:
    found: list[str] = []

    def replace(match: re.Match[str]) -> str:
        quoted = match[2].startswith('"')
        beside = (own_folder,) if quoted and own_folder is not None else ()
        for root in (*beside, *roots(folder)):
            path = root / match[2][1:-1]
            if path.is_file() and path.resolve().is_relative_to(folder.resolve()):
                found.append(path.resolve().relative_to(folder.resolve()).as_posix())
                return f'{match[1]}"{ROOT}/{found[-1]}"'
        return match[0]

    return _INCLUDE.sub(replace, text), found
