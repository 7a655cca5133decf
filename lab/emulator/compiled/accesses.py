"""LLVM IR of a warp's loads, stores and atomics: one function for each kind of access.

A function returns 0, or `FAULT` where the interpreter must find the cause: an address out of bounds or misaligned,
or lanes in several buffers. Addresses of shared memory are (32,) i32 offsets, others (32,) i64 generic addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.emulator.compiled import patterns, shadows
from lab.emulator.compiled.ir import BITS_VECTOR, LANES, words
from lab.emulator.floats import NAN32
from lab.emulator.memory.memory import SEGMENT_SHIFT, WITHIN_SEGMENT
from lab.hardware.memory import CHUNK_BYTES

FAULT = 2
"""The return value of a rejected access."""

SITE_BYTES = patterns.WAYS * patterns.BYTES
"""Bytes of one instruction's patterns."""

SEGMENT_BYTES = 64
"""The size of a segment table entry: host address, size, counting flag, cells address and must-be-written flag."""

_V, _W = words(32), words(64)
_SPREAD = 0x9E3779B1
_EVERY = "splat (i1 true)"
_ROWS = 4  # elements of 32 bits in the widest access


def name_of(kind: str, space: str, bits: int, count: int, update: str = "") -> str:
    """Return the function name of an access: `load`, `store` or `atomic` of `count` elements of some bits."""
    return f"@{kind}_{space}_{bits}x{count}" + (f"_{update}" if update else "")


def unit_of(bits: int, count: int) -> tuple[int, int]:
    """Return the units an access moves, (bits, count): one unit where a register can hold all."""
    total = bits * count
    return (total, 1) if total <= 64 else ((32, 4) if bits < 64 else (64, 2))  # noqa: PLR2004  bits of an access


def _first_address(element: str) -> str:
    return f"""
  %low_bit = and i32 %mask, 1
  %has0 = icmp ne i32 %low_bit, 0
  br i1 %has0, label %direct, label %search
direct:
  %l0 = extractelement <{LANES} x {element}> %a, i32 0
  br label %begun
search:
  %fi = call i32 @llvm.cttz.i32(i32 %mask, i1 false)
  %l1 = extractelement <{LANES} x {element}> %a, i32 %fi
  br label %begun
begun:
  %lane0 = phi {element} [ %l0, %direct ], [ %l1, %search ]
  %s1 = insertelement <{LANES} x {element}> poison, {element} %lane0, i32 0
  %starts = shufflevector <{LANES} x {element}> %s1, <{LANES} x {element}> poison, {_V} zeroinitializer"""


@dataclass(frozen=True, slots=True)
class MovedBytes:
    """An access that has a generated function.

    Attributes:
        kind: `load`, `store` or `atomic`.
        space: `shared` or `global`.
        bits: Bits of an element.
        count: Elements per lane.
        granule: Cell size in bytes of a checked launch; 0 without checks.
        counted: An atomic's updates are counted.
    """

    kind: str
    space: str
    bits: int
    count: int
    granule: int = 0
    counted: bool = False

    @property
    def width(self) -> int:
        """The bytes of a lane's access."""
        return self.bits * self.count // 8

    @property
    def shared(self) -> bool:
        """Return whether the access is to shared memory."""
        return self.space == "shared"

    @property
    def cells(self) -> int:
        """The number of cells of a lane's access."""
        return max(1, self.width // max(1, self.granule))


def _watch(access: MovedBytes) -> str:
    """Return IR that checks for a suspicious access and continues at `moved`."""
    if not access.granule:
        return "\n  br label %moved\nmoved:"
    call = (
        f"call i32 {shadows.name_of(access.kind, access.space, access.cells)}(ptr %context, ptr %state, i32 %warp, "
        "ptr %rec, i64 %off0, i32 %mask, i32 %kind, i32 %group, "
    )
    if access.shared:
        return f"""
  %verdict = {call}ptr null, i1 false)
  %sound = icmp eq i32 %verdict, 0
  br i1 %sound, label %moved, label %fault
moved:"""
    return f"""
  %wq_ = getelementptr i8, ptr %entry_, i64 24
  %cells = load ptr, ptr %wq_, align 8
  %unwatched = icmp eq ptr %cells, null
  br i1 %unwatched, label %moved, label %watch
watch:
  %nq_ = getelementptr i8, ptr %entry_, i64 32
  %needs = load i64, ptr %nq_, align 8
  %unwritten = icmp ne i64 %needs, 0
  %verdict = {call}ptr %cells, i1 %unwritten)
  %sound = icmp eq i32 %verdict, 0
  br i1 %sound, label %moved, label %fault
moved:"""


def _pattern(access: MovedBytes, cost: int) -> str:
    """Return IR that finds or replaces the pattern and checks bounds; `%p0` is the first lane's address."""
    width, shared = access.width, access.shared
    missed = "@missed_atomic" if access.counted else "@missed"
    if shared:
        head = f"""{_first_address("i32")}
  %d = sub {_V} %a, %starts
  %off0 = zext i32 %lane0 to i64
  %rest = and i32 %lane0, 3"""
        different = f"%ne = icmp ne {_V} %cached, %d"
        miss = "br label %replace"
    else:
        head = f"""{_first_address("i64")}
  %d64 = sub {_W} %a, %starts
  %d = trunc {_W} %d64 to {_V}
  %off0 = and i64 %lane0, {WITHIN_SEGMENT}
  %rest64 = and i64 %lane0, 31
  %rest = trunc i64 %rest64 to i32
  %segment = lshr i64 %lane0, {SEGMENT_SHIFT}
  %somewhere = icmp ult i64 %segment, %segments
  br i1 %somewhere, label %placed, label %fault
placed:
  %eq_ = mul i64 %segment, {SEGMENT_BYTES}
  %entry_ = getelementptr i8, ptr %table, i64 %eq_
  %base = load ptr, ptr %entry_, align 8
  %sq_ = getelementptr i8, ptr %entry_, i64 8
  %size = load i64, ptr %sq_, align 8
  %cq_ = getelementptr i8, ptr %entry_, i64 16
  %counts = load i64, ptr %cq_, align 8"""
        different = f"%cached64 = sext {_V} %cached to {_W}\n  %ne = icmp ne {_W} %cached64, %d64"
        miss = f"""%cut = sext {_V} %d to {_W}
  %far = icmp ne {_W} %cut, %d64
  %far_b = bitcast {BITS_VECTOR} %far to i32
  %far_m = and i32 %far_b, %mask
  %too_far = icmp ne i32 %far_m, 0
  br i1 %too_far, label %fault, label %replace"""
    return f"""{head}
  %h1 = mul i32 %rest, 40503
  %h2 = xor i32 %h1, %mask
  %h3 = mul i32 %h2, {_SPREAD - (1 << 32)}
  %way = lshr i32 %h3, {32 - (patterns.WAYS - 1).bit_length()}
  %way_at = shl i32 %way, {patterns.BYTES.bit_length() - 1}
  %way64 = zext i32 %way_at to i64
  %rec = getelementptr i8, ptr %site, i64 %way64
  %cached = load {_V}, ptr %rec, align 128
  {different}
  %ne_b = bitcast {BITS_VECTOR} %ne to i32
  %ne_m = and i32 %ne_b, %mask
  %mq = getelementptr i8, ptr %rec, i64 {patterns.MASK}
  %mc = load i32, ptr %mq
  %mx = xor i32 %mc, %mask
  %rq = getelementptr i8, ptr %rec, i64 {patterns.REST}
  %rc = load i32, ptr %rq
  %rx = xor i32 %rc, %rest
  %or1 = or i32 %ne_m, %mx
  %or2 = or i32 %or1, %rx
  %hit = icmp eq i32 %or2, 0
  br i1 %hit, label %ready, label %miss, !prof !0
miss:
  {miss}
replace:
  call void {missed}(ptr %rec, {_V} %d, i32 %mask, i32 %rest, i32 {width}, i32 {cost})
  br label %ready
ready:
  %leastq = getelementptr i8, ptr %rec, i64 {patterns.LEAST}
  %least = load i32, ptr %leastq
  %least64 = sext i32 %least to i64
  %lo = add i64 %off0, %least64
  %mostq = getelementptr i8, ptr %rec, i64 {patterns.MOST}
  %most = load i32, ptr %mostq
  %most64 = sext i32 %most to i64
  %hi1 = add i64 %off0, %most64
  %hi = add i64 %hi1, {width}
  %under = icmp slt i64 %lo, {"%floor" if shared else "0"}
  %over = icmp sgt i64 %hi, %size
  %aq = getelementptr i8, ptr %rec, i64 {patterns.ALIGNMENT}
  %al = load i32, ptr %aq
  %al64 = zext i32 %al to i64
  %al0 = or i64 %al64, %off0
  %al1 = and i64 %al0, {width - 1}
  %crooked = icmp ne i64 %al1, 0
  %bad1 = or i1 %under, %over
  %bad2 = or i1 %bad1, %crooked
  %constant = icmp eq i64 {"1" if shared or access.kind == "load" else "%counts"}, 0
  %bad = or i1 %bad2, %constant
  br i1 %bad, label %fault, label %good
good:
  %hq = getelementptr i8, ptr %rec, i64 {patterns.HITS}
  %ho = load i64, ptr %hq
  %hn = add i64 %ho, {"1" if shared else "%counts"}
  store i64 %hn, ptr %hq
  %p0 = getelementptr i8, ptr %base, i64 %off0
  %kq = getelementptr i8, ptr %rec, i64 {patterns.KIND}
  %kind = load i32, ptr %kq{_watch(access)}"""


_FAULT = f"fault:\n  ret i32 {FAULT}\n}}\n"


def _arguments(access: MovedBytes) -> str:
    memory = "ptr %base, i64 %floor, i64 %size" if access.shared else "ptr %table, i64 %segments"
    watched = ", ptr %context, ptr %state, i32 %warp, i32 %group" if access.granule else ""
    watched += ", ptr %chunks" if access.counted else ""
    return f"{memory}, ptr %site, {_V if access.shared else _W} %a, i32 %mask{watched}"


def load(access: MovedBytes) -> str:
    """Return the IR of a load (bits and count as `unit_of` returns them) into `%out`."""
    bits, count = access.bits, access.count
    cost = patterns.SHARED_LOAD if access.shared else patterns.GLOBAL
    head = f"define internal i32 {name_of('load', access.space, bits, count)}({_arguments(access)}, ptr %out) #0 {{"
    body = _load_one(bits) if count == 1 else (_load_rows() if bits == 32 else _load_pairs())  # noqa: PLR2004  bits
    return f"{head}\nentry:{_pattern(access, cost)}\n{body}\n{_FAULT}"


def _gathered(bits: int, at: str = "%p0", out: str = "%gathered") -> str:
    """Return IR that gathers each lane's element by the pattern's deltas (0 for inactive lanes)."""
    ty = words(bits)
    if bits >= 32:  # noqa: PLR2004  what machines gather
        stem = out[1:]
        return f"""
  %{stem}_d = load {_V}, ptr %rec, align 128
  %{stem}_p = getelementptr i8, ptr {at}, {_V} %{stem}_d
  {out} = call {ty} @llvm.masked.gather.v{LANES}i{bits}.v{LANES}p0({words_of_pointers()} align {bits // 8} %{stem}_p, {
            BITS_VECTOR
        } {_EVERY}, {ty} zeroinitializer)"""
    lines, last = [], "poison"
    for lane in range(LANES):
        lines.append(f"""
  %gq{lane} = getelementptr i8, ptr %rec, i64 {4 * lane}
  %gd{lane} = load i32, ptr %gq{lane}
  %gp{lane} = getelementptr i8, ptr {at}, i32 %gd{lane}
  %gv{lane} = load i{bits}, ptr %gp{lane}
  %gr{lane} = insertelement {ty} {last}, i{bits} %gv{lane}, i32 {lane}""")
        last = f"%gr{lane}"
    return "".join(lines) + f"\n  {out} = or {ty} {last}, zeroinitializer"


def words_of_pointers() -> str:
    """Return the LLVM type of a warp's pointers."""
    return f"<{LANES} x ptr>"


def _load_one(bits: int) -> str:
    ty, width = words(bits), bits // 8
    return f"""
  switch i32 %kind, label %scattered [ i32 {patterns.CONTIGUOUS}, label %run
    i32 {patterns.SAME}, label %same ]
run:
  %r = load {ty}, ptr %p0, align {width}
  store {ty} %r, ptr %out, align 64
  ret i32 0
same:
  %one = load i{bits}, ptr %p0, align {width}
  %one1 = insertelement {ty} poison, i{bits} %one, i32 0
  %ones = shufflevector {ty} %one1, {ty} poison, {_V} zeroinitializer
  store {ty} %ones, ptr %out, align 64
  ret i32 0
scattered:{_gathered(bits)}
  store {ty} %gathered, ptr %out, align 64
  ret i32 0"""


def _load_pairs() -> str:
    return f"""
  %p8 = getelementptr i8, ptr %p0, i64 8
{_gathered(64, "%p0", "%g0")}
{_gathered(64, "%p8", "%g1")}
  store {_W} %g0, ptr %out, align 64
  %out1 = getelementptr i8, ptr %out, i64 {LANES * 8}
  store {_W} %g1, ptr %out1, align 64
  ret i32 0"""


def _load_rows() -> str:
    """Return IR that loads 16 bytes per lane, transposing rows of four elements within 128-bit parts."""
    lines = [
        f"""
  %is_same = icmp eq i32 %kind, {patterns.SAME}
  br i1 %is_same, label %same, label %rows
same:
  %row = load <4 x i32>, ptr %p0, align 16"""
    ]
    lines += [
        f"""
  %sv{j} = shufflevector <4 x i32> %row, <4 x i32> poison, {_V} splat (i32 {j})
  %so{j} = getelementptr i8, ptr %out, i64 {j * LANES * 4}
  store {_V} %sv{j}, ptr %so{j}, align 64"""
        for j in range(_ROWS)
    ]
    lines.append("\n  ret i32 0\nrows:")
    lines += [
        f"""
  %q{lane} = getelementptr i8, ptr %rec, i64 {4 * lane}
  %d{lane} = load i32, ptr %q{lane}
  %a{lane} = getelementptr i8, ptr %p0, i32 %d{lane}
  %r{lane} = load <4 x i32>, ptr %a{lane}, align 16"""
        for lane in range(LANES)
    ]
    lines += [_transposed(half) for half in range(2)]
    lines += [
        f"""
  %v{j} = shufflevector <16 x i32> %o0_{j}, <16 x i32> %o1_{j}, {_V} {_list(range(LANES))}
  %vo{j} = getelementptr i8, ptr %out, i64 {j * LANES * 4}
  store {_V} %v{j}, ptr %vo{j}, align 64"""
        for j in range(_ROWS)
    ]
    lines.append("\n  ret i32 0")
    return "".join(lines)


def _list(values: Sequence[int]) -> str:
    return "<" + ", ".join(f"i32 {value}" for value in values) + ">"


def _transposed(half: int) -> str:
    """Return IR that transposes 16 lanes' rows of four elements, from `%r…` to `%o{half}_0` … `%o{half}_3`."""
    first, lines = 16 * half, []
    for j in range(_ROWS):
        a, b, c, d = (first + j + 4 * quad for quad in range(4))
        stem = f"%m{half}_{j}"
        lines.append(f"""
  {stem}a = shufflevector <4 x i32> %r{a}, <4 x i32> %r{b}, <8 x i32> {_list(range(8))}
  {stem}b = shufflevector <4 x i32> %r{c}, <4 x i32> %r{d}, <8 x i32> {_list(range(8))}
  {stem} = shufflevector <8 x i32> {stem}a, <8 x i32> {stem}b, <16 x i32> {_list(range(16))}""")
    low = [i for c in range(4) for i in (4 * c, 16 + 4 * c, 4 * c + 1, 17 + 4 * c)]
    high = [i + 2 for i in low]
    low_pairs = [i for c in range(4) for i in (4 * c, 4 * c + 1, 16 + 4 * c, 17 + 4 * c)]
    high_pairs = [i + 2 for i in low_pairs]

    def shuffle(name: str, a: str, b: str, order: Sequence[int]) -> str:
        return f"\n  {name} = shufflevector <16 x i32> {a}, <16 x i32> {b}, <16 x i32> {_list(order)}"

    m, t, o = (f"%{letter}{half}_" for letter in "mto")
    lines += [
        shuffle(f"{t}0", f"{m}0", f"{m}1", low),
        shuffle(f"{t}1", f"{m}0", f"{m}1", high),
        shuffle(f"{t}2", f"{m}2", f"{m}3", low),
        shuffle(f"{t}3", f"{m}2", f"{m}3", high),
        shuffle(f"{o}0", f"{t}0", f"{t}2", low_pairs),
        shuffle(f"{o}1", f"{t}0", f"{t}2", high_pairs),
        shuffle(f"{o}2", f"{t}1", f"{t}3", low_pairs),
        shuffle(f"{o}3", f"{t}1", f"{t}3", high_pairs),
    ]
    return "".join(lines)


def store(access: MovedBytes) -> str:
    """Return the IR of a store (bits and count as `unit_of` returns them) of elements given as vectors."""
    bits, count = access.bits, access.count
    cost = patterns.SHARED_OTHER if access.shared else patterns.GLOBAL
    values = ", ".join(f"{words(bits)} %v{i}" for i in range(count))
    head = f"define internal i32 {name_of('store', access.space, bits, count)}({_arguments(access)}, {values}) #0 {{"
    body = _store_one(bits) if count == 1 else _store_rows(bits, count)
    return f"{head}\nentry:{_pattern(access, cost)}\n{body}\n{_FAULT}"


def _store_one(bits: int) -> str:
    ty, width = words(bits), bits // 8
    pointers = words_of_pointers()
    if bits >= 32:  # noqa: PLR2004  what machines scatter
        scatter = f"""
  %sd = load {_V}, ptr %rec, align 128
  %sp = getelementptr i8, ptr %p0, {_V} %sd
  %M = bitcast i32 %mask to {BITS_VECTOR}
  call void @llvm.masked.scatter.v{LANES}i{bits}.v{LANES}p0({ty} %v0, {pointers} align {width} %sp, {BITS_VECTOR} %M)
  ret i32 0"""
    else:
        scatter = f"""
  %buffer = alloca {ty}, align 64
  store {ty} %v0, ptr %buffer, align 64
{_store_each_lane(f"i{bits}", width)}"""
    return f"""
  %whole = icmp eq i32 %kind, {patterns.CONTIGUOUS}
  br i1 %whole, label %run, label %scattered
run:
  store {ty} %v0, ptr %p0, align {width}
  ret i32 0
scattered:{scatter}"""


def _each_lane(type_: str, width: int, predecessor: str, write: str) -> str:
    """Return IR that processes the active lanes' parts of `%buffer` one after another.

    Args:
        type_: The type of a part.
        width: Its alignment in bytes.
        predecessor: Label of the preceding block.
        write: The IR that uses `%part` and its address `%to`.
    """
    return f"""
  br label %each
each:
  %left = phi i32 [ %mask, %{predecessor} ], [ %left1, %each ]
  %lane = call i32 @llvm.cttz.i32(i32 %left, i1 false)
  %less = sub i32 %left, 1
  %left1 = and i32 %left, %less
  %dq = getelementptr i32, ptr %rec, i32 %lane
  %dv = load i32, ptr %dq
  %to = getelementptr i8, ptr %p0, i32 %dv
  %of = getelementptr {type_}, ptr %buffer, i32 %lane
  %part = load {type_}, ptr %of, align {width}
  {write}
  %more = icmp ne i32 %left1, 0
  br i1 %more, label %each, label %stored
stored:
  ret i32 0"""


def _store_each_lane(type_: str, width: int) -> str:
    return _each_lane(type_, width, "scattered", f"store {type_} %part, ptr %to, align {width}")


def _interleaved(bits: int, a: str, b: str, out: str, count: int) -> str:
    order = _list([i for k in range(count) for i in (k, count + k)])
    return f"\n  {out} = shufflevector <{count} x i{bits}> {a}, <{count} x i{bits}> {b}, <{2 * count} x i32> {order}"


def _store_rows(bits: int, count: int) -> str:
    row_type = f"<{LANES * count} x i{bits}>"
    if count == _ROWS:
        step = _interleaved(bits, "%v0", "%v2", "%even", LANES) + _interleaved(bits, "%v1", "%v3", "%odd", LANES)
        step += _interleaved(bits, "%even", "%odd", "%rows", 2 * LANES)
    else:
        step = _interleaved(bits, "%v0", "%v1", "%rows", LANES)
    return f"""
  %buffer = alloca {row_type}, align 64
{step}
  %whole = icmp eq i32 %kind, {patterns.CONTIGUOUS}
  br i1 %whole, label %run, label %scattered
run:
  store {row_type} %rows, ptr %p0, align 16
  ret i32 0
scattered:
  store {row_type} %rows, ptr %buffer, align 64
{_store_each_lane(f"<{count} x i{bits}>", 16)}"""


def atomic(access: MovedBytes, update: str) -> str:
    """Return the IR of an atomic operation without a result: `update` is its name in LLVM."""
    bits = access.bits
    cost = patterns.SHARED_OTHER if access.shared else patterns.GLOBAL
    head = (
        f"define internal i32 {name_of('atomic', access.space, bits, 1, update)}"
        f"({_arguments(access)}, {words(bits)} %v0) #0 {{"
    )
    write = f"%old = atomicrmw {update} ptr %to, i{bits} %part monotonic"
    if update == "fadd":
        write = _float_sum(bits, flush=not access.shared and bits == 32)  # noqa: PLR2004  PTX ISA, atom
    if access.counted and not access.shared:
        write += f"""
  %dv64 = sext i32 %dv to i64
  %place = add i64 %off0, %dv64
  %chunk = lshr i64 %place, {CHUNK_BYTES.bit_length() - 1}
  %chunk_at = getelementptr i8, ptr %chunks, i64 %chunk
  store i8 1, ptr %chunk_at"""
    update_each = _each_lane(f"i{bits}", bits // 8, "moved", write)
    return f"""{head}
entry:
  %buffer = alloca {words(bits)}, align 64
  store {words(bits)} %v0, ptr %buffer, align 64{_pattern(access, cost)}{update_each}
{_FAULT}"""


def _float_sum(bits: int, *, flush: bool) -> str:
    """Return IR that adds a float to memory, one lane after another; other cores are stopped."""
    float_ = "float" if bits == 32 else "double"  # noqa: PLR2004  bits of a single

    def flushed(name: str) -> str:
        if not flush:
            return ""
        return f"""
  %{name}_e = and i32 %{name}, 2139095040
  %{name}_t = icmp eq i32 %{name}_e, 0
  %{name}_s = and i32 %{name}, -2147483648
  %{name}_f = select i1 %{name}_t, i32 %{name}_s, i32 %{name}"""

    end = "_f" if flush else ""
    nan = f"""
  %is_nan = fcmp uno float %sum, %sum
  %bits1 = bitcast float %sum to i32
  %bits = select i1 %is_nan, i32 {NAN32}, i32 %bits1"""
    if float_ == "double":  # as the interpreter: sums of doubles keep their NaN
        nan = "\n  %bits = bitcast double %sum to i64"
    return f"""%old = load i{bits}, ptr %to, align {bits // 8}{flushed("old")}{flushed("part")}
  %a0 = bitcast i{bits} %old{end} to {float_}
  %b0 = bitcast i{bits} %part{end} to {float_}
  %sum = fadd {float_} %a0, %b0{nan}{flushed("bits")}
  store i{bits} %bits{end}, ptr %to, align {bits // 8}"""


DECLARATIONS = "".join(
    f"declare {words(bits)} @llvm.masked.gather.v{LANES}i{bits}.v{LANES}p0({words_of_pointers()}, {BITS_VECTOR}, "
    f"{words(bits)})\n"
    f"declare void @llvm.masked.scatter.v{LANES}i{bits}.v{LANES}p0({words(bits)}, {words_of_pointers()}, "
    f"{BITS_VECTOR})\n"
    for bits in (32, 64)
)
