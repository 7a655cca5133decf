"""Suspicions raised by compiled code: no fault is missed, and clean kernels raise none."""

import compiling
import numpy as np
import pytest
import race_cases

from lab.emulator.api import launch
from lab.emulator.compiled import kernel_code
from lab.emulator.compiled.execution import SUSPICIOUS
from lab.emulator.compiled.native import forget
from lab.emulator.compiled.shadows import MANY, WRITTEN, meet
from lab.emulator.results import Buffer, Emulation, Engine

HEAD = race_cases.HEAD
ENGINES: tuple[Engine, Engine] = ("interpreted", "compiled")
TILE = """k(const float* in, float* out) {
    __shared__ float s[256];
    int t = threadIdx.x;
    s[t] = in[blockIdx.x * 256 + t];
    __syncthreads();  // filled
    for (int h = 128; h; h >>= 1) {
        if (t < h) s[t] += s[t + h];
        __syncthreads();  // added
    }
    if (t == 0) out[blockIdx.x] = s[0];
}"""
COPIES = """k(const float* in, float* out) {
    __shared__ float s[2][64];
    int t = threadIdx.x;
    unsigned at = (unsigned)__cvta_generic_to_shared(&s[0][t]);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at), "l"(in + t));
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at + 256), "l"(in + 64 + t));
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();  // first
    float sum = s[0][63 - t];
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();  // second
    out[t] = sum + s[1][63 - t];
}"""
WARPS = """k(const float* in, float* out) {
    __shared__ float s[128];
    int t = threadIdx.x, w = t & ~31;
    float sum = 0;
    for (int i = 0; i < 3; i++) {
        s[t] = in[t] + i;
        __syncwarp();  // filled
        for (int j = 0; j < 32; j++) sum += s[w + j];
        __syncwarp();  // read
    }
    out[t] = sum;
}"""
NEIGHBOURS = """k(const unsigned char* in, unsigned char* out) {
    __shared__ unsigned char s[128];
    s[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[127 - threadIdx.x];
}"""
OWN = """k(const float* in, float* out) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = 0; i < 4; i++) out[t] = out[t] * 0.5f + in[t];
}"""
LOCAL = """k(const float* in, float* out) {
    float a[16];
    for (int i = 0; i < 16; i++) a[i] = in[i];
    float sum = 0;
    for (int i = 0; i < 16; i++) sum += a[((int)in[i] + threadIdx.x) & 15];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}"""
COUNTS = """k(const float* in, unsigned* out) {
    __shared__ unsigned s[8];
    if (threadIdx.x < 8) s[threadIdx.x] = 0;
    __syncthreads();  // cleared
    atomicAdd(&s[threadIdx.x & 7], 1u);
    __syncthreads();  // counted
    if (threadIdx.x < 8) atomicAdd(&out[threadIdx.x], s[threadIdx.x]);
}"""
CLEAN = [
    (TILE, 3, 256), (COPIES, 1, 64), (WARPS, 1, 128), (NEIGHBOURS, 1, 128), (OWN, 5, 64), (LOCAL, 2, 64),
    (COUNTS, 3, 64),
]  # fmt: skip
BROKEN = [
    (TILE, 3, 256, "__syncthreads();  // filled", ""),
    (TILE, 3, 256, "__syncthreads();  // added", ""),
    (TILE, 3, 256, "s[t] = in[blockIdx.x * 256 + t];", "if (t != 5) s[t] = in[t];"),
    (TILE, 3, 256, "if (t == 0) out[blockIdx.x]", "if (t == 0) out[blockIdx.x / 2]"),
    (TILE, 3, 256, "if (t == 0) out[blockIdx.x]", "out[blockIdx.x]"),
    (COPIES, 1, 64, "wait_group 1", "wait_group 2"),
    (COPIES, 1, 64, "wait_group 0", "wait_group 1"),
    (COPIES, 1, 64, "__syncthreads();  // first", ""),
    (COPIES, 1, 64, "__syncthreads();  // second", "__syncwarp();"),
    (COPIES, 1, 64, 'asm volatile("cp.async.wait_group 0;" ::: "memory");', ""),
    (WARPS, 1, 128, "__syncwarp();  // filled", ""),
    (WARPS, 1, 128, "__syncwarp();  // read", ""),
    (WARPS, 1, 128, "__syncwarp();  // filled", "__syncwarp(t < 64 ? ~0u : t & 1 ? 0xaaaaaaaau : 0x55555555u);"),
    (WARPS, 1, 128, "w = t & ~31", "w = t & ~63"),
    (NEIGHBOURS, 1, 128, "__syncthreads();", ""),
    (NEIGHBOURS, 1, 128, "out[threadIdx.x] =", "out[threadIdx.x & 126] ="),
    (OWN, 5, 64, "out[t] = out[t]", "out[t] = out[t ^ 1]"),
    (OWN, 5, 64, "out[t] = out[t]", "out[t] = out[(t + 64) % 320]"),
    (OWN, 5, 64, "out[t] = out[t]", "out[t % 256] = out[t]"),
    (COUNTS, 3, 64, "__syncthreads();  // cleared", ""),
    (COUNTS, 3, 64, "__syncthreads();  // counted", ""),
    (COUNTS, 3, 64, "atomicAdd(&out[threadIdx.x], s[threadIdx.x])", "out[threadIdx.x] += s[threadIdx.x]"),
]


def both(source, grid, block, **options) -> Emulation:
    """Run a kernel on both engines; they must agree."""
    ptx, emulations, outs = compiling.compile_text(HEAD + source), [], []
    narrow = "char" in source
    for engine in ENGINES:
        data = np.arange(8192).astype(np.uint8 if narrow else np.float32)
        out = np.zeros(8192, np.uint8 if narrow else np.float32)
        emulations.append(launch(ptx, "k", grid, block, [data, out], engine=engine, **options))
        outs.append(out)
    assert outs[0].tobytes() == outs[1].tobytes()
    assert (emulations[0].findings, emulations[0].lines, emulations[0].notes) == (
        emulations[1].findings,
        emulations[1].lines,
        emulations[1].notes,
    )
    return emulations[1]


@pytest.mark.parametrize(("source", "grid", "block"), CLEAN)
def test_nothing_is_suspicious_in_clean_kernels(source, grid, block):
    emulation = both(source, grid, block, threads=2)
    assert emulation.clean
    assert emulation.engine == "compiled", emulation.not_compiled


@pytest.mark.parametrize(("source", "grid", "block", "of", "by"), BROKEN)
def test_what_the_interpreter_finds_is_suspicious(source, grid, block, of, by):
    assert of in source
    emulation = both(source.replace(of, by, 1), grid, block, threads=2)
    assert emulation.findings or emulation.notes
    assert emulation.not_compiled == SUSPICIOUS


def test_blocks_of_different_cores_are_compared():
    source = OWN.replace("blockIdx.x * blockDim.x + ", "")
    for threads in (1, 2):
        assert both(source, 2, 64, threads=threads).not_compiled == SUSPICIOUS


@pytest.mark.parametrize("output", [False, True])
def test_buffers_that_hold_nothing_yet(output):
    ptx = compiling.compile_text(HEAD + OWN)
    emulations = [
        launch(
            ptx, "k", 5, 64,
            [np.ones(320, np.float32), Buffer(np.zeros(320, np.float32), initialised=output, output=output)],
            engine=engine,
        )
        for engine in ENGINES
    ]  # fmt: skip
    assert emulations[0].findings == emulations[1].findings
    assert emulations[1].engine == ("compiled" if output else "interpreted")


def test_elements_that_nothing_wrote_are_found():
    ptx = compiling.compile_text(HEAD + "k(short* out) { out[3 * threadIdx.x] = 1; }")
    found = [
        launch(ptx, "k", 1, 32, [Buffer(np.zeros(94, np.int16), output=True)], engine=engine) for engine in ENGINES
    ]
    assert found[1].engine == "compiled"
    assert found[0].findings == found[1].findings
    assert found[1].findings[0].count == 62


def test_an_overrun_into_the_next_variable():
    source = """k(const float* in, float* out) {
        __shared__ float a[32], b[64];
        a[threadIdx.x] = in[threadIdx.x]; b[threadIdx.x] = b[threadIdx.x + 32] = in[threadIdx.x];
        __syncthreads();
        out[threadIdx.x] = a[threadIdx.x + SHIFT] + b[threadIdx.x];
    }"""
    assert both(source.replace("SHIFT", "0"), 1, 32).engine == "compiled"
    emulation = both(source.replace("SHIFT", "(int)in[1]"), 1, 32)
    assert [finding.kind for finding in emulation.findings] == ["out-of-bounds"]


def test_a_shuffle_by_lanes_outside_its_mask():
    source = """k(const unsigned* in, unsigned* out) {
        unsigned mask = in[1] ? 0x0000ffffu : 0;
        out[threadIdx.x] = __shfl_sync(mask, threadIdx.x, 3);
    }"""
    emulation = both(source, 1, 32)
    assert emulation.engine == "interpreted"
    assert [finding.kind for finding in emulation.findings] == ["warp-divergence"]


def test_time_begins_anew_before_it_runs_out(monkeypatch, tmp_path):
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "one"))
    forget()
    monkeypatch.setattr(kernel_code, "LAST_TIME", 40)
    assert both(TILE, 30, 256, threads=1).engine == "compiled"
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "two"))
    forget()
    monkeypatch.setattr(kernel_code, "LAST_TIME", 9)
    assert both(TILE, 30, 256, threads=1).not_compiled == SUSPICIOUS
    forget()


def test_cells_of_two_cores():
    def cells(*values):
        return np.array(values, np.uint32)

    atomics = WRITTEN | MANY
    assert not meet(cells(0, 5, WRITTEN | 5, atomics), cells(WRITTEN | 9, 7, 0, atomics))
    assert not meet(cells(MANY), cells(4))
    for pair in (
        (WRITTEN | 5, WRITTEN | 9),
        (WRITTEN | 5, 9),
        (MANY, WRITTEN | 9),
        (atomics, WRITTEN | 1),
        (atomics, 1),
    ):
        assert meet(cells(pair[0]), cells(pair[1]))
