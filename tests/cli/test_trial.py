from __future__ import annotations

import pytest
from mistakes import coded

from lab.base.errors import UserError
from lab.cli.trial import Asked, experiment_of

SOURCE = """__global__ void add(float *c, const float *a, const float *b, int n) {
    int i = blockIdx.x * block_size_x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""


@pytest.fixture
def source(tmp_path):
    (tmp_path / "add.cu").write_text(SOURCE)
    return tmp_path / "add.cu"


def test_the_command_line_takes_the_place_of_guesses(source):
    requested = Asked(
        problem={"n": "5000"},
        parameters=["block_size_x=128,256"],
        arguments=["a=float32[n] uniform 0 1"],
        reference=["c=a + b"],
        geometry={"grid": "ceil_div(n, block_size_x)", "shared_bytes": "4 * block_size_x", "block": "block_size_x; 1"},
    )
    guessed = experiment_of(source, requested)
    assert guessed["source"] == str(source)
    assert (guessed["problem"], guessed["emulate"]) == ({"n": 5000}, {"n": 5000})
    assert guessed["parameters"] == {"block_size_x": [128, 256]}
    assert guessed["arguments"]["a"] == "float32[n] uniform 0 1"
    assert (guessed["reference"], guessed["shared_bytes"]) == ({"c": "a + b"}, "4 * block_size_x")
    assert (guessed["grid"], guessed["block"]) == ("ceil_div(n, block_size_x)", ["block_size_x", "1"])


def test_a_large_problem_is_executed_at_a_small_size(source):
    guessed = experiment_of(source, Asked(problem={"n": "10_000_000"}, parameters=["fast=true,false", "T=float"]))
    assert (guessed["problem"]["n"], guessed["emulate"]["n"]) == (10_000_000, 10_000)
    assert guessed["parameters"]["fast"] == [True, False]
    assert guessed["parameters"]["T"] == ["float"]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (Asked(problem={"m": "5"}), "the kernel has no such size"),
        (Asked(parameters=["block_size_x"]), "not of the form"),
        (Asked(arguments=["d=float32[n]"]), "the kernel has no such argument"),
        (Asked(reference=["=3"]), "not of the form"),
        (Asked(kernel="ad"), "ad"),
    ],
)
def test_mistakes_are_named(source, asked, words):
    with pytest.raises(UserError, match=words):
        experiment_of(source, asked)


def test_only_cuda_is_tried(tmp_path):
    with pytest.raises(UserError, check=coded("syntax", found=".ptx")):
        experiment_of(tmp_path / "k.ptx", Asked())
