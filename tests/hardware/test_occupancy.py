import itertools
import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.hardware.gpus import ARCHITECTURES
from lab.hardware.occupancy import occupancy
from lab.toolchain.base import Resources

GOLDEN = json.loads((Path(__file__).parent / "golden" / "occupancy.json").read_text())
LIMITS = ("registers", "shared memory", "warps", "blocks", "barriers")
KIB = 1024


@dataclass(frozen=True)
class Use:
    registers: int = 0
    shared_bytes: int = 0
    barriers: int = 0


def _held(arch, threads, *, dynamic=0, **use):
    return occupancy(ARCHITECTURES[arch], Use(**use), threads, dynamic)


def test_v100_limited_by_registers():
    # 96 x 32 = 3072 registers a warp (12 x 256); 16384 / 3072 = 5 warps a part, 20 an SM; 256 threads are 8 warps:
    # 20 / 8 = 2 blocks of 8 warps: 16 of 64.
    result = _held("sm_70", 256, registers=96)
    assert (result.blocks_per_sm, result.warps, result.fraction) == (2, 16, 0.25)
    assert result.limited_by == ("registers",)


def test_v100_has_no_reserve():
    # 12 KiB a block is a multiple of 256, nothing is added: 96 / 12 = 8 blocks; 8 x 4 = 32 warps of 64.
    result = _held("sm_70", 128, registers=32, shared_bytes=12 * KIB)
    assert (result.blocks_per_sm, result.warps, result.shared_per_block) == (8, 32, 12 * KIB)
    assert result.limited_by == ("shared memory",)
    assert result.carveout_bytes == 96 * KIB


def test_turing_holds_1024_threads():
    # 64 registers: 2048 a warp, 8 a part, 32 an SM, 4 blocks of 8 warps; 32 warps / 8 = 4 blocks too.
    result = _held("sm_75", 256, registers=64)
    assert (result.blocks_per_sm, result.fraction) == (4, 1.0)
    assert result.limited_by == ("registers", "warps")
    assert result.carveout_bytes == 32 * KIB


def test_a100_reserve_and_rounding():
    # 40000 + 1024 = 41024, up to a multiple of 128: 41088 (321 x 128); 167936 / 41088 = 4 blocks.
    result = _held("sm_80", 256, registers=40, shared_bytes=40000)
    assert (result.blocks_per_sm, result.shared_per_block) == (4, 41088)
    assert result.limited_by == ("shared memory",)
    # 4 x 41088 = 164352 bytes: more than 132 KiB (135168), so the SM is set to 164 KiB.
    assert result.carveout_bytes == 164 * KIB


def test_ga102_limits():
    # 32 threads: 16 blocks an SM, 1 warp each, 48 warps held: 16 / 48.
    result = _held("sm_86", 32, registers=32)
    assert (result.blocks_per_sm, result.fraction, result.limited_by) == (16, pytest.approx(1 / 3), ("blocks",))
    # 1024 threads are 32 warps: 48 / 32 = 1 block. 40 registers: 1280 a warp, 12 a part, 48 an SM: 1 block too.
    result = _held("sm_86", 1024, registers=40)
    assert (result.blocks_per_sm, result.fraction) == (1, pytest.approx(2 / 3))
    assert result.limited_by == ("registers", "warps")


def test_h100_gemm_128x128():
    # 128 registers: 4096 a warp, 4 a part, 16 an SM, 2 blocks of 8 warps.
    # 16 KiB + 1 KiB = 17408 = 136 x 128; 233472 / 17408 = 13 blocks. So registers: 16 of 64 warps.
    result = _held("sm_90", 256, registers=128, shared_bytes=16 * KIB, barriers=1)
    assert result.block_limits == {"registers": 2, "shared memory": 13, "warps": 8, "blocks": 32, "barriers": 64}
    assert (result.blocks_per_sm, result.fraction, result.limited_by) == (2, 0.25, ("registers",))
    assert result.carveout_bytes == 64 * KIB  # 2 x 17408 = 34816 bytes, more than 32 KiB
    assert result.reason == ""


@pytest.mark.parametrize(
    ("arch", "shared", "carveout", "kib", "blocks"),
    [
        # 16 KiB + 1 KiB a block: 17 KiB. No more than a preference holds, which is at least one block.
        ("sm_90", 16 * KIB, 0, 32, 1),
        ("sm_90", 16 * KIB, 28, 64, 3),  # 63.84 of 228 KiB
        ("sm_90", 16 * KIB, 29, 100, 5),  # 66.12
        ("sm_90", 16 * KIB, 100, 228, 8),  # by the warps
        ("sm_90", 0, 0, 8, 8),  # 1 KiB of reserve a block
        ("sm_75", 0, 0, 32, 4),
        ("sm_70", 0, 0, 0, 8),  # no reserve
        ("sm_70", 12 * KIB, 50, 64, 5),
    ],
)
def test_a_carve_out_limits_the_blocks(arch, shared, carveout, kib, blocks):
    result = occupancy(ARCHITECTURES[arch], Use(registers=32, shared_bytes=shared), 256, 0, carveout)
    assert (result.carveout_bytes, result.blocks_per_sm) == (kib * KIB, blocks)


@pytest.mark.parametrize("carveout", [-1, 101])
def test_a_carve_out_is_a_percentage(carveout):
    with pytest.raises(ValueError, match="0 to 100 percent"):
        occupancy(ARCHITECTURES["sm_90"], Use(), 256, 0, carveout)


def test_registers_are_held_by_sub_partition():
    # 168 registers: 5376 a warp; 65536 / 5376 would be 12.19, and 16384 / 5376 = 3 a part gives 12 as well; with 200:
    # 6400 a warp, 65536 / 6400 = 10.24, but 16384 / 6400 = 2 a part, 8 an SM: 8 blocks of one warp, not 10.
    assert _held("sm_90", 32, registers=168).blocks_per_sm == 12
    assert _held("sm_90", 32, registers=200).blocks_per_sm == 8


def test_hopper_barriers():
    # 64 barriers an SM, 16 a block: 4 blocks.
    result = _held("sm_90", 64, registers=32, barriers=16)
    assert (result.blocks_per_sm, result.limited_by) == (4, ("barriers",))
    # The calculator has no such limit before 9.0.
    assert "barriers" not in _held("sm_80", 64, registers=32, barriers=16).block_limits


def test_the_reserve_alone_limits_no_kernel_but_takes_its_kib():
    result = _held("sm_90", 32, registers=16)
    assert result.shared_per_block == KIB
    assert result.block_limits["shared memory"] == 228


@pytest.mark.parametrize(
    ("arch", "threads", "use", "dynamic", "limits", "words"),
    [
        ("sm_90", 1025, {}, 0, ("warps",), ["1025 threads", "at most 1024"]),
        ("sm_90", 1024, {"registers": 65}, 0, ("registers",), ["65 registers x 1024 threads", "73728", "65536"]),
        ("sm_90", 32, {"registers": 256}, 0, ("registers",), ["256 registers per thread", "at most 255"]),
        ("sm_90", 32, {}, 227 * KIB + 1, ("shared memory",), ["232449 bytes", "232448 on sm_90"]),
        ("sm_75", 32, {"shared_bytes": 40 * KIB}, 30 * KIB, ("shared memory",), ["71680", "65536"]),
        ("sm_70", 2048, {"registers": 64}, 97 * KIB, ("registers", "shared memory", "warps"), ["; "]),
    ],
)
def test_what_cannot_be_launched_says_why(*, arch, threads, use, dynamic, limits, words):
    result = _held(arch, threads, dynamic=dynamic, **use)
    assert (result.blocks_per_sm, result.warps, result.fraction) == (0, 0, 0.0)
    assert result.limited_by == limits
    assert all(word in result.reason for word in words)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_last_byte_and_register_that_fit(arch):
    row = ARCHITECTURES[arch]
    assert _held(arch, 32, dynamic=row.shared_per_block).blocks_per_sm == 1
    assert _held(arch, 1024, registers=64).blocks_per_sm == 1
    # The hardware's check rounds the warps of a block up to four: 5 warps x 255 registers are charged as 8 x 8192.
    assert _held(arch, 160, registers=255).blocks_per_sm == 1
    assert _held(arch, 288, registers=255).blocks_per_sm == 0


@pytest.mark.parametrize(("threads", "use"), [(0, Use()), (32, Use(registers=-1)), (32, Use(shared_bytes=-1))])
def test_nonsense_is_an_error(threads, use):
    with pytest.raises(ValueError, match="at least one thread"):
        occupancy(ARCHITECTURES["sm_90"], use, threads)


def test_takes_a_compiler_s_resources():
    resources = Resources(
        registers=64,
        spill_store_bytes=0,
        spill_load_bytes=0,
        stack_bytes=0,
        shared_bytes=8192,
        constant_bytes=0,
        barriers=1,
    )
    assert occupancy(ARCHITECTURES["sm_90"], resources, 256) == _held(
        "sm_90", 256, registers=64, shared_bytes=8192, barriers=1
    )


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_agrees_with_nvidia_s_calculator(arch):
    """The golden file holds what the functions of CUDA 13.5's cuda_occupancy.h return for random kernels."""
    rows = [row for row in GOLDEN["rows"] if row[0] == arch]
    assert len(rows) >= 30
    for _, threads, registers, static, dynamic, barriers, blocks, *limits in rows:
        result = _held(arch, threads, registers=registers, shared_bytes=static, barriers=barriers, dynamic=dynamic)
        assert result.blocks_per_sm == blocks
        assert [result.block_limits.get(name) for name in LIMITS] == limits
        assert list(result.limited_by) == [name for name, limit in zip(LIMITS, limits, strict=True) if limit == blocks]


def _fits(row, use, threads, blocks):
    """Place warps one by one into the sub-partitions, round robin: does an SM take that many blocks?"""
    per_warp = next(size for size in itertools.count(0, row.register_unit) if size >= use.registers * 32)
    free = [row.registers_per_sm // 4] * 4
    warps = blocks * -(-threads // 32)
    for warp in range(warps):
        free[warp % 4] -= per_warp
    unit = use.shared_bytes + row.reserved_shared
    unit += -unit % row.shared_unit
    return min(free) >= 0 and warps <= row.warps_per_sm and blocks * unit <= row.shared_per_sm


ARCHS = st.sampled_from(sorted(ARCHITECTURES))
USES = st.builds(Use, registers=st.integers(1, 255), shared_bytes=st.integers(0, 48 * KIB))


@given(ARCHS, USES, st.integers(1, 1024))
def test_agrees_with_placing_warps(arch, use, threads):
    row = ARCHITECTURES[arch]
    result = occupancy(row, use, threads)
    placed = max(blocks for blocks in range(row.blocks_per_sm + 1) if _fits(row, use, threads, blocks))
    # Round robin fills the parts evenly, so it finds the same count, except where the launch itself is refused.
    assert result.blocks_per_sm == (0 if result.reason else placed)


@given(ARCHS, USES, st.integers(1, 1024), st.integers(0, 64), st.integers(0, 8192))
def test_more_resources_never_give_more_blocks(arch, use, threads, registers, shared):
    row = ARCHITECTURES[arch]
    more = replace(use, registers=use.registers + registers, shared_bytes=use.shared_bytes + shared)
    assert occupancy(row, more, threads).blocks_per_sm <= occupancy(row, use, threads).blocks_per_sm
    assert occupancy(row, use, threads + 32).blocks_per_sm <= occupancy(row, use, threads).blocks_per_sm


@given(ARCHS, USES, st.integers(1, 1100), st.integers(0, 240 * KIB))
def test_result_is_consistent(arch, use, threads, dynamic):
    row = ARCHITECTURES[arch]
    result = occupancy(row, use, threads, dynamic)
    assert 0 <= result.fraction <= 1
    assert result.warps <= row.warps_per_sm
    assert result.limited_by
    assert list(result.limited_by) == [name for name in LIMITS if name in result.limited_by]
    assert bool(result.reason) == (result.blocks_per_sm == 0)
    assert result.blocks_per_sm * result.shared_per_block <= result.carveout_bytes or not result.blocks_per_sm
