"""What a warp's memory instruction costs: wavefronts of shared memory, sectors of global memory.

The rules are those that an H200's counters obey, pattern by pattern: docs/fidelity.md, which
benchmarks/fidelity makes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.base.warp import BANK_BYTES, BANKS, LINE_BYTES, SECTOR_BYTES, WARP_SIZE

Array = NDArray[Any]

LARGEST_COPY = 16
_FAR = np.int64(1) << 20
"""More than any shared address, to put two addresses into one number."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A cp.async of some warps.

    Attributes:
        targets: Byte addresses in shared memory, (warps, 32).
        sources: Byte addresses in global memory, (warps, 32).
        width: Bytes of a lane's copy: 4, 8 or 16.
        active: Lanes that take part, (warps, 32).
        fetched: Those of them that read a source; the others write zeros.
    """

    targets: Array
    sources: Array
    width: int
    active: Array
    fetched: Array


def phase_lanes(width: int) -> int:
    """Lanes that shared memory serves together: 32 up to 4 bytes a lane, 16 at 8, 8 at 16."""
    return {8: 16, 16: 8}.get(width, WARP_SIZE)


def shared_wavefronts(addresses: Array, width: int, active: Array, *, loads: bool) -> Array:
    """Return the passes through shared memory that each warp's request takes.

    In each phase every bank delivers one 4-byte word a pass; lanes that touch the same word share it. So a
    phase takes as many passes as the busiest bank has distinct words. Loads of 8 and 16 bytes take half the
    phases, each of twice the lanes, where every lane of the warp has the address of its neighbour (lane xor 1),
    or every lane that of lane xor 2; an idle lane agrees with any. All of it as an H200 counts
    (docs/fidelity.md).

    Args:
        addresses: Byte addresses, (warps, 32).
        width: Bytes of a lane's access: 1, 2, 4, 8 or 16.
        active: Lanes that take part, (warps, 32).
        loads: Loads; stores never share a phase.

    Returns:
        Wavefronts of each warp, 0 where no lane is active.
    """
    result = _passes(addresses, width, active, phase_lanes(width))
    paired = _paired(addresses, width, active, loads=loads)
    if paired.any():
        result[paired] = _passes(addresses[paired], width, active[paired], 2 * phase_lanes(width))
    return result


def ideal_wavefronts(addresses: Array, width: int, active: Array, *, loads: bool) -> Array:
    """Return the passes without bank conflicts: one for each phase with an active lane.

    Arguments as for `shared_wavefronts`.
    """
    warps, lanes = len(active), phase_lanes(width)
    result: Array = active.reshape(warps, -1, lanes).any(axis=2).sum(axis=1)
    paired = _paired(addresses, width, active, loads=loads)
    if paired.any():
        result[paired] = active[paired].reshape(np.count_nonzero(paired), -1, 2 * lanes).any(axis=2).sum(axis=1)
    return result


def _paired(addresses: Array, width: int, active: Array, *, loads: bool) -> Array:
    """Return which warps' requests take half the phases."""
    if not loads or phase_lanes(width) == WARP_SIZE:
        return np.zeros(len(addresses), bool)
    return _shared_with(addresses, active, 1) | _shared_with(addresses, active, 2)


def _shared_with(addresses: Array, active: Array, distance: int) -> Array:
    """Return which warps have every lane at the address of lane xor `distance`, as far as both are active."""
    partner = np.arange(WARP_SIZE) ^ distance
    agree = (addresses == addresses[:, partner]) | ~active | ~active[:, partner]
    result: Array = agree.all(axis=1)
    return result


def _passes(addresses: Array, width: int, active: Array, lanes: int) -> Array:
    """Return the passes of each warp, `lanes` lanes a phase."""
    warps = len(addresses)
    words_each = max(1, width // BANK_BYTES)
    first = (addresses // BANK_BYTES).reshape(-1, lanes)
    words = (first[:, :, None] + np.arange(words_each)).reshape(len(first), -1)
    on = np.repeat(active.reshape(-1, lanes), words_each, axis=1)
    result: Array = _busiest_bank(words, on).reshape(warps, -1).sum(axis=1)
    return result


def copy_wavefronts(copy: Copy) -> Array:
    """Return the passes through shared memory of each warp's cp.async.

    Copies of 4 and 8 bytes come through L1: in each phase, the busiest bank of the source line and that of
    shared memory add up, and no two lanes share a word. Copies of 16 bytes come from L2 in sectors: a pass
    moves those between one source line and one target line whose places in their lines differ by one and the
    same exclusive or. Two neighbouring lanes move a sector together where they fill both sides of it. Found on
    an H200: exact for copies whose 16-byte pieces lie alike in source and target sector (docs/fidelity.md).

    Returns:
        Wavefronts of each warp.
    """
    if copy.width == LARGEST_COPY:
        source, target, _ = _copied_units(copy, copy.active)
        turn = (source ^ target) // LARGEST_COPY % (LINE_BYTES // LARGEST_COPY)
        lines = (source // LINE_BYTES * _FAR + target // LINE_BYTES) * LINE_BYTES + turn
        return _distinct(lines, copy.active)
    written = _fullest_bank(copy.targets, copy.width, copy.active)
    read = _fullest_bank(copy.sources, copy.width, copy.fetched)
    passes = written + read - ((written > 0) & (read > 0))
    result: Array = passes.reshape(len(copy.targets), -1).sum(axis=1)
    return result


def copy_sectors(copy: Copy) -> Array:
    """Return the sectors that each warp's cp.async asks for.

    Copies of 16 bytes ask once for every pair of a source and a target sector, and lane by lane where the
    pieces lie differently in the two.
    """
    if copy.width != LARGEST_COPY:
        return global_sectors(copy.sources, copy.width, copy.fetched)
    source, target, whole = _copied_units(copy, copy.fetched)
    return _distinct((source * _FAR + target) * 2 + whole, copy.fetched)


def _copied_units(copy: Copy, active: Array) -> tuple[Array, Array, Array]:
    """Return source and target of the unit that each lane's 16 bytes travel in, and whether it is a sector."""
    targets, sources, partner = copy.targets, copy.sources, np.arange(WARP_SIZE) ^ 1
    to, of = targets // SECTOR_BYTES, sources // SECTOR_BYTES
    joint = active[:, partner] & (to == to[:, partner]) & (of == of[:, partner])
    joint &= (targets != targets[:, partner]) & (sources != sources[:, partner])
    whole = joint | (targets % SECTOR_BYTES == sources % SECTOR_BYTES)
    return np.where(whole, of * SECTOR_BYTES, sources), np.where(whole, to * SECTOR_BYTES, targets), whole


def _fullest_bank(addresses: Array, width: int, active: Array) -> Array:
    """Return, for each phase, the most lanes that one bank serves; lanes do not share words."""
    words_each, lanes = width // BANK_BYTES, phase_lanes(width)
    first = (addresses // BANK_BYTES).reshape(-1, lanes)
    banks = (first[:, :, None] + np.arange(words_each)).reshape(len(first), -1) % BANKS
    on = np.repeat(active.reshape(-1, lanes), words_each, axis=1)
    rows = np.repeat(np.arange(len(first)), banks.shape[1])[on.reshape(-1)]
    counts = np.bincount(rows * BANKS + banks[on], minlength=len(first) * BANKS)
    result: Array = counts.reshape(-1, BANKS).max(axis=1)
    return result


def _distinct(values: Array, active: Array) -> Array:
    """Return the number of different values among each warp's active lanes."""
    ordered = np.sort(np.where(active, values, -1), axis=1)
    distinct = ordered >= 0
    distinct[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    result: Array = distinct.sum(axis=1)
    return result


def _busiest_bank(words: Array, on: Array) -> Array:
    """Return, for each row, the largest number of distinct words in one bank."""
    ordered = np.sort(np.where(on, words, -1), axis=1)
    distinct = ordered >= 0
    distinct[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    rows = np.repeat(np.arange(len(words)), words.shape[1])[distinct.reshape(-1)]
    banks = ordered[distinct] % BANKS
    counts = np.bincount(rows * BANKS + banks, minlength=len(words) * BANKS)
    result: Array = counts.reshape(-1, BANKS).max(axis=1)
    return result


def global_sectors(addresses: Array, width: int, active: Array) -> Array:
    """Return the distinct 32-byte sectors that each warp's request touches. Arguments as above."""
    first, last = addresses // SECTOR_BYTES, (addresses + width - 1) // SECTOR_BYTES
    both = np.concatenate([first, last], axis=1)
    on = np.concatenate([active, active], axis=1)
    return _distinct(both, on)
