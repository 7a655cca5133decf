"""Files of kernels without a template: what becomes of them, and every mistake in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from mistakes import coded

from lab.base.errors import UserError
from lab.experiment.load import from_text
from lab.experiment.space import expand
from lab.experiment.variants import plan, toolchains
from lab.recorded.run_records import Status
from lab.runs.pipeline import RunOptions, run

SOURCE = """
__global__ void add(float *c, const float *a, const float *b, int n) {
    int i = blockIdx.x * block_size + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""
TEMPLATES = """
template <typename T, int width> __global__ void first(T *c, int n) { c[width] = n; }
namespace ours { __global__ void second(float *c, int n) { c[0] = n; } }
"""
GOOD = """question: Which?
source: add.cu
problem: {n: 1_000_000}
emulate: {n: 1000}
arguments: {c: "out float32[n]", a: "float32[n]", b: "float32[n]", n: int32}
parameters: {block_size: [64, 128]}
grid: ceil_div(n, block_size)
block: block_size
reference: {c: a + b}
"""


@pytest.fixture
def read(tmp_path):
    (tmp_path / "add.cu").write_text(SOURCE)
    (tmp_path / "two.cu").write_text(TEMPLATES)
    (tmp_path / "none.cu").write_text("__device__ int f() { return 1; }\n")

    def read(text):
        return from_text(text, tmp_path / "add.yaml")

    return read


def refused(read, text, *parts):
    with pytest.raises(UserError) as caught:
        read(text)
    for part in parts:
        assert part in str(caught.value)
    return str(caught.value)


def test_a_short_file_is_a_whole_experiment(read):
    experiment = read(GOOD)
    points = expand(experiment).points
    assert [point.label for point in points] == ["block_size=64", "block_size=128"]
    (kernel,) = experiment.kernels
    assert (kernel.name, kernel.template.name) == ("add", "add.cu")
    assert (experiment.archs, experiment.problems[0].emulate["n"]) == (("auto",), 1000)
    launches = points[1].instance.launches
    assert launches.steps[0].entry == "add"
    assert (launches.steps[0].grid, launches.steps[0].block) == ((7813, 1, 1), (128, 1, 1))
    assert launches.steps[0].arguments == (("c", "float32*"), ("a", "float32*"), ("b", "float32*"), ("n", "int32"))
    assert "#define block_size 128" in points[1].instance.source
    assert experiment.operator.bytes_moved(points[0].problem.values) == 12_000_000


@pytest.mark.parametrize(
    ("number", "meant"), [("1", "1"), ("-2", "-2"), ("0.5", "0.5"), ("1.0e-5", "1e-05"), (".inf", "inf")]
)
def test_a_reference_may_be_a_number(read, number, meant):
    assert read(GOOD.replace("a + b", number)).operator.declaration.references == (("c", meant),)


def test_only_the_source_is_needed_to_name_the_kernel_and_the_question(read):
    experiment = read(GOOD.replace("question: Which?\n", ""))
    assert experiment.question == "Which block_size is fastest?"


def test_a_kernel_template_is_instantiated_by_its_name(read):
    text = """source: two.cu
kernel: first<float, {width}>
problem: {n: 8}
arguments: {c: "out float32[n]", n: int32}
parameters: {width: [1, 2], fast: true}
grid: 1
block: [n, width]
"""
    steps = [point.instance.launches.steps[0] for point in expand(read(text)).points]
    assert [step.entry for step in steps] == ["first<float, 1>", "first<float, 2>"]
    assert [step.block for step in steps] == [(8, 1, 1), (8, 2, 1)]


def test_several_launches_name_their_kernels_and_arguments(read):
    text = """source: two.cu
problem: {n: 8}
arguments: {c: "out float32[n]", n: int32}
launches:
  - {kernel: "first<float, 4>", grid: 1, block: 32, arguments: [c, n]}
  - {kernel: "ours::second", grid: 2, block: [n, 2], arguments: [c, n], when: n > 4}
"""
    (point,) = expand(read(text)).points
    assert [step.entry for step in point.instance.launches.steps] == ["first<float, 4>", "ours::second"]
    assert point.instance.launches.steps[1].block == (8, 2, 1)


def test_options_may_be_swept(read):
    swept = read(GOOD + "options: [[], [--use_fast_math]]\n")
    assert swept.options == ((), ("--use_fast_math",))
    assert read(GOOD + "options: [--use_fast_math]\n").options == (("--use_fast_math",),)


@pytest.mark.parametrize(
    ("before", "after", "parts"),
    [
        ("source: add.cu", "source: sub.cu", ("no such file", "add.yaml:2", "key: source")),
        ("source: add.cu", "source: add.txt", ("not a source", ".cu")),
        ("source: add.cu", "source: ../../etc/passwd.cu", ("outside the experiment's folder", "key: source")),
        ("source: add.cu", "source: two.cu", ("several kernels", "ours::second")),
        ("source: add.cu", "source: none.cu", ("no kernel was found in the source", "found: 'none.cu'")),
        ("source: add.cu", "source: add.cu\nkernel: ad", ("no such kernel", "did you mean 'add'?")),
        ("{c: a + b}", "{c: maximum(a, b}", ("inside a bracket", "'maximum(a'", "in quotes")),
        ('a: "float32[n]"', "a: float32[n, 2]", ("not YAML", "suggestion: quote texts")),
        ("block: block_size\n", "", ("a key is missing", "key: block")),
        ("block: block_size", "block: blocksize", ("unknown name 'blocksize'", "did you mean 'block_size'?")),
        ("emulate: {n: 1000}", "emulate: {m: 1000}", ("no such field", "key: emulate.m")),
        ("parameters: {block_size", "parameters: {n: 3, block_size", ("one name", "parameters.n")),
        ("n: int32}", "k: int32}", ("the scalar k has no value", "arguments.k")),
        ("problem: {n: 1_000_000}", "problem: 1_000_000", ("add.yaml:3: not a mapping", "{n: 1000000}")),
        ("problem: {n: 1_000_000}", "problem: {n: 10M}", ("add.yaml:3: n is a text", "key: problem.n\n")),
        ("[64, 128]}", "[64, 128], UNROLL: [1, 2]}", ("add.yaml:6: this parameter is not used", "parameters.UNROLL")),
        ("grid:", "metrics: {GB/s: 12 * n}\ngrid:", ("add.yaml:7: the first metric must be a rate", "metrics.GB/s")),
        (
            "grid:",
            "metrics: {ms: 1e3 * time}\ngrid:",
            ("add.yaml:7: the first metric must be a rate", "launches/s: 1 / time"),
        ),
        (
            "grid:",
            "metrics: {GB/s: 12e-9 * n / time}\ngrid:",
            ("add.yaml:7: the metric counts 0.01", "bytes a second: 12 * n / time", "divides by 10^9 already"),
        ),
        ("grid:", "metrics: {GB/s: n / time, x: sqrt(n - 1e9)}\ngrid:", ("add.yaml:7:", "metrics.x")),
        ("[64, 128]", "[]", ("the list is empty",)),
        ("{c: a + b}", "{c: true}", ("add.yaml:9", "key: reference.c", "accepted: text or an integer or a number")),
        ('c: "out float32[n]"', 'c: "float32[n]"', ("the kernel writes no argument",)),
    ],
)
def test_mistakes_are_named(read, before, after, parts):
    assert before in GOOD
    refused(read, GOOD.replace(before, after), *parts)


@pytest.mark.parametrize(
    ("before", "after", "parts"),
    [
        ("[64, 128]", "[64, 2048]", ("add.yaml:8", "leave such points out: constraints: [block_size <= 1024]")),
        ("1_000_000", "1e6", ("add.yaml:7", "n is a floating-point number; write 1000000")),
        ("grid:", "constraints: [block_size > 128]\ngrid:", ("add.yaml:7", "key: constraints\n")),
        ("grid:", "archs: [sm_999]\ngrid:", ("add.yaml:7: nvrtc", "did you mean 'sm_90'?")),
        ("grid:", "toolchains: [gcc]\ngrid:", ("add.yaml:7: no such toolchain", "nvcc")),
        ("grid:", "options: [-O3]\ngrid:", ("add.yaml:7: nvrtc has no such option", "leave it out")),
    ],
)
def test_mistakes_that_show_where_variants_are_planned_are_named(read, before, after, parts):
    def planned(text):
        experiment = read(text)
        plan(experiment, expand(experiment).points, toolchains(experiment), experiment.archs)

    text = GOOD if "archs" in after else GOOD + "archs: [sm_90]\n"
    refused(planned, text.replace(before, after, 1), *parts)


def test_a_sweep_of_blocks_alone_needs_no_macro(read):
    text = GOOD.replace("block: block_size", "block: [block_size, rows]")
    assert len(expand(read(text.replace("[64, 128]}", "[64, 128], rows: [1, 2]}"))).points) == 4


def test_marks_that_editors_on_windows_write_are_passed_over(read, tmp_path):
    (tmp_path / "add.cu").write_bytes(b"\xef\xbb\xbf" + SOURCE.replace("\n", "\r\n").encode())
    experiment = read(GOOD)
    assert "\ufeff" not in experiment.kernels[0].template.text


def test_compilers_call_a_source_by_its_own_name(read):
    experiment = read(GOOD)
    planned = plan(experiment, expand(experiment).points, toolchains(experiment), ["sm_90"])
    assert {one.request.name for one in planned} == {"add.cu"}


def test_all_mistakes_are_reported_at_once(read):
    text = GOOD.replace("block: block_size", "block: blocksize").replace("{n: 1000}", "{m: 1000}")
    message = refused(read, text + "baseline: {block_size: 32}\n")
    assert message.index("emulate.m") < message.index("blocksize") < message.index("no variant has this value")


def test_places_are_those_of_the_file(read):
    message = refused(read, GOOD.replace("n: int32}", "n: int23}"))
    assert "add.yaml:5" in message
    assert Path(message.split(":")[0]).name == "add.yaml"


TYPED = """source: typed.cu
kernel: scale<{T}>
problem: {n: 1000}
emulate: {n: 100}
arguments: {y: "out {T}[n]", x: "{T}[n]", n: int32}
parameters: {T: [float, float64]}
grid: ceil_div(n, 64)
block: 64
reference: {y: 2 * x}
archs: [sm_90]
"""


def test_element_types_follow_a_parameter(read, tmp_path):
    (tmp_path / "typed.cu").write_text("template <typename U> __global__ void scale(U *y, const U *x, int n) {}")
    experiment = read(TYPED + "baseline: {T: float32}\n")
    assert experiment.baseline == {"T": "float"}
    planned = plan(experiment, expand(experiment).points, toolchains(experiment), ["sm_90"])
    assert [one.request.kernels for one in planned] == [("scale<float>",), ("scale<double>",)]
    kinds = [dict(one.launches.steps[0].arguments)["y"] for one in planned]
    assert kinds == ["float32*", "float64*"]
    refused(read, TYPED.replace("float64]", "flaot64]"), "add.yaml:6: no type", "did you mean 'float64'?")


def test_a_value_that_does_not_suit_a_parameters_type_is_found_before_anything_is_built(read, tmp_path):
    (tmp_path / "typed.cu").write_text("template <typename U> __global__ void scale(U *y, U a, int n) {}")
    text = TYPED.replace('x: "{T}[n]"', 'a: "{T} = 1.5"').replace("2 * x", "a").replace("float64]", "int]")
    experiment = read(text)
    with pytest.raises(
        UserError, check=coded("wrong-type", key="arguments.a where T=int", found=1.5, line=5)
    ) as caught:
        plan(experiment, expand(experiment).points, toolchains(experiment), ["sm_90"])
    assert "add.yaml:5" in str(caught.value)
    assert "T=int" in str(caught.value)


CARVED_SOURCE = "__global__ void k(float *y) { y[threadIdx.x] = 1; }\n"
CARVED_FILE = """source: k.cu
arguments: {y: "out float32[32]"}
grid: 1
block: 32
archs: [sm_90]
"""


def carved(folder, more):
    (folder / "k.cu").write_text(CARVED_SOURCE)
    (folder / "k.yaml").write_text(CARVED_FILE + more)
    return run(folder / "k.yaml", RunOptions(output=folder / "out", measure=False)).records


def test_a_carve_out_is_swept(tmp_path):
    records = carved(tmp_path, "parameters: {preferred: [-1, 0, 50, 100]}\ncarveout: preferred\n")
    assert [record.launch.carveout for record in records] == [None, 0, 50, 100]


def test_a_tensor_map_in_constant_memory_needs_a_variable_there(tmp_path):
    with pytest.raises(UserError, check=coded("unknown-name", key="constants.maps", found="maps", line=6)) as error:
        carved(tmp_path, 'constants: {maps: "float32[8, 8] as map[8, 8]"}\n')
    assert error.value.key == "constants.maps"


def test_a_tensor_map_in_constant_memory_that_cannot_be_made(tmp_path):
    with pytest.raises(UserError, check=coded("wrong-value", key="constants.maps.box", found=6, line=6)) as error:
        carved(tmp_path, 'constants: {maps: "float32[8, 8] as map[8, 6]"}\n')
    assert error.value.key == "constants.maps.box"


CLUSTERED = """#include <cooperative_groups.h>
__global__ void k(int *out) {
    auto cluster = cooperative_groups::this_cluster();
    __shared__ int own;
    if (threadIdx.x == 0) own = 10 + cluster.block_rank();
    cluster.sync();
    if (threadIdx.x == 0) out[blockIdx.x] = *cluster.map_shared_rank(&own, cluster.block_rank() ^ 1);
    cluster.sync();
}
"""
CLUSTERED_FILE = """source: k.cu
problem: {n: 8}
emulate: full
arguments: {out: "out int32[n]"}
parameters: {size: [2, 4]}
grid: n
block: 32
cluster: size
reference: {out: "10 + (arange(n) % size ^ 1)"}
archs: [sm_90]
"""


def clustered(folder, text=CLUSTERED_FILE, source=CLUSTERED):
    (folder / "k.cu").write_text(source)
    (folder / "k.yaml").write_text(text)
    return run(folder / "k.yaml", RunOptions(output=folder / "out", measure=False)).records


def test_ptx_may_end_as_a_string_of_c_does(read, tmp_path):
    text = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry add() { ret; }\n"
    (tmp_path / "add.ptx").write_text(f"{text}\0")
    made = read(GOOD.replace("add.cu", "add.ptx\nkernel: add"))
    assert plan(made, expand(made).points, toolchains(made), ["sm_90"])[0].request.source == text


def test_what_is_swept_beside_ptx_is_the_launch(read, tmp_path):
    (tmp_path / "add.ptx").write_text(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry add() { ret; }\n")
    of_ptx = GOOD.replace("add.cu", "add.ptx\nkernel: add")
    made = read(of_ptx)
    points = expand(made).points
    assert plan(made, points, toolchains(made), ["sm_90"])[0].request.name == "add.ptx"
    assert [point.instance.launches.steps[0].block for point in points] == [(64, 1, 1), (128, 1, 1)]
    assert points[0].instance.source == points[1].instance.source
    refused(read, of_ptx.replace("{block_size:", "{WIDTH: 4, block_size:"), "PTX has no macros", "WIDTH", "grid, block")


def test_a_launch_asks_for_clusters(tmp_path):
    two, four = clustered(tmp_path)
    assert [one.launch.cluster for one in (two, four)] == [(2, 1, 1), (4, 1, 1)]
    assert [one.status for one in (two, four)] == [Status.VERIFIED] * 2
    assert ".reqnctapercluster" not in (tmp_path / "out" / "variants" / two.variant / "kernel.ptx").read_text()


def test_without_clusters_a_run_says_what_is_missing(tmp_path):
    record, _ = clustered(tmp_path, CLUSTERED_FILE.replace("cluster: size\n", ""))
    assert "neither __cluster_dims__ nor the launch makes clusters" in record.emulation.findings[0].detail


def test_clusters_stand_in_their_launch(tmp_path):
    several = CLUSTERED_FILE.replace(
        "grid: n\nblock: 32\n", "launches: [{kernel: k, grid: n, block: 32, arguments: [out]}]\n"
    )
    with pytest.raises(UserError, check=coded("unknown-key", key="cluster", line=7)):
        clustered(tmp_path, several)
    inside = several.replace("cluster: size\n", "").replace("arguments: [out]", "arguments: [out], cluster: [size]")
    assert [record.launch.cluster for record in clustered(tmp_path, inside)] == [(2, 1, 1), (4, 1, 1)]
    with pytest.raises(UserError, check=coded("unknown-name", key="cluster[1]", found="sizes", line=8)):
        clustered(tmp_path, CLUSTERED_FILE.replace("cluster: size", "cluster: [1, sizes]"))


@pytest.mark.parametrize(("given", "key"), [("101", "carveout"), ("'-2'", "carveout"), ("L1", "carveout")])
def test_another_carve_out_is_refused_with_its_line(tmp_path, given, key):
    with pytest.raises(UserError, match=r"k\.yaml:6: ") as error:
        carved(tmp_path, f"carveout: {given}\n")
    assert error.value.key == key


def test_the_root_is_a_folder_above_the_file(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "include").mkdir()
    (tmp_path / "sub" / "add.cu").write_text('#include "../bounds.h"\n' + SOURCE)
    (tmp_path / "bounds.h").write_text("// none\n")
    text = GOOD + "archs: [sm_90]\n"

    def mistake(keys):
        with pytest.raises(UserError) as caught:
            from_text(text + keys, tmp_path / "sub" / "add.yaml")
        return caught.value.key, caught.value.found

    assert mistake("") == ("root", "../bounds.h")
    assert mistake("root: ./missing\n") == ("root", "./missing")
    assert mistake("root: ../include\n") == ("root", "../include")
    assert mistake("root: ..\ninclude: [../../]\n") == ("include[0]", "../../")
    experiment = from_text(text + "root: ..\ninclude: [../include]\n", tmp_path / "sub" / "add.yaml")
    (first, *_) = plan(experiment, expand(experiment).points, toolchains(experiment), experiment.archs)
    assert dict(first.request.included) == {"bounds.h": "// none\n"}
