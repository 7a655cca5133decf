"""Sections, machine code and parameters of images that NVRTC made, and of broken ones."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.toolchain.cubin.image import code, content_of, kernels, parameter_offsets, parameter_sizes, sections
from lab.toolchain.own import compiled

SOURCE = """
struct alignas(64) Map { char bytes[128]; };
extern "C" __global__ void first(char a, const __grid_constant__ Map map, short b, double c) {
    __shared__ float s[96];
    s[threadIdx.x] = a + b + map.bytes[0];
    __syncthreads();
    *(double*)map.bytes[1] = c + s[0];
}
extern "C" __global__ void second() {}
"""


@pytest.fixture(scope="module", params=["sm_75", "sm_90"])
def cubin(request: pytest.FixtureRequest) -> bytes:
    return compiled(SOURCE, "image.cu", request.param)


def test_sections_of_every_kernel(cubin: bytes) -> None:
    names = [section.name for section in sections(cubin)]
    assert names[0] == ""
    assert {".text.first", ".text.second", ".nv.shared.first", ".symtab", ".strtab"} <= set(names)
    shared = next(section for section in sections(cubin) if section.name == ".nv.shared.first")
    assert shared.content == b""
    assert shared.size >= 4 * 96


def test_machine_code_is_that_of_the_kernel(cubin: bytes) -> None:
    first, second = code(cubin, "first"), code(cubin, "second")
    assert len(first) > len(second) > 0
    assert len(first) % 16 == 0
    assert cubin.count(first) == 1
    with pytest.raises(ValueError, match="this cubin has no kernel third"):
        code(cubin, "third")


def test_parameters_are_aligned_in_the_constant_bank(cubin: bytes) -> None:
    """The map, aligned to 64 bytes, comes second; parameters begin at 0x160 on sm_75 and at 0x210 on sm_90."""
    offsets = parameter_offsets(cubin, "first")
    assert offsets in {(0, 32, 160, 168), (0, 48, 176, 184)}
    assert (offsets[1] + (0x160 if offsets[1] == 32 else 0x210)) % 64 == 0
    assert parameter_offsets(cubin, "second") == ()
    assert parameter_sizes(cubin, "first") == (1, 128, 2, 8)


def test_kernels_and_their_shared_memory(cubin: bytes) -> None:
    found = kernels(cubin)
    assert set(found) == {"first", "second"}
    assert (found["first"].shared_bytes, found["second"].shared_bytes) == (4 * 96, 0)
    assert found["first"].constant_bytes >= 208
    assert found["first"].cluster == 1


@pytest.mark.parametrize("image", [b"", b"\x7fELF", b"not ELF" * 20, b"\x7fELF\x01\x01" + bytes(100)])
def test_what_is_no_image_is_refused(image: bytes) -> None:
    with pytest.raises(ValueError, match="not a 64-bit little-endian ELF image"):
        kernels(image)
    with pytest.raises(ValueError, match=r"not a complete cubin|no kernel"):
        code(image, "k")


def test_a_section_beyond_the_end_is_refused() -> None:
    with pytest.raises(IndexError, match="a section is beyond the end"):
        content_of(bytes(8), (0, 1, 0, 0, 4, 5))
    assert content_of(bytes(8), (0, 1, 0, 0, 4, 4)) == bytes(4)


@given(st.data())
@settings(max_examples=200)
def test_a_broken_image_raises_nothing_but_a_value_error(cubin: bytes, data: st.DataObject) -> None:
    broken = bytearray(cubin)
    for _ in range(data.draw(st.integers(1, 8))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    image = bytes(broken[: data.draw(st.integers(0, len(broken)))])
    for read in (kernels, lambda one: code(one, "first"), lambda one: parameter_offsets(one, "first")):
        with contextlib.suppress(ValueError):
            read(image)


@pytest.mark.parametrize("byte", [0x22, 0x2F])
def test_section_headers_beyond_the_end_are_refused(cubin: bytes, byte: int) -> None:
    far = cubin[: byte + 8 - byte % 8 - 1] + b"\xff" + cubin[byte + 8 - byte % 8 :]
    assert struct.unpack_from("<Q", far, byte - byte % 8)[0] >= 2**63
    with pytest.raises(IndexError, match="beyond the end"):
        list(sections(far))


def test_a_cut_image_is_refused(cubin: bytes) -> None:
    with pytest.raises((struct.error, IndexError)):
        list(sections(cubin[:-1]))


@pytest.mark.parametrize("kind", [8, 0x70000007, 0x70000009, 0x7000000A])
def test_memory_has_no_bytes_in_the_file(kind):
    """CUDA 11 and older give shared memory a section type of its own, whose size leads beyond the file."""
    assert content_of(b"\x7fELF", (0, kind, 3, 0, 2, 100)) == b""
    with pytest.raises(IndexError):
        content_of(b"\x7fELF", (0, 1, 3, 0, 2, 100))
