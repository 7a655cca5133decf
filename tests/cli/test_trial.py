from __future__ import annotations

import pytest
from mistakes import coded

from lab.base.errors import UserError
from lab.cli.trial import Asked, experiment_of, try_draft

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
    with pytest.raises(UserError, check=coded("unsupported", found=".ptx")):
        experiment_of(tmp_path / "k.ptx", Asked())


def test_swept_macros_outrank_those_of_the_project(source):
    (source.parent / "Makefile").write_text("add: add.cu\n\tnvcc -Dblock_size_x=32 -DM=1 add.cu\n")
    made = experiment_of(source, Asked(parameters=["block_size_x=128,256"]))
    assert made["parameters"] == {"block_size_x": [128, 256]}
    assert made["options"] == ["-DM=1"]
    assert experiment_of(source, Asked())["options"] == ["-Dblock_size_x=32", "-DM=1"]
    assert "parameters" not in experiment_of(source, Asked())


@pytest.mark.parametrize(
    ("signature", "condition", "sizes"),
    [
        ("int N", "i < N", {"N": 77}),
        ("int count", "i < count", {"count": 77}),
        ("int rows, int cols", "i < rows * cols", {"rows": 77, "cols": 77}),
    ],
)
def test_n_is_the_size_whatever_the_kernel_calls_it(tmp_path, signature, condition, sizes):
    body = f"int i = blockIdx.x * 64 + threadIdx.x; if ({condition}) x[i] = 1;"
    (tmp_path / "k.cu").write_text(f"__global__ void k(float *x, {signature}) {{ {body} }}")
    draft = try_draft(tmp_path / "k.cu", Asked(problem={"n": "77"}))
    assert (draft.experiment["problem"], draft.experiment["emulate"], len(draft.notes)) == (sizes, sizes, 1)


def test_n_of_a_kernel_without_a_size_is_a_note(tmp_path):
    (tmp_path / "k.cu").write_text("__global__ void k(float *x) { x[blockIdx.x * 64 + threadIdx.x] = 1; }")
    (tmp_path / "f.cu").write_text("__global__ void k(float *x) { if (threadIdx.x < 8) x[threadIdx.x] = 1; }")
    draft = try_draft(tmp_path / "k.cu", Asked(problem={"n": "77"}))
    assert draft.experiment["problem"] == {"blocks": 2}
    assert "--n 77 sets blocks to 2" in draft.notes
    assert try_draft(tmp_path / "k.cu", Asked(problem={"blocks": "77"})).experiment["problem"] == {"blocks": 77}
    (tmp_path / "t.cu").write_text("__global__ void k(float *x) { x[blockIdx.x * TILE + threadIdx.x] = 1; }")
    draft = try_draft(tmp_path / "t.cu", Asked(problem={"n": "77"}))
    assert draft.experiment["parameters"] == {"TILE": [8, 16, 32]}
    assert draft.experiment["problem"] == {"blocks": 3}
    (note,) = try_draft(tmp_path / "f.cu", Asked(problem={"n": "77"})).notes
    assert "--n 77" in note


def test_an_option_replaces_a_guess(tmp_path):
    (tmp_path / "k.cu").write_text("__global__ void k(float *x, const int *m) { x[m[threadIdx.x]] = 1; }")
    (guess,) = try_draft(tmp_path / "k.cu", Asked()).guesses
    assert guess.key == "arguments.x"
    assert not try_draft(tmp_path / "k.cu", Asked(arguments=["x=out partial float32[100]"])).guesses


def test_a_block_takes_the_place_of_the_parameters_that_are_its_sides(tmp_path):
    body = "int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;"
    (tmp_path / "k.cu").write_text(
        f"__global__ void k(float *x, int n) {{ {body} if (i < n && j < n) x[j * n + i] = 1; }}"
    )
    made = try_draft(tmp_path / "k.cu", Asked(geometry={"block": "32; 2"})).experiment
    assert (made["grid"], made["block"]) == (["ceil_div(n, 32)", "ceil_div(n, 2)"], ["32", "2"])
    assert not made["parameters"]


TRITON = """import triton
import triton.language as tl

@triton.jit
def add(out, x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)
"""


@pytest.fixture
def triton_file(tmp_path):
    (tmp_path / "k.py").write_text(TRITON)
    return tmp_path / "k.py"


def test_a_triton_function_is_tried_and_what_its_host_does_not_say_is_a_guess(triton_file):
    triton_file.write_text(TRITON.replace("tl.load(x + at,", "tl.load(x + 2 * at,"))
    draft = try_draft(triton_file, Asked())
    assert draft.experiment["source"] == f"{triton_file}:add"
    assert {guess.key for guess in draft.guesses} == {"arguments.x", "parameters.BLOCK", "grid"}
    options = {guess.key: guess.option for guess in draft.guesses}
    assert options["arguments.x"] == "--argument 'x=…'"
    assert options["parameters.BLOCK"] == "-D BLOCK=…"
    assert options["grid"] == "--grid '…'"


def test_the_command_line_takes_the_place_of_guesses_on_a_triton_function(triton_file):
    request = Asked(
        kernel="add",
        problem={"n": "5000"},
        parameters=["BLOCK=128,256"],
        arguments=["out=out float32[n]", "x=float32[n]"],
        reference=["out=x + 1"],
        geometry={"grid": "ceil_div(n, BLOCK)"},
    )
    draft = try_draft(triton_file, request)
    assert draft.guesses == ()
    assert draft.experiment["problem"] == {"n": 5000}
    assert draft.experiment["parameters"] == {"BLOCK": [128, 256]}
    assert draft.experiment["reference"] == {"out": "x + 1"}
    assert draft.experiment["grid"] == "ceil_div(n, BLOCK)"


@pytest.mark.parametrize(
    ("request_", "key"),
    [(Asked(geometry={"block": "32"}), "--block"), (Asked(geometry={"shared_bytes": "4"}), "--shared-bytes")],
)
def test_triton_chooses_the_block_and_its_shared_memory(triton_file, request_, key):
    with pytest.raises(UserError) as caught:
        try_draft(triton_file, request_)
    assert (caught.value.code, caught.value.key) == ("unsupported", key)


def test_a_triton_function_must_exist(triton_file):
    with pytest.raises(UserError) as caught:
        try_draft(triton_file, Asked(kernel="sub"))
    assert (caught.value.key, caught.value.found, caught.value.accepted) == ("--kernel", "sub", ["add"])
