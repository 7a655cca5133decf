from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.errors import UserError
from lab.experiment import expand
from lab.experiment.load import from_text


def experiment(parameters, constraints=(), **more):
    lines = ["question: q", "operator: gemm", "problem: {m: 64, n: 64, k: 64}", "archs: [sm_90]"]
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
@settings(deadline=None, max_examples=30)
def test_constraints_keep_exactly_the_points_that_satisfy_them(unrolls, paddings, limit):
    allowed = [(u, p) for u, p in itertools.product(sorted(unrolls), sorted(paddings)) if u + p <= limit]
    made = experiment({"unroll": sorted(unrolls), "padding": sorted(paddings)}, [f"unroll + padding <= {limit}"])
    if allowed:
        expansion = expand(made)
        assert [(p.parameters["unroll"], p.parameters["padding"]) for p in expansion.points] == allowed
        assert sum(expansion.excluded.values()) == expansion.combinations - len(allowed)
    else:
        with pytest.raises(UserError, match="no combination"):
            expand(made)


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
    made = experiment({"unroll": [1, 2, 4, 8], "padding": [0, 4]}, toolchains="[nvrtc, nvcc]")
    with pytest.raises(UserError, match="--max-variants 16"):
        expand(made, max_variants=15)
    assert len(expand(made, max_variants=16).points) == 8
