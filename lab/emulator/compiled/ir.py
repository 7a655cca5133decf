"""LLVM IR generation as text: a warp's value is a vector of 32 lanes."""

from __future__ import annotations

from collections.abc import Sequence

from lab.base.warp import WARP_SIZE
from lab.emulator.opcodes import DTYPES

LANES = WARP_SIZE
BITS_VECTOR = f"<{LANES} x i1>"
_FLOATS = {"f32": "float", "f64": "double"}


def bits_of(t: str) -> int:
    """Return the bit width of a PTX type; 1 for a predicate."""
    return 1 if t == "pred" else 8 * DTYPES[t].itemsize


def element(t: str) -> str:
    """Return the LLVM type of one lane's value of a PTX type."""
    return _FLOATS.get(t) or f"i{bits_of(t)}"


def vector(t: str) -> str:
    """Return the LLVM type of a warp's values of a PTX type."""
    return f"<{LANES} x {element(t)}>"


def words(bits: int) -> str:
    """Return the LLVM type of a warp's integers of a given width."""
    return f"<{LANES} x i{bits}>"


def splat(value: int, bits: int) -> str:
    """Return the constant with the same integer in every lane."""
    return f"splat (i{bits} {signed(value, bits)})"


def signed(value: int, bits: int) -> int:
    """Return an integer's low bits in LLVM's signed notation."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def lanes_of(values: Sequence[int], bits: int = 32) -> str:
    """Return the constant with one integer per lane."""
    return "<" + ", ".join(f"i{bits} {signed(value, bits)}" for value in values) + ">"


IOTA = lanes_of(range(LANES))


class Code:
    """The body of a function under construction.

    Attributes:
        lines: The lines emitted so far.
        constants: Values of the operands that are the same known integer in every lane.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constants: dict[str, int] = {}
        self._names = 0

    def fresh(self, stem: str = "t") -> str:
        """Return an unused name without ``%``."""
        self._names += 1
        return f"{stem}{self._names}"

    def do(self, text: str) -> None:
        """Emit an instruction without a result."""
        self.lines.append("  " + text)

    def op(self, text: str) -> str:
        """Emit an instruction; return the name of its result."""
        self._names += 1
        name = f"%t{self._names}"
        self.lines.append(f"  {name} = {text}")
        return name

    def label(self, name: str) -> None:
        """Begin a basic block."""
        self.lines.append(f"{name}:")

    # --- small idioms ----------------------------------------------------------------------------------------

    def spread(self, type_: str, value: str) -> str:
        """Broadcast a scalar to all lanes."""
        lane = self.op(f"insertelement <{LANES} x {type_}> poison, {type_} {value}, i32 0")
        return self.op(
            f"shufflevector <{LANES} x {type_}> {lane}, <{LANES} x {type_}> poison, <{LANES} x i32> zeroinitializer"
        )

    def bitcast(self, of: str, value: str, to: str) -> str:
        """Bitcast a value to another type of the same size."""
        return value if of == to else self.op(f"bitcast {of} {value} to {to}")

    def mask(self, bits: str) -> str:
        """Convert an i32 to a lane mask."""
        return self.op(f"bitcast i32 {bits} to {BITS_VECTOR}")

    def bits(self, mask: str) -> str:
        """Convert a lane mask to an i32, lane 0 in the lowest bit."""
        return self.op(f"bitcast {BITS_VECTOR} {mask} to i32")

    def invert(self, mask: str) -> str:
        """Return the complement of a lane mask."""
        return self.op(f"xor {BITS_VECTOR} {mask}, splat (i1 true)")

    def select(self, condition: str, type_: str, yes: str, no: str) -> str:
        """Select one of two values per lane."""
        return self.op(f"select {BITS_VECTOR} {condition}, {type_} {yes}, {type_} {no}")

    def field(self, base: str, offset: int | str, type_: str, align: int = 4) -> str:
        """Load from a byte offset relative to a pointer."""
        at = self.op(f"getelementptr i8, ptr {base}, i64 {offset}")
        return self.op(f"load {type_}, ptr {at}, align {align}")

    def set_field(self, base: str, offset: int | str, type_: str, value: str, align: int = 4) -> None:
        """Store to a byte offset relative to a pointer."""
        at = self.op(f"getelementptr i8, ptr {base}, i64 {offset}")
        self.do(f"store {type_} {value}, ptr {at}, align {align}")

    def add_to(self, base: str, offset: int | str, value: str) -> None:
        """Add to an i64 at a byte offset relative to a pointer."""
        at = self.op(f"getelementptr i8, ptr {base}, i64 {offset}")
        old = self.op(f"load i64, ptr {at}, align 8")
        self.do(f"store i64 {self.op(f'add i64 {old}, {value}')}, ptr {at}, align 8")

    def population(self, bits: str) -> str:
        """Return the number of set bits of an i32 as i64."""
        count = self.op(f"call i32 @llvm.ctpop.i32(i32 {bits})")
        return self.op(f"zext i32 {count} to i64")
