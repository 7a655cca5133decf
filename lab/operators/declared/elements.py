"""Element types of declared arguments: NumPy's, and those NumPy lacks, held as bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.operators.base import STORED_AS, Array
from lab.operators.float8 import FORMATS
from lab.operators.stored import POISON_BYTE, stored, widened


class ElementKind(StrEnum):
    """The kind of an array's elements."""

    BOOL = "bool"
    INTEGER = "integer"
    FLOAT = "float"
    COMPLEX = "complex"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Rounding parameters of a GPU's arithmetic.

    Attributes:
        unit: Unit roundoff: half the distance from 1 to the next larger number.
        least: Absolute error of a result too small to have its full precision. For float32 it is the least normal
            number, since `--use_fast_math` flushes subnormal results to zero.
    """

    unit: float
    least: float


_POISONS: Mapping[str, int] = {
    "float16": 0x7EA5,
    "bfloat16": 0x7FE5,
    "float8_e4m3fn": 0xFF,
    "float8_e5m2": 0xFE,
    "float32": 0x7FE5A5A5,
    "float64": 0x7FFDA5A5A5A5A5A5,
}
"""NaN bits of each type that neither GPU nor CPU arithmetic produces."""

_PARTS: Mapping[str, str] = {"complex64": "float32", "complex128": "float64"}
"""The type of the real and imaginary parts of a complex number."""

SINGLE = Arithmetic(2.0**-24, 2.0**-126)
DOUBLE = Arithmetic(2.0**-53, 2.0**-1074)


@dataclass(frozen=True, slots=True)
class ElementType:
    """One element type.

    Attributes:
        name: Its name in an experiment file.
        kind: The kind of its elements.
        storing: Rounding on a store; of one part of a complex number.
        largest: The largest finite value of a float, or of one part of a complex number; 0 for other kinds.
    """

    name: str
    kind: ElementKind
    storing: Arithmetic = SINGLE
    largest: float = 0.0

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the type of host arrays; for types NumPy lacks, the type of their bits."""
        return np.dtype(STORED_AS.get(self.name, self.name))

    @property
    def is_bits(self) -> bool:
        """Return whether NumPy lacks the type, so that arrays hold its bits."""
        return self.name in STORED_AS

    @property
    def saturates(self) -> bool:
        """Return whether overflow saturates, as in CUDA's FP8 conversions, instead of giving infinity."""
        return self.name in FORMATS

    @property
    def is_exact(self) -> bool:
        """Return whether its values are never rounded."""
        return self.kind in (ElementKind.BOOL, ElementKind.INTEGER)

    @property
    def arithmetic(self) -> Arithmetic:
        """Return the arithmetic in which kernels compute this type: float32 for 16-bit types, too."""
        return DOUBLE if self.name in ("float64", "complex128") else SINGLE

    def widened(self, elements: Array) -> NDArray[Any]:
        """Convert stored elements to the type that references compute in, exactly.

        Returns:
            float64, complex128, bool, uint64 for uint64, and int64 for other integers; the same shape. It may be
            the array itself.
        """
        return widened(elements, self.name) if self.is_bits else elements.astype(self.wide, copy=False)

    @property
    def wide(self) -> np.dtype[Any]:
        """Return the type that `widened` converts to."""
        match self.kind:
            case ElementKind.FLOAT:
                return np.dtype(np.float64)
            case ElementKind.COMPLEX:
                return np.dtype(np.complex128)
            case ElementKind.INTEGER:
                return np.dtype(np.uint64 if self.name == "uint64" else np.int64)
            case ElementKind.BOOL:
                return np.dtype(np.bool_)

    def stored(self, values: NDArray[Any]) -> Array:
        """Round values to this type; integers wrap around, floats overflow according to `saturates`."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            if self.is_bits:
                return stored(values.astype(np.float32), self.name)
            if self.kind is ElementKind.BOOL:
                return values.astype(np.bool_)
            return values.astype(self.dtype)

    def poison(self, count: int) -> Array:
        """Make a poisoned 1-D array: NaN, or for other kinds bytes of 0xA5, which no bool has."""
        return np.tile(self._poison, count).view(self.dtype)

    @property
    def has_certain_poison(self) -> bool:
        """Return whether a kernel can't store the poison by chance: a NaN, or at least 32 bits."""
        return self.kind is not ElementKind.INTEGER or self.dtype.itemsize >= 4  # noqa: PLR2004 - bytes

    def is_poison(self, elements: Array) -> NDArray[np.bool_]:
        """Mark elements that still hold poison."""
        word = self._poison
        words = np.ascontiguousarray(elements).reshape(-1).view(word.dtype).reshape(elements.size, len(word))
        return np.asarray((words == word).all(axis=1)).reshape(elements.shape)

    @property
    def _poison(self) -> Array:
        """Return the words of an element's poison."""
        if self.is_exact:
            return np.full(self.dtype.itemsize, POISON_BYTE, np.uint8)
        part_type = _PARTS.get(self.name, self.name)
        word = np.array([_POISONS[part_type]], f"u{np.dtype(STORED_AS.get(part_type, part_type)).itemsize}")
        return np.tile(word, self.dtype.itemsize // word.itemsize)


_INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))

ELEMENT_TYPES: Mapping[str, ElementType] = {
    element_type.name: element_type
    for element_type in (
        ElementType("bool", ElementKind.BOOL),
        *(ElementType(name, ElementKind.INTEGER) for name in _INTEGERS),
        ElementType("float16", ElementKind.FLOAT, Arithmetic(2.0**-11, 2.0**-25), 65504.0),
        ElementType("bfloat16", ElementKind.FLOAT, Arithmetic(2.0**-8, 2.0**-126), float.fromhex("0x1.fep127")),
        *(
            ElementType(name, ElementKind.FLOAT, Arithmetic(form.unit, form.least / 2), form.largest)
            for name, form in FORMATS.items()
        ),
        ElementType("float32", ElementKind.FLOAT, SINGLE, float(np.finfo(np.float32).max)),
        ElementType("float64", ElementKind.FLOAT, DOUBLE, float(np.finfo(np.float64).max)),
        ElementType("complex64", ElementKind.COMPLEX, SINGLE, float(np.finfo(np.float32).max)),
        ElementType("complex128", ElementKind.COMPLEX, DOUBLE, float(np.finfo(np.float64).max)),
    )
}
"""The element types, by name."""
