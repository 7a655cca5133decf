"""The memory updates of atomic operations and reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.emulator.opcodes import Opcode
from lab.emulator.operations.floating import add_sub, extremum

Update = Callable[[NDArray[Any], NDArray[Any], NDArray[Any] | None], NDArray[Any]]
"""Returns the new values from the old ones and the operands, (n,) each; the second operand is that of `cas`.

The second operand is that of `cas`."""


def update_of(name: str, t: str) -> Update:
    """Return the update function of an operation."""
    if t in ("f16", "f16x2", "bf16", "bf16x2"):
        alu = add_sub(Opcode(f"add.rn.{t}"), 3) if name == "add" else extremum(Opcode(f"{name}.{t}"), 3)

        def update_halves(old: NDArray[Any], b: NDArray[Any], _c: NDArray[Any] | None) -> NDArray[Any]:
            result = np.empty_like(old)
            alu.compute(result, old, b)
            return result

        return update_halves
    table: dict[str, Update] = {
        "add": lambda old, b, _c: old + b,
        "min": lambda old, b, _c: np.minimum(old, b),
        "max": lambda old, b, _c: np.maximum(old, b),
        "and": lambda old, b, _c: old & b,
        "or": lambda old, b, _c: old | b,
        "xor": lambda old, b, _c: old ^ b,
        "exch": lambda _old, b, _c: b,
        "cas": lambda old, b, c: np.where(old == b, c, old) if c is not None else old,
        "inc": lambda old, b, _c: np.where(old >= b, old.dtype.type(0), old + old.dtype.type(1)),
        "dec": lambda old, b, _c: np.where((old == 0) | (old > b), b, old - old.dtype.type(1)),
    }
    return table[name]
