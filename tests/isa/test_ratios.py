from __future__ import annotations

from collections import Counter

import pytest

from lab.isa.classes import classify, load_bytes
from lab.isa.mix import Counts
from lab.isa.ratios import global_bytes, ratio_that_matters


def counts(**opcodes: int) -> Counts:
    named = {name.replace("_", "."): n for name, n in opcodes.items()}
    by_class: Counter[str] = Counter()
    for opcode, n in named.items():
        by_class[str(classify("sass", opcode))] += n
    shared = sum(load_bytes("sass", o, ()) * n for o, n in named.items() if classify("sass", o) == "ld.shared")
    return Counts(sum(named.values()), dict(by_class), named, shared, 0)


GEMM = counts(FFMA=64, LDS_128=4, IADD3=4, BRA=1)
TENSOR = counts(HMMA_16816_F32=8, LDSM_16_M88_4=4, IADD3=8)


@pytest.mark.parametrize(
    ("profile", "name", "value"),
    [
        pytest.param(GEMM, "fma : ld.shared", 16, id="gemm"),
        pytest.param(TENSOR, "mma : shared bytes", 8 / 64, id="tensor cores"),
        pytest.param(
            counts(HMMA_16816_F32=8, IADD3=8),
            "multiply-adds : instruction",
            32,
            id="tensor cores without shared memory",
        ),
        pytest.param(counts(UTCHMMA=8, IADD3=8), "mma share", 0.5, id="tensor cores, of which the text has no shape"),
        pytest.param(counts(LDG_E_128=2, STG_E_128=2, FADD=8, IADD3=4), "bytes : instruction", 4, id="streaming"),
        pytest.param(counts(ATOMS_ADD=2, LDG_E=1, IADD3=17), "atomic share", 0.1, id="histogram"),
        pytest.param(counts(IADD3=60, LOP3_LUT=30, ISETP_GE_AND=6, BRA=4), "integer share", 0.96, id="hash"),
        pytest.param(counts(MUFU_EX2=20, FFMA=5, IADD3=75), "special-function share", 0.2, id="exponentials"),
        pytest.param(counts(FFMA=90, IADD3=10), "FMA share", 0.9, id="fma in registers"),
    ],
)
def test_the_ratio_follows_what_the_kernel_does(profile, name, value):
    found = ratio_that_matters([profile])
    assert found.name == name
    assert found.of(profile) == pytest.approx(value)
    assert found.why.startswith("because ")


def test_one_ratio_holds_for_all_variants_even_for_those_that_lack_it():
    without = counts(FFMA=4, LDG_E=2, IADD3=4)
    found = ratio_that_matters([GEMM, GEMM, without])
    assert found.name == "fma : ld.shared"
    assert found.of(without) is None


def test_one_stray_fma_and_load_are_no_gemm():
    assert ratio_that_matters([counts(FFMA=1, LDS=1, LDG_E_128=20, IADD3=78)]).name == "bytes : instruction"


@pytest.mark.parametrize(
    ("profile", "name"),
    [
        pytest.param(counts(HMMA_16816_F32=1, IADD3=99), "multiply-adds : instruction", id="1 % mma"),
        pytest.param(counts(HMMA_16816_F32=1, IADD3=100), "integer share", id="less mma"),
        pytest.param(counts(HMMA_16816_F32=50, LDS=1, IADD3=49), "mma : shared bytes", id="1 % shared"),
        pytest.param(counts(HMMA_16816_F32=50, LDS=1, IADD3=50), "multiply-adds : instruction", id="less shared"),
        pytest.param(counts(FFMA=10, LDS=1, IADD3=89), "fma : ld.shared", id="10 % fma and 1 % shared"),
        pytest.param(counts(FFMA=10, LDS=1, IADD3=90), "integer share", id="less of both"),
        pytest.param(counts(FFMA=11, LDS=1, IADD3=90), "integer share", id="less shared beside fma"),
        pytest.param(counts(FFMA=10, LDS=2, IADD3=90), "integer share", id="less fma beside shared"),
        pytest.param(counts(ATOMS_ADD=1, IADD3=99), "atomic share", id="1 % atomics"),
        pytest.param(counts(ATOMS_ADD=1, IADD3=100), "integer share", id="fewer atomics"),
        # cycles of an SM: fma and other floats 1/4, integers and comparisons 1/2, special 2, bytes 32/18
        pytest.param(counts(FFMA=30, FADD=30, IADD3=28, BRA=12), "FMA share", id="0.15 > 0.14"),
        pytest.param(counts(FFMA=28, FADD=26, IADD3=28, BRA=18), "integer share", id="0.135 < 0.14"),
        pytest.param(counts(FFMA=55, IADD3=14, ISETP=15, BRA=16), "integer share", id="0.1375 < 0.145"),
        pytest.param(counts(FFMA=60, IADD3=14, ISETP=15, BRA=11), "FMA share", id="0.15 > 0.145"),
        pytest.param(counts(MUFU_EX2=5, IADD3=22, BRA=73), "integer share", id="0.10 < 0.11"),
        pytest.param(counts(MUFU_EX2=6, IADD3=22, BRA=72), "special-function share", id="0.12 > 0.11"),
        pytest.param(counts(LDG_E=1, IADD3=15, BRA=84), "integer share", id="0.071 < 0.075"),
        pytest.param(counts(LDG_E=1, IADD3=14, BRA=85), "bytes : instruction", id="0.071 > 0.070"),
    ],
)
def test_where_one_ratio_ends_and_the_next_begins(profile, name):
    assert ratio_that_matters([profile]).name == name


def test_the_reason_names_the_shares():
    assert ratio_that_matters([GEMM]).why == "because 88% of the hot region are fma and 5% load shared memory"
    assert ratio_that_matters([TENSOR]).why == "because 40% of the hot region are mma and 20% load shared memory"
    profile = counts(ATOMS_ADD=2, IADD3=8)
    assert ratio_that_matters([profile]).why == "because 20% of the hot region are atomics"


def test_shares_are_shares_and_ratios_are_not():
    shares = {"mma share", "atomic share", "integer share", "special-function share", "FMA share"}
    profiles = [GEMM, TENSOR, counts(HMMA=1), counts(ATOMS=1), counts(IADD3=1), counts(MUFU=1), counts(FFMA=1)]
    for found in map(ratio_that_matters, [[one] for one in [*profiles, counts(LDG=1)]]):
        assert found.share == (found.name in shares)


def test_a_variant_without_instructions_neither_chooses_nor_has_a_value():
    nothing = Counts(0, {}, {}, 0, 0)
    for profile in (TENSOR, counts(HMMA=1), counts(LDG=1), counts(FFMA=1)):
        found = ratio_that_matters([nothing, profile])
        assert found.name == ratio_that_matters([profile]).name
        assert found.of(nothing) is None


def test_bytes_are_of_loads_and_stores_alike():
    assert global_bytes(counts(LDG_E_128=1, STG_E_64=2, LDS_128=5)) == 32


def test_no_instructions_no_ratio():
    assert ratio_that_matters([]) is None
    assert ratio_that_matters([Counts(0, {}, {}, 0, 0)]) is None


def test_kernels_of_which_some_read_shared_memory_by_wgmma_share_a_ratio():
    wgmma = counts(HGMMA_64x256x16_F32=4, IADD3=12)
    ratio = ratio_that_matters([TENSOR, wgmma])
    assert ratio.name == "multiply-adds : instruction"
    assert ratio.of(wgmma) == 4 * 64 * 256 * 16 / 4 / 32 / 16
