"""Atomics of many threads on few addresses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from lab.advice.evidence import Evidence, SourceAccess
from lab.advice.finding import PerformanceFinding, Rule
from lab.base.warp import WARP_SIZE
from lab.predict.work import LaunchWork

_LEAST: Final = 2.0
"""Updates of one element per request from which on threads of a warp meet."""
_SASS: Final = ("ATOM", "ATOMG", "ATOMS", "RED", "REDG", "REDS")


def find(evidence: Evidence) -> Iterator[PerformanceFinding]:
    """Yield a finding for each source line whose atomics meet at few addresses."""
    for access in evidence.accesses("global.atomic", "shared.atomic"):
        count = access.count
        each = count.updates / count.requests
        lanes = sum((evidence.counts or {})[one.line].threads for one in access.instructions) / count.requests
        if each < _LEAST:
            continue
        shared = access.key == "shared.atomic"
        yield PerformanceFinding(
            Rule.CONTENDED_ATOMIC,
            evidence.place(access.instructions[0], *_SASS),
            _cause(access, each, lanes),
            "combine the warp's values first (shuffles or __reduce_add_sync, one atomic per warp)"
            if shared
            else "combine in the warp (shuffles) and in the block (shared memory), then one atomic per block",
            1 - 1 / each,
            _gain(evidence, access, shared=shared),
        )


def _cause(access: SourceAccess, each: float, lanes: float) -> str:
    where = "shared" if access.key == "shared.atomic" else "global"
    return f"{each:.3g} of {lanes:.3g} lanes per request update the same {where} address one after the other"


def _gain(evidence: Evidence, access: SourceAccess, *, shared: bool) -> float | None:
    every = evidence.total(access.key).updates

    def combined(work: LaunchWork) -> LaunchWork:
        if shared:
            extra = max(0, access.count.updates - access.count.requests)
            total = sum(evidence.total(key).wavefronts for key in ("shared.load", "shared.store", "shared.atomic"))
            kept = 1 - min(extra, total) / max(1, total)
            return replace(work, wavefronts=work.wavefronts * kept, waited_wavefronts=work.waited_wavefronts * kept)
        mine = work.updates * access.count.updates / max(1, every)
        left = min(mine / WARP_SIZE, float(work.blocks))
        return replace(work, updates=work.updates - mine + left)

    return evidence.gain(combined)
