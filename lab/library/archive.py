"""Stored libraries: folders written by `lab tune`, archives of them, and the libraries shipped with lab."""

from __future__ import annotations

import io
import lzma
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.base import shipped
from lab.base.errors import Location, UserError
from lab.base.files import write_atomically
from lab.base.folder import Folder, is_name
from lab.base.unpacking import PackedFileError, members, unpacked
from lab.library.package import Library, from_json

SUFFIX = ".tar.xz"
_MOST_BYTES = 1 << 27
"""The largest unpacked size of an archive, in bytes."""

SHIPPED = shipped.folder("libraries")
"""Folders of the libraries shipped with lab: in the repository and in an installed package."""


@dataclass(frozen=True, slots=True)
class StoredLibrary:
    """A library and its machine code.

    Attributes:
        library: The library.
        cubins: Machine code by the files' names; files that are missing are left out.
        place: The folder or the archive.
    """

    library: Library
    cubins: Mapping[str, bytes]
    place: Path


def find(name: Path | str) -> Path:
    """Return the path if it exists, else the folder of the shipped library of this name.

    Raises:
        UserError: There is neither.
    """
    path = Path(name)
    if path.exists():
        return path
    if len(path.parts) == 1 and (SHIPPED / name).is_dir():
        return SHIPPED / name
    names = sorted(folder.name for folder in SHIPPED.iterdir() if folder.is_dir()) if SHIPPED.is_dir() else []
    accepted = f"a library's JSON, folder or archive; of those that come with lab: {', '.join(names) or 'none'}"
    suggestion = None if names else "install them from a clone of lab: python -m pip install ./libraries"
    raise UserError(
        "no library of this name or path",
        code="missing-file",
        found=str(name),
        accepted=accepted,
        suggestion=suggestion,
    )


def stored(name: Path | str) -> tuple[StoredLibrary, ...]:
    """Read all libraries at a path: a JSON file, an archive, a folder of either, or a folder of library folders.

    Raises:
        UserError: There is none, or a file is not a library.
    """
    path = find(name)
    if path.is_file():  # a path of the user's own, which may be a link
        file = path.resolve()
        return (_read(Folder(file.parent), file.name),)
    top = Folder(path)
    files = _ending(top, SUFFIX) or _ending(top, ".json")
    if not files:
        below = (top / subfolder for subfolder in sorted(top.folders()) if is_name(subfolder))
        files = [place for folder in below for place in _ending(folder, ".json")]
    if not files:
        accepted = f"a JSON that `lab tune` wrote, or an archive {SUFFIX}"
        raise UserError("the folder holds no library", code="missing-file", at=Location(path), accepted=accepted)
    return tuple(_read(folder, file) for folder, file in files)


def _ending(folder: Folder, suffix: str) -> list[tuple[Folder, str]]:
    return [(folder, name) for name in sorted(folder.files()) if name.endswith(suffix)]


def pack(folder: Path, archive: Path) -> None:
    """Write a library's folder as an archive; equal folders give identical archives.

    Raises:
        UserError: The folder does not hold exactly one library.
    """
    files = sorted(folder.glob("*.json"))
    if len(files) != 1:
        names = [file.name for file in files]
        raise UserError(
            "the folder does not hold exactly one library", code="out-of-range", at=Location(folder), found=names
        )
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for file in sorted(path for path in folder.iterdir() if path.is_file()):
            member = tarfile.TarInfo(file.name)  # no owner, no date
            member.size = file.stat().st_size
            tar.addfile(member, io.BytesIO(file.read_bytes()))
    archive.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(archive, lzma.compress(buffer.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def _read(folder: Folder, name: str) -> StoredLibrary:
    """Read a library from its JSON file and the cubins beside it, or from an archive."""
    path = folder.path / name
    is_archive = name.endswith(SUFFIX)
    content = folder.read(name) or b""
    contents = _unpacked(content, path) if is_archive else {name: content}
    texts = [member for member in contents if member.endswith(".json")]
    if len(texts) != 1:
        raise UserError(
            "the archive does not hold exactly one library", code="out-of-range", at=Location(path), found=texts
        )
    try:
        library = from_json(contents[texts[0]].decode("utf-8"), path)
    except UnicodeDecodeError as error:
        raise UserError(f"the library cannot be read: {error}", code="unreadable", at=Location(path)) from error
    cubin_names = sorted({kernel.cubin for kernel in library.kernels})
    cubins = (
        (cubin_name, contents.get(cubin_name) if is_archive else folder.read(cubin_name)) for cubin_name in cubin_names
    )
    cubin_data = {cubin_name: data for cubin_name, data in cubins if data is not None}
    return StoredLibrary(library, cubin_data, path if is_archive else folder.path)


def _unpacked(packed: bytes, path: Path) -> dict[str, bytes]:
    try:
        return dict(members(unpacked(packed, _MOST_BYTES)))
    except PackedFileError as error:
        raise UserError(f"the archive cannot be read: {error}", code="unreadable", at=Location(path)) from error
