"""Files of Triton functions, which are read without Triton: what becomes of them, and every mistake in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from mistakes import coded

from lab.base.errors import UserError
from lab.experiment.load import from_text
from lab.experiment.space import expand
from lab.experiment.triton_entry import divisible, is_triton, ones
from lab.experiment.variants import plan
from lab.toolchain.triton.compiler import Triton
from lab.toolchain.triton.source import restored

SOURCE = """import triton
import triton.language as tl

raise SystemExit("nothing here may run")

@triton.jit
def scale(out, x, n, factor, BLOCK: tl.constexpr, KIND: tl.constexpr = "plain", NONE: tl.constexpr = None):
    pass

@triton.jit
def other(x, MODE: tl.constexpr = tl.float32):
    pass
"""
GOOD = """source: k.py:scale
problem: {n: 1_000_000}
emulate: {n: 1000}
arguments: {out: "out float32[n]", x: "float32[n]", n: int32, factor: "float32 = 2"}
parameters: {BLOCK: [512, 1024]}
configs: {num_warps: [4, 8]}
grid: ceil_div(n, BLOCK)
reference: {out: 2 * x}
"""
COMPILER = Triton(Path("python"), "3.9.0")


@pytest.fixture
def read(tmp_path):
    (tmp_path / "k.py").write_text(SOURCE)
    (tmp_path / "one.py").write_text(SOURCE.partition("@triton.jit\ndef other")[0])
    (tmp_path / "none.py").write_text("def f():\n    pass\n")
    (tmp_path / "wrong.py").write_text("\n\ndef f(:\n")

    def read(text):
        return from_text(text, tmp_path / "k.yaml")

    return read


def planned(experiment):
    return plan(experiment, expand(experiment).points, [COMPILER], ["sm_90"])


@pytest.mark.parametrize(
    ("source", "answer"), [("k.py:f", True), ("k.py", True), ("a/k.py:f", True), ("k.cu", False), ("k.py:f:g", False)]
)
def test_a_python_file_is_a_source(source, answer):
    assert is_triton(source) is answer


def test_a_short_file_is_a_whole_experiment(read):
    experiment = read(GOOD)
    assert experiment.kernels[0].compilers(("auto",)) == ("triton",)
    (kernel,) = experiment.kernels
    assert (kernel.name, kernel.template.name) == ("scale", "k.py")
    assert kernel.axes == {
        "BLOCK": (512, 1024),
        "num_warps": (4, 8),
        "num_stages": (3,),
        "num_ctas": (1,),
        "KIND": ("plain",),
    }
    variants = planned(experiment)
    assert [variant.label for variant in variants][:2] == ["BLOCK=512 num_warps=4", "BLOCK=512 num_warps=8"]
    (step,) = variants[1].launches.steps
    assert (step.entry, step.grid, step.block) == ("scale", (1954, 1, 1), (256, 1, 1))
    source = restored(variants[1].request)
    assert source.text == SOURCE
    assert (source.file, source.function, source.num_warps, source.num_stages) == ("k.py", "scale", 8, 3)
    assert source.signature == (("out", "*fp32"), ("x", "*fp32"), ("n", "i32"), ("factor", "fp32"))
    assert source.constants == (("BLOCK", 512), ("KIND", "plain"), ("NONE", None))
    assert len({variant.variant for variant in variants}) == 4


def test_the_only_function_of_a_file_needs_no_name(read):
    assert read(GOOD.replace("k.py:scale", "one.py")).kernels[0].name == "scale"


def test_a_list_of_configs_varies_together(read):
    text = "configs: [{BLOCK: 512, num_warps: 4}, {BLOCK: [1024, 2048], num_warps: 8, num_stages: 2}]"
    points = expand(
        read(GOOD.replace("parameters: {BLOCK: [512, 1024]}\n", "").replace(GOOD.splitlines()[5], text))
    ).points
    found = [tuple(point.parameters[name] for name in ("BLOCK", "num_warps", "num_stages")) for point in points]
    assert found == [(512, 4, 3), (1024, 8, 2), (2048, 8, 2)]


@pytest.mark.parametrize(
    ("n", "small", "names"),
    [
        ("1_000_000", 1024, ("out", "x", "n")),
        ("1_000_000", 1000, ("out", "x")),
        ("1_000_001", 1024, ("out", "x")),
        ("[1024, 1000]", 512, ("out", "x", "n")),
    ],
)
def test_integers_are_divisible_where_both_sizes_are(read, n, small, names):
    experiment = read(GOOD.replace("1_000_000", n).replace("{n: 1000}", f"{{n: {small}}}"))
    assert restored(planned(experiment)[0].request).divisible == names


@pytest.mark.parametrize(("n", "small", "names"), [("1_000_000", 1024, ()), ("1", 1, ("n",)), ("64", 1, ())])
def test_integers_that_are_1_at_both_sizes(read, n, small, names):
    experiment = read(GOOD.replace("1_000_000", n).replace("{n: 1000}", f"{{n: {small}}}"))
    assert restored(planned(experiment)[0].request).ones == names
    if names:
        assert ones([expand(experiment).points[0].instance], experiment.operator) == names


def test_a_variant_that_stands_in_for_a_reference_is_launched_for_all_sizes(read):
    text = (
        GOOD.replace("1_000_000", "[1024, 1000]")
        .replace("{n: 1000}", "{n: 512}")
        .replace("reference: {out: 2 * x}", "")
    )
    experiment = read(text)
    assert {restored(one.request).divisible for one in planned(experiment)} == {("out", "x")}
    assert divisible([expand(experiment).points[0].instance], experiment.operator) == ("out", "x", "n")


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("k.py:scale", "k.py:scales", ("no such Triton function", "k.py:scale, k.py:other", "did you mean 'scale'")),
        ("k.py:scale", "k.py", ("name the Triton function", "k.py:scale, k.py:other")),
        ("k.py:scale", "none.py", ("name the Triton function", "@triton.jit")),
        ("k.py:scale", "wrong.py:scale", ("the source is not Python", "wrong.py:3")),
        ("k.py:scale", "absent.py:scale", ("no such file", "wrong.py")),
        ("{BLOCK:", "{BLOK:", ("no such constexpr argument", "did you mean 'BLOCK'", "BLOCK of scale has no value")),
        ("n: int32, factor", "m: int32 = n, factor", ("do not match the function scale", "out, x, n, factor")),
        ('n: int32, factor: "float32 = 2"', 'factor: "float32 = 2", n: int32', ("mind the order",)),
        ('x: "float32[n]"', 'x: "complex64[n]"', ("Triton has no such type", "complex64")),
        ("grid: ceil_div(n, BLOCK)\n", "", ("a key is missing", "grid")),
        ("ceil_div(n, BLOCK)", "ceil_div(n, BLOK)", ("unknown name 'BLOK'", "the grid")),
        ("grid:", "block: 128\ngrid:", ("does not use block", "follows from num_warps")),
        ("grid:", "shared_bytes: 128\ngrid:", ("does not use shared_bytes",)),
        ("grid:", "carveout: l1\ngrid:", ("does not use carveout",)),
        ("grid:", "kernel: scale\ngrid:", ("does not use kernel", "the source names the function")),
        ("grid:", "options: [--use_fast_math]\ngrid:", ("does not use options", "configs")),
        ("grid:", "toolchains: [nvrtc]\ngrid:", ("compiled by Triton",)),
        ("grid:", "constraints: [BLOCKS > 2]\ngrid:", ("unknown name 'BLOCKS'",)),
        ("[4, 8]", "[4, 6]", ("num_warps is wrong", "a power of two up to 32", "6")),
        ("{num_warps: [4, 8]}", "{num_stages: 0}", ("num_stages is wrong", "an integer from 1 to 32")),
        ("{num_warps: [4, 8]}", "{num_warps: true}", ("num_warps is wrong",)),
        ("{num_warps: [4, 8]}", "{BLOCK: 64}", ("has values in parameters, too", "BLOCK")),
        ("{num_warps: [4, 8]}", "{warps: 64}", ("no such constexpr argument", "num_warps")),
    ],
)
def test_mistakes(read, old, new, parts):
    assert old in GOOD
    with pytest.raises(UserError) as caught:
        read(GOOD.replace(old, new))
    for part in parts:
        assert part in str(caught.value)


def test_a_constexpr_is_no_field_of_the_problem_since_both_sizes_run_one_machine_code(read):
    text = GOOD.replace("parameters: {BLOCK: [512, 1024]}\n", "").replace("1_000_000}", "1_000_000, BLOCK: 512}")
    with pytest.raises(UserError, check=coded("wrong-value", key="parameters.BLOCK", line=1)) as caught:
        read(text)
    assert "in place of the problem's" in str(caught.value)


def test_a_config_that_lacks_a_constexpr(read):
    text = GOOD.replace("parameters: {BLOCK: [512, 1024]}\n", "").replace(
        "{num_warps: [4, 8]}", "[{BLOCK: 64}, {num_warps: 8}]"
    )
    with pytest.raises(UserError, check=coded("wrong-value", key="configs[1]", line=5)):
        read(text)


def test_a_default_that_only_python_knows_is_left_to_it(read):
    text = "source: k.py:other\narguments: {x: 'out float32[4]'}\ngrid: 1\n"
    source = restored(planned(read(text))[0].request)
    assert source.constants == ()
    given = restored(planned(read(f"{text}parameters: {{MODE: tl.float16}}\n"))[0].request)
    assert given.constants == (("MODE", "tl.float16"),)


def test_an_argument_may_be_none(read):
    text = GOOD.replace('x: "float32[n]"', "x: none").replace("2 * x", "2")
    source = restored(planned(read(text))[0].request)
    assert [name for name, _ in source.signature] == ["out", "n", "factor"]
    assert ("x", None) in source.constants


def test_a_tuple_is_a_mapping_of_its_members(read):
    text = GOOD.replace('factor: "float32 = 2"', 'factor: {a: "float32 = 2", b: "int32 = n"}').replace("2 * x", "a * x")
    source = restored(planned(read(text))[0].request)
    assert source.tuples == (("factor", ("a", "b")),)
    assert source.signature[-2:] == (("a", "fp32"), ("b", "i32"))


def test_modules_that_the_file_imports_travel_with_it_and_decide_the_variant(read, tmp_path):
    (tmp_path / "k.py").write_text("from tools.index import row\n" + SOURCE)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "index.py").write_text("row = 1\n")
    (first, *_) = planned(read(GOOD))
    source = restored(first.request)
    assert (source.path, source.included) == ("", (("tools/index.py", "row = 1\n"),))
    (tmp_path / "tools" / "index.py").write_text("row = 2\n")
    assert planned(read(GOOD))[0].variant != first.variant


def test_configs_are_for_triton(read, tmp_path):
    (tmp_path / "k.cu").write_text("__global__ void k(float* c) {}\n")
    with pytest.raises(UserError, check=coded("wrong-value", key="configs", line=5)):
        read("source: k.cu\narguments: {c: 'out float32[4]'}\ngrid: 1\nblock: 1\nconfigs: {num_warps: 4}\n")


def test_all_mistakes_are_reported_together(read):
    with pytest.raises(UserError) as caught:
        read(GOOD.replace("[4, 8]", "3").replace("{BLOCK:", "{BLOK:").replace("factor:", "factors:"))
    for part in ("num_warps is wrong", "no such constexpr", "do not match"):
        assert part in str(caught.value)


TUNED = """import triton

def configs():
    every = [(b, k, w) for b in range(16, 400, 16) for k in "abcd" for w in (2, 8)]
    return [triton.Config({"BLOCK": b, "KIND": k}, num_warps=w) for b, k, w in every if b != 32 or w == 2]

@triton.autotune(configs(), key=["n"])
@triton.jit
def f(x, n, BLOCK: tl.constexpr, KIND: tl.constexpr):
    pass
"""


def test_configs_of_the_decorator_vary_together_however_many(read, tmp_path):
    (tmp_path / "t.py").write_text(TUNED)
    text = "source: t.py\nproblem: {n: 64}\narguments: {x: 'out float32[n]', n: int32}\ngrid: 1\nconfigs: autotune\n"
    points = [point.parameters for point in expand(read(text)).points]
    assert len(points) == 24 * 4 * 2 - 4
    assert {point["num_warps"] for point in points if point["BLOCK"] == 32} == {2}


def test_configs_that_no_decorator_says(read):
    with pytest.raises(UserError) as caught:
        read(GOOD.replace("{num_warps: [4, 8]}", "autotune"))
    assert (caught.value.key, caught.value.found) == ("configs", "autotune")
