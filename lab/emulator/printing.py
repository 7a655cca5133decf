"""Kernel output: printf's format applied to the arguments a thread left in memory."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from lab.emulator.arrays import Bytes
from lab.emulator.memory.memory import WITHIN_SEGMENT, AddressSpace

MOST_CHARACTERS = 1 << 20
"""The output limit of a launch: the size of CUDA's default buffer."""

_LONGEST_STRING = 4096
_CONVERSION = re.compile(r"%([-+ #0]*)(\d+|\*)?(?:\.(\d+|\*)?)?(hh|h|ll|l|j|z|t|L)?([diuoxXcsfFeEgGaAp%n])", re.ASCII)
_HAS_PRECISION = re.compile(r"%[-+ #0]*(?:\d+|\*)?\.", re.ASCII)
_SHAPE = re.compile(r"%([-+ #0]*)(\d*)", re.ASCII)
_ZERO_FLAG = re.compile(r"(%[-+ #]*)0+(?=[-+ #1-9.]|\Z)", re.ASCII)
_WIDE = ("l", "ll", "j", "z", "t")


@dataclass(slots=True)
class Printed:
    """The output of a launch.

    Attributes:
        pieces: One text per call of a thread, in execution order.
        size: Characters so far.
        lost: Calls whose text did not fit.
    """

    pieces: list[str] = field(default_factory=list)
    size: int = 0
    lost: int = 0

    def add(self, text: str) -> None:
        """Add a text if there is room."""
        if self.size + len(text) > MOST_CHARACTERS:
            self.lost += 1
            return
        self.pieces.append(text)
        self.size += len(text)

    @property
    def text(self) -> str:
        """The complete output."""
        return "".join(self.pieces)


class ThreadMemory:
    """Memory at generic addresses, as one thread sees it."""

    def __init__(self, space: AddressSpace, thread: int) -> None:
        """Open the memory of a batch's thread, by index."""
        self._space, self._thread = space, thread

    def read(self, address: int, size: int) -> bytes:
        """Return up to `size` bytes at an address."""
        region = self._space.at(address)
        if region is None or size <= 0:
            return b""
        offset = address & WITHIN_SEGMENT
        row = 0 if region.rows is None else int(region.rows[self._thread])
        contents: Bytes = region.data[row + offset : row + min(offset + size, region.size)]
        return contents.tobytes()

    def string(self, address: int) -> str:
        """Return the zero-terminated text at an address."""
        return self.read(address, _LONGEST_STRING).partition(b"\0")[0].decode("utf-8", errors="replace")


class _Arguments:
    """A reader of printf's arguments, each aligned to its size."""

    def __init__(self, memory: ThreadMemory, address: int) -> None:
        self._memory, self._start, self._offset = memory, address, 0

    def take(self, code: str) -> int | float:
        size = struct.calcsize(code)
        self._offset = -(-self._offset // size) * size
        raw = self._memory.read(self._start + self._offset, size).ljust(size, b"\0")
        self._offset += size
        value: int | float = struct.unpack(f"<{code}", raw)[0]
        return value


def formatted(memory: ThreadMemory, form: int, arguments: int) -> str:
    """Return the output of a printf call.

    Args:
        memory: The thread's view of memory.
        form: Generic address of the format.
        arguments: Generic address of the arguments; 0 where there are none.
    """
    values = _Arguments(memory, arguments)
    return _CONVERSION.sub(lambda match: _converted(match, values, memory), memory.string(form))


def _converted(match: re.Match[str], values: _Arguments, memory: ThreadMemory) -> str:
    flags, width, precision, length, kind = match.groups(default="")
    if kind in "%n":
        return "%" if kind == "%" else ""
    if width == "*":
        argument = int(values.take("i"))
        flags, width = (flags + "-", str(-argument)) if argument < 0 else (flags, str(argument))
    exact = bool(_HAS_PRECISION.match(match[0]))
    if precision == "*":
        argument = int(values.take("i"))
        exact, precision = argument >= 0, str(argument)
    shape = f"%{flags}{min(int(width or 0), _LONGEST_STRING) or ''}"
    if exact:
        shape += f".{min(int(precision or 0), _LONGEST_STRING)}"
    return _CONVERTERS[kind](shape, kind, length, values, memory)


def _integer(shape: str, kind: str, length: str, values: _Arguments, _memory: ThreadMemory) -> str:
    signed = kind in "di"
    code = "q" if length in _WIDE else "i"
    number = int(values.take(code if signed else code.upper()))
    if length in ("h", "hh"):
        bits = 16 if length == "h" else 8
        number &= (1 << bits) - 1
        number -= (1 << bits) if signed and number >> (bits - 1) else 0
    if "#" in shape and (kind == "o" or (kind in "xX" and number == 0)):
        shape = shape.replace("#", "")
        if kind == "o" and number:
            return _padded(shape, f"0{number:o}")
    text: str = (shape + ("d" if kind in "diu" else kind)) % number
    return text


def _padded(shape: str, text: str) -> str:
    """Pad a text to a conversion's width with blanks or zeros."""
    match = _SHAPE.match(shape)
    flags, width = (match[1], int(match[2] or 0)) if match else ("", 0)
    if "-" in flags:
        return text.ljust(width)
    return text.rjust(width, "0" if "0" in flags and "." not in shape else " ")


def _float(shape: str, kind: str, _length: str, values: _Arguments, _memory: ThreadMemory) -> str:
    number = float(values.take("d"))
    if not np.isfinite(number):
        shape = _ZERO_FLAG.sub(r"\1", shape)  # infinity is padded with blanks
    if kind not in "aA" or not np.isfinite(number):
        text: str = (shape + (kind if kind not in "aA" else "f")) % number
        return text.upper() if kind.isupper() else text
    return _padded(shape.partition(".")[0], _hexadecimal(number, kind))


def _hexadecimal(number: float, kind: str) -> str:
    """Format a number as C's %a: the shortest fraction."""
    mantissa, _, exponent = number.hex().partition("p")
    integer, _, fraction = mantissa.partition(".")
    fraction = fraction.rstrip("0")
    text = f"{integer}{'.' if fraction else ''}{fraction}p{exponent}"
    return text.upper() if kind == "A" else text


def _character(shape: str, _kind: str, _length: str, values: _Arguments, _memory: ThreadMemory) -> str:
    text: str = (shape.partition(".")[0] + "c") % chr(int(values.take("i")) & 0xFF)
    return text


def _string(shape: str, _kind: str, _length: str, values: _Arguments, memory: ThreadMemory) -> str:
    address = int(values.take("Q"))
    text: str = (shape + "s") % (memory.string(address) if address else "(null)")
    return text


def _pointer(shape: str, _kind: str, _length: str, values: _Arguments, _memory: ThreadMemory) -> str:
    address = int(values.take("Q"))
    text: str = (shape.partition(".")[0] + "s") % (hex(address) if address else "(nil)")
    return text


_CONVERTERS: dict[str, Callable[[str, str, str, _Arguments, ThreadMemory], str]] = {
    **dict.fromkeys("diuoxX", _integer),
    **dict.fromkeys("fFeEgGaA", _float),
    "c": _character,
    "s": _string,
    "p": _pointer,
}
