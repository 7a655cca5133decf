"""mma.sync: dense and sparse matrix products on fragments in a warp's registers.

PTX ISA, Warp Level Matrix Instructions: mma, mma.sp.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lab.base.warp import WARP_SIZE
from lab.emulator.arrays import Doubles, Words
from lab.emulator.lanes import Lanes
from lab.emulator.opcodes import Opcode, UnknownForm
from lab.emulator.operations import fragments
from lab.emulator.operations.products import multiply_add
from lab.emulator.operations.shapes import Shape, narrowed, take_shape
from lab.emulator.operations.sparsity import Sparsity, expand
from lab.emulator.operations.system import Run, Site, system
from lab.isa.ptx.constants import integer

_K8, _K16, _K32 = (16, 8, 8), (16, 8, 16), (16, 8, 32)
_BYTES = ((8, 8, 16), _K16, _K32)
_NIBBLES = ((8, 8, 32), _K32, (16, 8, 64))
_VOLTA = (8, 8, 4)
_SHAPES: dict[str, tuple[Shape, ...]] = {
    "f16": (_VOLTA, _K8, _K16),
    "bf16": (_K8, _K16),
    "tf32": ((16, 8, 4), _K8),
    "f64": ((8, 8, 4), (16, 8, 4), _K8, _K16),
    "e4m3": (_K16, _K32),
    "e5m2": (_K16, _K32),
    "s8": _BYTES,
    "u8": _BYTES,
    "s4": _NIBBLES,
    "u4": _NIBBLES,
    "b1": ((8, 8, 128), (16, 8, 128), (16, 8, 256)),
}
_SPARSE_SHAPES: dict[str, tuple[Shape, ...]] = {
    "f16": (_K16, _K32),
    "bf16": (_K16, _K32),
    "tf32": (_K8, _K16),
    "e4m3": ((16, 8, 64),),
    "e5m2": ((16, 8, 64),),
    "s8": (_K32, (16, 8, 64)),
    "u8": (_K32, (16, 8, 64)),
    "s4": ((16, 8, 64), (16, 8, 128)),
    "u4": ((16, 8, 64), (16, 8, 128)),
}
_FAMILIES = ({"e4m3", "e5m2"}, {"s8", "u8"}, {"s4", "u4"})
"""Sets of types that A and B may mix."""


@dataclass(frozen=True, slots=True)
class MatrixTypes:
    """PTX types of D, A, B and C."""

    d: str
    a: str
    b: str
    c: str

    @property
    def all(self) -> tuple[str, str, str, str]:
        """All four types."""
        return self.d, self.a, self.b, self.c


def sums_of(t: str) -> tuple[str, ...]:
    """Return the accumulator types for products of an element type."""
    if t in ("s8", "u8", "s4", "u4", "b1"):
        return ("s32",)
    return {"f64": ("f64",), "f16": ("f16", "f32"), "e4m3": ("f16", "f32"), "e5m2": ("f16", "f32")}.get(t, ("f32",))


def alike(first: str, second: str) -> bool:
    """Return whether A and B may have two given types."""
    return first == second or any({first, second} <= family for family in _FAMILIES)


def _take_types(op: Opcode, shape: Shape, *, sparse: bool) -> MatrixTypes:
    """Consume the four types, the last remaining parts.

    Raises:
        UnknownForm: the combination does not exist.
    """
    if len(op.parts) != 4:  # noqa: PLR2004  the types of D, A, B, C
        raise UnknownForm(f".{'.'.join(op.parts)}")
    types = MatrixTypes(*op.parts)
    shapes = (_SPARSE_SHAPES if sparse else _SHAPES).get(types.a, ())
    sums = sums_of(types.a)
    same_sums = types.d == types.c or (shape == _VOLTA and types.a == "f16")
    if (
        not same_sums
        or shape not in shapes
        or not alike(types.a, types.b)
        or types.d not in sums
        or types.c not in sums
    ):
        raise UnknownForm(f"types .{'.'.join(op.parts)} with this shape")
    op.parts.clear()
    return types


@system("mma")
def mma(site: Site, op: Opcode) -> Run:
    """Build mma.sync and mma.sp.sync."""
    sparse = op.one_of(("sp", "sp::ordered_metadata"), "") != ""
    op.one_of(("sync",))
    op.one_of(("aligned",))
    shape = take_shape(op)
    by_row = op.one_of(("row", "col")) == "row", op.one_of(("row", "col")) == "row"
    saturate = op.flag("satfinite")
    logic = op.one_of(("xor", "and"), "")
    if logic:
        op.one_of(("popc",))
    rounded = op.flag("rn")  # f64 sums always round to nearest; other modes stay among the types
    types = _take_types(op, shape, sparse=sparse)
    if rounded and types.d != "f64":
        raise UnknownForm(f".rn on .{types.d}")
    volta = shape == _VOLTA and types.a == "f16"
    if by_row != (True, False) and not volta:
        raise UnknownForm("a layout other than .row.col")
    if (logic == "") != (types.a != "b1"):
        raise UnknownForm("a bit operation belongs to .b1, and only to it")
    if saturate and types.d != "s32":
        raise UnknownForm(".satfinite on floating-point numbers")
    if volta:
        return _volta(site, types, by_row)
    m, n, k = shape
    stored = Sparsity(types.a, k) if sparse else None
    layout_a = fragments.operand_a(m, k // 2 if sparse else k, types.a)
    layout_b, layout_c = fragments.operand_b(k, n, types.b), fragments.accumulator(m, n)
    texts = site.texts
    if len(texts) != (6 if sparse else 4):
        raise UnknownForm(f"{len(texts)} operands")
    read_a = fragments.reader(site, texts[1], types.a, layout_a)
    read_b = fragments.reader(site, texts[2], types.b, layout_b)
    read_c = fragments.reader(site, texts[3], types.c, layout_c)
    indices = _metadata(site, stored) if stored is not None else None
    write = fragments.writer(site, texts[0], types.d, layout_c)

    def run(lanes: Lanes) -> None:
        a, b, c = layout_a.gather(read_a()), layout_b.gather(read_b()), layout_c.gather(read_c())
        if stored is not None and indices is not None:
            a = expand(a, indices(), stored)
        write(lanes, layout_c.scatter(product(a, b, c, types, logic=logic, saturate=saturate)))

    return run


def product(a: Doubles, b: Doubles, c: Doubles, types: MatrixTypes, *, logic: str, saturate: bool) -> Doubles:
    """Return the result D of a warp's matrix instruction, (tiles, m, n); operands as in `multiply_add`.

    Args:
        a: Elements of A; bits are 0 and 1.
        b: Elements of B.
        c: The accumulator.
        types: PTX types.
        logic: `and` or `xor` for bits, else nothing.
        saturate: Clamp integers to the range of s32; otherwise they wrap.
    """
    if logic == "xor":  # of bits x and y: x + y - 2 x y
        total = a.sum(axis=2)[:, :, None] + b.sum(axis=1)[:, None] - 2.0 * (a @ b) + c
        return narrowed(total, saturate=saturate)
    total = multiply_add(a, b, c, types.all, "mma")
    return narrowed(total, saturate=saturate) if types.d == "s32" else total


def _volta(site: Site, types: MatrixTypes, by_row: tuple[bool, bool]) -> Run:
    """Build m8n8k4 with f16: four products, each by a quad and its partner in the other half-warp."""
    layouts = (
        fragments.volta_operand("a", by_row=by_row[0]),
        fragments.volta_operand("b", by_row=by_row[1]),
        fragments.volta_accumulator(types.c),
    )
    if len(site.texts) != 4:  # noqa: PLR2004  D, A, B, C
        raise UnknownForm(f"{len(site.texts)} operands")
    reads = [
        fragments.reader(site, text, t, layout)
        for text, t, layout in zip(site.texts[1:], types.all[1:], layouts, strict=True)
    ]
    layout_d = fragments.volta_accumulator(types.d)
    write = fragments.writer(site, site.texts[0], types.d, layout_d)

    def run(lanes: Lanes) -> None:
        a, b, c = (layout.gather(read()) for layout, read in zip(layouts, reads, strict=True))
        write(lanes, layout_d.scatter(multiply_add(a, b, c, types.all, "mma")))

    return run


def _metadata(site: Site, stored: Sparsity) -> Callable[[], Words]:
    """Return a reader of sparse metadata, (warps, 32), checking the selector.

    Raises:
        UnknownForm: the selector is out of range for the shape.
    """
    selector = integer(site.texts[5])
    if not 0 <= selector < stored.selectors:
        raise UnknownForm(f"selector {selector} of {stored.selectors}")
    read, everyone = site.operands.source(site.texts[4], "b32"), site.batch.everyone

    def words() -> Words:
        return stored.chosen(everyone.fill(read(everyone)).reshape(-1, WARP_SIZE), selector)

    return words
