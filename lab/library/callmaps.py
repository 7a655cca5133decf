"""The tensor maps of a call: encoded at the first call with an address and cached for later calls.

A map holds the address of its matrix, and a launch takes a map by value. So a program that calls with the same buffers
again and again has its maps encoded once, and a captured graph holds maps of its own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lab.hardware.encodedmaps import EncodedMap
from lab.hardware.tensormaps import TensorMap

MOST_ADDRESSES = 32
"""The most addresses with a cached map, about 300 bytes each. When it is exceeded, the cache is cleared."""

Encode = Callable[[TensorMap, int], EncodedMap]


@dataclass(slots=True)
class MapArgument:
    """A tensor map of a call, as its launches take it.

    Attributes:
        described: The map.
        word: Number of the call's word that holds the address of its matrix.
        places: Arrays of arguments, and the place in each, that point to the map.
        known: Encoded maps by address.
        current: The address that the launches have the map of.
    """

    described: TensorMap
    word: int
    places: list[tuple[ctypes.Array[ctypes.c_void_p], int]] = field(default_factory=list)
    known: dict[int, EncodedMap] = field(default_factory=dict)
    current: int = 0

    def place(self, address: int, encode: Encode) -> None:
        """Set the launches' argument to the tensor map of the matrix at an address.

        Args:
            address: The address.
            encode: Has the driver encode a map that is not known.
        """
        encoded = self.known.get(address)
        if encoded is None:
            encoded = encode(self.described, address)
            if len(self.known) >= MOST_ADDRESSES:
                self.known.clear()
            self.known[address] = encoded
        for arguments, at in self.places:
            arguments[at] = encoded.address
        self.current = address


def place_all(maps: Sequence[MapArgument], words: ctypes.Array[ctypes.c_uint64], encode: Encode) -> None:
    """Set the launches' tensor maps to the addresses currently in the words."""
    for argument in maps:
        address = words[argument.word]
        if address != argument.current:
            argument.place(address, encode)
