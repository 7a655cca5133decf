"""Atomics of many threads on few addresses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from lab.advice.evidence import Evidence, SourceAccess
from lab.advice.finding import PerformanceFinding, Rule
from lab.predict.work import LaunchWork

_LEAST: Final = 2.0
"""Updates of one element per request from which on threads of a warp meet."""
_LEAST_GAIN: Final = 1.1
"""Gain from which on atomics of one thread per warp are worth combining in the block."""
_SASS: Final = ("ATOM", "ATOMG", "ATOMS", "RED", "REDG", "REDS")


def find(evidence: Evidence) -> Iterator[PerformanceFinding]:
    """Yield a finding for each source line whose atomics meet at few addresses."""
    for access in evidence.accesses("global.atomic", "shared.atomic"):
        count = access.count
        shared = access.key == "shared.atomic"
        updates_per_request = count.updates / max(1, count.requests if shared else count.sectors)
        lanes = (
            sum((evidence.counts or {})[instruction.line].threads for instruction in access.instructions)
            / count.requests
        )
        gain = _gain(evidence, access, together=updates_per_request if updates_per_request >= _LEAST else 1.0)
        if updates_per_request < _LEAST and (shared or gain is None or gain < _LEAST_GAIN):
            continue
        yield PerformanceFinding(
            Rule.CONTENDED_ATOMIC,
            evidence.place(access.instructions[0], *_SASS),
            _cause(access, updates_per_request, lanes),
            "combine the warp's values first (shuffles or __reduce_add_sync, one atomic per warp)"
            if shared
            else "combine in the warp (shuffles) and in the block (shared memory), then one atomic per block",
            1 - 1 / updates_per_request if updates_per_request >= _LEAST else 0.5,
            gain,
        )


def _cause(access: SourceAccess, updates_per_request: float, lanes: float) -> str:
    where = "shared" if access.key == "shared.atomic" else "global"
    if updates_per_request < _LEAST:
        return f"{access.count.requests:,} requests update few {where} addresses one after the other"
    together = f"{updates_per_request:.3g} of {lanes:.3g} lanes per request"
    return f"{together} update the same {where} address one after the other"


def _gain(evidence: Evidence, access: SourceAccess, *, together: float) -> float | None:
    """Return the gain of one update per warp in shared memory, and one per block in global memory.

    Args:
        evidence: All that is known.
        access: The atomics.
        together: Lanes of a request that update one element.
    """
    shared = access.key == "shared.atomic"
    every = evidence.total(access.key).updates

    def combined(work: LaunchWork) -> LaunchWork:
        if shared:
            extra = max(0, access.count.updates - access.count.requests)
            total = sum(evidence.total(key).wavefronts for key in ("shared.load", "shared.store", "shared.atomic"))
            kept = 1 - min(extra, total) / max(1, total)
            return replace(work, wavefronts=work.wavefronts * kept, waited_wavefronts=work.waited_wavefronts * kept)
        mine = work.updates * access.count.updates / max(1, every)
        left = min(mine / together, float(work.blocks))
        return replace(work, updates=work.updates - mine + left)

    return evidence.gain(combined)
