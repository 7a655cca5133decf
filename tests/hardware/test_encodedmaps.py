"""Maps as the driver is asked for them, with a function of the test's own in its place."""

import ctypes

from cuda.bindings import driver

from lab.base.elements import ELEMENT_BYTES
from lab.hardware.encodedmaps import DATA_TYPES, EncodedMap, function_of
from lab.hardware.tensormaps import ALIGNMENT, SWIZZLES, PixelBox, TensorMap

MAP = TensorMap("map", "A", "bfloat16", (24, 10), 32, (64, 8), 128)


def test_the_driver_gets_what_the_map_says():
    driver_calls = []

    def encode(room, dtype, rank, address, extents, strides, box, steps, *modes):
        driver_calls.append(
            (dtype.value, rank.value, address.value, tuple(extents), tuple(strides), tuple(box), tuple(steps))
        )
        driver_calls.append(tuple(mode.value for mode in modes))
        ctypes.c_uint64.from_address(room.value).value = 77
        return 0

    made = EncodedMap()
    assert made.address % ALIGNMENT == 0
    assert made.encode(encode, MAP, 0x7F0000000100) == 0
    assert driver_calls == [(9, 2, 0x7F0000000100, (24, 10), (64,), (64, 8), (1, 1)), (0, 3, 0, 0)]
    assert made.words == (77, *(0,) * 15)


def test_the_driver_gets_a_stride_for_every_dimension_but_the_first():
    driver_calls = []

    def encode(_room, _dtype, rank, _address, extents, strides, box, steps, *_):
        driver_calls.append((rank.value, tuple(extents), tuple(strides), tuple(box), tuple(steps)))
        return 0

    cube = TensorMap("map", "A", "float32", (32, 50, 9), 288, (32, 8, 1), outer=(32,))
    assert EncodedMap().encode(encode, cube, 16) == 0
    assert driver_calls == [(3, (32, 50, 9), (1152, 128), (32, 8, 1), (1, 1, 1))]


def test_the_driver_gets_the_corners_of_a_map_for_im2col():
    driver_calls: list[object] = []

    def encode(_room, _dtype, rank, _address, extents, strides, lower, upper, channels, pixels, steps, *modes):
        driver_calls.extend((rank.value, tuple(extents), tuple(strides), tuple(lower), tuple(upper)))
        driver_calls.extend((channels.value, pixels.value, tuple(steps), tuple(mode.value for mode in modes)))
        return 0

    box = PixelBox((-1, -2), (1, 0), (2, 3))
    images = TensorMap("map", "A", "float16", (64, 9, 14, 7), 64, (32, 96), 64, (576, 8064), box)
    assert EncodedMap().encode(encode, images, 16) == 0
    assert driver_calls[:5] == [4, (64, 9, 14, 7), (128, 1152, 16128), (-1, -2), (1, 0)]
    assert driver_calls[5:] == [32, 96, (1, 2, 3, 1), (0, 2, 0, 0)]
    assert (function_of(images), function_of(MAP)) == ("cuTensorMapEncodeIm2col", "cuTensorMapEncodeTiled")


def test_the_drivers_status_is_returned():
    assert EncodedMap().encode(lambda *_: 1, MAP, 16) == 1


def test_element_types_have_the_drivers_numbers():
    known = {member.name.removeprefix("CU_TENSOR_MAP_DATA_TYPE_"): int(member) for member in driver.CUtensorMapDataType}
    for name, number in DATA_TYPES.items():  # the driver has no others of 8 and 16 bits, but unsigned integers as wide
        same = name.upper() if name.upper() in known else f"UINT{8 * ELEMENT_BYTES[name]}"
        assert known[same] == number


def test_swizzles_have_the_drivers_numbers():
    names = ("NONE", "32B", "64B", "128B")
    modes = [int(getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{name}")) for name in names]
    assert modes == list(range(len(SWIZZLES)))
    assert SWIZZLES == (0, 32, 64, 128)
