"""The golden files are `scale(y, x, a, n)` of nvcc 13.0, `-compress-mode` none, speed (LZ4) and size (zstd)."""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.base.errors import UserError
from lab.isa.ptx.module import read_ptx
from lab.toolchain.containers.fatbin import MAGIC, read_fatbins

GOLDEN = Path(__file__).with_name("golden")
PLAIN = (GOLDEN / "none.fatbin").read_bytes()


@pytest.mark.parametrize("mode", ["speed", "size"])
def test_every_compression_has_the_same_contents(mode):
    found = read_fatbins((GOLDEN / f"{mode}.fatbin").read_bytes(), mode)
    assert [(one.kind, one.arch, one.refused) for one in found] == [("ptx", "compute_90", ""), ("cubin", "sm_90", "")]
    assert [kernel.name for kernel in read_ptx(found[0].data.decode()).kernels] == ["_Z5scalePfPKffi"]
    assert found[1].data.startswith(b"\x7fELF")
    plain = read_fatbins(PLAIN, "none")
    assert found[1].data == plain[1].data
    assert found[0].data.split() == plain[0].data.split()


def test_several_with_padding_between_them():
    assert len(read_fatbins(b"\0" * 8 + PLAIN + b"\0" * 24 + PLAIN, "two")) == 4
    assert read_fatbins(b"\0" * 16, "empty") == ()


def _with_flags(flags: int, kind: int | None = None) -> bytes:
    data = bytearray((GOLDEN / "size.fatbin").read_bytes())
    struct.pack_into("<Q", data, 16 + 40, flags)
    if kind is not None:
        struct.pack_into("<H", data, 16, kind)
    return bytes(data)


def test_what_cannot_be_had_says_why():
    assert "compressed by zlib" in read_fatbins(_with_flags(0x1011), "f")[0].refused
    assert "unknown scheme, flags 0x11" in read_fatbins(_with_flags(0x11), "f")[0].refused
    assert "cannot be uncompressed" in read_fatbins(_with_flags(0x2011), "f")[0].refused
    assert read_fatbins(_with_flags(0x8011, 8), "f")[0].kind == "NVVM IR"
    assert not read_fatbins(_with_flags(0x8011, 8), "f")[0].is_listing


@pytest.mark.parametrize("data", [b"text", b"x" + PLAIN, PLAIN[:-1], PLAIN[:20], MAGIC])
def test_what_is_not_a_fat_binary(data):
    with pytest.raises(UserError) as caught:
        read_fatbins(data, "somewhere")
    assert str(caught.value.at) == "somewhere"


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(PLAIN) - 1), st.integers(0, 255), st.sampled_from(["none", "speed", "size"]))
def test_a_changed_byte_is_read_or_refused(place, value, mode):
    data = bytearray((GOLDEN / f"{mode}.fatbin").read_bytes())
    data[place % len(data)] = value
    with suppress(UserError):
        read_fatbins(bytes(data), "changed")
