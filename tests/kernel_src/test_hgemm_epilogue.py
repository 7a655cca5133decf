"""Bias and GELU in the FP16/BF16 GEMM ladder, emulated."""

from __future__ import annotations

import pytest
from compiling import compile_text
from hgemm_cases import template

from lab.operators.builtin import operator
from lab.stages.emulate import EmulationTask, emulate
from lab.templates.instance import Instance

GIVEN = {
    "v6_persistent": {"block_m": 64, "stages": 2, "blocks": 3},
    "v7_cluster": {"block_m": 64, "stages": 2, "blocks": 2},
    "v8_epilogue": {"block_m": 64, "stages": 2, "blocks": 2},
    "v9_pingpong": {"block_m": 64, "block_n": 64, "stages": 2, "blocks": 2},
}
CASES = [  # rung, epilogue, types of A and C, beta
    ("v6_persistent", "bias_gelu", "float16", "float16", 0.0),  # 16 bytes of C at once
    ("v6_persistent", "bias_gelu_tanh", "bfloat16", "float32", 0.5),
    ("v7_cluster", "bias", "bfloat16", "bfloat16", 0.0),
    ("v8_epilogue", "bias_gelu", "bfloat16", "bfloat16", -1.0),
    ("v8_epilogue", "bias_gelu_tanh", "float16", "float32", 0.0),
    ("v9_pingpong", "bias_gelu_tanh", "bfloat16", "bfloat16", 0.0),
]


def executed(name, problem, old="", new=""):
    instance = Instance.of(template(name), GIVEN[name], problem)
    assert old in instance.source
    ptx = compile_text(instance.source.replace(old, new) if old else instance.source, arch="compute_90a")
    done = emulate(EmulationTask(instance.launches, "gemm", problem, 0, {}), ptx)
    assert (done.unsupported, done.findings) == ("", ())
    return done.verification


def product(m, n, k, layout, **other):
    fields = {"m": m, "n": n, "k": k, "layout": layout, "alpha": 0.1, **other}
    return operator("gemm").problem({**fields, "lda": 136, "ldb": 136, "ldc": 136})


@pytest.mark.usefixtures("conditions")
@pytest.mark.parametrize(("name", "epilogue", "dtype", "out", "beta"), CASES)
def test_every_rung_with_an_epilogue_is_right(name, epilogue, dtype, out, beta):
    words = {"dtype": dtype, "out_dtype": out, "epilogue": epilogue, "beta": beta}
    for m, n, k in ((65, 127, 67), (128, 129, 8), (1, 1, 1)):
        found = executed(name, product(m, n, k, "tn", **words))
        assert found.passed, (m, n, k, found)


def test_a_bias_along_the_other_dimension_is_found():
    problem = product(64, 64, 8, "nt", dtype="float16", epilogue="bias")
    assert executed("v6_persistent", problem).passed
    assert not executed("v6_persistent", problem, "bias + min(i, m - 1))", "bias + 0)").passed


@pytest.mark.parametrize("name", ["v5_specialised", "v0_fragments"])
def test_a_rung_that_has_no_epilogue_is_not_asked_for_one(name):
    problem = product(64, 64, 8, "nn", dtype="float16", epilogue="bias")
    assert Instance.of(template(name), {}, problem).unsupported() == ("epilogue", ["no value"])
    assert Instance.of(template("v8_epilogue"), {}, problem).unsupported() is None


@pytest.mark.parametrize("epilogue", ["bias_gelu", "bias_gelu_tanh"])
def test_a_gelu_has_no_branch(epilogue):
    """The compiler computes elements side by side only if none of them branches: a full division calls a function."""
    problem = product(64, 64, 8, "tn", dtype="bfloat16", epilogue=epilogue)
    ptx = {
        words.epilogue: compile_text(
            Instance.of(template("v8_epilogue"), GIVEN["v8_epilogue"], words).source, arch="compute_90a"
        )
        for words in (problem, product(64, 64, 8, "tn", dtype="bfloat16", epilogue="bias"))
    }
    branches = {name: text.count("bra") for name, text in ptx.items()}
    assert branches[epilogue] <= branches["bias"]
    assert not any(word in ptx[epilogue] for word in ("div.rn", "div.full", "rcp.rn"))
