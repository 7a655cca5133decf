from __future__ import annotations

import numpy as np
import pytest

from lab.base.elements import C_NAMES, CUDA_NAMES, ELEMENT_BYTES, cuda_name, element_named

LACKED = {"bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}


def test_every_type_has_a_size_and_a_name_in_cuda():
    assert set(CUDA_NAMES) == set(ELEMENT_BYTES)
    for name, size in ELEMENT_BYTES.items():
        assert size == (LACKED.get(name) or np.dtype(name).itemsize)
        assert element_named(CUDA_NAMES[name]) == name
    assert set(C_NAMES.values()) <= set(ELEMENT_BYTES)


@pytest.mark.parametrize(
    ("word", "named", "in_cuda"),
    [
        ("float", "float32", "float"),
        ("float32", "float32", "float"),
        ("half", "float16", "half"),
        ("float16", "float16", "__half"),
        ("unsigned  int", "uint32", "unsigned int"),
        ("uint8_t", "uint8", "uint8_t"),
        ("flaot", None, None),
    ],
)
def test_words_for_types(word, named, in_cuda):
    assert (element_named(word), cuda_name(word)) == (named, in_cuda)
