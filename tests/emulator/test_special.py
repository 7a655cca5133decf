"""Special registers, as kernels read them and as tables."""

import numpy as np
from small_ptx import kernel

from lab.emulator.api import launch
from lab.emulator.batch import make_batch
from lab.emulator.special import special_registers


def table(grid=(4, 3, 2), block=(6, 5, 2), first=5, blocks=3, cluster=(1, 1, 1)):
    batch = make_batch(grid, block, first, blocks, cluster=cluster)
    return batch, special_registers(batch, 640, 128)


def test_lanes_and_their_masks():
    _, found = table()
    lane = found["%laneid"].astype(np.uint64)
    np.testing.assert_array_equal(lane[:60], np.arange(60) % 32)
    np.testing.assert_array_equal(found["%warpid"][:60], np.arange(60) // 32)
    np.testing.assert_array_equal(found["%lanemask_eq"], 2**lane)
    np.testing.assert_array_equal(found["%lanemask_lt"], 2**lane - 1)
    np.testing.assert_array_equal(found["%lanemask_le"] ^ found["%lanemask_gt"], 2**32 - 1)
    np.testing.assert_array_equal(found["%lanemask_lt"] ^ found["%lanemask_ge"], 2**32 - 1)


def test_sizes_are_the_same_for_all_threads():
    _, found = table()
    assert [found[f"%ntid.{axis}"].tolist() for axis in "xyz"] == [[6], [5], [2]]
    assert [found[f"%nctaid.{axis}"].tolist() for axis in "xyz"] == [[4], [3], [2]]
    assert (found["%total_smem_size"][0], found["%dynamic_smem_size"][0]) == (640, 128)


def test_clusters_extend_along_x():
    batch, found = table(first=4, blocks=4, cluster=(2, 1, 1))
    of_blocks = slice(None, None, 64)
    assert found["%ctaid.x"][of_blocks].tolist() == [0, 1, 2, 3]
    assert found["%clusterid.x"][of_blocks].tolist() == [0, 0, 1, 1]
    assert found["%cluster_ctarank"][of_blocks].tolist() == [0, 1, 0, 1]
    assert found["%clusterid.y"][of_blocks].tolist() == [1, 1, 1, 1]
    assert (found["%nclusterid.x"][0], found["%cluster_nctaid.x"][0], found["%cluster_nctaid.y"][0]) == (2, 2, 1)
    assert found["%is_explicit_cluster"][0]
    assert batch.cluster == 2


def test_the_clock_counts_steps():
    body = """mov.u32 %r0, %clock; mov.u64 %rd1, %clock64; cvt.u32.u64 %r1, %rd1; bar.sync 0; mov.u32 %r2, %clock;
    ld.param.u64 %rd0, [p]; st.global.v2.u32 [%rd0], {%r0, %r2}; st.global.u32 [%rd0+8], %r1;"""
    out = np.zeros(4, np.uint32)
    launch(kernel(body, ["p"]), "k", 1, 32, [out])
    assert out[0] == out[2] < out[1]
