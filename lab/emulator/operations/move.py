"""mov: registers, immediates, symbols, special registers, packing and unpacking of vectors."""

from __future__ import annotations

from lab.emulator.arrays import Bits, Values
from lab.emulator.opcodes import DTYPES, Opcode, element_of
from lab.emulator.operations.base import Alu, operation


@operation("mov")
def mov(op: Opcode, _n: int) -> Alu:
    """Build the plain copy."""
    t = op.type()
    op.finish()

    def compute(out: Values, a: Values) -> None:
        out[...] = a

    return Alu(compute, (t,), (t,), copies=True)


def elementwise(t: str, count: int) -> Alu:
    """Build ``mov.v2.t {a, b}, {c, d}``."""

    def compute(*arrays: Values) -> None:
        for out, value in zip(arrays[:count], arrays[count:], strict=True):
            out[...] = value

    return Alu(compute, (t,) * count, (t,) * count)


def packing(t: str, count: int) -> Alu:
    """Build ``mov.b64 d, {a, b}``: the first element is in the low bits."""
    element = element_of(t, count)
    dtype, bits = DTYPES[t], 8 * DTYPES[element].itemsize

    def compute(out: Bits, *ins: Bits) -> None:
        total = ins[0].astype(dtype)
        for i, element_value in enumerate(ins[1:], 1):
            total = total | (element_value.astype(dtype) << dtype.type(bits * i))
        out[...] = total

    return Alu(compute, (t,), (element,) * count)


def unpacking(t: str, count: int) -> Alu:
    """Build ``mov.b64 {a, b}, d``."""
    element = element_of(t, count)
    dtype, bits = DTYPES[t], 8 * DTYPES[element].itemsize

    def compute(*arrays: Bits) -> None:
        *outs, source = arrays
        for i, piece in enumerate([source >> dtype.type(bits * i) for i in range(len(outs))]):
            outs[i][...] = piece.astype(DTYPES[element])

    return Alu(compute, (element,) * count, (t,))
