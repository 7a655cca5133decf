"""Serialisation of values between hosts: a small payload that refers to large texts and images by hash.

The scheduler only sees payloads. Sources, PTX and cubins are left out of them; `lab.cluster.contents` stores them on
each host, so each is sent there once. A toolchain is sent as its name and version, since its path differs between
hosts.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lab.toolchain.elsewhere import KINDS, ToolchainName, found_here, named

LARGE = 4096
"""Length from which text or bytes are sent by hash; sending shorter ones is faster than requesting them."""

Content = bytes | str


@dataclass(frozen=True, slots=True)
class Letter:
    """A payload: a pickled value without its large objects.

    Attributes:
        text: The pickle; it refers to large objects by their hashes.
        parts: The distinct hashes of the large objects.
    """

    text: bytes
    parts: tuple[str, ...]


def hash_of(content: Content) -> str:
    """Return the name of a large object: a letter for its type followed by its SHA-256 in hex."""
    return f"b{hashlib.sha256(content).hexdigest()}" if isinstance(content, bytes) else f"s{_text_hash(content)}"


def to_bytes(content: Content) -> bytes:
    """Return the stored form of a large object."""
    return content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")


def from_bytes(name: str, stored: bytes) -> Content:
    """Return a large object from its stored form; the inverse of `to_bytes`."""
    return stored if name.startswith("b") else stored.decode("utf-8", "surrogatepass")


def is_whole(name: str, stored: bytes) -> bool:
    """Return whether stored bytes match the hash in their name."""
    return hashlib.sha256(stored).hexdigest() == name[1:]


def write(value: object) -> tuple[Letter, dict[str, Content]]:
    """Serialise a value.

    Returns:
        The payload, and its large objects by hash.

    Raises:
        pickle.PicklingError, AttributeError, TypeError: The value cannot be pickled.
        MissingToolError: It holds a toolchain, and this host lacks nvdisasm.
    """
    target = io.BytesIO()
    writer = _Writer(target)
    writer.dump(value)
    return Letter(target.getvalue(), tuple(writer.parts)), writer.parts


def read(letter: Letter, objects: Callable[[str], Content] | Mapping[str, Content]) -> object:
    """Deserialise a payload of our own.

    Args:
        letter: The payload.
        objects: The large objects by hash, or a function that returns them.

    Raises:
        KeyError: A large object is missing.
        MissingToolError: This host lacks a toolchain.
    """
    return _Reader(io.BytesIO(letter.text), objects.__getitem__ if isinstance(objects, Mapping) else objects).load()


class _Writer(pickle.Pickler):
    """A pickler that leaves out large objects and toolchains."""

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
    """An unpickler that inserts large objects and this host's toolchains."""

    def __init__(self, source: io.BytesIO, load_object: Callable[[str], Content]) -> None:
        super().__init__(source)
        self._part = load_object

    def persistent_load(self, name: str | ToolchainName) -> object:
        return found_here(name) if isinstance(name, ToolchainName) else self._part(name)


def _text_hash(text: str) -> str:
    return hashlib.sha256(to_bytes(text)).hexdigest()
