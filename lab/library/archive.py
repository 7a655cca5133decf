"""Libraries as they are kept: folders that `lab tune` wrote, archives of them, and those that come with lab."""

from __future__ import annotations

import io
import lzma
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.base.errors import Location, UserError
from lab.library.package import Library, from_json

SUFFIX = ".tar.xz"
_MOST_BYTES = 1 << 28
"""An archive that unpacks to more is refused."""

SHIPPED = (Path(__file__).parents[2] / "libraries", Path(__file__).parents[1] / "libraries")
"""Where libraries that come with lab lie: in the repository, and in an installed package."""


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
    for folder in SHIPPED if len(path.parts) == 1 else ():
        if (folder / name).is_dir():
            return folder / name
    known = sorted({one.name for folder in SHIPPED if folder.is_dir() for one in folder.iterdir() if one.is_dir()})
    accepted = f"a library's JSON, folder or archive; of those that come with lab: {', '.join(known) or 'none'}"
    raise UserError("there is no such library", found=str(name), accepted=accepted)


def stored(name: Path | str) -> tuple[StoredLibrary, ...]:
    """Read every library of a place: a JSON, an archive, or a folder that holds either, or folders of libraries.

    Raises:
        UserError: There is none, or a file is not a library.
    """
    path = find(name)
    if path.is_file():
        return (_archive(path) if path.name.endswith(SUFFIX) else _folder(path),)
    archives = sorted(path.glob(f"*{SUFFIX}"))
    files = sorted(path.glob("*.json")) or sorted(path.glob("*/*.json"))
    if not archives and not files:
        accepted = f"a JSON that `lab tune` wrote, or an archive {SUFFIX}"
        raise UserError("the folder holds no library", at=Location(path), accepted=accepted)
    return (*map(_archive, archives), *(() if archives else map(_folder, files)))


def pack(folder: Path, archive: Path) -> None:
    """Write a library's folder as an archive; equal folders make equal archives.

    Raises:
        UserError: The folder does not hold exactly one library.
    """
    files = sorted(folder.glob("*.json"))
    if len(files) != 1:
        found = [file.name for file in files]
        raise UserError("the folder does not hold exactly one library", at=Location(folder), found=found)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for file in sorted(one for one in folder.iterdir() if one.is_file()):
            member = tarfile.TarInfo(file.name)  # no owner, no date
            member.size = file.stat().st_size
            tar.addfile(member, io.BytesIO(file.read_bytes()))
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.write_bytes(lzma.compress(buffer.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def _folder(file: Path) -> StoredLibrary:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the library cannot be read: {error}", at=Location(file)) from error
    library = from_json(text, file)
    files = {kernel.cubin: file.parent / kernel.cubin for kernel in library.kernels}
    return StoredLibrary(library, {name: one.read_bytes() for name, one in files.items() if one.is_file()}, file.parent)


def _archive(path: Path) -> StoredLibrary:
    contents: dict[str, bytes] = {}
    total = 0
    try:
        with tarfile.open(path, mode="r:xz") as tar:
            for member in tar:
                total += member.size
                if total > _MOST_BYTES:
                    accepted = f"at most {_MOST_BYTES} bytes"
                    raise UserError("the archive unpacks to too much", at=Location(path), accepted=accepted)
                data = tar.extractfile(member) if member.isfile() else None
                if data is not None:
                    contents[member.name] = data.read()
    except (OSError, EOFError, tarfile.TarError, lzma.LZMAError) as error:
        raise UserError(f"the archive cannot be read: {error}", at=Location(path)) from error
    texts = [name for name in contents if name.endswith(".json")]
    if len(texts) != 1:
        raise UserError("the archive does not hold exactly one library", at=Location(path), found=texts)
    try:
        text = contents[texts[0]].decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"the library cannot be read: {error}", at=Location(path)) from error
    library = from_json(text, path)
    wanted = {kernel.cubin for kernel in library.kernels}
    return StoredLibrary(library, {name: data for name, data in contents.items() if name in wanted}, path)
