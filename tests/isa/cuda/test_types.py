from __future__ import annotations

import pytest

from lab.isa.cuda.types import CElement, element_type


@pytest.mark.parametrize(
    ("c_type", "dtype"),
    [
        ("float", "float32"),
        ("const float", "float32"),
        ("float const", "float32"),
        ("double volatile", "float64"),
        ("int", "int32"),
        ("unsigned", "uint32"),
        ("unsigned int", "uint32"),
        ("int unsigned", "uint32"),
        ("signed", "int32"),
        ("long", "int64"),
        ("long int", "int64"),
        ("unsigned long long int", "uint64"),
        ("long unsigned", "uint64"),
        ("short unsigned int", "uint16"),
        ("char", "int8"),
        ("unsigned char", "uint8"),
        ("bool", "bool"),
        ("size_t", "uint64"),
        ("std::size_t", "uint64"),
        ("::cuda::std::uint8_t", "uint8"),
        ("int64_t", "int64"),
        ("__half", "float16"),
        ("half", "float16"),
        ("__nv_bfloat16", "bfloat16"),
        ("cuda::std::complex<float>", "complex64"),
        ("thrust::complex< double >", "complex128"),
        ("cuDoubleComplex", "complex128"),
        ("cutlass::half_t", "float16"),
        ("cute::float_e4m3_t const", "float8_e4m3fn"),
        ("bfloat16_t", "bfloat16"),
    ],
)
def test_scalar_types(c_type, dtype):
    assert element_type(c_type) == CElement(dtype)


def test_short_vectors():
    assert element_type("const float4") == CElement("float32", 4)
    assert element_type("uchar3") == CElement("uint8", 3)
    assert element_type("longlong2") == CElement("int64", 2)
    assert element_type("__half2") == CElement("float16", 2)


@pytest.mark.parametrize("c_type", ["Particle", "", "void", "float5", "vec<float>", "::", "T"])
def test_unknown_types(c_type):
    assert element_type(c_type) is None


def test_aliases_are_followed_and_may_turn_in_a_circle():
    assert element_type("const real", {"real": "scalar", "scalar": "const float"}) == CElement("float32")
    assert element_type("a", {"a": "b", "b": "a"}) is None


def test_a_scalar_has_one_lane():
    assert CElement("float32").lanes == 1
    assert element_type("const float").lanes == 1


def test_a_word_of_cutlass_may_have_another_meaning():
    assert element_type("half_t", {"half_t": "float"}) == CElement("float32")
