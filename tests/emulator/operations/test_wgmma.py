"""wgmma: what it computes, from every layout, and every way to use it wrongly."""

import functools

import compiling
import numpy as np
import pytest
from small_ptx import kernel

from lab.emulator.api import launch
from lab.emulator.errors import UnsupportedInstruction


@pytest.fixture(scope="module")
def tensor(benchmark_script):
    return benchmark_script("tensor_cases")


def executed(case):
    out = np.zeros(*case.output)
    emulation = launch(case.ptx, "k", len(out), case.threads, [*case.inputs, out])
    assert emulation.clean, emulation.findings
    return out


WIDTHS = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "s8": 1, "u8": 1}


def values(raw, t):
    if t == "bf16":
        return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(float)
    if t == "e4m3":
        code = raw.view(np.uint8).astype(int)
        exponent, rest = code >> 3 & 15, code & 7
        size = np.where(exponent > 0, (1 + rest / 8) * 2.0 ** (exponent - 7), 0.0)
        return np.where(code > 127, -size, size)
    kinds = {"f16": np.float16, "tf32": np.float32, "s8": np.int8, "u8": np.uint8, "f32": np.float32, "s32": np.int32}
    return raw.view(kinds[t]).astype(float)


def address(word, row, k, size, *, turned):
    """Bytes from the image's start to an element, by the canonical layouts."""
    start, leading, stride = ((int(word) >> shift & 0x3FFF) * 16 for shift in (0, 16, 32))
    pieces = {0: 1, 1: 8, 2: 4, 3: 2}[int(word) >> 62]
    per = 16 // size
    if turned:
        outer_row, outer_k = (stride, leading) if pieces == 1 else (leading, stride)
        tile = per * pieces
        plain = start + row % tile * size + row // tile * outer_row + k % 8 * 16 * pieces + k // 8 * outer_k
    else:
        over = leading * (k // per) + k % per * size if pieces == 1 else k * size
        plain = start + row % 8 * 16 * pieces + row // 8 * stride + over
    return plain ^ ((plain >> 7 & pieces - 1) << 4)


def matrix(image, word, t, rows, depth, *, turned):
    size = WIDTHS[t]
    found = np.zeros((rows, depth))
    for row in range(rows):
        for k in range(depth):
            at = address(word, row, k, size, turned=turned)
            found[row, k] = values(image[at : at + size], t)[0]
    return found


LAYOUTS = [
    ("f32", "f16", (0, 0)), ("f32", "f16", (0, 1)), ("f32", "f16", (1, 0)), ("f16", "bf16", (0, 0)),
    ("f32", "tf32", (0, 0)), ("f32", "e4m3", (0, 0)), ("s32", "s8", (0, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("td", "ta", "turned"), [one for one in LAYOUTS if one[:2] != ("f16", "bf16")])
def test_every_layout_of_shared_memory(tensor, td, ta, turned):
    case = tensor.layout_case(td, ta, seed=5, turned=turned)
    out = executed(case)
    images, words, _, before = case.inputs
    k = 32 // WIDTHS[ta]
    rows, columns = tensor.index_c(16, 16)
    for trial in range(4):  # one of each mode of A
        a = matrix(images[trial], words[trial, 0], ta, 64, k, turned=bool(turned[0]))
        b = matrix(images[trial], words[trial, 1], ta, 16, k, turned=bool(turned[1]))
        sign = 1 if td == "s32" else -1
        total = sign * a @ b.T
        for warp in range(4):
            part = slice(32 * warp, 32 * warp + 32)
            wanted = values(before[trial, part], td) + total[16 * warp + rows, columns]
            np.testing.assert_array_equal(values(out[trial, part], td), wanted)


@pytest.mark.parametrize(("td", "ta"), [("f32", "bf16"), ("f32", "tf32"), ("s32", "u8")])
def test_a_from_registers(tensor, td, ta):
    case = tensor.layout_case(td, ta, seed=5, registers=True)
    out = executed(case)
    images, words, fragments, before = case.inputs
    k = 32 // WIDTHS[ta]
    index_a, index_c = tensor.index_a(16, k, ta), tensor.index_c(16, 16)
    for trial in range(2):
        b = matrix(images[trial], words[trial, 1], ta, 16, k, turned=False)
        for warp in range(4):
            part = slice(32 * warp, 32 * warp + 32)
            a = np.zeros((16, k))
            a[index_a] = values(np.ascontiguousarray(fragments[trial, part]), ta)
            total = a @ b.T * (1 if td == "s32" else -1)
            wanted = values(before[trial, part], td) + total[index_c]
            np.testing.assert_array_equal(values(out[trial, part], td), wanted)


def expanded(stored, metadata, t, selector):
    """The (64, k) matrix of which half is stored; (128,) metadata are those of the figures of PTX ISA, 9.7.15.6.2."""
    size = WIDTHS[t]
    chunk, per_word = (2 if size == 4 else 4), (8 if size == 1 else 4)  # of a row's chunks
    full = np.zeros((64, 2 * stored.shape[1]))
    for row in range(64):
        upper = row % 16 // 8
        for chunk_index in range(full.shape[1] // chunk):
            if size == 1:
                lane, shift = upper + 2 * (chunk_index // per_word), 4 * (chunk_index % per_word)
            else:
                lane, shift = 2 * selector + chunk_index // per_word, 16 * upper + 4 * (chunk_index % per_word)
            nibble = int(metadata[row // 16 * 32 + row % 8 * 4 + lane]) >> shift & 15
            places = [{4: 0, 14: 1}[nibble]] if size == 4 else [nibble & 3, nibble >> 2]
            for i, place in enumerate(places):
                full[row, chunk_index * chunk + place] = stored[row, chunk_index * len(places) + i]
    return full


SPARSE = [
    ("f32", "f16", (0, 0), 0, False), ("f32", "f16", (0, 1), 1, False), ("f32", "f16", (1, 0), 1, False),
    ("f32", "bf16", (0, 0), 1, True), ("f32", "tf32", (0, 0), 0, False), ("f32", "tf32", (0, 0), 1, True),
    ("f32", "e4m3", (0, 0), 0, False), ("s32", "s8", (0, 0), 0, True), ("s32", "u8", (0, 0), 0, False),
]  # fmt: skip


@pytest.mark.parametrize(("td", "ta", "turned", "selector", "registers"), SPARSE)
def test_a_sparse_a_times_a_dense_b(tensor, td, ta, turned, selector, registers):
    case = tensor.layout_case(td, ta, seed=5, turned=turned, registers=registers, selector=selector)
    out = executed(case)
    images, words, fragments, before, metadata = case.inputs
    depth = 32 // WIDTHS[ta]
    index_a, index_c = tensor.index_a(16, depth, ta), tensor.index_c(16, 16)
    for trial in range(4):
        if registers:
            stored = np.zeros((64, depth))
            for warp in range(4):
                mine = np.ascontiguousarray(fragments[trial, 32 * warp : 32 * warp + 32])
                stored[16 * warp : 16 * warp + 16][index_a] = values(mine, ta)
        else:
            stored = matrix(images[trial], words[trial, 0], ta, 64, depth, turned=bool(turned[0]))
        b = matrix(images[trial], words[trial, 1], ta, 16, 2 * depth, turned=bool(turned[1]))
        total = expanded(stored, metadata[trial, :, 0], ta, selector) @ b.T * (1 if td == "s32" else -1)
        for warp in range(4):
            part = slice(32 * warp, 32 * warp + 32)
            wanted = values(before[trial, part], td) + total[16 * warp : 16 * warp + 16][index_c]
            np.testing.assert_array_equal(values(out[trial, part], td), wanted)


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        ("wgmma.wait_group.sync.aligned 0;", "", {"async-not-waited"}),
        ("fence.proxy.async;", "", {"missing-proxy-fence"}),
        ("wgmma.fence.sync.aligned;", "", {"wgmma-misuse"}),
        ("%y, %w0, 1, %q", "%y, %e, 1, %q", {"uninitialised-register"}),  # the metadata
        ("%y, %w0, 1, %q", "%y, %w0, 0, %q", set()),  # other lanes' metadata
        ("bar.sync 0;", "", {"shared-race"}),
        ("wgmma.commit_group", "add.u32 %a0, %a0, 1; wgmma.commit_group", {"async-not-waited"}),
        ("wgmma.commit_group", "add.u32 %w0, %w0, 1; wgmma.commit_group", set()),  # PTX names A and D alone
    ],
)
def test_faults_of_a_sparse_product(tensor, old, new, kinds):
    case = tensor.layout_case("f32", "f16", seed=5, registers=True, selector=1)
    assert old in case.ptx
    text = case.ptx.replace(old, new).replace("%w<4>;", "%w<4>; .reg .b32 %e;")
    out = np.zeros(*case.output)
    emulation = launch(text, "k", 1, 128, [*(one[:1].copy() for one in case.inputs), out[:1].copy()])
    assert {finding.kind for finding in emulation.findings} == kinds


# --- as CUDA C++ has it -------------------------------------------------------------------------------------------

KERNEL = """
#include <cuda_fp16.h>
extern "C" __global__ void __launch_bounds__(THREADS) k(const __half* a, const __half* b, float* out) {
    __shared__ __align__(1024) __half sa[64 * 64];
    __shared__ __align__(1024) __half sb[8 * 64];
    const int t = threadIdx.x;
    const auto at = [](const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); };
    const auto described = [&](const void* p) {  // rows of 128 bytes, swizzled
        return static_cast<unsigned long long>(at(p) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62; };
    const auto fence = [] { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); };
    const auto proxy = [] { asm volatile("fence.proxy.async;" ::: "memory"); };
    const auto commit = [] { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); };
    const auto wait = [] { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); };
    float d[4] = {};
    const auto multiply = [&](unsigned long long x, unsigned long long y, int add) {
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %6, 0; "
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0; }"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(x), "l"(y), "r"(add)); };
    const auto load = [&] {
        for (int i = t; i < 64 * 64; i += THREADS) {
            const int row = i / 64, piece = i / 8 % 8;
            sa[row * 64 + (piece ^ row % 8) * 8 + i % 8] = a[i];
            if (i < 8 * 64) sb[row * 64 + (piece ^ row % 8) * 8 + i % 8] = b[i];
        } };
    const auto product = [&] {
        for (int k = 0; k < 4; ++k) multiply(described(sa) + 2 * k, described(sb) + 2 * k, k > 0); };
    const auto store = [&] {
        for (int i = 0; i < 4; ++i)
            out[(t / 32 * 16 + t % 32 / 4 + i / 2 * 8) * 8 + t % 4 * 2 + i % 2] = d[i]; };
    BODY
}
"""
GOOD = "load(); proxy(); __syncthreads(); fence(); product(); commit(); wait(); store();"
RANDOM = np.random.default_rng(6)
A, B = RANDOM.integers(-4, 5, (64, 64)).astype(np.float16), RANDOM.integers(-4, 5, (8, 64)).astype(np.float16)
WANTED = A.astype(np.float32) @ B.astype(np.float32).T


@functools.cache
def ptx(body, threads):
    source = KERNEL.replace("BODY", body).replace("THREADS", str(threads))
    return compiling.compile_text(source, "-lineinfo", arch="compute_90a")


def run(body, threads=128, **options):
    out = np.zeros((64, 8), np.float32)
    return launch(ptx(body, threads), "k", 1, threads, [A, B, out], **options), out


def test_a_product_of_swizzled_tiles():
    emulation, out = run(GOOD)
    assert emulation.clean, emulation.findings
    np.testing.assert_array_equal(out, WANTED)


HOLES = [("f16", (0, 0), 0), ("f16", (1, 0), 0), ("f16", (0, 1), 1), ("tf32", (0, 0), 1), ("e4m3", (0, 0), 0)]
NAN = {"f16": 0x7E007E00, "tf32": 0x7FC00000, "e4m3": 0x7F7F7F7F}


def with_hole(case, piece):
    """Leave 16 bytes of shared memory unwritten, and store what a mask in place of A names."""
    text = case.ptx.replace("shl.b32 %u", f".reg .pred %h, %g; setp.ne.u32 %h, %t, {piece % 128}; shl.b32 %u", 1)
    text = text.replace(
        f"st.shared.v4.b32 [%u+{piece // 128 * 2048}]", f"@%h st.shared.v4.b32 [%u+{piece // 128 * 2048}]"
    )
    text = text.replace(
        "ld.param.u64 %p, [d];", "ld.param.u64 %x, [a]; mad.wide.u32 %x, %t, 32, %x; ld.param.u64 %p, [d];"
    )
    for i in range(8):
        wanted = f"ld.global.b32 %w0, [%x+{4 * i}]; setp.ne.u32 %g, %w0, 0; @%g st.global.b32 [%p+{4 * i}]"
        text = text.replace(f"st.global.b32 [%p+{4 * i}]", wanted)
    return text


@pytest.mark.parametrize(("ta", "turned", "operand"), HOLES)
def test_what_nothing_wrote_spreads_as_nan_does(tensor, ta, turned, operand):
    case = tensor.layout_case("f32", ta, seed=5, turned=turned)
    images, words, _, before = (one.copy() for one in case.inputs)
    images[:], before[:] = 0, 0
    piece = address(words[1, operand], 5, 3, WIDTHS[ta], turned=bool(turned[operand])) // 16
    images[:, piece * 16 : piece * 16 + 16].view(np.uint32)[:] = NAN[ta]
    out = np.zeros(*case.output)
    assert launch(case.ptx, "k", len(out), 128, [images, words, out, before, out]).clean
    wrong = np.isnan(out.view(np.float32))
    assert wrong.any()
    for mask, kinds in ((~wrong, set()), (wrong & (wrong.cumsum().reshape(wrong.shape) == 1), {"uninitialised-read"})):
        arguments = [images, words, mask.astype(np.uint32), before, np.zeros_like(out)]
        emulation = launch(with_hole(case, int(piece)), "k", len(out), 128, arguments)
        assert {finding.kind for finding in emulation.findings} == kinds


EDGE = """
for (int i = t; i < 64 * 64; i += THREADS) {
    const int row = i / 64, piece = i / 8 % 8;
    if (row < 50) sa[row * 64 + (piece ^ row % 8) * 8 + i % 8] = a[i];
    if (row < 6) sb[row * 64 + (piece ^ row % 8) * 8 + i % 8] = b[i];
}
proxy(); __syncthreads(); fence(); product(); commit(); wait();
for (int i = 0; i < 4; ++i) {
    const int row = t / 32 * 16 + t % 32 / 4 + i / 2 * 8, column = t % 4 * 2 + i % 2;
    if (row < ROWS && column < COLUMNS) out[row * 8 + column] = d[i];
}
"""


@pytest.mark.parametrize(
    ("rows", "columns", "changed"), [(50, 6, ""), (51, 6, ""), (50, 7, ""), (50, 6, "row < 50 && i != 99")]
)
def test_rows_and_columns_that_nobody_fills_may_not_be_stored(rows, columns, changed):
    body = (
        EDGE.replace("ROWS", str(rows)).replace("COLUMNS", str(columns)).replace("row < 50", changed or "row < 50", 1)
    )
    emulation, out = run(body)
    if (rows, columns, changed) == (50, 6, ""):
        assert emulation.clean, emulation.findings
        np.testing.assert_array_equal(out[:50, :6], WANTED[:50, :6])
        return
    (finding,) = emulation.findings
    assert finding.kind == "uninitialised-read"
    assert "wgmma" in finding.text
    assert "is stored" in finding.detail


@pytest.mark.parametrize("schedule", [1, 2, 3])
def test_the_warps_of_a_warpgroup_come_in_any_order(schedule):
    emulation, out = run(GOOD, schedule=schedule)
    assert emulation.clean, emulation.findings
    np.testing.assert_array_equal(out, WANTED)


def test_a_wgmma_that_was_not_committed_is_told_from_one_that_was_not_waited_for():
    early, uncommitted = (run(GOOD.replace(call, ""))[0].findings[0].detail for call in ("wait();", "commit();"))
    assert early.endswith("is an accumulator of a wgmma that has not been waited for")
    assert uncommitted.endswith("is an accumulator of a wgmma that no wgmma.commit_group has made part of a group")


def test_a_loop_that_waits_one_group_behind():
    steps = "for (int k = 0; k < 4; ++k) { multiply(described(sa) + 2 * k, described(sb) + 2 * k, k > 0); commit(); "
    steps += 'asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory"); }'
    emulation, out = run(GOOD.replace("product(); commit();", steps))
    assert emulation.clean, emulation.findings
    np.testing.assert_array_equal(out, WANTED)


AGAIN = "multiply(described(sa), described(sb), 1); commit(); wait(); store();"
APART = "multiply(described(sa) + t, described(sb), 0);"
WRONG = [
    ("no wait", GOOD.replace("wait();", ""), "async-not-waited"),
    ("no commit", GOOD.replace("commit();", ""), "async-not-waited"),
    ("no fence", GOOD.replace("fence();", "", 1), "wgmma-misuse"),
    ("no fence of the proxies", GOOD.replace("proxy();", ""), "missing-proxy-fence"),
    ("no barrier", GOOD.replace("__syncthreads();", ""), "shared-race"),
    ("no fence after a change", GOOD.replace("store();", f"d[0] += 1; {AGAIN}"), "wgmma-misuse"),
    ("overwritten", GOOD.replace("wait();", "__syncthreads(); sa[t] = a[0]; wait();"), "async-not-waited"),
    ("overwritten by who did not wait", GOOD.replace("wait();", "if (t < 32) { wait(); sb[t] = a[0]; } else wait();")
     .replace("commit();", "commit(); if (t >= 32) sb[t] = a[0];"), "async-not-waited"),
    ("what others wrote", GOOD.replace("commit();", "sb[t + 64] = a[0]; commit();")
     + "if (t < 32) out[t] += float(sb[t + 96]);", "shared-race"),
    ("three warps", GOOD.replace("product();", "if (t >= 32) product();"), "wgmma-misuse"),
    ("half a warp", GOOD.replace("product();", "if (t != 5) product();"), "warp-divergence"),
    ("beyond", GOOD.replace("product();", "multiply(described(sa + 65536), described(sb), 0);"), "out-of-bounds"),
    ("different descriptors", GOOD.replace("product();", APART), "wgmma-misuse"),
    ("never waited", GOOD.replace("wait(); store();", ""), "async-not-waited"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "kind"), [one[1:] for one in WRONG], ids=[one[0] for one in WRONG])
def test_wrong_uses_are_found(body, kind):
    emulation, _ = run(body)
    assert kind in {finding.kind for finding in emulation.findings}, emulation.findings
    assert all(finding.line > 0 for finding in emulation.findings)


def test_a_write_over_what_a_wgmma_reads_names_that_wgmma():
    emulation, _ = run(GOOD.replace("wait();", "__syncthreads(); sa[t] = a[0]; wait();"))
    (found,) = [finding for finding in emulation.findings if finding.kind == "async-not-waited"]
    assert "st.shared" in found.text
    assert (found.other.kind, found.other.warp) == ("read", found.warp)
    assert found.other.line in range(found.line - 40, found.line)
    assert "the read is at" in found.summary


@pytest.mark.parametrize("schedule", [0, 1, 2])
def test_a_warps_wait_is_for_what_all_four_read(schedule):
    emulation, out = run(GOOD + "if (t < 32) sb[t] = a[0];", schedule=schedule)
    assert emulation.clean, emulation.findings
    np.testing.assert_array_equal(out, WANTED)


@pytest.mark.parametrize(("who", "count"), [("t % 32 == 9", 4), ("t == 41", 1)], ids=["each warp", "one thread"])
def test_any_lane_of_a_warp_or_of_its_warpgroup_tells_what_was_read(who, count):
    source = """__shared__ unsigned long long bar; const unsigned there = at(&bar);
        const int last = t >= 128;
        if (t == 128) asm volatile("mbarrier.init.shared::cta.b64 [%0], COUNT;" :: "r"(there) : "memory");
        load(); proxy(); __syncthreads();
        if (!last) {
            fence(); product(); commit(); wait(); store();
            if (WHO) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(there) : "memory");
        } else {
            asm volatile("{ .reg .pred p; A: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra A; }"
                         :: "r"(there) : "memory");
            sb[t - 128] = a[0];
        }""".replace("WHO", who).replace("COUNT", str(count))
    emulation, out = run(source, 256)
    assert emulation.clean, emulation.findings
    np.testing.assert_array_equal(out, WANTED)
    early, _ = run(source.replace("wait(); store();", "").replace("} else {", "wait(); store(); } else {"), 256)
    assert {finding.kind for finding in early.findings} <= {"shared-race", "async-not-waited"}
    assert not early.clean


def test_two_warpgroups_share_b():
    emulation, out = run(GOOD.replace("store();", "if (t < 128) store();"), 256)
    assert emulation.clean, emulation.findings
    np.testing.assert_array_equal(out, WANTED)


D4 = "{%f0, %f1, %f2, %f3}"
SPARSE_F16 = "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16"


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        (f"wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {D4}, %rd0, %rd1, %p0, 1, 1, 0, 0;", "m64n12k16"),
        (f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.bf16 {D4}, %rd0, %rd1, %p0, 1, 1, 0, 0;", "types"),
        (f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {D4}, %rd0, %rd1, %p0, 1, 2, 0, 0;", "the constants 1, 2"),
        (f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {D4}, %rd0, %rd1, %p0, 1, 1;", "6 operands"),
        (f"{SPARSE_F16.replace('k32', 'k16')} {D4}, %rd0, %rd1, %r0, 0, %p0, 1, 1, 0, 0;", "m64n8k16"),
        (f"{SPARSE_F16} {D4}, %rd0, %rd1, %r0, 2, %p0, 1, 1, 0, 0;", "selector 2 of 2"),
        (f"{SPARSE_F16} {D4}, %rd0, %rd1, %p0;", "4 operands"),
        (
            f"{SPARSE_F16.replace('k32.f32.f16.f16', 'k64.f32.e4m3.e4m3')} {D4}, %rd0, %rd1, %r0, 1, %p0, 1, 1;",
            "1 of 1",
        ),
        (f"{SPARSE_F16.replace('k32.f32.f16.f16', 'k512.s32.b1.b1.and.popc')} {D4}, %rd0, %rd1, %r0, 0, %p0;", "types"),
        ("setmaxnreg.inc.sync.aligned.u32 100;", "100 registers"),
    ],
)
def test_what_does_not_exist_is_refused(instruction, why):
    with pytest.raises(UnsupportedInstruction, match=why):
        launch(kernel(instruction), "k", 1, 128, [])
