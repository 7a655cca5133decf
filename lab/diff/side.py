"""One side of a comparison: its cubins with what their builds said of them, written as JSON and read again."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from lab.base.errors import Location, UserError
from lab.base.files import read_regular
from lab.toolchain.base import Disassembly

FORMAT: Final = "lab diff side"
SCHEMA: Final = 1
MOST_BYTES: Final = 1 << 30
_MOST_IMAGE_BYTES: Final = 256 << 20


@dataclass(frozen=True, slots=True)
class SideImage:
    """One cubin of a side.

    Attributes:
        where: Its file in the side; empty where the side is that file.
        cubin: The image.
        toolchain: The compiler with its version; empty where the cubin came as it is.
        options: Compiler options.
        titles: C++ names of kernels as the user wrote them, by symbol.
        spills: Bytes of spill stores and of spill loads by symbol, from the compiler's log; empty without one.
        disassembly: Its listing where the build has one already; not part of the JSON.
    """

    where: str
    cubin: bytes = field(repr=False)
    toolchain: str = ""
    options: tuple[str, ...] = ()
    titles: Mapping[str, str] = field(default_factory=dict)
    spills: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    disassembly: Disassembly | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class CodeSide:
    """All machine code of one side.

    Attributes:
        name: The side as the user named it.
        images: Its cubins.
        notes: What was left out, or done otherwise than asked.
        failures: What could not be compiled: place and reason.
    """

    name: str
    images: tuple[SideImage, ...]
    notes: tuple[str, ...] = ()
    failures: tuple[tuple[str, str], ...] = ()


def merged(name: str, sides: Sequence[CodeSide]) -> CodeSide:
    """Return several sides as one; the places of each are below its own name where there are several."""
    images: list[SideImage] = []
    for side in sides:
        images += [replace(image, where=image.where or side.name) for image in side.images]
    notes = dict.fromkeys(note for side in sides for note in side.notes)
    return CodeSide(name, tuple(images), tuple(notes), tuple(failure for side in sides for failure in side.failures))


def to_json(side: CodeSide) -> str:
    """Return a side as JSON, cubins compressed."""
    images = [
        {
            "where": image.where,
            "toolchain": image.toolchain,
            "options": list(image.options),
            "titles": dict(image.titles),
            "spills": {symbol: list(spills) for symbol, spills in image.spills.items()},
            "cubin": base64.b64encode(zlib.compress(image.cubin)).decode(),
        }
        for image in side.images
    ]
    value = {
        "format": FORMAT, "schema": SCHEMA, "name": side.name, "notes": list(side.notes),
        "failures": [list(failure) for failure in side.failures], "images": images,
    }  # fmt: skip
    return json.dumps(value, indent=1) + "\n"


def read_json(file: Path) -> CodeSide:
    """Read a side that `to_json` wrote.

    Raises:
        UserError: It is not such a file, or damaged.
    """
    content = read_regular(file, MOST_BYTES, "the collected side")
    try:
        value = json.loads(content)
    except ValueError as error:
        raise UserError(f"not JSON: {error}", code="syntax", at=Location(file)) from None
    if not isinstance(value, dict) or value.get("format") != FORMAT or value.get("schema") != SCHEMA:
        raise UserError(
            "not a collected side of this version",
            code="version",
            at=Location(file),
            found=value.get("schema") if isinstance(value, dict) else type(value).__name__,
            accepted=f"the output of lab diff --collect, schema {SCHEMA}",
        )
    try:
        return CodeSide(
            str(value["name"]),
            tuple(_image(row) for row in value["images"]),
            tuple(map(str, value["notes"])),
            tuple((str(place), str(reason)) for place, reason in value["failures"]),
        )
    except (KeyError, TypeError, ValueError, binascii.Error, zlib.error) as error:
        raise UserError(f"a damaged side: {error}", code="syntax", at=Location(file)) from None


def _image(row: Mapping[str, Any]) -> SideImage:
    unpacker = zlib.decompressobj()
    cubin = unpacker.decompress(base64.b64decode(row["cubin"]), _MOST_IMAGE_BYTES)
    if not unpacker.eof:
        raise ValueError("an image is cut off or too large")
    spills = {symbol: (int(stores), int(loads)) for symbol, (stores, loads) in row["spills"].items()}
    return SideImage(row["where"], cubin, row["toolchain"], tuple(row["options"]), dict(row["titles"]), spills)


def is_side(file: Path) -> bool:
    """Return whether a path names a file that `to_json` may have written."""
    return file.suffix == ".json" and file.is_file()
