"""The FP16/BF16 GEMM ladder on a real GPU: every rung, layout and type at awkward sizes."""

from __future__ import annotations

import pytest
from gpu_support import CHECK
from hgemm_cases import CUTLASS, SETTINGS, arch, cutlass_problems, problems, template

from lab.gpu.process.job import Job
from lab.hardware.gpus import from_description
from lab.operators.builtin import operator
from lab.templates.instance import Instance
from lab.templates.launches import BuiltLaunch, Residency
from lab.toolchain import locate
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
    failures = failures_of(session, name, given, [*problems(name, layout, dtype, out_dtype), large], wanted)
    assert not failures, "\n".join(failures)


@pytest.mark.skipif(locate.cutlass() is None, reason="CUTLASS's headers are not installed")
@pytest.mark.parametrize(("given", "types"), CUTLASS.values(), ids=CUTLASS)
def test_cutlass_is_right(session, given, types):
    if session.start().arch != "sm_90":
        pytest.skip("CUTLASS's kernel is for sm_90a")
    large = operator("gemm").problem({**LARGE, "m": 1032, **types})
    failures = failures_of(session, "cutlass", given, [*cutlass_problems(given, types), large], "sm_90a")
    assert not failures, "\n".join(failures)


def failures_of(session, name, parameters, problems, wanted):
    """Compile a template for each problem, launch it, and say what went wrong."""
    failures = []
    for problem in problems:
        instance = Instance.of(template(name), parameters, problem)
        request = CompileRequest(instance.source, "kernel.cu", wanted)
        built = build(toolchain("nvrtc"), request, Cache(default_folder()))
        residency = Residency(from_description(session.start()), built.build.resources)
        launches = instance.launches.built(BuiltLaunch.of(built.build, residency))
        failure = session.run(Job(name, built.build.cubin, launches, "gemm", problem), CHECK).failure
        failures += [f"{problem}: {failure.stage}: {failure.reason}"] if failure else []
    return failures
