"""Mbarriers and bulk copies (cp.async.bulk) on small kernels: correct use, and every misuse."""

import functools

import compiling
import numpy as np
import pytest
from mistakes import coded

from lab.base.errors import UserError
from lab.emulator import api
from lab.emulator.api import launch
from lab.emulator.results import Buffer, TensorMapArgument

KERNEL = """
struct __align__(64) Map { unsigned long long words[16]; };
extern "C" __global__ void k(const __grid_constant__ Map map, const float* __restrict__ in, float* out, int x, int y) {
    __shared__ __align__(128) float tile[2][256];
    __shared__ __align__(8) unsigned long long full[2], empty[2];
    const auto at = [](const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); };
    const auto init = [&](void* bar, unsigned count) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(bar)), "r"(count) : "memory"); };
    const auto inval = [&](void* bar) {
        asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(at(bar)) : "memory"); };
    const auto expect = [&](void* bar, unsigned bytes) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(bar)), "r"(bytes) : "memory"); };
    const auto arrive = [&](void* bar) {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(bar)) : "memory"); };
    const auto box = [&](float* to, void* bar, int c0, int c1) {
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2, %3}], [%4];"
                     ::"r"(at(to)), "l"(&map), "r"(c0), "r"(c1), "r"(at(bar)) : "memory"); };
    const auto line = [&](void* to, const void* from, unsigned bytes, void* bar) {
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     ::"r"(at(to)), "l"(from), "r"(bytes), "r"(at(bar)) : "memory"); };
    const auto wait = [&](void* bar, unsigned parity) {
        asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;"
                     " @!done bra again; }" ::"r"(at(bar)), "r"(parity) : "memory"); };
    const auto fence = [] { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); };
    const int t = threadIdx.x;
    BODY
}
"""
START = (
    "if (t == 0) { init(&full[0], 1); init(&full[1], 1); init(&empty[0], 4); init(&empty[1], 4); fence(); }"
    " __syncthreads();"
)
ONE_BOX = START + "if (t == 0) { expect(&full[0], 1024); box(tile[0], &full[0], x, y); }"
STORE = "for (int i = t; i < 256; i += 128) out[blockIdx.x * 256 + i] = tile[0][i];"
MATRIX = np.arange(1, 40 * 24 + 1, dtype=np.float32).reshape(24, 40)  # 24 columns of 40 rows


@functools.cache
def ptx(body):
    return compiling.compile_text(KERNEL.replace("BODY", body), "-lineinfo")


def run(body, x=0, y=0, *, box=(32, 8), leading=40, grid=2, **options):
    out = np.zeros(256 * grid, np.float32)
    tensor_map = TensorMapArgument(Buffer(MATRIX), (37, 22), leading, box)
    args = [tensor_map, MATRIX, out, np.int32(x), np.int32(y)]
    return launch(ptx(body), "k", grid, 128, args, **options), out.reshape(grid, -1)


def boxed(x, y):
    """Rows x to x + 31 of columns y to y + 7, zero outside of 37 x 22."""
    found = np.zeros((8, 32), np.float32)
    for column in range(max(0, y), min(22, y + 8)):
        for row in range(max(0, x), min(37, x + 32)):
            found[column - y, row - x] = MATRIX[column, row]
    return found.reshape(-1)


def kinds(emulation):
    return {finding.kind for finding in emulation.findings}


@pytest.mark.parametrize(("x", "y"), [(0, 0), (4, 3), (-5, 2), (20, 19), (3, -6), (-40, 0), (0, 30)])
def test_a_box_arrives_with_zeros_outside_of_the_matrix(x, y):
    emulation, out = run(ONE_BOX + "wait(&full[0], 0);" + STORE, x, y)
    assert emulation.clean, emulation.findings
    assert (out == boxed(x, y)).all()


def test_a_box_is_counted_as_what_it_moves():
    emulation, _ = run(ONE_BOX + "wait(&full[0], 0);" + STORE, 20, 19, grid=1)
    shared, fetched = (emulation.counts.memory[f"{space}.copy"] for space in ("shared", "global"))
    assert (shared.requests, shared.wavefronts, shared.bytes_used) == (1, 8, 1024)
    # 17 rows are left of 37, in 3 columns; column j begins at byte 160 j, so each piece of 68 bytes lies in 3 sectors
    assert (fetched.requests, fetched.sectors, fetched.bytes_used) == (1, 9, 3 * 17 * 4)
    assert emulation.counts.warps_by_class["cp.async.bulk"] == 1
    assert emulation.counts.warps_by_opcode["mbarrier.try_wait.parity.shared::cta.b64"] == 4


def test_a_line_arrives():
    lines = "line(tile[0], in + 4, 512, &full[0]); line(tile[0] + 128, in, 512, &full[0]);"
    body = START + "if (t == 0) { expect(&full[0], 1024); " + lines + "}"
    emulation, out = run(body + "wait(&full[0], 0);" + STORE)
    assert emulation.clean, emulation.findings
    flat = MATRIX.reshape(-1)
    assert (out == np.concatenate([flat[4:132], flat[:128]])).all()


RING = (
    START
    + """
    float sum = 0;
    for (int s = 0; s < 6; ++s) {
        if (t == 32) {
            if (s >= 2) wait(&empty[s % 2], s / 2 - 1 & 1);
            expect(&full[s % 2], 1024);
            box(tile[s % 2], &full[s % 2], 0, s);
        }
        wait(&full[s % 2], s / 2 & 1);
        sum += tile[s % 2][t] + tile[s % 2][t + 128];
        __syncwarp();
        if (t % 32 == 0) arrive(&empty[s % 2]);
    }
    out[blockIdx.x * 256 + t] = sum;
"""
)


def test_a_ring_needs_no_barrier_of_the_block():
    emulation, out = run(RING)
    assert emulation.clean, emulation.findings
    whole = sum(boxed(0, s) for s in range(6))
    assert (out[:, :128] == whole[:128] + whole[128:]).all()


def test_checks_can_be_switched_off():
    emulation, out = run(RING, check=False)
    assert emulation.clean
    assert out.any()


POLLED = (
    START
    + """
    if (t >= 96) {
        for (int i = 0; i < 3; ++i) __nanosleep(10);
        if (t == 96) { expect(&full[0], 1024); box(tile[0], &full[0], x, y); }
    }
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(at(&full[0])) : "memory");
"""
)
TOGETHER = """
    if (t == 0) { init(&full[0], 128); fence(); } __syncthreads();
    tile[0][t] = tile[0][t + 128] = t;
    unsigned long long state; unsigned done = 0;
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(at(&full[0])) : "memory");
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.test_wait.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(at(&full[0])), "l"(state) : "memory");
    out[blockIdx.x * 256 + t] = tile[0][127 - t];
"""


def test_threads_that_poll_go_on_when_the_phase_is_complete():
    emulation, out = run(POLLED + STORE, 4, 3)
    assert emulation.clean, emulation.findings
    assert (out == boxed(4, 3)).all()


def test_arrivals_order_what_threads_did_before():
    emulation, out = run(TOGETHER)
    assert emulation.clean, emulation.findings
    assert (out[:, :128] == np.arange(127, -1, -1)).all()


def test_a_poll_that_never_succeeds_is_a_deadlock():
    emulation, _ = run(POLLED.replace("t == 96", "t == 999") + STORE)
    assert kinds(emulation) == {"mbarrier-deadlock"}


ASKED, WAIT = ONE_BOX[len(START) :], "wait(&full[0], 0);"
BY_HAND = """
    const Map* m = reinterpret_cast<const Map*>(in);
    if (t == 0) asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                             "[%0], [%1, {%2, %2}], [%3];"
                             ::"r"(at(tile)), "l"(m), "r"(x), "r"(at(&full[0])) : "memory");
"""
CROOKED = 'if (t == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(tile) + 4));'
WRONG = [
    ("no wait", ONE_BOX + STORE, "async-not-waited"),
    ("in flight at the end", ONE_BOX, "async-not-waited"),
    ("one warp waits", ONE_BOX + "if (t < 32) wait(&full[0], 0);" + STORE, "async-not-waited"),
    ("wrong parity", ONE_BOX + "wait(&full[0], 1);" + STORE, "mbarrier-deadlock"),
    ("other mbarrier", ONE_BOX + "if (t == 0) expect(&full[1], 0); wait(&full[1], 0);" + STORE, "async-not-waited"),
    ("too many bytes", ONE_BOX.replace("1024", "1040") + WAIT + STORE, "mbarrier-deadlock"),
    ("too few bytes", ONE_BOX.replace("1024", "1008") + WAIT + STORE, "mbarrier-deadlock"),
    ("no arrival", ONE_BOX.replace("expect(&full[0], 1024); ", "") + WAIT + STORE, "mbarrier-deadlock"),
    ("count of 2", ONE_BOX.replace("init(&full[0], 1)", "init(&full[0], 2)") + WAIT, "mbarrier-deadlock"),
    ("no init", ONE_BOX.replace("init(&full[0], 1); ", "") + WAIT + STORE, "mbarrier-misuse"),
    ("count of 0", START.replace("init(&full[0], 1)", "init(&full[0], 0)"), "mbarrier-misuse"),
    ("init twice", START + "if (t == 0) init(&full[0], 1);", "mbarrier-misuse"),
    ("inval too early", ONE_BOX + "if (t == 0) inval(&full[0]); __syncthreads();" + WAIT, "mbarrier-misuse"),
    ("one arrival more", START + "if (t == 0) { expect(&full[0], 16); arrive(&full[0]); }", "mbarrier-misuse"),
    ("store over it", START + "full[0] = t;", "mbarrier-misuse"),
    ("load of it", START + "out[t] = full[0];", "mbarrier-misuse"),
    ("too large a count", START + "if (t == 0) expect(&full[0], 1 << 20);", "mbarrier-misuse"),
    ("no fence", ONE_BOX.replace(" fence();", "") + WAIT + STORE, "missing-proxy-fence"),
    ("no barrier after init", ONE_BOX.replace("__syncthreads();", "") + WAIT, "shared-race"),
    ("generic writes before", START + "tile[0][t] = 1; __syncthreads();" + ASKED + WAIT, "missing-proxy-fence"),
    ("refilled while read", RING.replace("if (s >= 2) wait(&empty[s % 2], s / 2 - 1 & 1);", ""), "shared-race"),
    ("refilled too early", ONE_BOX.replace("box(", "line(tile[0], in, 16, &full[1]); box("), "async-not-waited"),
    ("target between lines", ONE_BOX.replace("box(tile[0]", "box(tile[0] + 4"), "misaligned"),
    ("target beyond", ONE_BOX.replace("box(tile[0]", "box(tile[1] + 32"), "out-of-bounds"),
    ("size", START + "if (t == 0) line(tile[0], in, 20, &full[0]);", "misaligned"),
    ("source", START + "if (t == 0) line(tile[0], in + 1, 16, &full[0]);", "misaligned"),
    ("line target", START + "if (t == 0) line(tile[0] + 1, in, 16, &full[0]);", "misaligned"),
    ("source beyond", START + "if (t == 0) line(tile[0], in + 956, 32, &full[0]);", "out-of-bounds"),
    ("no map", START + BY_HAND, "out-of-bounds"),
    ("mbarrier between words", START + CROOKED, "misaligned"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "kind"), [(body, kind) for _, body, kind in WRONG], ids=[name for name, _, _ in WRONG]
)
def test_wrong_uses_are_found(body, kind, monkeypatch):
    monkeypatch.setattr(api, "DEFAULT_MAX_STEPS", 100_000)
    emulation, _ = run(body)
    assert kind in kinds(emulation), emulation.findings
    for finding in emulation.findings:
        assert finding.line > 0
        assert finding.source is not None
        assert finding.thread is not None


def test_a_matrix_larger_than_its_buffer_is_out_of_bounds():
    emulation, _ = run(ONE_BOX + "wait(&full[0], 0);" + STORE, 0, 14, leading=64)
    assert "out-of-bounds" in kinds(emulation)


def test_what_nobody_wrote_is_not_copied():
    out, tensor_map = (
        np.zeros(512, np.float32),
        TensorMapArgument(Buffer(MATRIX, initialised=False), (37, 22), 40, (32, 8)),
    )
    body = ONE_BOX + "wait(&full[0], 0);" + STORE
    emulation = launch(ptx(body), "k", 2, 128, [tensor_map, np.zeros(4, np.float32), out, np.int32(0), np.int32(0)])
    assert kinds(emulation) == {"uninitialised-read"}


def test_a_map_for_a_parameter_that_is_none_is_refused():
    tensor_map = TensorMapArgument(Buffer(MATRIX), (37, 22), 40, (32, 8))
    with pytest.raises(UserError, check=coded("unsupported", key="args[3]", found="4 bytes, aligned to 4")):
        launch(ptx(START), "k", 1, 128, [tensor_map, MATRIX, MATRIX, tensor_map, np.int32(0)])
