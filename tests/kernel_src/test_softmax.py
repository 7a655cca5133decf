"""Every softmax template, emulated: correct on awkward sizes and special rows, and free of faults."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from lab.base.elements import ELEMENT_BYTES
from lab.base.expressions import Scalar
from lab.experiment.load import load
from lab.experiment.space import expand
from lab.operators.builtin import operator
from lab.stages.emulate import EmulationTask, emulate
from lab.templates import front_matter as kernels
from lab.templates.instance import Instance
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import toolchain

ROOTS = kernels.search_path()
SOFTMAX = operator("softmax")
VARIANTS: dict[str, tuple[str, dict[str, Scalar]]] = {
    "naive": ("naive", {"threads": 64}),
    "naive expf": ("naive", {"threads": 128, "exponential": "expf"}),
    "part of a warp": ("fused", {"threads": 8, "rows_per_block": 16, "items": 16, "vector_width": 2}),
    "warp": ("fused", {"threads": 32, "rows_per_block": 2, "items": 12, "exponential": "expf"}),
    "block": ("fused", {"threads": 64, "items": 6, "streaming": True}),
    "block, two rows": ("fused", {"threads": 64, "rows_per_block": 2, "items": 14, "persistent": 2}),
    "block of 1024": ("fused", {"threads": 1024, "items": 1}),
    "staged": ("staged", {"threads": 64, "items": 6, "stages": 3, "persistent": 3}),
    "staged, as many as the SMs hold": ("staged", {"threads": 64, "items": 6, "persistent": "occupancy"}),
    "staged, one warp": ("staged", {"threads": 32, "items": 14, "persistent": 7}),
    "twice": ("twice", {"threads": 64, "unroll": 2}),
    "twice, forwards": ("twice", {"threads": 128, "unroll": 1, "backwards": False, "persistent": 4}),
    "cluster": ("fused", {"threads": 32, "cluster": 4, "items": 6, "vector_width": 2, "persistent": 8}),
    "cluster of eight": ("fused", {"threads": 64, "cluster": 8, "items": 1}),
    "staged cluster": ("staged", {"threads": 64, "items": 3, "cluster": 2, "stages": 2, "persistent": 6}),
    "twice in a cluster": ("twice", {"threads": 64, "cluster": 2, "unroll": 2, "persistent": 4}),
    "partly in shared memory": ("fused", {"threads": 64, "items": 2, "shared_items": 4, "rows_per_block": 2}),
    "cluster, partly in shared memory": (
        "fused",
        {"threads": 32, "cluster": 2, "items": 3, "shared_items": 4, "persistent": 6},
    ),
    "shifted": ("fused", {"threads": 64, "items": 6, "shifted": True, "persistent": 3}),
    "shifted, a warp a row": (
        "fused",
        {"threads": 32, "rows_per_block": 4, "items": 10, "shifted": True, "exponential": "expf"},
    ),
    "shifted, in a cluster, partly in shared memory": (
        "fused",
        {"threads": 32, "cluster": 2, "items": 3, "shared_items": 4, "shifted": True, "streaming": True},
    ),
    "shifted vectors of eight": (
        "fused",
        {"threads": 32, "rows_per_block": 2, "items": 4, "vector_width": 8, "shifted": True},
    ),
    "vectors of eight": ("fused", {"threads": 32, "rows_per_block": 4, "items": 4, "vector_width": 8}),
    "vectors of eight, exponentials twice": (
        "fused",
        {"threads": 96, "items": 2, "vector_width": 8, "shifted": True, "twice": True},
    ),
    "five warps": ("fused", {"threads": 160, "items": 3, "shifted": True}),
    "staged, three warps": ("staged", {"threads": 96, "items": 4, "persistent": 4}),
    "twice, three warps": ("twice", {"threads": 96, "unroll": 1}),
    "staged, shifted": ("staged", {"threads": 64, "items": 4, "stages": 2, "shifted": True, "persistent": 3}),
    "twice, shifted": ("twice", {"threads": 64, "cluster": 2, "unroll": 1, "shifted": True, "persistent": 6}),
}
TYPES = ("float32", "float16", "bfloat16")
SIZES: list[dict[str, Scalar]] = [
    {"m": 1, "n": 1},
    {"m": 23, "n": 7, "values": "special"},
    {"m": 21, "n": 129, "ldx": 130, "ldy": 133, "values": "special"},
    {"m": 22, "n": 256, "ldx": 264, "values": "special"},
    {"m": 5, "n": 1004, "ldx": 1008, "ldy": 1012},
    {"m": 3, "n": 1536},
    {"m": 9, "n": 203, "values": "special"},
    {"m": 21, "n": 131, "ldx": 135, "ldy": 139, "values": "special"},
]


@functools.lru_cache(maxsize=4)
def ptx_of(source):
    made = toolchain("nvrtc").compile(CompileRequest(source, "kernel.cu", "sm_90"))
    assert "warning" not in made.log  # a warning is noise, and NVRTC 13.0 loses ptxas's report behind one
    return made.ptx


def executed(name, given, problem):
    """None where the template leaves this point out."""
    template = kernels.load(f"softmax/{name}.cu.j2", ROOTS)
    parameters = template.completed(given)
    if Instance(template, parameters, problem).unmet():
        return None
    source = Instance(template, parameters, problem).source
    task = EmulationTask(Instance(template, parameters, problem).launches, "softmax", problem, 0, {})
    return emulate(task, ptx_of(source))


def variants_and_types():
    """Each template's first variant with every size in float32; the others with a type and every second size in turn.

    The types of 16 bits differ in how values are converted; those with vectors of eight take turns with these alone.
    What is thorough executes the same text of a template once more, with another type or at the other sizes.
    """
    seen_templates = set()
    for number, (variant, (template, _)) in enumerate(VARIANTS.items()):
        first = template not in seen_templates
        if first:
            yield pytest.param(variant, "float32", SIZES, id=f"{variant}-float32")
        types = TYPES[1:] if first or "vectors of eight" in variant else TYPES
        for dtype in TYPES[1:] if first else TYPES:
            for half in range(2):
                in_turn = dtype == types[number % len(types)] and half == number // 2 % 2
                marks = [] if in_turn else [pytest.mark.thorough]
                yield pytest.param(variant, dtype, SIZES[half::2], id=f"{variant}-{dtype}-{half}", marks=marks)
        seen_templates.add(template)


@pytest.mark.usefixtures("conditions")
@pytest.mark.parametrize(("variant", "dtype", "sizes"), list(variants_and_types()))
def test_every_template_compiles_without_warnings_and_is_right_and_clean(variant, dtype, sizes):
    checked = 0
    for size in reversed(sizes):
        emulation = executed(*VARIANTS[variant], SOFTMAX.problem({**size, "dtype": dtype}))
        if emulation is None:
            continue
        checked += 1
        assert emulation.unsupported == ""
        assert emulation.fault == "", f"{size}: {emulation.fault}"
        assert emulation.verification.passed
    if "vectors of eight" in variant and dtype == "float32":
        assert checked == 0  # 32 bytes are more than one instruction moves
    else:
        assert checked >= len(sizes) - 2


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("naive", {}),
        ("fused", {"threads": 256, "items": 1}),
        pytest.param("fused", {"threads": 32, "rows_per_block": 4, "items": 7}, marks=pytest.mark.thorough),
        ("staged", {"threads": 128, "items": 2, "persistent": 132}),
        pytest.param("twice", {"threads": 256}, marks=pytest.mark.thorough),  # 3 s, and nothing is new about its size
    ],
)
def test_1823_by_781(name, given):
    emulation = executed(name, given, SOFTMAX.problem({"m": 1823, "n": 781}))
    assert emulation.unsupported == ""
    assert emulation.fault == ""
    assert emulation.verification.passed


@pytest.mark.parametrize(
    ("name", "given", "read", "written"),
    [
        ("naive", {}, "5 * m * n + 2 * m", "3 * m * n + 2 * m"),
        ("fused", {"threads": 256, "items": 1}, "m * n", "m * n"),
        ("staged", {"threads": 128, "items": 2, "persistent": 4}, "m * n", "m * n"),
        ("twice", {"threads": 256}, "2 * m * n", "m * n"),
    ],
)
def test_bytes_that_threads_ask_for_are_those_that_the_idea_says(name, given, read, written):
    problem = SOFTMAX.problem({"m": 16, "n": 1024})
    memory = executed(name, given, problem).executed.memory
    sizes = {"m": 16, "n": 1024}
    broadcast = 0 if name != "naive" else 2 * 4 * 16 * 1023  # maximum and sum: every thread of a row asks for them
    loaded = sum(memory[key].bytes_used for key in ("global.load", "global.copy") if key in memory)
    assert loaded == 4 * eval(read, sizes) + broadcast  # noqa: S307 - written above
    assert memory["global.store"].bytes_used == 4 * eval(written, sizes)  # noqa: S307


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("staged", {"threads": 64, "items": 4, "persistent": 3}),
        ("fused", {"threads": 64, "items": 2, "shared_items": 2, "rows_per_block": 2}),
    ],
)
def test_asynchronous_copies_fall_on_whole_lines(name, given):
    memory = executed(name, given, SOFTMAX.problem({"m": 8, "n": 1024})).executed.memory
    assert memory["shared.copy"].bank_conflicts == 0
    assert memory["global.copy"].bytes_moved == memory["global.copy"].bytes_used


def test_the_naive_form_declares_its_traffic():
    template = kernels.load("softmax/naive.cu.j2", ROOTS)
    problem = SOFTMAX.problem({"m": 4096, "n": 1000})
    made = Instance(template, template.completed({}), problem).launches
    assert made.bytes_moved == 4 * (8 * 4096 * 1000 + 4 * 4096)
    assert made.entries == ("row_max", "subtract", "exponentials", "row_sum", "divide")


def test_rows_that_are_too_long_are_left_out():
    template = kernels.load("softmax/fused.cu.j2", ROOTS)
    parameters = template.completed({"threads": 256, "items": 4})
    assert Instance(template, parameters, SOFTMAX.problem({"m": 4, "n": 4096})).unmet() is None
    assert "fit" in Instance(template, parameters, SOFTMAX.problem({"m": 4, "n": 4097})).unmet().because


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_shifted_vectors_move_a_row_of_any_length_in_few_requests_and_sectors(dtype):
    m, n, problem = 16, 5003, SOFTMAX.problem({"m": 16, "n": 5003, "dtype": dtype})
    given = {"threads": 256, "items": 5}
    memory = executed("fused", {**given, "shifted": True}, problem).executed.memory
    apart = executed("fused", given, problem).executed.memory
    for access in ("global.load", "global.store"):
        shifted, single = memory[access], apart[access]
        assert shifted.bytes_used == single.bytes_used == m * n * ELEMENT_BYTES[dtype]
        # a warp takes 128 elements of a row with each request, and one request more for those outside the vectors
        assert shifted.requests <= m * (-(-n // 128) + 1) < 0.3 * single.requests
        # twice are touched only sectors that vectors share with the elements before and behind them
        assert shifted.sectors <= m * (n * ELEMENT_BYTES[dtype] // 32 + 3) < 0.9 * single.sectors


def test_rows_of_unequal_alignment_have_no_shifted_form():
    template = kernels.load("softmax/fused.cu.j2", ROOTS)
    parameters = template.completed({"shifted": True, "threads": 32, "rows_per_block": 4, "items": 8})

    def entry(**leading):
        return Instance(template, parameters, SOFTMAX.problem({"m": 4, "n": 777, **leading})).launches.entries

    assert entry() == ("softmax_shifted",)
    assert entry(ldx=778, ldy=782) == ("softmax_shifted",)
    assert entry(ldx=778) == ("softmax_scalar",)


def test_the_persistent_form_runs_at_each_length_of_tritons_benchmark():
    """Rows of 256 to 12672 in steps of 128."""
    experiment = load(Path(__file__).parents[2] / "experiments" / "softmax_rows.yaml")
    persistent = [point for point in expand(experiment).points if point.kernel.name == "prefetched"]
    assert {point.problem.values.plain["n"] for point in persistent} == {128 * i for i in range(2, 100)}
    assert {point.parameters["persistent"] for point in persistent} == {"occupancy"}
