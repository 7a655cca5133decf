"""Faults planted where 32-bit and 8-bit elements differ from 16-bit ones: each one is found by emulation."""

from __future__ import annotations

import pytest
from hgemm_cases import executed_with

from lab.base.expressions import Scalar
from lab.operators.builtin import operator
from lab.recorded.run_records import EmulationRecord

Case = tuple[str, dict[str, Scalar], dict[str, Scalar]]
SMALL: dict[str, Scalar] = {"block_m": 64, "stages": 2}
WARP: dict[str, Scalar] = {"block_m": 32, "block_n": 32, "warp_m": 32, "warp_n": 16}
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
    "fragments": ("v0_fragments", {"warp_m": 8, "warp_n": 16}, {"m": 15, "n": 17, "k": 31, "dtype": "int8"}),
    "words": (
        "v1_ldmatrix", {**WARP, "block_k": 64}, {"m": 30, "n": 33, "k": 67, "lda": 70, "ldb": 80, "dtype": "int8"},
    ),
    "warp tf32": (
        "v2_stages", {**WARP, "block_k": 16, "stages": 2},
        {"m": 40, "n": 36, "k": 52, "dtype": "float32", "precision": "tf32", "layout": "nn"},
    ),
    "warp int8": (
        "v2_stages", {**WARP, "block_k": 64, "stages": 2},
        {"m": 48, "n": 32, "k": 208, "dtype": "int8", "layout": "nn"},
    ),
    "warp int8, B": (
        "v1_ldmatrix", {**WARP, "block_k": 32}, {"m": 30, "n": 36, "k": 64, "dtype": "int8", "layout": "tt"},
    ),
}  # fmt: skip
WRONG = "wrong result"
FAULTS = [  # case, what is wrong, text in its place, kind of the finding
    ("tf32", "steps within a line of 16-bit elements", "from_b / 4", "from_b / 8", WRONG),
    ("tf32", "bytes of 16-bit elements expected", "copied = 24576", "copied = 12288", "mbarrier-deadlock"),
    ("fp8", "no scales", "if (steps > 0) alpha *= *scale_a * *scale_b;", "", WRONG),
    ("fp8", "the other format", "e4m3.e4m3", "e5m2.e5m2", WRONG),
    ("promoted", "sums not started anew", "p > 0 || added > 0", "1", WRONG),
    ("promoted", "sums forgotten", "total[part][s / 4][s % 4] +=", "total[part][s / 4][s % 4] =", WRONG),
    ("promoted", "sums taken before they are there", '"n"(pending)', '"n"(1)', "async-not-waited"),
    ("int8", "without signs", "s32.s8.s8", "s32.u8.u8", WRONG),
    ("int8", "not swizzled", "(piece ^ line % 8)", "piece", WRONG),
    ("turned", "read before it is written", "__syncthreads();\n    const int p", "const int p", "shared-race"),
    ("turned", "bytes changed places", "0x7362", "0x7632", WRONG),
    ("turned", "read beyond k", "if (p + s >= k) continue;", "", "out-of-bounds"),
    ("turned", "words that are not aligned", "leading % 4 == 0", "true", "misaligned"),
    ("fragments", "bytes of a word mixed up", "<< 8 * q", "<< 16 * q", WRONG),
    ("fragments", "read beyond k", "p + q < k", "true", "out-of-bounds"),
    ("words", "pieces that are not aligned", "count == 16 && leading % 16 == 0", "count == 16", "misaligned"),
    ("words", "steps of 16-bit elements along k", "p + upper * 2", "p + upper", WRONG),
    ("warp tf32", "an element for its piece", "piece[row % 4]", "piece[0]", WRONG),
    ("warp tf32", "rows for halves of k", "<A, 2, 1>", "<A, 1, 2>", WRONG),
    ("warp int8", "the other neighbour", "0x7531", "0x6420", WRONG),
    ("warp int8", "lines in another order", "l % 8 / 2 * 4 + l / 8 % 2 * 2 + l % 2", "l % 16", WRONG),
    ("warp int8, B", "columns as of 16 bits", "row * 2 + s", "row + s * 8", WRONG),
    ("warp int8", "rows as of 16 bits", "r / 2 * 16 + place * 4 + r % 2 * 2", "r * 8 + place * 2", WRONG),
]
ALIKE = [  # others of those kinds, and those that a rung of 16 bits has
    ("fp8", "the scale of A twice", "*scale_a * *scale_b", "*scale_a * *scale_a", WRONG),
    ("promoted", "only the last sums stored", "result.store(total", "result.store(of", WRONG),
    ("words", "bytes of a word mixed up", "<< s % 4 * 8", "<< s % 2 * 8", WRONG),
    ("warp tf32", "lines in another order", "l % 2 * 4 + l % 8 / 2", "l % 8", WRONG),
    ("warp tf32", "no wait", "cp.async.wait_group 0;", "cp.async.wait_group 1;", "async-not-waited"),
    ("warp tf32", "no barrier", "__syncthreads();  // the tiles", "// the tiles", "shared-race"),
    ("warp int8", "without signs", "s32.s8.s8.s32", "s32.u8.u8.s32", WRONG),
    ("warp int8", "half the bytes", "count * 1)", "count / 2)", WRONG),
]


def executed(case: str, old: str = "", new: str = "") -> EmulationRecord:
    """Execute a case, in whose source `new` stands for `old`."""
    name, given, values = CASES[case]
    return executed_with(name, given, operator("gemm").problem({"layout": "tn", **values}), old, new)


@pytest.mark.parametrize("case", CASES)
def test_the_original_is_clean(case):
    emulation = executed(case)
    assert emulation.findings == ()
    assert emulation.verification.passed


def planted():
    for faults, marks in ((FAULTS, []), (ALIKE, [pytest.mark.thorough])):
        for case, what, *fault in faults:
            yield pytest.param(case, *fault, id=f"{case} {what}", marks=marks)


@pytest.mark.parametrize(("case", "old", "new", "kind"), list(planted()))
def test_a_planted_fault_is_found(case, old, new, kind):
    emulation = executed(case, old, new)
    if kind == WRONG:
        assert emulation.findings == ()
        assert not emulation.verification.passed
        assert "C" in emulation.verification.worst
    else:
        assert kind in {finding.kind for finding in emulation.findings}
