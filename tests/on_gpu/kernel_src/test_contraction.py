"""Contractions on the GPU: random indices and sizes through the templates, and PyTorch's einsum beside it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from contraction_cases import TILES, parameters, problems
from gpu_support import CHECK, QUICK
from hypothesis import given, settings

from lab.gpu.process.job import Job
from lab.gpu.timing.cache import Flush
from lab.operators.builtin import operator
from lab.templates import front_matter as kernels
from lab.templates.instance import Instance
from lab.toolchain.base import CompileRequest
from lab.toolchain.cache import Cache, default_folder
from lab.toolchain.select import build, toolchain

pytestmark = pytest.mark.gpu

CONTRACTION = operator("contraction")
TILED = kernels.load("contraction/tiled.cu.j2", kernels.search_path())
GATHERED = kernels.load("contraction/gathered.cu.j2", kernels.search_path())
LARGE = {
    "batched NT": {"einsum": "ilk,jlk->ijk", "i": 516, "j": 260, "k": 5, "l": 132},
    "odd sizes": {"einsum": "ilk,jlk->ijk", "i": 517, "j": 263, "k": 5, "l": 131},
    "batch innermost": {"einsum": "kil,klj->kij", "i": 300, "j": 200, "k": 7, "l": 99},
    "convolution": {"einsum": "onijml,onjmkl->ijkl", "i": 60, "j": 9, "k": 33, "l": 2, "m": 17, "n": 3, "o": 3},
    "windows": {"einsum": "onijml,onmk->ijkl", "i": 60, "j": 40, "k": 33, "l": 2, "m": 17, "n": 3, "o": 3,
                "strides_A": "1,62,1,62,2604,44268"},
    "coupled cluster": {"einsum": "aebf,fdec->abcd", "a": 16, "b": 24, "c": 12, "d": 20, "e": 9, "f": 28},
    "long sum": {"einsum": "il,jl->ij", "i": 33, "j": 65, "l": 300_001},
}  # fmt: skip


def job(fields, given_parameters, arch, template=TILED):
    problem, chosen = CONTRACTION.problem(fields), template.completed(given_parameters)
    instance = Instance(template, chosen, problem)
    assert instance.unmet() is None
    built = build(toolchain("nvrtc"), CompileRequest(instance.source, "kernel.cu", arch), Cache(default_folder()))
    return Job(template.name, built.build.cubin, instance.launches, "contraction", problem)


@given(problems(operations=2_000_000), parameters())
@settings(max_examples=150)
def test_any_contraction_is_right(session, fields, given_parameters):
    assert session.run(job(fields, given_parameters, session.start().arch), CHECK).failure is None


@pytest.mark.parametrize("summation", ["flat", "loops"])
@pytest.mark.parametrize("free", ["tile", "grid"])
@pytest.mark.parametrize("name", LARGE)
def test_larger_contractions_are_right(session, name, free, summation):
    failures = []
    for i, tile in enumerate([{}, *TILES]):
        given_parameters = {**tile, "free": free, "summation": summation, "split": (1, 16)[i % 2]}
        made = job({**LARGE[name], "beta": 0.5 * (i % 2)}, given_parameters, session.start().arch)
        if failure := session.run(made, CHECK).failure:
            failures.append(f"{tile}: {failure.stage}: {failure.reason}")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("way", [{}, {"workers": 132}, {"split": 5}])
@pytest.mark.parametrize("name", LARGE)
def test_larger_contractions_are_right_when_gathered(session, name, way):
    failures = []
    for i, tile in enumerate([{}, {"block_m": 128, "min_blocks": 2}]):
        given_parameters = {**tile, **way, "read": "gathered"}
        made = job({**LARGE[name], "beta": 0.5 * (i % 2)}, given_parameters, session.start().arch, GATHERED)
        if failure := session.run(made, CHECK).failure:
            failures.append(f"{tile}: {failure.stage}: {failure.reason}")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("einsum", ["ilk,jlk->ijk", "lik,ljk->ijk", "ilk,jlk->jki", "ilk,jlk->kij"])
def test_matrices_of_a_batch_are_read_where_they_lie(session, einsum):
    fields = {"einsum": einsum, "i": 516, "j": 260, "k": 5, "l": 128, "alpha": -1.5, "beta": 2.0}
    assert session.run(job(fields, {}, session.start().arch, GATHERED), CHECK).failure is None


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64", "complex128"])
@pytest.mark.parametrize("name", ["batched NT", "odd sizes", "convolution", "long sum"])
def test_other_types_are_right_and_torch_beside_them(session, name, dtype):
    pytest.importorskip("torch")
    fields = {**LARGE[name], "dtype": dtype, "alpha": -1.5, "beta": 0.5}
    if dtype.startswith("complex"):
        fields |= {"alpha_imag": 0.25, "beta_imag": -2.0}
    for split in (1, 16):
        made = job(fields, {**TILES[0], "split": split}, session.start().arch)
        result = session.run(made, replace(QUICK, baseline="torch"))
        assert result.failure is None
        # PyTorch rounds 16-bit products before it scales and adds them
        assert dtype in ("float16", "bfloat16") or result.baseline.verification.passed, result.baseline.note


@pytest.mark.parametrize("factors", [{}, {"alpha": -1.5}, {"alpha": 2.0, "beta": 0.5}, {"alpha": 0.0, "beta": 2.0}])
@pytest.mark.parametrize("name", LARGE)
def test_torchs_einsum_is_right_and_timed(session, name, factors):
    pytest.importorskip("torch")
    made = job({**LARGE[name], **factors}, {}, session.start().arch)
    result = session.run(made, replace(QUICK, baseline="torch", flush=Flush.ON))
    assert result.failure is None
    assert result.baseline.verification.passed, result.baseline.note
    assert result.measurement.ratio_to_baseline > 0
