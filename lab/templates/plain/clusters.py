"""Detection of the cluster size in a source's host code."""

from __future__ import annotations

import re

from tree_sitter import Node

from lab.isa.cuda.kernels import SourceKernel, read_kernels
from lab.isa.cuda.syntax_tree import words, written
from lab.templates.plain.launches import HostCode, host_code, sides_of

_SIDE = re.compile(r"\bclusterDim\.([xyz])")


def launched_cluster(text: str, kernel: SourceKernel) -> tuple[str, ...]:
    """Return the sides of the clusters requested by `cudaLaunchAttributeClusterDimension` in host code.

    Args:
        text: The source.
        kernel: One of its kernels. Of several, the attribute is that of the ones that `cudaLaunchKernelEx` names.

    Returns:
        Numbers, or words and expressions as the host has them; sides of 1 at the end are left out, but for the first.
        Nothing where no launch asks for clusters.
    """
    if "clusterDim" not in text:
        return ()
    host = host_code(text)
    sides, listed = dict[str, Node](), list[Node]()
    for node in host.find("assignment_expression", "initializer_pair"):
        target, value = node.children[0], node.children[-1]
        if match := _SIDE.search(written(target)):
            sides[match[1]] = value
        elif written(target).endswith("clusterDim"):
            listed = listed or list(sides_of(value))
    cluster_sides = [_value(sides[axis], host) if axis in sides else "1" for axis in "xyz"] if sides else []
    cluster_sides = cluster_sides or [_value(one, host) for one in listed]
    if not cluster_sides or not _is_launched(host, kernel, read_kernels(text)):
        return ()
    while len(cluster_sides) > 1 and cluster_sides[-1] == "1":
        cluster_sides.pop()
    return tuple(cluster_sides)


def _is_launched(host: HostCode, kernel: SourceKernel, kernels: tuple[SourceKernel, ...]) -> bool:
    calls = [words(one) for one in host.find("call_expression")] if len(kernels) > 1 else []
    return len(kernels) == 1 or any(call[0].startswith("cudaLaunchKernelEx") and kernel.name in call for call in calls)


def _value(side: Node, host: HostCode) -> str:
    """Return the number of a word if the host gives it only one value, else the word or expression itself."""
    name = " ".join(words(side))
    values = {"".join(words(definition)).strip("{}()") for definition in host.values.get(name, ())}
    return values.pop() if len(values) == 1 and all(value.isdecimal() for value in values) else name
