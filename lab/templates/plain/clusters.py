"""Reads from the host code of a source which clusters it launches its kernel in."""

from __future__ import annotations

import re

from lab.isa.cuda.kernels import SourceKernel, read_kernels
from lab.isa.cuda.names import definitions
from lab.templates.plain.launches import host_words

_SIDE = re.compile(r"\bclusterDim \. ([xyz]) = ([^;{}]+?) ;")
_WHOLE = re.compile(r"\bclusterDim (?:= (?:dim3 )?)?[({] ([^;{}]+?) [)}]")
_EX = re.compile(r"\bcudaLaunchKernelEx\w* \(([^;]*)")
_NUMBER = re.compile(r"\d+")
_WORD = re.compile(r"[A-Za-z_]\w*")


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
    host = host_words(text)
    sides = dict(_SIDE.findall(host))
    given = [sides.get(axis, "1") for axis in "xyz"] if sides else _listed(host)
    if not given or not _is_launched(host, kernel, read_kernels(text)):
        return ()
    values = [_value(side.strip(), text, host) for side in given]
    while len(values) > 1 and values[-1] == "1":
        values.pop()
    return tuple(values)


def _listed(host: str) -> list[str]:
    found = _WHOLE.search(host)
    return found[1].split(",") if found else []


def _is_launched(host: str, kernel: SourceKernel, kernels: tuple[SourceKernel, ...]) -> bool:
    if len(kernels) == 1:
        return True
    return any(re.search(rf"\b{re.escape(kernel.name)}\b", launch) for launch in _EX.findall(host))


def _value(side: str, text: str, host: str) -> str:
    """Return the number behind a word that the host gives one value, else the word or the expression itself."""
    if not _WORD.fullmatch(side):
        return side
    values = {one.value.strip() for one in definitions(text) if one.name == side}
    values |= set(re.findall(rf"(?<!\. )\b{side} (?:= |\{{ |\( )(\d+)\b", host))
    return values.pop() if len(values) == 1 and all(_NUMBER.fullmatch(value) for value in values) else side
