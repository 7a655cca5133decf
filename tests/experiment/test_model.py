from __future__ import annotations

from pathlib import Path

from lab.experiment.load import from_text

TEXT = """question: Why?
operator: gemm
problem: {m: 64, n: 32, k: 16}
kernels:
  - {template: gemm/tiled.cu.j2, name: a, parameters: {unroll: [1, 2], padding: 4}}
  - {template: gemm/tiled.cu.j2, name: b, parameters: {padding: [0, 4], unroll: [1, 2]}}
"""


def test_swept_parameters_are_those_with_several_values_in_file_order():
    experiment = from_text(TEXT, Path("e.yaml"))
    assert experiment.kernels[0].swept == ("unroll",)
    assert experiment.swept == ("unroll", "padding")
