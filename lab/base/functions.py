"""Functions that expressions and templates may call, on immutable values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from lab.base.elements import CUDA_NAMES, ELEMENT_BYTES, element_named
from lab.base.facts import MOST_PARTS, MOST_TEXT, FactValue, Number, OperandError, Text, Value

Listed = Sequence[Value]

_MOST_DECIMALS = 20
"""Beyond the digits of a double."""

_MOST_NUMERAL = 40
"""Characters of a text that becomes a number."""


class RaisedError(OperandError):
    """`error("why")` was evaluated: the author of the expression or template says what is wrong."""


def ceil_div(numerator: int, denominator: int) -> int:
    """Return the least integer that is at least numerator / denominator."""
    return -(-numerator // denominator)


def _ceil_div(numerator: Number, denominator: Number) -> Number:
    return -(-numerator // denominator)


def _sizeof(name: Text) -> Number:
    found = element_named(name)
    if found is None:
        raise OperandError(f"{name!r} is no element type", accepted=", ".join(CUDA_NAMES.values()))
    return ELEMENT_BYTES[found]


def _error(message: Text) -> NoReturn:
    raise RaisedError(message)


def _all_of(values: tuple[Value, ...], what: str) -> Sequence[Value]:
    """Several arguments, or one list, at least one value in any case; all are numbers, or all are texts."""
    found = values[0] if len(values) == 1 and isinstance(values[0], tuple | list | range) else values
    if not found:
        raise OperandError(f"{what} of nothing", accepted="at least one value")
    if not (
        isinstance(found, range)
        or all(isinstance(one, int | float) for one in found)
        or all(isinstance(one, str) for one in found)
    ):
        raise OperandError(f"{what} of values that have no order", accepted="numbers alone, or texts alone")
    return found


def _min(*values: Value) -> Value:
    return min(_all_of(values, "min"))


def _max(*values: Value) -> Value:
    return max(_all_of(values, "max"))


def _sum(values: Listed) -> Number:
    if not all(isinstance(one, int | float) for one in values):
        raise OperandError("sum of values that are no numbers", accepted="a list of numbers")
    return sum(values)


def _length(values: Listed) -> int:
    return len(values)


def _join(values: Listed, separator: Text = "") -> str:
    shown = [text_of(one) for one in values]
    if sum(map(len, shown)) + len(separator) * len(shown) > MOST_TEXT:
        raise OperandError("join: the text is too long", accepted=f"at most {MOST_TEXT} characters")
    return separator.join(shown)


def _int(value: Value) -> int:
    """Towards zero, as in C and Python."""
    return int(value.strip(), 0) if isinstance(value, str) and _is_numeral(value) else int(_number(value, "int"))


def _float(value: Value) -> float:
    return float(value) if isinstance(value, str) and _is_numeral(value) else float(_number(value, "float"))


def _is_numeral(text: str) -> bool:
    return len(text) <= _MOST_NUMERAL


def _number(value: Value, what: str) -> Number:
    if not isinstance(value, int | float):
        raise OperandError(f"{what} of a value that is no number", accepted="a number, or a text that is one")
    return value


def _str(value: Value) -> str:
    return text_of(value)


def _round(number: Number, digits: int = 0) -> Number:
    """With digits=0, a whole number; halves go to the even neighbour."""
    if abs(digits) > _MOST_DECIMALS:
        raise OperandError(f"round: {digits} digits", accepted=f"from -{_MOST_DECIMALS} to {_MOST_DECIMALS}")
    return round(number, digits) if digits else round(number)


def _range(start: int, stop: int | None = None, step: int = 1) -> range:
    first, last = (0, start) if stop is None else (start, stop)
    made = range(first, last, step)
    if made and abs(last - first) > MOST_PARTS * abs(step):
        raise OperandError(f"a range of more than {MOST_PARTS} values", accepted=f"at most {MOST_PARTS}")
    return made


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
    """Whole where it is exact."""
    if isinstance(number, int) and _is_pow2(number):
        return number.bit_length() - 1
    return math.log2(number)


def _sqrt(number: Number) -> float:
    return math.sqrt(number)


def text_of(value: Value) -> str:
    """Return a value as `~`, `str` and templates write it.

    Raises:
        OperandError: The text is too long, or it has no text of its own.
    """
    if isinstance(value, int) and value.bit_length() > 128:  # noqa: PLR2004 - long before Python refuses
        raise OperandError("the number is too large to be written")
    if isinstance(value, str | bool | int | float | FactValue) or value is None:
        return str(value)
    raise OperandError("a list has no text", accepted="join(values, ' ')")


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
"""By the names that expressions call them. `error("why")` ends the evaluation with that message."""
