"""The model of times: what must hold whatever its constants are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.hardware.gpus import gpu_for
from lab.templates.launches import Launch
from lab.tuning.predicted import OVERHEAD_MS, ProductLoop, pass_ms, product_ms, tile_of

H200 = gpu_for("H200")
LOOP = ProductLoop(rate=60e12 / H200.sms, blocks=2, fma=512, instructions=580, element_bytes=4)
TILE = (128, 128)


def launch(m, n, split=1, moved=None):
    blocks = -(-m // 128) * -(-n // 128) * split
    return Launch("gemm", (blocks, 1, 1), (256, 1, 1), 0, (), moved)


def ms(m, n, k, *, split=1, loop=LOOP, prefetch=True, adds=False):
    return product_ms(H200, loop, launch(m, n, split), (m, n, k), TILE, prefetch=prefetch, adds=adds)


def test_a_large_product_runs_at_the_loops_rate():
    side = 128 * 132
    tflops = 2 * side**2 * 3104 / ms(side, side, 3104) / 1e9
    assert 0.9 * 60 < tflops < 60


def test_complex_products_have_four_times_the_work():
    side = 128 * 132
    ratio = ms(side, side, 3104, loop=replace(LOOP, operations=8)) / ms(side, side, 3104)
    assert 3.9 < ratio < 4.1


def test_one_block_more_than_the_gpu_holds_takes_another_round():
    full = ms(128 * 132, 128 * 2, 4096)
    assert ms(128 * 132, 128 * 2 - 1, 4096) == full
    assert ms(128 * 133, 128 * 2, 4096) > 1.3 * full


def test_a_single_tile_gains_from_splitting_k():
    whole = ms(128, 128, 100_000)
    assert ms(128, 128, 100_000, split=8) < whole / 6


def test_a_full_gpu_loses_from_adding_to_c():
    assert ms(8192, 8192, 64, split=8, adds=True) > ms(8192, 8192, 64)


def test_without_prefetching_the_memory_is_waited_for():
    assert ms(128, 128, 4096, prefetch=False) > 1.3 * ms(128, 128, 4096)


def test_a_kernel_that_is_short_of_blocks_is_slower():
    assert ms(8192, 8192, 512, loop=replace(LOOP, blocks=1)) >= ms(8192, 8192, 512)


def test_no_product_is_faster_than_its_launch_and_its_bytes():
    assert ms(1, 1, 1) > OVERHEAD_MS
    m, n, k = 100_000, 128, 1
    assert ms(m, n, k) >= OVERHEAD_MS + 4 * (m * k + k * n + m * n) / 4.8e12 * 1e3


def test_a_pass_takes_the_time_of_its_bytes():
    assert pass_ms(H200, launch(1, 1, moved=4_800_000_000), (1, 1, 1), 4) == pytest.approx(OVERHEAD_MS + 1.0)


def test_the_tile_is_named_by_the_template_or_follows_from_the_grid():
    assert tile_of({"macro_tile_0": 64, "macro_tile_1": 32}, (1, 1, 1), 1) == (64, 32)
    assert tile_of({"block_m": 256, "block_n": 128}, (1, 1, 1), 1) == (256, 128)
    assert tile_of({}, (1024, 1024, 8), 256) == (64, 64)


def test_a_batch_has_the_work_of_its_members():
    one = launch(128 * 12, 128 * 11, 1)
    whole = launch(128 * 12, 128 * 11 * 8, 1)
    batch = product_ms(H200, LOOP, whole, (128 * 12, 128 * 11, 512, 8), TILE, prefetch=True, adds=False)
    single = product_ms(H200, LOOP, one, (128 * 12, 128 * 11, 512), TILE, prefetch=True, adds=False)
    wide = product_ms(H200, LOOP, whole, (128 * 12, 128 * 11 * 8, 512), TILE, prefetch=True, adds=False)
    assert batch > 4 * (single - OVERHEAD_MS)
    assert batch == pytest.approx(wide)
