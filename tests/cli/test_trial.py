from __future__ import annotations

import pytest

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
    asked = Asked(
        problem={"n": "5000"},
        parameters=["block_size_x=128,256"],
        arguments=["a=float32[n] uniform 0 1"],
        reference=["c=a + b"],
        geometry={"grid": "ceil_div(n, block_size_x)", "shared_bytes": "4 * block_size_x", "block": "block_size_x; 1"},
    )
    made = experiment_of(source, asked)
    assert made["source"] == str(source)
    assert (made["problem"], made["emulate"]) == ({"n": 5000}, {"n": 5000})
    assert made["parameters"] == {"block_size_x": [128, 256]}
    assert made["arguments"]["a"] == "float32[n] uniform 0 1"
    assert (made["reference"], made["shared_bytes"]) == ({"c": "a + b"}, "4 * block_size_x")
    assert (made["grid"], made["block"]) == ("ceil_div(n, block_size_x)", ["block_size_x", "1"])


def test_a_large_problem_is_executed_at_a_small_size(source):
    made = experiment_of(source, Asked(problem={"n": "10_000_000"}, parameters=["fast=true,false", "T=float"]))
    assert (made["problem"]["n"], made["emulate"]["n"]) == (10_000_000, 10_000)
    assert made["parameters"]["fast"] == [True, False]
    assert made["parameters"]["T"] == ["float"]


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
    with pytest.raises(UserError, match="not a CUDA source"):
        experiment_of(tmp_path / "k.ptx", Asked())


def test_swept_macros_outrank_those_of_the_project(source):
    (source.parent / "Makefile").write_text("add: add.cu\n\tnvcc -Dblock_size_x=32 -DM=1 add.cu\n")
    made = experiment_of(source, Asked(parameters=["block_size_x=128,256"]))
    assert made["parameters"] == {"block_size_x": [128, 256]}
    assert made["options"] == ["-DM=1"]
    assert experiment_of(source, Asked())["options"] == ["-Dblock_size_x=32", "-DM=1"]
    assert "parameters" not in experiment_of(source, Asked())
