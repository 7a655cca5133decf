"""wgmma: warpgroup matrix products on shared memory and registers.

It is executed at once; `lab.emulator.waiting.warpgroups` tracks the registers and memory in use until a wait.

PTX ISA, Asynchronous Warpgroup Level Matrix Instructions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.base.warp import WARP_SIZE
from lab.emulator.arrays import Addresses, Doubles, Indices
from lab.emulator.binding import WARPGROUP, Read
from lab.emulator.lanes import Lanes
from lab.emulator.opcodes import Opcode, UnknownForm
from lab.emulator.operations import descriptors, elements, fragments
from lab.emulator.operations.descriptors import PIECE
from lab.emulator.operations.matrix import MatrixTypes, alike
from lab.emulator.operations.products import multiply_add
from lab.emulator.operations.shapes import Shape, narrowed, take_shape
from lab.emulator.operations.sparsity import Sparsity, expand
from lab.emulator.operations.system import Run, Site, system
from lab.emulator.waiting.warpgroups import refused_count
from lab.isa.ptx.constants import integer

_ROWS = 64
_ROWS_OF_WARP = _ROWS // WARPGROUP
_K_BYTES = 32  # of a stored row of A, and of a column of B for a dense A
_MOST_COLUMNS = 256
_SUMS = {
    "f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "e4m3": ("f16", "f32"), "e5m2": ("f16", "f32"),
    "s8": ("s32",), "u8": ("s32",), "b1": ("s32",),
}  # fmt: skip
_INTEGER_COLUMNS = (8, 16, 24, *range(32, _MOST_COLUMNS + 1, 16))


@dataclass(frozen=True, slots=True)
class WarpgroupProduct:
    """A decoded wgmma.

    Attributes:
        shape: Rows of A, columns of B, depth.
        types: PTX types of D, A, B and C, which is D.
        registers: A is in registers.
        scales: Signs of A and B, 1 or -1.
        turned: Whether A and B in shared memory are contiguous along m and n instead of k.
        saturate: Clamp integers.
        stored: The storage format of a sparse A; None for a dense A.
        selector: Selects the lanes with the metadata of a sparse A.
    """

    shape: Shape
    types: MatrixTypes
    registers: bool
    scales: tuple[int, int]
    turned: tuple[bool, bool]
    saturate: bool
    stored: Sparsity | None = None
    selector: int = 0


@system("wgmma")
def wgmma(site: Site, op: Opcode) -> Run:
    """Build wgmma.mma_async, and its fence, commit and wait."""
    kind = op.one_of(("mma_async", "fence", "commit_group", "wait_group"))
    sparse = kind == "mma_async" and op.flag("sp")
    op.one_of(("sync",))
    op.one_of(("aligned",))
    groups = site.warpgroups
    if kind == "mma_async":
        return _multiply(site, op, sparse=sparse)
    op.finish()
    if kind == "fence":
        return groups.fence
    if kind == "commit_group":
        return groups.commit
    still = integer(site.texts[0])
    return lambda lanes: groups.wait(lanes, still)


@system("setmaxnreg")
def setmaxnreg(site: Site, op: Opcode) -> Run:
    """Build the change of a warpgroup's register limit, which has no effect on values."""
    increase = op.one_of(("inc", "dec")) == "inc"
    for word in ("sync", "aligned", "u32"):
        op.one_of((word,))
    op.finish()
    count = integer(site.texts[0])
    refused = refused_count(count)
    if refused:
        raise UnknownForm(refused)
    position, groups = site.position, site.warpgroups
    return lambda lanes: groups.limit(position, lanes, count, increase=increase)


def _take_form(site: Site, op: Opcode, *, sparse: bool) -> WarpgroupProduct:
    """Decode a wgmma's modifiers and constant operands.

    Raises:
        UnknownForm: the combination does not exist.
    """
    shape = take_shape(op)
    saturate = op.flag("satfinite")
    bits = op.flag("and")
    if bits:
        op.one_of(("popc",))
    if len(op.parts) != 3:  # noqa: PLR2004  the types of D, A and B
        raise UnknownForm(f".{'.'.join(op.parts)}")
    td, ta, tb = op.parts
    m, n, k = shape
    is_integer = td == "s32"
    columns = _INTEGER_COLUMNS if is_integer else range(8, _MOST_COLUMNS + 1, 8)
    if (
        td not in _SUMS.get(ta, ())
        or not alike(ta, tb)
        or bits != (ta == "b1")
        or (sparse and bits)
        or (saturate and ta not in ("s8", "u8"))
        or (m, k) != (_ROWS, (1 + sparse) * _K_BYTES * 8 // elements.BITS[ta])
        or n not in columns
    ):
        raise UnknownForm(f"types .{td}.{ta}.{tb} with the shape m{m}n{n}k{k}")
    registers = site.texts[1].startswith("{")
    stored = Sparsity(ta, k) if sparse else None
    selector = _take_selector(site, stored) if stored is not None else 0
    constants = [integer(text) for text in site.texts[_behind_metadata(sparse=sparse) + 1 :]]
    turns = (1 if registers else 2) if elements.BITS[ta] == 16 else 0  # noqa: PLR2004  bits
    expected = 0 if is_integer else 2 + turns
    if len(constants) != expected:
        raise UnknownForm(f"{len(site.texts)} operands")
    scales = (constants[0], constants[1]) if constants else (1, 1)
    flags = constants[2:]
    if any(abs(scale) != 1 for scale in scales) or any(flag not in (0, 1) for flag in flags):
        raise UnknownForm(f"the constants {', '.join(map(str, constants))}")
    turned = (
        (False, bool(flags[-1]) if flags else False) if registers or not flags else (bool(flags[0]), bool(flags[1]))
    )
    types = MatrixTypes(td, ta, tb, td)
    return WarpgroupProduct(shape, types, registers, scales, turned, saturate, stored, selector)


def _behind_metadata(*, sparse: bool) -> int:
    """Return the index of the scale-d operand: after D, A, B and a sparse A's metadata."""
    return 5 if sparse else 3


def _take_selector(site: Site, stored: Sparsity) -> int:
    """Decode the selector of a sparse product.

    Raises:
        UnknownForm: it is missing, or out of range for the shape.
    """
    if len(site.texts) <= _behind_metadata(sparse=True):
        raise UnknownForm(f"{len(site.texts)} operands")
    selector = integer(site.texts[4])
    if not 0 <= selector < stored.selectors:
        raise UnknownForm(f"selector {selector} of {stored.selectors}")
    return selector


def _multiply(site: Site, op: Opcode, *, sparse: bool) -> Run:
    form = _take_form(site, op, sparse=sparse)
    _, n, k = form.shape
    depth = k // 2 if sparse else k  # stored elements of A
    types, texts, position, groups = form.types, site.texts, site.position, site.warpgroups
    layout = fragments.accumulator(_ROWS_OF_WARP, n)
    layout_a = fragments.operand_a(_ROWS_OF_WARP, depth, types.a)
    read_c = fragments.reader(site, texts[0], types.c, layout)
    write = fragments.writer(site, texts[0], types.d, layout)
    held_a = fragments.reader(site, texts[1], types.a, layout_a) if form.registers else None
    first = None if form.registers else _Operand(site, 1, types.a, (_ROWS, depth), turned=form.turned[0], by_warp=True)
    second = _Operand(site, 2, types.b, (n, k), turned=form.turned[1], by_warp=False)
    metadata = site.operands.source(texts[3], "b32") if sparse else None
    adds = site.operands.source(texts[_behind_metadata(sparse=sparse)], "pred")
    sums = site.operands.register_names(texts[0])
    inputs = site.operands.register_names(texts[1]) if form.registers else ()
    warps = site.batch.warps

    def run(lanes: Lanes) -> None:
        starts = groups.whole(position, lanes)
        if not len(starts):
            return
        members = (starts[:, None] + np.arange(WARPGROUP)).reshape(-1)
        active = Lanes(lanes.threads, (members[:, None] * WARP_SIZE + np.arange(WARP_SIZE)).reshape(-1))
        groups.use(position, active, sums, inputs)
        if held_a is not None:
            a = layout_a.gather(held_a())[members].reshape(len(starts), _ROWS, depth)
        else:
            a = first.fetch(active, starts) if first is not None else np.zeros(0)
        if metadata is not None and form.stored is not None:
            chosen = form.stored.chosen(active.fill(metadata(active)).reshape(-1, WARP_SIZE), form.selector)
            a = expand(a, chosen.reshape(len(starts), _ROWS, -1), form.stored)
        b = second.fetch(active, starts).swapaxes(1, 2)
        c = layout.gather(read_c())[members]
        accumulates = active.fill(adds(active)).reshape(len(members), WARP_SIZE)[:, 0]
        c[~accumulates] = 0.0
        total = multiply_add(
            a * form.scales[0], b * form.scales[1], c.reshape(len(starts), _ROWS, n), types.all, "wgmma"
        )
        if types.d == "s32":
            total = narrowed(total, saturate=form.saturate)
        everyone = np.zeros((warps, _ROWS_OF_WARP, n))
        everyone[members] = total.reshape(-1, _ROWS_OF_WARP, n)
        write(active, layout.scatter(everyone))

    return run


class _Operand:
    """A matrix operand in shared memory, given by a descriptor."""

    def __init__(self, site: Site, number: int, t: str, size: tuple[int, int], *, turned: bool, by_warp: bool) -> None:
        """Bind the descriptor.

        Args:
            site: The instruction.
            number: The operand number, 1 for A and 2 for B.
            t: Element type.
            size: Rows of A (columns of B), and the stored elements of each.
            turned: The matrix is contiguous along these rows (columns).
            by_warp: Each warp reads a quarter of the rows; otherwise each reads all.
        """
        self._site, self._t, self._turned, self._by_warp = site, t, turned, by_warp
        self._rows, self._depth = size
        self._number = number
        self._read: Read[np.uint64] = site.operands.source(site.texts[number], "b64")

    def fetch(self, lanes: Lanes, starts: Indices) -> Doubles:
        """Return the matrices of some warpgroups, (warpgroups, rows, k).

        Args:
            lanes: The threads of the warpgroups.
            starts: The first warp of each.
        """
        site, threads_per_warpgroup = self._site, WARPGROUP * WARP_SIZE
        words = lanes.fill(self._read(lanes)).reshape(len(starts), threads_per_warpgroup)
        if (words != words[:, :1]).any():
            detail = "the threads of a warpgroup have different matrix descriptors"
            site.findings.add("wgmma-misuse", site.position, detail, starts * WARP_SIZE)
        matrices = descriptors.decode(np.ascontiguousarray(words[:, 0]))
        width = elements.BITS[self._t]
        if self._turned:
            offsets = descriptors.across_k(matrices, self._depth, self._rows * width // (8 * PIECE))
        else:
            offsets = descriptors.along_k(matrices, self._rows, self._depth * width // (8 * PIECE))
        values = self._load(offsets, starts)
        raw = np.ascontiguousarray(values.reshape(*offsets.shape[:2], -1)).view(np.uint32)
        decoded = elements.decode(raw, self._t)
        return decoded.swapaxes(1, 2) if self._turned else decoded

    def _load(self, offsets: Addresses, starts: Indices) -> NDArray[np.uint8]:
        """Return and check the bytes of pieces, (warpgroups, rows, pieces, 16); zero beyond shared memory.

        Args:
            offsets: (warpgroups, rows, pieces) in the shared memory of the warpgroup's block.
            starts: The first warp of each warpgroup.
        """
        site, shared = self._site, self._site.memory.shared
        threads = starts * WARP_SIZE
        beyond = offsets > shared.size - PIECE
        if beyond.any():
            which = np.flatnonzero(beyond.any(axis=(1, 2)))
            address = int(offsets[beyond].max())
            detail = f"wgmma of {PIECE} bytes at offset {address} of {shared.name} ({shared.size} bytes)"
            site.findings.add("out-of-bounds", site.position, detail, threads[which], address=address)
            offsets = np.where(beyond, 0, offsets)
        base = shared.places(np.zeros(len(threads), np.int64), threads)
        places = offsets + base[:, None, None]
        self._watch(places, offsets, starts)
        self._follow(places, offsets, starts)
        if shared.size < PIECE:
            return np.zeros((*offsets.shape, PIECE), np.uint8)
        values: NDArray[np.uint8] = shared.data[places[..., None] + np.arange(PIECE)]
        values[beyond] = 0
        return values

    def _follow(self, places: Addresses, offsets: Addresses, starts: Indices) -> None:
        """Record which rows contain unwritten data."""
        site, watch = self._site, self._site.memory.watch
        if watch.shadow is None or watch.undefined is None or not watch.undefined.follows(site.position):
            return
        fresh = watch.shadow.fresh(places, PIECE)
        if not fresh.any():
            return
        if self._turned:
            rows = fresh.reshape(len(starts), fresh.shape[1], self._rows, -1).any(axis=(1, 3))
        else:
            rows = fresh.any(axis=(2, 3))
        offset = int(offsets[fresh.any(axis=3)][0])
        watch.undefined.fetch(
            site.position, self._number, np.asarray(rows), starts, region=site.memory.shared, offset=offset
        )

    def _watch(self, places: Addresses, offsets: Addresses, starts: Indices) -> None:
        """Check each warp's part of the reads."""
        site = self._site
        if site.memory.watch.shadow is None:
            return
        site.warpgroups.read(site.position, starts, self._by_warps(places), self._by_warps(offsets), PIECE)

    def _by_warps(self, pieces: Addresses) -> Addresses:
        """Return the pieces of an operand that each warp reads, (warpgroups, 4, its pieces)."""
        groups, lines, pieces_per_line = pieces.shape
        if not self._by_warp:
            return np.broadcast_to(pieces.reshape(groups, 1, -1), (groups, WARPGROUP, lines * pieces_per_line))
        if self._turned:
            quarters = pieces.reshape(groups, lines, WARPGROUP, pieces_per_line // WARPGROUP).swapaxes(1, 2)
        else:
            quarters = pieces.reshape(groups, WARPGROUP, lines // WARPGROUP, pieces_per_line)
        return quarters.reshape(groups, WARPGROUP, -1)
