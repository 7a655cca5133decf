"""Operations of the emulator's table on Python numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lab.emulator.floats import exact_arithmetic
from lab.emulator.opcodes import DTYPES, Opcode
from lab.emulator.operations.table import ALU

U32 = st.one_of(st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**32 - 1]))
U64 = st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0, 1, 2**63 - 1, 2**63, 2**64 - 1]))
QUICK = settings(max_examples=150)


def run(opcode: str, *values: Any, operands: int | None = None) -> Any:
    """Run an operation on Python numbers: bits for integers, numbers for floats."""
    op = Opcode(opcode)
    alu = ALU[op.family](op, operands or 1 + len(values))
    ins = [_array(value, t) for value, t in zip(values, alu.ins, strict=True)]
    outs = [np.empty(1, DTYPES[t]) for t in alu.outs]
    with exact_arithmetic():
        alu.compute(*outs, *ins)
    results = [out[0].item() for out in outs]
    return results[0] if len(results) == 1 else results


def _array(value: Any, t: str) -> NDArray[Any]:
    dtype = DTYPES[t]
    if dtype.kind in "fb":
        return np.array([value], dtype)
    return np.array([value & (2 ** (8 * dtype.itemsize) - 1)], f"u{dtype.itemsize}").view(dtype)


def signed(x: int, bits: int = 32) -> int:
    return x - 2**bits if x >> (bits - 1) else x


def wrap(x: int, bits: int = 32) -> int:
    return x % 2**bits
