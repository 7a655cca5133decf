"""Scoped and volatile races as suites of racing programs have them: each kernel lacks one thing that its twin has."""

from functools import cache

import compiling
import numpy as np
import pytest

from lab.emulator.api import launch
from lab.isa.ptx.module import read_ptx

HEAD = """
#define K(NAME) extern "C" __global__ void NAME(int* a, int* b, int* c)
#define T threadIdx.x
#define B blockIdx.x
#define V(X) (*(volatile int*)(X))
__device__ void store(int* at, int v) { asm volatile("st.release.gpu.global.s32 [%0], %1;" :: "l"(at), "r"(v) : "memory"); }
__device__ int load(int* at) { int v; asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(at) : "memory"); return v; }
__device__ void store_cta(int* at, int v) { asm volatile("st.release.cta.global.s32 [%0], %1;" :: "l"(at), "r"(v) : "memory"); }
__device__ int load_cta(int* at) { int v; asm volatile("ld.acquire.cta.global.s32 %0, [%1];" : "=r"(v) : "l"(at) : "memory"); return v; }
"""  # noqa: E501  helpers, one a line
LOCK = "if (T) return; while (TAKE(a, 0, 1)) {} FENCE; b[0] += 1; RELEASE; UNLOCK(a, 0);"
MESSAGE = "if (T) return; if (B == 1) { b[0] = 5; SEND; } else if (B == 0) { RECEIVE; c[0] = b[0]; }"
LAST = """__shared__ bool last; PARTS[B] = B + 1; FENCE; if (T == 0) last = COUNT(a, 1) == 3; __syncthreads();
    if (last && T == 0) { int s = 0; for (int i = 0; i < 4; ++i) s += PARTS[i]; c[0] = s; }"""
LAST_OF_ONE = LAST.replace("PARTS[B] = B + 1;", "if (T == 0) PARTS[B] = B + 1;")
LOOK_BACK = """if (T) return; int before = 0; if (B) {
    while (V(a + B - 1) == 0) {} AFTER; before = b[B - 1]; } b[B] = before + B; BEFORE; V(a + B) = 1;"""
STEAL = """__shared__ int item; int mine; do { if (T == 0) item = NEXT(a, 1); __syncthreads(); mine = item; BETWEEN;
    if (mine < 8 && T == 0) b[mine] += 1; } while (mine < 8);"""
TREE = """__shared__ volatile int s[64]; s[T] = T; __syncthreads(); if (T < 32) {
    for (int d = 32; d; d /= 2) { int v = s[T + d & 63]; MEET; s[T] = s[T] + v; MEET; } } if (T == 0) c[B] = s[0];"""
GRID = """b[B * 64 + T] = T; __syncthreads(); if (T == 0) { FENCE; ARRIVE(a, 1); while (V(a) < 4) {} __threadfence(); }
    __syncthreads(); c[B * 64 + T] = b[(B + 1) % 4 * 64 + T];"""
PAIRS = {
    "lock_with_a_device_fence": (LOCK, {}, {"RELEASE": "__threadfence_block()"}),
    "lock_with_a_release_fence": (LOCK, {}, {"RELEASE": ""}),
    "lock_with_an_acquire_fence": (LOCK, {}, {"FENCE": "__threadfence_block()"}),
    "lock_taken_by_a_device_atomic": (LOCK, {}, {"TAKE": "atomicCAS_block"}),
    "lock_released_by_a_device_atomic": (LOCK, {}, {"UNLOCK": "atomicExch_block"}),
    "message_released_to_the_device": (MESSAGE, {}, {"SEND": "store_cta(a, 1)"}),
    "message_acquired_from_the_device": (MESSAGE, {}, {"RECEIVE": "while (!load_cta(a)) {}"}),
    "message_with_fences": (
        MESSAGE,
        {"SEND": "__threadfence(); V(a) = 1", "RECEIVE": "while (!V(a)) {} __threadfence()"},
        {"SEND": "V(a) = 1", "RECEIVE": "while (!V(a)) {} __threadfence()"},
    ),
    "volatile_message_with_fences": (
        MESSAGE.replace("b[0]", "V(b)"),
        {"SEND": "__threadfence(); V(a) = 1", "RECEIVE": "while (!V(a)) {} __threadfence()"},
        {"SEND": "V(a) = 1", "RECEIVE": "while (!V(a)) {}"},
    ),
    "last_block_with_a_fence": (LAST_OF_ONE, {}, {"FENCE": ""}),
    "last_block_with_a_device_fence": (LAST_OF_ONE, {}, {"FENCE": "__threadfence_block()"}),
    "last_block_by_a_device_counter": (LAST_OF_ONE, {}, {"COUNT": "atomicAdd_block"}),
    "volatile_parts_with_a_fence": (
        LAST_OF_ONE,
        {"PARTS": "((volatile int*)b)"},
        {"PARTS": "((volatile int*)b)", "FENCE": ""},
    ),
    "look_back_with_a_fence_before": (LOOK_BACK, {}, {"BEFORE": "__threadfence_block()"}),
    "look_back_with_a_fence_after": (LOOK_BACK, {}, {"AFTER": ""}),
    "work_from_a_device_counter": (STEAL, {}, {"NEXT": "atomicAdd_block"}),
    "work_with_a_barrier_between": (STEAL, {}, {"BETWEEN": ""}),
    "counts_by_device_atomics": ("atomicADD(b + T % 8, 1);", {"ADD": "Add"}, {"ADD": "Add_block"}),
    "distances_by_device_atomics": ("atomicMIN(b + (B + T) % 16, T);", {"MIN": "Min"}, {"MIN": "Min_block"}),
    "distances_by_atomics_alone": ("if (T < 16) UPDATE;", {"UPDATE": "atomicMin(b + T, B)"}, {"UPDATE": "b[T] = B"}),
    "volatile_tree_with_warp_barriers": (TREE, {"MEET": "__syncwarp()"}, {"MEET": ""}),
    "volatile_tile_with_a_barrier": (
        "__shared__ volatile int s[64]; s[T] = T; MEET; c[B * 64 + T] = s[63 - T];",
        {"MEET": "__syncthreads()"},
        {"MEET": "__syncwarp()"},
    ),
    "halo_of_the_own_block": (
        "b[B * 64 + T] = T; __syncthreads(); c[B * 64 + T] = b[AT];",
        {"AT": "B * 64 + (T + 1) % 64"},
        {"AT": "(B * 64 + T + 1) % 256"},
    ),
    "grid_barrier_with_a_fence": (GRID, {}, {"FENCE": ""}),
    "grid_barrier_by_a_device_counter": (GRID, {}, {"ARRIVE": "atomicAdd_block"}),
    "first_value_by_a_barrier": (
        "__shared__ volatile int first; if (T == 0) first = B; MEET; c[B * 64 + T] = first;",
        {"MEET": "__syncthreads()"},
        {"MEET": ""},
    ),
    "sum_by_atomics": ("ADD;", {"ADD": "atomicAdd(c, 1)"}, {"ADD": "V(c) = V(c) + 1"}),
    "reset_behind_a_barrier": (
        "__shared__ volatile int s[64]; s[T] = T; __syncthreads(); c[B * 64 + T] = s[T ^ 33]; MEET; s[T] = 0;",
        {"MEET": "__syncthreads()"},
        {"MEET": ""},
    ),
    "read_only_data_from_another_buffer": (
        "b[B * 64 + T] = T; __syncthreads(); c[B * 64 + T] = __ldg(FROM + B * 64 + (T ^ 1));",
        {"FROM": "a"},
        {"FROM": "b"},
    ),
    "shuffle_of_living_lanes": (
        "LEAVE; int v = T; for (int d = 16; d; d /= 2) v += __shfl_down_sync(~0u, v, d); if (T == 32) c[B] = v;",
        {"LEAVE": ""},
        {"LEAVE": "if (T >= 40) return"},
    ),
}
SOUND = {
    "TAKE": "atomicCAS", "FENCE": "__threadfence()", "RELEASE": "__threadfence()", "UNLOCK": "atomicExch", "PARTS": "b",
    "SEND": "store(a, 1)", "RECEIVE": "while (!load(a)) {}", "COUNT": "atomicAdd", "BEFORE": "__threadfence()",
    "AFTER": "__threadfence()", "NEXT": "atomicAdd", "BETWEEN": "__syncthreads()", "ARRIVE": "atomicAdd",
}  # fmt: skip
KERNELS = {
    f"{name}_{'racy' if racy else 'clean'}": (template, {**SOUND, **(good, bad)[racy]})
    for name, (template, good, bad) in PAIRS.items()
    for racy in (0, 1)
}


@cache
def module():
    source = HEAD
    for name, (text, changes) in KERNELS.items():
        for word, replacement in changes.items():
            text = text.replace(word, replacement)  # noqa: PLW2901  built up
        source += f"K({name}) {{ {text} }}\n"
    return read_ptx(compiling.compile_text(source))


def test_the_suite_has_thirty_kernels_with_a_twin_each():
    assert len(PAIRS) == 30


@pytest.mark.parametrize("schedule", [None, 1])
@pytest.mark.parametrize("name", KERNELS)
def test_each_kernel_that_lacks_something_is_found_and_its_twin_is_clean(name, schedule):
    buffers = [np.zeros(512, np.int32) for _ in range(3)]
    emulation = launch(module(), name, 4, 64, buffers, schedule=schedule)
    assert emulation.clean == name.endswith("_clean"), emulation.findings
