from __future__ import annotations

import pytest

from lab.templates import front_matter as kernels
from lab.tuning.file import names

TENSILE = kernels.load("gemm/tensile.cu.j2", kernels.search_path())
SGEMM = kernels.load("gemm/sgemm.cu.j2", kernels.search_path())


@pytest.mark.parametrize(
    ("tensile", "own"),
    [
        ("GlobalSplitU", "global_split_u"),
        ("DepthU", "depth_u"),
        ("NumLoadsCoalescedA", "num_loads_coalesced_a"),
        ("GlobalSplitUWorkGroupMappingRoundRobin", "global_split_u_work_group_mapping_round_robin"),
        ("block_m", "block_m"),
    ],
)
def test_both_spellings_mean_the_same(tensile, own):
    assert names.snake(tensile) == own
    assert names.snake(own) == own


def test_every_parameter_has_a_tensile_name():
    for name in TENSILE.declares.parameters:
        camel = "".join(word.capitalize() for word in name.split("_"))
        assert names.snake(camel.replace("0", "").replace("1", "")) == name.removesuffix("_0").removesuffix("_1")


def test_depth_u_decides_the_unrolling_with_the_split():
    assert names.completed(TENSILE, {"depth_u": 16, "local_split_u": 4})["loop_unroll"] == 4
    assert names.completed(TENSILE, {"depth_u": 6, "local_split_u": 4}) == "DepthU is LoopUnroll x LocalSplitU"


def test_of_depth_and_unrolling_the_later_holds():
    assert names.merged({"loop_unroll": 4}, {"depth_u": 8}) == {"depth_u": 8}
    assert names.merged({"depth_u": 8}, {"loop_unroll": 4}) == {"loop_unroll": 4}


def test_what_a_template_does_not_abbreviate_is_named_by_initials():
    problem = {"dtype": "float32", "layout": "nn"}
    plain = names.short(SGEMM, SGEMM.completed({}), problem)
    assert plain == "sgemm"
    changed = names.short(SGEMM, SGEMM.completed({"block_m": 64, "branches": False}), problem)
    assert changed == "sgemm_BM64_Bfalse"
