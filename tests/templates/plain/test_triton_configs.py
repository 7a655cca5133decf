from __future__ import annotations

import ast

import pytest

from lab.templates.plain.triton_configs import Evaluation, UnknownValueError, decorations

HEAD = """import torch, itertools
SIZES = [32, 64]
NARROW: tl.constexpr = tl.constexpr(16)

def is_cuda():
    return triton.runtime.driver.active.get_current_target().backend == "cuda"

def several(most=8):
    made = []
    props = torch.cuda.get_device_properties(0)
    warps = 2
    while warps <= most:
        made.append(triton.Config({"BLOCK": 64}, num_warps=warps, pre_hook=clear("c")))
        warps *= 2
    return made

def by_device():
    return [triton.Config({"BLOCK": torch.cuda.device_count()})]

def wide(conf):
    return conf.kwargs["BLOCK"] * conf.num_warps > 128
"""


def said(decorators):
    tree = ast.parse(f"{HEAD}\n{decorators}\n@triton.jit\ndef f(x, n, BLOCK: tl.constexpr):\n    pass\n")
    function = tree.body[-1]
    assert isinstance(function, ast.FunctionDef)
    return decorations(tree, function), Evaluation(tree)


@pytest.mark.parametrize(
    ("configs", "values"),
    [
        ("[triton.Config({'BLOCK': 64}, num_warps=8), triton.Config(kwargs={'BLOCK': 32}, num_stages=2)]",
         [{"BLOCK": 64, "num_warps": 8}, {"BLOCK": 32, "num_stages": 2}]),
        ("[triton.Config({'BLOCK': b}) for b in SIZES if b > 32]", [{"BLOCK": 64}]),
        ("[triton.Config({'BLOCK': b * 2}, num_warps=w) for b, w in itertools.product(SIZES, (4, 8))]",
         [{"BLOCK": 64}, {"BLOCK": 64, "num_warps": 8}, {"BLOCK": 128}, {"BLOCK": 128, "num_warps": 8}]),
        ("several(most=4)", [{"BLOCK": 64, "num_warps": 2}, {"BLOCK": 64}]),
        ("list(filter(wide, several()))", [{"BLOCK": 64}, {"BLOCK": 64, "num_warps": 8}]),
        ("[triton.Config({'BLOCK': 2 ** 5}) for s in ([1] if torch.version.hip else [2, 3])]", [{"BLOCK": 32}] * 2),
        ("[triton.Config({'BLOCK': 1 << 4})] if is_cuda() else []", [{"BLOCK": 16}]),
        ("[triton.Config({'BLOCK': NARROW})]", [{"BLOCK": 16}]),
        ("by_device()", []),
        ("[triton.Config({'BLOCK': n}) for n in range(10 ** 9)]", []),
        ("[triton.Config({'BLOCK': 2 ** 1000})]", []),
    ],
)  # fmt: skip
def test_configs_of_a_decorator(configs, values):
    for decorator in (f"@triton.autotune(configs={configs}, key=['n'])", f"@triton.autotune({configs}, key=[])"):
        found, _ = said(decorator)
        assert [config.values for config in found.configs] == values
        assert found.configs_line == HEAD.count("\n") + 2


def test_what_computes_a_constexpr():
    computed = "{'EVEN': lambda args: args['n'] % args['BLOCK'] == 0, 'BIAS': lambda args: args['x'] is not None}"
    found, evaluation = said(f"@triton.heuristics({computed})")
    given = {"n": 96, "BLOCK": 32, "x": None}
    assert {name: evaluation.called(one, given) for name, one in found.heuristics.items()} == {
        "EVEN": True,
        "BIAS": False,
    }
    with pytest.raises(UnknownValueError):
        evaluation.called(ast.parse("unknown", mode="eval").body, given)


@pytest.mark.parametrize("text", ["open('x')", "__import__('os')", "(1).__class__", "[0] * 10 ** 9", "f()", "n"])
def test_nothing_else_is_evaluated(text):
    evaluation = Evaluation(ast.parse("def f():\n    while True:\n        pass\n"))
    with pytest.raises(UnknownValueError):
        evaluation.value(ast.parse(text, mode="eval").body)
