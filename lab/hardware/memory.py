"""The cost of a warp's memory instruction: shared-memory wavefronts and global-memory sectors.

The rules reproduce the counters of an H200 pattern by pattern; docs/results/fidelity.md, made by benchmarks/fidelity,
has the comparison. Arrays have one row per warp and one column for each of its 32 lanes, unless a docstring says
otherwise; byte addresses are int64 and lane masks are bool.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.base.warp import BANK_BYTES, BANKS, LINE_BYTES, SECTOR_BYTES, WARP_SIZE

Integers = NDArray[np.int64]
Lanes = NDArray[np.bool_]

LARGEST_COPY = 16
"""Largest cp.async of one lane, in bytes (PTX ISA, `cp.async`)."""
CHUNK_BYTES = 512
"""Neighbouring bytes of global memory that one slice of L2 holds, as the rate of atomics on few counters shows:
256, 1024 and 4096 bytes keep 1, 2 and 8 slices busy (`experiments/micro/atomics_global.yaml` on an H200)."""
_FAR = np.int64(1) << 20
"""A number larger than any shared-memory address, so that two addresses can be packed into one integer."""


@dataclass(frozen=True, slots=True)
class Copy:
    """The cp.async of some warps. The functions below take arrays of shape (warps, 32), as returned by `by_warp`.

    Attributes:
        targets: Byte addresses in shared memory, int64.
        sources: Byte addresses in global memory, int64.
        width: Bytes copied per lane: 4, 8 or 16.
        active: Active lanes, bool.
        fetched: Lanes that read a source, bool; the other active lanes write zeros.
    """

    targets: Integers
    sources: Integers
    width: int
    active: Lanes
    fetched: Lanes

    def by_warp(self) -> Copy:
        """Return the copy with arrays of shape (warps, 32), from arrays of any shape with whole warps in order."""
        return Copy(
            self.targets.reshape(-1, WARP_SIZE),
            self.sources.reshape(-1, WARP_SIZE),
            self.width,
            self.active.reshape(-1, WARP_SIZE),
            self.fetched.reshape(-1, WARP_SIZE),
        )


def phase_lanes(width: int) -> int:
    """Return the lanes that shared memory serves per phase: 32 for up to 4 bytes per lane, 16 for 8, 8 for 16."""
    return {8: 16, 16: 8}.get(width, WARP_SIZE)


def shared_wavefronts(addresses: Integers, width: int, active: Lanes, *, loads: bool) -> Integers:
    """Return the shared-memory wavefronts of each warp's request.

    In each phase, every bank delivers one 4-byte word per wavefront, and lanes that access the same word share it. So a
    phase takes as many wavefronts as the busiest bank has distinct words. Loads of 8 and 16 bytes take half as many
    phases, each with twice the lanes, if every lane of the warp has the address of its neighbour (lane xor 1), or
    every lane that of lane xor 2; an inactive lane matches any address. Source: the counters of an H200
    (docs/results/fidelity.md).

    Args:
        addresses: Byte addresses, (warps, 32), int64.
        width: Bytes accessed per lane: 1, 2, 4, 8 or 16.
        active: Active lanes, (warps, 32), bool.
        loads: Whether these are loads; stores never take half the phases.

    Returns:
        Wavefronts of each warp, (warps,), int64; 0 where no lane is active.
    """
    result = _passes(addresses, width, active, phase_lanes(width))
    paired = _paired(addresses, width, active, loads=loads)
    if paired.any():
        result[paired] = _passes(addresses[paired], width, active[paired], 2 * phase_lanes(width))
    return result


def ideal_wavefronts(addresses: Integers, width: int, active: Lanes, *, loads: bool) -> Integers:
    """Return each warp's wavefronts without bank conflicts: one per phase with an active lane.

    Arguments and result are those of `shared_wavefronts`.
    """
    warps, lanes = len(active), phase_lanes(width)
    result: Integers = active.reshape(warps, -1, lanes).any(axis=2).sum(axis=1)
    paired = _paired(addresses, width, active, loads=loads)
    if paired.any():
        result[paired] = active[paired].reshape(np.count_nonzero(paired), -1, 2 * lanes).any(axis=2).sum(axis=1)
    return result


def _paired(addresses: Integers, width: int, active: Lanes, *, loads: bool) -> Lanes:
    """Return the mask of warps whose requests take half the phases, (warps,)."""
    if not loads or phase_lanes(width) == WARP_SIZE:
        return np.zeros(len(addresses), bool)
    return _shared_with(addresses, active, 1) | _shared_with(addresses, active, 2)


def _shared_with(addresses: Integers, active: Lanes, distance: int) -> Lanes:
    """Return the mask of warps whose lanes agree with lane xor `distance` wherever both are active, (warps,)."""
    partner = np.arange(WARP_SIZE) ^ distance
    agree = (addresses == addresses[:, partner]) | ~active | ~active[:, partner]
    result: Lanes = agree.all(axis=1)
    return result


def _passes(addresses: Integers, width: int, active: Lanes, lanes: int) -> Integers:
    """Return the wavefronts of each warp, (warps,), with `lanes` lanes per phase."""
    warps = len(addresses)
    words_each = max(1, width // BANK_BYTES)
    first = (addresses // BANK_BYTES).reshape(-1, lanes)
    words = (first[:, :, None] + np.arange(words_each)).reshape(len(first), -1)
    on = np.repeat(active.reshape(-1, lanes), words_each, axis=1)
    result: Integers = _busiest_bank(words, on).reshape(warps, -1).sum(axis=1)
    return result


def copy_wavefronts(copy: Copy) -> Integers:
    """Return the shared-memory wavefronts of each warp's cp.async.

    Copies of 4 and 8 bytes go through L1. In each phase, the wavefronts of the source line's busiest bank and those of
    shared memory's busiest bank add up, and no two lanes share a word. Copies of 16 bytes come from L2 in sectors. One
    wavefront moves all sectors between one source line and one target line whose positions in their lines have the same
    exclusive or. Two neighbouring lanes move a sector together if they fill both halves of it. Source: the counters
    of an H200; exact for copies whose 16-byte pieces have the same position in source and target sector
    (docs/results/fidelity.md).

    Returns:
        Wavefronts of each warp, (warps,), int64.
    """
    if copy.width == LARGEST_COPY:
        source, target, _ = _copied_units(copy, copy.active)
        turn = (source ^ target) // LARGEST_COPY % (LINE_BYTES // LARGEST_COPY)
        lines = (source // LINE_BYTES * _FAR + target // LINE_BYTES) * LINE_BYTES + turn
        return distinct_values(lines, copy.active)
    writing = _fullest_bank(copy.targets, copy.width, copy.active)
    reading = _fullest_bank(copy.sources, copy.width, copy.fetched)
    passes = writing + reading - ((writing > 0) & (reading > 0))
    result: Integers = passes.reshape(len(copy.targets), -1).sum(axis=1)
    return result


def copy_sectors(copy: Copy) -> Integers:
    """Return the sectors that each warp's cp.async requests, (warps,), int64.

    Copies of 16 bytes make one request per pair of source and target sector, or one per lane if the chunk has different
    positions in the two.
    """
    if copy.width != LARGEST_COPY:
        return global_sectors(copy.sources, copy.width, copy.fetched)
    source, target, is_sector = _copied_units(copy, copy.fetched)
    return distinct_values((source * _FAR + target) * 2 + is_sector, copy.fetched)


def _copied_units(copy: Copy, active: Lanes) -> tuple[Integers, Integers, Lanes]:
    """Return source and target address of the unit that moves each lane's 16 bytes, and a mask of whole sectors.

    All three are (warps, 32).
    """
    targets, sources, partner = copy.targets, copy.sources, np.arange(WARP_SIZE) ^ 1
    target_sectors, source_sectors = targets // SECTOR_BYTES, sources // SECTOR_BYTES
    joint = (
        active[:, partner]
        & (target_sectors == target_sectors[:, partner])
        & (source_sectors == source_sectors[:, partner])
    )
    joint &= (targets != targets[:, partner]) & (sources != sources[:, partner])
    is_sector = joint | (targets % SECTOR_BYTES == sources % SECTOR_BYTES)
    return (
        np.where(is_sector, source_sectors * SECTOR_BYTES, sources),
        np.where(is_sector, target_sectors * SECTOR_BYTES, targets),
        is_sector,
    )


def _fullest_bank(addresses: Integers, width: int, active: Lanes) -> Integers:
    """Return the lanes of the busiest bank in each phase, (warps x phases,); lanes do not share words."""
    words_each, lanes = width // BANK_BYTES, phase_lanes(width)
    first = (addresses // BANK_BYTES).reshape(-1, lanes)
    banks = (first[:, :, None] + np.arange(words_each)).reshape(len(first), -1) % BANKS
    on = np.repeat(active.reshape(-1, lanes), words_each, axis=1)
    rows = np.repeat(np.arange(len(first)), banks.shape[1])[on.reshape(-1)]
    counts = np.bincount(rows * BANKS + banks[on], minlength=len(first) * BANKS)
    result: Integers = counts.reshape(-1, BANKS).max(axis=1)
    return result


def distinct_values(values: Integers, active: Lanes) -> Integers:
    """Return the number of different values among each warp's active lanes, (warps,)."""
    ordered = np.sort(np.where(active, values, -1), axis=1)
    distinct = ordered >= 0
    distinct[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    result: Integers = distinct.sum(axis=1)
    return result


def _busiest_bank(words: Integers, on: Lanes) -> Integers:
    """Return the largest number of distinct words in one bank for each row of `words`, (rows,)."""
    ordered = np.sort(np.where(on, words, -1), axis=1)
    distinct = ordered >= 0
    distinct[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    rows = np.repeat(np.arange(len(words)), words.shape[1])[distinct.reshape(-1)]
    banks = ordered[distinct] % BANKS
    counts = np.bincount(rows * BANKS + banks, minlength=len(words) * BANKS)
    result: Integers = counts.reshape(-1, BANKS).max(axis=1)
    return result


def atomic_updates(addresses: Integers, active: Lanes, *, shared: bool) -> Integers:
    """Return the serialised updates of each warp's atomic request, (warps,), int64.

    L2 processes updates of different elements of a sector concurrently and those of one element serially; so each
    sector of a request takes as many steps as its busiest element has updates. Shared memory processes updates in
    different banks concurrently. Source: `experiments/micro/atomics_*.yaml` on an H200.

    Args:
        addresses: Byte addresses, (warps, 32), int64.
        active: Active lanes, (warps, 32), bool.
        shared: Whether the addresses are in shared memory.
    """
    alike = addresses // BANK_BYTES % BANKS if shared else addresses
    equal_targets = (alike[:, :, None] == alike[:, None, :]) & active[:, :, None] & active[:, None, :]
    meeting = equal_targets.sum(axis=2)  # lanes that update the same element as each lane, including itself
    if shared:
        return np.asarray(meeting.max(axis=1, initial=0), np.int64)
    sectors = addresses // SECTOR_BYTES
    together = (sectors[:, :, None] == sectors[:, None, :]) & active[:, :, None] & active[:, None, :]
    busiest = np.where(together, meeting[:, None, :], 0).max(axis=2)  # of each lane's sector
    lanes = np.maximum(together.sum(axis=2), 1)
    shares = np.where(active, busiest / lanes, 0.0)  # each sector's figure, spread over its lanes
    return np.asarray(np.rint(shares.sum(axis=1)), np.int64)


def global_sectors(addresses: Integers, width: int, active: Lanes) -> Integers:
    """Return the distinct 32-byte sectors that each warp's request accesses, (warps,), int64.

    The arguments are those of `shared_wavefronts`.
    """
    first, last = addresses // SECTOR_BYTES, (addresses + width - 1) // SECTOR_BYTES
    sectors = np.concatenate([first, last], axis=1)
    on = np.concatenate([active, active], axis=1)
    return distinct_values(sectors, on)
