"""tcgen05: a hand-written product through tensor memory, and every way to use it wrongly."""

import functools

import compiling
import numpy as np
import pytest

from lab.emulator.api import launch
from lab.emulator.errors import UnsupportedInstruction

KERNEL = """
typedef unsigned u32; typedef unsigned long long u64;
__device__ u32 at(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ u64 described(u32 start, u32 leading, u32 stride, u64 swizzle) {
    return (u64)(start >> 4) | (u64)(leading >> 4) << 16 | (u64)(stride >> 4) << 32 | 1ull << 46 | swizzle << 61;
}
constexpr int M = ROWS, N = COLUMNS, STEP = 32 / sizeof(T), DEPTH = 4 * STEP, PER = 16 / sizeof(T);
// A tile of 128 bytes a row, swizzled: the place of a piece of 16 bytes is changed by the number of its row.
__device__ int place(int row, int k) { return row * DEPTH + (k / PER ^ row % 8) * PER + k % PER; }

extern "C" __global__ void k(const T* a, const T* b, S* out, int depth)
{
    __shared__ __align__(1024) T sa[M * DEPTH], sb[N * DEPTH];
    __shared__ u64 done;
    __shared__ u32 base;
    const int t = threadIdx.x, warp = t / 32;
    const auto allocate = [&] {
        if (warp == 0) asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], ALLOCATED;"
            :: "r"(at(&base)) : "memory"); };
    const auto relinquish = [&] {
        if (warp == 0) asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"); };
    const auto free = [&] {
        if (warp == 0) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, ALLOCATED;" :: "r"(base)); };
    const auto initialise = [&] {
        if (t == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at(&done)) : "memory"); };
    const auto before = [] { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); };
    const auto after = [] { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); };
    const auto proxy = [] { asm volatile("fence.proxy.async;" ::: "memory"); };
    const auto load = [&](int k0) {
        for (int i = t; i < M * DEPTH; i += 128)
            sa[place(i / DEPTH, i % DEPTH)] = a[i / DEPTH * depth + k0 + i % DEPTH];
        for (int i = t; i < N * DEPTH; i += 128)
            sb[place(i / DEPTH, i % DEPTH)] = b[i / DEPTH * depth + k0 + i % DEPTH];
    };
    const auto multiply = [&](u32 d, u64 x, u64 y, int add) {
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::1.kind::KIND [%0], %1, %2, %3, p; }"
            :: "r"(d), "l"(x), "l"(y), "r"((u32)(DESCRIBED | N >> 3 << 17 | M >> 4 << 24)), "r"(add) : "memory"); };
    const auto product = [&](int k0) {
        for (int i = 0; i < 4; ++i)
            multiply(base, described(at(sa) + 32 * i, 0, 1024, 2), described(at(sb) + 32 * i, 0, 1024, 2),
                     k0 + i > 0); };
    const auto commit = [&] {
        asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];"
            :: "r"(at(&done)) : "memory"); };
    const auto wait = [&](int parity) {
        asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra AGAIN; }"
            :: "r"(at(&done)), "r"(parity) : "memory"); };
    u32 d[8];
    const auto get = [&](int column) {
        asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
            : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]), "=r"(d[4]), "=r"(d[5]), "=r"(d[6]), "=r"(d[7])
            : "r"(base + (warp * 32 << 16) + column)); };
    const auto put = [&](int column) {
        asm volatile("tcgen05.st.sync.aligned.32x32b.x8.b32 [%8], {%0, %1, %2, %3, %4, %5, %6, %7};"
            :: "r"(d[0]), "r"(d[1]), "r"(d[2]), "r"(d[3]), "r"(d[4]), "r"(d[5]), "r"(d[6]), "r"(d[7]),
            "r"(base + (warp * 32 << 16) + column) : "memory"); };
    const auto loaded = [&] { asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); };
    const auto stored = [&] { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); };
    const auto row = [&] { return M == 128 ? t : warp * 16 + t % 32; };
    const auto store = [&](int column) {
        if (M == 128 || t % 32 < 16)
            for (int i = 0; i < 8; ++i) out[row() * N + column + i] = VALUE(d[i]); };
    BODY
}
"""
GOOD = """
    allocate(); relinquish(); initialise();
    before(); __syncthreads(); after();
    for (int k0 = 0, phase = 0; k0 < depth; k0 += DEPTH, phase ^= 1) {
        load(k0); proxy(); __syncthreads();
        if (t == 0) { product(k0); commit(); }
        wait(phase);
    }
    after();
    for (int column = 0; column < N; column += 8) { get(column); loaded(); store(column); }
    before(); __syncthreads();
    free();
"""
FLOAT = ("float", "__uint_as_float", np.float32)
TYPES = {
    "f16": ("unsigned short", "f16", 1 << 4, FLOAT),
    "bf16": ("unsigned short", "f16", 1 << 4 | 1 << 7 | 1 << 10, FLOAT),
    "tf32": ("float", "tf32", 1 << 4 | 2 << 7 | 2 << 10, FLOAT),
    "e4m3": ("unsigned char", "f8f6f4", 1 << 4, FLOAT),
    "e5m2": ("unsigned char", "f8f6f4", 1 << 4 | 1 << 7 | 1 << 10, FLOAT),
    "s8": ("signed char", "i8", 2 << 4 | 1 << 7 | 1 << 10, ("int", "(int)", np.int32)),
    "u8": ("unsigned char", "i8", 2 << 4, ("int", "(int)", np.int32)),
}
"""Element type to its C type, the kind, the types in the instruction descriptor, and the type of the sums."""


@functools.cache
def ptx(body, t="f16", rows=128, columns=16, allocated=32, old="", new=""):
    c, kind, types, (sums, value, _) = TYPES[t]
    meanings = {
        "ROWS": rows,
        "COLUMNS": columns,
        "DESCRIBED": types,
        "ALLOCATED": allocated,
        "KIND": kind,
        "VALUE": value,
    }
    text = KERNEL.replace(old, new) if old else KERNEL
    for word, meaning in {**meanings, "BODY": body}.items():
        text = text.replace(word, str(meaning))
    text = f"typedef {c} T; typedef {sums} S;{text}"
    return compiling.compile_text(text, "-lineinfo", arch="compute_100a")


def factors(t, rows, depth, seed):
    """Small integers in an element type, as their bits and as numbers."""
    low = 0 if t == "u8" else -4
    values = np.random.default_rng(seed).integers(low, 5, (rows, depth))
    if t == "f16":
        return values.astype(np.float16).view(np.uint16), values
    if t == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16), values
    if t == "tf32":
        return values.astype(np.float32), values
    if t in ("e4m3", "e5m2"):  # a table of the five magnitudes
        codes = {"e4m3": [0, 0x38, 0x40, 0x44, 0x48], "e5m2": [0, 0x3C, 0x40, 0x42, 0x44]}[t]
        return (np.array(codes)[abs(values)] | (values < 0) * 0x80).astype(np.uint8), values
    return values.astype(np.int8 if t == "s8" else np.uint8), values


def run(body=GOOD, t="f16", rows=128, columns=16, steps=2, **words):
    depth = steps * 128 // np.dtype(factors(t, 1, 1, 0)[0].dtype).itemsize
    (a, left), (b, right) = factors(t, rows, depth, 1), factors(t, columns, depth, 2)
    out = np.zeros((rows, columns), TYPES[t][3][2])
    schedule = words.pop("schedule", 0)
    text = ptx(body, t, rows, columns, **words)
    return launch(text, "k", 1, 128, [a, b, out, depth], schedule=schedule), out, left @ right.T


@pytest.mark.parametrize(
    ("t", "rows", "columns"),
    [*((t, 128, 16) for t in TYPES), *((t, *shape) for t in ("f16", "s8") for shape in ((64, 24), (128, 256)))],
)
def test_a_product_through_tensor_memory(t, rows, columns):
    emulation, out, wanted = run(t=t, rows=rows, columns=columns, allocated=256 if columns == 256 else 32)
    assert emulation.clean, emulation.findings
    np.testing.assert_array_equal(out, wanted)


def test_sums_of_float16_take_a_column_each(monkeypatch):
    monkeypatch.setitem(TYPES, "f16", ("unsigned short", "f16", 0, ("unsigned", "(unsigned)", np.uint32)))
    emulation, out, wanted = run(body=GOOD + "// sums of float16")
    assert emulation.clean, emulation.findings
    np.testing.assert_array_equal(out.astype(np.uint16).view(np.float16), wanted)


FROM_TENSOR = """
    allocate(); initialise(); before(); __syncthreads(); after();
    load(0); proxy();
    for (int i = 0; i < 8; ++i) d[i] = ((const u32*)a)[t * depth / 2 + i];
    put(16); stored(); before(); __syncthreads(); after();
    if (t == 0) {
        asm volatile("{ .reg .pred p; setp.ne.b32 p, 0, 0; "
            "tcgen05.mma.cta_group::1.kind::KIND [%0], [%1], %2, %3, p; }" :: "r"(base), "r"(base + 16),
            "l"(described(at(sb), 0, 1024, 2)), "r"((u32)(DESCRIBED | N >> 3 << 17 | M >> 4 << 24)) : "memory");
        commit();
    }
    wait(0); after();
    for (int column = 0; column < N; column += 8) { get(column); loaded(); store(column); }
    before(); __syncthreads(); free();
"""


def test_the_first_factor_comes_from_tensor_memory():
    words = {"KIND": "f16", "DESCRIBED": str(TYPES["f16"][2])}
    body = FROM_TENSOR
    for word, meaning in words.items():
        body = body.replace(word, meaning)
    emulation, out, _ = run(body, steps=1)
    assert emulation.clean, emulation.findings
    (_, left), (_, right) = factors("f16", 128, 64, 1), factors("f16", 16, 64, 2)
    np.testing.assert_array_equal(out, left[:, :16] @ right[:, :16].T)
    emulation, _, _ = run(body.replace("stored();", ""), steps=1)
    assert {finding.kind for finding in emulation.findings} == {"async-not-waited"}


@pytest.mark.parametrize("schedule", [1, 2, 3])
def test_threads_come_in_any_order(schedule):
    emulation, out, wanted = run(schedule=schedule)
    assert emulation.clean, emulation.findings
    np.testing.assert_array_equal(out, wanted)


def changed(*pairs):
    """The body of a sound kernel with words in place of others."""
    body = GOOD
    for old, new in pairs:
        assert old in body
        body = body.replace(old, new)
    return {"body": body}


MISUSE = "tensor-memory-misuse"
BARRIER = ("wait(phase);", "__syncthreads();")
WRONG = [
    ("no commit", changed(("commit(); }", "}"), BARRIER), "async-not-waited"),
    ("no commit, but a wait", changed(("commit(); }", "}")), "mbarrier-deadlock"),
    ("no wait", changed(BARRIER), "async-not-waited"),
    ("a wait of one warp", changed(("wait(phase);", "if (warp == 0) wait(phase);")), "async-not-waited"),
    ("no wait for the load", changed(("get(column); loaded();", "get(column);")), "async-not-waited"),
    ("no fence of the proxies", changed(("proxy();", "")), "missing-proxy-fence"),
    ("no barrier", changed(("proxy(); __syncthreads();", "proxy();")), "shared-race"),
    ("factors overwritten", changed(("wait(phase);", "__syncthreads(); sa[t] = 0; wait(phase);")), "async-not-waited"),
    ("before the allocation", changed(("allocate(); relinquish();", "if (t == 0) base = 0;"), ("free();", "")), MISUSE),
    ("not freed", changed(("free();", "")), MISUSE),
    ("freed too early", changed(BARRIER, ("commit(); }", "commit(); } __syncthreads(); free();")), "async-not-waited"),
    ("freed twice", changed(("    free();", "    free(); free();")), MISUSE),
    ("allocated after that was given up", changed(("allocate(); relinquish();", "relinquish(); allocate();")), MISUSE),
    ("more columns than there are", changed(("allocate();", "allocate(); allocate();")) | {"allocated": 512}, MISUSE),
    ("an odd number of columns", {"allocated": 48}, MISUSE),
    ("columns beyond the allocation", changed(("get(column);", "get(column + 32);")), MISUSE),
    ("another warp's lanes", {"old": "(warp * 32 << 16)", "new": "0"}, MISUSE),
    ("columns that nothing wrote", changed(("get(column);", "get(column + 16);")), "uninitialised-read"),
    ("a sum of what nothing wrote", {"old": "k0 + i > 0", "new": "1"}, "uninitialised-read"),
    ("a descriptor of wgmma", {"old": "| 1ull << 46 | swizzle << 61", "new": "| 1ull << 62"}, MISUSE),
    ("a descriptor beyond shared memory", {"old": "at(sa) + 32 * i", "new": "at(sa) + 65536 * 3"}, "out-of-bounds"),
    ("types that the kind lacks", {"old": "(u32)(DESCRIBED |", "new": "(u32)(DESCRIBED | 2 << 7 |"}, MISUSE),
    ("rows that there are not", {"old": "M >> 4 << 24", "new": "M >> 5 << 24", "rows": 64}, MISUSE),
    ("half a warp loads", changed(("get(column);", "if (t % 32 < 9) get(column);")), "warp-divergence"),
]


@pytest.mark.parametrize(("words", "kind"), [one[1:] for one in WRONG], ids=[one[0] for one in WRONG])
def test_wrong_uses_are_found(words, kind):
    emulation, _, _ = run(**words)
    assert kind in {finding.kind for finding in emulation.findings}, emulation.findings
    assert all(finding.line > 0 for finding in emulation.findings)


WRONG_LAYOUTS = [
    ("the stride between groups of rows", {"old": "0, 1024, 2)", "new": "0, 512, 2)"}),
    ("the mode of swizzling", {"old": "0, 1024, 2)", "new": "0, 1024, 4)"}),
    ("the step along k", {"old": "+ 32 * i", "new": "+ 16 * i"}),
    ("a negated factor", {"old": "(u32)(DESCRIBED |", "new": "(u32)(DESCRIBED | 1 << 13 |"}),
]


@pytest.mark.parametrize("words", [one[1] for one in WRONG_LAYOUTS], ids=[one[0] for one in WRONG_LAYOUTS])
def test_a_wrong_descriptor_gives_a_wrong_result(words):
    emulation, out, wanted = run(**words)
    assert not emulation.findings or {finding.kind for finding in emulation.findings} <= {"uninitialised-read"}
    assert (out != wanted).any()


def test_a_product_that_was_not_committed_is_told_from_one_that_was_not_waited_for():
    early, uncommitted = (
        next(finding for finding in run(body)[0].findings if "tcgen05.ld" in finding.text).detail
        for body in (WRONG[2][1]["body"], WRONG[0][1]["body"])
    )
    assert early.endswith("that has not been waited for")
    assert "no tcgen05.commit" in uncommitted


STORED = GOOD.replace(
    "after();\n    for (int k0 = 0",
    "after(); for (int i = 0; i < 8; ++i) d[i] = __float_as_uint(t + 8.0f * i);\n"
    "    put(0); put(8); stored(); before(); __syncthreads(); after();\n    for (int k0 = 0",
)


def test_a_product_adds_to_what_threads_stored():
    emulation, out, wanted = run(STORED, old="k0 + i > 0", new="1")
    assert emulation.clean, emulation.findings
    stored = np.arange(128)[:, None] + 8 * np.tile(np.arange(8), 2)
    np.testing.assert_array_equal(out, wanted + stored)


def test_a_store_is_waited_for_before_a_product_reads_it():
    emulation, _, _ = run(STORED.replace("stored();", ""), old="k0 + i > 0", new="1")
    assert {finding.kind for finding in emulation.findings} == {"async-not-waited"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("32x32b.x8", "16x256b.x2"),
        ("mma.cta_group::1.kind::f16", "mma.cta_group::1.kind::mxf4"),
        ("tcgen05.commit.cta_group::1", "tcgen05.commit.cta_group::2"),
        ("tcgen05.wait::ld.sync.aligned", "tcgen05.shift.cta_group::1.down [%r1]"),
    ],
)
def test_what_is_not_executed_is_refused_by_name(old, new):
    text = ptx(GOOD).replace(old, new)
    assert text != ptx(GOOD)
    a, b, out = np.zeros((128, 64), np.uint16), np.zeros((16, 64), np.uint16), np.zeros((128, 16), np.float32)
    with pytest.raises(UnsupportedInstruction, match="tcgen05"):
        launch(text, "k", 1, 128, [a, b, out, 64])


MULTICAST = """multicast::cluster.b64 [%0], %1;"
            :: "r"(at(&done)), "h"((unsigned short)3) : "memory"); };
    const auto wait"""
RANK = """    const int t = threadIdx.x, warp = t / 32, rank = blockIdx.x;
    a += rank * M * depth; b += rank * N * depth;
    const auto meet = [] {
        asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory"); };
"""
CLUSTER = [
    ("void k(", "void __cluster_dims__(2, 1, 1) k("),
    ("cta_group::1", "cta_group::2"),
    ("constexpr int M = ROWS, N = COLUMNS,", "constexpr int M = ROWS / 2, N = COLUMNS / 2,"),
    ("u64)(start >> 4) |", "u64)(start >> 4 & 0x3FFF) |"),
    ("N >> 3 << 17 | M >> 4 << 24", "N >> 2 << 17 | M >> 3 << 24"),
    ('b64 [%0];"\n            :: "r"(at(&done)) : "memory"); };\n    const auto wait', MULTICAST),
    ("    const int t = threadIdx.x, warp = t / 32;\n", RANK),
    ("M == 128 ? t : warp * 16 + t % 32", "M == 128 ? t : t % 64"),
    ("if (M == 128 || t % 32 < 16)", "if (true)"),
    ("out[row() * N + column + i]", "out[(rank * M + row()) * 2 * N + column + i + (M == 64 ? t / 64 * N : 0)]"),
]
PAIR = """
    allocate(); relinquish(); initialise();
    before(); meet(); after();
    for (int k0 = 0, phase = 0; k0 < depth; k0 += DEPTH, phase ^= 1) {
        load(k0); proxy(); meet();
        if (rank == 0 && t == 0) { product(k0); commit(); }
        wait(phase);
    }
    after();
    for (int column = 0; column < (M == 64 ? N : 2 * N); column += 8) { get(column); loaded(); store(column); }
    before(); meet();
    free();
"""


def run_pair(old="", new="", t="f16", rows=256, columns=32, steps=2, schedule=0):
    depth = steps * 128 // np.dtype(factors(t, 1, 1, 0)[0].dtype).itemsize
    (a, left), (b, right) = factors(t, rows, depth, 1), factors(t, columns, depth, 2)
    c, kind, types, (sums, value, dtype) = TYPES[t]
    text = KERNEL
    for alone, together in CLUSTER:
        assert alone in text, alone
        text = text.replace(alone, together)
    words = {"ROWS": rows, "COLUMNS": columns, "DESCRIBED": types, "ALLOCATED": 32, "KIND": kind, "VALUE": value}
    for word, meaning in {**words, "BODY": PAIR}.items():
        text = text.replace(word, str(meaning))
    assert old in text
    text = text.replace(old, new) if old else text
    out = np.zeros((rows, columns), dtype)
    text = compiling.compile_text(f"typedef {c} T; typedef {sums} S;{text}", "-lineinfo", arch="compute_100a")
    return launch(text, "k", 2, 128, [a, b, out, depth], schedule=schedule), out, left @ right.T


@pytest.mark.parametrize(
    ("t", "rows", "schedule"), [("f16", 256, 0), ("tf32", 256, 1), ("f16", 128, 2), ("s8", 128, 0)]
)
def test_a_pair_of_blocks_multiplies(t, rows, schedule):
    emulation, out, wanted = run_pair(t=t, rows=rows, schedule=schedule)
    assert emulation.clean, emulation.findings
    np.testing.assert_array_equal(out, wanted)


PAIR_WRONG = [
    ("no wait of the second block", "wait(phase);", "if (rank == 0) wait(phase);", "async-not-waited"),
    ("a commit to one block", "(unsigned short)3", "(unsigned short)1", "mbarrier-deadlock"),
    ("no meeting behind the loads", "proxy(); meet();", "proxy();", "shared-race"),
    ("no allocation in the second block", "allocate();", "if (rank == 0) allocate();", "tensor-memory-misuse"),
    ("not freed by the second block", "free();", "if (rank == 0) free();", "tensor-memory-misuse"),
]


@pytest.mark.parametrize(("old", "new", "kind"), [one[1:] for one in PAIR_WRONG], ids=[one[0] for one in PAIR_WRONG])
def test_wrong_uses_by_a_pair_are_found(old, new, kind):
    emulation, _, _ = run_pair(old, new)
    assert kind in {finding.kind for finding in emulation.findings}, emulation.findings


def test_a_pair_needs_a_cluster():
    with pytest.raises(UnsupportedInstruction, match="a pair of blocks"):
        run_pair("__cluster_dims__(2, 1, 1)", "")
