from __future__ import annotations

import ctypes

import pytest

from lab.hardware.encodedmaps import EncodedMap
from lab.hardware.tensormaps import TensorMap
from lab.library.callmaps import MOST_ADDRESSES, MapArgument, place_all

MAP = TensorMap("a_map", "A", "float32", (32, 8), 32, (32, 8))


class Encoder:
    """Remembers what was encoded."""

    def __init__(self):
        self.asked = []
        self.made = {}

    def __call__(self, tensor_map, address):
        assert tensor_map is MAP
        self.asked.append(address)
        self.made[address] = EncodedMap()
        return self.made[address]


@pytest.fixture
def call():
    """A map of the matrix at word 1, which two launches take."""
    first, second = (ctypes.c_void_p * 3)(), (ctypes.c_void_p * 2)()
    return MapArgument(MAP, 1, [(first, 2), (second, 0)]), (ctypes.c_uint64 * 2)(), (first, second)


def test_a_map_is_encoded_once_for_each_address(call):
    call_map, words, (first, second) = call
    encode = Encoder()
    for address in (512, 512, 1024, 512, 1024):
        words[1] = address
        place_all([call_map], words, encode)
        assert first[2] == second[0] == encode.made[address].address
    assert encode.asked == [512, 1024]


def test_no_more_maps_are_kept_than_the_bound(call):
    call_map, words, (first, _) = call
    encode = Encoder()
    for i in range(3 * MOST_ADDRESSES):
        words[1] = 16 * (i + 1)
        place_all([call_map], words, encode)
        assert len(call_map.known) <= MOST_ADDRESSES
        assert first[2] == encode.made[16 * (i + 1)].address


def test_a_map_that_cannot_be_encoded_is_asked_for_again(call):
    call_map, words, (first, _) = call

    def refuses(*_):
        raise ValueError("no map")

    words[1] = 512
    with pytest.raises(ValueError, match="no map"):
        place_all([call_map], words, refuses)
    encode = Encoder()
    place_all([call_map], words, encode)
    assert encode.asked == [512]
    assert first[2] == encode.made[512].address
