"""The baseline against the float64 reference, and really without TF32."""

import pytest
from gpu_jobs import baseline_of, measurement_of, verification_of
from gpu_support import QUICK, gemm_job, tf32_backend

from lab.gpu.process.job import Policy
from lab.gpu.process.session import GpuSession

pytestmark = pytest.mark.gpu

BESIDE = Policy(warmup_ms=20.0, rewarm_ms=5.0, budget_s=0.02, baseline="cublas")


def beside_cublas(session, job, policy=BESIDE):
    result = session.run(job, policy)
    assert result.failure is None, result.failure
    if not result.baseline.library:
        pytest.skip(result.baseline.note)
    return result


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize(
    "extra",
    [{}, {"alpha": -1.5, "beta": 0.5, "lda": 131, "ldb": 137, "ldc": 139}, {"alpha": 0.0, "beta": 2.0}],
    ids=["plain", "scaled-and-padded", "alpha-0"],
)
def test_every_layout_computes_what_the_operator_means(gpu, session, dtype, layout, extra):
    job = gemm_job(gpu.arch, m=97, n=61, k=129, dtype=dtype, layout=layout, **extra)
    result = beside_cublas(session, job)
    assert result.baseline.verification.passed, result.baseline
    assert result.measurement.baseline_name == "cublas"
    assert result.measurement.baseline.n == result.measurement.samples.n


def test_sgemm_is_plain_fp32(gpu, session):
    result = beside_cublas(session, gemm_job(gpu.arch, m=1024, n=1024, k=4096), QUICK_BESIDE)
    assert result.baseline.verification.max_error < 1e-6
    assert result.measurement.ratio_to_baseline > 0


def test_the_comparison_would_notice_tf32(gpu):
    if int(gpu.arch.removeprefix("sm_")) < 80:
        pytest.skip(f"{gpu.arch} has no TF32")
    with GpuSession(tf32_backend) as session:
        result = session.run(gemm_job(gpu.arch, m=1024, n=1024, k=4096), QUICK_BESIDE)
    assert result.failure is None, result.failure
    baseline = baseline_of(result)
    if not baseline.library:
        pytest.skip(baseline.note)
    assert not verification_of(baseline).passed
    assert "left out" in baseline.note
    assert measurement_of(result).baseline is None


def test_library_version_and_kernel_are_named(gpu, session):
    described = beside_cublas(session, gemm_job(gpu.arch, m=512, n=512, k=512)).baseline
    assert described.library.startswith("libcublas.so.")
    assert described.kernel or described.note, described
    print("cuBLAS:", described.library, "|", described.kernel or described.note)  # noqa: T201 - for the reader of -s


QUICK_BESIDE = Policy(
    warmup_ms=QUICK.warmup_ms, rewarm_ms=QUICK.rewarm_ms, budget_s=QUICK.budget_s, baseline="cublas", timeout_s=30.0
)
