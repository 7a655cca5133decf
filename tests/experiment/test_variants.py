from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path

import pytest
from mistakes import coded

from lab.base.errors import UserError
from lab.experiment.load import from_text
from lab.experiment.model import Experiment
from lab.experiment.space import expand
from lab.experiment.variants import plan, short_hash, toolchains
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import toolchain

TEXT = """question: q
operator: gemm
problem: {m: [64, 960], n: 32, k: 16}
kernels:
  - template: gemm/tiled.cu.j2
    parameters: {unroll: [1, 2]}
"""
NVRTC = (toolchain("nvrtc"),)


def experiment(text: str = TEXT) -> Experiment:
    return from_text(text, Path("e.yaml"))


def test_every_point_is_planned_for_every_architecture() -> None:
    parsed = experiment()
    points = expand(parsed).points
    planned = plan(parsed, points, NVRTC, ["sm_80", "sm_90"], first=5)
    assert [one.position for one in planned] == list(range(5, 5 + 2 * len(points)))
    assert [one.label for one in planned[:2]] == ["m=64 unroll=1 sm_80", "m=64 unroll=1 sm_90"]
    assert len({one.variant for one in planned}) == len(planned)


def test_labels_leave_out_what_does_not_vary() -> None:
    parsed = experiment()
    assert plan(parsed, expand(parsed).points, NVRTC, ["sm_90"])[0].label == "m=64 unroll=1"


def test_sizes_share_their_source_and_have_launches_of_their_own() -> None:
    parsed = experiment()
    small, _, large, _ = plan(parsed, expand(parsed).points, NVRTC, ["sm_90"])
    assert small.request.source is large.request.source
    assert small.launches != large.launches
    assert small.launches == small.instance.launches
    assert small.variant != large.variant


def test_an_id_depends_on_what_decides_the_machine_code() -> None:
    parsed = experiment()
    first = expand(parsed).points[0]

    def variant(of: Experiment, arch: str = "sm_90") -> str:
        return plan(of, [first], NVRTC, [arch])[0].variant

    assert variant(parsed) == variant(experiment())
    assert variant(parsed) != variant(parsed, "sm_80")
    assert variant(parsed) != variant(replace(parsed, options=(("--use_fast_math",),)))
    assert variant(parsed) == variant(replace(parsed, question="another"))


def test_an_architecture_that_a_compiler_lacks_is_refused() -> None:
    parsed = experiment()
    with pytest.raises(UserError, check=coded("unsupported", key="archs", found="sm_10")) as error:
        plan(parsed, expand(parsed).points, NVRTC, ["sm_10"])
    assert (error.value.key, error.value.found) == ("archs", "sm_10")


def test_each_toolchain_is_used_once() -> None:
    assert toolchains(experiment(TEXT + "toolchains: [nvrtc, nvrtc]\n")) == NVRTC
    with pytest.raises(UserError):
        toolchains(experiment(TEXT + "toolchains: [gcc]\n"))


def test_a_hash_does_not_depend_on_the_order_of_the_facts() -> None:
    assert short_hash({"a": 1, "b": [2]}) == short_hash({"b": [2], "a": 1})
    assert short_hash({"a": 1}) != short_hash({"a": 1.5})
    assert len(short_hash({})) == 10


def test_a_plan_holds_no_source_and_no_request() -> None:
    def requests() -> int:
        gc.collect()
        return sum(isinstance(one, CompileRequest) for one in gc.get_objects())

    parsed, before = experiment(), requests()
    planned = plan(parsed, expand(parsed).points, NVRTC, ["sm_80", "sm_90"])
    assert requests() == before
    assert planned[1].request == planned[1].request
    assert planned[1].request is not planned[1].request


def test_a_plan_is_a_sequence_that_grows() -> None:
    parsed = experiment()
    points = expand(parsed).points
    first = plan(parsed, points, NVRTC, ["sm_90"])
    combined = first + plan(parsed, points, NVRTC, ["sm_80"], first=len(first))
    assert len(combined) == 2 * len(first)
    assert [one.variant for one in combined] == combined.variants
    assert [one.position for one in combined] == combined.positions == list(range(len(combined)))
    assert [one.point for one in combined] == combined.points
    assert combined[-1].request.arch == "sm_80"
    assert [one.variant for one in combined[1:3]] == combined.variants[1:3]


def test_ids_do_not_depend_on_how_many_points_are_rendered_together(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = experiment()
    together = plan(parsed, expand(parsed).points, NVRTC, ["sm_90"])
    monkeypatch.setattr("lab.experiment.variants._SLICE", 1)
    apart = plan(parsed, expand(parsed).points, NVRTC, ["sm_90"])
    assert apart.variants == together.variants
    assert [one.fingerprint for one in apart] == [one.fingerprint for one in together]
