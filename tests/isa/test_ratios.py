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
        pytest.param(counts(HMMA_16816_F32=8, IADD3=8), "mma share", 0.5, id="tensor cores without shared memory"),
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


def test_bytes_are_of_loads_and_stores_alike():
    assert global_bytes(counts(LDG_E_128=1, STG_E_64=2, LDS_128=5)) == 32


def test_no_instructions_no_ratio():
    assert ratio_that_matters([]) is None
    assert ratio_that_matters([Counts(0, {}, {}, 0, 0)]) is None
