"""Reads from the host code of a source which clusters it launches its kernel in."""

from __future__ import annotations

import re

from tree_sitter import Node

from lab.isa.cuda.kernels import SourceKernel, read_kernels
from lab.isa.cuda.tree import words, written
from lab.templates.plain.launches import HostCode, host_code, sides_of

_SIDE = re.compile(r"\bclusterDim\.([xyz])")


def launched_cluster(text: str, kernel: SourceKernel) -> tuple[str, ...]:
    """Return the sides of the clusters that host code asks for by `cudaLaunchAttributeClusterDimension`.

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
    given = [_value(sides[axis], host) if axis in sides else "1" for axis in "xyz"] if sides else []
    given = given or [_value(one, host) for one in listed]
    if not given or not _is_launched(host, kernel, read_kernels(text)):
        return ()
    while len(given) > 1 and given[-1] == "1":
        given.pop()
    return tuple(given)


def _is_launched(host: HostCode, kernel: SourceKernel, kernels: tuple[SourceKernel, ...]) -> bool:
    calls = [words(one) for one in host.find("call_expression")] if len(kernels) > 1 else []
    return len(kernels) == 1 or any(one[0].startswith("cudaLaunchKernelEx") and kernel.name in one for one in calls)


def _value(side: Node, host: HostCode) -> str:
    """Return the number behind a word that the host gives one value, else the word or the expression itself."""
    name = " ".join(words(side))
    values = {"".join(words(one)).strip("{}()") for one in host.values.get(name, ())}
    return values.pop() if len(values) == 1 and all(value.isdecimal() for value in values) else name
