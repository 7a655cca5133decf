"""The emulator's encoding of tensor maps."""

from dataclasses import replace

import pytest

from lab.emulator.memory.tensormaps import ELEMENTS, Descriptor, MapField, decode, place_of
from lab.emulator.opcodes import UnknownForm
from lab.hardware.tensormaps import BYTES, PixelBox

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


@pytest.mark.parametrize(
    ("field", "ordinal", "value", "changed"),
    [
        (MapField.BASE, 0, 4096, {"base": 4096}),
        (MapField.EXTENT, 4, 9, {"extents": (64, 5, 4, 3, 9)}),
        (MapField.STRIDE, 3, 99, {"strides": (128, 640, 2560, 99)}),
        (MapField.BOX, 1, 7, {"box": (64, 7, 2, 3, 1)}),
        (MapField.SWIZZLE, 0, 32, {"swizzle": 32}),
        (MapField.ELEMENT, 0, 1, {"element": "u16"}),
        (MapField.STEP, 0, 1, {}),
    ],
)
def test_a_replaced_field_is_decoded(field, ordinal, value, changed):
    begin, width = place_of(field, ordinal)
    raw = bytearray(TENSOR.encode())
    raw[begin : begin + width] = value.to_bytes(width, "little")
    assert decode(bytes(raw)) == replace(TENSOR, **changed)


@pytest.mark.parametrize("field", list(MapField))
def test_a_field_has_so_many_parts(field):
    count = {"EXTENT": 5, "STRIDE": 4, "BOX": 5, "STEP": 5}.get(field.name, 1)
    place_of(field, count - 1)
    for ordinal in (-1, count):
        with pytest.raises(UnknownForm, match=f"dimension {ordinal} "):
            place_of(field, ordinal)


@pytest.mark.parametrize("rank", [0, 6])
def test_a_rank_that_no_map_has(rank):
    raw = bytearray(TENSOR.encode())
    raw[101] = rank
    assert decode(bytes(raw)) is None


def test_steps_leave_elements_out():
    raw = bytearray(MAP.encode())
    raw[103] = 2
    assert decode(bytes(raw)) is None
    raw[103], raw[104] = 1, 2  # of a dimension that the matrix does not have
    assert decode(bytes(raw)) == MAP


def test_pixels_are_encoded():
    pixels = PixelBox((-1, 2), (3, -4), (1, 2))
    found = replace(TENSOR, extents=(64, 9, 8, 2), strides=(128, 640, 2560), box=(64, 16), pixels=pixels)
    assert decode(found.encode()) == found
