"""TF32, FP8 and int8 GEMMs on a real GPU, compared with cuBLAS."""

from __future__ import annotations

import pytest
from gpu_support import CHECK
from hgemm_cases import NARROW, PROMOTED, SETTINGS, WARP_TYPES, WARPS, narrow, narrow_warps, problems, template

from lab.gpu.process.job import Job, Policy
from lab.hardware.gpus import from_description
from lab.operators.builtin import operator
from lab.templates.instance import Instance
from lab.templates.launches import BuiltLaunch, Residency
from lab.toolchain.base import CompileRequest
from lab.toolchain.cache import Cache, default_folder
from lab.toolchain.select import build, toolchain

pytestmark = pytest.mark.gpu

WGMMA = {name: setting for name, setting in SETTINGS.items() if "v3" <= setting[0] < "v9"}
LARGE = {"m": 1031, "n": 773, "k": 517, "lda": 528, "ldb": 528, "ldc": 1032, "alpha": 2.0}
BESIDE = Policy(warmup_ms=1.0, rewarm_ms=1.0, budget_s=0.02, baseline="cublas", timeout_s=30.0)


def job(description, name, parameters, problem, arch="sm_90a"):
    instance = Instance.of(template(name), parameters, problem)
    assert instance.unmet() is None
    built = build(toolchain("nvrtc"), CompileRequest(instance.source, "kernel.cu", arch), Cache(default_folder()))
    known = BuiltLaunch.of(built.build, Residency(from_description(description), built.build.resources))
    return Job(name, built.build.cubin, instance.launches.built(known), "gemm", problem)


def hopper(session):
    description = session.start()
    if description.arch != "sm_90":
        pytest.skip(f"sm_90a has instructions that {description.arch} does not have")
    return description


def large(dtype, out_dtype, precision, *, layout="tn"):
    """Return a problem of many tiles, whose columns begin at multiples of 16 bytes."""
    named = {"precision": precision} if precision else {}
    leading = {"lda": 1040} if layout[0] == "n" else {}
    leading |= {"ldb": 784} if layout[1] == "t" else {}
    shape = {**LARGE, **leading, "layout": layout}
    return operator("gemm").problem({**shape, "dtype": dtype, "out_dtype": out_dtype, **named})


CASES = [
    *((name, narrow(given, types[0]), types) for name, given in WGMMA.values() for types in NARROW),
    *(
        (name, given, (dtype, "bfloat16", ""))
        for name, given in PROMOTED.values()
        for dtype in ("float8_e4m3fn", "float8_e5m2")
    ),
]


@pytest.mark.parametrize(("name", "given", "types"), CASES)
def test_every_rung_is_right(session, name, given, types):
    description = hopper(session)
    failures = []
    for problem in (*problems(name, "tn", *types), large(*types)):
        failure = session.run(job(description, name, given, problem), CHECK).failure
        failures += [f"{problem}: {failure.stage}: {failure.reason}"] if failure else []
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("types", WARP_TYPES, ids=lambda types: types[0])
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize(("name", "given"), WARPS.values(), ids=WARPS)
def test_every_rung_of_mma_is_right(session, name, given, layout, types):
    description = session.start()
    if int(description.arch.removeprefix("sm_").rstrip("af")) < 80:
        pytest.skip(f"{description.arch} has no mma.sync of these types")
    failures = []
    for problem in (*problems(name, layout, *types), large(*types, layout=layout)):
        one = job(description, name, narrow_warps(name, given, types[0]), problem, description.arch)
        failure = session.run(one, CHECK).failure
        failures += [f"{problem}: {failure.stage}: {failure.reason}"] if failure else []
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("types", [*NARROW, ("float8_e4m3fn", "bfloat16", "")], ids="-".join)
def test_cublas_computes_the_same(session, types):
    description = hopper(session)
    problem = operator("gemm").problem(
        {**large(*types), "k": 528, "lda": 528, "ldb": 528, "m": 1040, "n": 784, "ldc": 1040}
    )
    name, parameters = WGMMA["persistent"] if types[2] or types[0] == "int8" else PROMOTED["persistent, promoted"]
    parameters = narrow(parameters, types[0]) if "promote" not in parameters else parameters
    result = session.run(job(description, name, parameters, problem), BESIDE)
    assert result.failure is None, result.failure
    if types[0] == "float8_e5m2":
        assert "cuBLASLt does not support a GEMM of float8_e5m2" in result.baseline.note
    elif not result.baseline.library:
        pytest.skip(result.baseline.note)
    else:
        assert result.baseline.verification.passed, result.baseline
        print(types, result.baseline.library, result.baseline.kernel)  # noqa: T201 - for the reader of -s
