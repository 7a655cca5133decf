"""Special registers, as kernels read them and as tables."""

import numpy as np
from small_ptx import kernel

from lab.emulator.api import launch
from lab.emulator.batch import make_batch
from lab.emulator.program import program_of
from lab.emulator.special import StepClock, machine_clock, special_registers


def table(grid=(4, 3, 2), block=(6, 5, 2), first=5, blocks=3, cluster=(1, 1, 1)):
    batch = make_batch(grid, block, first, blocks, cluster=cluster)
    return batch, special_registers(batch, 640, 128)


def test_lanes_and_their_masks():
    _, special = table()
    lane = special["%laneid"].astype(np.uint64)
    np.testing.assert_array_equal(lane[:60], np.arange(60) % 32)
    np.testing.assert_array_equal(special["%warpid"][:60], np.arange(60) // 32)
    np.testing.assert_array_equal(special["%lanemask_eq"], 2**lane)
    np.testing.assert_array_equal(special["%lanemask_lt"], 2**lane - 1)
    np.testing.assert_array_equal(special["%lanemask_le"] ^ special["%lanemask_gt"], 2**32 - 1)
    np.testing.assert_array_equal(special["%lanemask_lt"] ^ special["%lanemask_ge"], 2**32 - 1)


def test_sizes_are_the_same_for_all_threads():
    _, special = table()
    assert [special[f"%ntid.{axis}"].tolist() for axis in "xyz"] == [[6], [5], [2]]
    assert [special[f"%nctaid.{axis}"].tolist() for axis in "xyz"] == [[4], [3], [2]]
    assert (special["%total_smem_size"][0], special["%dynamic_smem_size"][0]) == (640, 128)


def test_clusters_extend_along_x():
    batch, special = table(first=4, blocks=4, cluster=(2, 1, 1))
    of_blocks = slice(None, None, 64)
    assert special["%ctaid.x"][of_blocks].tolist() == [0, 1, 2, 3]
    assert special["%clusterid.x"][of_blocks].tolist() == [0, 0, 1, 1]
    assert special["%cluster_ctarank"][of_blocks].tolist() == [0, 1, 0, 1]
    assert special["%clusterid.y"][of_blocks].tolist() == [1, 1, 1, 1]
    assert (special["%nclusterid.x"][0], special["%cluster_nctaid.x"][0], special["%cluster_nctaid.y"][0]) == (2, 2, 1)
    assert special["%is_explicit_cluster"][0]
    assert batch.cluster == 2


def test_the_clock_counts_steps():
    body = """mov.u32 %r0, %clock; mov.u64 %rd1, %clock64; cvt.u32.u64 %r1, %rd1; bar.sync 0; mov.u32 %r2, %clock;
    ld.param.u64 %rd0, [p]; st.global.v2.u32 [%rd0], {%r0, %r2}; st.global.u32 [%rd0+8], %r1;"""
    out = np.zeros(4, np.uint32)
    launch(kernel(body, ["p"]), "k", 1, 32, [out])
    assert out[0] == out[2] < out[1]


WHERE = """ld.param.u64 %rd0, [p]; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x;
mad.lo.u32 %r3, %r0, %r1, %r2; mad.wide.u32 %rd0, %r3, 16, %rd0; mov.u32 %r4, %smid; mov.u32 %r5, %warpid;
mov.u32 %r6, %nsmid; mov.u32 %r7, %laneid; st.global.v4.u32 [%rd0], {%r4, %r5, %r6, %r7};"""


def seen(machine, blocks=200, **options):
    """Return %smid, %warpid, %nsmid and %laneid as (blocks, warps, lanes, 4)."""
    out = np.zeros((blocks, 4, 32, 4), np.uint32)
    assert launch(kernel(WHERE, ["p"]), "k", blocks, 128, [out], machine=machine, **options).clean
    return out


def test_a_machine_spreads_blocks_over_its_multiprocessors():
    sm_ids = seen(1)
    of_blocks = sm_ids[:, 0, 0, 0]
    assert (sm_ids[..., 0] == of_blocks[:, None, None]).all()
    assert of_blocks.max() < 132
    assert 50 < len(set(of_blocks[:132].tolist())) < 132  # one SM has several, while others have none
    assert (sm_ids[..., 2] == 132).all()
    assert (sm_ids[..., 3] == np.arange(32)).all()


def test_a_machine_gives_the_warps_of_a_block_distinct_slots():
    slots = seen(1)[..., 1]
    assert (slots == slots[:, :, :1]).all()
    assert (slots < 64).all()
    assert all(len(set(block)) == 4 for block in slots[:, :, 0].tolist())
    assert (slots[:, :, 0] != np.arange(4)).any(axis=1).mean() > 0.9


def test_a_machine_is_the_same_in_every_order_and_another_one_with_another_seed():
    first = seen(1)
    np.testing.assert_array_equal(first, seen(1, schedule=3))
    assert not np.array_equal(first[..., 0], seen(2)[..., 0])
    assert not np.array_equal(first[..., 1], seen(2)[..., 1])
    # however a launch is cut into batches
    batch = make_batch((200, 1, 1), (128, 1, 1), 150, 10)
    of_batch = special_registers(batch, 0, 0, machine=1)
    np.testing.assert_array_equal(of_batch["%smid"], first[150:160, ..., 0].reshape(-1))
    np.testing.assert_array_equal(of_batch["%warpid"], first[150:160, ..., 1].reshape(-1))


def test_without_a_seed_there_is_one_multiprocessor():
    sm_ids = seen(None)
    assert not sm_ids[..., 0].any()
    assert (sm_ids[..., 2] == 1).all()
    assert (sm_ids[..., 1] == np.arange(4)[:, None]).all()


def test_clocks_of_a_machine_start_anywhere_and_go_on_as_before():
    body = """ld.param.u64 %rd0, [p]; mov.u64 %rd1, %clock64; bar.sync 0; mov.u64 %rd2, %clock64; mov.u64 %rd3, %gridid;
    mov.u64 %rd4, %globaltimer; st.global.v2.u64 [%rd0], {%rd1, %rd2}; st.global.v2.u64 [%rd0+16], {%rd3, %rd4};"""
    runs = []
    for machine in (None, 1, 2):
        out = np.zeros(4, np.uint64)
        launch(kernel(body, ["p"]), "k", 1, 32, [out], machine=machine)
        runs.append(out)
    assert len({int(run[1] - run[0]) for run in runs}) == 1
    assert len({int(run[0]) for run in runs}) == 3
    assert len({int(run[2]) for run in runs}) == 3
    assert len({int(run[3]) for run in runs}) == 3


def test_a_machine_does_not_use_up_the_budget_of_steps():
    emulation = launch(kernel("mov.u64 %rd1, %clock64;"), "k", 1, 32, [], machine=1, max_steps=100)
    assert emulation.clean
    assert emulation.steps < 100


def test_the_compiled_engine_leaves_a_machine_to_the_interpreter():
    out = np.zeros((1, 4, 32, 4), np.uint32)
    asking = launch(kernel(WHERE, ["p"]), "k", 1, 128, [out], machine=1, engine="compiled")
    assert (asking.engine, out[0, 0, 0, 2]) == ("interpreted", 132)
    body = "ld.param.u64 %rd0, [p]; st.global.u32 [%rd0], 1;"
    plain = launch(kernel(body, ["p"]), "k", 1, 1, [out], machine=1, engine="compiled")
    assert plain.engine == "compiled"


def test_a_program_tells_what_it_asks_the_machine():
    def asked(body):
        return program_of(kernel(body), "k").machine_registers

    assert asked("mov.u32 %r0, %smid; add.u32 %r1, %r0, %nsmid;") == {"%smid", "%nsmid"}
    assert asked("mov.b64 %rd0, {%r0, %warpid};") == {"%warpid"}
    assert asked("mov.u32 %r0, %tid.x; mov.u32 %r1, %laneid; mov.u32 %r2, %ctaid.x;") == set()
    assert not program_of(kernel("mov.u32 %r0, %tid.x;"), "k").asks_machine
    assert program_of(kernel("mov.u64 %rd0, %clock64;"), "k").asks_machine


def test_clocks_of_machines():
    assert machine_clock(None).reading == 0
    starts = [machine_clock(seed).start for seed in range(64)]
    assert len(set(starts)) == 64
    assert max(starts) < 2**63
    assert max(starts) > 2**62  # all of the 63 bits are used
    assert machine_clock(5).start == starts[5]


def test_a_clock_wraps_at_64_bits():
    assert StepClock(steps=7, start=2**64 - 3).reading == 4


def test_every_numbered_register_is_there():
    _, special = table()
    for stem, count, suffix in (("%pm", 8, ""), ("%pm", 8, "_64"), ("%envreg", 32, "")):
        names = {f"{stem}{i}{suffix}" for i in range(count)}
        assert names <= special.keys()
        assert f"{stem}{count}{suffix}" not in special
        assert not any(special[name].any() for name in names)
    assert special["%pm7_64"].dtype == np.uint64
    assert {special["%nwarpid"][0], special["%nsmid"][0], special["%smid"][0]} == {64, 1, 0}
    assert special["%aggr_smem_size"][0] == 640


def test_the_workspace_of_a_grid_is_an_address_in_two_halves():
    batch = make_batch((1, 1, 1), (32, 1, 1), 0, 1)
    special = special_registers(batch, 0, 0, workspace=(5 << 32) + 9)
    assert (special["%envreg1"][0], special["%envreg2"][0]) == (5, 9)
