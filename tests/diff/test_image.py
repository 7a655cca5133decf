from __future__ import annotations

import pytest
from diff_support import SCALE, image

from lab.diff.image import CubinImage

TABLE = """
__device__ int steps[3] = {1, 2, 3};
extern "C" __global__ void walk(int *x) { x[threadIdx.x] += steps[x[threadIdx.x] & 1]; }
"""


def test_variables_and_constants():
    cubin = CubinImage(image(SCALE).cubin)
    assert cubin.variables["weights"].size == 8
    assert cubin.variable_at(3, 4) == ("weights", 4)
    assert cubin.variable_at(3, 8) is None


def test_the_bank_of_addresses():
    cubin = CubinImage(image(TABLE).cubin)
    assert cubin.variable_at(4, 0) == ("steps", 0)
    assert cubin.variables["steps"].content == bytes([1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0])


def test_attributes_have_launch_bounds_and_no_version():
    attributes = dict(CubinImage(image(SCALE).cubin).attributes("scale"))
    assert attributes["MAX_THREADS"] == "000100000100000001000000"
    assert attributes["REGCOUNT"].startswith("0x")
    assert "attribute 0x37" not in attributes


def test_the_digest_sees_contents():
    first, second = CubinImage(image(TABLE).cubin), CubinImage(image(TABLE.replace("2, 3", "2, 4")).cubin)
    assert first.code("walk") == second.code("walk")
    assert first.digest("walk") != second.digest("walk")


@pytest.mark.parametrize("content", [b"", b"\x7fELF\x02\x01", b"\x7fELF\x02\x01" + bytes(100)])
def test_no_cubin(content):
    with pytest.raises(ValueError, match=r"ELF|complete"):
        CubinImage(content)
