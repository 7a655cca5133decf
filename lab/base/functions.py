"""Functions of expressions and templates, on immutable values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from lab.base.elements import CUDA_NAMES, ELEMENT_BYTES, element_named
from lab.base.facts import MOST_PARTS, MOST_TEXT, FactValue, Number, OperandError, Text, Value

Listed = Sequence[Value]

_MOST_DECIMALS = 20
"""Largest number of decimals in `round`, beyond the digits of a double."""

_MOST_NUMERAL = 40
"""Longest string that is converted to a number, in characters."""


class RaisedError(OperandError):
    """`error("why")` was evaluated; the author of the expression or template provides the message."""


def ceil_div(numerator: int, denominator: int) -> int:
    """Return numerator / denominator, rounded up."""
    return -(-numerator // denominator)


def _ceil_div(numerator: Number, denominator: Number) -> Number:
    return -(-numerator // denominator)


def _sizeof(name: Text) -> Number:
    element = element_named(name)
    if element is None:
        raise OperandError(f"{name!r} is not an element type", accepted=", ".join(CUDA_NAMES.values()))
    return ELEMENT_BYTES[element]


def _error(message: Text) -> NoReturn:
    raise RaisedError(message)


def _all_of(values: tuple[Value, ...], function_name: str) -> Sequence[Value]:
    """Return the operands, given as several arguments or as one list; they must be all numbers or all strings."""
    operands = values[0] if len(values) == 1 and isinstance(values[0], tuple | list | range) else values
    if not operands:
        raise OperandError(f"{function_name}() of an empty list", accepted="at least one value")
    if not (
        isinstance(operands, range)
        or all(isinstance(operand, int | float) for operand in operands)
        or all(isinstance(operand, str) for operand in operands)
    ):
        raise OperandError(f"{function_name} of values that cannot be compared", accepted="only numbers, or only texts")
    return operands


def _min(*values: Value) -> Value:
    return min(_all_of(values, "min"))


def _max(*values: Value) -> Value:
    return max(_all_of(values, "max"))


def _sum(values: Listed) -> Number:
    if not all(isinstance(value, int | float) for value in values):
        raise OperandError("sum of values that are not all numbers", accepted="a list of numbers")
    return sum(values)


def _length(values: Listed) -> int:
    return len(values)


def _join(values: Listed, separator: Text = "") -> str:
    texts = [text_of(value) for value in values]
    if sum(map(len, texts)) + len(separator) * len(texts) > MOST_TEXT:
        raise OperandError("join: the text is too long", accepted=f"at most {MOST_TEXT} characters")
    return separator.join(texts)


def _int(value: Value) -> int:
    """Convert to an integer, truncating towards zero, as in C and Python."""
    return int(value.strip(), 0) if isinstance(value, str) and _is_numeral(value) else int(_number(value, "int"))


def _float(value: Value) -> float:
    return float(value) if isinstance(value, str) and _is_numeral(value) else float(_number(value, "float"))


def _is_numeral(text: str) -> bool:
    return len(text) <= _MOST_NUMERAL


def _number(value: Value, function_name: str) -> Number:
    if not isinstance(value, int | float):
        raise OperandError(
            f"{function_name} of a value that is not a number", accepted="a number, or the text of a number"
        )
    return value


def _str(value: Value) -> str:
    return text_of(value)


def _round(number: Number, digits: int = 0) -> Number:
    """Round half to even; with digits=0, to an integer."""
    if abs(digits) > _MOST_DECIMALS:
        raise OperandError(f"round: {digits} digits", accepted=f"from -{_MOST_DECIMALS} to {_MOST_DECIMALS}")
    return round(number, digits) if digits else round(number)


def _range(start: int, stop: int | None = None, step: int = 1) -> range:
    first, last = (0, start) if stop is None else (start, stop)
    result = range(first, last, step)
    if result and abs(last - first) > MOST_PARTS * abs(step):
        raise OperandError(f"a range of more than {MOST_PARTS} values", accepted=f"at most {MOST_PARTS}")
    return result


def _abs(number: Number) -> Number:
    return abs(number)


def _floor(number: Number) -> int:
    return math.floor(number)


def _ceil(number: Number) -> int:
    return math.ceil(number)


def _floor_div(numerator: Number, denominator: Number) -> Number:
    return numerator // denominator


def _gcd(*numbers: int) -> int:
    return math.gcd(*numbers)


def _lcm(*numbers: int) -> int:
    result = 1
    for number in numbers:
        result = math.lcm(result, number)
        if result.bit_length() > 64:  # noqa: PLR2004 - beyond the largest number; more factors would only add digits
            raise OperandError("lcm: the result is too large")
    return result


def _is_pow2(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def _log2(number: Number) -> Number:
    """Return the base-2 logarithm, as an integer where it is exact."""
    if isinstance(number, int) and _is_pow2(number):
        return number.bit_length() - 1
    return math.log2(number)


def _sqrt(number: Number) -> float:
    return math.sqrt(number)


def text_of(value: Value) -> str:
    """Return a value as text, as written by `~`, `str` and templates.

    Raises:
        OperandError: The integer is too large, or the value has no text form.
    """
    if isinstance(value, int) and value.bit_length() > 128:  # noqa: PLR2004 - long before Python refuses
        raise OperandError("the number is too large to convert to text")
    if isinstance(value, str | bool | int | float | FactValue) or value is None:
        return str(value)
    raise OperandError("a list cannot be converted to text", accepted="join(values, ' ')")


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "abs": _abs,
    "ceil": _ceil,
    "ceil_div": _ceil_div,
    "sizeof": _sizeof,
    "error": _error,
    "float": _float,
    "floor": _floor,
    "floor_div": _floor_div,
    "gcd": _gcd,
    "int": _int,
    "is_pow2": _is_pow2,
    "join": _join,
    "lcm": _lcm,
    "len": _length,
    "length": _length,
    "log2": _log2,
    "max": _max,
    "min": _min,
    "range": _range,
    "round": _round,
    "sqrt": _sqrt,
    "str": _str,
    "sum": _sum,
}
"""Functions by their names in expressions. `error("why")` ends the evaluation with that message."""
