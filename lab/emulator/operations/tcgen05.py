"""tcgen05: tensor memory, and products of matrices into it that one thread asks for.

What is executed: blocks of their own (cta_group::1), dense products of the kinds f16, tf32, f8f6f4 (8-bit factors) and
i8 with the factors in shared memory, the first one in tensor memory too; loads and stores of the shape 32x32b. How an
instruction rounds was not compared with hardware: the rules are those of wgmma, with sums of float32 for 8-bit floats.

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
from lab.emulator.memory.peers import in_cluster, peer_rows
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
    """What an instruction descriptor says of a product.

    Attributes:
        rows: Rows of A and D.
        columns: Columns of B and D.
        depth: Columns of A.
        types: PTX types of D, A, B and C.
        signs: Those of A and B, 1 or -1.
        turned: Whether A and B in shared memory are contiguous along m and n.
        saturate: Clamp integers.
    """

    rows: int
    columns: int
    depth: int
    types: tuple[str, str, str, str]
    signs: tuple[int, int]
    turned: tuple[bool, bool]
    saturate: bool

    @property
    def lanes(self) -> tuple[int, ...]:
        """The lane of tensor memory of each row of D: 64 rows take 16 lanes of each quarter."""
        row = np.arange(self.rows)
        each = self.rows // WARPS
        return tuple((row % each + row // each * (LANES // WARPS)).tolist())


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
    op.one_of(("cta_group::1",))
    if kind == "mma":
        return _multiply(site, op)
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
    peers = op.flag("shared::cluster")
    if op.flag("multicast::cluster"):
        raise UnknownForm("a commit to mbarriers of several blocks")
    op.one_of(("b64",))
    op.finish()
    address, mbarriers, tensor, batch = (
        site.operands.address(site.texts[0], "shared"),
        site.mbarriers,
        site.tensor,
        site.batch,
    )

    def run(lanes: Lanes) -> None:
        at, rows = address(lanes), None
        if peers and in_cluster(batch, at).all():
            at, rows = peer_rows(batch, at, lanes)
        named = mbarriers.name(site.position, at, lanes, blocks=rows)
        phases = mbarriers.phases(named)
        for thread, number, phase in zip(named.threads.tolist(), named.numbers.tolist(), phases.tolist(), strict=True):
            tensor.commit(thread, number, phase)
        ones = np.ones(len(named.threads), np.int64)
        mbarriers.arrive(site.position, named, ones, ones * 0)

    return run


def _multiply(site: Site, op: Opcode) -> Run:
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
            form = _form(site, kind, int(codes[i]), thread)
            if form is not None:
                asked = _Asked(site, form, thread, from_tensor=from_tensor)
                asked.execute(int(d[i]), int(a[i]), int(b[i]), adds=bool(added[i]), scale=scale)

    return run


def _form(site: Site, kind: str, code: int, thread: int) -> Product | None:
    """Decode an instruction descriptor; None, and a finding, where the kind has no such product."""

    def bits(first: int, count: int) -> int:
        return code >> first & ((1 << count) - 1)

    if bits(2, 1):
        raise unsupported(site.operands.instruction, "a sparse product")
    td, ta, tb = _SUMS.get(bits(4, 2)), _KINDS[kind].get(bits(7, 3)), _KINDS[kind].get(bits(10, 3))
    rows, columns = bits(24, 5) << 4, bits(17, 6) << 3
    sums = {"kind::i8": ("s32",), "kind::tf32": ("f32",)}.get(kind, ("f16", "f32"))
    step = 8 if rows == _SMALL_ROWS else 16
    if ta is None or tb is None or td not in sums:
        if kind == "kind::f8f6f4" and bits(7, 3) in {3, 4, 5} | set(_KINDS[kind]):
            raise unsupported(site.operands.instruction, "factors of 4 or 6 bits")
        why = f"types {bits(4, 2)}, {bits(7, 3)}, {bits(10, 3)} of D, A and B"
    elif rows not in (_SMALL_ROWS, _ROWS) or columns % step or not 0 < columns <= _MOST_COLUMNS:
        why = f"{rows} rows and {columns} columns; accepted are 64 and 128 rows, and 8 or 16 to 256 columns"
    else:
        depth = _K_BYTES * 8 // elements.BITS[ta]
        turned = (bool(bits(15, 1)), bool(bits(16, 1)))
        signs = (1 - 2 * bits(13, 1), 1 - 2 * bits(14, 1))
        return Product(rows, columns, depth, (td, ta, tb, td), signs, turned, bool(bits(3, 1)))
    detail = f"the instruction descriptor {code:#010x} has {why}, which {kind} does not have"
    site.findings.add("tensor-memory-misuse", site.position, detail, np.array([thread]))
    return None


class _Asked:
    """A product that a thread asks for."""

    def __init__(self, site: Site, form: Product, thread: int, *, from_tensor: bool) -> None:
        self._site, self._form, self._thread, self._from_tensor = site, form, thread, from_tensor
        self._block = int(site.batch.block_of[thread])
        self._cells: list[Indices] = []
        self._who: list[Indices] = []

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
        area = Area(self._block, form.lanes, d & 0xFFFF, form.columns)
        if d >> 16:
            detail = f"D begins at lane {d >> 16} of tensor memory; accepted is 0"
            site.findings.add("tensor-memory-misuse", site.position, detail, threads)
            return
        if not site.tensor.within(site.position, area, threads):
            return
        first = self._tensor_factor(a) if self._from_tensor else self._factor(a, 1)
        second = self._factor(b, 2)
        if first is None or second is None:
            return
        td = form.types[0]
        before = np.zeros((form.rows, form.columns))
        if adds:
            before = _decoded(site.tensor.held(site.position, area, self._thread), td) * 2.0**-scale
        total = multiply_add(
            first[None] * form.signs[0], second.T[None] * form.signs[1], before[None], form.types, "tcgen05"
        )
        if td == "s32":
            total = narrowed(total, saturate=form.saturate)
        site.tensor.write(area, _encoded(total[0], td))
        empty = np.zeros(0, np.int64)
        cells = np.concatenate(self._cells) if self._cells else empty
        site.tensor.begin(site.position, area, self._thread, cells, np.concatenate(self._who) if self._who else empty)

    def _tensor_factor(self, address: int) -> Doubles | None:
        """Return A from tensor memory, where elements are packed; None where it is not allocated."""
        form, site = self._form, self._site
        columns = form.depth * elements.BITS[form.types[1]] // elements.REGISTER_BITS
        area = Area(self._block, form.lanes, address & 0xFFFF, columns)
        if not site.tensor.within(site.position, area, np.array([self._thread])):
            return None
        return elements.decode(np.ascontiguousarray(site.tensor.held(site.position, area, self._thread)), form.types[1])

    def _factor(self, word: int, number: int) -> Doubles | None:
        """Return A or B from shared memory, (rows or columns, depth); None where its descriptor is wrong."""
        site, form = self._site, self._form
        t, turned = form.types[number], form.turned[number - 1]
        rows = form.rows if number == 1 else form.columns
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
        values = self._load(offsets[0])
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

    def _load(self, offsets: Addresses) -> np.ndarray | None:
        """Return the bytes of (lines, pieces) pieces of shared memory, (lines, bytes), checked."""
        site, shared = self._site, self._site.memory.shared
        threads = np.array([self._thread])
        if offsets.size and int(offsets.max()) > shared.size - PIECE:
            detail = (
                f"tcgen05.mma of {PIECE} bytes at offset {int(offsets.max())} of {shared.name} ({shared.size} bytes)"
            )
            site.findings.add("out-of-bounds", site.position, detail, threads, address=int(offsets.max()))
            return None
        places = offsets + int(shared.places(np.zeros(1, np.int64), threads)[0])
        shadow = site.memory.watch.shadow
        if shadow is not None:
            read = shadow.begin_async_read(places.reshape(1, -1), PIECE, threads, site.position, what="tcgen05.mma")
            least = np.full(len(read.reader), offsets.min())
            site.memory.watch.report_shared(site.position, read.who, least, read.found)
            self._cells.append(read.cells)
            self._who.append(read.who)
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
