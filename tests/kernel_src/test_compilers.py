"""Every template compiles with each compiler of the extra `compilers`, with the newest NVRTC and with nvcc."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lab.base.errors import UserError
from lab.experiment.load import load
from lab.experiment.space import expand
from lab.experiment.variants import plan
from lab.operators.gemm import GemmProblem
from lab.templates import front_matter as kernels
from lab.templates.instance import Instance
from lab.toolchain.base import CompileRequest, Toolchain
from lab.toolchain.nvcc import find_nvcc
from lab.toolchain.nvrtc.compiler import Nvrtc, find_nvrtc

ROOTS = kernels.search_path()
NAMES = sorted(kernels.available(ROOTS))
EXPERIMENTS = Path(__file__).parents[2] / "experiments"
GEMM = {"m": 256, "n": 256, "k": 256, "alpha": 1.0, "beta": 0.0}
TUNED = {
    "gemm/tensile.cu.j2": {**GEMM, "dtype": "float32", "layout": "nn"},
    "hgemm/packed.cu.j2": {**GEMM, "dtype": "float16", "layout": "nn"},
    "hgemm/split.cu.j2": {**GEMM, "dtype": "float16", "layout": "tn"},
}
"""Templates that only tuning files name, with a problem of each."""

WITH_CUDA_12 = {"contraction/gathered.cu.j2"}
"""Templates with instructions that ptxas of CUDA 11.8 does not know (elect.sync), beside those for sm_90a."""

SLOW = {"gemm/cutlass.cu.j2", "hgemm/cutlass.cu.j2"}  # 20 to 35 s each
OLDEST = "nvrtc 11.8"
COMPILERS = {
    OLDEST: lambda: find_nvrtc("11.8"),
    "nvrtc 12.9": lambda: find_nvrtc("12.9"),
    "nvrtc": find_nvrtc,
    "nvcc": find_nvcc,
}


@functools.cache
def requests() -> dict[str, CompileRequest]:
    """Return a request for each template: of a variant in the first experiment that names it."""
    found: dict[str, CompileRequest] = {}
    tool = find_nvrtc()
    assert tool is not None
    for file in sorted(EXPERIMENTS.glob("*.yaml")):
        try:
            experiment = load(file)
        except UserError:  # a tuning file
            continue
        news = {kernel.template.name for kernel in experiment.kernels} & set(NAMES) - found.keys()
        if not news:
            continue
        points = {point.kernel.template.name: point for point in expand(experiment, max_variants=10_000).points}
        for planned in plan(experiment, [points[name] for name in sorted(news & points.keys())], [tool], ["sm_90"]):
            found[planned.point.kernel.template.name] = for_its_target(planned.request)
    for name, problem in TUNED.items():
        template = kernels.load(name, ROOTS)
        instance = Instance(template, template.completed({}), GemmProblem.model_validate(problem).model_dump())
        found[name] = for_its_target(CompileRequest(instance.source, "kernel.cu", "sm_90"))
    return found


def for_its_target(request: CompileRequest) -> CompileRequest:
    """Return the request for sm_90a where the source has instructions of that target alone."""
    return replace(request, arch="sm_90a") if re.search("wgmma|setmaxnreg", request.source) else request


def combinations() -> Iterator[object]:
    for name in NAMES:
        for compiler in COMPILERS:
            gated = compiler == OLDEST and name not in SLOW  # newer ones compile the templates in many other tests
            yield pytest.param(name, compiler, marks=() if gated else pytest.mark.thorough, id=f"{name}, {compiler}")


@pytest.mark.parametrize(("name", "compiler"), list(combinations()))
def test_a_template_compiles(name: str, compiler: str) -> None:
    tool: Toolchain | None = COMPILERS[compiler]()
    if tool is None:
        pytest.skip(f"{compiler} is not installed: python -m pip install -e '.[compilers]'")
    request = requests()[name]
    if not tool.supports(request.arch):
        pytest.skip(f"{compiler} does not target {request.arch}")
    if compiler == OLDEST and name in WITH_CUDA_12:
        pytest.skip("it has instructions of CUDA 12")
    if "#include" in request.source and isinstance(tool, Nvrtc) and tool.header_folder is None:
        pytest.skip(f"there are no CUDA headers of {compiler}")
    assert ".entry" in tool.compile(request).ptx


def test_every_template_has_a_request() -> None:
    assert sorted(requests()) == NAMES
