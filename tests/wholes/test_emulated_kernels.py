"""Whole kernels, as NVRTC and nvcc compile them, against NumPy."""

import cases
import compiling
import numpy as np
import pytest

from lab.emulator.api import launch

IDS = [case.__name__ for _, case in cases.CASES]


@pytest.mark.parametrize("variant", list(compiling.VARIANTS))
@pytest.mark.parametrize(("name", "case"), cases.CASES, ids=IDS)
def test_right_and_clean(name, case, variant):
    outcome = case(compiling.ptx(name, variant))
    assert outcome.right
    assert outcome.emulation.findings == ()
    assert outcome.emulation.counts.threads > 0


@pytest.mark.parametrize(("name", "case"), cases.CASES, ids=IDS)
def test_right_and_clean_from_nvcc(name, case):
    if reason := compiling.nvcc_lacks(name):
        pytest.skip(reason)
    outcome = case(compiling.compile_with_nvcc(name))
    assert outcome.right
    assert outcome.emulation.findings == ()


@pytest.mark.parametrize(
    ("case", "name", "sizes"),
    [
        (case, name, sizes)
        for case, name in ((cases.naive, "gemm_naive"), (cases.tiled, "gemm_tiled"), (cases.split_k, "gemm_split_k"))
        for sizes in ((1, 1, 1), (31, 33, 7), (64, 32, 33))
    ]
    + [(cases.double_buffered, "gemm_128", sizes) for sizes in ((1, 1, 1), (127, 129, 9), (128, 128, 8), (256, 4, 16))]
    + [(cases.multi_stage, "gemm_async", sizes) for sizes in ((1, 1, 1), (63, 65, 15), (64, 64, 49))]
    + [(cases.wmma, "gemm_wmma", sizes) for sizes in ((1, 1, 1), (16, 16, 16), (17, 31, 33))],
)
def test_awkward_sizes(case, name, sizes):
    outcome = case(compiling.ptx(name), *sizes)
    assert outcome.right
    assert outcome.emulation.findings == ()


def test_double_precision():
    for variant in ("release", "debug"):
        outcome = cases.naive(compiling.ptx("gemm_naive", variant), 9, 7, 30, "dgemm")
        assert outcome.right
        assert outcome.emulation.findings == ()


def test_double_precision_fused_exactly():
    m = n = 1
    a, b, c = np.array([1 + 2.0**-30]), np.array([1 - 2.0**-30]), np.array([-1.0])
    launch(compiling.ptx("gemm_naive"), "dgemm", 1, 1, [m, n, 1, 1.0, a, 1, b, 1, 1.0, c, 1])
    assert c[0] == 0.0  # the sum is rounded to 1 when it is fused with 0; a second fma adds beta * c


def test_fma_count_is_exact():
    m, n, k = 130, 140, 28
    outcome = cases.double_buffered(compiling.ptx("gemm_128"), m, n, k)
    counts = outcome.emulation.counts
    assert counts is not None
    fma = counts.threads_by_class["fma"]
    assert fma == 4 * 256 * 64 * 32  # blocks, threads, products a k step, k rounded up to the tile
    hot = max(outcome.emulation.loops, key=lambda loop: loop.counts.threads_by_class.get("fma", 0))
    assert hot.counts.threads_by_class["fma"] == fma
    assert counts.active_lanes == pytest.approx(32, rel=0.2)


def test_naive_divergence_and_traffic():
    outcome = cases.naive(compiling.ptx("gemm_naive"), 19, 23, 17)
    counts = outcome.emulation.counts
    assert counts is not None
    assert counts.threads_by_class["fma"] >= 19 * 23 * 17
    assert counts.active_lanes < 32
    loads = counts.memory["global.load"]
    assert loads.bytes_used == 4 * 19 * 23 * (2 * 17 + 1)
    assert 1 <= loads.sectors_per_request <= 32


def test_batches_do_not_change_the_result(monkeypatch):
    whole = cases.tiled(compiling.ptx("gemm_tiled"), 70, 70, 40)
    monkeypatch.setattr("lab.emulator.api.BATCH_THREADS", 2048)
    parts = cases.tiled(compiling.ptx("gemm_tiled"), 70, 70, 40)
    np.testing.assert_array_equal(whole.found, parts.found)
    assert whole.emulation.counts == parts.emulation.counts
