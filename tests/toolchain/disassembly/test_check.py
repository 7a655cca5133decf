"""Listings of machine code that is put together by hand."""

from __future__ import annotations

import struct

import pytest

from lab.toolchain.disassembly.check import is_listing_of

MOV = bytes.fromhex("0272") + bytes([4, 5, 6, 0, 0, 0, 7]) + bytes(7)  # registers 4, 5, 6 and 7
EXIT = bytes.fromhex("4d79") + bytes(14)
NOP = bytes.fromhex("1879") + bytes(14)
LISTING = """\t.section\t.text.k,"ax",@progbits
        /*0000*/                   MOV R4, R5 ;
        /*0010*/                   EXIT ;
"""


def image(**codes: bytes) -> bytes:
    """An ELF image with a section of machine code for each function."""
    names = [b"", b".shstrtab", *(b".text." + name.encode() for name in codes)]
    table = b"\0".join(names) + b"\0"
    contents = [b"", table, *codes.values()]
    header = 64
    body, headers = b"", []
    at = 0
    for name, content in zip(names, contents, strict=True):
        headers.append(struct.pack("<IIQQQQIIQQ", at, 1, 0, 0, header + len(body), len(content), 0, 0, 1, 0))
        body += content
        at += len(name) + 1
    head = bytearray(header)
    head[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q", head, 0x28, header + len(body))
    struct.pack_into("<HHH", head, 0x3A, 64, len(headers), 1)
    return bytes(head) + body + b"".join(headers)


def test_the_listing_of_its_code() -> None:
    assert is_listing_of(LISTING, image(k=MOV + EXIT))


def test_padding_is_not_listed() -> None:
    assert is_listing_of(LISTING, image(k=MOV + EXIT + NOP * 6))
    assert not is_listing_of(LISTING, image(k=MOV + EXIT + EXIT))


@pytest.mark.parametrize("register", ["R4", "R5", "R6", "R7"])
def test_the_first_register_is_one_of_the_instructions(register: str) -> None:
    assert is_listing_of(LISTING.replace("R4", register), image(k=MOV + EXIT))


def test_another_register_is_another_instruction() -> None:
    assert not is_listing_of(LISTING.replace("R4", "R8"), image(k=MOV + EXIT))


@pytest.mark.parametrize("codes", [{}, {"k": MOV}, {"other": MOV + EXIT}, {"k": MOV + EXIT, "more": EXIT}])
def test_other_functions_or_lengths(codes: dict[str, bytes]) -> None:
    assert not is_listing_of(LISTING, image(**codes))


def test_a_function_twice_is_no_listing() -> None:
    assert not is_listing_of(LISTING * 2, image(k=MOV + EXIT))


def test_offsets_have_no_gaps() -> None:
    assert not is_listing_of(LISTING.replace("/*0010*/", "/*0020*/"), image(k=MOV + EXIT + EXIT))


def test_what_is_no_image_has_no_listing() -> None:
    assert not is_listing_of(LISTING, b"")
    assert not is_listing_of(LISTING, image(k=MOV + EXIT)[:-10])
