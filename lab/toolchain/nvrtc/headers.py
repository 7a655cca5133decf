"""Passes CUDA's headers to NVRTC in memory, under names that are the same on every machine.

A header from NVRTC's include path enters the PTX's `.file` table with its path on this machine. A header that is passed
in memory as `/cuda/cuda_fp16.h` enters with that name. The include lines that lead from the source to CUDA's headers
are rewritten to those names in place, so that line numbers stay.
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
    """Return the include path of a folder of CUDA headers: the folder, and that of CCCL in it if there is one."""
    return tuple(root for root in (folder, folder / "cccl") if root.is_dir())


def includes_any(source: str) -> bool:
    """Return whether a source has any include lines."""
    return bool(_INCLUDE.search(source) or _MACRO_INCLUDE.search(source))


def embed(source: str, folder: Path) -> tuple[str, dict[str, str]]:
    """Rewrite the include lines that lead to CUDA's headers and collect those headers.

    Args:
        source: CUDA C++.
        folder: A folder of CUDA headers.

    Returns:
        The source, and a mapping from the virtual name to the text of every header that it can reach. Includes of other
        files stay unchanged. If a header includes a file whose name is a macro (parts of CCCL do), the source is
        returned unchanged and without headers, since some headers would then be read twice, from memory and from the
        disk. It compiles from the disk, and its line tables name folders of this machine.
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


@functools.cache  # headers do not change while the process lives, and reading all of them takes 15 ms
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
