from __future__ import annotations

from pathlib import Path

import pytest
from mistakes import coded
from tuning_support import BASE, tuning

from lab.base.errors import UserError
from lab.store.tuning_model import ProblemType
from lab.tuning.choose.halving import coarse
from lab.tuning.file.load import load

EXPERIMENTS = Path(__file__).parents[3] / "experiments"


def test_a_minimal_file(tmp_path):
    (group,) = tuning(tmp_path).groups
    assert group.type == ProblemType("float32", "nn")
    assert len(group.fork) == 1
    left_out = (group.common, group.fork_benchmark, group.join, group.join_benchmark, group.single)
    assert all(part is None for part in left_out)
    assert group.final.exact == ((64, 64, 64),)


@pytest.mark.parametrize(
    ("a", "b", "layout"),
    [("[0, 2]", "[2, 1]", "nn"), ("[0, 2]", "[1, 2]", "nt"), ("[2, 0]", "[2, 1]", "tn"), ("[2, 0]", "[1, 2]", "tt")],
)
def test_index_assignments_are_transposes(tmp_path, a, b, layout):
    (group,) = tuning(tmp_path, f"problem: {{IndexAssignmentsA: {a}, IndexAssignmentsB: {b}}}").groups
    assert group.type.layout == layout


def test_the_last_value_varies_fastest(tmp_path):
    (group,) = tuning(tmp_path, "ForkParameters: {ThreadTile: [[8, 4], [2, 2]], GlobalSplitU: [1, 2]}").groups
    assert [dict(option.values) for option in group.fork] == [
        {"ThreadTile": "8x4", "GlobalSplitU": "1"},
        {"ThreadTile": "8x4", "GlobalSplitU": "2"},
        {"ThreadTile": "2x2", "GlobalSplitU": "1"},
        {"ThreadTile": "2x2", "GlobalSplitU": "2"},
    ]
    assert group.fork[0].given == {"thread_tile_0": 8, "thread_tile_1": 4, "global_split_u": 1}


@pytest.mark.parametrize(
    ("steps", "line", "reason"),
    [
        ("ForkParameters: {ThreadTil: [[8, 8]]}", 6, "no such parameter"),
        ("ForkParameters: {ThreadTile: [[8]]}", 6, "ThreadTile does not accept"),
        ("ForkParameters: {ThreadTile: [[8, 800]]}", 6, r"thread_tile_1 \(.*\) does not accept"),
        ("ForkParameters: {PrefetchLocalRead: [1]}", 6, r"prefetch_local_read \(.*\) does not accept"),
        ("ForkParameters: {GlobalSplitU: 4}", 6, "not a list of values"),
        ("ForkParameters: {DepthU: [0]}", 6, "DepthU does not accept"),
        ("InitialSolutionParameters:\n  DepthU: 8\n  WorkGroup: [16]", 8, "WorkGroup does not accept"),
        (
            "JoinParameters: {parameters: [MacroTil], sizes: [{exact: [1, 1, 1]}]}",
            6,
            "no parameter or derived value has this name",
        ),
        ("JoinParameters: {parameters: [MacroTile]}", 6, "no sizes to time at"),
        ("BenchmarkForkParameters: {parameters: {GlobalSplitU: [1]}}", 6, "no sizes to time at"),
        ("benchmark: [{exact: [1, 1]}]", 6, "at least 3 items"),
        ("constraints: ['thread_tile_9 > 1']", 6, "the unknown name"),
        ("ForkParametres: {}", 6, "unknown key"),
        ("problem: {NumIndicesC: 4}", 6, "products of two matrices and batches"),
        ("problem: {NumIndicesC: 3, IndexAssignmentsA: [0, 2, 3]}", 6, "not the indices of A in a batch"),
        (
            "problem: {NumIndicesC: 3, IndexAssignmentsA: [0, 3, 2], IndexAssignmentsB: [2, 1]}",
            6,
            "indices of B in a b",
        ),
        ("problem: {IndexAssignmentsA: [1, 2]}", 6, "not the indices of A"),
        ("problem: {Precision: X}", 6, "wrong value"),
        ("single_tuned: {VectorWidth: 3}", 6, r"vector_width \(.*\) does not accept"),
    ],
)
def test_mistakes_are_told_with_their_line(tmp_path, steps, line, reason):
    with pytest.raises(UserError, match=reason) as raised:
        tuning(tmp_path, steps)
    assert raised.value.at.line == line
    assert str(raised.value.at.file).endswith("t.yaml")
    assert raised.value.key


def test_kernels_of_float64_are_tuned(tmp_path):
    read = tuning(tmp_path, "problem: {Precision: D, IndexAssignmentsB: [1, 2]}")
    assert [kind.label for kind in read.types] == ["float64_nt"]
    with pytest.raises(
        UserError, check=coded("unsupported", key="groups[0].template", found="gemm/sgemm.cu.j2", line=5)
    ) as raised:
        tuning(tmp_path, text=BASE.format(steps="    problem: {Precision: D}").replace("tensile.cu", "sgemm.cu"))
    assert "supports float64" in str(raised.value)


def test_tensiles_precisions_are_element_types(tmp_path):
    types = [tuning(tmp_path, f"problem: {{Precision: {letter}}}").types[0].dtype for letter in "SDHBCZ"]
    assert types == ["float32", "float64", "float16", "bfloat16", "complex64", "complex128"]


BATCHED = "problem: {NumIndicesC: 3, IndexAssignmentsA: [%s], IndexAssignmentsB: [%s]}"


@pytest.mark.parametrize(
    ("a", "b", "layout"),
    [
        ("0, 3, 2", "3, 1, 2", "nn"),
        ("0, 3, 2", "1, 3, 2", "nt"),
        ("3, 0, 2", "3, 1, 2", "tn"),
        ("3, 0, 2", "1, 3, 2", "tt"),
    ],
)
def test_a_batch_is_the_third_index_of_c(tmp_path, a, b, layout):
    text, _ = BASE.format(steps="    " + BATCHED % (a, b)).split("    BenchmarkFinalParameters")
    final = "    BenchmarkFinalParameters: [{range: [[64, 64, 128], 32, 5, 16]}]"
    (group,) = tuning(tmp_path, text=text + final).groups
    assert group.type == ProblemType("float32", layout, batched=True)
    assert group.final.ranges == ((64, 32, 16, 5), (128, 32, 16, 5))


def test_a_size_of_a_batch_has_four_numbers(tmp_path):
    with pytest.raises(
        UserError, check=coded("syntax", key="groups[0].BenchmarkFinalParameters[0]", found=[64, 64, 64], line=7)
    ) as raised:
        tuning(tmp_path, BATCHED % ("0, 3, 2", "3, 1, 2"))
    assert "m, n, batch, k" in str(raised.value)


def test_a_library_is_of_products_or_of_batches(tmp_path):
    def text(steps):
        return BASE.format(steps=steps).split("    BenchmarkFinalParameters")[0]

    sizes = "    BenchmarkFinalParameters: [{exact: [8, 8, 2, 8]}]\n"
    batches = text("    " + BATCHED % ("0, 3, 2", "3, 1, 2")) + sizes
    found = tuning(tmp_path, text="library: {name: some}\n" + batches)
    assert found.library is not None
    assert found.groups[0].type.batched
    products = BASE.format(steps="").partition("groups:\n")[2]
    with pytest.raises(
        UserError, check=coded("duplicate", key="library", found="groups with NumIndicesC 2 and 3", line=1)
    ) as raised:
        tuning(tmp_path, text="library: {name: some}\n" + batches + products)
    assert (raised.value.key, raised.value.at.line) == ("library", 1)


def test_a_template_that_computes_no_batches_is_refused_with_one_that_does(tmp_path):
    text = BASE.format(steps="    " + BATCHED % ("0, 3, 2", "3, 1, 2")).replace("tensile.cu", "sgemm.cu")
    with pytest.raises(
        UserError, check=coded("unsupported", key="groups[0].template", found="gemm/sgemm.cu.j2", line=5)
    ) as raised:
        tuning(tmp_path, text=text)
    assert "batches, as gemm/tensile.cu.j2 does" in str(raised.value)


def test_a_library_has_one_precision(tmp_path):
    both = BASE.format(steps="") + BASE.format(steps="    problem: {Precision: D}").partition("groups:\n")[2]
    assert len(tuning(tmp_path, text=both).types) == 2
    with pytest.raises(
        UserError, check=coded("duplicate", key="library", found=["float32", "float64"], line=12)
    ) as raised:
        tuning(tmp_path, text=both + "library: {name: made}\n")
    assert (raised.value.at.line, raised.value.key) == (12, "library")


def test_a_pause_below_zero_is_named_with_its_line(tmp_path):
    with pytest.raises(UserError) as raised:
        tuning(tmp_path, text=BASE.format(steps="") + "timing: {samples: 3, pause_ms: -5}\n")
    assert (raised.value.at.line, raised.value.key, raised.value.found) == (8, "timing.pause_ms", -5)
    assert "a number from 0 to 10000" in str(raised.value)


def test_a_template_that_is_none(tmp_path):
    with pytest.raises(
        UserError, check=coded("missing-file", key="groups[0].template", found="gemm/tensil.cu.j2", line=5)
    ) as raised:
        tuning(tmp_path, text=BASE.format(steps="").replace("tensile.cu", "tensil.cu"))
    assert raised.value.at.line == 5


def test_two_groups_of_one_name(tmp_path):
    text = BASE.format(steps="")
    with pytest.raises(UserError, check=coded("duplicate", key="groups[1].name", found="tensile", line=8)):
        tuning(tmp_path, text=text + text.partition("groups:\n")[2])


FILES = ("tensile", "tensile_brute", "tensile_small", "deepbench", "deepbench_paper", "precisions")


@pytest.mark.parametrize("name", [*(f"gemm_{name}" for name in FILES), "hgemm_deepbench", "h200_bf16"])
def test_the_files_that_come_along_are_right(name):
    assert load(EXPERIMENTS / f"{name}.yaml").groups


def test_experiment_1_is_the_papers():
    tensile, ours = load(EXPERIMENTS / "gemm_tensile.yaml").groups
    assert len(tensile.final.ranges) == 27 * 27
    assert len(tensile.fork) == 9 * 4 * 5
    assert ours.final == tensile.final


def test_brute_force_is_a_regular_part_of_experiment_1_with_its_coarse_sizes():
    whole, part = (load(EXPERIMENTS / f"{name}.yaml") for name in ("gemm_tensile", "gemm_tensile_brute"))
    assert part.halving is None
    (group,), (tensile, _) = part.groups, whole.groups
    assert len(group.final.ranges) == 14 * 14
    assert set(coarse(group.final, 2)) == set(coarse(tensile.final, whole.halving.coarse))
    assert {str(one.given) for one in group.fork} < {str(one.given) for one in tensile.fork}
    assert len(group.fork) == 9 * 4 * 3


def test_experiment_2_has_every_value_of_the_papers_lists():
    """The paper's section IV-E; each group may leave out some combinations, none of the values."""
    lists = {
        "ThreadTile": "8x8 8x6 8x4 8x2 6x8 6x6 6x4 6x3 4x8 4x6 4x4 4x3 4x2 3x6 3x4 3x3 2x2",
        "WorkGroup": "32x4x2 32x2x4 24x8x1 16x16x1 16x8x2 16x4x4 16x2x8 12x16x1 8x16x2 8x12x4 8x8x4 8x8x2 8x8x1 8x4x8 "
        "6x32x1 4x4x4",
        "GlobalSplitU": "2 4 6 8",
        "DepthU": "8 16 32 64",
        "PrefetchGlobalRead": "true false",
        "WorkGroupMapping": "8 1",
    }
    tuning = load(EXPERIMENTS / "gemm_deepbench_paper.yaml")
    for kind in tuning.types:
        groups = [group for group in tuning.groups if group.type == kind]
        values_by_name: dict[str, set[str]] = {name: set() for name in lists}
        for group in groups:
            steps = (group.common, group.join_benchmark)
            for option in (*group.fork, *(option for step in steps if step for option in step.options)):
                for name, value in option.values.items():
                    values_by_name[name].add(value)
        assert values_by_name == {name: set(text.split()) for name, text in lists.items()}
        assert {group.initial.get("global_split_u") for group in groups} == {1, 8}
    assert [kind.layout for kind in tuning.types] == ["nn", "tn", "nt"]
