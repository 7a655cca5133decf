from __future__ import annotations

from dataclasses import replace

import pytest

from lab.hardware.tensormaps import PixelBox, TensorMap, find

MAP = TensorMap("a_map", "A", "float32", (100, 50), 100, (64, 8))


def test_a_map_that_the_driver_takes() -> None:
    assert MAP.refused(4) is None
    assert replace(MAP, extents=(1, 2**32), box=(256, 256)).refused(4) is None
    assert replace(MAP, box=(4, 8)).refused(4) is None


@pytest.mark.parametrize(
    ("changes", "bytes_", "field", "found"),
    [
        ({"extents": (0, 5)}, 4, "extents", 0),
        ({"extents": (5, 2**32 + 1)}, 4, "extents", 2**32 + 1),
        ({"leading": 101}, 4, "leading", 101),
        ({"leading": 0}, 4, "leading", 0),
        ({"leading": 2**38}, 4, "leading", 2**38),
        ({"box": (64, 0)}, 4, "box", 0),
        ({"box": (257, 8)}, 4, "box", 257),
        ({"box": (6, 8)}, 4, "box", 6),
        ({"leading": 104, "box": (4, 8)}, 2, "box", 4),
        ({"swizzle": 16}, 4, "swizzle", 16),
        ({"swizzle": 128}, 4, "box", 64),
    ],
)
def test_what_the_driver_refuses(changes: dict[str, object], bytes_: int, field: str, found: object) -> None:
    refused = replace(MAP, **changes).refused(bytes_)  # type: ignore[arg-type]  # the fields by name
    assert refused is not None
    assert refused[:2] == (field, found)


IMAGES = TensorMap(
    "a", "A", "float16", (64, 9, 14, 7), 64, (8, 64), 0, (576, 8064), PixelBox((-1, -1), (-1, -1), (1, 1))
)


def test_a_map_for_im2col_that_the_driver_takes() -> None:
    assert IMAGES.refused(2) is None
    assert replace(IMAGES, box=(256, 1024), pixels=PixelBox((-128, 0), (127, 0), (8, 1))).refused(2) is None


@pytest.mark.parametrize(
    ("changes", "field", "found"),
    [
        ({"box": (8, 1025)}, "box", 1025),
        ({"box": (264, 64)}, "box", 264),
        ({"box": (4, 64)}, "box", 4),
        ({"box": (8, 64, 1)}, "box", (8, 64, 1)),
        ({"swizzle": 32, "box": (32, 64)}, "box", 32),
        ({"extents": (64, 9), "outer": ()}, "extents", (64, 9)),
        ({"pixels": PixelBox((-129, 0), (0, 0), (1, 1))}, "lower", -129),
        ({"pixels": PixelBox((0, 0), (0, 128), (1, 1))}, "upper", 128),
        ({"pixels": PixelBox((0, 0), (0, 0), (1, 9))}, "steps", 9),
        ({"pixels": PixelBox((0, 0), (0, 0), (1, 0))}, "steps", 0),
        ({"pixels": PixelBox((0,), (0, 0), (1, 1))}, "lower", (0,)),
        ({"pixels": PixelBox((1, 0), (-8, 0), (1, 1))}, "upper", -8),
    ],
)
def test_what_the_driver_refuses_for_im2col(changes: dict[str, object], field: str, found: object) -> None:
    refused = replace(IMAGES, **changes).refused(2)  # type: ignore[arg-type]  # the fields by name
    assert refused is not None
    assert refused[:2] == (field, found)


def test_the_multiple_that_is_accepted_is_in_elements() -> None:
    refused = replace(MAP, leading=101).refused(4)
    assert refused is not None
    assert refused[2].startswith("a multiple of 4:")
    refused = replace(MAP, leading=101, box=(8, 8)).refused(2)
    assert refused is not None
    assert refused[2].startswith("a multiple of 8:")


@pytest.mark.parametrize(
    ("changes", "alignment"),
    [
        ({"leading": 256}, 128),
        ({"leading": 96}, 64),
        ({"leading": 72}, 16),
        ({"dtype": "float32", "leading": 72}, 32),
        ({"extents": (64, 5, 7), "box": (8, 1, 1), "leading": 64, "outer": (336,)}, 32),
        ({"extents": (65,), "box": (8,)}, 128),
    ],
)
def test_what_rows_begin_at_multiples_of(changes: dict[str, object], alignment: int) -> None:
    assert replace(MAP, **{"dtype": "float16", **changes}).alignment == alignment  # type: ignore[arg-type]


def test_maps_are_found_by_name() -> None:
    other = replace(MAP, name="b_map")
    assert find((MAP, other), "b_map") is other
    assert find((MAP, other), "A") is None
    assert find((), "a_map") is None


@pytest.mark.parametrize(
    ("changes", "bytes_", "accepted"),
    [
        ({"extents": (0, 5)}, 4, "1 to 4294967296"),
        ({"leading": 101}, 4, "a multiple of 4: columns begin at multiples of 16 bytes"),
        ({"leading": 4, "box": (0, 1)}, 4, "1 to 256"),
        ({"leading": 4, "box": (6, 1)}, 4, "a multiple of 4 along the contiguous direction"),
        ({"leading": 8, "box": (12, 1)}, 2, "a multiple of 8 along the contiguous direction"),
    ],
)
def test_what_is_accepted(changes: dict[str, object], bytes_: int, accepted: str) -> None:
    refused = replace(MAP, **changes).refused(bytes_)  # type: ignore[arg-type]  # the fields by name
    assert refused is not None
    assert refused[2] == accepted


def test_the_least_and_the_most_that_the_driver_takes() -> None:
    assert replace(MAP, extents=(1, 1), leading=4, box=(4, 1)).refused(4) is None
    assert replace(MAP, extents=(2**32, 2**32), leading=2**40 - 16, box=(256, 256)).refused(1) is None
    assert replace(MAP, leading=2**40).refused(1) is not None
    assert replace(MAP, leading=-16).refused(1) is not None
    assert replace(MAP, box=(16, 1)).refused(4) is None


CUBE = TensorMap("a_map", "A", "float32", (32, 50, 9), 288, (32, 8, 1), outer=(32,))


def test_a_map_of_more_or_fewer_dimensions() -> None:
    assert CUBE.refused(4) is None
    assert CUBE.strides == (288, 32)
    assert TensorMap("a_map", "A", "float32", (100,), 0, (64,)).refused(4) is None


@pytest.mark.parametrize(
    ("changes", "field", "accepted"),
    [
        ({"extents": (4,) * 6}, "extents", "1 to 5 dimensions"),
        ({"outer": ()}, "outer", "1 numbers, one per dimension after the second"),
        ({"outer": (30,)}, "outer", "a multiple of 4: slices begin at multiples of 16 bytes"),
        ({"box": (32, 8)}, "box", "3 numbers, one per dimension of the tensor"),
    ],
)
def test_dimensions_that_do_not_fit(changes: dict[str, object], field: str, accepted: str) -> None:
    refused = replace(CUBE, **changes).refused(4)  # type: ignore[arg-type]  # the fields by name
    assert refused is not None
    assert (refused[0], refused[2]) == (field, accepted)
