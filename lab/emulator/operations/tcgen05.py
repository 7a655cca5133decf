"""tcgen05: tensor memory, and products of matrices into it that one thread asks for.

What is executed: dense products of the kinds f16, tf32, f8f6f4 (8-bit factors) and i8, of a block or of a pair
(cta_group::2), with the factors in shared memory, the first one in tensor memory too; loads and stores of the shape
32x32b. Of a pair, each block has half of the rows of A and D, and half of the columns of B. How an instruction rounds
was not compared with hardware: the rules are those of wgmma, with sums of float32 for 8-bit floats.

PTX ISA, TensorCore 5th Generation Family Instructions; the fields of descriptors: CUTLASS, mma_sm100_desc.hpp.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lab.base.warp import WARP_SIZE
from lab.emulator import operands
from lab.emulator.arrays import Addresses, Doubles, Indices
from lab.emulator.errors import unsupported
from lab.emulator.lanes import Lanes, warp_of
from lab.emulator.memory.peers import absent_block, in_cluster, peer_rows
from lab.emulator.memory.tensor import COLUMNS, LANES, WARPS, Area
from lab.emulator.opcodes import Opcode, UnknownForm
from lab.emulator.operations import descriptors, elements
from lab.emulator.operations.descriptors import PIECE, Descriptors
from lab.emulator.operations.products import multiply_add
from lab.emulator.operations.shapes import narrowed
from lab.emulator.operations.system import Run, Site, system
from lab.isa.ptx.constants import integer

_ADDRESS = re.compile(r"\[\s*([^\s\]+]+)\s*(?:\+\s*(\d+)\s*)?\]\Z")
_K_BYTES = 32
_KINDS = {
    "kind::f16": {0: "f16", 1: "bf16"},
    "kind::tf32": {2: "tf32"},
    "kind::f8f6f4": {0: "e4m3", 1: "e5m2"},
    "kind::i8": {0: "u8", 1: "s8"},
}
"""Kind of a product to the types of factors by their codes in the instruction descriptor."""

_SUMS = {0: "f16", 1: "f32", 2: "s32"}
_SMALL_ROWS, _ROWS = 64, 128
_MOST_COLUMNS = 256
_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128)


@dataclass(frozen=True, slots=True)
class Product:
    """The fields of a matrix instruction's descriptor.

    Attributes:
        rows: Rows of A and D.
        columns: Columns of B and D.
        depth: Columns of A.
        types: PTX types of D, A, B and C.
        signs: Those of A and B, 1 or -1.
        turned: Whether A and B in shared memory are contiguous along m and n.
        saturate: Clamp integers.
        blocks: 1, or 2 for a pair.
    """

    rows: int
    columns: int
    depth: int
    types: tuple[str, str, str, str]
    signs: tuple[int, int]
    turned: tuple[bool, bool]
    saturate: bool
    blocks: int

    @property
    def lanes(self) -> tuple[int, ...]:
        """The lanes of tensor memory that D takes: 64 rows of a block alone take 16 lanes of each quarter."""
        each = LANES // WARPS // 2 if self.rows == _SMALL_ROWS else LANES // WARPS
        row = np.arange(WARPS * each)
        return tuple((row % each + row // each * (LANES // WARPS)).tolist())

    @property
    def halves(self) -> int:
        """Parts of the columns of D: those of 64 rows of a pair's block lie in lanes behind one another."""
        return 2 if self.blocks == 2 and self.rows == _ROWS else 1  # noqa: PLR2004 - a pair

    def area(self, block: int, first: int) -> Area:
        """Return where the part of D in a block lies, from a column on."""
        return Area(block, self.lanes, first, self.columns // self.halves)

    def laid_out(self, part: Doubles) -> Doubles:
        """Return a block's part of D, (rows, columns), as it lies in lanes and columns."""
        rows, columns = part.shape
        return part.reshape(rows, self.halves, -1).swapaxes(0, 1).reshape(rows * self.halves, columns // self.halves)

    def taken_out(self, cells: Doubles) -> Doubles:
        """Return (lanes, columns) as a block's part of D, (rows, columns)."""
        return cells.reshape(self.halves, -1, cells.shape[1]).swapaxes(0, 1).reshape(-1, self.columns)


@system("tcgen05")
def tcgen05(site: Site, op: Opcode) -> Run:
    """Build an instruction of the family.

    Raises:
        UnknownForm: It is not one of those that the module's docstring names.
    """
    names = ("alloc", "dealloc", "relinquish_alloc_permit", "mma", "commit", "ld", "st", "wait::ld", "wait::st")
    kind = op.one_of((*names, "fence::before_thread_sync", "fence::after_thread_sync"))
    if kind in ("ld", "st"):
        return _move(site, op, kind)
    if kind.startswith("wait"):
        _take_together(op)
        op.finish()
        tensor = site.tensor
        return tensor.wait_for_loads if kind == "wait::ld" else tensor.wait_for_stores
    if kind.startswith("fence"):
        # It orders tcgen05 instructions around a meeting of threads; they are executed in their order here.
        op.finish()
        return lambda _lanes: None
    pair = op.one_of(("cta_group::1", "cta_group::2")) == "cta_group::2"
    if pair and site.batch.cluster % 2:
        raise UnknownForm("a pair of blocks, in a cluster of an odd number")
    if kind == "mma":
        return _multiply(site, op, pair=pair)
    return _commit(site, op) if kind == "commit" else _allocation(site, op, kind)


def _take_together(op: Opcode) -> None:
    op.one_of(("sync",))
    op.one_of(("aligned",))


def _one_a_warp(lanes: Lanes) -> Indices:
    """Return the position of the first of each warp's lanes among the lanes."""
    return np.unique(warp_of(lanes.indices()), return_index=True)[1]


def _address(site: Site, text: str) -> Callable[[Lanes], Addresses]:
    """Return what reads an address of tensor memory, (count,).

    Raises:
        UnknownForm: The operand is not an address.
    """
    found = _ADDRESS.match(text)
    if found is None:
        raise UnknownForm(f"the address {text}")
    read, offset = site.operands.source(found[1], "u32"), int(found[2] or 0)
    return lambda lanes: lanes.fill(read(lanes)).astype(np.int64) + offset


# --- allocation -----------------------------------------------------------------------------------------------


def _allocation(site: Site, op: Opcode, kind: str) -> Run:
    _take_together(op)
    tensor, position, block_of = site.tensor, site.position, site.batch.block_of
    if kind == "relinquish_alloc_permit":
        op.finish()

        def relinquish(lanes: Lanes) -> None:
            for block in np.unique(lanes.select(block_of)).tolist():
                tensor.relinquish(block)

        return relinquish
    if kind == "alloc":
        op.flag("shared::cta")
    op.one_of(("b32",))
    op.finish()
    counts = site.operands.source(site.texts[1], "u32")
    if kind == "dealloc":
        addresses = site.operands.source(site.texts[0], "u32")

        def free(lanes: Lanes) -> None:
            threads, at, columns = lanes.indices(), lanes.fill(addresses(lanes)), lanes.fill(counts(lanes))
            for i in _one_a_warp(lanes).tolist():
                tensor.free(position, int(block_of[threads[i]]), int(at[i]), int(columns[i]), int(threads[i]))

        return free
    target, memory = site.operands.address(site.texts[0], "shared"), site.memory

    def allocate(lanes: Lanes) -> None:
        threads, columns, to = lanes.indices(), lanes.fill(counts(lanes)), target(lanes)
        for i in _one_a_warp(lanes).tolist():
            found = tensor.allocate(position, int(block_of[threads[i]]), int(columns[i]), int(threads[i]))
            if found is not None:
                one = lanes.take(np.array([i]))
                memory.store(position, "shared", to[i : i + 1], [np.array([found], np.uint32)], one)

    return allocate


# --- loads and stores -----------------------------------------------------------------------------------------


def _move(site: Site, op: Opcode, kind: str) -> Run:
    """Build a load from tensor memory or a store to it: lane i of a warp has columns of lane i of its quarter."""
    _take_together(op)
    op.one_of(("32x32b",))
    count = int(op.one_of(tuple(f"x{n}" for n in _COUNTS))[1:])
    op.one_of(("b32",))
    op.finish()
    values, address = site.texts if kind == "ld" else site.texts[::-1]
    names = operands.elements(values)
    if len(names) != count:
        raise UnknownForm(f"{len(names)} registers; accepted are {count}")
    read_address, tensor, position = _address(site, address), site.tensor, site.position
    registers = site.operands.register_names(values)
    writes = [site.operands.target(name, "b32") for name in names] if kind == "ld" else []
    reads = [site.operands.source(name, "b32") for name in names] if kind == "st" else []

    def run(lanes: Lanes) -> None:
        result = np.zeros((lanes.count, count), np.uint32)
        given = np.stack([lanes.fill(read(lanes)) for read in reads], axis=1) if reads else result
        at, threads = read_address(lanes), lanes.indices()
        for warp in np.unique(warp_of(threads)).tolist():
            mine = np.flatnonzero(warp_of(threads) == warp)
            area = _area(site, int(warp), int(at[mine[0]]), count, threads[mine])
            if area is None:
                continue
            if kind == "ld":
                result[mine] = tensor.read(position, area, threads[mine])[threads[mine] % WARP_SIZE]
            else:
                tensor.store(position, area, given[mine].view(np.uint32), threads[mine])
        for i, write in enumerate(writes):
            write(lanes, np.ascontiguousarray(result[:, i]))
        if kind == "ld":
            tensor.load(lanes, registers)

    return run


def _area(site: Site, warp: int, address: int, columns: int, threads: Indices) -> Area | None:
    """Return the columns that a warp accesses; None, and a finding, where it may not."""
    batch = site.batch
    block, within = divmod(warp, batch.warps // batch.blocks)
    first = within % WARPS * WARP_SIZE
    lane, column = address >> 16, address & 0xFFFF
    if lane != first or column + columns > COLUMNS:
        detail = f"lane {lane}, columns {column} to {column + columns - 1}; this warp reaches lanes {first} to "
        detail += f"{first + WARP_SIZE - 1}, columns 0 to {COLUMNS - 1}, by the address of the first lane"
        site.findings.add("tensor-memory-misuse", site.position, detail, threads)
        return None
    area = Area(block, tuple(range(first, first + WARP_SIZE)), column, columns)
    return area if site.tensor.within(site.position, area, threads) else None


# --- products -------------------------------------------------------------------------------------------------


def _commit(site: Site, op: Opcode) -> Run:
    """Build a commit: the mbarrier gets an arrival when the thread's earlier products are complete."""
    op.one_of(("mbarrier::arrive::one",))
    op.flag("shared::cluster")
    multicast = op.flag("multicast::cluster")
    op.one_of(("b64",))
    op.finish()
    address, mbarriers, tensor = site.operands.address(site.texts[0], "shared"), site.mbarriers, site.tensor
    mask = site.operands.source(site.texts[1], "u16") if multicast else None
    batch, position = site.batch, site.position

    def arrive(lanes: Lanes, at: Addresses, rows: Indices) -> None:
        named = mbarriers.name(position, at, lanes, blocks=rows)
        phases = mbarriers.phases(named)
        for thread, block, number, phase in zip(
            named.threads.tolist(), named.blocks.tolist(), named.numbers.tolist(), phases.tolist(), strict=True
        ):
            tensor.commit(thread, block, number, phase)
        ones = np.ones(len(named.threads), np.int64)
        mbarriers.arrive(position, named, ones, ones * 0)

    def run(lanes: Lanes) -> None:
        at = address(lanes)
        known = np.flatnonzero(in_cluster(batch, at))
        if len(known) < len(at):
            absent = lanes.take(np.flatnonzero(~in_cluster(batch, at))).indices()
            site.findings.add("out-of-bounds", position, f"an mbarrier {absent_block(batch)}", absent)
            lanes, at = lanes.take(known), at[known]
        offsets, rows = peer_rows(batch, at, lanes)
        if mask is None:
            arrive(lanes, offsets, rows)
            return
        masks, own = lanes.fill(mask(lanes)), lanes.select(batch.block_of)
        for rank in range(batch.cluster):
            chosen = np.flatnonzero(masks >> np.uint16(rank) & np.uint16(1))
            if len(chosen):
                arrive(lanes.take(chosen), offsets[chosen], (own - own % batch.cluster + rank)[chosen])

    return run


def _multiply(site: Site, op: Opcode, *, pair: bool) -> Run:
    kind = op.one_of(tuple(_KINDS))
    for word in ("collector::a::discard", "collector::a::lastuse", "collector::a::fill", "collector::a::use"):
        op.flag(word)  # hints for a buffer of A
    op.finish()
    texts = list(site.texts)
    masks = texts.pop(4) if len(texts) > 4 and texts[4].startswith("{") else ""  # noqa: PLR2004 - behind idesc
    masked = [site.operands.source(name, "u32") for name in operands.elements(masks)] if masks else []
    scale = integer(texts.pop(5)) if len(texts) == 6 else 0  # noqa: PLR2004 - behind enable-input-d
    if len(texts) != 5 or (scale and kind not in ("kind::f16", "kind::tf32")):  # noqa: PLR2004 - d, a, b, idesc, enable
        raise UnknownForm(f"{len(site.texts)} operands")
    at_d, described = _address(site, texts[0]), site.operands.source(texts[3], "u32")
    from_tensor = texts[1].startswith("[")
    at_a = _address(site, texts[1]) if from_tensor else None
    word_a = None if from_tensor else site.operands.source(texts[1], "b64")
    word_b, adds = site.operands.source(texts[2], "b64"), site.operands.source(texts[4], "pred")

    def run(lanes: Lanes) -> None:
        threads, d = lanes.indices(), at_d(lanes)
        codes, added = lanes.fill(described(lanes)), lanes.fill(adds(lanes))
        b = lanes.fill(word_b(lanes))
        a = at_a(lanes) if at_a is not None else lanes.fill(word_a(lanes)) if word_a is not None else d
        off = np.stack([lanes.fill(read(lanes)) for read in masked], axis=1) if masked else np.zeros((len(d), 4))
        for i, thread in enumerate(threads.tolist()):
            if off[i].any():
                raise unsupported(site.operands.instruction, "a mask of output lanes")
            form = _form(site, kind, int(codes[i]), thread, pair=pair)
            if form is not None:
                asked = _Asked(site, form, thread, from_tensor=from_tensor)
                asked.execute(int(d[i]), int(a[i]), int(b[i]), adds=bool(added[i]), scale=scale)

    return run


def _form(site: Site, kind: str, code: int, thread: int, *, pair: bool) -> Product | None:
    """Decode an instruction descriptor; None, and a finding, where the kind has no such product."""

    def bits(first: int, count: int) -> int:
        return code >> first & ((1 << count) - 1)

    if bits(2, 1):
        raise unsupported(site.operands.instruction, "a sparse product")
    td, ta, tb = _SUMS.get(bits(4, 2)), _KINDS[kind].get(bits(7, 3)), _KINDS[kind].get(bits(10, 3))
    rows, columns = bits(24, 5) << 4, bits(17, 6) << 3
    sums = {"kind::i8": ("s32",), "kind::tf32": ("f32",)}.get(kind, ("f16", "f32"))
    accepted = tuple(count * (1 + pair) for count in (_SMALL_ROWS, _ROWS))
    step = 32 if pair and rows == accepted[0] else 8 if rows == _SMALL_ROWS else 16
    if td is None or ta is None or tb is None or td not in sums:
        if kind == "kind::f8f6f4" and bits(7, 3) in {3, 4, 5} | set(_KINDS[kind]):
            raise unsupported(site.operands.instruction, "factors of 4 or 6 bits")
        why = f"types {bits(4, 2)}, {bits(7, 3)}, {bits(10, 3)} of D, A and B"
    elif rows not in accepted or columns % step or not 0 < columns <= _MOST_COLUMNS:
        counts = " and ".join(map(str, accepted))
        why = f"{rows} rows and {columns} columns; accepted are {counts} rows, and columns in steps of {step} to 256"
    else:
        depth = _K_BYTES * 8 // elements.BITS[ta]
        turned = (bool(bits(15, 1)), bool(bits(16, 1)))
        signs = (1 - 2 * bits(13, 1), 1 - 2 * bits(14, 1))
        return Product(rows, columns, depth, (td, ta, tb, td), signs, turned, bool(bits(3, 1)), 1 + pair)
    detail = f"the instruction descriptor {code:#010x} has {why}, which {kind} does not have"
    site.findings.add("tensor-memory-misuse", site.position, detail, np.array([thread]))
    return None


class _Asked:
    """A product that a thread asks for."""

    def __init__(self, site: Site, form: Product, thread: int, *, from_tensor: bool) -> None:
        self._site, self._form, self._thread, self._from_tensor = site, form, thread, from_tensor
        own = int(site.batch.block_of[thread])
        self._blocks = tuple(range(own - own % form.blocks, own - own % form.blocks + form.blocks))
        self._cells: dict[int, list[Indices]] = {block: [np.zeros(0, np.int64)] for block in self._blocks}
        self._who: dict[int, list[Indices]] = {block: [np.zeros(0, np.int64)] for block in self._blocks}

    def execute(self, d: int, a: int, b: int, *, adds: bool, scale: int) -> None:
        """Multiply, and write D.

        Args:
            d: Address of D in tensor memory.
            a: Address of A there, or its matrix descriptor.
            b: The matrix descriptor of B.
            adds: Add to what D holds.
            scale: What D holds is divided by two to this power before.
        """
        site, form, threads = self._site, self._form, np.array([self._thread])
        areas = [form.area(block, d & 0xFFFF) for block in self._blocks]
        if d >> 16:
            detail = f"D begins at lane {d >> 16} of tensor memory; accepted is 0"
            site.findings.add("tensor-memory-misuse", site.position, detail, threads)
            return
        if not all(site.tensor.within(site.position, area, threads) for area in areas):
            return
        first = self._joined(self._tensor_factor if self._from_tensor else self._first, a)
        second = self._joined(self._second, b)
        if first is None or second is None:
            return
        td = form.types[0]
        before = np.zeros((form.rows, form.columns))
        if adds:
            held = [site.tensor.held(site.position, area, self._thread) for area in areas]
            before = np.concatenate([form.taken_out(_decoded(cells, td)) for cells in held]) * 2.0**-scale
        total = multiply_add(
            first[None] * form.signs[0], second.T[None] * form.signs[1], before[None], form.types, "tcgen05"
        )
        if td == "s32":
            total = narrowed(total, saturate=form.saturate)
        for area, part in zip(areas, np.split(total[0], form.blocks), strict=True):
            site.tensor.write(area, _encoded(form.laid_out(part), td))
            cells, who = np.concatenate(self._cells[area.block]), np.concatenate(self._who[area.block])
            site.tensor.begin(site.position, area, self._thread, cells, who)

    def _joined(self, fetch: Callable[[int, int], Doubles | None], word: int) -> Doubles | None:
        """Return the parts of a factor in all blocks, one behind another; None where one is not there."""
        parts = [fetch(block, word) for block in self._blocks]
        there = [part for part in parts if part is not None]
        return np.concatenate(there) if len(there) == len(parts) else None

    def _tensor_factor(self, block: int, address: int) -> Doubles | None:
        """Return A from tensor memory, where elements are packed; None where it is not allocated."""
        form, site = self._form, self._site
        if form.halves > 1:
            raise unsupported(site.operands.instruction, "A of 64 rows of a block of a pair in tensor memory")
        columns = form.depth * elements.BITS[form.types[1]] // elements.REGISTER_BITS
        area = Area(block, form.lanes, address & 0xFFFF, columns)
        if not site.tensor.within(site.position, area, np.array([self._thread])):
            return None
        return elements.decode(np.ascontiguousarray(site.tensor.held(site.position, area, self._thread)), form.types[1])

    def _first(self, block: int, word: int) -> Doubles | None:
        return self._factor(block, word, 1)

    def _second(self, block: int, word: int) -> Doubles | None:
        return self._factor(block, word, 2)

    def _factor(self, block: int, word: int, number: int) -> Doubles | None:
        """Return a block's rows of A or columns of B, (count, depth), by a descriptor; None where that is wrong."""
        site, form = self._site, self._form
        t, turned = form.types[number], form.turned[number - 1]
        rows = (form.rows if number == 1 else form.columns) // form.blocks
        found = self._descriptor(word, "AB"[number - 1])
        if found is None:
            return None
        width = elements.BITS[t]
        if turned and width == 32:  # noqa: PLR2004  bits
            raise unsupported(site.operands.instruction, "tf32 that is contiguous along m or n")
        if turned:
            offsets = descriptors.across_k(found, form.depth, rows * width // (8 * PIECE))
        else:
            offsets = descriptors.along_k(found, rows, form.depth * width // (8 * PIECE))
        values = self._load(block, offsets[0])
        if values is None:
            return None
        decoded = elements.decode(np.ascontiguousarray(values).view(np.uint32), t)
        return decoded.T if turned else decoded

    def _descriptor(self, word: int, name: str) -> Descriptors | None:
        found = descriptors.decode_tcgen05(word)
        if found is None:
            detail = (
                f"the matrix descriptor {word:#018x} of {name} is not one of tcgen05: bits 46 to 48 are 0b001, bits "
            )
            detail += "53 to 60 zero, and bits 61 to 63 one of 0, 2, 4 and 6"
            self._site.findings.add("tensor-memory-misuse", self._site.position, detail, np.array([self._thread]))
        return found

    def _load(self, block: int, offsets: Addresses) -> np.ndarray | None:
        """Return the bytes of (lines, pieces) pieces of a block's shared memory, (lines, bytes), checked."""
        site, shared = self._site, self._site.memory.shared
        threads = np.array([self._thread])
        if offsets.size and int(offsets.max()) > shared.size - PIECE:
            detail = (
                f"tcgen05.mma of {PIECE} bytes at offset {int(offsets.max())} of {shared.name} ({shared.size} bytes)"
            )
            site.findings.add("out-of-bounds", site.position, detail, threads, address=int(offsets.max()))
            return None
        places = offsets + block * shared.stride
        shadow = site.memory.watch.shadow
        if shadow is not None:
            read = shadow.begin_async_read(
                places.reshape(1, -1), PIECE, threads, site.position, description="tcgen05.mma"
            )
            least = np.full(len(read.reader), offsets.min())
            site.memory.watch.report_shared(site.position, read.who, least, read.found)
            self._cells[block].append(read.cells)
            self._who[block].append(read.who)
        values = shared.data[places[..., None] + np.arange(PIECE)]
        return np.asarray(values).reshape(len(offsets), -1)


def _decoded(raw: np.ndarray, t: str) -> Doubles:
    """Return the elements of D, one in a column."""
    if t == "f16":
        return np.ascontiguousarray(raw).astype(np.uint16).view(np.float16).astype(np.float64)
    return elements.decode(np.ascontiguousarray(raw), t)


def _encoded(values: Doubles, t: str) -> np.ndarray:
    if t == "f16":
        return np.asarray(values.astype(np.float16).view(np.uint16).astype(np.uint32))
    return np.asarray(elements.encode(np.ascontiguousarray(values), t))
