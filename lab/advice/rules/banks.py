"""Bank conflicts of shared memory: the degree, the stride, and the pitch or swizzle that removes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from lab.advice.evidence import Evidence, SourceAccess
from lab.advice.finding import PerformanceFinding, Rule
from lab.advice.pitches import degree_of, relayout, stride_of
from lab.emulator.results import AccessPattern
from lab.predict.work import LaunchWork

_KEYS: Final = ("shared.load", "shared.store", "shared.copy")
_LEAST: Final = 0.25
"""Extra wavefronts per request below which a conflict costs less than what lanes at the edge of a tile do."""
_LEAST_SHARE: Final = 0.003
"""Share of the kernel's wavefronts that extra ones of a line must have."""


def find(evidence: Evidence) -> Iterator[PerformanceFinding]:
    """Yield a finding for each source line whose accesses conflict."""
    total = sum(evidence.total(key).wavefronts for key in (*_KEYS, "shared.atomic"))
    for access in evidence.accesses(*_KEYS):
        extra = access.count.bank_conflicts
        if extra < _LEAST * access.count.requests or extra < _LEAST_SHARE * total:
            continue
        share = 1 - extra / total

        def change(work: LaunchWork, share: float = share) -> LaunchWork:
            return replace(work, wavefronts=work.wavefronts * share, waited_wavefronts=work.waited_wavefronts * share)

        yield PerformanceFinding(
            Rule.BANK_CONFLICT,
            evidence.place(access.instructions[0], *_SASS[access.key]),
            _cause(access),
            _remedy(access),
            extra / total,
            evidence.gain(change),
        )


_VARYING: Final = 1.5
"""Degree of the costliest request over the mean from which on no single pitch explains the conflicts."""
_SASS: Final = {"shared.load": ("LDS", "LDSM"), "shared.store": ("STS", "STSM"), "shared.copy": ("LDGSTS",)}


def _cause(access: SourceAccess) -> str:
    count, pattern = access.count, access.pattern
    verb = access.key.partition(".")[2]
    counted = f"{count.bank_conflicts:,} of {count.wavefronts:,} wavefronts of this {verb} are conflicts"
    if pattern is None:
        return counted
    stride = stride_of(pattern)
    lanes = f", lanes {stride} bytes apart" if stride is not None else ""
    return f"{degree_of(pattern)}-way{lanes}: {counted}"


def _varies(pattern: AccessPattern) -> bool:
    """Return whether the degree differs from request to request, as in a tree whose stride grows."""
    return degree_of(pattern) > _VARYING * pattern.cost / max(1, pattern.ideal)


def _remedy(access: SourceAccess) -> str:
    if access.pattern is None:
        return "copy with consecutive lanes to consecutive words"
    found = relayout(access.pattern)
    if found is None or _varies(access.pattern):
        return "let neighbouring threads access neighbouring words in every step"
    pad = found.padded - found.pitch
    apart = f"{found.padded} bytes between the rows that meet instead of {found.pitch} (pad by {pad} bytes)"
    return f"{apart}, or an XOR swizzle of column and row, removes them" if found.swizzled else f"{apart} removes them"
