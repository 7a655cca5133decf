"""Cluster launches in host code."""

from __future__ import annotations

import pytest

from lab.isa.cuda.kernels import read_kernels
from lab.templates.plain.clusters import launched_cluster

KERNEL = "__global__ void k(float *x) { unsigned n = cluster.clusterDim.x = 9; }\n"
SIDES = "a[0].val.clusterDim.x = {}; a[0].val.clusterDim.y = {}; a[0].val.clusterDim.z = {};"


def found(host: str, text: str = KERNEL, at: int = 0) -> tuple[str, ...]:
    whole = f"{text}void launch() {{ {host} }}\n"
    return launched_cluster(whole, read_kernels(whole)[at])


@pytest.mark.parametrize(
    ("host", "sides"),
    [
        ("", ()),
        ("// a[0].val.clusterDim.x = 2;\n", ()),
        (SIDES.format(2, 1, 1), ("2",)),
        (SIDES.format(1, 1, 1), ("1",)),
        (SIDES.format(1, 4, 1), ("1", "4")),
        ("constexpr int C = 8; " + SIDES.format("C", 1, 1), ("8",)),
        ("int c{2}; " + SIDES.format("c", "c", 1), ("2", "2")),
        ("int c = 2; c = 4; " + SIDES.format("c", 1, 1), ("c",)),
        (SIDES.format("M * 2", 1, 1), ("M * 2",)),
        ("a.val.clusterDim = {2, 2, 1};", ("2", "2")),
        ("a.val.clusterDim = dim3(4, 1, 1);", ("4",)),
        ("cudaLaunchAttribute a = {.val = {.clusterDim = {2, 1, 1}}};", ("2",)),
    ],
)
def test_sides(host, sides):
    assert found(host) == sides


def test_of_several_kernels_those_have_clusters_that_are_launched_with_attributes():
    two = KERNEL + "__global__ void other(float *x) {}\n"
    host = SIDES.format(2, 1, 1) + " cudaLaunchKernelEx(&config, k, x); other<<<1, 1>>>(x);"
    assert found(host, two) == ("2",)
    assert found(host, two, at=1) == ()
