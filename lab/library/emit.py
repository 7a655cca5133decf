"""A library as a folder that can be shipped: JSON, Python, C, and the cubins beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from lab.base.errors import UserError
from lab.library.logic import LARGEST, SPLIT_AXES, VECTOR
from lab.library.package import ALIGNMENT, POINTERS, Library, LibraryKernel, LibraryLaunch, to_json
from lab.library.specialise import to_c
from lab.templates.front_matter import ELEMENT_BYTES

_REAL = {"float32": "float", "float64": "double"}
_C_TYPES = {**_REAL, "int32": "int32_t", "int64": "int64_t", "uint32": "uint32_t", "uint64": "uint64_t"}
_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    undefined=StrictUndefined,
    autoescape=False,  # noqa: S701 - C and Python, not HTML; every name was checked when the library was made
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def write(library: Library, cubins: Mapping[str, bytes], folder: Path) -> tuple[Path, ...]:
    """Write the folder: ``<name>.json``, ``.py``, ``.h``, ``.c`` and a cubin a kernel.

    Args:
        library: What is written.
        cubins: Machine code by the kernels' names.
        folder: Made where it is missing; the JSON, by which it is loaded, comes last.

    Returns:
        The files.

    Raises:
        UserError: a kernel has no machine code, or C cannot compute one of its expressions.
    """
    files: dict[str, bytes] = {}
    for kernel in library.kernels:
        if kernel.name not in cubins:
            raise UserError("a kernel has no machine code", key="cubins", found=kernel.name, accepted=sorted(cubins))
        if files.setdefault(kernel.cubin, cubins[kernel.name]) != cubins[kernel.name]:
            raise UserError("two kernels share a file", key="cubin", found=kernel.cubin)
    texts = {"h": to_header(library), "c": to_source(library), "py": to_python(library), "json": to_json(library)}
    files |= {f"{library.name}.{suffix}": text.encode() for suffix, text in texts.items()}
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return tuple(folder / name for name in files)


def to_python(library: Library) -> str:
    """A module with `select(m, n, k)` that needs nothing but Python."""
    return _rendered("library.py.j2", library, largest=LARGEST, axes=SPLIT_AXES, vector=VECTOR)


def to_header(library: Library) -> str:
    """The C header."""
    return _rendered("library.h.j2", library)


def to_source(library: Library) -> str:
    """The C source: selection, and launches through the driver API.

    Raises:
        UserError: C cannot compute one of the kernels' expressions.
    """
    functions = [
        (i, entry)
        for i, kernel in enumerate(library.kernels)
        for entry in dict.fromkeys(launch.entry for launch in kernel.launches)
    ]
    number = {key: i for i, key in enumerate(functions)}
    kernels = [_kernel(i, kernel, number) for i, kernel in enumerate(library.kernels)]
    return _rendered(
        "library.c.j2",
        library,
        functions=functions,
        kernels=kernels,
        alignment=ALIGNMENT,
        vector=VECTOR,
        a_shape="p->m, p->k" if library.layout[0] == "n" else "p->k, p->m",
        b_shape="p->k, p->n" if library.layout[1] == "n" else "p->n, p->k",
    )


def _rendered(template: str, library: Library, **more: object) -> str:
    names = {key: getattr(library, key) for key in ("name", "dtype", "layout", "arch")}
    shown = {
        "L": library,
        "NAME": library.name.upper(),
        "real": _REAL[library.dtype],
        "source": _plain(library.source),
        **names,
        **more,
    }
    return _TEMPLATES.get_template(template).render(**shown)


def _plain(text: str) -> str:
    """A sentence that ends neither a docstring nor a comment."""
    return " ".join(text.split()).replace("\\", "/").replace('"', "'").replace("*/", "* /")


@dataclass(frozen=True, slots=True)
class _Buffer:
    name: str
    bytes: str
    offset: str
    zero: bool


def _kernel(index: int, kernel: LibraryKernel, number: Mapping[tuple[int, str], int]) -> dict[str, object]:
    """A kernel's expressions in C."""
    buffers: list[_Buffer] = []
    end = "INT64_C(0)"
    for buffer in kernel.workspace:
        size = f"{to_c(buffer.elements)} * {ELEMENT_BYTES[buffer.dtype]}"
        buffers.append(_Buffer(buffer.name, size, end, buffer.zero))
        end = f"{end} + room({size})"
    return {
        "name": kernel.name,
        "buffers": buffers,
        "bytes": end,
        "launches": [_launch(launch, number[index, launch.entry]) for launch in kernel.launches],
    }


def _launch(launch: LibraryLaunch, function: int) -> dict[str, object]:
    return {
        "function": function,
        "when": to_c(launch.when) if launch.when else "",
        "grid": [to_c(e) for e in launch.grid],
        "block": [to_c(e) for e in launch.block],
        "shared": to_c(launch.shared_bytes),
        "arguments": [_argument(name, kind) for name, kind in launch.arguments],
    }


def _argument(name: str, kind: str) -> dict[str, str]:
    if kind.endswith("*"):
        return {"type": "CUdeviceptr", "value": f"p->{name}" if name in POINTERS else f"{name}_at"}
    return {"type": _C_TYPES[kind], "value": f"({_C_TYPES[kind]})p->{name}"}
