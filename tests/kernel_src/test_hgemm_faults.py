"""Faults planted in the emulated FP16/BF16 GEMM ladder: each one is found, and the originals are clean."""

from __future__ import annotations

from functools import partial

import pytest
from hgemm_cases import executed_with

from lab.base.expressions import Scalar
from lab.operators.builtin import operator
from lab.recorded.run_records import EmulationRecord

SMALL = {"block_m": 64, "stages": 2}
SETTINGS = {
    "v2_stages": ({"block_m": 64}, (64, 128, 264)),
    "v3_wgmma": ({"block_m": 64}, (64, 128, 264)),
    "v4_bulk": (SMALL, (64, 128, 136)),
    "v5_specialised": (SMALL, (64, 128, 136)),
    "v6_persistent": ({**SMALL, "blocks": 1}, (64, 256, 136)),
    "v7_cluster": ({**SMALL, "blocks": 2}, (64, 512, 136)),
    "v8_epilogue": ({**SMALL, "block_m": 128, "blocks": 2}, (128, 512, 72)),
    "v9_pingpong": ({**SMALL, "block_n": 64, "blocks": 2}, (64, 512, 136)),
    "split_wgmma": (SMALL, (64, 128, 264)),
    "stream": ({**SMALL, "block_n": 64, "warpgroups": 1, "blocks": 3}, (64, 128, 136)),
}
"""Parameters, and m, n, k: every block goes round its ring of stages more than once, and from v6 on takes two tiles."""

WRONG = "wrong result"
PROXY_FENCE = 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");'
MASK = "(1 << sharers) - 1"
FAULTS = [  # rung, what is wrong, text in its place, kind of the finding
    ("v2_stages", "no barrier", "__syncthreads();  // the tiles", "// the tiles", "shared-race"),
    ("v2_stages", "no wait", 'asm volatile("cp.async.wait_group 2;" ::: "memory");', "", "async-not-waited"),
    ("v3_wgmma", "threads' copies not fenced", PROXY_FENCE, "", "missing-proxy-fence"),
    ("v3_wgmma", "stages filled too early", "sums.wait<1>();", "", "async-not-waited"),
    ("v3_wgmma", "sums not fenced", 'asm volatile("wgmma.fence.sync.aligned;" ::: "memory");', "", "wgmma-misuse"),
    ("v3_wgmma", "products not committed", 'asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");', "",
     "async-not-waited"),
    ("v4_bulk", "no wait for tiles", "ring.wait_full();", "", "async-not-waited"),
    ("v4_bulk", "no wait for sums", "sums.wait<0>();", "", "async-not-waited"),
    ("v4_bulk", "the other parity", "wait(full + stage * 8, phase)", "wait(full + stage * 8, phase ^ 1)",
     "mbarrier-deadlock"),
    ("v4_bulk", "too many bytes expected", "copied = 24576", "copied = 24592", "mbarrier-deadlock"),
    ("v4_bulk", "mbarriers not fenced", "fence.mbarrier_init.release.cluster;\\n\\tfence.proxy.async.shared::cta;", "",
     "missing-proxy-fence"),
    ("v4_bulk", "mbarriers not awaited", "__syncthreads();  // the mbarriers", "// the mbarriers", "shared-race"),
    ("v4_bulk", "another swizzle", "swizzled = 1;", "swizzled = 2;", WRONG),
    ("v5_specialised", "producer does not wait", "ring.wait_empty();", "", "async-not-waited"),
    ("v5_specialised", "nobody releases", "ring.release(read);", ";", "mbarrier-deadlock"),
    ("v5_specialised", "too many registers", "u32 232", "u32 248", "wgmma-misuse"),
    ("v6_persistent", "last stage of a tile kept", "if (steps > 0) ring.release", "if (false) ring.release",
     "mbarrier-deadlock"),
    ("v7_cluster", "a block too many gets a part", MASK, "(2 << sharers) - 1", "out-of-bounds"),
    ("v7_cluster", "only one's own block is told", "threadIdx.x % 32 < 2", "threadIdx.x % 32 == block_of_cluster()",
     "mbarrier-deadlock"),
    ("v7_cluster", "too few arrivals expected", "[%0], 16;", "[%0], 8;", "mbarrier-deadlock"),
    ("v7_cluster", "mbarriers not awaited", "cluster_barrier();  // the mbarriers", "__syncthreads();  //",
     "missing-cluster-sync"),
    ("v7_cluster", "ends before the others", "ring.drain();", "", "missing-cluster-sync"),
    ("v8_epilogue", "stored before all is there", f"{PROXY_FENCE}\n            meet();", PROXY_FENCE, "shared-race"),
    ("v8_epilogue", "filled while it is read", "wait_group.read 1;", "wait_group.read 2;", "async-not-waited"),
    ("v8_epilogue", "ends while it is read", "result.end();", "", "async-not-waited"),
    ("v8_epilogue", "every warp stores", "threadIdx.x % 128 == 0", "threadIdx.x % 32 == 0", "global-race"),
    ("v8_epilogue", "one barrier for all warpgroups", '"r"(threadIdx.x / 128) : "memory"', '"r"(1) : "memory"',
     "barrier-divergence"),
    ("v9_pingpong", "does not await its turn", "if (tile >= clusters) await(turn);", "", "async-not-waited"),
    ("v9_pingpong", "never yields", "if (tile + clusters < tiles) yield_to(1 - turn);", "", "mbarrier-deadlock"),
    ("split_wgmma", "sums laid over tiles", 'asm volatile("bar.sync 1, 256;" ::: "memory");', "", "shared-race"),
    ("split_wgmma", "sums of others not awaited", "cluster_barrier();\n#pragma", "#pragma", "missing-cluster-sync"),
    ("split_wgmma", "ends while it is read", "cluster_barrier();  // a", "// a", "missing-cluster-sync"),
    ("split_wgmma", "all take the first steps", "begin + step)", "step)", WRONG),
    ("stream", "taken from whoever was there", "ld.acquire.gpu", "ld.relaxed.gpu", "global-race"),
    ("stream", "left to whoever comes by", "st.release.gpu", "st.relaxed.gpu", "global-race"),
    ("stream", "one lane does not wait for the others", "__syncwarp();\n        if (threadIdx", "if (threadIdx",
     "global-race"),
    ("stream", "the first of the others left out", "blockIdx.x + 1; share", "blockIdx.x + 2; share", WRONG),
]  # fmt: skip
ALIKE = [  # others of those kinds
    ("v2_stages", "a group too many left", "cp.async.wait_group 2;", "cp.async.wait_group 3;", "async-not-waited"),
    ("v4_bulk", "parity never changes", "stage = 0, phase ^= 1", "stage = 0", "mbarrier-deadlock"),
    ("v4_bulk", "bytes of one operand expected", "copied = 24576", "copied = 8192", "async-not-waited"),
    ("v5_specialised", "released while it is read", "sums.wait<1>();", "", "async-not-waited"),
    ("v5_specialised", "producer waits for the other parity", "phase ^ 1", "phase", "mbarrier-deadlock"),
    ("v7_cluster", "nobody else gets a part", MASK, "1 << block_of_cluster()", "mbarrier-deadlock"),
    ("v7_cluster", "every block fetches the same part", "Tile::lines / sharers * block_of_cluster()", "0",
     "async-not-waited"),
    ("v8_epilogue", "sums not fenced", PROXY_FENCE, "", "missing-proxy-fence"),
    ("v8_epilogue", "filled before all may", "has read it\n            meet();", "\n", "shared-race"),
    ("v8_epilogue", "not swizzled", "(piece ^ line % 8)", "piece", WRONG),
    ("v8_epilogue", "copies not committed", "cp.async.bulk.commit_group;", "", "async-not-waited"),
    ("v8_epilogue", "parts overlap", "(warpgroup - 1) * 2 *", "(warpgroup - 1) *", "shared-race"),
    ("v9_pingpong", "yields too early", "if (tile >= clusters) await(turn);",
     "if (tile >= clusters) await(turn); if (tile + clusters < tiles) yield_to(1 - turn);", "barrier-divergence"),
    ("v9_pingpong", "takes the other's steps", "ring.skip(turn * steps);", "", "mbarrier-deadlock"),
]  # fmt: skip


def executed(name: str, old: str = "", new: str = "", **other: Scalar) -> EmulationRecord:
    """Execute a rung, in whose source `new` stands for `old`, on a problem that `other` changes."""
    given, (m, n, k) = SETTINGS[name]
    problem = operator("gemm").problem({"m": m, "n": n, "k": k, "dtype": "float16", "layout": "tn", **other})
    return executed_with(name, given, problem, old, new)


@pytest.mark.parametrize("name", SETTINGS)
def test_the_original_is_clean(name):
    emulation = executed(name)
    assert emulation.findings == ()
    assert emulation.verification.passed


def planted():
    for faults, marks in ((FAULTS, []), (ALIKE, [pytest.mark.thorough])):
        for name, what, *fault in faults:
            yield pytest.param(name, *fault, id=f"{name[:2]} {what}", marks=marks)


@pytest.mark.parametrize(("name", "old", "new", "kind"), list(planted()))
def test_a_planted_fault_is_found(name, old, new, kind):
    emulation = executed(name, old, new)
    if kind == WRONG:
        assert emulation.findings == ()
        assert not emulation.verification.passed
        assert "C" in emulation.verification.worst
    else:
        assert kind in {finding.kind for finding in emulation.findings}
        assert all(finding.detail for finding in emulation.findings)


@pytest.mark.parametrize("layout", ["nn", pytest.param("nt", marks=pytest.mark.thorough)])
def test_an_address_with_the_rank_of_a_block_is_no_description(layout):
    """In layouts whose A is stored along m, an H200 reads all slabs but the first elsewhere, in all blocks but one."""
    assert executed("v8_epilogue", layout=layout).verification.passed
    assert not executed("v8_epilogue", "(tile & 0x3ffff) / 16", "tile / 16", layout=layout).verification.passed


def test_a_copy_stores_whole_pieces_of_16_bytes():
    """An H200 overwrites what lies between the last row of C and its leading dimension."""
    torn: dict[str, Scalar] = {"m": 121, "lda": 128, "ldc": 128}
    assert executed("v8_epilogue", "", "", **torn).verification.passed
    emulation = executed("v8_epilogue", "below % piece != 0", "false", **torn)
    assert emulation.verification.worst == "C[121, 0]: written, but C has 121 rows"


def test_a_fault_of_the_compiler_is_a_note_where_the_result_is_right():
    given, (m, n, k) = SETTINGS["v3_wgmma"]
    problem = operator("gemm").problem({"m": m, "n": n, "k": k, "dtype": "float16", "layout": "nt"})
    unfenced = partial(executed_with, "v3_wgmma", given, problem, PROXY_FENCE, "")
    emulation = unfenced(excused=frozenset({"missing-proxy-fence"}))
    assert (emulation.findings, emulation.fault, emulation.verification.passed) == ((), "", True)
    (note,) = [note for note in emulation.notes if "missing-proxy-fence" in note]
    assert "It comes from the compiler" in note
    assert "missing-proxy-fence" in unfenced(excused=frozenset({"shared-race"})).fault
