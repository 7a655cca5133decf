"""Norms, a masked softmax and the gradient of softmax on the GPU: awkward sizes, every type, and PyTorch and Triton."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from gpu_support import CHECK, QUICK

from lab.gpu.process.job import Job
from lab.gpu.timing.cache import Flush
from lab.operators.builtin import operator
from lab.templates import front_matter as kernels
from lab.templates.instance import Instance
from lab.toolchain.base import CompileRequest
from lab.toolchain.cache import Cache, default_folder
from lab.toolchain.select import build, toolchain

NAMES = ("layer_norm", "rms_norm", "softmax_backward", "masked_softmax")
VARIANTS: dict[str, dict[str, Any]] = {
    "part of a warp": {"threads": 8, "rows_per_block": 16, "items": 16, "vector_width": 2},
    "warp": {"threads": 32, "rows_per_block": 4, "items": 8},
    "block": {"threads": 256, "items": 2, "streaming": True},
    "shifted": {"threads": 96, "items": 3, "shifted": True},
    "blocks that stay": {"threads": 64, "rows_per_block": 2, "items": 6, "persistent": 3},
}
SIZES: list[dict[str, Any]] = [{"m": 1, "n": 1}, {"m": 53, "n": 7}, {"m": 222, "n": 256}, {"m": 1823, "n": 781}]


def job(name, given, problem, arch):
    template = kernels.load(f"{name}/fused.cu.j2", kernels.search_path())
    instance = Instance(template, template.completed(given), problem)
    if instance.unmet():
        return None
    built = build(toolchain("nvrtc"), CompileRequest(instance.source, "kernel.cu", arch), Cache(default_folder()))
    return Job(name, built.build.cubin, instance.launches, name, problem)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", NAMES)
def test_every_template_is_right(session, name, dtype):
    arch, failures, ran = session.start().arch, [], 0
    for variant, given in VARIANTS.items():
        for size in SIZES:
            made = job(name, given, operator(name).problem({**size, "dtype": dtype}), arch)
            if made is None:
                continue
            ran += 1
            result = session.run(made, CHECK)
            if result.failure:
                failures.append(f"{variant}, {size}: {result.failure.stage}: {result.failure.reason}")
    assert not failures, "\n".join(failures)
    assert ran >= 2 * len(VARIANTS)


@pytest.mark.parametrize("mask", ["none", "additive"])
def test_other_masks_are_right(session, mask):
    arch, failures = session.start().arch, []
    for variant, given in VARIANTS.items():
        for size in ({"m": 53, "n": 203, "queries": 7}, {"m": 222, "n": 256, "queries": 111, "scale": -0.125}):
            problem = operator("masked_softmax").problem({**size, "mask": mask})
            result = session.run(job("masked_softmax", given, problem, arch), CHECK)
            if result.failure:
                failures.append(f"{variant}, {size}: {result.failure.stage}: {result.failure.reason}")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm", "masked_softmax"])
def test_pytorch_and_triton_are_right_and_timed(session, name):
    problem = operator(name).problem({"m": 1000, "n": 1000})
    made = job(name, {"threads": 128, "items": 2}, problem, session.start().arch)
    result = session.run(made, replace(QUICK, baseline="torch", others=("triton",), flush=Flush.ON))
    assert result.failure is None
    assert result.measurement.baseline_name == "torch" or "cannot be imported" in result.baseline.note
    for one in result.others:
        if one.name in result.measurement.others:
            assert one.verification.passed
        else:
            assert "cannot be imported" in one.note
