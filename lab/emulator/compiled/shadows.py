"""Shadow state of machine code, which detects possible races and reads of unwritten memory.

The check is conservative. If an access is suspicious, the interpreter executes the launch and reports the fault, if
there is one. Each granule of memory has a 32-bit cell.

Shared memory has two cells for each granule: the latest write and the latest reads. A stamp is a time (`TIME_SHIFT`),
two flags and the thread of the block. The time advances at each block barrier and each `__syncwarp` of a whole warp. An
access is ordered after another one if that was before the block's last barrier, or by the same thread, or by the same
warp before its last `__syncwarp`. Data written by cp.async also has the number of its group.

Global memory has one cell: untouched, one reader, one writer, several readers, or atomics only. Barriers do not order
it: two threads at the same address, one of which writes, are suspicious. Each worker has its own cells, which are
compared at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.emulator.compiled import layout, patterns
from lab.emulator.compiled.ir import LANES, Code, lanes_of, splat, words
from lab.emulator.program import Place

TIME_SHIFT = 12
"""The number of bits of a stamp below its time."""

LAST_TIME = (1 << (32 - TIME_SHIFT)) - 2
"""The latest time a stamp can hold."""

OUTSIDE, SEVERAL = 1 << 11, 1 << 10
"""Flags of a stamp: for a write, atomics; for reads, threads of several warps; and several threads of one warp."""

_THREAD, _WARP = (1 << TIME_SHIFT) - 1, OUTSIDE | 0x3E0
WRITTEN, MANY = 1 << 31, 1 << 30
"""Flags of a global-memory cell: written; several threads, which with `WRITTEN` means atomics only."""

MOST_THREADS = MANY - 2
"""The largest number of threads that global-memory cells can distinguish."""

_ATOMICS = WRITTEN | MANY
_BITS = 32

Cells32 = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Watched:
    """The check parameters of a launch.

    Attributes:
        shared: Bytes of a granule of shared memory.
        global_: Bytes of a granule of global memory.
        copies: The kernel has cp.async.
        extents: The shared variable each instruction's address derives from, by position.
    """

    shared: int
    global_: int
    copies: bool
    extents: Mapping[int, Place]

    def granule(self, space: str) -> int:
        """Return the granule of a space in bytes."""
        return self.shared if space == "shared" else self.global_


def name_of(kind: str, space: str, cells: int) -> str:
    """Return the name of the check function of a `load`, `store` or `atomic` of some cells per lane."""
    return f"@watch_{kind}_{space}_{cells}"


def watch(kind: str, space: str, cells: int, granule: int, *, copies: bool) -> str:
    """Return the IR of a function that checks an access.

    It takes the context, the warp's state and number, the pattern, the first lane's offset, the lanes, the pattern's
    kind, the cp.async group (0 for other accesses), the buffer's cells, and whether the buffer must be written
    before it is read. It returns 0, or `layout.FAULT` if the access is suspicious.

    Args:
        kind: `load`, `store` or `atomic`.
        space: `shared` or `global`.
        cells: Cells that each lane accesses.
        granule: Bytes of a cell: 1, 2 or 4.
        copies: The kernel has cp.async.
    """
    return _Watch(kind, space, cells, granule, copies=copies).write()


class _Watch:
    """Generates one check function."""

    def __init__(self, kind: str, space: str, cells: int, granule: int, *, copies: bool) -> None:
        self._kind, self._shared, self._cells = kind, space == "shared", cells
        self._copies = copies and self._shared
        self._scale = {4: 0, 2: 1, 1: 2}[granule]
        self._space = space
        self._code = Code()

    def write(self) -> str:
        code = self._code
        code.lines.append(
            f"define internal i32 {name_of(self._kind, self._space, self._cells)}(ptr %context, ptr %state, i32 %warp, "
            "ptr %rec, i64 %off0, i32 %mask, i32 %kind, i32 %group, ptr %cells, i1 %unwritten) noinline #0 {"
        )
        code.label("entry")
        self._begin()
        if self._kind == "store":
            leaders = code.field("%rec", patterns.LEADERS, "i32")
            apart = code.op(f"icmp eq i32 {leaders}, %mask")
            code.do(f"br i1 {apart}, label %distinct, label %suspect")
            code.label("distinct")
        narrow = self._cells == 1
        same_case = f"i32 {patterns.SAME}, label %rows" if narrow else ""
        default = "lanes" if narrow else "rows"
        code.do(f"switch i32 %kind, label %{default} [ i32 {patterns.CONTIGUOUS}, label %run {same_case} ]")
        code.label("run")
        self._write_run()
        if narrow:
            code.label("lanes")
            self._write_lanes()
        code.label("rows")
        self._write_rows()
        code.label("fine")
        code.do("ret i32 0")
        code.label("suspect")
        code.set_field("%context", layout.CONTEXT["suspects"], "i64", "1", 8)
        code.do(f"ret i32 {layout.FAULT}")
        code.lines.append("}")
        return "\n".join(code.lines)

    def _begin(self) -> None:
        """Emit the loads of values common to all lanes."""
        code = self._code
        offset = code.op(f"shl i64 %off0, {self._scale}") if self._scale else "%off0"
        names = ["%cells"]
        if self._shared:
            names = [code.field("%context", layout.CONTEXT[name], "ptr", 8) for name in ("writes", "reads")]
        if self._copies:
            names.append(code.field("%context", layout.CONTEXT["pending"], "ptr", 8))
        self._at = [code.op(f"getelementptr i8, ptr {name}, i64 {offset}") for name in names]
        first = code.op("shl i32 %warp, 5")
        if self._shared:
            self._time, self._since, self._begun, self._visible = (
                code.field("%context", layout.CONTEXT[name], "i32") for name in ("time", "since", "begun", "visible")
            )
            self._met = code.field("%state", layout.MET, "i32")
        else:
            first = code.op(f"add i32 {first}, {code.field('%context', layout.CONTEXT['first'], 'i32')}")
        self._first = first
        self._alone = code.field("%rec", patterns.ALONE, "i32") if self._kind == "load" else "0"

    # --- three access patterns --------------------------------------------------------------------------------

    def _write_run(self) -> None:
        """Emit the check of contiguous cells, `cells` of them per lane."""
        code, n, type_ = self._code, self._cells, words(_BITS)
        shift = n.bit_length() - 1
        bad = "zeroinitializer"
        for chunk in range(n):
            numbers = [(LANES * chunk + i) >> shift for i in range(LANES)]
            ids = code.op(f"add {type_} {self._spread(self._first, LANES)}, {lanes_of(numbers)}")
            places = [code.op(f"getelementptr i8, ptr {at}, i64 {4 * LANES * chunk}") for at in self._at]
            contents = [code.op(f"load {type_}, ptr {place}, align 4") for place in places]
            fresh, wrong = self._judge(contents, ids, "splat (i1 true)", LANES)
            for place, value in zip(places, fresh, strict=True):
                if value:
                    code.do(f"store {type_} {value}, ptr {place}, align 4")
            bad = code.op(f"or <{LANES} x i1> {bad}, {wrong}")
        self._finish(code.bits(bad))

    def _write_lanes(self) -> None:
        """Emit the check of one scattered cell per lane."""
        code, type_ = self._code, words(_BITS)
        mask = code.mask("%mask")
        ids = code.op(f"add {type_} {self._spread(self._first, LANES)}, {lanes_of(range(LANES))}")
        deltas = code.op(f"load {type_}, ptr %rec, align 128")
        if self._scale:
            deltas = code.op(f"shl {type_} {deltas}, {splat(self._scale, _BITS)}")
        pointers = f"<{LANES} x ptr>"
        places = [code.op(f"getelementptr i8, ptr {at}, {type_} {deltas}") for at in self._at]
        name = f"v{LANES}i{_BITS}.v{LANES}p0"
        contents = [
            code.op(
                f"call {type_} @llvm.masked.gather.{name}({pointers} align 4 {place}, <{LANES} x i1> splat (i1 true), "
                f"{type_} zeroinitializer)"
            )
            for place in places
        ]
        fresh, wrong = self._judge(contents, ids, code.mask(self._alone), LANES)
        wrong = code.op(f"and <{LANES} x i1> {wrong}, {mask}")
        for place, value in zip(places, fresh, strict=True):
            if value:
                code.do(
                    f"call void @llvm.masked.scatter.{name}({type_} {value}, {pointers} align 4 {place}, "
                    f"<{LANES} x i1> {mask})"
                )
        self._finish(code.bits(wrong))

    def _write_rows(self) -> None:
        """Emit the check of rows of cells, one per accessed address."""
        code, n = self._code, self._cells
        leaders = code.field("%rec", patterns.LEADERS, "i32")
        before = code.fresh("before")
        code.do(f"br label %{before}")
        code.label(before)
        code.do("br label %each")
        code.label("each")
        code.do(f"%left = phi i32 [ {leaders}, %{before} ], [ %left1, %next ]")
        code.do("%lane = call i32 @llvm.cttz.i32(i32 %left, i1 true)")
        code.do("%less = sub i32 %left, 1")
        code.do("%left1 = and i32 %left, %less")
        delta = code.op(f"load i32, ptr {code.op('getelementptr i32, ptr %rec, i32 %lane')}")
        if self._scale:
            delta = code.op(f"shl i32 {delta}, {self._scale}")
        places = [code.op(f"getelementptr i8, ptr {at}, i32 {delta}") for at in self._at]
        type_ = f"<{n} x i32>"
        contents = [code.op(f"load {type_}, ptr {place}, align 4") for place in places]
        ids = self._spread(code.op(f"add i32 {self._first}, %lane"), n)
        single = code.op(f"trunc i32 {code.op(f'lshr i32 {self._alone}, %lane')} to i1")
        fresh, wrong = self._judge(contents, ids, self._spread(single, n, "i1"), n)
        for place, value in zip(places, fresh, strict=True):
            if value:
                code.do(f"store {type_} {value}, ptr {place}, align 4")
        hit = code.op(f"bitcast <{n} x i1> {wrong} to i{n}")
        code.do(f"br i1 {code.op(f'icmp eq i{n} {hit}, 0')}, label %next, label %suspect")
        code.label("next")
        code.do(f"br i1 {code.op('icmp ne i32 %left1, 0')}, label %each, label %fine")

    def _finish(self, bad: str) -> None:
        code = self._code
        code.do(f"br i1 {code.op(f'icmp eq i32 {bad}, 0')}, label %fine, label %suspect")

    # --- verdicts --------------------------------------------------------------------------------------------

    def _spread(self, value: str, n: int, of: str = "i32") -> str:
        code = self._code
        first_lane = code.op(f"insertelement <{n} x {of}> poison, {of} {value}, i32 0")
        return code.op(f"shufflevector <{n} x {of}> {first_lane}, <{n} x {of}> poison, <{n} x i32> zeroinitializer")

    def _judge(self, contents: list[str], ids: str, alone: str, n: int) -> tuple[list[str], str]:
        """Emit the verdict on n cells.

        Args:
            contents: The cells' contents: writes and reads, and groups of copies; or one cell of global memory.
            ids: The thread of each.
            alone: Whether it is the only thread of the access at its address.
            n: Cells.

        Returns:
            The cells' new contents, empty where unchanged; and the mask of suspicious cells.
        """
        if not self._shared:
            return self._judge_global(contents[0], ids, alone, n)
        code, type_ = self._code, f"<{n} x i32>"

        def op(text: str) -> str:
            return code.op(text)

        def and_masks(a: str, b: str) -> str:
            return op(f"and <{n} x i1> {a}, {b}")

        def either(a: str, b: str) -> str:
            return op(f"or <{n} x i1> {a}, {b}")

        def equal_bits(value: str, bits: int) -> str:
            difference = op(f"and {type_} {op(f'xor {type_} {value}, {ids}')}, splat (i32 {bits})")
            return op(f"icmp eq {type_} {difference}, zeroinitializer")

        write, reads = contents[0], contents[1]
        since, block_start, warp_meeting = (self._spread(value, n) for value in (self._since, self._begun, self._met))
        now = self._spread(self._time, n)
        mine = op(f"or {type_} {now}, {ids}")

        def ordered(stamp: str) -> str:
            early = op(f"icmp ult {type_} {stamp}, {since}")
            near = and_masks(equal_bits(stamp, _WARP), op(f"icmp ult {type_} {stamp}, {warp_meeting}"))
            return either(early, either(equal_bits(stamp, _THREAD), near))

        is_written = op(f"icmp uge {type_} {write}, {block_start}")
        fresh = ["", ""]
        if self._kind == "load":
            good = and_masks(is_written, ordered(write))
            early = op(f"icmp ult {type_} {reads}, {since}")
            near = equal_bits(reads, _WARP)
            warp = op(f"and {type_} {mine}, splat (i32 {~_THREAD | 0x3E0})")
            several = op(f"or {type_} {warp}, splat (i32 {SEVERAL})")
            own = op(f"select <{n} x i1> {alone}, {type_} {mine}, {type_} {several}")
            old = op(f"icmp ult {type_} {reads}, {warp_meeting}")
            differs = op(f"and {type_} {op(f'xor {type_} {reads}, {own}')}, splat (i32 {_THREAD})")
            keeps = either(old, op(f"icmp eq {type_} {differs}, zeroinitializer"))
            inside = op(f"select <{n} x i1> {keeps}, {type_} {own}, {type_} {several}")
            many_warps = op(f"or {type_} {now}, splat (i32 {OUTSIDE})")
            later = op(f"select <{n} x i1> {near}, {type_} {inside}, {type_} {many_warps}")
            fresh[1] = op(f"select <{n} x i1> {early}, {type_} {own}, {type_} {later}")
        elif self._kind == "store":
            good = and_masks(ordered(write), ordered(reads))
            fresh[0] = mine
        else:
            flags = op(f"and {type_} {write}, splat (i32 {OUTSIDE})")
            atomics = op(f"icmp ne {type_} {flags}, zeroinitializer")
            early = op(f"icmp ult {type_} {write}, {since}")
            unread = op(f"icmp ult {type_} {reads}, {since}")
            good = and_masks(is_written, and_masks(unread, either(early, atomics)))
            fresh[0] = op(f"or {type_} {now}, splat (i32 {OUTSIDE})")
        if self._copies:
            good = and_masks(good, op(f"icmp ule {type_} {contents[2]}, {self._spread(self._visible, n)}"))
            fresh.append(self._groups(contents[2], n) if self._kind == "store" else "")
        return fresh, op(f"xor <{n} x i1> {good}, splat (i1 true)")

    def _groups(self, old_groups: str, n: int) -> str:
        """Return the copy groups of cells after a store."""
        code, type_ = self._code, f"<{n} x i32>"
        plain = self._spread(code.op("icmp eq i32 %group, 0"), n, "i1")
        return code.op(f"select <{n} x i1> {plain}, {type_} {old_groups}, {type_} {self._spread('%group', n)}")

    def _judge_global(self, cell: str, ids: str, alone: str, n: int) -> tuple[list[str], str]:
        code, type_, flags = self._code, f"<{n} x i32>", f"<{n} x i1>"
        written_bit = f"splat (i32 {WRITTEN - (1 << 32)})"

        def equal(a: str, b: str) -> str:
            return code.op(f"icmp eq {type_} {a}, {b}")

        nobody = equal(cell, "zeroinitializer")
        as_written = code.op(f"or {type_} {ids}, {written_bit}")
        required = self._spread("%unwritten", n, "i1")
        if self._kind == "load":
            is_written = code.op(f"icmp slt {type_} {cell}, zeroinitializer")
            mine = equal(cell, as_written)
            free = code.op(f"{'xor'} {flags} {code.op(f'or {flags} {is_written}, {required}')}, splat (i1 true)")
            good = code.op(f"or {flags} {mine}, {free}")
            single = code.op(f"and {flags} {alone}, {code.op(f'or {flags} {nobody}, {equal(cell, ids)}')}")
            readers = code.op(f"select {flags} {single}, {type_} {ids}, {type_} splat (i32 {MANY})")
            fresh = code.op(f"select {flags} {is_written}, {type_} {cell}, {type_} {readers}")
        elif self._kind == "store":
            good = code.op(f"or {flags} {nobody}, {equal(code.op(f'or {type_} {cell}, {written_bit}'), as_written)}")
            fresh = as_written
        else:
            atomics = f"splat (i32 {_ATOMICS - (1 << 32)})"
            free = code.op(f"and {flags} {nobody}, {code.op(f'xor {flags} {required}, splat (i1 true)')}")
            good = code.op(f"or {flags} {free}, {equal(cell, atomics)}")
            fresh = code.op(f"or {type_} zeroinitializer, {atomics}")
        return [fresh], code.op(f"xor {flags} {good}, splat (i1 true)")


def meet(first: Cells32, second: Cells32) -> bool:
    """Return whether threads of two workers may race, from each worker's cells of the same global memory."""
    touched = np.flatnonzero((first != 0) & (second != 0))
    a, b = first[touched], second[touched]
    return bool((((a | b) & np.uint32(WRITTEN) != 0) & ~((a == _ATOMICS) & (b == _ATOMICS))).any())
