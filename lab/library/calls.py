"""Call planning without a GPU: the kernel, its launches and the layout of its workspace."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np

from lab.base.elements import ELEMENT_BYTES
from lab.base.errors import Location, UserError
from lab.base.expressions import Scalar, names_in
from lab.base.functions import ceil_div
from lab.base.sizes import AXES
from lab.hardware.tensormaps import TensorMap
from lab.library.grid import LARGEST, check_size
from lab.library.operands import Form, Operand
from lab.library.package import ALIGNMENT, POINTERS, Library, LibraryMap
from lab.library.picking import pick, possible
from lab.library.scalars import is_element
from lab.templates.front_matter import TENSOR_MAP
from lab.templates.launch_rules import Scope, resolved
from lab.templates.launches import Launch, Launches, ResidentGrid

_POINTER_ALIGNMENT = 16
"""Alignment of A, B and C in bytes: the widest load of a kernel, required by tensor maps as well."""

MAP = "M"
"""The code of an argument that is a tensor map."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """The shape and leading dimension of a column-major matrix, without its address.

    Attributes:
        rows: Rows of the matrix as it is stored.
        columns: Columns of it.
        leading: Elements from one column to the next.
        item: Bytes of an element.
    """

    rows: int
    columns: int
    leading: int
    item: int

    @property
    def span(self) -> int:
        """Bytes from the first element to the end of the last one."""
        return self.item * (self.leading * (self.columns - 1) + self.rows)


@dataclass(frozen=True, slots=True)
class CallForm:
    """The shapes, strides and batch of three matching matrices, without their addresses.

    Attributes:
        matrices: A, B and C; of a batch, its members.
        spans: Bytes from the first element of A, B and C to behind the last one; of a batch, those of its members.
        point: What a plan depends on, factors apart: the library's `sizes`.
        count: Members of the batch; 1 for one product.
        steps: Bytes from one member of A, B and C to the next.
        together: Whether the launches of a plan compute all members.
        named: Which of the library's factors the plan depends on, by their places.
    """

    matrices: tuple[Matrix, Matrix, Matrix]
    spans: tuple[int, int, int]
    point: tuple[int, ...]
    count: int = 1
    steps: tuple[int, int, int] = (0, 0, 0)
    together: bool = False
    named: tuple[int, ...] = ()

    def places(self, pointers: tuple[int, int, int]) -> list[tuple[int, int, int]]:
        """Return the addresses of A, B and C for every batch member, given those of the first."""
        (a, b, c), (step_a, step_b, step_c) = pointers, self.steps
        return [(a + i * step_a, b + i * step_b, c + i * step_c) for i in range(self.count)]


@dataclass(frozen=True, slots=True)
class CallStep:
    """One launch of a call, complete except for addresses.

    Attributes:
        entry: Symbol.
        grid: Blocks in x, y, z.
        block: Threads in x, y, z.
        shared_bytes: Dynamic shared memory of a block.
        names: Its arguments.
        codes: Their types in the notation of `struct`; `MAP` for a tensor map.
        values: For each argument a number, or the name of a matrix, a scratch buffer or a tensor map.
        resident_grid: The grid, where it depends on how many blocks the GPU holds at once; None where it does not.
    """

    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    names: tuple[str, ...]
    codes: str
    values: tuple[int | float | str, ...]
    resident_grid: ResidentGrid | None = None


@dataclass(frozen=True, slots=True)
class CallBuffer:
    """A scratch buffer of a call.

    Attributes:
        name: What arguments call it.
        offset: Bytes from the start of the workspace.
        bytes: Its size.
        zero: Set to zero before the launches.
    """

    name: str
    offset: int
    bytes: int
    zero: bool


@dataclass(frozen=True, slots=True)
class CallPlan:
    """The plan of a GEMM, or of a batch computed in one launch.

    Attributes:
        kernel: Number of the kernel.
        steps: Launches, in order.
        buffers: Scratch, in the order in which it lies in the workspace.
        workspace_bytes: Size of all buffers together.
        tensor_maps: The maps that its launches take, encoded where the addresses are known.
    """

    kernel: int
    steps: tuple[CallStep, ...]
    buffers: tuple[CallBuffer, ...]
    workspace_bytes: int
    tensor_maps: tuple[TensorMap, ...] = ()


def call_form(forms: tuple[Form, Form, Form], library: Library) -> CallForm:
    """Check the shapes and strides of three matrices and return their form.

    Args:
        forms: Of A, B and C.
        library: What computes their product.

    Raises:
        UserError: One is not a column-major matrix of the element type, C is read-only, or their shapes do not fit
            together.
    """
    arrays = _arrays(forms, library.dtype, 2, ("a matrix", "two dimensions, both at least 1"))
    return for_library(_fitting(arrays, library), library)


def batch_form(forms: tuple[Form, Form, Form], library: Library) -> CallForm:
    """Check the shapes and strides of three batches and return their form; the first dimension is the batch.

    Args:
        forms: Of A, B and C.
        library: What computes their products.

    Raises:
        UserError: What `call_form` says of a member; or the batches differ in length, their members are not where the
            library's kernels can take them, or those of C share elements.
    """
    words = "a batch of matrices", "three dimensions, each at least 1, the batch first"
    arrays = _arrays(forms, library.dtype, 3, words)
    counts = [shape[0] for shape, _ in arrays]
    if len(set(counts)) > 1:
        lengths = ", ".join(f"{name} {count}" for name, count in zip(POINTERS, counts, strict=True))
        raise UserError(
            "the batches differ in length", code="mismatch", found=lengths, accepted="one first dimension for all"
        )
    member = _fitting([(shape[1:], strides[1:]) for shape, strides in arrays], library)
    count = counts[0]
    if count == 1:
        return for_library(member, library)
    steps = tuple(strides[0] for _, strides in arrays)
    for name, step in zip(POINTERS, steps, strict=True):
        _check_step(name, step, library)
    (a, b, c), c_step = steps, abs(steps[2])
    further = takewhile(lambda i: i * c_step < member.spans[2], range(1, count))
    if any(share(0, member.matrices[2], i * c_step, member.matrices[2]) for i in further):
        found_steps = f"{c} bytes from one to the next"
        raise UserError(
            "members of C share elements",
            code="out-of-range",
            key="C",
            found=found_steps,
            accepted="members of their own",
        )
    return for_library(replace(member, count=count, steps=(a, b, c)), library)


def _check_step(name: str, step: int, library: Library) -> None:
    """Check that batch members are aligned and not too far apart.

    Where each is launched for itself, it begins where a matrix may begin. One launch takes the elements from one to
    the next, in 32 bits.
    """
    unit = ELEMENT_BYTES[library.dtype] if library.batched else _POINTER_ALIGNMENT
    if step % unit:
        accepted = f"a multiple of {unit} bytes"
        raise UserError(f"members of {name} are not aligned", code="mismatch", key=name, found=step, accepted=accepted)
    if library.batched and abs(step) // unit > LARGEST:
        accepted = f"at most {LARGEST} elements from one to the next"
        raise UserError(
            f"members of {name} are too far apart", code="out-of-range", key=name, found=step // unit, accepted=accepted
        )


_Array = tuple[tuple[int, ...], tuple[int, ...]]
"""Shape and strides, in bytes."""


def _arrays(forms: tuple[Form, Form, Form], dtype: str, dimensions: int, words: tuple[str, str]) -> list[_Array]:
    """Read A, B and C and check their number of dimensions."""
    arrays = [array_of(name, form, dtype) for name, form in zip(POINTERS, forms, strict=True)]
    for name, (shape, _) in zip(POINTERS, arrays, strict=True):
        if len(shape) != dimensions or min(shape) < 1:
            expected, accepted = words
            raise UserError(f"{name} is not {expected}", code="wrong-type", key=name, found=shape, accepted=accepted)
    return arrays


def array_of(name: str, form: Form, dtype: str) -> _Array:
    """Return the shape and the strides in bytes of an array, after checking its element type."""
    extents, strides, element, writable = form
    torch = type(element).__module__ == "torch"
    kind = str(element).removeprefix("torch.") if torch else element
    if not is_element(kind, dtype, bits=not torch):
        raise UserError(f"{name} has the wrong element type", code="wrong-type", key=name, found=kind, accepted=dtype)
    if name == "C" and not writable:
        raise UserError("C is read-only", code="mismatch", key=name)
    item = ELEMENT_BYTES[dtype]
    shape = tuple(int(extent) for extent in extents)
    if strides is None:  # C order, by the interface's definition
        strides = tuple(item * math.prod(shape[i + 1 :]) for i in range(len(shape)))
        return shape, strides
    return shape, tuple(int(stride) * (item if torch else 1) for stride in strides)


def _fitting(arrays: Iterable[_Array], library: Library) -> CallForm:
    item, layout = ELEMENT_BYTES[library.dtype], library.layout
    a, b, c = (
        Matrix(shape[0], shape[1], _leading(name, shape, strides, item), item)
        for name, (shape, strides) in zip(POINTERS, arrays, strict=True)
    )
    m, k = (a.rows, a.columns) if layout[0] == "n" else (a.columns, a.rows)
    inner, n = (b.rows, b.columns) if layout[1] == "n" else (b.columns, b.rows)
    if inner != k or (c.rows, c.columns) != (m, n):
        shapes = ", ".join(f"{name} {x.rows} x {x.columns}" for name, x in zip(POINTERS, (a, b, c), strict=True))
        expected_shapes = {"nn": "m x k, k x n", "nt": "m x k, n x k", "tn": "k x m, k x n", "tt": "k x m, n x k"}[
            layout
        ]
        raise UserError(
            "the shapes of the matrices do not fit together",
            code="mismatch",
            found=shapes,
            accepted=f"{expected_shapes}, m x n (layout {layout})",
        )
    return CallForm((a, b, c), (a.span, b.span, c.span), (m, n, k, a.leading, b.leading, c.leading))


def _leading(name: str, shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> int:
    """Return the leading dimension in elements. The stride along an extent of 1 is ignored."""
    (rows, columns), (down, across) = shape, strides
    leading, odd = divmod(across, item) if columns > 1 else (rows, 0)
    if (rows > 1 and down != item) or odd or leading < rows:
        raise UserError(
            f"{name} is not column-major",
            code="mismatch",
            key=name,
            found=f"{rows} x {columns}, strides {(down, across)} in bytes",
            accepted=f"strides ({item}, at least {rows * item}), as of an array made with order='F'",
        )
    if leading * columns > LARGEST:
        accepted = f"at most {LARGEST} elements: kernels index with 32-bit integers"
        raise UserError(
            f"{name} is too large", code="out-of-range", key=name, found=f"{leading} x {columns}", accepted=accepted
        )
    return leading


def check_places(form: CallForm, pointers: tuple[int, int, int]) -> None:
    """Check that matrices are aligned and that C shares no element with A or B.

    Blocks of C are written while others still read A and B. Parts of one larger matrix whose elements differ are apart,
    though their addresses interleave.

    Args:
        form: The matrices.
        pointers: Addresses of the first elements of A, B and C.

    Raises:
        UserError: The message names the matrix.
    """
    for name, pointer in zip(POINTERS, pointers, strict=True):
        if pointer % _POINTER_ALIGNMENT:
            accepted = f"a multiple of {_POINTER_ALIGNMENT} bytes"
            raise UserError(f"{name} is not aligned", code="mismatch", key=name, found=hex(pointer), accepted=accepted)
    c = form.matrices[2]
    members = [
        [pointer + i * step for i in range(form.count)] for pointer, step in zip(pointers, form.steps, strict=True)
    ]
    c_addresses = np.array(members[2], dtype=np.int64)
    for name, matrix, span, addresses in zip(POINTERS[:2], form.matrices[:2], form.spans[:2], members[:2], strict=True):
        if addresses[0] == addresses[-1]:  # one matrix for all
            addresses = addresses[:1]  # noqa: PLW2901 - the same places
        starts = np.array(addresses, dtype=np.int64)
        if max(addresses) + span <= min(members[2]) or max(members[2]) + form.spans[2] <= min(addresses):
            continue
        near = (starts[:, None] < c_addresses + form.spans[2]) & (c_addresses < starts[:, None] + span)
        for i, j in np.argwhere(near):
            if share(addresses[i], matrix, members[2][j], c):
                raise UserError(
                    f"C shares elements with {name}",
                    code="out-of-range",
                    key="C",
                    found=f"{name} at {hex(addresses[i])}, C at {hex(members[2][j])}",
                    accepted="a C of its own, or another part of the same matrix",
                )


def share(at: int, x: Matrix, place: int, y: Matrix) -> bool:
    """Return whether two matrices at given addresses share an element."""
    ours = at + x.item * x.leading * np.arange(x.columns, dtype=np.int64)
    y_starts = place + y.item * y.leading * np.arange(y.columns, dtype=np.int64)
    # the last column of x that begins before each of y's ends
    last = np.searchsorted(ours, y_starts + y.item * y.rows) - 1
    return bool(((last >= 0) & (ours[last] + x.item * x.rows > y_starts)).any())


def workspace_room(scratch: Operand, form: CallForm, pointers: tuple[int, int, int]) -> int:
    """Check a caller's workspace and return its size in bytes.

    Args:
        scratch: The workspace.
        form: The matrices of the call.
        pointers: Addresses of A, B and C.

    Raises:
        UserError: It is not a row of bytes that can be written, is not aligned, or lies among the matrices.
    """
    at, array, _, _ = scratch
    shape, strides = array_of("workspace", array, "uint8")
    room = math.prod(shape)
    if len(shape) != 1 or (room > 1 and strides != (1,)) or not array[3]:
        accepted = "one dimension, without gaps, writable"
        raise UserError(
            "the workspace is not a row of bytes", code="wrong-type", key="workspace", found=shape, accepted=accepted
        )
    if at % ALIGNMENT:
        accepted = f"a multiple of {ALIGNMENT} bytes"
        raise UserError(
            "the workspace is not aligned", code="mismatch", key="workspace", found=hex(at), accepted=accepted
        )
    for name, pointer, step, span in zip(POINTERS, pointers, form.steps, form.spans, strict=True):
        ends = pointer, pointer + (form.count - 1) * step
        if at < max(ends) + span and min(ends) < at + room:
            raise UserError(
                f"the workspace lies in {name}", code="duplicate", key="workspace", accepted="memory of its own"
            )
    return room


def sized_form(
    m: int,
    n: int,
    k: int,
    leading: tuple[int, int, int] | None,
    library: Library,
    *,
    batch: int = 1,
    strides: tuple[int, int, int] | None = None,
) -> CallForm:
    """Return the form of a GEMM, or of a batch of GEMMs, of a given size.

    Args:
        m: Rows of C.
        n: Columns of C.
        k: Length of the sums.
        leading: Leading dimensions of A, B and C; None for matrices without padding.
        library: What computes it.
        batch: How many products. A library of single products computes them in turn, each as if it was alone.
        strides: Elements from one member of A, B and C to the next; None where members lie one behind another.

    Raises:
        UserError: It is not a size, or a leading dimension or a stride is too small or too large.
    """
    check_size(m, n, k, batch)
    item = ELEMENT_BYTES[library.dtype]
    shapes = [(m, k) if library.layout[0] == "n" else (k, m), (k, n) if library.layout[1] == "n" else (n, k), (m, n)]
    columns = leading or [rows for rows, _ in shapes]
    arrays = [(shape, (item, item * stride)) for shape, stride in zip(shapes, columns, strict=True)]
    member = _fitting(arrays, library)
    if batch == 1 or not library.batched:
        return for_library(member, library)
    a, b, c = strides or (matrix.leading * matrix.columns for matrix in member.matrices)
    steps = a * item, b * item, c * item
    for name, step in zip(POINTERS, steps, strict=True):
        _check_step(name, step, library)
    return for_library(replace(member, count=batch, steps=steps), library)


def for_library(form: CallForm, library: Library) -> CallForm:
    """Return a form with the batch values and factors that the library's launches use.

    That is whether they compute all of its members, how many these are and how they lie, and the factors that the plan
    of its size depends on, whatever the leading dimensions.
    """
    size = form.point[: len(AXES)]
    if library.batched:
        item = form.matrices[0].item
        point = (*form.point, form.count, *(step // item for step in form.steps))
        form, size = replace(form, point=point, together=True), (*size, form.count)
    used: set[str] = set()
    for kernel in possible(library, *size):
        parts = [
            text
            for launch in kernel.launches
            for text in (*launch.grid, *launch.block, launch.shared_bytes, launch.when)
        ]
        parts += [buffer.elements for buffer in kernel.workspace]
        used.update(*(names_in(text, at=Location(kernel.name), key=text) for text in parts if text))
    return replace(form, named=tuple(i for i, name in enumerate(library.factors) if name in used))


def plan(library: Library, point: Mapping[str, Scalar]) -> CallPlan:
    """Plan the launches of one GEMM or one batch, without addresses. Needs no GPU.

    Args:
        library: The library.
        point: The library's `sizes` and `factors`.

    Raises:
        UserError: An expression of the library fails, or its result is not a legal launch.
    """
    number = pick(library, point)
    launch_plan = launches(library, number, point)
    buffers, end = [], 0
    for buffer in launch_plan.workspace:
        buffers.append(CallBuffer(buffer.name, end, buffer.bytes, buffer.zero))
        end += ceil_div(buffer.bytes, ALIGNMENT) * ALIGNMENT
    steps = tuple(_step(launch, point) for launch in launch_plan.steps)
    return CallPlan(number, steps, tuple(buffers), end, launch_plan.tensor_maps)


def launches(library: Library, number: int, point: Mapping[str, Scalar]) -> Launches:
    """Return the launches of one kernel for one GEMM.

    Args:
        library: The library.
        number: The kernel's number.
        point: The library's `sizes` and `factors`.

    Raises:
        UserError: An expression of the library fails, or its result is not a legal launch.
    """
    kernel = library.kernels[number]
    at = Location(kernel.name)
    scope = Scope(point, frozenset(point), lambda _: at, library.dtype)
    launch_plan = resolved(kernel.declared, kernel.buffers, scope)
    used_maps = {name for step in launch_plan.steps for name, kind in step.arguments if kind == TENSOR_MAP}
    return replace(
        launch_plan,
        tensor_maps=tuple(
            _sized(tensor_map, i, scope)
            for i, tensor_map in enumerate(kernel.tensor_maps)
            if tensor_map.name in used_maps
        ),
    )


def _sized(declared_map: LibraryMap, i: int, scope: Scope) -> TensorMap:
    """Return the tensor map of one GEMM."""
    path = ("tensor_maps", i)
    first, second = (
        scope.size(text, (*path, "extents", j), most=LARGEST) for j, text in enumerate(declared_map.extents)
    )
    tensor_map = declared_map.sized((first, second), scope.size(declared_map.leading, (*path, "leading"), most=LARGEST))
    refused = tensor_map.refused(ELEMENT_BYTES[declared_map.dtype])
    if refused:
        field, value, accepted = refused
        raise scope.error("this tensor map cannot be made", (*path, field), found=value, accepted=accepted)
    return tensor_map


def _step(launch: Launch, point: Mapping[str, Scalar]) -> CallStep:
    kinds = [kind for _, kind in launch.arguments]
    return CallStep(
        launch.entry,
        launch.grid,
        launch.block,
        launch.dynamic_shared_bytes,
        tuple(name for name, _ in launch.arguments),
        "".join(_code(kind) for kind in kinds),
        tuple(name if _code(kind) in ("P", MAP) else _number(point[name], kind) for name, kind in launch.arguments),
        launch.resident_grid,
    )


def _code(kind: str) -> str:
    if kind == TENSOR_MAP:
        return MAP
    return "P" if kind.endswith("*") else np.dtype(kind).char


def _number(value: Scalar, kind: str) -> int | float:
    return float(value) if np.dtype(kind).kind == "f" else int(value)
