"""A kernel that cannot be used costs its own row: the others are complete, and the command ends with exit code 1."""

from __future__ import annotations

import pytest
from run_support import InProcess, without_a_gpu

from lab.recorded.run_records import Status
from lab.runs.pipeline import RunOptions, run

HEAD = """{#---
summary: s
operator: gemm
entry: k
parameters: {}
grid: [1]
block: [32]
arguments: {m: int32, C: T*}
---#}
"""
GOOD = 'extern "C" __global__ void k(int m, float* C) { C[threadIdx.x] = m; }\n'
BAD = {
    "mangled": GOOD.replace('extern "C" ', ""),
    "misspelt": GOOD.replace("void k(", "void kk("),
    "left_out": f"#if 0\n{GOOD}#endif\n",
    "nul": f"{GOOD}// {{{{ '\\0' }}}}\n",
    "surrogate": f"{GOOD}// {{{{ '\\ud800' }}}}\n",
}
WORDS = {
    "mangled": 'it has `_Z1kiPf`: write extern "C"',
    "misspelt": "it has `kk`",
    "left_out": "no entry point at all",
    "nul": "NUL byte",
    "surrogate": "U+D800",
}


@pytest.fixture
def experiment(tmp_path):
    lines = []
    for name, source in {"first": GOOD, **BAD, "last": GOOD}.items():
        (tmp_path / f"{name}.cu.j2").write_text(HEAD + source)
        lines.append(f"  - {{template: {name}.cu.j2}}\n")
    file = tmp_path / "bad.yaml"
    file.write_text(
        "question: What is left?\noperator: gemm\nproblem: {m: 64, n: 64, k: 64}\n"
        f"kernels:\n{''.join(lines)}archs: [sm_90]\n"
    )
    return file


def test_kernels_that_are_not_in_their_source_cost_their_own_rows(experiment, tmp_path):
    services = without_a_gpu(prepare=lambda: None, executor=InProcess)
    outcome = run(experiment, RunOptions(output=tmp_path / "out"), services=services)
    records = {record.kernel: record for record in outcome.records}
    assert list(records) == ["first", *BAD, "last"]
    assert records["first"].status is records["last"].status is Status.INSPECTED
    assert {name: record.status for name, record in records.items() if name in BAD} == dict.fromkeys(
        BAD, Status.COMPILE_FAILED
    )
    assert {name: words for name, words in WORDS.items() if words not in records[name].reason} == {}
    assert outcome.failed  # exit code 1
    assert (tmp_path / "out" / "index.html").is_file()
