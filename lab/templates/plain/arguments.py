"""Check the declared arguments of an experiment against its kernel's parameters.

The PTX entry has count, sizes and kinds of the parameters as they are, and the source has their names and types. A
kernel that is launched with other arguments reads what is not there, so every difference is an error.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lab.base.errors import Location, UserError, did_you_mean
from lab.base.structures import offsets
from lab.hardware.tensormaps import ALIGNMENT, BYTES
from lab.isa.cuda.kernels import SourceKernel, SourceParameter
from lab.isa.ptx.signature import EntryParameter

_POINTER_BYTES = 8
_HINT = "; a structure is a mapping of its members, {data: float32[n], rows: int32}"
_MAP = "CUtensorMap"
_MAP_HINT = "; a tensor map is written behind the array, float16[m, k] as map[64, 64] swizzle 128"
_KIND = re.compile(r"(bool|u?int|float|bfloat|complex)(\d*)")


class PassedArgument(Protocol):
    """An argument that an experiment declares for a kernel.

    Attributes:
        name: Its name.
        dtype: NumPy's name of its element type, or `bfloat16`.
        is_array: It is an array, passed as a pointer; else a scalar.
        is_written: The kernel writes it (`out`, `inout`).
        is_mapped: It is passed as a tensor map, not as a pointer.
    """

    @property
    def name(self) -> str:
        """See the class."""

    @property
    def dtype(self) -> str:
        """See the class."""

    @property
    def is_array(self) -> bool:
        """See the class."""

    @property
    def is_written(self) -> bool:
        """See the class."""

    @property
    def is_mapped(self) -> bool:
        """See the class."""


@dataclass(frozen=True, slots=True)
class PassedStructure:
    """A structure that an experiment declares by its members.

    Attributes:
        name: Its name.
        members: In order.
    """

    name: str
    members: tuple[PassedArgument, ...]


def check_arguments(
    entry: Sequence[EntryParameter],
    kernel: SourceKernel | None,
    declared: Sequence[PassedArgument | PassedStructure],
    *,
    by_name: bool = True,
) -> list[str]:
    """Return every mismatch between a kernel's parameters and the declared arguments, one sentence each.

    Args:
        entry: Parameters of the kernel's PTX entry.
        kernel: The kernel in its source, where there is one.
        declared: The experiment's arguments, in its order.
        by_name: The arguments have the names of the kernel's parameters. Of several launches, each passes what it
            will: two may exchange their buffers.
    """
    source = _parameters(entry, kernel)
    if len(entry) != len(declared):
        return [f"the kernel takes {_count(len(entry))}, and the experiment declares {len(declared)}"]
    order = _order(source, declared) if by_name else []
    if order:
        return order
    mistakes = []
    for place, (parameter, argument) in enumerate(zip(entry, declared, strict=True)):
        source_parameter = source[place] if source else None
        head = f"argument {place + 1}, {argument.name},"
        misnamed = _name(source_parameter, argument, source) if by_name else None
        if isinstance(argument, PassedStructure):
            mistake = misnamed or _structure(parameter, source_parameter, argument)
        else:
            form = _mapped if argument.is_mapped else _form
            mistake = misnamed or form(parameter, source_parameter, argument) or _type(source_parameter, argument)
        if mistake:
            mistakes.append(f"{head} {mistake}")
    return mistakes


def compared(
    entry: Sequence[EntryParameter], kernel: SourceKernel | None, declared: Sequence[PassedArgument | PassedStructure]
) -> str:
    """Return both lists side by side, one line per position."""
    source = _parameters(entry, kernel)
    left = [_shown(parameter, source[place] if source else None) for place, parameter in enumerate(entry)]
    right = [_declared(argument) for argument in declared]
    rows = [("the kernel takes", "the experiment declares")]
    rows += itertools.zip_longest(left, right, fillvalue="-")
    width = max(len(row[0]) for row in rows)
    numbers = ["", *map(str, range(1, len(rows)))]
    return "\n".join(f"{number:>6}  {a:<{width}}  {b}" for number, (a, b) in zip(numbers, rows, strict=True))


def arguments_error(
    entry: Sequence[EntryParameter],
    kernel: SourceKernel | None,
    declared: Sequence[PassedArgument | PassedStructure],
    *,
    name: str,
    at: Location | None = None,
    key: str = "arguments",
    by_name: bool = True,
) -> UserError | None:
    """Return an error with every mismatch and both lists; None without a mismatch.

    Args:
        entry: Parameters of the kernel's PTX entry.
        kernel: The kernel in its source, where there is one.
        declared: The experiment's arguments.
        name: What the experiment calls the kernel.
        at: Where the arguments are declared.
        key: The key under which they are.
        by_name: As for `check_arguments`.
    """
    mistakes = check_arguments(entry, kernel, declared, by_name=by_name)
    if not mistakes:
        return None
    message = f"the arguments do not match the kernel {name}: {'; '.join(mistakes)}"
    return UserError(f"{message}\n{compared(entry, kernel, declared)}", code="mismatch", at=at, key=key)


def matching_kernel(kernels: Sequence[SourceKernel], entry: Sequence[EntryParameter]) -> SourceKernel | None:
    """Return the kernel among those of one name (overloads, branches of a condition) that matches a PTX entry."""
    fitting = [
        kernel
        for kernel in kernels
        if len(kernel.parameters) == len(entry)
        and all(
            entry_parameter.may_be_pointer or not own.is_pointer
            for own, entry_parameter in zip(kernel.parameters, entry, strict=True)
        )
    ]
    return fitting[0] if fitting else None


def _parameters(entry: Sequence[EntryParameter], kernel: SourceKernel | None) -> tuple[SourceParameter, ...]:
    """Return the source's parameters if their number matches the entry's; else nothing."""
    if kernel is None or len(kernel.parameters) != len(entry):
        return ()
    return kernel.parameters


def _count(number: int) -> str:
    return "1 argument" if number == 1 else f"{number} arguments"


def _order(source: Sequence[SourceParameter], declared: Sequence[PassedArgument | PassedStructure]) -> list[str]:
    """Return a mistake in the order, if the names differ in nothing else."""
    theirs, ours = [parameter.name for parameter in source], [argument.name for argument in declared]
    if not source or theirs == ours or sorted(theirs) != sorted(ours):
        return []
    return [f"their order differs: the kernel takes {', '.join(theirs)}, and the experiment declares {', '.join(ours)}"]


def _name(
    param: SourceParameter | None, argument: PassedArgument | PassedStructure, source: Sequence[SourceParameter]
) -> str | None:
    if param is None or not param.name or param.name == argument.name:
        return None
    names = [parameter.name for parameter in source if parameter.name]
    if argument.name in names:
        return f"is called {param.name} at this place in the kernel"
    near = did_you_mean(argument.name, names)
    return f"is called {param.name} in the kernel{f'; {near}' if near and near != param.name else ''}"


def _form(parameter: EntryParameter, source: SourceParameter | None, argument: PassedArgument) -> str | None:
    """Compare the form of passing (pointer or value), the size and the kind."""
    is_pointer = source.is_pointer if source else parameter.is_marked_pointer
    is_known = source is not None or parameter.is_marked_pointer
    if argument.is_array:
        if not parameter.may_be_pointer or (source and not is_pointer):
            complaint = "is an array here, but the kernel takes a value"
            is_structure = source is not None and (source.lanes > 1 or source.dtype is None)
            hint = _HINT if is_structure else ""
            hint = _MAP_HINT if source is not None and _MAP in source.c_type else hint
            return f"{complaint} ({_shown(parameter, source)}){hint}"
        return None
    if is_known and is_pointer:
        remedy = f"the kernel takes a pointer ({_shown(parameter, source)}); write {argument.dtype}[…]"
        return f"is a scalar here, but {remedy}"
    size = _bytes(argument.dtype)
    if size != parameter.bytes:
        return (
            f"has {size} bytes as {argument.dtype}, but the kernel takes {parameter.bytes} bytes"
            f" ({_shown(parameter, source)}){_HINT if parameter.is_array else ''}"
        )
    kind = _kind(argument.dtype)
    is_integer_type = not parameter.is_array and parameter.type[0] in "us"
    if (parameter.is_float and kind != "float") or (is_integer_type and kind not in ("int", "bool") and source is None):
        return f"is {argument.dtype} here, but the kernel takes {_shown(parameter, source)}"
    return None


def _mapped(parameter: EntryParameter, source: SourceParameter | None, _: PassedArgument) -> str | None:
    """Compare a parameter with a tensor map, passed by value or by a pointer to global memory."""
    if parameter.is_array and parameter.bytes == BYTES and parameter.align % ALIGNMENT == 0:
        return None
    if parameter.may_be_pointer and (source is None or _points_to_map(source)):
        return None
    return (
        f"is a tensor map here, but the kernel takes {_shown(parameter, source)}; a map is passed by value, "
        f"as {BYTES} bytes aligned to {ALIGNMENT}: const __grid_constant__ {_MAP}, or by a pointer: const {_MAP}*"
    )


def _points_to_map(source: SourceParameter) -> bool:
    """Return whether a parameter may point to a map: its type is a map, or of unknown size."""
    return source.pointer == 1 and (_MAP in source.c_type or source.dtype is None)


def _structure(parameter: EntryParameter, source: SourceParameter | None, structure: PassedStructure) -> str | None:
    """Compare size and alignment of a structure."""
    if (source and source.is_pointer) or parameter.is_marked_pointer:
        return f"is a structure here, but the kernel takes a pointer ({_shown(parameter, source)})"
    sizes = [_POINTER_BYTES if member.is_array else _bytes(member.dtype) for member in structure.members]
    _, size, alignment = offsets(sizes)
    takes = f"but the kernel takes {parameter.bytes} bytes ({_shown(parameter, source)})"
    if size != parameter.bytes:
        parts = ", ".join(f"{member.name} {bytes_}" for member, bytes_ in zip(structure.members, sizes, strict=True))
        return f"has {size} bytes by its members ({parts}), {takes}; what pads it is a member, too"
    if alignment > parameter.align:
        return f"is aligned to {alignment} bytes by its members, {takes} aligned to {parameter.align}"
    return None


def _type(source: SourceParameter | None, argument: PassedArgument) -> str | None:
    """Compare element types, as far as the source shows them."""
    if source is None or argument.is_mapped:
        return None
    if argument.is_array and argument.is_written and source.is_const and source.pointer == 1:
        return f"is written according to the experiment, but the kernel takes {source.c_type}, which it cannot write"
    if source.dtype is None or _same(source.dtype, source.lanes, argument.dtype):
        return None
    if not argument.is_array:
        return f"is {argument.dtype} here, but the kernel takes {source.c_type}"
    return f"has elements of type {argument.dtype} here, but the kernel takes {source.c_type}; write {source.dtype}[…]"


def _same(theirs: str, lanes: int, ours: str) -> bool:
    """Return whether two element types have the same bits, ignoring integer signs."""
    if _kind(ours) == "complex" and _kind(theirs) == "float":  # float2 for complex64
        return lanes == 2 and _bytes(ours) == 2 * _bytes(theirs)  # noqa: PLR2004 - real and imaginary part
    if _kind(theirs) == "complex" and _kind(ours) == "float":
        return _bytes(theirs) == 2 * _bytes(ours)
    return _bytes(theirs) == _bytes(ours) and _kind(theirs) == _kind(ours)


def _kind(dtype: str) -> str:
    match = _KIND.fullmatch(dtype)
    word = match[1] if match else dtype
    return "int" if word in ("uint", "bool") else word


def _bytes(dtype: str) -> int:
    match = _KIND.fullmatch(dtype)
    return int(match[2]) // 8 if match and match[2] else 1


def _shown(parameter: EntryParameter, source: SourceParameter | None) -> str:
    return f"{source.c_type} {source.name}".strip() if source else str(parameter)


def _declared(argument: PassedArgument | PassedStructure) -> str:
    if isinstance(argument, PassedStructure):
        return f"{argument.name}: {{{', '.join(map(_declared, argument.members))}}}"
    direction = "written " if argument.is_written else ""
    form = " as map[…]" if argument.is_mapped else ""
    return f"{argument.name}: {direction}{argument.dtype}{'[…]' if argument.is_array else ''}{form}"
