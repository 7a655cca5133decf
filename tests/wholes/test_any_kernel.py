"""Plain kernels without an fma loop get a true answer with no GPU: compiled, executed, ranked, tied where alike."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lab.report.analysis import analyse, load
from lab.report.facts.lead import MOST_WORDS
from lab.runs.pipeline import RunOptions, run
from lab.store.database import Store
from lab.store.figures import Basis, ranked, tied_with_best

OPERATORS = Path(__file__).parents[1] / "support" / "plain_operators.py"
HEAD = """{{#---
summary: s
operator: ./plain_operators.py:{operator}
entry: k
parameters: {{}}
grid: ["{grid}"]
block: [{block}]
arguments: {{n: int32, x: "{x}", y: "{y}"}}
---#}}
"""


def answered(folder: Path, operator: str, kernels: dict[str, tuple[str, str, int]], element: str = "float"):
    """Run kernels of one operator without a GPU.

    Args:
        folder: Where everything goes.
        operator: Class in `plain_operators`.
        kernels: Name to the body of the kernel, its grid as an expression, and its threads.
        element: C type of x and y.

    Returns:
        The analysis.
    """
    shutil.copy(OPERATORS, folder)
    kind = {"float": "float32*", "int": "int32*"}[element]
    for name, (body, grid, block) in kernels.items():
        head = HEAD.format(operator=operator, grid=grid, block=block, x=kind, y=kind)
        code = f'extern "C" __global__ void k(int n, const {element}* x, {element}* y)\n{{\n{body}\n}}\n'
        (folder / f"{name}.cu.j2").write_text(head + code)
    listed = "".join(f"  - {{template: {name}.cu.j2, name: {name}, parameters: {{}}}}\n" for name in kernels)
    file = folder / "plain.yaml"
    file.write_text(
        f"question: Which is best?\noperator: ./plain_operators.py:{operator}\nproblem: {{n: {1 << 24}}}\n"
        f"emulate: {{n: 8192}}\nkernels:\n{listed}archs: [sm_90]\n"
    )
    run(file, RunOptions(output=folder / "out", jobs=1, measure=False))
    with Store(folder / "out") as store:
        return analyse(store.run(), *load(store))


def order(analysis) -> list[str]:
    return [record.kernel for record in ranked(analysis.records, analysis.response)]


def standings(analysis) -> dict[str, object]:
    (column,) = (column for column in analysis.columns if column.name == "standing")
    return {record.kernel: column.get(record) for record in analysis.records}


INDEX = "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
BUSY = """    float v = x[i];
    unsigned h = __float_as_uint(v);
#pragma unroll 1
    for (int r = 0; r < %d; ++r) h = h * 1664525u + 1013904223u ^ (h >> 13);
    y[i] = v + (h == 12345u ? 2.0f : 1.0f);"""


def test_variants_of_the_same_work_tie_and_the_one_with_four_times_the_instructions_is_last(tmp_path):
    plain = INDEX + BUSY
    analysed = answered(
        tmp_path,
        "Increment",
        {
            "much": (plain % 1600, "n // 256", 256),
            "little": (plain % 400, "n // 256", 256),
            "same": (plain % 400, "n // 256", 256),
        },
    )
    assert all(record.status.sound for record in analysed.records)
    assert analysed.response.basis is Basis.SCORE
    assert order(analysed)[-1] == "much"
    value = {record.kernel: analysed.response.of(record) for record in analysed.records}
    assert value["little"] == value["same"] == pytest.approx(4 * value["much"], rel=0.1)
    assert standings(analysed) == {"much": None, "little": "tied", "same": "tied"}
    assert "predicted" in " ".join(analysed.answer.lead)
    assert len(" ".join(analysed.answer.lead).split()) <= MOST_WORDS
    assert "ratio that matters is integer share" in analysed.answer.text
    (shown,) = (column for column in analysed.columns if column.name == "ratio_that_matters")
    assert all((shown.get(record) or 0) > 0.3 for record in analysed.records)
    assert all(record.ptx.hot_name != "body" for record in analysed.records)


def test_where_all_tie_nobody_is_best(tmp_path):
    add = INDEX + "    y[i] = x[i] + 1.0f;"
    analysed = answered(tmp_path, "Increment", {f"b{b}": (add, f"n // {b}", b) for b in (256, 512)})
    assert len(tied_with_best(analysed.records, analysed.response)) == 2
    assert set(standings(analysed).values()) == {"tied"}
    assert "cannot be told apart without a GPU" in " ".join(analysed.answer.lead)
    assert "100.0" not in analysed.answer.headline
    assert all(record.sass.hot_name == "body" for record in analysed.records)
    assert {column.title for column in analysed.columns} >= {"SASS bytes : instruction"}


def test_uncoalesced_accesses_are_last(tmp_path):
    strided = INDEX + "    int j = (i % 256) * (n / 256) + i / 256;\n    y[j] = x[j] + 1.0f;"
    analysed = answered(
        tmp_path,
        "Increment",
        {
            "strided": (strided, "n // 256", 256),
            "coalesced": (INDEX + "    y[i] = x[i] + 1.0f;", "n // 256", 256),
            "over_the_grid": (
                INDEX + "    for (; i < n; i += gridDim.x * blockDim.x) y[i] = x[i] + 1.0f;",
                "min(1056, n // 256)",
                256,
            ),
        },
    )
    assert order(analysed) == ["over_the_grid", "coalesced", "strided"]  # a loop over the grid starts fewer blocks
    assert standings(analysed) == {"strided": None, "coalesced": None, "over_the_grid": "best"}
    assert "bytes moved per byte used" in " ".join(analysed.answer.lead)


def test_a_stencil_that_divides_is_behind_one_that_does_not(tmp_path):
    slow = INDEX + "    float s = 0;\n    for (int d = -2; d <= 2; ++d) s += x[(i + d + n) % n];\n    y[i] = s;"
    fast = (
        INDEX
        + "    float s = 0;\n#pragma unroll\n    for (int d = -2; d <= 2; ++d)"
        + " { int j = i + d; j += j < 0 ? n : j >= n ? -n : 0; s += x[j]; }\n    y[i] = s;"
    )
    analysed = answered(tmp_path, "Stencil", {"divides": (slow, "n // 256", 256), "selects": (fast, "n // 256", 256)})
    assert all(record.status.sound for record in analysed.records)
    assert order(analysed) == ["selects", "divides"]
    executed = {record.kernel: record.emulation.executed.warps for record in analysed.records}
    assert executed["divides"] < executed["selects"]  # in PTX, where a remainder is one instruction


def test_atomics_in_global_memory_are_behind_those_in_shared_memory(tmp_path):
    local = """    __shared__ int bins[64];
    if (threadIdx.x < 64) bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 4096 + threadIdx.x; i < (blockIdx.x + 1) * 4096; i += 256) atomicAdd(&bins[x[i]], 1);
    __syncthreads();
    if (threadIdx.x < 64) atomicAdd(&y[threadIdx.x], bins[threadIdx.x]);"""
    twice = """    for (int i = blockIdx.x * 4096 + threadIdx.x; i < (blockIdx.x + 1) * 4096; i += 256)
    { atomicAdd(&y[x[i]], 2); atomicSub(&y[x[i]], 1); }"""
    analysed = answered(
        tmp_path, "Histogram", {"twice": (twice, "n // 4096", 256), "shared": (local, "n // 4096", 256)}, "int"
    )
    assert all(record.status.sound for record in analysed.records)
    assert order(analysed) == ["shared", "twice"]
    assert "ratio that matters is atomic share" in analysed.answer.text
