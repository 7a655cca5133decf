"""The emulated machine on small kernels: warps, blocks, memories and arguments."""

from math import erf

import compiling
import numpy as np
import pytest
from mistakes import coded

from lab.base.errors import ReaderError, UserError
from lab.emulator.api import launch
from lab.emulator.errors import UnsupportedInstruction
from lab.emulator.results import Buffer

HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"


def cuda(body: str, *options: str) -> str:
    return compiling.compile_text(body, *options)


def one(body: str, block=32, grid=1, dtype=np.uint32, size=None, options=(), **settings):
    """Run ``extern "C" __global__ void k(T *out)`` and return the emulation and what it wrote."""
    out = np.zeros(size or 1024, dtype)
    emulation = launch(cuda(body, *options), "k", grid, block, [out], **settings)
    return emulation, out


def test_shuffles():
    emulation, out = one("""
        extern "C" __global__ void k(unsigned *out) {
            int t = threadIdx.x;
            out[t] = __shfl_sync(~0u, t * 10, 5);
            out[32 + t] = __shfl_up_sync(~0u, t, 3);
            out[64 + t] = __shfl_down_sync(~0u, t, 4, 16);
            out[96 + t] = __shfl_xor_sync(~0u, t, 9);
            out[128 + t] = __shfl_sync(~0u, t, t + 1, 8);
        }""")
    lane = np.arange(32)
    np.testing.assert_array_equal(out[:32], 50)
    np.testing.assert_array_equal(out[32:64], np.where(lane >= 3, lane - 3, lane))
    np.testing.assert_array_equal(out[64:96], np.where(lane % 16 + 4 < 16, lane + 4, lane))
    np.testing.assert_array_equal(out[96:128], lane ^ 9)
    np.testing.assert_array_equal(out[128:160], lane // 8 * 8 + (lane + 1) % 8)
    assert emulation.clean


def test_votes_matches_and_reductions():
    emulation, out = one(
        """
        extern "C" __global__ void k(unsigned *out) {
            int t = threadIdx.x, all = ~0u, same;
            out[t] = __ballot_sync(~0u, t % 3 == 0);
            out[32 + t] = __any_sync(~0u, t == 7) * 2 + __all_sync(~0u, t < 31);
            out[64 + t] = __match_any_sync(~0u, t / 8);
            out[96 + t] = __match_all_sync(~0u, 5, &same) + same;
            out[128 + t] = __reduce_add_sync(~0u, t);
            out[160 + t] = __reduce_max_sync(~0u, -t);
            if (t < 8) out[192 + t] = __reduce_or_sync(0xff, 1 << t);
            if (t >= 20) out[224 + t] = __activemask();
        }"""
    )
    lane = np.arange(32)
    np.testing.assert_array_equal(out[:32], sum(1 << i for i in range(0, 32, 3)))
    np.testing.assert_array_equal(out[32:64], 2)
    np.testing.assert_array_equal(out[64:96], 0xFF << (lane // 8 * 8))
    np.testing.assert_array_equal(out[96:128], 0)  # all lanes and the predicate: 0xffffffff + 1
    np.testing.assert_array_equal(out[128:160], 31 * 16)
    np.testing.assert_array_equal(out[160:192], 0)
    np.testing.assert_array_equal(out[192:200], 0xFF)
    np.testing.assert_array_equal(out[244:256], 0xFFF00000)
    assert emulation.clean


def test_lanes_wait_for_each_other_at_a_shuffle():
    emulation, out = one("""
        extern "C" __global__ void k(unsigned *out) {
            unsigned t = threadIdx.x, v = t;
            for (unsigned i = 0; i < t % 4; ++i) v = v * 3 + 1;  // lanes take different numbers of turns
            out[t] = __shfl_xor_sync(~0u, v, 1);
        }""")
    lane = np.arange(32, dtype=np.uint32)
    value = lane.copy()
    for i in range(3):
        value = np.where(lane % 4 > i, value * 3 + 1, value)
    np.testing.assert_array_equal(out[:32], value[lane ^ 1])
    assert emulation.clean


def test_a_lane_that_never_comes_is_found():
    emulation, _ = one("""
        extern "C" __global__ void k(unsigned *out) {
            unsigned v = threadIdx.x;
            if (threadIdx.x < 8) { out[100] = 1; __syncthreads(); out[threadIdx.x] = v; }
            else out[threadIdx.x] = __shfl_sync(~0u, v, 9);
        }""")
    assert {finding.kind for finding in emulation.findings} & {"warp-divergence", "barrier-divergence"}


def test_atomics_count_every_thread():
    emulation, out = one(
        """
        extern "C" __global__ void k(unsigned *out) {
            __shared__ unsigned s[4];
            int t = threadIdx.x;
            if (t < 4) s[t] = 0;
            __syncthreads();
            atomicAdd(&s[t % 4], t);
            atomicMax(&out[0], t + blockIdx.x); atomicInc(&out[1], 9); atomicXor(&out[2], 1u << (t % 32));
            atomicCAS(&out[3], 0, 77); out[64 + blockIdx.x * 96 + t] = atomicAdd(&out[4], 1);
            atomicAdd((float *)&out[5], 0.5f); atomicExch(&out[6], 5);
            __syncthreads();
            if (t < 4) out[8 + t] = s[t];
        }""",
        block=96,
        grid=2,
    )
    assert emulation.clean
    assert out[0] == 96
    assert out[1] == 192 % 10
    assert out[2] == 0  # 6 times each bit
    assert out[3] == 77
    assert out[4] == 192
    assert sorted(out[64:256]) == list(range(192))
    assert out[5:6].view(np.float32)[0] == 96.0
    assert out[6] == 5
    np.testing.assert_array_equal(out[8:12], [sum(range(i, 96, 4)) for i in range(4)])


def test_atomic_races_with_plain_read():
    emulation, _ = one(
        """
        extern "C" __global__ void k(unsigned *out) {
            __shared__ unsigned s;
            if (threadIdx.x == 0) s = 0;
            __syncthreads();
            atomicAdd(&s, 1);
            out[threadIdx.x] = s;
        }""",
        block=64,
    )
    assert [finding.kind for finding in emulation.findings] == ["shared-race"]


def test_warps_of_partial_blocks_and_three_dimensions():
    body = """
        extern "C" __global__ void k(unsigned *out) {
            int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
            int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
            __syncthreads();
            out[b * 45 + t] = __ballot_sync(__activemask(), 1) + t;
        }"""
    emulation, out = one(body, block=(5, 3, 3), grid=(2, 1, 2))
    lane = np.arange(45)
    wanted = np.where(lane < 32, 0xFFFFFFFF, 2**13 - 1) + lane
    np.testing.assert_array_equal(out[:180], np.tile(wanted.astype(np.uint32), 4))
    assert emulation.clean


def test_switch_local_arrays_constants_and_globals():
    for options in ((), ("--device-debug",)):
        emulation, out = one(
            """
            __constant__ unsigned table[6] = {10, 20, 30, 40, 50, 60};
            __device__ unsigned counter = 5;
            __device__ __noinline__ unsigned pick(const unsigned *p, int i) { return p[i]; }
            extern "C" __global__ void k(unsigned *out) {
                unsigned t = threadIdx.x, local[8];
                for (int i = 0; i < 8; ++i) local[i] = t * i;
                switch (t % 7) {
                    case 0: local[1] = 3; break;
                    case 1: local[2] += 9; break;
                    case 2: local[3] *= 4; break;
                    case 3: local[4] ^= 5; break;
                    case 4: local[5] -= 1; break;
                    default: local[0] = 8;
                }
                out[t] = pick(local, t % 8) + table[t % 6] + pick(table, 2) + counter;
            }""",
            options=options,
        )
        for t in range(32):
            local = [t * i for i in range(8)]
            match t % 7:
                case 0:
                    local[1] = 3
                case 1:
                    local[2] += 9
                case 2:
                    local[3] *= 4
                case 3:
                    local[4] ^= 5
                case 4:
                    local[5] -= 1
                case _:
                    local[0] = 8
            assert out[t] == (local[t % 8] + (t % 6 + 1) * 10 + 30 + 5) % 2**32
        assert emulation.clean


def test_dynamic_shared_memory_and_generic_addresses():
    body = """
        extern __shared__ float pool[];
        extern "C" __global__ void k(float *out) {
            float *p = threadIdx.x % 2 ? pool : out + 64;
            pool[threadIdx.x] = threadIdx.x; out[64 + threadIdx.x] = 100 + threadIdx.x;
            __syncthreads();
            out[threadIdx.x] = p[threadIdx.x];
        }"""
    emulation, out = one(body, dtype=np.float32, dynamic_shared_bytes=128)
    lane = np.arange(32)
    np.testing.assert_array_equal(out[:32], np.where(lane % 2, lane, 100 + lane))
    assert emulation.clean
    emulation, _ = one(body, dtype=np.float32, dynamic_shared_bytes=124)
    assert emulation.findings[0].kind == "out-of-bounds"


def test_parameters_by_value():
    ptx = cuda("""
        struct P { int a; double b; short c[3]; };
        extern "C" __global__ void k(P p, double *out, int i) { out[0] = p.a + p.b + p.c[i]; }""")
    value = np.zeros(1, np.dtype([("a", "i4"), ("b", "f8"), ("c", "i2", 3)], align=True))
    value["a"], value["b"], value["c"] = 3, 0.5, [1, 2, 4]
    out = np.zeros(1)
    launch(ptx, "k", 1, 1, [value.tobytes(), out, 2])
    assert out[0] == 7.5


def test_named_barriers_of_some_warps():
    emulation, out = one(
        """
        extern "C" __global__ void k(unsigned *out) {
            __shared__ unsigned s[64];
            unsigned t = threadIdx.x;
            if (t < 64) {
                s[t] = t;
                asm volatile("bar.sync 1, 64;" ::: "memory");
                out[t] = s[63 - t];
            } else out[t] = t;
        }""",
        block=128,
    )
    np.testing.assert_array_equal(out[:64], 63 - np.arange(64))
    assert emulation.clean


def test_barrier_reductions():
    emulation, out = one(
        """
        extern "C" __global__ void k(unsigned *out) {
            out[threadIdx.x] = __syncthreads_count(threadIdx.x % 3 == 0) * 4 + __syncthreads_or(threadIdx.x == 5) * 2
                + (__syncthreads_and(threadIdx.x < 63) != 0);
        }""",
        block=64,
    )
    np.testing.assert_array_equal(out[:64], 22 * 4 + 2)
    assert emulation.clean


def test_traps_are_findings_and_what_is_printed_is_kept():
    ptx = cuda("""
        extern "C" __device__ int printf(const char *, ...);
        extern "C" __global__ void k(unsigned *out) {
            printf("%d", threadIdx.x);
            if (threadIdx.x == 2) asm("trap;");
            out[threadIdx.x] = 1;
        }""")
    out = np.zeros(32, np.uint32)
    emulation = launch(ptx, "k", 1, 32, [out])
    (finding,) = emulation.findings
    assert (finding.kind, finding.thread, finding.count) == ("trap", (2, 0, 0), 1)
    assert emulation.printed == "".join(map(str, range(32)))
    assert out.sum() == 31


@pytest.mark.parametrize("trans", ["", ".trans"])
def test_ldmatrix_and_mma(trans):
    emulation, out = one(
        """
        #include <cuda_fp16.h>
        extern "C" __global__ void k(float *out) {
            __shared__ __align__(16) __half a[16 * 16], b[16 * 8];
            int t = threadIdx.x;
            for (int i = t; i < 256; i += 32) a[i] = __float2half((i % 7) - 3.0f);
            for (int i = t; i < 128; i += 32) b[i] = __float2half((i % 5) * 0.5f - 1.0f);
            __syncthreads();
            unsigned ra[4], rb[2];
            float c[4] = {1, 2, 3, 4};
            unsigned pa = __cvta_generic_to_shared(a + (t % 16) * 16 + t / 16 * 8);
            unsigned pb = __cvta_generic_to_shared(b + BROW);
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3]) : "r"(pa));
            asm volatile("ldmatrix.sync.aligned.m8n8.x2TRANS.shared.b16 {%0,%1}, [%2];"
                : "=r"(rb[0]), "=r"(rb[1]) : "r"(pb));
            asm volatile(
                "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
            int g = t / 4, q = t % 4;
            out[g * 8 + 2 * q] = c[0]; out[g * 8 + 2 * q + 1] = c[1];
            out[(g + 8) * 8 + 2 * q] = c[2]; out[(g + 8) * 8 + 2 * q + 1] = c[3];
        }""".replace("TRANS", trans).replace("BROW", "(t % 16) * 8" if trans else "(t % 8) * 16 + t / 8 % 2 * 8"),
        dtype=np.float32,
        size=128,
    )
    a = (np.arange(256) % 7 - 3.0).reshape(16, 16)
    flat = np.arange(128) % 5 * 0.5 - 1.0
    b = flat.reshape(16, 8) if trans else flat.reshape(8, 16).T
    start = np.where(np.arange(16)[:, None] < 8, 1.0, 3.0) + np.arange(8) % 2
    np.testing.assert_array_equal(out.reshape(16, 8), a @ b + start)
    assert emulation.clean


def test_bank_conflicts_are_counted():
    emulation, _ = one(
        """
        extern "C" __global__ void k(unsigned *out) {
            __shared__ unsigned s[32 * 33];
            for (int i = 0; i < 32; ++i) s[i * 32 + threadIdx.x] = i;
            __syncwarp();
            unsigned v = 0;
            for (int i = 0; i < 32; ++i) v += s[threadIdx.x * 32 + i];
            out[threadIdx.x] = v;
        }"""
    )
    loads, stores = emulation.counts.memory["shared.load"], emulation.counts.memory["shared.store"]
    assert stores.bank_conflicts == 0
    assert loads.bytes_used == 32 * 32 * 4
    width = loads.bytes_used // (32 * loads.requests)
    assert loads.wavefronts == 32 * width // 4 * loads.requests  # every lane of a phase is in the same banks
    assert stores.wavefronts == stores.requests


def test_uninitialised_buffer():
    ptx = cuda("""
        extern "C" __global__ void k(float *a, float *b) {
            b[threadIdx.x] = a[threadIdx.x];
        }""")
    a, b = np.zeros(64, np.float32), np.zeros(32, np.float32)
    emulation = launch(ptx, "k", 1, 32, [Buffer(a, initialised=False), b])
    first, *_ = emulation.findings
    assert (first.kind, first.count) == ("uninitialised-read", 32)
    assert "args[0]" in first.detail


def test_checks_can_be_switched_off():
    ptx = cuda("""
        extern "C" __global__ void k(float *a) {
            __shared__ float s[32]; a[threadIdx.x] = s[threadIdx.x]; a[99] = 1;
        }""")
    a = np.zeros(32, np.float32)
    assert {f.kind for f in launch(ptx, "k", 1, 32, [a]).findings} == {"uninitialised-read", "out-of-bounds"}
    off = launch(ptx, "k", 1, 32, [a], check=False, count=False)
    assert [f.kind for f in off.findings] == ["out-of-bounds"]
    assert off.counts is None
    assert off.lines == ()


CAS = "atom.global.cas.b32 %r2, [%rd1], 0, 7;"


def test_endless_loop():
    ptx = HEADER + ".visible .entry k() {\n.reg .pred %p;\nsetp.eq.u32 %p, 0, 0;\nL:\n@%p bra L;\nret;\n}\n"
    emulation = launch(ptx, "k", 1, 32, [], max_steps=1000)
    (finding,) = emulation.findings
    assert finding.kind == "endless-loop"
    assert finding.text == "@%p bra L"
    assert finding.line == 8


def test_a_loop_in_which_nothing_changes_is_endless_at_once():
    ptx = HEADER + ".visible .entry k() {\n.reg .pred %p;\nsetp.eq.u32 %p, 0, 0;\nL:\n@%p bra L;\nret;\n}\n"
    emulation = launch(ptx, "k", 1, 32, [])
    assert [finding.kind for finding in emulation.findings] == ["endless-loop"]
    assert emulation.steps < 100_000


@pytest.mark.parametrize(("read", "kind"), [("ld.global.u32 %r2, [%rd1];", "endless-loop"), (CAS, "deadlock")])
def test_a_search_that_goes_round_a_full_table_is_endless_at_once(read, kind):
    body = f""".reg .pred %p; .reg .b32 %r<4>; .reg .b64 %rd<3>; ld.param.u64 %rd0, [a]; mov.u32 %r0, %tid.x;
    L: mul.wide.u32 %rd1, %r0, 4; add.s64 %rd1, %rd0, %rd1; {read} add.u32 %r0, %r0, 1; and.b32 %r0, %r0, 63;
    setp.ne.u32 %p, %r2, 0; @%p bra L; ret; }}"""
    table = np.ones(64, np.uint32)
    emulation = launch(HEADER + ".visible .entry k(.param .u64 a) {" + body, "k", 1, 32, [table])
    assert [finding.kind for finding in emulation.findings] == [kind]
    assert emulation.steps < 100_000


def test_the_step_limit_counts_steps_without_progress():
    body = """.reg .pred %p; .reg .b32 %r<3>; .reg .b64 %rd<2>; ld.param.u64 %rd0, [a]; mov.u32 %r0, 0;
    L: add.u32 %r0, %r0, 1; STORE setp.lt.u32 %p, %r0, 2000; @%p bra L; ret; }"""
    head = HEADER + ".visible .entry k(.param .u64 a) {"
    works = head + body.replace("STORE", "st.global.u32 [%rd0], %r0;")
    out = np.zeros(1, np.uint32)
    assert launch(works, "k", 1, 1, [out], max_steps=1000).clean
    assert out[0] == 2000
    idles = head + body.replace("STORE", "")
    (finding,) = launch(idles, "k", 1, 1, [out], max_steps=1000).findings
    assert finding.kind == "endless-loop"
    assert "no memory has changed for 1000 steps" in finding.detail


def test_unsupported_instruction_names_its_line():
    ptx = HEADER + ".visible .entry k() {\n.reg .b32 %r<3>;\nvfrob.u32 %r1, %r2;\nret;\n}\n"
    with pytest.raises(UnsupportedInstruction, match=r"PTX line 6: .*vfrob"):
        launch(ptx, "k", 1, 32, [])


@pytest.mark.parametrize(
    ("args", "word"),
    [
        ([1], "number of arguments"),
        ([np.zeros(4), 1.5], "does not fit"),
        ([np.zeros(4), np.int64(1)], "does not fit"),
        ([1, np.zeros(4)], "not a pointer"),
        ([np.zeros((4, 4))[:, ::2], 1], "not contiguous"),
        ([np.zeros(4), 2**40], "out of range"),
    ],
)
def test_wrong_arguments(args, word):
    ptx = HEADER + ".visible .entry k(.param .u64 a, .param .u32 b) { ret; }\n"
    with pytest.raises(UserError, match=word):
        launch(ptx, "k", 1, 32, args)


def test_wrong_names_and_sizes():
    ptx = HEADER + ".visible .entry kernel() { ret; }\n"
    with pytest.raises(UserError, check=coded("unknown-name", found="kernl")):
        launch(ptx, "kernl", 1, 32, [])
    with pytest.raises(UserError, check=coded("out-of-range", key="block", found=(64, 32, 1))):
        launch(ptx, "kernel", 1, (64, 32), [])
    with pytest.raises(UserError, check=coded("wrong-value", key="grid", found=0)):
        launch(ptx, "kernel", 0, 32, [])
    with pytest.raises(ReaderError):
        launch("no ptx", "kernel", 1, 32, [])


def test_a_kernel_may_end_without_ret():
    ptx = HEADER + (
        ".visible .entry k(.param .u64 a) {\n.reg .b64 %a;\nld.param.u64 %a, [a];\nst.global.u32 [%a], 7;\n}\n"
    )
    out = np.zeros(1, np.uint32)
    assert launch(ptx, "k", 1, 32, [out]).clean
    assert out[0] == 7


def test_overlapping_arrays_are_refused():
    ptx = HEADER + ".visible .entry k(.param .u64 a, .param .u64 b) { ret; }\n"
    a = np.zeros(8)
    launch(ptx, "k", 1, 32, [a, a])
    with pytest.raises(UserError, check=coded("duplicate", key="args[1]")):
        launch(ptx, "k", 1, 32, [a, a[4:]])


def test_carry_chain_of_wide_integers():
    emulation, out = one(
        """
        extern "C" __global__ void k(unsigned *out) {
            unsigned long long a = 0xfffffffffffffff0ull + threadIdx.x, hi = __umul64hi(a, a + 3), lo = a * (a + 3);
            out[4 * threadIdx.x] = lo; out[4 * threadIdx.x + 1] = lo >> 32;
            out[4 * threadIdx.x + 2] = hi; out[4 * threadIdx.x + 3] = hi >> 32;
        }"""
    )
    for t in range(32):
        a = (0xFFFFFFFFFFFFFFF0 + t) % 2**64
        assert int.from_bytes(out[4 * t : 4 * t + 4].tobytes(), "little") == a * ((a + 3) % 2**64)
    assert emulation.clean


def test_library_functions():
    emulation, out = one(
        """
        extern "C" __global__ void k(double *out) {
            double x = 0.1 * (threadIdx.x + 1);
            out[threadIdx.x] = exp(x) + sin(x) * log(x) / sqrt(x);
            out[32 + threadIdx.x] = expf(x) + sinf(x) * logf(x) + powf(x, 1.7f) + tanhf(x) + erff(x);
        }""",
        dtype=np.float64,
    )
    x = 0.1 * np.arange(1, 33)
    np.testing.assert_allclose(out[:32], np.exp(x) + np.sin(x) * np.log(x) / np.sqrt(x), rtol=1e-14)
    single = np.exp(x) + np.sin(x) * np.log(x) + x**1.7 + np.tanh(x) + [erf(v) for v in x]
    np.testing.assert_allclose(out[32:64], single, rtol=2e-6)
    assert emulation.clean


def test_a_branch_beyond_its_table():
    body = """.reg .b32 %r; mov.u32 %r, %tid.x;
    T: .branchtargets A, B;
    brx.idx %r, T;
    A: ret; B: ret; }"""
    emulation = launch(HEADER + ".visible .entry k() {" + body, "k", 1, 4, [])
    (finding,) = emulation.findings
    assert (finding.kind, finding.count, finding.thread) == ("out-of-bounds", 2, (2, 0, 0))
    assert finding.detail == "a branch to entry 3 of a table of 2"


def test_a_function_that_the_compiler_has_replaced_by_a_trap():
    source = """__constant__ float table[32];
    extern "C" __global__ void k(float* out) { const_cast<float*>(table)[threadIdx.x] = out[threadIdx.x]; }"""
    (finding,) = launch(compiling.compile_text(source), "k", 1, 32, [np.zeros(32, np.float32)]).findings
    assert finding.kind == "trap"
    assert "writes constant memory" in finding.detail


def test_a_failed_assertion_names_file_line_function_and_condition():
    ptx = cuda("""
        extern "C" __device__ void __assertfail(const char *, const char *, unsigned, const char *, size_t);
        extern "C" __global__ void k(int *x) {
            if (x[threadIdx.x] >= 3) __assertfail("x < 3", "own.cu", 12, "void k(int *)", 1);
            x[threadIdx.x] = 7;
        }""")
    x = np.arange(5, dtype=np.int32)
    (finding,) = launch(ptx, "k", 1, 5, [x]).findings
    assert (finding.kind, finding.thread, finding.count) == ("trap", (3, 0, 0), 2)
    assert finding.detail == "own.cu:12: void k(int *): assertion `x < 3` failed"
    assert x.tolist() == [7, 7, 7, 3, 4]


def test_what_is_printed_has_a_length():
    ptx = cuda("""
        extern "C" __device__ int printf(const char *, ...);
        extern "C" __global__ void k(int *out) { out[threadIdx.x] = printf("%d,", threadIdx.x); }""")
    out = np.zeros(12, np.int32)
    assert launch(ptx, "k", 1, 12, [out]).clean
    assert out.tolist() == [2] * 10 + [3] * 2


def test_calls_that_need_more_stack_than_there_is():
    ptx = cuda("""
        __device__ __noinline__ unsigned deep(unsigned n) {
            volatile unsigned held[64]; held[n % 64] = n;
            return n ? deep(n - 1) + held[n % 64] : 0;
        }
        extern "C" __global__ void k(unsigned *out) { out[threadIdx.x] = deep(threadIdx.x == 1 ? 100000 : 3); }""")
    out = np.zeros(2, np.uint32)
    (finding,) = launch(ptx, "k", 1, 2, [out]).findings
    assert (finding.kind, finding.thread, finding.count) == ("out-of-bounds", (1, 0, 0), 1)
    assert "bytes of stack" in finding.detail
    assert out.tolist() == [6, 0]
