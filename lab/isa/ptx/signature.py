"""A kernel's parameters, as its PTX entry declares them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lab.isa.model import Function, Module, Variable

_TYPE_BYTES = re.compile(r"[usbf](8|16|32|64|128)|bf(16)")
_POINTER_BYTES = 8


@dataclass(frozen=True, slots=True)
class EntryParameter:
    """One parameter of an entry.

    Attributes:
        name: Its name in the listing: `_Z3addPfi_param_1`.
        type: PTX type without the dot: `u64`, `f32`, `b8`.
        bytes: Size, arrays included.
        align: Alignment in bytes.
        is_array: It is declared as an array of bytes, as structures, vectors and 16-bit floats are.
        is_marked_pointer: It has the attribute `.ptr`. A pointer without it looks like a 64-bit integer.
    """

    name: str
    type: str
    bytes: int
    align: int
    is_array: bool
    is_marked_pointer: bool

    @property
    def may_be_pointer(self) -> bool:
        """Return whether the parameter may hold a pointer."""
        return self.is_marked_pointer or (self.bytes == _POINTER_BYTES and not self.is_array and self.type[0] in "ub")

    @property
    def is_float(self) -> bool:
        """Return whether the parameter is declared as a floating-point number."""
        return self.type[0] == "f"

    @property
    def scalar_type(self) -> str | None:
        """The NumPy dtype of a 32- or 64-bit scalar; None for other types and possible pointers."""
        dtypes = {"u32": "int32", "s32": "int32", "s64": "int64", "f32": "float32", "f64": "float64"}
        return None if self.is_array or self.is_marked_pointer else dtypes.get(self.type)

    def __str__(self) -> str:
        if self.is_marked_pointer:
            return "pointer"
        return f"{self.bytes} bytes aligned to {self.align}" if self.is_array else f".{self.type}"


def entry_parameters(entry: Function) -> tuple[EntryParameter, ...]:
    """Return the parameters of a PTX entry, in order."""
    return tuple(_parameter(parameter) for parameter in entry.parameters)


def entry(module: Module, symbol: str) -> Function | None:
    """Return the entry of a module with the given symbol, or None."""
    return next((kernel for kernel in module.kernels if kernel.name == symbol), None)


def _parameter(variable: Variable) -> EntryParameter:
    match = _TYPE_BYTES.fullmatch(variable.type)
    size = int(match[1] or match[2]) // 8 if match else _POINTER_BYTES  # .texref and others are handles
    # a structure is declared `.b8 name[24]`; a name without brackets has one element, too
    is_array = variable.type == "b8" and (variable.count != 1 or (variable.align or 1) > 1)
    return EntryParameter(
        name=variable.name,
        type=variable.type,
        bytes=size * variable.vector * (variable.count or 0),
        align=variable.align or size,
        is_array=is_array,
        is_marked_pointer=variable.pointer,
    )
