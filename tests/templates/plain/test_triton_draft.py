"""Drafts of Triton functions in the manner of public collections; `golden/` holds what must come of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.experiment.load import from_text
from lab.templates.plain.triton import read_functions
from lab.templates.plain.triton_draft import draft_triton

GOLDEN = Path(__file__).with_name("golden") / "triton"


def drafted(name):
    text = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    functions = read_functions(text, f"{name}.py")
    called = {word for function in functions for word in function.called}
    (function,) = [function for function in functions if function.name not in called]
    return text, draft_triton(text, f"{name}.py", function)


@pytest.mark.parametrize("name", ["gelu", "matmul", "norm", "tuples", "alone"])
def test_a_draft(name, tmp_path):
    text, draft = drafted(name)
    assert draft == (GOLDEN / f"{name}.yaml").read_text(encoding="utf-8")
    (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    assert from_text(draft, tmp_path / f"{name}.yaml").kernels[0].toolchain == "triton"


def test_an_array_that_is_accessed_as_another_one_has_its_shape():
    text = """import torch, triton
import triton.language as tl

@triton.jit
def swiglu(gate, up, out, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    mask = at < n
    g = tl.load(gate + row * n + at, mask=mask)
    tl.store(out + row * n + at, g * tl.load(up + row * n + at, mask=mask), mask=mask)

def forward(gate, up):
    rows, n = gate.shape
    out = torch.empty_like(gate)
    swiglu[(rows,)](gate, up, out, n, BLOCK=triton.next_power_of_2(n))
"""
    (function,) = read_functions(text, "k.py")
    assert '  up: "float32[rows, n]"\n' in draft_triton(text, "k.py", function)
