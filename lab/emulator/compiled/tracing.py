"""Tracing of the interpreter's NumPy operations into LLVM IR: each runs once, on values that emit code.

A `Traced` value stands for an array: NumPy passes it every ufunc (NEP 13) and array function (NEP 18), and it emits the
instruction for 32 lanes. Literals stay NumPy arrays, so NumPy folds constants. Operations without an instruction, or
with control flow on lane values, raise `UnknownForm` and are left to the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from lab.emulator.compiled.ir import BITS_VECTOR, LANES, Code, splat, vector, words
from lab.emulator.opcodes import DTYPES, UnknownForm
from lab.emulator.operations.base import Alu

DType = np.dtype[Any]

_FLOATS = {2: "half", 4: "float", 8: "double"}
_BOOL = np.dtype(bool)
_WORD_BYTES = 4
_BINARY = {
    "add": {"i": "add", "u": "add", "f": "fadd"},
    "subtract": {"i": "sub", "u": "sub", "f": "fsub"},
    "multiply": {"i": "mul", "u": "mul", "f": "fmul"},
    "divide": {"f": "fdiv"},
    "bitwise_and": {"b": "and", "i": "and", "u": "and"},
    "bitwise_or": {"b": "or", "i": "or", "u": "or"},
    "bitwise_xor": {"b": "xor", "i": "xor", "u": "xor"},
    "logical_and": {"b": "and"},
    "logical_or": {"b": "or"},
    "logical_xor": {"b": "xor"},
    "left_shift": {"i": "shl", "u": "shl"},
    "right_shift": {"i": "ashr", "u": "lshr"},
    "equal": {"b": "icmp eq", "i": "icmp eq", "u": "icmp eq", "f": "fcmp oeq"},
    "not_equal": {"b": "icmp ne", "i": "icmp ne", "u": "icmp ne", "f": "fcmp une"},
    "less": {"i": "icmp slt", "u": "icmp ult", "f": "fcmp olt"},
    "less_equal": {"i": "icmp sle", "u": "icmp ule", "f": "fcmp ole"},
    "greater": {"i": "icmp sgt", "u": "icmp ugt", "f": "fcmp ogt"},
    "greater_equal": {"i": "icmp sge", "u": "icmp uge", "f": "fcmp oge"},
}
"""Binary ufuncs that map to one instruction, by the kind of NumPy's type."""

_CALLS = {
    "minimum": {"i": "smin", "u": "umin"},
    "maximum": {"i": "smax", "u": "umax"},
    "bitwise_count": {"i": "ctpop", "u": "ctpop"},
    "absolute": {"f": "fabs"},
    "sqrt": {"f": "sqrt"},
    "rint": {"f": "roundeven"},
    "trunc": {"f": "trunc"},
    "floor": {"f": "floor"},
    "ceil": {"f": "ceil"},
    "copysign": {"f": "copysign"},
}
"""Ufuncs that map to one LLVM intrinsic, by the kind of NumPy's type."""


def vector_of(dtype: DType) -> str:
    """Return the LLVM type of a warp's values of a NumPy type."""
    if dtype.kind == "f":
        return f"<{LANES} x {_FLOATS[dtype.itemsize]}>"
    return BITS_VECTOR if dtype.kind == "b" else words(8 * dtype.itemsize)


def _type_of(operand: Any) -> Any:  # noqa: ANN401  traced, an array or a number; for `numpy.ufunc.resolve_dtypes`
    """Return an operand's NumPy type, or the Python type of a number, which adapts to other operands."""
    return _BOOL if isinstance(operand, bool) else getattr(operand, "dtype", type(operand))


def _constant(value: Any, dtype: DType) -> str:  # noqa: ANN401  an array, a NumPy scalar or a Python number
    """Return the constant with one number of a NumPy type in every lane."""
    scalar = np.asarray(value).astype(dtype).reshape(())
    if dtype.kind == "b":
        return f"splat (i1 {'true' if scalar else 'false'})"
    bits = 8 * dtype.itemsize
    number = splat(int(scalar.view(f"u{dtype.itemsize}")), bits)
    return number if dtype.kind in "iu" else f"bitcast ({words(bits)} {number} to {vector_of(dtype)})"


class Traced(NDArrayOperatorsMixin):
    """The values of 32 lanes: a stand-in for an array with values unknown until run time.

    Attributes:
        code: The function under construction.
        dtype: NumPy's type of a lane's value.
        name: The LLVM value; empty before the first assignment.
    """

    def __init__(self, code: Code, dtype: DType, name: str = "") -> None:
        self.code = code
        self.dtype = dtype
        self.name = name

    def __getattr__(self, name: str) -> NoReturn:
        """Reject array attributes a traced value lacks."""
        raise UnknownForm(f"no compiled form of ndarray.{name}")

    def derived(self, text: str, dtype: DType | None = None) -> Traced:
        """Emit an instruction; return its result, by default of the same type."""
        return Traced(self.code, self.dtype if dtype is None else dtype, self.code.op(text))

    def call(self, function: str, *more_operands: Traced) -> Traced:
        """Return the result of an LLVM intrinsic on values of one type.

        Raises:
            UnknownForm: The function is not declared for the type (see `lab.emulator.compiled.kernel_code`).
        """
        if self.dtype.itemsize < _WORD_BYTES and function[1:] not in ("min", "max"):
            raise UnknownForm(f"no compiled form of {function} for {self.dtype}")
        prefix = "f" if self.dtype.kind == "f" else "i"
        ty = vector_of(self.dtype)
        operands = ", ".join(f"{ty} {x.name}" for x in (self, *more_operands))
        return self.derived(f"call {ty} @llvm.{function}.v{LANES}{prefix}{8 * self.dtype.itemsize}({operands})")

    def lift(self, value: Any, dtype: DType) -> Traced:  # noqa: ANN401  traced, an array or a number
        """Return an operand as a traced value of a type."""
        if isinstance(value, Traced):
            return value.astype(dtype, copy=False)
        return Traced(self.code, dtype, _constant(value, dtype))

    def astype(self, dtype: Any, *, copy: bool = True) -> Traced:  # noqa: ANN401  whatever NumPy takes for a type
        """Return the values in another type."""
        to = np.dtype(dtype)
        have, want, kinds = 8 * self.dtype.itemsize, 8 * to.itemsize, self.dtype.kind + to.kind
        if to == self.dtype:
            return self.copy() if copy else self
        if kinds[1] == "b":
            return cast("Traced", self.lift(0, self.dtype) != self)
        if kinds[0] == "b":
            return self.lift(1, to).chosen(self, self.lift(0, to))
        if kinds in ("fi", "fu") and to.itemsize < _WORD_BYTES:
            return self.astype(f"{kinds[1]}{_WORD_BYTES}").astype(to)
        if kinds == "ff":
            instruction = "fpext" if want > have else "fptrunc"
        elif kinds[1] == "f":
            instruction = "sitofp" if kinds[0] == "i" else "uitofp"
        elif kinds[0] == "f":
            instruction = "fptosi" if kinds[1] == "i" else "fptoui"
        elif have == want:
            return Traced(self.code, to, self.name)
        else:
            instruction = "trunc" if have > want else ("sext" if kinds[0] == "i" else "zext")
        return self.derived(f"{instruction} {vector_of(self.dtype)} {self.name} to {vector_of(to)}", to)

    def view(self, dtype: Any) -> Traced:  # noqa: ANN401  whatever NumPy takes for a type
        """Return the bits as another type of the same size.

        Raises:
            UnknownForm: The sizes differ.
        """
        to = np.dtype(dtype)
        if to.itemsize != self.dtype.itemsize:
            raise UnknownForm("parts of a lane's bits")
        return _View(self, to)

    def copy(self) -> Traced:
        """Return the values, unaffected by later assignments."""
        return Traced(self.code, self.dtype, self.name)

    def chosen(self, condition: Traced, alternative: Traced) -> Traced:
        """Return these values where a condition holds, and `alternative` elsewhere."""
        name = self.code.select(condition.name, vector_of(self.dtype), self.name, alternative.name)
        return Traced(self.code, self.dtype, name)

    def __setitem__(self, key: Any, value: Any) -> None:  # noqa: ANN401  `...` or a mask; an operand
        """Assign to every lane, or to those of a mask."""
        new = self.lift(value, self.dtype)
        if key is not ...:
            new = new.chosen(self.lift(key, _BOOL), self)
        self.name = new.name

    def max(self, *, initial: int = 0) -> int:
        """Return an upper bound of all lanes: shortcuts for small numbers are not taken."""
        return max(initial, int(np.iinfo(self.dtype).max))

    def any(self) -> bool:
        """Return whether a lane may be true: shortcuts for lanes that are all false are not taken."""
        return True

    def _refuse(self, *_args: Any, **_options: Any) -> NoReturn:  # noqa: ANN401
        raise UnknownForm("no compiled form of a step that takes the lanes' values")

    __array__ = __bool__ = __index__ = __int__ = __float__ = __iter__ = __len__ = __getitem__ = _refuse

    def primitive(self, name: str, args: Sequence[Any], options: dict[str, Any]) -> Any:  # noqa: ANN401
        """Emit one of the interpreter's functions (see `lab.emulator.primitives`)."""
        return PRIMITIVES[name](*(self.lift(x, x.dtype) for x in args), **options)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Traced:  # noqa: ANN401
        """Emit a ufunc.

        Raises:
            UnknownForm: No instruction computes it.
        """
        (target,) = options.pop("out", (None,))
        dtype = options.pop("dtype", None)
        if method != "__call__" or ufunc.nout != 1 or options:
            raise UnknownForm(f"no compiled form of numpy.{ufunc.__name__}")
        if dtype is None:
            *loop, result = ufunc.resolve_dtypes((*map(_type_of, inputs), None))
        else:
            loop, result = [np.dtype(dtype)] * ufunc.nin, np.dtype(dtype)
        operands = [self.lift(x, t) for x, t in zip(inputs, loop, strict=True)]
        value = _ufunc(ufunc.__name__, *operands).astype(result, copy=False)
        if target is None:
            return value
        target[...] = value
        return cast("Traced", target)

    def __array_function__(
        self, function: Callable[..., Any], _types: object, args: Sequence[Any], options: dict[str, Any]
    ) -> Any:  # noqa: ANN401
        """Emit an array function.

        Raises:
            UnknownForm: Nothing computes it.
        """
        write = _FUNCTIONS.get(function)
        if write is None:
            raise UnknownForm(f"no compiled form of numpy.{function.__name__}")
        return write(*args, **options)


class _View(Traced):
    """A view of other values' bits; assignments to either change both."""

    def __init__(self, base: Traced, dtype: DType) -> None:
        self._base = base
        super().__init__(base.code, dtype)

    @property
    def name(self) -> str:
        """The current bits."""
        return self.code.bitcast(vector_of(self._base.dtype), self._base.name, vector_of(self.dtype))

    @name.setter
    def name(self, new: str) -> None:
        if new:
            self._base.name = self.code.bitcast(vector_of(self.dtype), new, vector_of(self._base.dtype))


def _ufunc(name: str, a: Traced, *more_operands: Traced) -> Traced:
    """Emit a ufunc on operands of the types NumPy computes it in.

    Raises:
        UnknownForm: No instruction computes it.
    """
    kind = a.dtype.kind
    if instruction := _BINARY.get(name, {}).get(kind):
        text = f"{instruction} {vector_of(a.dtype)} {a.name}, {more_operands[0].name}"
        return a.derived(text, _BOOL if instruction[1:4] == "cmp" else None)
    if function := _CALLS.get(name, {}).get(kind):
        return a.call(function, *more_operands)
    if write := _COMPOSED.get(name, {}).get(kind):
        return write(a, *more_operands)
    raise UnknownForm(f"no compiled form of numpy.{name}")


def where(condition: Any, yes: Any, no: Any) -> Traced:  # noqa: ANN401  operands, one of which is traced
    """Emit `numpy.where`."""
    by = next(x for x in (condition, yes, no) if isinstance(x, Traced))
    dtype = np.result_type(*(getattr(x, "dtype", x) for x in (yes, no)))
    return by.lift(yes, dtype).chosen(by.lift(condition, _BOOL), by.lift(no, dtype))


def _nextafter(a: Traced, b: Traced) -> Traced:
    """Return the neighbours of numbers in the direction of others."""
    integers = f"i{a.dtype.itemsize}"
    bits, up = a.view(integers), a < b
    least = where(up, np.array(1, integers), np.array(np.iinfo(integers).min + 1, integers))
    stepped = where(a == 0, least, bits + where(up == (bits < 0), np.array(-1, integers), np.array(1, integers)))
    return where(a == b, b, where(np.isnan(a) | np.isnan(b), a + b, stepped.view(a.dtype)))


_COMPOSED: dict[str, dict[str, Callable[..., Traced]]] = {
    "invert": {"b": lambda a: a ^ True, "i": lambda a: a ^ -1, "u": lambda a: a ^ ~a.dtype.type(0)},
    "negative": {"i": lambda a: a.dtype.type(0) - a, "f": lambda a: a.derived(f"fneg {vector_of(a.dtype)} {a.name}")},
    "absolute": {"i": lambda a: where(a < 0, -a, a)},
    "minimum": {"f": lambda a, b: where((a < b) | np.isnan(a), a, b)},
    "isnan": {"f": lambda a: a.derived(f"fcmp uno {vector_of(a.dtype)} {a.name}, {a.name}", _BOOL)},
    "isfinite": {"f": lambda a: np.abs(a) < np.inf},
    "isinf": {"f": lambda a: np.abs(a) == np.inf},
    "signbit": {"f": lambda a: a.view(f"i{a.dtype.itemsize}") < 0},
    "nextafter": {"f": _nextafter},
}
"""Ufuncs that take several instructions, by the kind of NumPy's type."""


def _copyto(target: Traced, source: Any, *, where: Any = ...) -> None:  # noqa: ANN401  operands
    target[where] = source


_FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.where: where,
    np.copyto: _copyto,
    np.clip: lambda x, least, highest: np.minimum(np.maximum(x, least), highest),
    np.dot: lambda _x, _y: 0.0,  # only used to canonicalise NaNs, and results are loose: see `Alu`
    np.count_nonzero: lambda _x: LANES,  # as `Traced.any`
}
"""NumPy functions that accept traced operands."""


PRIMITIVES: dict[str, Callable[..., Any]] = {}
"""Emitters of the interpreter's primitive functions, by name. `compiled.primitive_code` registers them."""

WHOLE: dict[Callable[..., Any], Callable[..., Any]] = {}
"""Emitters that replace the functions of whole operations, without a check of operands at run time."""


def trace(code: Code, alu: Alu, ins: Sequence[str]) -> list[str]:
    """Emit an operation; return the names of its results.

    Args:
        code: The function under construction. Sources among its constants are traced as arrays.
        alu: The operation.
        ins: Names of its sources, in LLVM's types of their PTX types.

    Raises:
        UnknownForm: It cannot be expressed in LLVM IR.
    """
    outs = [Traced(code, DTYPES[t]) for t in alu.outs]
    sources = [_source(code, name, t) for name, t in zip(ins, alu.ins, strict=True)]
    try:
        WHOLE.get(alu.compute, alu.compute)(*outs, *sources)
    except TypeError as error:  # NumPy does not accept a stand-in for an array there
        raise UnknownForm(f"no compiled form: {error}") from error
    return [code.bitcast(vector_of(out.dtype), out.name, vector(t)) for out, t in zip(outs, alu.outs, strict=True)]


def _source(code: Code, name: str, t: str) -> Any:  # noqa: ANN401  traced, or an array of one number
    constant, dtype = code.constants.get(name), DTYPES[t]
    if constant is not None:
        return np.array([constant], f"u{dtype.itemsize}").view(dtype)
    return Traced(code, dtype, code.bitcast(vector(t), name, vector_of(dtype)))
