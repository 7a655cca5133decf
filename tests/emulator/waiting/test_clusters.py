"""Thread-block clusters on small kernels."""

import compiling
import numpy as np
import pytest
from mistakes import coded
from small_ptx import HEADER

from lab.base.errors import UserError
from lab.emulator.api import launch
from lab.emulator.errors import UnsupportedInstruction
from lab.emulator.program import Program
from lab.emulator.waiting.clusters import cluster_shape
from lab.isa.ptx.module import read_ptx

START = """
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) k(unsigned *out) {
    __shared__ unsigned cell[2];
    unsigned rank, size, number;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    asm("mov.u32 %0, %%clusterid.x;" : "=r"(number));
    if (threadIdx.x < 2) cell[threadIdx.x] = 100 * blockIdx.x + threadIdx.x;
"""
ARRIVE = 'asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");'
WAIT = 'asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");'
READ = """
    const unsigned here = (unsigned)__cvta_generic_to_shared(cell);
    unsigned there, value;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here + OFFSET), "r"((rank + 1) % size));
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(there) : "memory");
    out[blockIdx.x * blockDim.x + threadIdx.x] = value + 10000 * rank + 100000 * number;
"""
END = "}"


def run(body, cluster=4, grid=8, block=64, offset=4):
    out = np.zeros(grid * block, np.uint32)
    source = body.replace("CLUSTER", str(cluster)).replace("OFFSET", str(offset))
    return launch(compiling.compile_text(source), "k", grid, block, [out]), out.reshape(grid, block)


@pytest.mark.parametrize(("cluster", "grid", "block"), [(1, 3, 32), (2, 6, 96), (4, 8, 64), (8, 16, 1024)])
def test_a_block_reads_its_neighbours_shared_memory(cluster, grid, block):
    emulation, out = run(START + ARRIVE + WAIT + READ + ARRIVE + WAIT + END, cluster, grid, block)
    assert emulation.clean
    blocks = np.arange(grid)
    neighbour = blocks - blocks % cluster + (blocks + 1) % cluster
    wanted = 100 * neighbour + 1 + 10000 * (blocks % cluster) + 100000 * (blocks // cluster)
    np.testing.assert_array_equal(out, np.repeat(wanted[:, None], block, axis=1))


def test_a_launch_may_ask_for_the_clusters_that_the_kernel_does_not_declare():
    whole = (START + ARRIVE + WAIT + READ + ARRIVE + WAIT + END).replace("OFFSET", "4")
    ptx = compiling.compile_text(whole.replace("__cluster_dims__(CLUSTER, 1, 1) ", ""))
    out = np.zeros((8, 64), np.uint32)
    emulation = launch(ptx, "k", 8, 64, [out], cluster=(4, 1, 1))
    assert (emulation.clean, emulation.notes) == (True, ())
    _, declared = run(START + ARRIVE + WAIT + READ + ARRIVE + WAIT + END)
    np.testing.assert_array_equal(out, declared)
    alone = launch(ptx, "k", 8, 64, [out])
    assert alone.notes == (
        "the kernel reads cluster registers, but neither __cluster_dims__ nor the launch sets a cluster size",
    )
    with pytest.raises(UserError, check=coded("mismatch", found=(6, 1, 1))):
        launch(ptx, "k", 6, 64, [out], cluster=(4, 1, 1))
    with pytest.raises(UserError, check=coded("mismatch", key="cluster", found=(4, 1, 1))):
        launch(compiling.compile_text(whole.replace("CLUSTER", "2")), "k", 8, 64, [out], cluster=(4, 1, 1))


def test_work_may_lie_between_arriving_and_waiting():
    late = "for (unsigned i = 0; i < rank; ++i) out[blockIdx.x * blockDim.x + threadIdx.x] += i;"
    emulation, _ = run(START + ARRIVE + late + WAIT + READ + ARRIVE + WAIT + END)
    assert emulation.clean


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (START + WAIT + READ + END, "without having arrived"),
        (START + ARRIVE + ARRIVE + WAIT + READ + END, "arrived already"),
    ],
    ids=["wait alone", "arrive twice"],
)
def test_misuse_is_found(body, detail):
    emulation, _ = run(body)
    assert any(detail in finding.detail for finding in emulation.findings)


def test_blocks_that_ended_are_not_waited_for():
    emulation, _ = run(START + "if (rank == 3) return;" + ARRIVE + WAIT + END)
    assert emulation.clean


def test_reading_beyond_a_peers_shared_memory_is_found():
    emulation, _ = run(START + ARRIVE + WAIT + READ + ARRIVE + WAIT + END, offset=4096)
    assert emulation.findings[0].kind == "out-of-bounds"
    assert "peer" in emulation.findings[0].detail


def test_a_grid_is_made_of_whole_clusters():
    with pytest.raises(UserError, check=coded("mismatch", found=(6, 1, 1))):
        run(START + END, cluster=4, grid=6)
    with pytest.raises(UserError, check=coded("mismatch", found=(8, 1, 1))):
        run((START + END).replace("(CLUSTER, 1, 1)", "(1, 2, 1)"))


def test_a_cluster_may_extend_along_every_axis():
    text = """extern "C" __global__ void __cluster_dims__(1, 2, 2) k(unsigned *out) {
        __shared__ unsigned cell;
        unsigned rank, there, value, x, y, z;
        asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
        asm("mov.u32 %0, %%cluster_ctaid.x; mov.u32 %1, %%cluster_ctaid.y; mov.u32 %2, %%cluster_ctaid.z;"
            : "=r"(x), "=r"(y), "=r"(z));
        const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
        if (threadIdx.x == 0) cell = block;
        asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                     : "=r"(there) : "r"((unsigned)__cvta_generic_to_shared(&cell)), "r"(3 - rank));
        asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(there) : "memory");
        asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
        if (threadIdx.x == 0) out[block] = value + 1000 * (x + 2 * y + 4 * z == 2 * rank);
    }"""
    out = np.zeros(3 * 4 * 2, np.uint32)
    assert launch(compiling.compile_text(text), "k", (3, 4, 2), 32, [out]).clean
    place = np.arange(24).reshape(2, 2, 2, 3)  # z, clusters along y, y within a cluster, x
    np.testing.assert_array_equal(out.reshape(place.shape), 1000 + place[::-1, :, ::-1, :])


BETWEEN = """.visible .entry k(.param .u64 out) .reqnctapercluster 2, 1, 1 {
    .reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p<4>; .shared .b32 s[32];
    mov.u32 %r0, %tid.x; mov.u32 %r1, s; mad.lo.u32 %r1, %r0, 4, %r1; mov.u32 %r2, %cluster_ctarank;
    xor.b32 %r2, %r2, 1; mapa.shared::cluster.u32 %r3, %r1, %r2; st.shared.u32 [%r1], 5;
    barrier.cluster.arrive; barrier.cluster.wait;
    BODY
    ld.shared::cluster.u32 %r4, [%r3]; barrier.cluster.arrive; barrier.cluster.wait; ret; }"""


@pytest.mark.parametrize(
    ("body", "races"),
    [
        ("st.shared.u32 [%r1], %r0; barrier.cluster.arrive; barrier.cluster.wait;", False),
        ("barrier.cluster.arrive; st.shared.u32 [%r1], %r0; barrier.cluster.wait;", True),
        ("st.shared.u32 [%r1], %r0; barrier.cluster.arrive; mov.u32 %r5, 1; barrier.cluster.wait;", False),
        ("st.shared.u32 [%r1], %r0; barrier.cluster.arrive.relaxed; barrier.cluster.wait;", True),
        (
            "st.shared.u32 [%r1], %r0; fence.acq_rel.cluster; barrier.cluster.arrive.relaxed; barrier.cluster.wait;",
            False,
        ),
    ],
)
def test_what_lies_behind_an_arrival_is_not_ordered(body, races):
    emulation = launch(HEADER + BETWEEN.replace("BODY", body), "k", 4, 32, [np.zeros(1, np.uint32)])
    assert {finding.kind for finding in emulation.findings} == ({"shared-race"} if races else set())


@pytest.mark.parametrize(
    ("directives", "grid", "asked", "shape"),
    [
        ("", (3, 5, 7), None, (1, 1, 1)),
        ("", (4, 6, 9), (2, 3, 3), (2, 3, 3)),
        (".reqnctapercluster 2", (4, 3, 1), None, (2, 1, 1)),
        (".reqnctapercluster 2, 3", (4, 3, 1), (2, 3, 1), (2, 3, 1)),
    ],
)
def test_shapes_of_clusters(directives, grid, asked, shape):
    program = Program(read_ptx(f"{HEADER}.visible .entry k() {directives} {{ ret; }}"), "k")
    assert cluster_shape(program, grid, asked) == shape
    for axis in range(3):
        if shape[axis] > 1:
            wrong = [size + (i == axis) for i, size in enumerate(grid)]
            with pytest.raises(UserError, check=coded("mismatch", found=tuple(wrong))):
                cluster_shape(program, tuple(wrong), asked)


def test_threads_that_wait_forever_are_told():
    body = "setp.eq.u32 %p0, %r0, 0; @%p0 bra END; barrier.cluster.arrive; END: barrier.cluster.wait;"
    emulation = launch(HEADER + BETWEEN.replace("BODY", body), "k", 2, 32, [np.zeros(1, np.uint32)])
    details = {finding.detail for finding in emulation.findings if finding.kind == "barrier-divergence"}
    assert "these threads wait without having arrived" in details
    with pytest.raises(UnsupportedInstruction, match="this form of barrier"):
        launch(HEADER + BETWEEN.replace("BODY", "barrier.cluster.arrive.wide;"), "k", 2, 32, [np.zeros(1, np.uint32)])
