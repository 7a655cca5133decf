"""Values on their way between hosts: a small letter, and the large texts and images in it by their hashes.

A letter is what the scheduler sees. Sources, PTX and cubins are left out of it; `lab.cluster.contents` keeps them on
each host, so that each travels there once. A toolchain travels by its name and version, since its path is another one
on each host.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lab.toolchain.elsewhere import KINDS, ToolchainName, found_here, named

LARGE = 4096
"""Length from which a text or bytes travel by hash: shorter ones are sent sooner than they are asked for."""

Content = bytes | str


@dataclass(frozen=True, slots=True)
class Letter:
    """A pickled value without its large parts.

    Attributes:
        text: The pickle; large parts are named by their hashes.
        parts: Hashes of the large parts, each once.
    """

    text: bytes
    parts: tuple[str, ...]


def hash_of(content: Content) -> str:
    """Return the SHA-256 of a large part, in hex, behind a letter for its type: equal names mean equal parts."""
    return f"b{hashlib.sha256(content).hexdigest()}" if isinstance(content, bytes) else f"s{_text_hash(content)}"


def to_bytes(content: Content) -> bytes:
    """Return what is stored of a large part."""
    return content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")


def from_bytes(name: str, stored: bytes) -> Content:
    """Return the large part of a name; the inverse of `to_bytes`."""
    return stored if name.startswith("b") else stored.decode("utf-8", "surrogatepass")


def is_whole(name: str, stored: bytes) -> bool:
    """Whether stored bytes are those that the name stands for."""
    return hashlib.sha256(stored).hexdigest() == name[1:]


def write(value: object) -> tuple[Letter, dict[str, Content]]:
    """Write a value.

    Returns:
        The letter, and its large parts by their hashes.

    Raises:
        pickle.PicklingError, AttributeError, TypeError: The value cannot be pickled.
        MissingToolError: It holds a toolchain, and there is no nvdisasm here.
    """
    target = io.BytesIO()
    writer = _Writer(target)
    writer.dump(value)
    return Letter(target.getvalue(), tuple(writer.parts)), writer.parts


def read(letter: Letter, part: Callable[[str], Content] | Mapping[str, Content]) -> object:
    """Read a letter of our own.

    Args:
        letter: The letter.
        part: The large parts by their hashes, or what returns them.

    Raises:
        KeyError: A part is not there.
        MissingToolError: This host lacks a toolchain.
    """
    return _Reader(io.BytesIO(letter.text), part.__getitem__ if isinstance(part, Mapping) else part).load()


class _Writer(pickle.Pickler):
    """Leaves large parts and toolchains out of a pickle."""

    def __init__(self, target: io.BytesIO) -> None:
        super().__init__(target, pickle.HIGHEST_PROTOCOL)
        self.parts: dict[str, Content] = {}

    def persistent_id(self, value: object) -> str | ToolchainName | None:
        if type(value) in KINDS:
            return named(value)  # type: ignore[arg-type]  # it is one of them
        if type(value) not in {bytes, str} or len(value) < LARGE:  # type: ignore[arg-type]  # both have a length
            return None
        name = hash_of(value)  # type: ignore[arg-type]  # it is one of the two
        self.parts[name] = value  # type: ignore[assignment]
        return name


class _Reader(pickle.Unpickler):
    """Puts large parts back, and this host's toolchains in the place of others."""

    def __init__(self, source: io.BytesIO, part: Callable[[str], Content]) -> None:
        super().__init__(source)
        self._part = part

    def persistent_load(self, name: str | ToolchainName) -> object:
        return found_here(name) if isinstance(name, ToolchainName) else self._part(name)


def _text_hash(text: str) -> str:
    return hashlib.sha256(to_bytes(text)).hexdigest()
