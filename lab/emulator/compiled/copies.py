"""The cost of cp.async copies: a pattern covers both sides; Python computes the cost of new patterns."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from lab.emulator.arrays import Bytes
from lab.emulator.compiled.accesses import FAULT
from lab.emulator.compiled.ir import BITS_VECTOR, LANES, words
from lab.emulator.results import MemoryCount
from lab.hardware.memory import LARGEST_COPY, Copy, copy_sectors, copy_wavefronts, ideal_wavefronts

WAYS, BYTES = 4, 512
"""Patterns cached per instruction, and the size of one."""

_MASK, _FETCHED, _TARGET, _SOURCE = range(256, 272, 4)
"""Byte offsets of i32 fields behind the deltas of targets and sources, 32 each: the lanes, those that read, and the low
bits of the first target and the first source."""

_HITS, _COST, _TOTAL = 272, 280, 336
"""Byte offsets of i64 fields: copies with this pattern, the cost of one of them, and the cost of earlier patterns."""

_COSTS = 7
"""Cost fields: requests, wavefronts, ideal wavefronts, lanes (shared); requests, sectors, lanes (global)."""

_V, _W = words(32), words(64)
_SPREAD = 0x9E3779B1

COPIED = f"""
define internal i32 @copied(ptr %site, {_V} %to, {_W} %of, i32 %mask, i32 %fetched, i32 %width, ptr %callback)
    noinline #0 {{
  %M = bitcast i32 %mask to {BITS_VECTOR}
  %first = call i32 @llvm.cttz.i32(i32 %mask, i1 false)
  %t0 = extractelement {_V} %to, i32 %first
  %t1 = insertelement {_V} poison, i32 %t0, i32 0
  %ts = shufflevector {_V} %t1, {_V} poison, {_V} zeroinitializer
  %td0 = sub {_V} %to, %ts
  %td = select {BITS_VECTOR} %M, {_V} %td0, {_V} zeroinitializer
  %sized = icmp eq i32 %width, {LARGEST_COPY}
  %matter = select i1 %sized, i32 %mask, i32 %fetched
  %S = bitcast i32 %matter to {BITS_VECTOR}
  %reads = icmp ne i32 %matter, 0
  %ff1 = call i32 @llvm.cttz.i32(i32 %matter, i1 false)
  %ff = and i32 %ff1, {LANES - 1}
  %s0 = extractelement {_W} %of, i32 %ff
  %s1 = insertelement {_W} poison, i64 %s0, i32 0
  %ss = shufflevector {_W} %s1, {_W} poison, {_V} zeroinitializer
  %sd64 = sub {_W} %of, %ss
  %sd0 = trunc {_W} %sd64 to {_V}
  %sd = select {BITS_VECTOR} %S, {_V} %sd0, {_V} zeroinitializer
  %cut = sext {_V} %sd0 to {_W}
  %far = icmp ne {_W} %cut, %sd64
  %far_s = and {BITS_VECTOR} %far, %S
  %far_b = bitcast {BITS_VECTOR} %far_s to i32
  %trest = and i32 %t0, 127
  %s32 = trunc i64 %s0 to i32
  %sr = and i32 %s32, 127
  %srest = select i1 %reads, i32 %sr, i32 0
  %h1 = shl i32 %trest, 8
  %h2 = xor i32 %h1, %srest
  %h3 = mul i32 %h2, 40503
  %h4 = xor i32 %h3, %fetched
  %h5 = xor i32 %h4, %mask
  %h6 = mul i32 %h5, {_SPREAD - (1 << 32)}
  %way = lshr i32 %h6, {32 - (WAYS - 1).bit_length()}
  %at = mul i32 %way, {BYTES}
  %rec = getelementptr i8, ptr %site, i32 %at
  %rec_s = getelementptr i8, ptr %rec, i64 {4 * LANES}
  %q_mask = getelementptr i8, ptr %rec, i64 {_MASK}
  %q_fetched = getelementptr i8, ptr %rec, i64 {_FETCHED}
  %q_target = getelementptr i8, ptr %rec, i64 {_TARGET}
  %q_source = getelementptr i8, ptr %rec, i64 {_SOURCE}
  %old_t = load {_V}, ptr %rec, align 128
  %old_s = load {_V}, ptr %rec_s, align 128
  %nt = icmp ne {_V} %old_t, %td
  %ns = icmp ne {_V} %old_s, %sd
  %n = or {BITS_VECTOR} %nt, %ns
  %nb = bitcast {BITS_VECTOR} %n to i32
  %o1 = load i32, ptr %q_mask
  %x1 = xor i32 %o1, %mask
  %o2 = load i32, ptr %q_fetched
  %x2 = xor i32 %o2, %fetched
  %o3 = load i32, ptr %q_target
  %x3 = xor i32 %o3, %trest
  %o4 = load i32, ptr %q_source
  %x4 = xor i32 %o4, %srest
  %y1 = or i32 %nb, %x1
  %y2 = or i32 %x2, %x3
  %y3 = or i32 %y1, %y2
  %y4 = or i32 %y3, %x4
  %near = icmp eq i32 %far_b, 0
  br i1 %near, label %look, label %fault
look:
  %known = icmp eq i32 %y4, 0
  br i1 %known, label %hit, label %miss
miss:
  store {_V} %td, ptr %rec, align 128
  store {_V} %sd, ptr %rec_s, align 128
  store i32 %mask, ptr %q_mask
  store i32 %fetched, ptr %q_fetched
  store i32 %trest, ptr %q_target
  store i32 %srest, ptr %q_source
  call void %callback(ptr %rec, i32 %width)
  br label %hit
hit:
  %hq = getelementptr i8, ptr %rec, i64 {_HITS}
  %ho = load i64, ptr %hq
  %hn = add i64 %ho, 1
  store i64 %hn, ptr %hq
  ret i32 0
fault:
  ret i32 {FAULT}
}}
"""
"""The IR of ``@copied(site, targets, sources, lanes, lanes that read, bytes of a lane, callback)``."""


def _lanes(bits: int) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = (bits >> np.arange(LANES) & 1).astype(np.bool_)[None]
    return mask


def new_pattern(record: Bytes, width: int) -> None:
    """Save the cost of a record's old pattern and compute that of the new one.

    Args:
        record: `BYTES` bytes, changed in place.
        width: Bytes of a lane's copy.
    """
    narrow, wide = record.view(np.int32), record.view(np.int64)
    cost = wide[_COST // 8 : _COST // 8 + _COSTS]
    wide[_TOTAL // 8 : _TOTAL // 8 + _COSTS] += wide[_HITS // 8] * cost
    wide[_HITS // 8] = 0
    deltas = narrow[: 2 * LANES].astype(np.int64).reshape(2, 1, LANES)
    active, fetched = (_lanes(int(narrow[offset // 4])) for offset in (_MASK, _FETCHED))
    base = 1 << 30  # a whole number of lines: addresses stay positive
    targets, sources = (deltas[i] + base + int(narrow[at // 4]) for i, at in enumerate((_TARGET, _SOURCE)))
    copy = Copy(targets, sources, width, active, fetched)
    waves = copy_wavefronts(copy)
    ideal = np.minimum(waves, ideal_wavefronts(targets, width, active, loads=False))
    cost[:] = (1, waves[0], ideal[0], active.sum(), fetched.any(), copy_sectors(copy)[0], fetched.sum())


def _called(record: int, width: int) -> None:
    new_pattern(np.ctypeslib.as_array((ctypes.c_uint8 * BYTES).from_address(record)), width)


CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)(_called)
"""The callback from machine code for a record with a new pattern."""


def traffic(records: Bytes, width: int) -> tuple[MemoryCount, MemoryCount]:
    """Return the cost of an instruction's copies in shared and in global memory.

    Args:
        records: The records of all its patterns, concatenated.
        width: Bytes of a lane's copy.
    """
    wide = records.view(np.int64).reshape(-1, BYTES // 8)
    cost = wide[:, _COST // 8 : _COST // 8 + _COSTS]
    sums = (wide[:, _TOTAL // 8 : _TOTAL // 8 + _COSTS] + wide[:, _HITS // 8, None] * cost).sum(axis=0)
    requests, waves, ideal, lanes, reads, sectors, fetched = (int(value) for value in sums)
    return MemoryCount(requests, waves, 0, width * lanes, ideal), MemoryCount(reads, 0, sectors, width * fetched, 0)
