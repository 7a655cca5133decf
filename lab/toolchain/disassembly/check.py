"""Check that a listing belongs to a cubin, by its machine code.

From Volta on, an instruction takes 16 bytes. For every opcode, its general-purpose registers are in bytes 2
(destination), 3, 4 and 8 (sources), as a listing with encodings (`nvdisasm -hex`) shows.
"""

from __future__ import annotations

import re
import struct

from lab.toolchain.cubin.image import sections

_BYTES = 16
_REGISTERS = (2, 3, 4, 8)
_NOP = b"\x18\x79"
"""First bytes of the instructions that fill a function's last 128 bytes, which nvdisasm does not list."""
_CODE = ".text."
_SECTION = re.compile(r'^\t\.section\t"?\.text\.([^,"\s]+)', re.MULTILINE)
_INSTRUCTION = re.compile(r"^ +/\*([0-9a-f]{4,8})\*/([^;\n]*);", re.MULTILINE)
_REGISTER = re.compile(r"\bR(\d{1,3})\b")


def is_listing_of(listing: str, cubin: bytes) -> bool:
    """Return whether a listing and a cubin have the same functions with the same lengths and registers.

    Only the first register that the listing names for an instruction is compared.

    Args:
        listing: Output of ``nvdisasm -c``.
        cubin: The image.
    """
    try:
        codes = {s.name.removeprefix(_CODE): s.content for s in sections(cubin) if s.name.startswith(_CODE)}
    except (struct.error, IndexError, ValueError):
        return False
    headings = list(_SECTION.finditer(listing))
    ends = [*(match.start() for match in headings[1:]), len(listing)]
    texts = {match[1]: (match.end(), end) for match, end in zip(headings, ends, strict=True)}
    return (
        len(texts) == len(headings)
        and texts.keys() == codes.keys()
        and all(_is_code_of(_INSTRUCTION.findall(listing, *texts[name]), code) for name, code in codes.items())
    )


def _is_code_of(instructions: list[tuple[str, str]], code: bytes) -> bool:
    end = _BYTES * len(instructions)
    if len(code) < end or any(code[at : at + 2] != _NOP for at in range(end, len(code), _BYTES)):
        return False
    register_bytes = zip(*(code[byte::_BYTES] for byte in _REGISTERS), strict=True)
    for start, (address, text), numbers in zip(range(0, end, _BYTES), instructions, register_bytes, strict=False):
        register = _REGISTER.search(text)
        if int(address, 16) != start or (register and int(register[1]) not in numbers):
            return False
    return True
