"""Faults planted where elements of 32 and 8 bits differ from those of 16: executed on the CPU, each is found."""

from __future__ import annotations

import pytest
from hgemm_cases import executed_with

from lab.base.expressions import Scalar
from lab.operators.builtin import operator
from lab.store.model import EmulationRecord

Case = tuple[str, dict[str, Scalar], dict[str, Scalar]]
SMALL: dict[str, Scalar] = {"block_m": 64, "stages": 2}
CASES: dict[str, Case] = {  # template, parameters, problem
    "tf32": (
        "v6_persistent", {**SMALL, "block_k": 32, "blocks": 1},
        {"m": 64, "n": 256, "k": 68, "dtype": "float32", "precision": "tf32"},
    ),
    "fp8": (
        "v6_persistent", {**SMALL, "block_k": 128, "blocks": 1},
        {"m": 64, "n": 256, "k": 272, "dtype": "float8_e4m3fn", "precision": "fast_accumulation"},
    ),
    "promoted": (
        "v6_persistent", {**SMALL, "block_k": 128, "promote": 1, "blocks": 1},
        {"m": 64, "n": 256, "k": 272, "dtype": "float8_e4m3fn"},
    ),
    "int8": (
        "v8_epilogue", {**SMALL, "block_k": 128, "blocks": 2},
        {"m": 64, "n": 256, "k": 272, "dtype": "int8", "alpha": 3},
    ),
    "turned": (
        "v8_epilogue", {**SMALL, "block_k": 128, "blocks": 2},
        {"m": 70, "n": 256, "k": 99, "dtype": "int8", "layout": "nt", "ldc": 72},
    ),
}  # fmt: skip
WRONG = "wrong result"
FAULTS = [  # case, what is wrong, text in its place, kind of the finding
    ("tf32", "steps within a line of 16-bit elements", "from_b / 4", "from_b / 8", WRONG),
    ("tf32", "bytes of 16-bit elements expected", "copied = 24576", "copied = 12288", "mbarrier-deadlock"),
    ("fp8", "no scales", "if (steps > 0) alpha *= *scale_a * *scale_b;", "", WRONG),
    ("fp8", "the scale of A twice", "*scale_a * *scale_b", "*scale_a * *scale_a", WRONG),
    ("fp8", "the other format", "e4m3.e4m3", "e5m2.e5m2", WRONG),
    ("promoted", "sums not started anew", "p > 0 || added > 0", "1", WRONG),
    ("promoted", "sums forgotten", "total[part][s / 4][s % 4] +=", "total[part][s / 4][s % 4] =", WRONG),
    ("promoted", "sums taken before they are there", '"n"(pending)', '"n"(1)', "async-not-waited"),
    ("promoted", "only the last sums stored", "result.store(total", "result.store(of", WRONG),
    ("int8", "without signs", "s32.s8.s8", "s32.u8.u8", WRONG),
    ("int8", "not swizzled", "(piece ^ line % 8)", "piece", WRONG),
    ("turned", "read before it is written", "__syncthreads();\n    const int p", "const int p", "shared-race"),
    ("turned", "bytes changed places", "0x7362", "0x7632", WRONG),
    ("turned", "read beyond k", "if (p + s >= k) continue;", "", "out-of-bounds"),
    ("turned", "words that are not aligned", "leading % 4 == 0", "true", "misaligned"),
]


def executed(case: str, old: str = "", new: str = "") -> EmulationRecord:
    """Execute a case, in whose source `new` stands for `old`."""
    name, given, values = CASES[case]
    return executed_with(name, given, operator("gemm").problem({"layout": "tn", **values}), old, new)


@pytest.mark.parametrize("case", CASES)
def test_the_original_is_clean(case):
    done = executed(case)
    assert done.findings == ()
    assert done.verification.passed


@pytest.mark.parametrize(("case", "old", "new", "kind"), [pytest.param(a, *b, id=f"{a} {w}") for a, w, *b in FAULTS])
def test_a_planted_fault_is_found(case, old, new, kind):
    done = executed(case, old, new)
    if kind == WRONG:
        assert done.findings == ()
        assert not done.verification.passed
        assert "C" in done.verification.worst
    else:
        assert kind in {finding.kind for finding in done.findings}
