"""Functions of the interpreter that the compiled engine has instructions for."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

_Operand = TypeVar("_Operand")


def delegate(function: str, first: _Operand, *others: Any, **options: Any) -> _Operand:  # noqa: ANN401  operands
    """Let the operand that is not an array compute a function, as NumPy's functions do (NEP 18).

    A decorator would say the same, but would cost 3 % of a small batch's multiply-add: so each function asks first
    whether its operands are arrays.
    """
    operands = (first, *others)
    traced: Any = next(operand for operand in operands if not isinstance(operand, np.ndarray))
    result: _Operand = traced.primitive(function, operands, options)
    return result
