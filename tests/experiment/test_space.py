from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mistakes import coded

from lab.base.errors import UserError
from lab.experiment.load import from_text
from lab.experiment.space import expand, neighbours


def experiment(parameters, constraints=(), problem="{m: 64, n: 64, k: 64}", **more):
    lines = ["question: q", "operator: gemm", f"problem: {problem}", "archs: [sm_90]"]
    lines += [f"{key}: {value}" for key, value in more.items()]
    lines += ["kernels:", "  - template: gemm/tiled.cu.j2", f"    constraints: {list(constraints)}", "    parameters:"]
    lines += [f"      {key}: {str(value).lower()}" for key, value in parameters.items()]
    return from_text("\n".join(lines).replace(" archs", "archs"), Path("e.yaml"))


def test_the_last_list_varies_fastest_and_labels_name_what_is_swept():
    points = expand(experiment({"unroll": [1, 2], "padding": 0, "double_buffer": [False, True]})).points
    assert [p.label for p in points] == [
        "unroll=1 double_buffer=false",
        "unroll=1 double_buffer=true",
        "unroll=2 double_buffer=false",
        "unroll=2 double_buffer=true",
    ]
    assert all(p.parameters["block_m"] == 128 for p in points)


@given(
    st.sets(st.sampled_from([1, 2, 4, 8]), min_size=1),
    st.sets(st.sampled_from([0, 4, 8]), min_size=1),
    st.integers(0, 12),
)
@settings(max_examples=30)
def test_constraints_keep_exactly_the_points_that_satisfy_them(unrolls, paddings, limit):
    allowed = [(u, p) for u, p in itertools.product(sorted(unrolls), sorted(paddings)) if u + p <= limit]
    parsed = experiment({"unroll": sorted(unrolls), "padding": sorted(paddings)}, [f"unroll + padding <= {limit}"])
    if allowed:
        expansion = expand(parsed)
        assert [(p.parameters["unroll"], p.parameters["padding"]) for p in expansion.points] == allowed
        assert sum(expansion.excluded.values()) == expansion.combinations - len(allowed)
    else:
        with pytest.raises(UserError, check=coded("nothing-left", key="kernels[0]", line=7)):
            expand(parsed)


def test_requirements_of_the_template_leave_points_out():
    expansion = expand(experiment({"block_k": [8, 16], "unroll": 16}))
    assert [p.parameters["block_k"] for p in expansion.points] == [16]
    ((why, count),) = expansion.excluded.items()
    assert "block_k % unroll" in why
    assert count == 1


def test_a_point_that_cannot_be_says_why():
    with pytest.raises(UserError) as caught:
        expand(experiment({"block_k": 8, "unroll": 16}))
    assert "block_k % unroll" in str(caught.value.found)


def test_large_sweeps_want_to_be_asked_for():
    parsed = experiment({"unroll": [1, 2, 4, 8], "padding": [0, 4]}, toolchains="[nvrtc, nvcc]")
    with pytest.raises(UserError, check=coded("out-of-range", key="kernels")):
        expand(parsed, max_variants=15)
    assert len(expand(parsed, max_variants=16).points) == 8


def test_points_come_problem_by_problem():
    points = expand(experiment({"unroll": [1, 2]}, problem="{m: [64, 128], n: 64, k: 64}")).points
    assert [p.label for p in points] == ["m=64 unroll=1", "m=64 unroll=2", "m=128 unroll=1", "m=128 unroll=2"]


def test_constraints_may_use_the_problem():
    parsed = experiment({"block_k": [8, 16]}, ["k % block_k == 0"], problem="{m: 64, n: 64, k: [24, 32]}")
    assert [p.label for p in expand(parsed).points] == ["k=24 block_k=8", "k=32 block_k=8", "k=32 block_k=16"]


SPACE = {"unroll": [1, 2, 4, 8], "padding": [0, 4], "double_buffer": [False, True], "vector_width": [1, 2, 4]}


def key(point):
    return point.label


def test_a_sample_is_reproducible_valid_and_without_repeats():
    parsed = experiment(SPACE, ["unroll < 8"], search="{sample: 10, seed: 3}")
    first, again = expand(parsed), expand(parsed)
    assert list(map(key, first.points)) == list(map(key, again.points))
    assert len(set(map(key, first.points))) == 10
    assert all(p.parameters["unroll"] < 8 for p in first.points)
    assert (first.combinations, first.drawn) == (48, 10 + first.excluded.get("unroll < 8", 0))
    other = expand(experiment(SPACE, ["unroll < 8"], search="{sample: 10, seed: 4}"))
    assert set(map(key, other.points)) != set(map(key, first.points))


def test_a_sample_larger_than_the_space_is_the_space():
    sampled = expand(experiment(SPACE, ["unroll < 8"], search="{sample: 1000}"))
    everything = expand(experiment(SPACE, ["unroll < 8"]))
    assert set(map(key, sampled.points)) == set(map(key, everything.points))
    assert sampled.drawn == 48


def test_an_astronomical_space_is_sampled_without_being_listed(tmp_path):
    names = [f"p{i}" for i in range(24)]
    declared = "\n".join(f"  {name}: {{type: int, default: 0, help: h}}" for name in names)
    (tmp_path / "wide.cu.j2").write_text(
        "{#---\nsummary: s\noperator: gemm\nentry: k\ngrid: [1]\nblock: [1]\narguments: {m: int32}\n"
        f"parameters:\n{declared}\n---#}}\n"
    )
    swept = "\n".join(f"      {name}: {{range: [0, 999, 1]}}" for name in names)
    text = (
        "question: q\noperator: gemm\nproblem: {m: 1, n: 1, k: 1}\narchs: [sm_90]\nsearch: {sample: 50}\n"
        f"kernels:\n  - template: wide.cu.j2\n    constraints: [p0 % 2 == 0]\n    parameters:\n{swept}\n"
    )
    expansion = expand(from_text(text, tmp_path / "e.yaml"))
    assert expansion.combinations == 1000**24
    assert len(expansion.points) == 50
    assert all(p.parameters["p0"] % 2 == 0 for p in expansion.points)
    assert len({p.parameters["p7"] for p in expansion.points}) > 40


def test_a_sampled_point_is_tried_for_every_problem_that_allows_it():
    parsed = experiment(
        {"block_k": [8, 16]}, ["k % block_k == 0"], problem="{m: 64, n: 64, k: [24, 32]}", search="{sample: 2}"
    )
    assert sorted(map(key, expand(parsed).points)) == ["k=24 block_k=8", "k=32 block_k=16", "k=32 block_k=8"]


def test_neighbours_differ_in_one_parameter_and_are_new_and_valid():
    points = {p.label: p for p in expand(experiment(SPACE, ["unroll < 8"])).points}
    start = points["unroll=4 padding=0 double_buffer=false vector_width=1"]
    seen = points["unroll=4 padding=4 double_buffer=false vector_width=1"]
    assert [p.label for p in neighbours([start], [start, seen])] == [
        "unroll=2 padding=0 double_buffer=false vector_width=1",
        "unroll=4 padding=0 double_buffer=true vector_width=1",
        "unroll=4 padding=0 double_buffer=false vector_width=2",
    ]


@pytest.mark.parametrize(
    ("search", "words"),
    [
        ("{sample: 0}", "an integer of at least 1"),
        ("{sampel: 3}", "did you mean 'sample'"),
        ("{sample: 3, refine: {tops: 2}}", "did you mean 'top'"),
        ("{sample: 3, prune: {below_prediction: 2}}", "a number from 0 to 1"),
    ],
)
def test_mistakes_in_a_search_are_named(search, words):
    with pytest.raises(UserError) as caught:
        experiment(SPACE, search=search)
    assert words in str(caught.value)
