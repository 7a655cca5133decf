"""The emulator's encoding of tensor maps."""

from lab.emulator.memory.tensormaps import Descriptor, decode
from lab.hardware.tensormaps import BYTES

MAP = Descriptor((20 << 36) + 64, 4, (37, 22), (160,), (32, 8))
TENSOR = Descriptor(20 << 36, 2, (64, 5, 4, 3, 2), (128, 640, 2560, 7680), (64, 1, 2, 3, 1), 128)


def test_what_is_encoded_is_decoded():
    raw = MAP.encode()
    assert len(raw) == BYTES
    assert decode(raw) == MAP
    assert MAP.box_bytes == 1024
    assert decode(TENSOR.encode()) == TENSOR
    assert TENSOR.box_bytes == 768


def test_other_bytes_are_not_a_map():
    assert decode(bytes(BYTES)) is None
    assert decode(b"\1" + MAP.encode()[1:]) is None
