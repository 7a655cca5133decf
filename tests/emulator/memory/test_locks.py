"""Locks that are taken by an atomic that names no order: with a fence, with one too narrow, and without."""

from functools import cache

import compiling
import numpy as np
import pytest

from lab.emulator.api import launch
from lab.emulator.memory.clocks import KnownTimes, LaunchClocks
from lab.isa.ptx.module import read_ptx

SOURCE = """
#define K extern "C" __global__ void
#define GUARDED(NAME, TAKE, FENCE) K NAME(int* lock, int* data) { \\
    if (threadIdx.x == 0) { while (TAKE != 0) {} FENCE; data[0] += 1; __threadfence(); atomicExch(lock, 0); } }
#define SHARED(NAME, FENCE) K NAME(int*, int* out) { \\
    __shared__ int lock, sum; if (threadIdx.x == 0) lock = sum = 0; __syncthreads(); \\
    if (threadIdx.x % 32 == 0) { while (atomicCAS(&lock, 0, 1)) {} FENCE; sum += 1; __threadfence_block(); \\
        atomicExch(&lock, 0); } \\
    __syncthreads(); if (threadIdx.x == 0) out[blockIdx.x] = sum; }
#define WHOLE_BLOCK(NAME, FENCE) K NAME(int* lock, int* data) { \\
    if (threadIdx.x == 0) { while (atomicCAS(lock, 0, 1)) {} FENCE; } __syncthreads(); data[threadIdx.x] += 1; \\
    __syncthreads(); if (threadIdx.x == 0) { __threadfence(); atomicExch(lock, 0); } }

GUARDED(fenced, atomicCAS(lock, 0, 1), __threadfence())
GUARDED(fenced_exchange, atomicExch(lock, 1), __threadfence())
GUARDED(bare, atomicCAS(lock, 0, 1), )
GUARDED(bare_exchange, atomicExch(lock, 1), )
GUARDED(narrow, atomicCAS(lock, 0, 1), __threadfence_block())
SHARED(fenced_in_block, __threadfence_block())
SHARED(bare_in_block, )
WHOLE_BLOCK(whole_fenced, __threadfence())
WHOLE_BLOCK(whole_bare, )
WHOLE_BLOCK(whole_narrow, __threadfence_block())
K table(int* keys, int* data) {  // no lock: whoever finds a free place writes beside it
    int key = threadIdx.x % 32 + 1, at = key;
    if (atomicCAS(&keys[at], 0, key) == 0) data[at] = key;
}
K maximum(int* most, int* data) {
    int old = *(volatile int*)most, seen;
    do { seen = old; old = atomicCAS(most, seen, max(seen, (int)threadIdx.x)); } while (old != seen);
    data[blockIdx.x * 64 + threadIdx.x] = old;
}
K last(int* count, int* data) {
    if (threadIdx.x) return;
    data[blockIdx.x + 1] = 1;
    __threadfence();
    if (atomicAdd(count, 1) == 2) data[0] = data[1] + data[2] + data[3];
}
"""
NOTED = {"bare", "bare_exchange", "bare_in_block", "whole_bare"}
RACY = {"narrow", "whole_narrow"}
SOUND = {"fenced", "fenced_exchange", "fenced_in_block", "whole_fenced", "table", "maximum", "last"}


@cache
def module():
    return read_ptx(compiling.compile_text(SOURCE))


@pytest.mark.parametrize("schedule", [None, 1, 2])
@pytest.mark.parametrize("name", sorted(NOTED | RACY | SOUND))
def test_a_lock_without_a_fence_is_noted_and_one_with_too_narrow_a_fence_is_a_race(name, schedule):
    emulation = launch(module(), name, 3, 64, [np.zeros(64, np.int32), np.zeros(256, np.int32)], schedule=schedule)
    assert bool(emulation.findings) == (name in RACY), emulation.findings
    assert {finding.kind for finding in emulation.findings} <= {"global-race"}
    assert any("a lock is taken" in note for note in emulation.notes) == (name in NOTED)


def test_what_a_thread_knows_without_a_lock():
    launch_clocks = LaunchClocks(2, 32)
    loose, histories = launch_clocks.loose, [KnownTimes({i: np.full(32, 1 << 40)}) for i in range(4)]
    loose.learn(3, histories[0])
    assert not loose
    loose.take(3, 7, histories[0], histories[1])
    loose.take(3, 8, None, histories[2])  # a later round: what it knew before the first one counts
    loose.learn(3, histories[3])
    lock = loose.held_by(3)
    assert (lock.position, lock.narrow, sorted(lock.strict.blocks)) == (8, False, [0, 3])
    loose.fence(3, wide=False)
    assert (lock.narrow, sorted(lock.strict.blocks)) == (True, [0, 1, 2, 3])
    loose.share([4, 5], [None, None])
    assert 4 not in loose
    loose.share([3, 4], [None, histories[0]])
    assert sorted(loose.held_by(4).strict.blocks) == [0, 1, 2, 3]
    loose.fence(3, wide=True)
    loose.fence(4, wide=True)
    assert not loose
