"""The ladder of 16-bit products on a real GPU: every rung, layout and type at awkward sizes."""

from __future__ import annotations

import pytest
from gpu_support import CHECK
from hgemm_cases import SETTINGS, arch, problems, template

from lab.gpu.process.job import Job
from lab.hardware.gpus import from_description
from lab.operators.builtin import operator
from lab.templates.instance import Instance
from lab.templates.launches import BuiltLaunch, Residency
from lab.toolchain.base import CompileRequest
from lab.toolchain.cache import Cache, default_folder
from lab.toolchain.select import build, toolchain

pytestmark = pytest.mark.gpu

VARIANTS = {**SETTINGS, **{f"{name} as it is": (name, {}) for name, _ in SETTINGS.values()}}
TYPES = (("float16", "float16"), ("bfloat16", "bfloat16"), ("bfloat16", "float32"))
LARGE = {"m": 1031, "n": 773, "k": 517, "lda": 1040, "ldb": 1040, "ldc": 1032, "alpha": 0.5}


@pytest.mark.parametrize("types", TYPES, ids=["-".join(types) for types in TYPES])
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize(("name", "given"), VARIANTS.values(), ids=VARIANTS)
def test_every_rung_is_right(session, name, given, layout, types):
    description = session.start()
    wanted = f"sm_{arch(name)}" if arch(name).endswith("a") else description.arch
    if wanted.removesuffix("a") != description.arch:
        pytest.skip(f"{wanted} has instructions that {description.arch} does not have")
    dtype, out_dtype = types
    large = operator("gemm").problem({**LARGE, "layout": layout, "dtype": dtype, "out_dtype": out_dtype})
    failures = []
    for problem in (*problems(name, layout, dtype, out_dtype), large):
        instance = Instance.of(template(name), given, problem)
        request = CompileRequest(instance.source, "kernel.cu", wanted)
        built = build(toolchain("nvrtc"), request, Cache(default_folder()))
        known = BuiltLaunch.of(built.build, Residency(from_description(description), built.build.resources))
        job = Job(name, built.build.cubin, instance.launches.built(known), "gemm", problem)
        failure = session.run(job, CHECK).failure
        failures += [f"{problem}: {failure.stage}: {failure.reason}"] if failure else []
    assert not failures, "\n".join(failures)
