"""FP32 products from parts on a real GPU: all settings, layouts and precisions at awkward sizes, and a deep k."""

from __future__ import annotations

import pytest
from gpu_support import CHECK
from split_cases import PRECISIONS, SETTINGS, problems, template

from lab.gpu.process.job import Job
from lab.hardware.gpus import from_description
from lab.operators.builtin import operator
from lab.templates.instance import Instance
from lab.templates.launches import BuiltLaunch, Residency
from lab.toolchain.base import CompileRequest
from lab.toolchain.cache import Cache, default_folder
from lab.toolchain.select import build, toolchain

pytestmark = pytest.mark.gpu

GEMM = operator("gemm")
VARIANTS = {
    **SETTINGS,
    "as it is": {},
    "a whole piece": {"block_m": 192, "width": 192, "stages": 5, "promote": 64},
    "three warpgroups, large": {"block_m": 128, "block_n": 192, "warpgroups": 3, "stages": 5, "promote": 64},
}
LARGE = {"m": 1031, "n": 773, "k": 517, "lda": 1041, "ldb": 1042, "ldc": 1033, "alpha": 0.5}


def result(session, given, problem):
    """Check a setting on the session's GPU, which must be of sm_90."""
    description = session.start()
    if description.arch != "sm_90":
        pytest.skip(f"sm_90a has instructions that {description.arch} does not have")
    instance = Instance.of(template(), given, problem)
    request = CompileRequest(instance.source, "kernel.cu", "sm_90a")
    built = build(toolchain("nvrtc"), request, Cache(default_folder()))
    known = BuiltLaunch.of(built.build, Residency(from_description(description), built.build.resources))
    return session.run(Job("split", built.build.cubin, instance.launches.built(known), "gemm", problem), CHECK)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("given", VARIANTS.values(), ids=VARIANTS)
def test_every_setting_is_right(session, given, layout, precision):
    large = GEMM.problem({**LARGE, "layout": layout, "precision": precision})
    failures = []
    for problem in (*problems(layout, precision), large):
        failure = result(session, given, problem).failure
        failures += [f"{problem}: {failure.stage}: {failure.reason}"] if failure else []
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("data", ["normal", "scaled"])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_errors_stay_below_two_units_at_a_deep_k(session, precision, data):
    """SGEMM's own, adding one term after the other, are about 2.3 units of the last place of the scale there."""
    problem = GEMM.problem({"m": 512, "n": 512, "k": 16384, "precision": precision, "data": data})
    found = result(session, {}, problem)
    assert found.failure is None
    assert found.verification.max_error < 2 * 2.0**-24
