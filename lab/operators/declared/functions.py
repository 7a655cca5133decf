"""The functions available to references, by NumPy's names, and the conversion of their arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from lab.operators.declared import curves, movement, reductions
from lab.operators.declared.elements import ELEMENT_TYPES
from lab.operators.declared.tracked import ArrayOperationError, Rules, Tracked

Given = Tracked | str | None | tuple["Given", ...]
"""A value an expression can pass to a function."""

CONSTANTS: Final[Mapping[str, float | None]] = {
    "pi": float(np.pi),
    "inf": float("inf"),
    "nan": float("nan"),
    "newaxis": None,
}
"""Names with the same meaning in every reference, unless an argument has that name."""


@dataclass(frozen=True)
class ArrayFunction:
    """A function of references.

    Attributes:
        name: Its name.
        group: Where the table of `docs/reference/references.md` shows it.
        function: It, behind the rules that all operations share.
    """

    name: str
    group: str
    function: Callable[..., Tracked]

    @cached_property
    def parameters(self) -> tuple[inspect.Parameter, ...]:
        """Return its parameters, without the rules."""
        return tuple(inspect.signature(self.function).parameters.values())[1:]

    @property
    def usage(self) -> str:
        """Return its signature: ``sum(a, axis=None, keepdims=False)``."""
        texts = [
            f"*{parameter.name}"
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL
            else parameter.name
            if parameter.default is inspect.Parameter.empty
            else f"{parameter.name}={parameter.default!r}"
            for parameter in self.parameters
        ]
        return f"{self.name}({', '.join(texts)})"

    @property
    def purpose(self) -> str:
        """Return its description, one sentence."""
        return _PURPOSES.get(self.name) or (inspect.getdoc(self.function) or "").split("\n")[0]

    def __call__(self, rules: Rules, arguments: tuple[Given, ...], keywords: Mapping[str, Given]) -> Tracked:
        """Call the function.

        Raises:
            ArrayOperationError: The arguments do not fit, or the function rejects them.
        """
        kinds = {parameter.name: parameter for parameter in self.parameters}
        converted: list[Any] = []
        by_name: dict[str, Any] = {}
        for name, value in self.placed(arguments, keywords).items():
            parameter = kinds[name]
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                converted += [self._converted(element, parameter) for element in value]
            else:
                by_name[name] = self._converted(value, parameter)
        positional = (
            [by_name[parameter.name] for parameter in self.parameters if parameter.name in by_name] if converted else []
        )
        return self.function(rules, *positional, *converted, **({} if converted else by_name))

    def placed(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Mapping[str, Any]:
        """Bind arguments to parameters by name; a variadic parameter gets a tuple.

        Raises:
            ArrayOperationError: The arguments do not fit.
        """
        try:
            return inspect.Signature(list(self.parameters)).bind(*arguments, **keywords).arguments
        except TypeError as error:
            raise ArrayOperationError(f"{self.name}: {error}", self.usage) from error

    @cached_property
    def arrays(self) -> frozenset[str]:
        """Return the names of the parameters that are arrays or lists of arrays."""
        return frozenset(parameter.name for parameter in self.parameters if "Tracked" in _kind_of(parameter))

    def plain(self, name: str, value: Given) -> Any:  # noqa: ANN401 - what the parameter's type says
        """Convert an expression's value to a parameter's type.

        Raises:
            ArrayOperationError: The value does not suit the parameter.
        """
        return self._converted(value, next(parameter for parameter in self.parameters if parameter.name == name))

    def _converted(self, value: Given, parameter: inspect.Parameter) -> Any:  # noqa: ANN401 - what the parameter's type says
        convert, accepted = _CONVERTERS[_kind_of(parameter)]
        if value is None and parameter.default is None:
            return None
        try:
            return convert(value)
        except (TypeError, ValueError):
            message = f"{self.name}: wrong {parameter.name}"
            raise ArrayOperationError(message, f"{accepted}: {self.usage}. {self.purpose}") from None


def _kind_of(parameter: inspect.Parameter) -> str:
    """Return a parameter's annotation as text, without None and without the module of a type alias."""
    return str(parameter.annotation).removesuffix(" | None").replace("reductions.", "")


def array_of(value: Given) -> Tracked:
    """Convert a value to an array; a list of scalars is one, too.

    Raises:
        TypeError: It is not an array.
    """
    if isinstance(value, Tracked):
        return value
    if isinstance(value, tuple) and value:
        parts = [array_of(element) for element in value]
        return movement.stack(Rules(ELEMENT_TYPES["float64"].arithmetic), tuple(parts))
    raise TypeError


def integer_of(value: Given) -> int:
    """Convert a value to an integer.

    Raises:
        TypeError: It is not an integer.
    """
    if isinstance(value, Tracked) and not value.shape and not value.is_float and not np.any(value.spread):
        return int(value.values)
    raise TypeError


def _number_of(value: Given) -> float:
    if isinstance(value, Tracked) and not value.shape and value.values.dtype.kind != "c":
        return float(value.values) if value.is_float else int(value.values)
    raise TypeError


def _truth_of(value: Given) -> bool:
    return bool(integer_of(value))


def _text_of(value: Given) -> str:
    if isinstance(value, str):
        return value
    raise TypeError


def _arrays_of(value: Given) -> tuple[Tracked, ...]:
    if isinstance(value, tuple):
        return tuple(array_of(element) for element in value)
    raise TypeError


def _integers_of(value: Given) -> int | tuple[int, ...]:
    return tuple(integer_of(element) for element in value) if isinstance(value, tuple) else integer_of(value)


def _nested_of(value: Given) -> Any:  # noqa: ANN401 - integers, nested as they are
    return tuple(_nested_of(element) for element in value) if isinstance(value, tuple) else integer_of(value)


_CONVERTERS: Final[Mapping[str, tuple[Callable[[Given], Any], str]]] = {
    "Tracked": (array_of, "an array or a number"),
    "tuple[Tracked, ...]": (_arrays_of, "a list of arrays"),
    "int": (integer_of, "a whole number"),
    "float": (_number_of, "a number"),
    "bool": (_truth_of, "true or false"),
    "str": (_text_of, "a text in quotes"),
    "Shape": (_integers_of, "a whole number, or several in parentheses"),
    "Axes": (_integers_of, "a whole number, or several in parentheses"),
    "tuple[Any, ...] | int": (_nested_of, "a whole number, or pairs of them in parentheses"),
}


# ---- operations that have an operator's sign as well, or are made of others


def _add(rules: Rules, a: Tracked, b: Tracked) -> Tracked:
    """Return a + b."""
    return rules.add(a, b)


def _subtract(rules: Rules, a: Tracked, b: Tracked) -> Tracked:
    """Return a - b."""
    return rules.subtract(a, b)


def _multiply(rules: Rules, a: Tracked, b: Tracked) -> Tracked:
    """Return a * b."""
    return rules.multiply(a, b)


def _divide(rules: Rules, a: Tracked, b: Tracked) -> Tracked:
    """Return a / b."""
    return rules.divide(a, b)


def _floor_divide(rules: Rules, a: Tracked, b: Tracked) -> Tracked:
    """Return a // b: the greatest integer that is at most the quotient. C cuts off: trunc_divide."""
    return rules.floor_divide(a, b)


def _ceil_div(rules: Rules, a: Tracked, b: Tracked) -> Tracked:
    """Return the least integer that is at least the quotient."""
    return rules.negative(rules.floor_divide(rules.negative(a), b))


def _trunc_divide(rules: Rules, a: Tracked, b: Tracked) -> Tracked:
    """Return C's a / b of integers: the quotient without its fraction."""
    positive = rules.floor_divide(curves.magnitude(rules, a), curves.magnitude(rules, b))
    opposite = rules.compare(curves.sign(rules, a), curves.sign(rules, b), np.not_equal)
    return rules.where(opposite, rules.negative(positive), positive)


def _mod(rules: Rules, a: Tracked, b: Tracked) -> Tracked:
    """Return a % b with the sign of b. C's % is fmod."""
    return rules.modulo(a, b)


def _power(rules: Rules, a: Tracked, b: Tracked) -> Tracked:
    """Return a ** b."""
    return rules.power(a, b)


def _square(rules: Rules, a: Tracked) -> Tracked:
    """Return a * a."""
    return rules.multiply(a, a)


def _reciprocal(rules: Rules, a: Tracked) -> Tracked:
    """Return 1 / a."""
    return rules.divide(rules.literal(1.0), a)


def _maximum(rules: Rules, a: Tracked, b: Tracked) -> Tracked:
    """Return the greater of two, element by element; NaN where one is."""
    return rules.extreme(a, b, np.maximum)


def _minimum(rules: Rules, a: Tracked, b: Tracked) -> Tracked:
    """Return the lesser of two, element by element; NaN where one is."""
    return rules.extreme(a, b, np.minimum)


def _fmax(rules: Rules, a: Tracked, b: Tracked) -> Tracked:
    """Return the greater of two; of NaN and a number, the number, as CUDA's fmaxf."""
    return rules.extreme(a, b, np.fmax)


def _fmin(rules: Rules, a: Tracked, b: Tracked) -> Tracked:
    """Return the lesser of two; of NaN and a number, the number, as CUDA's fminf."""
    return rules.extreme(a, b, np.fmin)


def _clip(rules: Rules, a: Tracked, low: Tracked, high: Tracked) -> Tracked:
    """Return the elements, kept between two bounds."""
    return rules.extreme(rules.extreme(a, low, np.maximum), high, np.minimum)


def _where(rules: Rules, condition: Tracked, a: Tracked, b: Tracked) -> Tracked:
    """Return a where the condition holds, b elsewhere."""
    return rules.where(condition, a, b)


def _both(rules: Rules, a: Tracked, b: Tracked) -> Tracked:
    """Say where both are true; `and` of arrays."""
    return rules.both(a, b, np.logical_and)


def _either(rules: Rules, a: Tracked, b: Tracked) -> Tracked:
    """Say where at least one is true; `or` of arrays."""
    return rules.both(a, b, np.logical_or)


def _not(rules: Rules, a: Tracked) -> Tracked:
    """Say where a is 0 or false; `not` of arrays."""
    del rules
    return Tracked(~a.values.astype(np.bool_), a.bound)


def _bitwise_and(rules: Rules, a: Tracked, b: Tracked) -> Tracked:
    """Return a & b."""
    return rules.bits(a, b, np.bitwise_and)


def _bitwise_or(rules: Rules, a: Tracked, b: Tracked) -> Tracked:
    """Return C's a | b; in an expression, `|` calls a function."""
    return rules.bits(a, b, np.bitwise_or)


def _bitwise_xor(rules: Rules, a: Tracked, b: Tracked) -> Tracked:
    """Return a ^ b."""
    return rules.bits(a, b, np.bitwise_xor)


def _invert(rules: Rules, a: Tracked) -> Tracked:
    """Return C's ~a; in an expression, `~` joins texts."""
    if a.values.dtype.kind == "b":
        return _not(rules, a)
    all_ones = np.asarray(
        -1 if a.values.dtype != np.uint64 else 2**64 - 1, a.values.dtype if not a.is_float else np.int64
    )
    return rules.bits(a, Tracked(all_ones), np.bitwise_xor)


def _left_shift(rules: Rules, a: Tracked, b: Tracked) -> Tracked:
    """Return a << b."""
    return rules.shift(a, b, np.left_shift)


def _right_shift(rules: Rules, a: Tracked, b: Tracked) -> Tracked:
    """Return a >> b; of negative numbers, with the sign."""
    return rules.shift(a, b, np.right_shift)


def _std(rules: Rules, a: Tracked, axis: reductions.Axes = None, ddof: int = 0, keepdims: bool = False) -> Tracked:
    """Return the square root of the variance."""
    return curves.MONOTONE["sqrt"](rules, reductions.variance(rules, a, axis, ddof, keepdims))


def _trace(rules: Rules, a: Tracked) -> Tracked:
    """Return the sum of the diagonal."""
    return reductions.total(rules, movement.diagonal(rules, a))


def _norm(rules: Rules, a: Tracked, axis: reductions.Axes = None, keepdims: bool = False) -> Tracked:
    """Return the Euclidean norm: the square root of the sum of squares."""
    size = curves.magnitude(rules, a)
    return curves.MONOTONE["sqrt"](rules, reductions.total(rules, rules.multiply(size, size), axis, keepdims))


def _greatest(rules: Rules, a: Tracked, axis: reductions.Axes = None, keepdims: bool = False) -> Tracked:
    """Return the maximum along axes; of two arrays, see maximum."""
    if not a.shape and axis is not None:  # max(m, 1), as in constraints
        return rules.extreme(a, Tracked(np.asarray(axis)), np.maximum)
    return reductions.greatest(rules, a, axis, keepdims)


def _least(rules: Rules, a: Tracked, axis: reductions.Axes = None, keepdims: bool = False) -> Tracked:
    """Return the minimum along axes; of two arrays, see minimum."""
    if not a.shape and axis is not None:
        return rules.extreme(a, Tracked(np.asarray(axis)), np.minimum)
    return reductions.least(rules, a, axis, keepdims)


def _real(rules: Rules, a: Tracked) -> Tracked:
    """Return the real part."""
    del rules
    return Tracked(np.real(a.values), a.bound)


def _imag(rules: Rules, a: Tracked) -> Tracked:
    """Return the imaginary part."""
    del rules
    return Tracked(np.imag(a.values), a.bound)


def _conj(rules: Rules, a: Tracked) -> Tracked:
    """Return the complex conjugate."""
    del rules
    return Tracked(np.conj(a.values), a.bound) if a.values.dtype.kind == "c" else a


def _complex(rules: Rules, a: Tracked, b: Tracked) -> Tracked:
    """Return the complex numbers a + b i."""
    a, b = rules.pair(rules.real(a), rules.real(b))
    bound = None if a.bound is None and b.bound is None else np.hypot(a.spread, b.spread)
    return Tracked(a.values + 1j * b.values, bound)


def _curve(name: str) -> Callable[..., Tracked]:
    curve = curves.MONOTONE[name]

    def apply(rules: Rules, a: Tracked) -> Tracked:
        return curve(rules, a)

    return apply


_PURPOSES: Final[Mapping[str, str]] = {
    "floor": "Return the greatest integers that are at most a, as floats.",
    "ceil": "Return the least integers that are at least a, as floats.",
    "rint": "Return the nearest integers as floats, halves to the even one (CUDA's rintf).",
    "trunc": "Return a without its fraction, as floats.",
    "sqrt": "Return the square root.",
    "rsqrt": "Return 1 / sqrt(a).",
    "cbrt": "Return the cube root.",
    "exp2": "Return 2 ** a.",
    "expm1": "Return exp(a) - 1.",
    "log": "Return the natural logarithm.",
    "log2": "Return the logarithm to base 2.",
    "log10": "Return the logarithm to base 10.",
    "log1p": "Return log(1 + a).",
    "sinh": "Return the hyperbolic sine.",
    "tanh": "Return the hyperbolic tangent.",
    "arcsin": "Return the inverse sine.",
    "arccos": "Return the inverse cosine.",
    "arctan": "Return the inverse tangent.",
    "arcsinh": "Return the inverse hyperbolic sine.",
    "arccosh": "Return the inverse hyperbolic cosine.",
    "arctanh": "Return the inverse hyperbolic tangent.",
    "erf": "Return the error function.",
    "erfc": "Return 1 - erf(a).",
    "normcdf": "Return the standard normal distribution function.",
}
"""Descriptions of the functions generated from a table."""

_GROUPS: Final[Mapping[str, Mapping[str, Callable[..., Tracked]]]] = {
    "arithmetic": {
        "add": _add,
        "subtract": _subtract,
        "multiply": _multiply,
        "divide": _divide,
        "floor_divide": _floor_divide,
        "trunc_divide": _trunc_divide,
        "ceil_div": _ceil_div,
        "mod": _mod,
        "fmod": curves.remainder,
        "power": _power,
        "square": _square,
        "reciprocal": _reciprocal,
        "abs": curves.magnitude,
        "sign": curves.sign,
        "floor": curves.rounding(np.floor),
        "ceil": curves.rounding(np.ceil),
        "rint": curves.rounding(np.rint),
        "trunc": curves.rounding(np.trunc),
        "maximum": _maximum,
        "minimum": _minimum,
        "fmax": _fmax,
        "fmin": _fmin,
        "clip": _clip,
    },
    "functions of single elements": {
        **{name: _curve(name) for name in curves.MONOTONE if name != "exp"},
        "exp": curves.exponential,
        "sin": curves.sine,
        "cos": curves.cosine,
        "tan": curves.tangent,
        "cosh": curves.hyperbolic_cosine,
        "arctan2": curves.arctangent2,
        "hypot": curves.hypotenuse,
    },
    "choices": {
        "where": _where,
        "logical_and": _both,
        "logical_or": _either,
        "logical_not": _not,
        "isnan": curves.is_nan,
        "isinf": curves.is_infinite,
        "isfinite": curves.is_finite,
    },
    "bits": {
        "bitwise_and": _bitwise_and,
        "bitwise_or": _bitwise_or,
        "bitwise_xor": _bitwise_xor,
        "invert": _invert,
        "left_shift": _left_shift,
        "right_shift": _right_shift,
    },
    "along axes": {
        "sum": reductions.total,
        "mean": reductions.mean,
        "var": reductions.variance,
        "std": _std,
        "norm": _norm,
        "prod": reductions.product,
        "max": _greatest,
        "min": _least,
        "argmax": reductions.place_of_greatest,
        "argmin": reductions.place_of_least,
        "any": reductions.any_of,
        "all": reductions.all_of,
        "cumsum": reductions.running_sum,
        "cumprod": reductions.running_product,
        "diff": movement.diff,
        "sort": movement.sort,
        "argsort": movement.argsort,
        "fft": reductions.fourier,
        "ifft": reductions.inverse_fourier,
    },
    "products and counts": {
        "matmul": reductions.matrix_product,
        "dot": reductions.dot,
        "outer": reductions.outer,
        "einsum": reductions.summation,
        "convolve": reductions.convolve,
        "correlate": reductions.correlate,
        "correlate2d": reductions.correlate2d,
        "bincount": reductions.bincount,
        "searchsorted": movement.searchsorted,
        "trace": _trace,
    },
    "moving elements": {
        "transpose": movement.transpose,
        "swapaxes": movement.swapaxes,
        "moveaxis": movement.moveaxis,
        "reshape": movement.reshape,
        "ravel": movement.ravel,
        "squeeze": movement.squeeze,
        "expand_dims": movement.expand_dims,
        "flip": movement.flip,
        "roll": movement.roll,
        "pad": movement.pad,
        "concatenate": movement.concatenate,
        "stack": movement.stack,
        "repeat": movement.repeat,
        "tile": movement.tile,
        "broadcast_to": movement.broadcast_to,
        "take": movement.take,
        "take_along_axis": movement.take_along_axis,
        "tril": movement.tril,
        "triu": movement.triu,
        "diagonal": movement.diagonal,
    },
    "new arrays": {
        "arange": movement.arange,
        "linspace": movement.linspace,
        "zeros": movement.zeros,
        "ones": movement.ones,
        "full": movement.full,
        "eye": movement.eye,
        "zeros_like": movement.zeros_like,
        "ones_like": movement.ones_like,
        "full_like": movement.full_like,
    },
    "types and complex numbers": {
        "astype": movement.astype,
        **{name: movement.converter(name) for name in ELEMENT_TYPES},
        "complex": _complex,
        "real": _real,
        "imag": _imag,
        "conj": _conj,
    },
}

ARRAY_FUNCTIONS: Final[Mapping[str, ArrayFunction]] = {
    name: ArrayFunction(name, group, function)
    for group, functions in _GROUPS.items()
    for name, function in functions.items()
}
"""The functions by name, group by group."""
