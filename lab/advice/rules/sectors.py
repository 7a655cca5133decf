"""Global accesses that touch more sectors than their bytes fill: strided, scattered or misaligned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from lab.advice.evidence import Evidence, SourceAccess
from lab.advice.finding import PerformanceFinding, Rule, Skipped
from lab.advice.pitches import stride_of
from lab.base.warp import LINE_BYTES, SECTOR_BYTES
from lab.emulator.results import AccessPattern
from lab.predict.work import Fetched, LaunchWork

_LEAST: Final = 1.1
"""Sectors over the fewest possible below which an access counts as coalesced: the edges of a problem cost some."""
_LEAST_SHARE: Final = 0.05
_ALIGNED: Final = 8
"""Elements of which a row of four-byte numbers fills whole sectors."""
_LIKE_REAL: Final = f"sizes under emulate that are multiples of {_ALIGNED} where those of the problem are"
_SASS: Final = {"global.load": ("LDG", "LD"), "global.store": ("STG", "ST")}


def find(evidence: Evidence) -> Iterator[PerformanceFinding]:
    """Yield a finding for each source line whose requests touch too many sectors.

    Misaligned ones are left out where their alignment may be that of the executed size alone.
    """
    for found in _every(evidence):
        if found.rule is not Rule.MISALIGNED or not _awkward(evidence):
            yield found


def undecided(evidence: Evidence) -> tuple[Skipped, ...]:
    """Return the rule that the executed size leaves open: rows that begin within sectors at one of the sizes alone."""
    hidden = any(real % _ALIGNED and not small % _ALIGNED for real, small in evidence.sizes)
    shown = _awkward(evidence) and any(found.rule is Rule.MISALIGNED for found in _every(evidence))
    return (Skipped(Rule.MISALIGNED, _LIKE_REAL),) if hidden or shown else ()


def _awkward(evidence: Evidence) -> bool:
    """Return whether a size of the executed problem fills sectors in part, and that of the real one does not."""
    return any(small % _ALIGNED and not real % _ALIGNED for real, small in evidence.sizes)


def _every(evidence: Evidence) -> Iterator[PerformanceFinding]:
    every = sum(evidence.total(key).sectors for key in (*_SASS, "global.copy", "global.atomic"))
    for access in evidence.accesses(*_SASS):
        total, now = evidence.total(access.key).sectors, access.count.sectors
        ideal = _ideal(access)
        if now < _LEAST * ideal or now - ideal < _LEAST_SHARE * every:
            continue
        kept = 1 - (now - ideal) / total
        loads = access.key == "global.load"
        rule = Rule.MISALIGNED if _shifted(access) else Rule.UNCOALESCED
        yield PerformanceFinding(
            rule,
            evidence.place(access.instructions[0], *_SASS[access.key]),
            _cause(evidence, access, ideal),
            _remedy(access, rule),
            (now - ideal) / every,
            evidence.gain(
                partial(_fewer_loads if loads else _fewer_stores, kept=kept), _dram(evidence, now - ideal, loads=loads)
            ),
        )


def _ideal(access: SourceAccess) -> float:
    """Return the fewest sectors: by the addresses that were looked at, else by the bytes that threads ask for."""
    pattern = access.pattern
    by_bytes = access.count.bytes_used / SECTOR_BYTES
    if pattern is None or not pattern.cost:
        return min(float(access.count.sectors), max(by_bytes, float(access.count.requests)))
    return access.count.sectors * pattern.ideal / pattern.cost


def _shifted(access: SourceAccess) -> bool:
    """Return whether lanes lie side by side in runs of whole sectors that begin within one."""
    pattern = access.pattern
    runs = _runs(pattern) if pattern is not None else []
    whole = [size for _, size in runs if size >= SECTOR_BYTES]
    return bool(runs) and len(whole) == len(runs) and any(start % SECTOR_BYTES for start, _ in runs)


def _runs(pattern: AccessPattern) -> list[tuple[int, int]]:
    """Return start and bytes of each run of neighbouring addresses that the lanes access."""
    runs: list[tuple[int, int]] = []
    for offset in sorted({offset for offset in pattern.lanes if offset >= 0}):
        if runs and offset == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + pattern.width)
        else:
            runs.append((offset, pattern.width))
    return runs


def _fewer_loads(work: LaunchWork, kept: float) -> LaunchWork:
    served = work.fetched
    if served is not None:
        passes = None if served.passes is None else served.passes * kept
        again, read = served.again * kept, served.likely * kept
        served = Fetched(served.lines * kept, read, served.least * kept, served.most * kept, again=again, passes=passes)
    return replace(work, load_sectors=work.load_sectors * kept, fetched=served)


def _fewer_stores(work: LaunchWork, kept: float) -> LaunchWork:
    return replace(work, store_sectors=work.store_sectors * kept, partial_bytes=0.0)


def _dram(evidence: Evidence, extra: float, *, loads: bool) -> float:
    """Return the factor of DRAM's bytes if neighbouring blocks used all of the sectors that they load."""
    served = evidence.work.launches[0].fetched if evidence.work is not None else None
    launch = evidence.work.launches[0] if evidence.work is not None else None
    if not loads or served is None or launch is None or evidence.work is None or not evidence.work.bytes_moved:
        return 1.0
    unused = (
        min(served.unused, SECTOR_BYTES * served.likely) * extra / max(extra, evidence.total("global.load").sectors)
    )
    return max(0.1, 1 - unused / evidence.work.bytes_moved)


def _cause(evidence: Evidence, access: SourceAccess, ideal: float) -> str:
    count, pattern = access.count, access.pattern
    verb = access.key.partition(".")[2]
    each, least = count.sectors_per_request, ideal / count.requests
    text = f"{each:.3g} sectors per {verb} request instead of {least:.3g}"
    if pattern is None:
        return text
    if _shifted(access):
        first = next(start % SECTOR_BYTES for start, _ in _runs(pattern) if start % SECTOR_BYTES)
        return f"{text}, the warp's first byte is {first} bytes into a sector"
    stride = stride_of(pattern)
    smaller = any(real != small for real, small in evidence.sizes)
    where = " at the executed size" if smaller and stride is not None and abs(stride) >= LINE_BYTES else ""
    apart = f"lanes {stride} bytes apart{where}" if stride is not None else "lanes scattered"
    return f"{text}, {apart}, {min(1.0, count.bytes_used / count.bytes_moved):.0%} of the bytes used"


def _remedy(access: SourceAccess, rule: Rule) -> str:
    if rule is Rule.MISALIGNED:
        return f"begin each warp's access at a multiple of {SECTOR_BYTES} bytes: pad the rows or shift the index"
    stride = stride_of(access.pattern) if access.pattern is not None else None
    width = access.pattern.width if access.pattern is not None else 0
    if stride is None:
        return "sort the indices, or gather through shared memory in the order of the addresses"
    if abs(stride) < LINE_BYTES and stride % (2 * width):
        return "one array for each member (SoA) instead of an array of structures"
    if abs(stride) < LINE_BYTES:
        return (
            "let neighbouring threads take neighbouring elements (a block's stride apart), or one array for each member"
        )
    return "let threadIdx.x run along the contiguous dimension, or transpose a tile in shared memory"
