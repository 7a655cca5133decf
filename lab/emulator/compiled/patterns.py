"""The pattern of a warp's access: its lanes' offsets from the first one, and the cost of such an access.

Each memory instruction caches a few patterns, chosen by its lanes and alignment. For an access with a cached pattern,
bounds, alignment, the way to move the bytes and the traffic follow from the pattern and the first address. The traffic
rules are those of `lab.hardware.memory`.
"""

from __future__ import annotations

from lab.base.warp import BANK_BYTES, BANKS, SECTOR_BYTES
from lab.emulator.compiled.ir import BITS_VECTOR, IOTA, LANES, lanes_of, words

WAYS = 8
"""The patterns cached per instruction."""

MASK, REST, KIND, ALIGNMENT, LEAST, MOST, WAVES, IDEAL = range(128, 160, 4)
"""Byte offsets of a pattern's i32 fields after the 32 deltas: lanes, alignment of the first address, kind, OR of the
deltas, the least and the largest delta, wavefronts or sectors, wavefronts without conflicts."""

HITS, TOTAL_WAVES, TOTAL_IDEAL, TOTAL_REQUESTS, TOTAL_LANES = range(160, 200, 8)
"""Byte offsets of the i64 fields: accesses with this pattern, and the cost of earlier patterns in its place."""

LEADERS, ALONE = 200, 204
"""Byte offsets of i32 fields for checked launches: the lowest lane at each address; lanes that share no address."""

UPDATES, TOTAL_UPDATES = 208, 216
"""Byte offsets of the fields of atomics, an i32 and an i64: serialised updates, and those of earlier patterns in its
place."""

BYTES = 256
"""The size of a pattern in bytes."""

SCATTERED, CONTIGUOUS, CONTIGUOUS_PART, SAME = range(4)
"""The kinds of patterns: scattered; contiguous over all lanes; contiguous over some lanes; all at one address."""

GLOBAL, SHARED_LOAD, SHARED_OTHER = range(3)
"""The cost model of an access: sectors or wavefronts."""

_V = words(32)
_TWICE = (8, 16)  # bytes of accesses whose phases can merge


def _xor_lanes(distance: int) -> str:
    return lanes_of([lane ^ distance for lane in range(LANES)])


def _agrees(distance: int) -> str:
    """Return IR that tests if every lane has its partner's address, or one of the two is inactive."""
    return f"""
  %p{distance} = shufflevector {_V} %d, {_V} poison, {_V} {_xor_lanes(distance)}
  %m{distance} = shufflevector {BITS_VECTOR} %M, {BITS_VECTOR} poison, {_V} {_xor_lanes(distance)}
  %ne{distance} = icmp ne {_V} %d, %p{distance}
  %b{distance} = and {BITS_VECTOR} %M, %m{distance}
  %c{distance} = and {BITS_VECTOR} %ne{distance}, %b{distance}
  %i{distance} = bitcast {BITS_VECTOR} %c{distance} to i32
  %a{distance} = icmp eq i32 %i{distance}, 0"""


def _flush(total: str, offset: int, per_hit: str) -> str:
    return f"""
  %zq{total} = getelementptr i8, ptr %rec, i64 {offset}
  %zo{total} = load i64, ptr %zq{total}
  %zx{total} = mul i64 %hits, {per_hit}
  %zn{total} = add i64 %zo{total}, %zx{total}
  store i64 %zn{total}, ptr %zq{total}"""


def _field(name: str, offset: int) -> str:
    return f"""
  %f{name} = getelementptr i8, ptr %rec, i64 {offset}
  store i32 %{name}, ptr %f{name}"""


def missed(*, count: bool, watch: bool = False) -> str:
    """Return the IR of `@missed`, which replaces a pattern, and of its helpers.

    ``@missed(rec, deltas, mask, rest, width, cost)``: deltas are (32,) bytes from the first active lane's address,
    `rest` is that address's low seven bits, and `cost` one of the constants above.

    Args:
        count: Compute the traffic.
        watch: Find the lanes that share an address.
    """
    return f"""
define internal void @missed(ptr %rec, {_V} %given, i32 %mask, i32 %rest, i32 %width, i32 %cost) noinline #0 {{
entry:
  %unit = alloca {_V}, align 128
  %busy = alloca [128 x i32], align 64
  %most_of = alloca [4 x i32], align 16
  %M = bitcast i32 %mask to {BITS_VECTOR}
  %d = select {BITS_VECTOR} %M, {_V} %given, {_V} zeroinitializer
  %hq = getelementptr i8, ptr %rec, i64 {HITS}
  %hits = load i64, ptr %hq
  store i64 0, ptr %hq
  %omq = getelementptr i8, ptr %rec, i64 {MASK}
  %om = load i32, ptr %omq
  %opc = call i32 @llvm.ctpop.i32(i32 %om)
  %lanes = zext i32 %opc to i64
  %owq = getelementptr i8, ptr %rec, i64 {WAVES}
  %ow = load i32, ptr %owq
  %waves64 = zext i32 %ow to i64
  %oiq = getelementptr i8, ptr %rec, i64 {IDEAL}
  %oi = load i32, ptr %oiq
  %ideal64 = zext i32 %oi to i64
{_flush("w", TOTAL_WAVES, "%waves64")}{_flush("i", TOTAL_IDEAL, "%ideal64")}{_flush("r", TOTAL_REQUESTS, "1")}{
        _flush("l", TOTAL_LANES, "%lanes")
    }
  store {_V} %d, ptr %rec, align 128
  %least = call i32 @llvm.vector.reduce.smin.v{LANES}i32({_V} %d)
  %most = call i32 @llvm.vector.reduce.smax.v{LANES}i32({_V} %d)
  %alignment = call i32 @llvm.vector.reduce.or.v{LANES}i32({_V} %d)
  %first = call i32 @llvm.cttz.i32(i32 %mask, i1 false)
  %w1 = insertelement {_V} poison, i32 %width, i32 0
  %wide = shufflevector {_V} %w1, {_V} poison, {_V} zeroinitializer
  %f1 = insertelement {_V} poison, i32 %first, i32 0
  %firsts = shufflevector {_V} %f1, {_V} poison, {_V} zeroinitializer
  %from = sub {_V} {IOTA}, %firsts
  %run = mul {_V} %from, %wide
  %off = icmp ne {_V} %d, %run
  %offm = and {BITS_VECTOR} %off, %M
  %offb = bitcast {BITS_VECTOR} %offm to i32
  %straight = icmp eq i32 %offb, 0
  %all = icmp eq i32 %mask, -1
  %run_kind = select i1 %all, i32 {CONTIGUOUS}, i32 {CONTIGUOUS_PART}
  %nowhere = icmp eq i32 %alignment, 0
  %other_kind = select i1 %nowhere, i32 {SAME}, i32 {SCATTERED}
  %kind = select i1 %straight, i32 %run_kind, i32 %other_kind
{_field("mask", MASK)}{_field("rest", REST)}{_field("kind", KIND)}{_field("alignment", ALIGNMENT)}{
        _field("least", LEAST)
    }{_field("most", MOST)}
{_SHARERS if watch else ""}{(_TRAFFIC if count else "  ret void").replace("%entry", "%met" if watch else "%entry")}
}}
"""


_SHARERS = f"""
  %run_of_lanes = icmp ne i32 %kind, {SCATTERED}
  br i1 %run_of_lanes, label %met, label %share
share:
  %sh_left = phi i32 [ %mask, %entry ], [ %sh_left1, %share ]
  %sh_leaders = phi i32 [ 0, %entry ], [ %sh_leaders1, %share ]
  %sh_alone = phi i32 [ 0, %entry ], [ %sh_alone1, %share ]
  %sh_lane = call i32 @llvm.cttz.i32(i32 %sh_left, i1 true)
  %sh_bit = shl i32 1, %sh_lane
  %sh_q = getelementptr i32, ptr %rec, i32 %sh_lane
  %sh_d = load i32, ptr %sh_q
  %sh_d1 = insertelement {_V} poison, i32 %sh_d, i32 0
  %sh_ds = shufflevector {_V} %sh_d1, {_V} poison, {_V} zeroinitializer
  %sh_same = icmp eq {_V} %d, %sh_ds
  %sh_same_b = bitcast {BITS_VECTOR} %sh_same to i32
  %sh_all = and i32 %sh_same_b, %mask
  %sh_others = xor i32 %sh_all, -1
  %sh_left1 = and i32 %sh_left, %sh_others
  %sh_leaders1 = or i32 %sh_leaders, %sh_bit
  %sh_only = icmp eq i32 %sh_all, %sh_bit
  %sh_one = select i1 %sh_only, i32 %sh_bit, i32 0
  %sh_alone1 = or i32 %sh_alone, %sh_one
  %sh_more = icmp ne i32 %sh_left1, 0
  br i1 %sh_more, label %share, label %met
met:
  %sh_found = phi i32 [ %mask, %entry ], [ %sh_leaders1, %share ]
  %sh_single = phi i32 [ %mask, %entry ], [ %sh_alone1, %share ]
  %sh_first = shl i32 1, %first
  %sh_at_one = icmp eq i32 %kind, {SAME}
  %leaders = select i1 %sh_at_one, i32 %sh_first, i32 %sh_found
  %alone = select i1 %sh_at_one, i32 0, i32 %sh_single
{_field("leaders", LEADERS)}{_field("alone", ALONE)}
"""

_TRAFFIC = f"""
  %r1 = insertelement {_V} poison, i32 %rest, i32 0
  %rests = shufflevector {_V} %r1, {_V} poison, {_V} zeroinitializer
  %x = add {_V} %d, %rests
  %is_global = icmp eq i32 %cost, {GLOBAL}
  %narrow = icmp ult i32 %width, {BANK_BYTES}
  %unit_bytes = select i1 %narrow, i32 {BANK_BYTES}, i32 %width
  %each = select i1 %is_global, i32 {SECTOR_BYTES}, i32 %unit_bytes
  %shift = call i32 @llvm.cttz.i32(i32 %each, i1 true)
  %s1 = insertelement {_V} poison, i32 %shift, i32 0
  %shifts = shufflevector {_V} %s1, {_V} poison, {_V} zeroinitializer
  %units = ashr {_V} %x, %shifts
  store {_V} %units, ptr %unit, align 128
{_agrees(1)}{_agrees(2)}
  %either = or i1 %a1, %a2
  %is_load = icmp eq i32 %cost, {SHARED_LOAD}
  %is_8 = icmp eq i32 %width, {_TWICE[0]}
  %is_16 = icmp eq i32 %width, {_TWICE[1]}
  %wide_one = or i1 %is_8, %is_16
  %pair1 = and i1 %either, %is_load
  %pair = and i1 %pair1, %wide_one
  %ph8 = select i1 %is_8, i32 16, i32 32
  %ph16 = select i1 %is_16, i32 8, i32 %ph8
  %ph_two = shl i32 %ph16, 1
  %ph_s = select i1 %pair, i32 %ph_two, i32 %ph16
  %phase = select i1 %is_global, i32 32, i32 %ph_s
  %phase_shift = call i32 @llvm.cttz.i32(i32 %phase, i1 true)
  %phase64 = zext i32 %phase to i64
  %ones1 = shl i64 1, %phase64
  %ones = sub i64 %ones1, 1
  %groups1 = udiv i32 {BANKS * BANK_BYTES}, %each
  %groups = sub i32 %groups1, 1
  store [128 x i32] zeroinitializer, ptr %busy, align 64
  store [4 x i32] zeroinitializer, ptr %most_of, align 16
  br label %loop
loop:
  %left = phi i32 [ %mask, %entry ], [ %left1, %next ]
  %distinct = phi i32 [ 0, %entry ], [ %distinct1, %next ]
  %lane = call i32 @llvm.cttz.i32(i32 %left, i1 false)
  %less = sub i32 %left, 1
  %left1 = and i32 %left, %less
  %uq = getelementptr i32, ptr %unit, i32 %lane
  %u = load i32, ptr %uq
  %u1 = insertelement {_V} poison, i32 %u, i32 0
  %us = shufflevector {_V} %u1, {_V} poison, {_V} zeroinitializer
  %same = icmp eq {_V} %units, %us
  %same_b = bitcast {BITS_VECTOR} %same to i32
  %same_m = and i32 %same_b, %mask
  %ph = lshr i32 %lane, %phase_shift
  %ph_first = shl i32 %ph, %phase_shift
  %ph_first64 = zext i32 %ph_first to i64
  %ph_mask64 = shl i64 %ones, %ph_first64
  %ph_mask = trunc i64 %ph_mask64 to i32
  %bit = shl i32 1, %lane
  %below = sub i32 %bit, 1
  %before1 = and i32 %same_m, %ph_mask
  %before = and i32 %before1, %below
  %known = icmp ne i32 %before, 0
  br i1 %known, label %next, label %new
new:
  %bank = and i32 %u, %groups
  %row = shl i32 %ph, 5
  %at = or i32 %row, %bank
  %bq = getelementptr i32, ptr %busy, i32 %at
  %b = load i32, ptr %bq
  %b_more = add i32 %b, 1
  store i32 %b_more, ptr %bq
  %mq = getelementptr i32, ptr %most_of, i32 %ph
  %m = load i32, ptr %mq
  %m_more = call i32 @llvm.umax.i32(i32 %m, i32 %b_more)
  store i32 %m_more, ptr %mq
  br label %next
next:
  %one = phi i32 [ 0, %loop ], [ 1, %new ]
  %distinct1 = add i32 %distinct, %one
  %more = icmp ne i32 %left1, 0
  br i1 %more, label %loop, label %done
done:
  %phases = load <4 x i32>, ptr %most_of, align 16
  %passes = call i32 @llvm.vector.reduce.add.v4i32(<4 x i32> %phases)
  %busy_phase = icmp ne <4 x i32> %phases, zeroinitializer
  %busy_one = zext <4 x i1> %busy_phase to <4 x i32>
  %ideal_s = call i32 @llvm.vector.reduce.add.v4i32(<4 x i32> %busy_one)
  %waves = select i1 %is_global, i32 %distinct1, i32 %passes
  %ideal = select i1 %is_global, i32 0, i32 %ideal_s
{_field("waves", WAVES)}{_field("ideal", IDEAL)}
  ret void"""


def _lane_in(remaining: str, name: str) -> str:
    """Return IR that finds the lowest lane in `remaining` and the lanes of `%mask` with the same key."""
    return f"""
  %{name}_lane = call i32 @llvm.cttz.i32(i32 {remaining}, i1 true)
  %{name}_q = getelementptr i32, ptr %keys, i32 %{name}_lane
  %{name}_k = load i32, ptr %{name}_q
  %{name}_k1 = insertelement {_V} poison, i32 %{name}_k, i32 0
  %{name}_ks = shufflevector {_V} %{name}_k1, {_V} poison, {_V} zeroinitializer
  %{name}_eq = icmp eq {_V} %key, %{name}_ks
  %{name}_b = bitcast {BITS_VECTOR} %{name}_eq to i32
  %{name}_same = and i32 %{name}_b, %mask"""


MISSED_ATOMIC = f"""
define internal void @missed_atomic(ptr %rec, {_V} %given, i32 %mask, i32 %rest, i32 %width, i32 %cost) noinline #0 {{
entry:
  %keys = alloca {_V}, align 128
  %hq = getelementptr i8, ptr %rec, i64 {HITS}
  %hits = load i64, ptr %hq
  %uq = getelementptr i8, ptr %rec, i64 {UPDATES}
  %u = load i32, ptr %uq
  %u64 = zext i32 %u to i64
{_flush("u", TOTAL_UPDATES, "%u64")}
  call void @missed(ptr %rec, {_V} %given, i32 %mask, i32 %rest, i32 %width, i32 %cost)
  %d = load {_V}, ptr %rec, align 128
  %r1 = insertelement {_V} poison, i32 %rest, i32 0
  %rests = shufflevector {_V} %r1, {_V} poison, {_V} zeroinitializer
  %x = add {_V} %d, %rests
  %is_global = icmp eq i32 %cost, {GLOBAL}
  %banks1 = ashr {_V} %x, splat (i32 {BANK_BYTES.bit_length() - 1})
  %banks = and {_V} %banks1, splat (i32 {BANKS - 1})
  %key = select i1 %is_global, {_V} %d, {_V} %banks
  store {_V} %key, ptr %keys, align 128
  %sectors = ashr {_V} %x, splat (i32 {SECTOR_BYTES.bit_length() - 1})
  br label %sector
sector:
  %left = phi i32 [ %mask, %entry ], [ %left1, %next ]
  %total = phi i32 [ 0, %entry ], [ %total1, %next ]
  %lane = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %s = extractelement {_V} %sectors, i32 %lane
  %s1 = insertelement {_V} poison, i32 %s, i32 0
  %ss = shufflevector {_V} %s1, {_V} poison, {_V} zeroinitializer
  %in1 = icmp eq {_V} %sectors, %ss
  %in2 = bitcast {BITS_VECTOR} %in1 to i32
  %in = select i1 %is_global, i32 %in2, i32 -1
  %members = and i32 %in, %mask
  br label %place
place:
  %rest_of = phi i32 [ %members, %sector ], [ %rest_of1, %place ]
  %most = phi i32 [ 0, %sector ], [ %most1, %place ]
{_lane_in("%rest_of", "p")}
  %meet = call i32 @llvm.ctpop.i32(i32 %p_same)
  %most1 = call i32 @llvm.umax.i32(i32 %most, i32 %meet)
  %away = xor i32 %p_same, -1
  %rest_of1 = and i32 %rest_of, %away
  %more_places = icmp ne i32 %rest_of1, 0
  br i1 %more_places, label %place, label %next
next:
  %total1 = add i32 %total, %most1
  %gone = xor i32 %members, -1
  %left1 = and i32 %left, %gone
  %more = icmp ne i32 %left1, 0
  br i1 %more, label %sector, label %done
done:
  store i32 %total1, ptr %uq
  ret void
}}
"""
"""The IR of ``@missed_atomic``: `@missed` for counted atomics, as in `lab.hardware.memory.atomic_updates`."""

DECLARATIONS = f"""
declare i32 @llvm.ctpop.i32(i32)
declare i32 @llvm.cttz.i32(i32, i1)
declare i32 @llvm.umax.i32(i32, i32)
declare i32 @llvm.vector.reduce.smin.v{LANES}i32({_V})
declare i32 @llvm.vector.reduce.smax.v{LANES}i32({_V})
declare i32 @llvm.vector.reduce.umin.v{LANES}i32({_V})
declare i32 @llvm.vector.reduce.or.v{LANES}i32({_V})
declare i32 @llvm.vector.reduce.add.v4i32(<4 x i32>)
"""
