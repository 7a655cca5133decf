"""The emulator's encoding of tensor maps."""

from dataclasses import replace

from lab.emulator.memory.tensormaps import ELEMENTS, Descriptor, decode
from lab.hardware.tensormaps import BYTES

MAP = Descriptor((20 << 36) + 64, "u32", (37, 22), (160,), (32, 8))
TENSOR = Descriptor(20 << 36, "bf16", (64, 5, 4, 3, 2), (128, 640, 2560, 7680), (64, 1, 2, 3, 1), 128)


def test_what_is_encoded_is_decoded():
    raw = MAP.encode()
    assert len(raw) == BYTES
    assert decode(raw) == MAP
    assert MAP.box_bytes == 1024
    assert decode(TENSOR.encode()) == TENSOR
    assert TENSOR.box_bytes == 768


def test_every_type_has_the_bytes_and_the_number_of_tensormap_replace():
    for number, (name, size) in enumerate(ELEMENTS):
        raw = replace(MAP, element=name).encode()
        found = decode(raw[:100] + bytes([number]) + raw[101:])
        assert found is not None
        assert (found.element, found.element_bytes) == (name, size)
    assert decode(raw[:100] + bytes([len(ELEMENTS)]) + raw[101:]) is None


def test_other_bytes_are_not_a_map():
    assert decode(bytes(BYTES)) is None
    assert decode(b"\1" + MAP.encode()[1:]) is None
