"""The PTX and cubins in a library, a fat binary, a wheel, or a folder such as Triton's cache."""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Final

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from lab.base.errors import Location, UserError
from lab.base.files import read_regular
from lab.isa.model import Isa
from lab.toolchain.containers.fatbin import FatbinEntry, read_fatbins

SUFFIXES: Final = (".so", ".fatbin", ".whl", ".o", ".a", ".exe")
MOST_BYTES: Final = 2 << 30
"""The largest file, and the most bytes that a wheel's members have together."""
MOST_FILES: Final = 20_000

_SECTIONS: Final = (".nv_fatbin", "__nv_relfatbin")
_INSIDE: Final = (".so", ".fatbin", ".cubin", ".ptx")
_ENTRY = re.compile(rb"^[ \t]*(?:\.visible[ \t]+|\.weak[ \t]+)?\.entry[ \t\r\n]+([\w$%.]+)", re.MULTILINE)
_TARGET = re.compile(rb"^[ \t]*\.target[ \t]+(\w+)", re.MULTILINE)


@dataclass(frozen=True)
class DeviceImage:
    """One PTX text or cubin of a container.

    Attributes:
        where: The file in the container: `lib/kernels.so`; the container's own name where it is the file.
        entry: Its contents.
    """

    where: str
    entry: FatbinEntry

    @cached_property
    def id(self) -> str:
        """Ten hexadecimal digits that depend on its contents and its place."""
        return hashlib.sha256(self.where.encode() + b"\0" + self.entry.arch.encode() + self.entry.data).hexdigest()[:10]

    @property
    def isa(self) -> Isa:
        """Its instruction set."""
        return "ptx" if self.entry.kind == "ptx" else "sass"

    @cached_property
    def kernels(self) -> tuple[str, ...]:
        """Symbols of its kernels; none of a cubin that cannot be read."""
        if self.entry.kind == "ptx":
            return tuple(name.decode("ascii", "replace") for name in _ENTRY.findall(self.entry.data))
        try:
            return tuple(_global_functions(self.entry.data))
        except (ELFError, ValueError, KeyError):
            return ()


def is_container(file: Path) -> bool:
    """Return whether a path is that of a container: by its suffix, `libk.so.1`, or since it is a folder."""
    return file.is_dir() or any(suffix in SUFFIXES for suffix in file.suffixes[-1:]) or ".so." in file.name


def device_images(file: Path) -> tuple[DeviceImage, ...]:
    """Return the images of a container, in its order, without cubins that hold no kernel beside others that do.

    Raises:
        UserError: It cannot be read, is not what its name says, or holds more than `MOST_FILES` files.
    """
    images = _images(file)
    if any(image.kernels for image in images):  # nvcc links an empty cubin into every library
        images = [image for image in images if image.kernels or not image.entry.is_listing]
    return tuple(images)


def _images(file: Path) -> list[DeviceImage]:
    if file.is_dir():
        return list(_in_folder(file))
    content = read_regular(file, MOST_BYTES, "the container")
    if file.suffix == ".whl":
        return list(_in_wheel(content, file))
    return list(_in_file(content, file.name, str(file)))


def _in_folder(folder: Path) -> Iterator[DeviceImage]:
    files = [one for one in sorted(folder.rglob("*")) if one.suffix in _INSIDE and one.is_file()]
    if len(files) > MOST_FILES:
        raise UserError(
            "the folder holds too many files",
            code="out-of-range",
            at=Location(folder),
            accepted=f"at most {MOST_FILES}",
        )
    for file in files:
        yield from _tolerated(read_regular(file, MOST_BYTES), file.relative_to(folder).as_posix(), str(file))


def _in_wheel(content: bytes, file: Path) -> Iterator[DeviceImage]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [one for one in archive.infolist() if _is_inside(one.filename)]
            if len(members) > MOST_FILES or sum(member.file_size for member in members) > MOST_BYTES:
                accepted = f"at most {MOST_FILES} files of {MOST_BYTES} bytes together"
                raise UserError("the wheel holds too much", code="out-of-range", at=Location(file), accepted=accepted)
            for member in members:
                yield from _tolerated(archive.read(member), member.filename, f"{file}/{member.filename}")
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:  # encrypted, another compression
        raise UserError(f"not a wheel: {error}", code="wrong-value", at=Location(file)) from None


def _is_inside(name: str) -> bool:
    return PurePosixPath(name).suffix in _INSIDE or ".so." in PurePosixPath(name).name


def _tolerated(content: bytes, name: str, whole: str) -> Iterator[DeviceImage]:
    """Yield the images of a file among others; one that is broken is one image that cannot be read."""
    try:
        yield from _in_file(content, name, whole)
    except UserError as error:
        yield DeviceImage(name, FatbinEntry("a file", "", b"", error.message))


def _in_file(content: bytes, name: str, whole: str) -> Iterator[DeviceImage]:
    suffix = PurePosixPath(name).suffix
    if suffix == ".ptx":
        target = _TARGET.search(content)
        arch = target[1].decode().replace("sm_", "compute_") if target else ""
        entries: tuple[FatbinEntry, ...] = (FatbinEntry("ptx", arch, content.rstrip(b"\0")),)
    elif suffix == ".cubin":
        entries = (FatbinEntry("cubin", "", content),)
    elif content.startswith(b"\x7fELF"):
        entries = tuple(_in_elf(content, whole))
    elif content.startswith(b"!<arch>\n"):
        raise UserError(
            "an archive of objects", code="wrong-value", at=Location(whole), accepted="one of its objects: ar x FILE"
        )
    else:
        entries = read_fatbins(content, whole)
    yield from (DeviceImage(name, entry) for entry in entries)


def _in_elf(content: bytes, file: str) -> Iterator[FatbinEntry]:
    """Yield what the sections of a host's object or library hold."""
    try:
        elf = ELFFile(io.BytesIO(content))
        for name in _SECTIONS:
            section = elf.get_section_by_name(name)
            if section is not None:
                yield from read_fatbins(section.data(), f"{file} {name}")
    except (ELFError, ValueError, KeyError, UnicodeDecodeError) as error:
        raise UserError(f"the ELF file cannot be read: {error}", code="unreadable", at=Location(file)) from None


def _global_functions(cubin: bytes) -> Iterator[str]:
    """Yield the kernels of a cubin: functions that are seen outside of it and have constants for parameters."""
    elf = ELFFile(io.BytesIO(cubin))
    names = {section.name for section in elf.iter_sections()}
    for section in elf.iter_sections():
        if isinstance(section, SymbolTableSection):
            for symbol in section.iter_symbols():
                if symbol["st_info"]["type"] == "STT_FUNC" and f".nv.constant0.{symbol.name}" in names:
                    yield symbol.name
