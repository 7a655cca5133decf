"""Softmax on the GPU: every template on awkward sizes, sequences of launches, and the baselines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from gpu_support import CHECK, QUICK

from lab.gpu.process.job import Job
from lab.gpu.timing.cache import Flush
from lab.hardware.gpus import gpu_for
from lab.operators.builtin import operator
from lab.templates import front_matter as kernels
from lab.templates.instance import Instance
from lab.templates.launches import BuiltLaunch, Residency
from lab.toolchain.base import CompileRequest
from lab.toolchain.cache import Cache, default_folder
from lab.toolchain.select import build, toolchain

ROOTS = kernels.search_path()
SOFTMAX = operator("softmax")
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "naive": ("naive", {}),
    "part of a warp": ("fused", {"threads": 8, "rows_per_block": 16, "items": 16, "vector_width": 2}),
    "warp": ("fused", {"threads": 32, "rows_per_block": 4, "items": 12}),
    "block": ("fused", {"threads": 256, "items": 2, "streaming": True}),
    "shifted": ("fused", {"threads": 256, "items": 2, "shifted": True}),
    "block, expf": ("fused", {"threads": 64, "rows_per_block": 2, "items": 6, "exponential": "expf", "persistent": 3}),
    "cluster": ("fused", {"threads": 128, "cluster": 4, "items": 1, "persistent": 16}),
    "staged": ("staged", {"threads": 128, "items": 3, "stages": 2, "persistent": 264}),
    "staged cluster": ("staged", {"threads": 64, "items": 1, "cluster": 8, "stages": 1, "persistent": 64}),
    "twice": ("twice", {"threads": 128}),
    "five warps": ("fused", {"threads": 160, "items": 2, "shifted": True}),
    "staged, shifted": ("staged", {"threads": 96, "items": 4, "stages": 2, "shifted": True, "persistent": 264}),
    "twice, shifted": ("twice", {"threads": 64, "cluster": 2, "shifted": True}),
    "online": ("online", {"threads": 96, "items": 2, "shared_items": 2, "shifted": True, "persistent": 40}),
    "online, in place": ("online", {"threads": 64, "items": 3, "shared_items": 3, "in_place": True}),
    "online cluster": ("online", {"threads": 64, "cluster": 4, "items": 1, "shared_items": 1, "persistent": 16}),
    "online, not refilled": ("online", {"threads": 128, "items": 2, "shared_items": 1, "refill": False}),
    "twice in a cluster": ("twice", {"threads": 64, "cluster": 2, "unroll": 2, "backwards": False}),
}
SIZES: list[dict[str, Any]] = [
    {"m": 1, "n": 1},
    {"m": 53, "n": 7, "values": "special"},
    {"m": 211, "n": 129, "ldx": 130, "ldy": 133, "values": "special"},
    {"m": 222, "n": 256, "ldx": 264, "values": "special"},
    {"m": 300, "n": 1004, "ldx": 1008, "ldy": 1012},
    {"m": 1823, "n": 781},
]


def job(name, given, problem, arch):
    template = kernels.load(f"softmax/{name}.cu.j2", ROOTS)
    parameters = template.completed(given)
    if Instance(template, parameters, problem).unmet():
        return None
    source = Instance(template, parameters, problem).source
    built = build(toolchain("nvrtc"), CompileRequest(source, "kernel.cu", arch), Cache(default_folder()))
    known = BuiltLaunch.of(built.build, Residency(gpu_for(arch), built.build.resources))
    return Job(
        name, built.build.cubin, Instance(template, parameters, problem).launches.built(known), "softmax", problem
    )


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_template_is_right(session, variant, dtype):
    arch, failures = session.start().arch, []
    for size in SIZES:
        problem = SOFTMAX.problem({**size, "dtype": dtype})
        made = job(*VARIANTS[variant], problem, arch)
        if made is None or ("cluster" in VARIANTS[variant][1] and arch < "sm_90"):
            continue
        result = session.run(made, CHECK)
        if result.failure:
            failures.append(f"{size}: {result.failure.stage}: {result.failure.reason}")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize(("n", "cluster"), [(65536, 1), (65536, 2), (131072, 4), (262144, 8)])
def test_rows_that_no_sm_holds_without_its_shared_memory_or_its_neighbours(session, n, cluster):
    if (arch := session.start().arch) < "sm_90":
        pytest.skip("needs clusters")
    given = {"threads": n // 64 // cluster, "cluster": cluster, "items": 6, "shared_items": 10}
    made = job("online", {**given, "persistent": 16}, SOFTMAX.problem({"m": 37, "n": n}), arch)
    assert session.run(made, CHECK).failure is None


def test_rows_that_need_more_than_48_kb_of_shared_memory(session):
    problem = SOFTMAX.problem({"m": 300, "n": 12672})
    made = job("staged", {"threads": 1024, "items": 4, "stages": 3, "persistent": 132}, problem, session.start().arch)
    assert made.launches.steps[0].dynamic_shared_bytes == 3 * 65536
    assert session.run(made, CHECK).failure is None


@pytest.mark.parametrize(("dtype", "n"), [("float32", 1000), ("float16", 4096), ("bfloat16", 40000)])
def test_baselines_are_right_and_timed(session, dtype, n):
    problem = SOFTMAX.problem({"m": 512, "n": n, "dtype": dtype})
    made = job("twice", {}, problem, session.start().arch)
    policy = replace(QUICK, baseline="copy", others=("torch", "triton"), flush=Flush.ON)
    result = session.run(made, policy)
    assert result.failure is None
    assert result.measurement.cache == "cold"
    assert result.measurement.baseline_name == "copy"
    for one in result.others:
        if one.name in result.measurement.others:
            assert one.verification.passed
            assert result.measurement.ratio_to(one.name) > 0.2
        else:
            assert "cannot be imported" in one.note


def test_separate_operations_of_pytorch_are_right_and_timed(session):
    problem = SOFTMAX.problem({"m": 512, "n": 1000})
    made = job("twice", {}, problem, session.start().arch)
    names = ("torch-naive", "torch-jit", "torch-compile")
    result = session.run(made, replace(QUICK, baseline="copy", others=names, flush=Flush.ON))
    assert result.failure is None
    for one in result.others:
        if one.name in result.measurement.others:
            assert one.verification.passed
        else:
            assert "cannot be imported" in one.note
