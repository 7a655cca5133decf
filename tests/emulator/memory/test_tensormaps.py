"""The emulator's encoding of tensor maps."""

from lab.emulator.memory.tensormaps import Descriptor, decode
from lab.hardware.tensormaps import BYTES

MAP = Descriptor((20 << 36) + 64, 4, (37, 22), 160, (32, 8))


def test_what_is_encoded_is_decoded():
    raw = MAP.encode()
    assert len(raw) == BYTES
    assert decode(raw) == MAP
    assert MAP.box_bytes == 1024


def test_other_bytes_are_not_a_map():
    assert decode(bytes(BYTES)) is None
    assert decode(b"\1" + MAP.encode()[1:]) is None
