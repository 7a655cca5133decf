"""Template instances: launches from a template, its parameters and a problem; sequences are emulated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from mistakes import coded

from lab.base.errors import UserError
from lab.base.expressions import Scalar
from lab.hardware.tensormaps import TensorMap
from lab.stages.emulate import EmulationTask, emulate
from lab.templates import front_matter as kernels
from lab.templates.instance import Instance
from lab.templates.launches import Launch, Launches, Workspace
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import toolchain

DOUBLE = f"{Path(__file__).parents[1] / 'support' / 'fake_operator.py'}:Double"
FRONT = """{#---
summary: y = 2 x by way of two scratch buffers.
operator: double
parameters: {width: {type: int, default: 32, help: h}}
launches:
  - entry: copy
    grid: ["ceil_div(n, width)"]
    block: [width]
    arguments: {n: int32, x: T*, half: T*}
    bytes_moved: 8 * n
  - {entry: never, when: n > 1000, grid: [1], block: [1], arguments: {}}
  - {entry: add, grid: [1], block: [64], shared_bytes: 4 * width, arguments: {n: int32, half: T*, sum: T*, y: T*}}
workspace:
  half: {type: T, elements: n + 1}
  sum: {type: float64, elements: n, zero: true}
---#}
"""
KERNELS = """
extern "C" __global__ void copy(int n, const {{ T }}* x, {{ T }}* half) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) half[i] = x[i];
}
extern "C" __global__ void never() {}
extern "C" __global__ void add(int n, const {{ T }}* half, {{ T }}* sum, {{ T }}* y) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        sum[i] += half[i];
        y[i] = sum[i] + half[i];
    }
}
"""
PROBLEM: dict[str, Scalar] = {"n": 100, "dtype": "float64"}


def written(tmp_path, text):
    (tmp_path / "mine.cu.j2").write_text(text)
    return kernels.load("mine.cu.j2", (tmp_path,))


def sequence(tmp_path, text=FRONT + KERNELS, problem=PROBLEM):
    template = written(tmp_path, text)
    parameters = template.completed({})
    return Instance(template, parameters, problem).source, Instance(template, parameters, problem).launches


def executed(tmp_path, text=FRONT + KERNELS):
    source, launch_sequence = sequence(tmp_path, text)
    ptx = toolchain("nvrtc").compile(CompileRequest(source, "kernel.cu", "sm_90")).ptx
    return emulate(EmulationTask(launch_sequence, DOUBLE, PROBLEM, 0, {"add": "none"}), ptx)


def test_a_sequence_is_evaluated_launch_by_launch(tmp_path):
    _, launch_sequence = sequence(tmp_path)
    assert launch_sequence == Launches(
        (
            Launch("copy", (4, 1, 1), (32, 1, 1), 0, (("n", "int32"), ("x", "float64*"), ("half", "float64*")), 800),
            Launch(
                "add",
                (1, 1, 1),
                (64, 1, 1),
                128,
                (("n", "int32"), ("half", "float64*"), ("sum", "float64*"), ("y", "float64*")),
            ),
        ),
        (Workspace("half", "float64", 101), Workspace("sum", "float64", 100, zero=True)),
    )
    assert launch_sequence.entries == ("copy", "add")
    assert launch_sequence.bytes_moved is None  # one launch does not say
    assert launch_sequence.workspace[0].bytes == 808


def test_when_chooses_launches(tmp_path):
    _, launch_sequence = sequence(tmp_path, problem={"n": 1001, "dtype": "float64"})
    assert launch_sequence.entries == ("copy", "never", "add")


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("bytes_moved: 8 * n", "bytes_moved: -1", "launches[0].bytes_moved"),
        ("block: [width]", "block: [2048]", "launches[0].block"),
        ("block: [64]", "block: [64, 64]", "launches[2].block"),
        ("grid: [1], block: [64]", "grid: [0], block: [64]", "launches[2].grid"),
        ("elements: n + 1", "elements: n - n", "workspace.half.elements"),
        ("elements: n + 1", "elements: x", "workspace.half.elements"),
        ("  half: {", "  n: {", "workspace.n.elements"),
        ("shared_bytes: 4 * width", "shared_bytes: width / 3", "launches[2].shared_bytes"),
    ],
)
def test_illegal_geometry_is_named(tmp_path, old, new, key):
    with pytest.raises(UserError) as caught:
        sequence(tmp_path, FRONT.replace(old, new))
    assert caught.value.key == key
    assert caught.value.at.line is not None


def test_a_buffer_of_no_elements_does_not_exist_and_nobody_is_handed_it(tmp_path):
    _, launch_sequence = sequence(tmp_path, FRONT.replace("elements: n + 1", "elements: 0 * width"))
    assert "half" not in {buffer.name for buffer in launch_sequence.workspace}
    assert "half" not in {name for step in launch_sequence.steps for name, _ in step.arguments}
    assert "half" in {name for step in sequence(tmp_path)[1].steps for name, _ in step.arguments}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("launches:\n", "grid: [1]\nlaunches:\n", "cannot stand beside launches"),
        ("launches:\n", "entry: k\nlaunches:\n", "cannot stand beside launches"),
        ("type: T,", "type: T*,", "unknown element type"),
        ("half: T*}", "half: half*}", "unknown argument type"),
        ("zero: true", "zeroed: true", "did you mean 'zero'"),
        ("when: n > 1000", "wen: n > 1000", "did you mean 'when'"),
    ],
)
def test_contradictory_declarations_are_refused(tmp_path, old, new, words):
    with pytest.raises(UserError, match=words):
        sequence(tmp_path, FRONT.replace(old, new))


def test_predictions_of_a_sequence_are_of_all_its_launches(tmp_path):
    text = FRONT.replace("launches:\n", "predicts: {global.load: width / 8, shared.load: 1}\nlaunches:\n", 1)
    template = written(tmp_path, text + KERNELS)
    parameters = template.completed({})
    assert Instance(template, parameters, PROBLEM).predictions == {
        "global.load": parameters["width"] / 8,
        "shared.load": 1,
    }
    template = written(tmp_path, text.replace("width / 8", "entry") + KERNELS)
    with pytest.raises(UserError, check=coded("unknown-name", key="predicts.global.load", found="entry", line=5)):
        _ = Instance(template, parameters, PROBLEM).predictions


def test_no_launch_left_is_an_error(tmp_path):
    text = FRONT.replace("- entry: copy", "- when: n < 0\n    entry: copy").replace(
        "{entry: add", "{when: n < 0, entry: add"
    )
    with pytest.raises(UserError, check=coded("wrong-value", key="launches", line=5)):
        sequence(tmp_path, text)


def test_launches_run_in_order_on_the_same_buffers(tmp_path):
    emulation = executed(tmp_path)
    assert emulation.unsupported == ""
    assert emulation.fault == ""
    assert emulation.verification.passed
    assert [step.entry for step in emulation.launches] == ["copy", "add"]
    parts = [step.executed for step in emulation.launches]
    assert emulation.executed == parts[0] + parts[1]
    assert emulation.executed.memory["global.store"].requests == sum(p.memory["global.store"].requests for p in parts)
    assert emulation.hot_loop is None


def test_scratch_that_nobody_wrote_is_poison(tmp_path):
    # the second launch reads one element beyond what the first wrote
    shifted = executed(tmp_path, FRONT + KERNELS.replace("= sum[i] + half[i]", "= sum[i] + half[i + 1]"))
    assert "got nan" in shifted.verification.worst


def test_the_first_launch_may_not_read_scratch_that_it_did_not_write(tmp_path):
    emulation = executed(tmp_path, FRONT + KERNELS.replace("half[i] = x[i]", "half[i] += x[i]"))
    assert emulation.findings[0].kind == "uninitialised-read"
    assert [step.executed is None for step in emulation.launches] == [False, True]


def test_an_argument_that_nothing_provides_is_named(tmp_path):
    emulation = executed(tmp_path, FRONT.replace("{n: int32, x: T*", "{n: int32, q: T*") + KERNELS)
    assert "no argument of this name" in emulation.failure
    assert "'q'" in emulation.failure


def test_a_name_in_braces_stands_for_the_words_of_its_value(tmp_path):
    text = FRONT.replace("{n: int32, x: T*, half: T*}", """{"{'n x' if width > 16 else 'n'}": T, "{'half'}": T*}""", 1)
    template = written(tmp_path, text + KERNELS)
    for width, names in ((32, ["n", "x"]), (8, ["n"])):
        launch_sequence = Instance(template, {"width": width}, PROBLEM).launches
        expected = (*((name, "float64") for name in names), ("half", "float64*"))
        assert launch_sequence.steps[0].arguments == expected


def test_a_field_without_a_value_has_the_word_for_that(tmp_path):
    front = FRONT.replace(
        "parameters:", 'problem: {way: [none, quick]}\nrequires: [{that: way == "none", because: slow}]\nparameters:'
    )
    template = written(tmp_path, front + KERNELS.replace("half[i];\n    }", "half[i];  // {{ way }}.\n    }"))
    plain, quick, odd = (
        Instance.of(template, {}, {**PROBLEM, **more}) for more in ({}, {"way": "quick"}, {"way": "odd"})
    )
    assert plain.unsupported() is None
    assert plain.unmet() is None
    assert "// none." in plain.source
    assert quick.unmet().because == "slow"
    assert odd.unsupported() == ("way", ["none", "quick"])


def test_a_field_of_the_problem_is_an_object_in_expressions(tmp_path):
    text = FRONT.replace("operator: double", "operator: double\nfields: {equation: einsum}")
    text = text.replace('["ceil_div(n, width)"]', '["equation.depth | length"]')
    template = written(tmp_path, text + KERNELS)
    launch_sequence = Instance(template, {"width": 8}, {**PROBLEM, "equation": "iabc,abcj->ij"}).launches
    assert launch_sequence.steps[0].grid == (3, 1, 1)


MAPPED = """{#---
summary: y = 2 x, which a bulk tensor copy fetches.
operator: double
parameters: {width: {type: int, default: 32, help: h}}
entry: twice
grid: ["ceil_div(n, width)"]
block: [width]
arguments: {n: int32, map: tensor_map, y: T*}
tensor_maps:
  map: {of: "{'x'}", extents: [n, 1], leading: "ceil_div(n, 4) * 4", box: [width, 1]}
---#}
struct __align__(64) Map { unsigned long long words[16]; };
extern "C" __global__ void twice(int n, const __grid_constant__ Map map, {{ T }}* y) {
    __shared__ __align__(128) {{ T }} tile[{{ width }}];
    __shared__ unsigned long long full;
    const unsigned to = __cvta_generic_to_shared(tile), mbarrier = __cvta_generic_to_shared(&full);
    const int start = blockIdx.x * {{ width }};
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(mbarrier) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(mbarrier), "r"(int(sizeof tile)));
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                     "[%0], [%1, { %2, %3 }], [%4];"
                     ::"r"(to), "l"(&map), "r"(start), "r"(0), "r"(mbarrier) : "memory");
    }
    __syncthreads();
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra again; }"
                 ::"r"(mbarrier) : "memory");
    if (start + threadIdx.x < n) y[start + threadIdx.x] = 2 * tile[threadIdx.x];
}
"""


def test_a_tensor_map_is_an_argument(tmp_path):
    problem: dict[str, Scalar] = {"n": 77, "dtype": "float64"}
    source, launch_sequence = sequence(tmp_path, MAPPED, problem)
    assert launch_sequence.tensor_maps == (TensorMap("map", "x", "float64", (77, 1), 80, (32, 1)),)
    assert launch_sequence.steps[0].arguments[1] == ("map", "tensor_map")
    assert launch_sequence == sequence(tmp_path, MAPPED.replace("of:", 'type: "{dtype}", of:'), problem)[1]
    ptx = toolchain("nvrtc").compile(CompileRequest(source, "kernel.cu", "sm_90")).ptx
    emulation = emulate(EmulationTask(launch_sequence, DOUBLE, problem, 0, {}), ptx)
    assert (emulation.unsupported, emulation.fault) == ("", "")
    assert emulation.verification.passed
    other = replace(launch_sequence, tensor_maps=(replace(launch_sequence.tensor_maps[0], dtype="float32"),))
    emulation = emulate(EmulationTask(other, DOUBLE, problem, 0, {}), ptx)
    assert "the tensor map map describes float32 elements, but x holds float64" in emulation.failure


@pytest.mark.parametrize(
    ("old", "new", "key", "accepted"),
    [
        ("extents: [n, 1]", "extents: [0, 1]", "tensor_maps.map.extents", "1 to 4294967296"),
        ('leading: "ceil_div(n, 4) * 4"', "leading: n", "tensor_maps.map.leading", "a multiple of 2"),
        ("box: [width, 1]", "box: [257, 1]", "tensor_maps.map.box", "1 to 256"),
        ("box: [width, 1]", "box: [31, 1]", "tensor_maps.map.box", "a multiple of 2"),
        ("box: [width, 1]", "box: [width, 1], swizzle: 48", "tensor_maps.map.swizzle", "0, 32, 64, 128"),
        ("box: [width, 1]", "box: [width, 1], swizzle: 64", "tensor_maps.map.box", "at most 8"),
        ("of: \"{'x'}\"", "of: x, type: \"{'float8'}\"", "tensor_maps.map.type", "float64"),
        ("of: \"{'x'}\"", "of: x, type: float8", "tensor_maps.map.type", "an expression in braces"),
        ("map: tensor_map", "maps: tensor_map", "arguments.maps", "map"),
        ("map: tensor_map", "map: tensor_mop", "arguments.map", "tensor_map"),
    ],
)
def test_what_is_no_tensor_map_is_refused(tmp_path, old, new, key, accepted):
    assert old in MAPPED
    with pytest.raises(UserError) as caught:
        sequence(tmp_path, MAPPED.replace(old, new), {"n": 77, "dtype": "float64"})
    assert caught.value.key == key
    assert accepted in str(caught.value.accepted)
