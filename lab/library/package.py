"""The library format: kernels, launches, selection logic, and its JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from lab.base.elements import ELEMENT_BYTES, PARTS
from lab.base.errors import Location, UserError
from lab.base.expressions import Scalar, names_in
from lab.base.sizes import AXES, BATCH_AXES, STRIDES, Size
from lab.hardware.encodedmaps import DATA_TYPES
from lab.hardware.tensormaps import ADDRESS_ALIGNMENT, TensorMap
from lab.library.alignment import Alignment
from lab.library.grid import Loss
from lab.library.tree import Logic
from lab.templates.front_matter import ARGUMENT_TYPES, TENSOR_MAP
from lab.templates.launch_rules import DeclaredBuffer, DeclaredLaunch, LaunchCondition

SCHEMA = 4
"""Version of the JSON schema that is written."""

ALIGNMENT = 256
"""Alignment of scratch buffers in the workspace, in bytes, like the driver's own allocations."""

SIZES = ("m", "n", "k", "lda", "ldb", "ldc")
BATCH_SIZES = ("batch", *STRIDES)
"""Names known to launches of batched libraries, besides `SIZES`."""
FACTORS = ("alpha", "beta")
POINTERS = ("A", "B", "C")
IMAGINARY = ("alpha_imag", "beta_imag")
"""Names passed to launches of complex elements besides `FACTORS`, which are then the real parts."""
_ARGUMENTS = {"int32", "int64", "uint32", "uint64", "float32", "float64"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")


class TimesKind(StrEnum):
    """The source of the times behind the logic."""

    MEASURED = "measured"
    PREDICTED = "predicted"


@dataclass(frozen=True, slots=True)
class LibraryLaunch:
    """One launch. Its expressions may use only the library's `sizes` and `FACTORS`.

    Attributes:
        entry: Symbol.
        grid: Blocks in x, y, z. Here alone `RESIDENT_BLOCKS` is known, too: how many blocks the GPU holds at once.
        block: Threads in x, y, z.
        shared_bytes: Dynamic shared memory of a block.
        arguments: Name and type of each, in the kernel's order: ``("A", "float32*")``, ``("a_map", "tensor_map")``.
        when: It is left out where this is false; empty for always.
        main: Of a sequence, the launch that multiplies, as the template declares it.
    """

    entry: str
    grid: tuple[str, str, str]
    block: tuple[str, str, str]
    shared_bytes: str
    arguments: tuple[tuple[str, str], ...]
    when: str = ""
    main: bool = False


@dataclass(frozen=True, slots=True)
class LibraryBuffer:
    """A scratch buffer on the device.

    Attributes:
        name: What arguments call it.
        dtype: Element type by NumPy's name.
        elements: How many, an expression.
        zero: Set to zero before every sequence of launches.
    """

    name: str
    dtype: str
    elements: str
    zero: bool = False


@dataclass(frozen=True, slots=True)
class LibraryMap:
    """A tensor map of a kernel, encoded for the operands of a call. Its expressions may use the library's `sizes`.

    Attributes:
        name: What arguments call it.
        of: The matrix or scratch buffer that it describes.
        dtype: Element type by NumPy's name.
        extents: Size of the matrix, the contiguous direction first.
        leading: Elements from one column to the next.
        box: Size of the box that one copy moves.
        swizzle: Bytes of the span that is swizzled; 0 for none.
    """

    name: str
    of: str
    dtype: str
    extents: tuple[str, str]
    leading: str
    box: tuple[int, int]
    swizzle: int = 0

    def sized(self, extents: tuple[int, int], leading: int) -> TensorMap:
        """Return the map of a matrix of this size."""
        return TensorMap(self.name, self.of, self.dtype, extents, leading, self.box, self.swizzle)


@dataclass(frozen=True, slots=True)
class LibraryKernel:
    """One kernel of a library.

    Attributes:
        name: What the logic calls it.
        cubin: Its file beside the JSON.
        template: The template it was made from.
        parameters: Its parameters.
        launches: What computes one product, in order.
        workspace: Scratch that the launches share.
        tensor_maps: The maps that its launches take.
        requires: What must hold of the library's `sizes` for the kernel to compute the product, such as leading
            dimensions that are multiples of 8; empty for nothing.
    """

    name: str
    cubin: str
    template: str
    parameters: Mapping[str, Scalar]
    launches: tuple[LibraryLaunch, ...]
    workspace: tuple[LibraryBuffer, ...] = ()
    tensor_maps: tuple[LibraryMap, ...] = ()
    requires: str = ""

    @property
    def declared(self) -> tuple[DeclaredLaunch, ...]:
        """The launches in the form that `lab.templates.launch_rules` resolves."""
        return tuple(
            DeclaredLaunch(
                launch.entry,
                launch.grid,
                launch.block,
                launch.shared_bytes,
                launch.arguments,
                ("launches", i),
                (LaunchCondition(launch.when, ("launches", i, "when")),) if launch.when else (),
            )
            for i, launch in enumerate(self.launches)
        )

    @property
    def buffers(self) -> tuple[DeclaredBuffer, ...]:
        """The workspace in the form that `lab.templates.launch_rules` resolves."""
        return tuple(
            DeclaredBuffer(buffer.name, buffer.dtype, buffer.elements, buffer.zero) for buffer in self.workspace
        )


@dataclass(frozen=True, slots=True)
class MeasuredSize:
    """The library's fastest kernel at a measured size.

    Attributes:
        m: Rows of C.
        n: Columns of C.
        k: Length of the sums.
        kernel: Number of the kernel.
        ms: Its median time.
        cublas_ms: That of cuBLAS; None where it was not timed.
        batch: Products of this size.
    """

    m: int
    n: int
    k: int
    kernel: int
    ms: float
    cublas_ms: float | None = None
    batch: int = 1

    @property
    def size(self) -> Size:
        """The dimensions of `BATCH_AXES`."""
        return self.m, self.n, self.k, self.batch


@dataclass(frozen=True)
class Library:
    """A library without its machine code.

    Attributes:
        name: A C identifier; names of files and functions begin with it.
        dtype: Element type of A, B and C.
        layout: BLAS letters of A and B.
        arch: What the machine code is for: `sm_90`.
        times: Whether the logic comes from measured or from predicted times.
        source: Where they come from, one sentence: the GPU, or the model.
        kernels: In the order of `logic.kernels`.
        logic: What picks one.
        loss: What the logic loses over the sizes that it was grown over.
        held_out: The same over sizes between them; None where there were none.
        measured: What its kernels reached, at the sizes that the logic was grown over.
        schema: Version of the JSON.
        general: What picks one where the requirements of the kernel that `logic` picks do not hold; its own kernels
            have none. None where no kernel has any.
        batched: Its kernels compute a batch of products in one launch, and are picked by the number of products, too.
    """

    name: str
    dtype: Literal["float32", "float64", "float16", "bfloat16", "complex64", "complex128"]
    layout: Literal["nn", "nt", "tn", "tt"]
    arch: str
    times: TimesKind
    source: str
    kernels: tuple[LibraryKernel, ...]
    logic: Logic
    loss: Loss
    held_out: Loss | None = None
    measured: tuple[MeasuredSize, ...] = ()
    schema: int = field(default=SCHEMA)
    general: Logic | None = None
    batched: bool = False

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the dimensions used to pick a kernel."""
        return BATCH_AXES if self.batched else AXES

    @property
    def alignment(self) -> Alignment:
        """The alignment of its matrices' columns, without padding."""
        return Alignment.of(self.dtype, self.layout)

    @property
    def sizes(self) -> tuple[str, ...]:
        """Names of sizes known to its launches: dimensions, leading dimensions, and strides for batches."""
        return (*SIZES, *BATCH_SIZES) if self.batched else SIZES

    @property
    def factors(self) -> tuple[str, ...]:
        """Names of the arguments that pass α and β."""
        return factors_of(self.dtype)

    def __post_init__(self) -> None:
        """Check names, which become files and C identifiers, and that kernels and logic match.

        Raises:
            UserError: A name is not usable, or kernels and logic do not fit.
        """
        if not _NAME.fullmatch(self.name):
            raise UserError("the library's name is not an identifier", code="wrong-value", key="name", found=self.name)
        if not _NAME.fullmatch(self.arch):
            raise UserError(
                "not an architecture",
                code="unsupported",
                key="arch",
                found=self.arch,
                accepted="an architecture such as sm_90",
            )
        if tuple(kernel.name for kernel in self.kernels) != self.logic.kernels:
            raise UserError("the library's kernels are not those of its logic", code="mismatch", key="kernels")
        _check_general(self)
        if any(measurement.kernel not in range(len(self.kernels)) for measurement in self.measured):
            raise UserError("a measured size names a kernel that is not there", code="mismatch", key="measured")
        _check_batches(self)
        for i, kernel in enumerate(self.kernels):
            _check_kernel(kernel, self, f"kernels[{i}]")


Library.__pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[attr-defined]
_LIBRARY = TypeAdapter(Library)

_WITHOUT_BATCH = {"__all__": {"batch": True}}
_OF_BATCHES: Any = {
    "batched": True,
    "logic": {"exact": _WITHOUT_BATCH},
    "general": {"exact": _WITHOUT_BATCH},
    "measured": _WITHOUT_BATCH,
}
"""Fields left out of the JSON of an unbatched library."""


def factors_of(dtype: str) -> tuple[str, ...]:
    """Return the names of the arguments that pass α and β of an element type."""
    return (*FACTORS, *IMAGINARY) if dtype in PARTS else FACTORS


def _check_general(library: Library) -> None:
    """Check that every call has a kernel without requirements to fall back on."""
    general, names = library.general, library.logic.kernels
    asking = [kernel.name for kernel in library.kernels if kernel.requires]
    if general is None:
        if asking:
            message = "a kernel has requirements, and nothing is picked where they do not hold"
            raise UserError(
                message,
                code="mismatch",
                key="general",
                found=asking[0],
                accepted="a logic of kernels without requirements",
            )
        return
    if general.kernels != names:
        raise UserError("the library's kernels are not those of its logic", code="mismatch", key="general.kernels")
    if wrong := [names[i] for i in general.picks if library.kernels[i].requires]:
        raise UserError(
            "a kernel of the general logic has requirements", code="conflict", key="general", found=wrong[0]
        )


def _check_batches(library: Library) -> None:
    """Check that an unbatched library has no batch data."""
    if library.batched:
        return
    for key, logic in (("logic", library.logic), ("general", library.general)):
        if logic is not None and logic.batched:
            raise UserError(
                "a library of single products picks by batch", code="conflict", key=key, accepted="batched: true"
            )
    if any(measurement.batch != 1 for measurement in library.measured):
        raise UserError(
            "a library of single products has times of batches",
            code="conflict",
            key="measured",
            accepted="batched: true",
        )


def _check_kernel(kernel: LibraryKernel, library: Library, key: str) -> None:
    for name, value in (("name", kernel.name), ("cubin", kernel.cubin)):
        if not _FILE.fullmatch(value):
            accepted = "letters, digits and _ . + -"
            raise UserError(
                "not a usable file name", code="wrong-value", key=f"{key}.{name}", found=value, accepted=accepted
            )
    if not kernel.launches:
        raise UserError("the kernel has no launches", code="missing-key", key=f"{key}.launches")
    sizes, factors = library.sizes, library.factors
    _check_names(kernel, sizes, key)
    scratch = {buffer.name: buffer.dtype for buffer in kernel.workspace}
    for name, element in scratch.items():
        if not _NAME.fullmatch(name) or name in (*sizes, *factors, *POINTERS) or element not in ARGUMENT_TYPES:
            raise UserError(
                "not a workspace buffer", code="wrong-value", key=f"{key}.workspace", found=f"{element} {name}"
            )
    pointers = {**dict.fromkeys(POINTERS, library.dtype), **scratch}
    _check_maps(kernel.tensor_maps, pointers, f"{key}.tensor_maps")
    maps = {tensor_map.name for tensor_map in kernel.tensor_maps}
    for launch in kernel.launches:
        if not _NAME.fullmatch(launch.entry):
            raise UserError("not a symbol", code="wrong-value", key=f"{key}.launches.entry", found=launch.entry)
        for name, kind in launch.arguments:
            if kind == TENSOR_MAP:
                fits = name in maps
            elif kind.endswith("*"):
                fits = pointers.get(name) == kind[:-1].strip()
            else:
                fits = name in (*sizes, *factors) and kind in _ARGUMENTS
            if not fits:
                choices = [*sizes, *factors, *(f"{element}* {pointer}" for pointer, element in pointers.items())]
                choices += [f"{TENSOR_MAP} {map_name}" for map_name in sorted(maps)]
                raise UserError(
                    "a library cannot pass this argument",
                    code="unsupported",
                    key=f"{key}.launches",
                    found=f"{kind} {name}",
                    accepted=choices,
                )


def _check_names(kernel: LibraryKernel, sizes: tuple[str, ...], key: str) -> None:
    """Check that requirements and maps depend on sizes alone: a kernel is picked before its launches are known."""
    texts = {"requires": kernel.requires} if kernel.requires else {}
    for i, tensor_map in enumerate(kernel.tensor_maps):
        texts |= {f"tensor_maps[{i}].extents[{j}]": text for j, text in enumerate(tensor_map.extents)}
        texts[f"tensor_maps[{i}].leading"] = tensor_map.leading
    for place, text in texts.items():
        for name in sorted(names_in(text, at=Location("<library>"), key=f"{key}.{place}") - set(sizes)):
            raise UserError(
                "an unknown name", code="unknown-name", key=f"{key}.{place}", found=name, accepted=", ".join(sizes)
            )


def _check_maps(maps: Sequence[LibraryMap], pointers: Mapping[str, str], key: str) -> None:
    names: set[str] = set()
    for i, tensor_map in enumerate(maps):
        if (
            not _NAME.fullmatch(tensor_map.name)
            or tensor_map.name in names
            or tensor_map.name in (*SIZES, *BATCH_SIZES, *FACTORS, *pointers)
        ):
            raise UserError("not a name of its own", code="wrong-value", key=f"{key}[{i}].name", found=tensor_map.name)
        names.add(tensor_map.name)
        if pointers.get(tensor_map.of) != tensor_map.dtype or tensor_map.dtype not in DATA_TYPES:
            choices = [f"{element} {pointer}" for pointer, element in pointers.items()]
            described = f"{tensor_map.dtype} {tensor_map.of}"
            raise UserError(
                "a map of no such matrix or buffer",
                code="unknown-name",
                key=f"{key}[{i}].of",
                found=described,
                accepted=choices,
            )
        refused = tensor_map.sized((1, 1), ADDRESS_ALIGNMENT).refused(ELEMENT_BYTES[tensor_map.dtype])
        if refused:
            field_name, found_size, accepted = refused
            raise UserError(
                "this tensor map cannot be made",
                code="unsupported",
                key=f"{key}[{i}].{field_name}",
                found=found_size,
                accepted=accepted,
            )


def to_json(library: Library) -> str:
    """Return the library as JSON. Batch fields are left out for an unbatched library, as in older versions."""
    unsaid = None if library.batched else _OF_BATCHES
    return _LIBRARY.dump_json(library, indent=1, exclude=unsaid).decode() + "\n"


def from_json(text: str, file: Path | str = "<json>") -> Library:
    """Read a library from its JSON.

    Raises:
        UserError: It is not a library, or has another version.
    """
    try:
        library = _LIBRARY.validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise UserError(f"not a library: {first['msg']}", code="syntax", at=Location(file), key=key or None) from error
    except UserError as error:
        raise UserError(
            error.message, code=error.code, at=Location(file), key=error.key, found=error.found, accepted=error.accepted
        ) from error
    if library.schema != SCHEMA:
        raise UserError(
            "the library has another version",
            code="version",
            at=Location(file),
            key="schema",
            found=library.schema,
            accepted=str(SCHEMA),
        )
    return library
