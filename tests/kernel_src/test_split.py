"""Emulated FP32 GEMMs split into narrow tensor-core products: correct, as exact as SGEMM, and free of races."""

from __future__ import annotations

import math

import numpy as np
import pytest
from compiling import compile_text
from split_cases import POINTS, PRECISIONS, SETTINGS, SMALL, problems, template

from lab.operators.builtin import operator
from lab.operators.gemm import Gemm
from lab.stages.emulate import EmulationTask, emulate
from lab.templates.instance import Instance
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import toolchain

GEMM = operator("gemm")


def executed(parameters, problem, ptx="", old="", new=""):
    """Execute a setting, in whose source `new` stands for `old`."""
    instance = Instance.of(template(), parameters, problem)
    assert instance.unmet() is None
    assert old in instance.source
    ptx = ptx or compile_text(instance.source.replace(old, new) if old else instance.source, arch="compute_90a")
    emulation = emulate(EmulationTask(instance.launches, "gemm", problem, 0, {}), ptx)
    assert emulation.unsupported == ""
    return emulation, ptx


def points():
    """Every setting, layout and precision in the gate, at two or three sizes; all combinations of them are thorough."""
    layouts = ("nn", "nt", "tn", "tt")
    for s, (key, parameters) in enumerate(SETTINGS.items()):
        for i, layout in enumerate(layouts):
            for p, precision in enumerate(PRECISIONS):
                if i == s % 4 and p == s % 3:
                    most, marks = 2 if s else 3, []
                else:
                    most, marks = len(POINTS), [pytest.mark.thorough]
                yield pytest.param(parameters, layout, precision, most, id=f"{key}-{layout}-{precision}", marks=marks)


@pytest.mark.usefixtures("conditions")
@pytest.mark.parametrize(("given", "layout", "precision", "most"), list(points()))
def test_every_setting_is_right_and_clean(given, layout, precision, most):
    ptx = ""
    for problem in problems(layout, precision, most):
        emulation, ptx = executed(given, problem, ptx)
        assert emulation.fault == "", f"{problem}: {emulation.fault}"
        assert emulation.findings == ()
        assert emulation.verification.passed, f"{problem}: {emulation.verification}"


def errors_of_sgemm(problem):
    """The largest error of one fused multiply-add after the other, which float64 holds before it is rounded."""
    inputs = GEMM.inputs(problem, 0)
    a = inputs.arrays["A"].reshape(problem.k, problem.m).astype(np.float64)  # layout nn
    b = inputs.arrays["B"].reshape(problem.n, problem.k).astype(np.float64)
    sums = np.zeros((problem.n, problem.m), np.float32)
    for p in range(problem.k):
        sums = (sums + b[:, p, None] * a[p]).astype(np.float32)
    return GEMM.verify(problem, GEMM.reference(problem, inputs), {"C": sums.reshape(-1)})[0]


THOROUGH = pytest.mark.thorough


@pytest.mark.parametrize(
    ("precision", "data", "k"),
    [
        ("3xtf32", "scaled", 256),
        ("bf16x6", "normal", 256),
        *(pytest.param(one, data, 4096, marks=THOROUGH) for one in PRECISIONS for data in ("normal", "scaled")),
    ],
)
def test_errors_are_no_larger_than_those_of_sgemm(precision, data, k):
    problem = GEMM.problem({"m": 64, "n": 64, "k": k, "precision": precision, "data": data})
    emulation, _ = executed({**SMALL, "block_k": 32}, problem)
    assert emulation.verification.passed
    assert 0 < emulation.verification.max_error <= errors_of_sgemm(problem)


def test_sums_that_tensor_cores_alone_add_up_lose_more():
    problem = GEMM.problem({"m": 64, "n": 64, "k": 512, "precision": "3xtf32"})
    seldom = executed({**SMALL, "block_k": 32, "promote": 512}, problem)[0].verification
    assert seldom.max_error > errors_of_sgemm(problem)


@pytest.mark.filterwarnings("ignore:invalid value encountered in matmul")  # NumPy's own word on infinities
@pytest.mark.parametrize("precision", ["3xtf32", pytest.param("bf16x6", marks=THOROUGH)])
def test_products_with_infinities_and_the_largest_numbers_are_those_of_sgemm(precision, monkeypatch):
    """Of a split that takes no care, infinity less infinity and infinity times zero would make NaN."""
    drawn, outputs = Gemm.inputs, []

    def special(self, problem, seed):
        inputs = drawn(self, problem, seed)
        a, b = inputs.arrays["A"].reshape(5, 66), inputs.arrays["B"].reshape(70, 5)  # columns of A and B
        b[:] = 1
        a[0, 0], a[1, 1], a[2, 2] = math.inf, -math.inf, math.nan
        a[0, 3], a[1, 3] = math.inf, -math.inf
        a[:, 4], a[0, 4] = 0, np.finfo(np.float32).max
        a[:, 65] = np.float32(2.0**-120)
        return inputs

    def judged(self, problem, reference, found):
        outputs.append(found["C"].reshape(70, 66))
        return 0.0, 1.0, ""

    monkeypatch.setattr(Gemm, "inputs", special)
    monkeypatch.setattr(Gemm, "verify", judged)
    problem = GEMM.problem({"m": 66, "n": 70, "k": 5, "precision": precision})
    emulation, _ = executed(SETTINGS["pieces along both"], problem)
    assert emulation.findings == ()
    c = outputs[0]  # later ones are of other inputs
    assert (c[:, 0] == math.inf).all()
    assert (c[:, 1] == -math.inf).all()
    assert np.isnan(c[:, 2:4]).all()
    assert (c[:, 4] == np.finfo(np.float32).max).all()
    assert (c[:, 65] == np.float32(5 * 2.0**-120)).all()
    assert np.isfinite(c[:, 5:]).all()


WRONG = "wrong result"
FAULTS = (  # what is wrong, text in its place, kind of the finding
    ("nobody releases", "ring.release(read);", ";", "mbarrier-deadlock"),
    ("released while it is read", "sums.wait<1>();", "", "shared-race"),
    ("sums added too early", "sums.wait<0>();", "", "async-not-waited"),
    ("packed before all is read", "__syncthreads();\n#pragma unroll\n", "#pragma unroll\n", "shared-race"),
    ("sums never begin anew", "multiply<!first>", "multiply<1>", WRONG),
    ("second part of B left out", "multiply<1>(some, b + 256,", "if (0) multiply<1>(some, b + 256,", WRONG),
)
ALIKE = (  # others of those kinds
    ("producer does not wait", "ring.wait_empty(turn);", "", "async-not-waited"),
    ("no wait for tiles", "ring.wait_full(at);", "", "uninitialised-read"),
    ("sums not fenced", 'asm volatile("wgmma.fence.sync.aligned;" ::: "memory");', "", "wgmma-misuse"),
    ("not committed", 'asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");', "", "async-not-waited"),
    ("too many bytes expected", "[%0], 16384;", "[%0], 16400;", "mbarrier-deadlock"),
    ("mbarriers not awaited", "__syncthreads();  // the mbarriers", "// the mbarriers", "shared-race"),
    ("another swizzle", "swizzle = 2;", "swizzle = 1;", "uninitialised-read"),
    ("second part of A left out", "a + 256);", "a);", WRONG),
)


def planted():
    for faults, marks in ((FAULTS, []), (ALIKE, [pytest.mark.thorough])):
        yield from (pytest.param(*rest, id=what, marks=marks) for what, *rest in faults)


@pytest.mark.parametrize(("old", "new", "kind"), list(planted()))
def test_a_planted_fault_is_found(old, new, kind):
    problem = GEMM.problem({"m": 64, "n": 64, "k": 49, "precision": "3xtf32", "layout": "tn"})
    emulation, _ = executed({**SMALL, "stages": 2}, problem, "", old, new)
    if kind == WRONG:
        assert emulation.findings == ()
        assert "C" in emulation.verification.worst
        assert not emulation.verification.passed
    else:
        assert kind in {finding.kind for finding in emulation.findings}


@pytest.mark.parametrize("precision", ["3xtf32", pytest.param("bf16x6", marks=THOROUGH)])
def test_sums_stay_in_registers_while_wgmma_adds_to_them(precision):
    problem = GEMM.problem({"m": 64, "n": 64, "k": 64, "precision": precision})
    built = toolchain("nvrtc").compile(
        CompileRequest(Instance.of(template(), {}, problem).source, "kernel.cu", "sm_90a")
    )
    assert all(resource.spill_store_bytes == 0 for resource in built.resources.values())
    assert "serialized" not in built.log  # ptxas's word where it waits for each wgmma by itself


def test_other_precisions_are_refused():
    for precision in ({}, {"precision": "tf32"}):
        refused = template().unsupported(GEMM.problem({"m": 1, "n": 1, "k": 1, **precision}))
        assert refused == ("precision", list(PRECISIONS))
