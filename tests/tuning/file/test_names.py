from __future__ import annotations

import pytest
from mistakes import coded

from lab.base.errors import Location, UserError
from lab.templates import front_matter as kernels
from lab.templates.instance import Instance
from lab.tuning.file import names

TENSILE = kernels.load("gemm/tensile.cu.j2", kernels.search_path())
SGEMM = kernels.load("gemm/sgemm.cu.j2", kernels.search_path())
AT = Location("t.yaml", 1)
PAPER = {
    "WorkGroup": ("WG", [8, 8, 4], {"work_group_0": 8, "work_group_1": 8, "local_split_u": 4}),
    "LocalSplitU": ("LSU", 4, {"local_split_u": 4}),
    "SplitU": ("SU", 4, {"local_split_u": 4}),
    "ThreadTile": ("TT", [6, 3], {"thread_tile_0": 6, "thread_tile_1": 3}),
    "MacroTile": ("MT", [64, 64], "WorkGroup and ThreadTile; MacroTile in JoinParameters"),
    "VectorWidth": ("VW", 2, {"vector_width": 2}),
    "GlobalSplitU": ("GSU", 6, {"global_split_u": 6}),
    "GlobalSplitUWorkGroupMap": ("GSUWGM", "RoundRobin", {"global_split_u_work_group_mapping_round_robin": True}),
    "PrefetchGlobalRead": ("PGR", False, {"prefetch_global_read": False}),
    "PrefetchLocalRead": ("PLR", True, {"prefetch_local_read": True}),
    "WorkGroupMapping": ("WGM", 1, {"work_group_mapping": 1}),
    "LoopUnroll": ("LU", 16, {"loop_unroll": 16}),
    "DepthU": ("DU", 64, {"depth_u": 64}),
    "NumLoadsCoalesced": ("NLC", 2, {"num_loads_coalesced_a": 2, "num_loads_coalesced_b": 2}),
    "GlobalReadCoalesceGroup": (
        "GRCG",
        False,
        {"global_read_coalesce_group_a": False, "global_read_coalesce_group_b": False},
    ),
    "GlobalReadCoalesceVector": (
        "GRCV",
        False,
        {"global_read_coalesce_vector_a": False, "global_read_coalesce_vector_b": False},
    ),
    "KernelLanguage": ("KL", "Source", {}),
}
"""Every kernel parameter of Tensile's paper (section IV B): its capitals, a value, and what it sets or what serves
instead."""


@pytest.mark.parametrize("name", PAPER)
def test_every_parameter_of_the_paper_is_set_or_told_what_serves_instead(name):
    capitals, value, expected = PAPER[name]
    assert "".join(letter for letter in name if letter.isupper()) == capitals
    for spelling in (name, capitals):
        if isinstance(expected, str):
            with pytest.raises(UserError, match=f"{name} cannot be set: ") as raised:
                names.assigned(TENSILE, spelling, value, AT, "key")
            assert expected in str(raised.value)
        else:
            assert names.assigned(TENSILE, spelling, value, AT, "key") == expected


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [
        ("KernelLanguage", "Assembly", "kernels are CUDA C\\+\\+"),
        ("KernelLanguage", "HIP", "Source"),
        ("GlobalSplitUWorkGroupMap", True, "RoundRobin, Contiguous|RoundRobin.*Contiguous"),
    ],
)
def test_words_that_a_parameter_does_not_know_are_refused(name, value, accepted):
    with pytest.raises(UserError, match=f"(?s){name} does not accept.*{accepted}"):
        names.assigned(TENSILE, name, value, AT, "key")


@pytest.mark.parametrize("name", ["MacroTile", "GlobalSplitUWorkGroupMap", "NumLoadsCoalesced", "DU"])
def test_a_template_without_the_parameter_says_so(name):
    with pytest.raises(UserError, check=coded("unknown-name", key="key", line=1)):
        names.assigned(SGEMM, name, 1, AT, "key")


@pytest.mark.parametrize(
    ("name", "value"), [("MacroTile", "128x128"), ("MT", "128x128"), ("DU", "8"), ("WG", "16x16x1")]
)
def test_kernels_are_joined_by_either_spelling(name, value):
    known = Instance(
        TENSILE, TENSILE.completed({}), {"dtype": "float32", "layout": "nn"} | dict.fromkeys("mnk", 64)
    ).names
    assert names.joined(name, known) == value


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
