from __future__ import annotations

import contextlib
import copy
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mistakes import coded
from ruamel.yaml import YAML

from lab.base.errors import UserError
from lab.experiment.load import from_text, load
from lab.experiment.space import expand
from lab.operators.builtin import operator

GOOD = """question: Why?
operator: gemm
problem: {m: 64, n: 32, k: 16}
emulate:
  k: 8
kernels:
  - template: gemm/tiled.cu.j2
    parameters:
      unroll: [1, 2, 8]
      padding: 4
      double_buffer: [false, true]
    constraints: ["unroll > 1 or not double_buffer"]
baselines: [cublas]
archs: [sm_90]
"""


def read(text, file="folder/exp.yaml"):
    return from_text(text, Path(file))


def test_of_a_small_problem_no_larger_one_is_executed():
    text = GOOD.replace("{m: 64, n: 32, k: 16}", "[{m: 64, n: 32, k: 16}, {m: 1, n: 32, k: 2}]").replace(
        "  k: 8", "  {m: 9, k: 8}"
    )
    found = [(problem.emulate["m"], problem.emulate["n"], problem.emulate["k"]) for problem in read(text).problems]
    assert found == [(9, 32, 8), (1, 32, 2)]


def test_a_good_experiment():
    experiment = read(GOOD)
    assert experiment.name == "exp"
    (problem,) = experiment.problems
    assert problem.values["lda"] == 64
    assert (problem.emulate["m"], problem.emulate["k"]) == (64, 8)
    assert (problem.label, experiment.problem_axes) == ("", ())
    assert experiment.swept == ("unroll", "double_buffer")
    (kernel,) = experiment.kernels
    assert kernel.name == "tiled"
    assert kernel.axes["padding"] == (4,)
    assert kernel.axes["block_m"] == (128,)
    assert (experiment.toolchains, experiment.archs) == (("auto",), ("sm_90",))


SHIPPED = [
    file
    for file in sorted((Path(__file__).parents[2] / "experiments").glob("*.yaml"))
    if "\ngroups:" not in file.read_text()  # those are tuning files
]


@pytest.mark.parametrize("file", SHIPPED, ids=lambda f: f.stem)
def test_the_shipped_experiments_expand(file):
    experiment = load(file)
    assert expand(experiment).points
    assert experiment.text.startswith("# ")


@pytest.mark.parametrize("file", SHIPPED, ids=lambda f: f.stem)
def test_a_worker_restores_the_problems_of_the_shipped_experiments(file):
    experiment = load(file)
    for case in experiment.problems:
        for plain in filter(None, (dict(case.values), dict(case.emulate) if case.emulate else None)):
            assert dict(operator(experiment.operator_reference).restored(plain)) == plain


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "words"),
    [
        ("question: Why?", "questoin: Why?", 1, "questoin", "did you mean 'question'"),
        ("question: Why?", 'question: ""', 1, "question", "at least 1 character"),
        ("operator: gemm", "operator: gem", 2, "operator", "did you mean 'gemm'"),
        ("operator: gemm", "operator: 3", 2, "operator", "accepted: text"),
        ("n: 32", "q: 32", 3, "problem.q", "unknown key"),
        ("n: 32, ", "", 3, "problem.n", "a key is missing"),
        ("n: 32", "n: 0", 3, "problem.n", "from 1"),
        ("n: 32", "n: [32, 0]", 3, "problem.n", "from 1"),
        ("n: 32", "n: []", 3, "problem.n", "at least one"),
        ("n: 32", "n: [32, [1]]", 3, "problem.n", "single value"),
        ("n: 32", "n: {range: [1, 2]}", 3, "problem.n", "[start, stop, step]"),
        ("n: 32", "n: {range: [4, 2, 1]}", 3, "problem.n", "step ≥ 1"),
        ("n: 32", "n: {rang: [1, 2, 1]}", 3, "problem.n", "{range: "),
        ("n: 32", "n: {range: [1, 200000, 1]}", 3, "problem.n", "at most 10000"),
        ("{m: 64, n: 32, k: 16}", "[]", 3, "problem", "at least one mapping"),
        ("{m: 64, n: 32, k: 16}", "[{m: 1, n: 2, k: 3}, {m: 1, q: 2}]", 3, "problem[1].q", "unknown key"),
        ("{m: 64, n: 32, k: 16}", "[3]", 3, "problem[0]", "a mapping"),
        ("  k: 8", "  k: 1.5", 5, "emulate.k", "integer"),
        ("gemm/tiled.cu.j2", "gemm/tild.cu.j2", 7, "kernels[0].template", "did you mean 'gemm/tiled.cu.j2'"),
        ("parameters:", "params:", 8, "kernels[0].params", "did you mean 'parameters'"),
        ("unroll:", "unrol:", 9, "kernels[0].parameters.unrol", "did you mean 'unroll'"),
        ("[1, 2, 8]", "[1, 3]", 9, "kernels[0].parameters.unroll", "1, 2, 4, 8"),
        ("[1, 2, 8]", "[]", 9, "kernels[0].parameters.unroll", "at least one"),
        ("[1, 2, 8]", "[1, [2]]", 9, "kernels[0].parameters.unroll", "int"),
        ("padding: 4", "padding: true", 10, "kernels[0].parameters.padding", "int"),
        ("[false, true]", "yes", 11, "kernels[0].parameters.double_buffer", "bool"),
        ("unroll > 1 or", "unrol > 1 or", 12, "kernels[0].constraints[0]", "did you mean 'unroll'"),
        ("unroll > 1 or", "unroll > > 1 or", 12, "kernels[0].constraints[0]", "not an expression"),
        ("[cublas]", "[cubals]", 13, "baselines[0]", "did you mean 'cublas'"),
        ("[sm_90]", "[compute_90]", 14, "archs[0]", "pattern"),
        ("[sm_90]", "[]", 14, "archs", "at least 1"),
        ("archs:", "question: again\narchs:", 14, None, "duplicate key"),
    ],
)
def test_every_mistake_is_named_with_its_line(old, new, line, key, words):
    assert old in GOOD
    with pytest.raises(UserError) as caught:
        expand(read(GOOD.replace(old, new)))
    assert words in str(caught.value)
    assert caught.value.at.line == line, str(caught.value)
    assert key is None or caught.value.key == key


def labels(problem):
    return [one.label for one in read(GOOD.replace("{m: 64, n: 32, k: 16}", problem)).problems]


def test_lists_and_ranges_in_the_problem_are_swept():
    assert labels("{m: [64, 128], n: 32, k: {range: [16, 33, 16]}}") == [
        "m=64 k=16",
        "m=64 k=32",
        "m=128 k=16",
        "m=128 k=32",
    ]
    assert labels("{m: [64, 64], n: 32, k: 16}") == [""]


def test_sizes_that_vary_together_are_a_list_of_mappings():
    experiment = read(GOOD.replace("{m: 64, n: 32, k: 16}", "[{m: 64, n: 32, k: 16}, {m: 8, n: 8, k: 16, layout: nt}]"))
    assert [problem.label for problem in experiment.problems] == ["m=64 n=32 layout=nn", "m=8 n=8 layout=nt"]
    assert experiment.problem_axes == ("m", "n", "layout")
    assert [problem.values["lda"] for problem in experiment.problems] == [64, 8]
    assert [problem.emulate["k"] for problem in experiment.problems] == [8, 8]


NAMED = """
  - {name: large, m: 64, n: 32, k: 16, emulate: {n: 4}}
  - {name: small, m: 8, n: 8, k: [8, 16]}
"""


def test_a_problem_of_a_list_may_have_a_name_and_its_own_emulate():
    experiment = read(GOOD.replace(" {m: 64, n: 32, k: 16}", NAMED))
    assert [problem.label for problem in experiment.problems] == [
        "large m=64 n=32 k=16",
        "small m=8 n=8 k=8",
        "small m=8 n=8 k=16",
    ]
    assert [(problem.emulate["n"], problem.emulate["k"]) for problem in experiment.problems] == [(4, 8), (8, 8), (8, 8)]
    assert [problem.values["name"] for problem in experiment.problems] == ["large", "small", "small"]
    alone = read(
        GOOD.replace(" {m: 64, n: 32, k: 16}", NAMED.replace("[8, 16]", "8")).replace("emulate:\n  k: 8\n", "")
    )
    assert alone.problem_axes == ("name",)
    assert [problem.label for problem in alone.problems] == ["large", "small"]
    assert [problem.emulate and problem.emulate["n"] for problem in alone.problems] == [4, None]


@pytest.mark.parametrize(
    ("old", "new", "line", "key"),
    [
        ("name: large", "name: 3", 4, "problem[0].name"),
        ("name: large", "name: ''", 4, "problem[0].name"),
        ("{n: 4}", "4", 4, "problem[0].emulate"),
        ("{n: 4}", "{n: 0}", 4, "problem[0].emulate.n"),
        ("{n: 4}", "{p: 4}", 4, "problem[0].emulate.p"),
        ("{n: 4}", "{n: [4]}", 4, "problem[0].emulate.n"),
        ("name: small, m: 8", "name: small, m: 0", 5, "problem[1].m"),
    ],
)
def test_mistakes_in_a_named_problem_are_found(old, new, line, key):
    with pytest.raises(UserError) as caught:
        read(GOOD.replace(" {m: 64, n: 32, k: 16}", NAMED.replace(old, new)))
    assert (caught.value.key, caught.value.at.line) == (key, line)


def test_a_single_problem_needs_no_name():
    with pytest.raises(UserError, check=coded("unknown-key", key="problem.name", line=3)):
        read(GOOD.replace("m: 64,", "m: 64, name: large,"))


def test_an_experiment_needs_a_kernel():
    head, _, _ = GOOD.partition("kernels:")
    with pytest.raises(UserError, check=coded("wrong-value", key="kernels", found=[], line=6)) as caught:
        read(head + "kernels: []\n")
    assert caught.value.at.line == 6


def test_two_kernels_need_two_names():
    text = GOOD.replace("baselines", "  - template: gemm/tiled.cu.j2\nbaselines")
    with pytest.raises(UserError, check=coded("duplicate", key="kernels[1].name", found="tiled", line=13)):
        read(text)


def test_a_template_says_what_problems_it_supports(tmp_path):
    (tmp_path / "half.cu.j2").write_text(
        "{#---\nsummary: s\noperator: gemm\nentry: k\nproblem: {dtype: [float64]}\n"
        "grid: [1]\nblock: [1]\narguments: {m: int32}\n---#}\n"
    )
    text = "question: q\noperator: gemm\nproblem: {m: 1, n: 1, k: 1}\nkernels: [{template: half.cu.j2}]\n"
    with pytest.raises(UserError, check=coded("unsupported", key="problem.dtype", found="float32", line=3)) as caught:
        read(text, str(tmp_path / "e.yaml"))
    assert (caught.value.key, caught.value.accepted) == ("problem.dtype", ["float64"])
    both = expand(read(text.replace("k: 1}", "k: 1, dtype: [float32, float64]}"), str(tmp_path / "e.yaml")))
    assert [point.label for point in both.points] == ["dtype=float64"]
    assert both.excluded == {"half.cu.j2 supports only dtype float64": 1}


_yaml = YAML(typ="safe", pure=True)
_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 300),
    st.floats(allow_nan=False),
    st.text(max_size=8),
    st.lists(st.integers(), max_size=2),
)


@given(st.data())
@settings(max_examples=60)
def test_a_mutated_experiment_is_read_or_refused_in_words(data):
    document = copy.deepcopy(_yaml.load(GOOD))
    node = document
    while True:
        key = data.draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
        if isinstance(node[key], dict | list) and node[key] and data.draw(st.booleans()):
            node = node[key]
            continue
        node[key] = data.draw(_values)
        break
    stream = io.StringIO()
    _yaml.dump(document, stream)
    try:
        expand(read(stream.getvalue()))
    except UserError as error:
        assert "exp.yaml" in str(error) or "kernel_src" in str(error)  # noqa: PT017 - most inputs raise, some do not


@given(st.integers(0, len(GOOD)), st.integers(0, 40), st.text(max_size=10))
@settings(max_examples=60)
def test_mutilated_text_is_read_or_refused_in_words(start, length, inserted):
    with contextlib.suppress(UserError):
        expand(read(GOOD[:start] + inserted + GOOD[start + length :]))


@pytest.mark.parametrize(
    ("options", "toolchains", "line", "words"),
    [
        ("\n- -DX=1\n- --time=/elsewhere/x\n", "[auto]", 17, "this compiler option is not accepted"),
        ("[-Xcompiler, -wrapper]", "[nvcc]", 15, "not accepted"),
        ("[--gpu-architecture=sm_80]", "[nvrtc]", 15, "use the key archs"),
        ("[-maxrregcount, 1000]", "[auto]", 15, None),
        ("[--extended-lambda]", "[nvcc==13.0, nvrtc==13]", 15, "nvrtc has no such option"),
        ("[--extended-lambda]", "[nvcc]", None, None),
        ("[--use_fast_math, -maxrregcount, '32']", "[auto]", None, None),
    ],
)
def test_compiler_options_are_checked_before_anything_is_built(options, toolchains, line, words):
    text = GOOD + f"options: {options}\ntoolchains: {toolchains}\n"
    if line is None:
        assert read(text).options
        return
    with pytest.raises(UserError, match=words) as caught:
        read(text)
    assert str(caught.value).startswith(f"folder/exp.yaml:{line}: ")
    assert caught.value.key.startswith("options")


def test_a_file_names_one_gpu_to_predict_for_or_several():
    assert read(GOOD).gpu == ()
    assert read(GOOD + "gpu: RTX 4090\n").gpu == ("RTX 4090",)
    assert read(GOOD + "gpu: [RTX 4090, A10]\n").gpu == ("RTX 4090", "A10")


@pytest.mark.parametrize(("text", "line"), [("gpu: RTX 4095\n", 15), ("gpu:\n- A10\n- RTX 4095\n", 17)])
def test_a_gpu_outside_the_table_is_refused_where_it_is_named(text, line):
    with pytest.raises(UserError) as caught:
        read(GOOD + text)
    assert (caught.value.key, caught.value.found, caught.value.at.line) == ("gpu", "RTX 4095", line)
    assert "RTX 4090" in caught.value.suggestion


def test_names_have_a_length_that_a_file_name_can_have():
    for old, new in (
        ("  - template: gemm/tiled.cu.j2", f"  - template: gemm/tiled.cu.j2\n    name: {'n' * 300}"),
        ("gemm/tiled.cu.j2", "t" * 300),
        ("unroll:", f"{'u' * 300}:"),
        ("problem: {m: 64, n: 32, k: 16}", f"problem: [{{name: {'n' * 300}, m: 64, n: 32, k: 16}}]"),
    ):
        with pytest.raises(UserError) as caught:
            read(GOOD.replace(old, new))
        assert "folder/exp.yaml:" in str(caught.value)
        assert len(str(caught.value)) < 3000
