"""A library as a folder to ship: JSON, Python, C and the cubins."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from lab.base.elements import ELEMENT_BYTES
from lab.base.errors import Location, UserError
from lab.base.expressions import Scalar, evaluate, names_in
from lab.base.folder import Folder
from lab.base.sizes import STRIDES
from lab.library.combine import ENTRY, THREADS, combine_ptx, has_combination
from lab.library.grid import LARGEST
from lab.library.meaning import Meaning, interpreted
from lab.library.nested import nested_tests, remainders
from lab.library.package import ALIGNMENT, POINTERS, Library, LibraryKernel, LibraryLaunch, LibraryMap, to_json
from lab.library.scalars import FACTORS_IN_C, REALS
from lab.library.tree import BATCH_SPLIT, split_axes
from lab.templates.front_matter import TENSOR_MAP
from lab.templates.launches import RESIDENT_BLOCKS


class Selection(StrEnum):
    """The form of kernel selection in the emitted C; both forms select the same kernel."""

    NESTED = "nested"
    """Nested tests with a thread-local cache of sizes, as in the Tensile paper. The faster form.

    `benchmarks/select_speed.py` compares both.
    """

    TABLE = "table"
    """A loop over a table of thresholds and a binary search of exact sizes, without state between calls."""


_REMEMBERED_BITS = 10
"""Log2 of the number of sizes cached per thread: 1024 sizes take 16 KiB."""

_INTEGERS = {"int32": "int32_t", "int64": "int64_t", "uint32": "uint32_t", "uint64": "uint64_t"}
_C_TYPES = {"float32": "float", "float64": "double", **_INTEGERS}
_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    undefined=StrictUndefined,
    autoescape=False,  # noqa: S701 - C and Python, not HTML; every name was checked when the library was made
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def write(
    library: Library, cubins: Mapping[str, bytes], folder: Path, selection: Selection = Selection.NESTED
) -> tuple[Path, ...]:
    """Write the library's folder: ``<name>.json``, ``.py``, ``.h``, ``.c`` and one cubin per kernel.

    Args:
        library: What is written.
        cubins: Machine code by the kernels' names.
        folder: Made where it is missing; the JSON, by which it is loaded, comes last.
        selection: How the C picks a kernel.

    Returns:
        The files.

    Raises:
        UserError: A kernel has no machine code, or C cannot compute one of its expressions.
    """
    files: dict[str, bytes] = {}
    for kernel in library.kernels:
        if kernel.name not in cubins:
            raise UserError(
                "a kernel has no machine code",
                code="missing-file",
                key="cubins",
                found=kernel.name,
                accepted=sorted(cubins),
            )
        if files.setdefault(kernel.cubin, cubins[kernel.name]) != cubins[kernel.name]:
            raise UserError("two kernels share a file", code="duplicate", key="cubin", found=kernel.cubin)
    source = to_source(library, selection)
    texts = {"h": to_header(library), "c": source, "py": to_python(library), "json": to_json(library)}
    files |= {f"{library.name}.{suffix}": text.encode() for suffix, text in texts.items()}
    place = Folder(folder)
    place.make()
    for name, content in files.items():
        place.write(name, content)
    return tuple(folder / name for name in files)


def to_python(library: Library) -> str:
    """Return a pure-Python module with `select(m, n, k)`, or `select(m, n, k, batch)` for batches."""
    numbers = {kernel.name: i for i, kernel in enumerate(library.kernels)}
    vector = library.logic.vector
    axes = split_axes(vector)
    splits = axes if library.batched else axes[:BATCH_SPLIT]
    return _rendered("library.py.j2", library, largest=LARGEST, splits=splits, vector=vector, number_of=numbers)


def to_header(library: Library) -> str:
    """Return the C header."""
    return _rendered("library.h.j2", library, combine=has_combination(library.dtype))


def to_source(library: Library, selection: Selection = Selection.NESTED) -> str:
    """Return the C source: selection and launches through the driver API.

    Args:
        library: What is written.
        selection: How a kernel is picked.

    Raises:
        UserError: C cannot compute one of the kernels' expressions.
    """
    functions = [
        (i, entry)
        for i, kernel in enumerate(library.kernels)
        for entry in dict.fromkeys(launch.entry for launch in kernel.launches)
    ]
    number = {key: i for i, key in enumerate(functions)}
    shared = [_shared_at_open(library.kernels[i], entry) for i, entry in functions]
    residents: dict[Resident, int] = {}
    maps = itertools.count()
    kernels = [_kernel(i, kernel, number, residents, maps) for i, kernel in enumerate(library.kernels)]
    logics = {"picked": library.logic, **({"picked_of_general": library.general} if library.general else {})}
    return _rendered(
        "library.c.j2",
        library,
        functions=[(*function, count) for function, count in zip(functions, shared, strict=True)],
        kernels=kernels,
        residents=list(residents),
        maps=next(maps),
        alignment=ALIGNMENT,
        combine=combine_ptx(library.dtype).splitlines() if has_combination(library.dtype) else (),
        combine_entry=ENTRY,
        combine_threads=THREADS,
        nested=selection is Selection.NESTED,
        logics=[
            {
                "name": name,
                "root": logic.root,
                "splits": logic.splits,
                "vector": logic.vector,
                "exact": logic.exact,
                "tests": nested_tests(logic, library.axes) if selection is Selection.NESTED else (),
                "remainders": remainders(logic),
            }
            for name, logic in logics.items()
        ],
        by_size="suited_without_padding" if library.general else "picked",
        remembered_bits=_REMEMBERED_BITS,
        a_shape="p->m, p->k" if library.layout[0] == "n" else "p->k, p->m",
        b_shape="p->k, p->n" if library.layout[1] == "n" else "p->n, p->k",
    )


def _rendered(template: str, library: Library, **extra: object) -> str:
    names = {key: getattr(library, key) for key in ("name", "dtype", "layout", "arch")}
    context = {
        "L": library,
        "NAME": library.name.upper(),
        "real": REALS.get(library.dtype, "float"),
        "factor": FACTORS_IN_C.get(library.dtype, REALS.get(library.dtype, "float")),
        "is_complex": library.dtype in FACTORS_IN_C,
        "factors": "alpha.x, beta.x, alpha.y, beta.y" if library.dtype in FACTORS_IN_C else "alpha, beta",
        "source": _plain(library.source),
        "axes": library.axes,
        "strides": {stride: f"int64_t {stride}, " if library.batched else "" for stride in STRIDES},
        "batch": "int64_t batch, " if library.batched else "",
        "batched": "_batched" if library.batched else "",
        "least_leading": ("m" if library.layout[0] == "n" else "k", "k" if library.layout[1] == "n" else "n", "m"),
        **names,
        **extra,
    }
    return _TEMPLATES.get_template(template).render(**context)


def _plain(text: str) -> str:
    """Return the text with characters replaced that would end a docstring or a C comment."""
    return " ".join(text.split()).replace("\\", "/").replace('"', "'").replace("*/", "* /")


@dataclass(frozen=True, slots=True)
class _Buffer:
    name: str
    bytes: str
    offset: str
    zero: bool


Resident = tuple[int, tuple[int, int, int], int]
"""A function's number, its block and its bytes of dynamic shared memory."""


def _kernel(
    index: int,
    kernel: LibraryKernel,
    number: Mapping[tuple[int, str], int],
    residents: dict[Resident, int],
    maps: Iterator[int],
) -> dict[str, object]:
    """Return the template variables of a kernel, with its expressions in C.

    Args:
        index: Its number.
        kernel: The kernel.
        number: Of the functions.
        residents: Function, block and shared bytes of the grids that depend on them, with their numbers; grows.
        maps: Numbers for its maps.
    """
    buffers: list[_Buffer] = []
    end = "INT64_C(0)"
    for buffer in kernel.workspace:
        size = f"{to_c(buffer.elements)} * {ELEMENT_BYTES[buffer.dtype]}"
        buffers.append(_Buffer(buffer.name, size, end, buffer.zero))
        end = f"{end} + room({size})"
    encoded = {tensor_map.name: (next(maps), tensor_map) for tensor_map in kernel.tensor_maps}
    return {
        "name": kernel.name,
        "number": index,
        "buffers": buffers,
        "bytes": end,
        "requires": to_c(kernel.requires) if kernel.requires else "",
        "launches": [_launch(launch, number[index, launch.entry], residents, encoded) for launch in kernel.launches],
    }


def _launch(
    launch: LibraryLaunch,
    function: int,
    residents: dict[Resident, int],
    maps: Mapping[str, tuple[int, LibraryMap]],
) -> dict[str, object]:
    resident = ""
    if any(RESIDENT_BLOCKS in names_in(size, at=Location("<library>"), key=size) for size in launch.grid):
        counts = [_constant(size) for size in (*launch.block, launch.shared_bytes)]
        x, y, z, shared = [_known(count, launch) for count in counts]
        resident = f"library->residents[{residents.setdefault((function, (x, y, z), shared), len(residents))}]"
    return {
        "function": function,
        "when": to_c(launch.when) if launch.when else "",
        "grid": [to_c(e, resident) for e in launch.grid],
        "block": [to_c(e) for e in launch.block],
        "shared": to_c(launch.shared_bytes),
        "asks": _constant(launch.shared_bytes) is None,
        "arguments": [_argument(name, kind, maps) for name, kind in launch.arguments],
    }


def _known(count: int | None, launch: LibraryLaunch) -> int:
    """Return a constant launch dimension: resident blocks are counted when the library is opened."""
    if count is None:
        message = "C counts the blocks that the GPU holds once, for one block and one amount of shared memory"
        accepted = "a block and shared bytes that depend on no size"
        raise UserError(message, code="mismatch", key=launch.entry, found=launch.shared_bytes, accepted=accepted)
    return count


def _shared_at_open(kernel: LibraryKernel, entry: str) -> int:
    """Return the size-independent dynamic shared memory of a function in bytes, set once when it is opened."""
    return max(_constant(launch.shared_bytes) or 0 for launch in kernel.launches if launch.entry == entry)


def _constant(expression: str) -> int | None:
    """Return the value of an expression without sizes and factors; None if it has any."""
    at = Location("<library>")
    if names_in(expression, at=at, key=expression):
        return None
    return int(evaluate(expression, {}, at=at, key=expression))


def _argument(name: str, kind: str, maps: Mapping[str, tuple[int, LibraryMap]]) -> dict[str, str]:
    if kind == TENSOR_MAP:
        number, tensor_map = maps[name]
        address = f"p->{tensor_map.of}" if tensor_map.of in POINTERS else f"{tensor_map.of}_at"
        sizes = ", ".join(to_c(text) for text in (*tensor_map.extents, tensor_map.leading))
        dtype = f"CU_TENSOR_MAP_DATA_TYPE_{tensor_map.dtype.upper()}, {ELEMENT_BYTES[tensor_map.dtype]}"
        swizzle = f"CU_TENSOR_MAP_SWIZZLE_{f'{tensor_map.swizzle}B' if tensor_map.swizzle else 'NONE'}"
        encoded = f"{dtype}, {address}, {sizes}, {tensor_map.box[0]}, {tensor_map.box[1]}, {swizzle}"
        return {"type": "struct mapped *", "value": f"&mapped[{number}]", "encoded": encoded}
    if kind.endswith("*"):
        value = f"p->{name}" if name in POINTERS else f"{name}_at"
        return {"type": "CUdeviceptr", "value": value, "encoded": ""}
    return {"type": _C_TYPES[kind], "value": f"({_C_TYPES[kind]})p->{name}", "encoded": ""}


def to_c(expression: str, resident: str = "") -> str:
    """Translate an expression of sizes and factors to C. Names are fields of `p`; sizes are int64_t.

    Args:
        expression: The expression.
        resident: What stands for `RESIDENT_BLOCKS`.

    Raises:
        UserError: C has no such operation on sizes.
    """
    return interpreted(expression, _InC(resident), at=Location("<library>"), key=expression)


_C_BINARY = {
    "+": "({} + {})",
    "-": "({} - {})",
    "*": "({} * {})",
    "//": "floor_div({}, {})",
    "%": "floor_mod({}, {})",
    "and": "({} && {})",
    "or": "({} || {})",
}
_C_FUNCTIONS = {"abs": "absolute", "min": "least", "max": "largest"}
"""C names for functions that would clash with the C library's."""


@dataclass(frozen=True)
class _InC(Meaning[str]):
    resident: str = ""

    def constant(self, value: Scalar) -> str | None:
        if isinstance(value, str):
            return None
        return repr(value) if isinstance(value, float) else f"INT64_C({int(value)})"

    def name(self, name: str) -> str:
        return self.resident if self.resident and name == RESIDENT_BLOCKS else f"p->{name}"

    def negative(self, value: str) -> str:
        return f"(-{value})"

    def inverse(self, value: str) -> str:
        return f"(!{value})"

    def binary(self, symbol: str, left: str, right: str) -> str | None:
        return _C_BINARY[symbol].format(left, right) if symbol in _C_BINARY else None

    def comparison(self, first: str, following: Sequence[tuple[str, str]]) -> str | None:
        parts, left = [], first
        for symbol, right in following:  # each on its own: C reads a < b < c as (a < b) < c
            if symbol in ("in", "not in"):
                return None
            parts.append(f"({left} {symbol} {right})")
            left = right
        return parts[0] if len(parts) == 1 else f"({' && '.join(parts)})"

    def choice(self, test: str, then: Callable[[], str], otherwise: Callable[[], str]) -> str:
        return f"({test} ? {then()} : {otherwise()})"

    def call(self, function: str, arguments: Sequence[str]) -> str:
        return f"{_C_FUNCTIONS.get(function, function)}({', '.join(arguments)})"
