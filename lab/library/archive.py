"""Libraries as they are kept: folders that `lab tune` wrote, archives of them, and those that come with lab."""

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
"""An archive that unpacks to more is refused."""

SHIPPED = shipped.folder("libraries")
"""Libraries that come with lab: in a clone, or of the distribution `lab-libraries` where it is installed."""


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
    """Return the path itself where it exists, else the folder of the library of this name that comes with lab.

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
        "there is no such library", code="missing-file", found=str(name), accepted=accepted, suggestion=suggestion
    )


def stored(name: Path | str) -> tuple[StoredLibrary, ...]:
    """Read every library of a place: a JSON, an archive, or a folder that holds either, or folders of libraries.

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
        below = (top / one for one in sorted(top.folders()) if is_name(one))
        files = [place for folder in below for place in _ending(folder, ".json")]
    if not files:
        accepted = f"a JSON that `lab tune` wrote, or an archive {SUFFIX}"
        raise UserError("the folder holds no library", code="missing-file", at=Location(path), accepted=accepted)
    return tuple(_read(folder, file) for folder, file in files)


def _ending(folder: Folder, suffix: str) -> list[tuple[Folder, str]]:
    return [(folder, name) for name in sorted(folder.files()) if name.endswith(suffix)]


def pack(folder: Path, archive: Path) -> None:
    """Write a library's folder as an archive; equal folders make equal archives.

    Raises:
        UserError: The folder does not hold exactly one library.
    """
    files = sorted(folder.glob("*.json"))
    if len(files) != 1:
        found = [file.name for file in files]
        raise UserError(
            "the folder does not hold exactly one library", code="out-of-range", at=Location(folder), found=found
        )
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for file in sorted(one for one in folder.iterdir() if one.is_file()):
            member = tarfile.TarInfo(file.name)  # no owner, no date
            member.size = file.stat().st_size
            tar.addfile(member, io.BytesIO(file.read_bytes()))
    archive.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(archive, lzma.compress(buffer.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def _read(folder: Folder, name: str) -> StoredLibrary:
    """Read the library of a JSON, with the machine code beside it, or of an archive."""
    path = folder.path / name
    is_archive = name.endswith(SUFFIX)
    content = folder.read(name) or b""
    contents = _unpacked(content, path) if is_archive else {name: content}
    texts = [one for one in contents if one.endswith(".json")]
    if len(texts) != 1:
        raise UserError(
            "the archive does not hold exactly one library", code="out-of-range", at=Location(path), found=texts
        )
    try:
        library = from_json(contents[texts[0]].decode("utf-8"), path)
    except UnicodeDecodeError as error:
        raise UserError(f"the library cannot be read: {error}", code="unreadable", at=Location(path)) from error
    wanted = sorted({kernel.cubin for kernel in library.kernels})
    cubins = ((one, contents.get(one) if is_archive else folder.read(one)) for one in wanted)
    found = {one: data for one, data in cubins if data is not None}
    return StoredLibrary(library, found, path if is_archive else folder.path)


def _unpacked(packed: bytes, path: Path) -> dict[str, bytes]:
    try:
        return dict(members(unpacked(packed, _MOST_BYTES)))
    except PackedFileError as error:
        raise UserError(f"the archive cannot be read: {error}", code="unreadable", at=Location(path)) from error
