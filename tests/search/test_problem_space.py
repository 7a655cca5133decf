"""A problem's points as a space to search are those of the experiment, with its compiler options."""

from __future__ import annotations

from pathlib import Path

from lab.experiment.load import from_text
from lab.experiment.space import expand
from lab.search.problem_space import SearchedProblem

TEXT = """\
question: q
operator: gemm
problem: {m: 64, n: 64, k: 64}
archs: [sm_90]
options: [[], [--maxrregcount=64]]
kernels:
  - template: gemm/tiled.cu.j2
    parameters: {unroll: [1, 8, 4], padding: [0, 4], double_buffer: [false, true]}
    constraints: [unroll + padding != 5]
  - {template: gemm/v3_shared.cu.j2}
  - {template: gemm/tiled.cu.j2, name: other, parameters: {unroll: [2, 4]}}
"""


def searched(text=TEXT):
    experiment = from_text(text, Path("e.yaml"))
    return experiment, SearchedProblem.of(experiment, experiment.problems[0])


def test_a_space_has_the_points_of_the_experiment_once_for_each_set_of_options():
    experiment, found = searched()
    expected = {(point.kernel.name, repr(point.parameters)) for point in expand(experiment).points}
    made = [(found.point(place), found.options(place)) for place in found.space.points]
    assert {(point.kernel.name, repr(point.parameters)) for point, _ in made} == expected
    assert len(made) == 2 * len(expected)
    assert {options for _, options in made} == {(), ("--maxrregcount=64",)}


def test_values_of_several_kernels_are_in_order_and_those_of_one_as_listed():
    _, found = searched()
    assert next(axis.values for axis in found.space.axes if axis.name == "unroll") == (1, 2, 4, 8)
    _, alone = searched(TEXT[: TEXT.index("  - {template: gemm/v3")])
    assert next(axis.values for axis in alone.space.axes if axis.name == "unroll") == (1, 8, 4)


def test_labels_are_those_of_a_sweep():
    experiment, found = searched()
    labels = {point.label for point in expand(experiment).points}
    assert {found.point(place).label for place in found.space.points} == labels
