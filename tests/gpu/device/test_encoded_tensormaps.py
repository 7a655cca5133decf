"""Tensor maps for a GPU, with an encoder of the test's own."""

import numpy as np
import pytest

from lab.gpu.device.backend import RefusedError
from lab.gpu.device.encoded_tensormaps import tensor_map_words
from lab.hardware.tensormaps import TensorMap
from lab.operators.base import Inputs

INPUTS = Inputs(scalars={}, arrays={"A": np.zeros(64, np.float32), "H": np.zeros(8, np.uint16)}, outputs=())
POINTERS = {"A": 0x7F0000000100, "H": 0x7F0000000208, "packed": 0x7F0000000300}
MAP = TensorMap("map", "A", "float32", (8, 8), 8, (4, 2))


def encoded(*maps):
    return tensor_map_words(maps, INPUTS, POINTERS, {"packed": "float32"}, lambda one, address: (address, one.leading))


def test_every_map_gets_the_address_of_its_array():
    packed = TensorMap("other", "packed", "float32", (8, 8), 16, (4, 2))
    assert encoded(MAP, packed) == {"map": (POINTERS["A"], 8), "other": (POINTERS["packed"], 16)}


@pytest.mark.parametrize(
    ("of", "dtype", "words"),
    [
        ("Z", "float32", "tensor map map: the operator has no array Z; it has A, H, packed"),
        ("A", "float64", "tensor map map: its type is float64, the array A holds float32"),
        ("H", "bfloat16", "tensor map map: the address of H is not a multiple of 16 bytes"),
    ],
)
def test_maps_that_do_not_fit_are_refused(of, dtype, words):
    with pytest.raises(RefusedError) as caught:
        encoded(TensorMap("map", of, dtype, (8, 8), 8, (4, 2)))
    assert str(caught.value) == words
