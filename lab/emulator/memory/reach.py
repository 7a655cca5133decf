"""Address resolution: the region of each address, and checks of bounds and alignment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from lab.emulator.arrays import Addresses, Indices, Mask
from lab.emulator.findings import BatchFindings
from lab.emulator.lanes import Lanes
from lab.emulator.memory.memory import PARAM_SEGMENT, SEGMENT_SHIFT, WITHIN_SEGMENT, AddressSpace, Region
from lab.emulator.memory.peers import absent_block, in_cluster, names_peer, peer_rows
from lab.emulator.program import Place
from lab.emulator.results import FindingKind

_WITHIN = np.int64(WITHIN_SEGMENT)
_CONSTANT = ("const", "param")


@dataclass(frozen=True, slots=True, eq=False)
class Reach:
    """The part of an access in one region.

    Attributes:
        region: The region.
        part: Positions within the access.
        lanes: The threads of that part.
        offsets: (count,) byte offsets as each thread sees them.
        places: (count,) byte offsets into the region's data.
    """

    region: Region
    part: Lanes
    lanes: Lanes
    offsets: Addresses
    places: Addresses


@dataclass(frozen=True, slots=True, eq=False)
class Attempt:
    """An access to be checked.

    Attributes:
        position: Index of the instruction.
        addresses: (count,) byte addresses in the instruction's state space.
        width: Bytes accessed per thread.
        lanes: The threads.
        verb: `load`, `store` or `atomic`, for findings.
    """

    position: int
    addresses: Addresses
    width: int
    lanes: Lanes
    verb: str


class AddressChecker:
    """Splits a batch's accesses by region, rejecting those out of bounds, misaligned, or to read-only memory.

    Attributes:
        extents: The shared or local variable each instruction's address derives from, by position.
    """

    def __init__(
        self, space: AddressSpace, shared: Region, local: Region, frame: Region, findings: BatchFindings
    ) -> None:
        """Set the memories.

        Args:
            space: Every region with a segment.
            shared: The batch's shared memory.
            local: The batch's local memory.
            frame: The batch's parameters of device functions.
            findings: The collector of faults.
        """
        self._space, self._findings = space, findings
        self.extents: Mapping[int, Place] = {}
        self._fixed = {"shared": shared, "local": local, "frame": frame}

    def reach(self, attempt: Attempt, space: str) -> Iterator[Reach]:
        """Yield the valid parts of an access; report the invalid ones.

        Args:
            attempt: The access.
            space: `global`, `shared`, `local`, `const`, `generic`, `frame` or `kernel-param`.
        """
        if not len(attempt.addresses):
            return
        for region, positions, offsets in self._regions(space, attempt.addresses):
            if region is None:
                detail = f"{attempt.verb} of {attempt.width} bytes where nothing is allocated"
                self._find("out-of-bounds", attempt, positions.indices(), detail)
                continue
            if attempt.verb != "load" and region.space in _CONSTANT and space != "frame":
                detail = f"{attempt.verb} of {attempt.width} bytes to {region.name}, which kernels can only read"
                self._find("read-only", attempt, positions.indices(), detail)
                continue
            if space == "generic" and region.space == "shared" and names_peer(offsets):
                yield from self._of_peers(attempt, region, positions, offsets)
                continue
            bad = self._bad(attempt, region, positions, offsets)
            if bad is None:
                lanes = attempt.lanes.among(positions)
                yield Reach(region, positions, lanes, offsets, region.places(offsets, lanes.rows))
                continue
            good = np.flatnonzero(~bad)
            if len(good):
                valid, inside = positions.take(good), offsets[good]
                lanes = attempt.lanes.among(valid)
                yield Reach(region, valid, lanes, inside, region.places(inside, lanes.rows))

    def _of_peers(self, attempt: Attempt, region: Region, positions: Lanes, offsets: Addresses) -> Iterator[Reach]:
        """Yield the valid part of a generic access to the shared memory of the cluster's blocks."""
        batch, lanes = self._findings.batch, attempt.lanes.among(positions)
        in_range = in_cluster(batch, offsets)
        if not in_range.all():
            detail = f"{attempt.verb} of {attempt.width} bytes {absent_block(batch)}"
            self._find("out-of-bounds", attempt, positions.take(np.flatnonzero(~in_range)).indices(), detail)
        valid = np.flatnonzero(in_range)
        if not len(valid):
            return
        inside, rows = peer_rows(batch, offsets[valid], lanes.take(valid))
        bad = self._bad(attempt, region, positions.take(valid), inside, name="a peer's shared memory")
        good = np.arange(len(valid)) if bad is None else np.flatnonzero(~bad)
        if len(good):
            chosen = positions.take(valid[good])
            places = inside[good] + rows[good] * region.stride
            yield Reach(region, chosen, attempt.lanes.among(chosen), inside[good], places)

    def _regions(self, space: str, addresses: Addresses) -> Iterator[tuple[Region | None, Lanes, Addresses]]:
        """Split (count,) addresses by region: the region or None, positions, and offsets in the region."""
        all_positions = Lanes(len(addresses))
        fixed = self._fixed.get(space)
        if fixed is not None:
            yield fixed, all_positions, addresses
            return
        if space == "kernel-param":
            yield self._space.regions[PARAM_SEGMENT], all_positions, addresses
            return
        segments = addresses >> SEGMENT_SHIFT
        first = int(segments[0])
        if (segments == first).all():
            yield self._allowed(space, first), all_positions, addresses & _WITHIN
            return
        for segment in np.unique(segments):
            at = np.flatnonzero(segments == segment)
            yield self._allowed(space, int(segment)), all_positions.take(at), addresses[at] & _WITHIN

    def _allowed(self, space: str, segment: int) -> Region | None:
        """Return a segment's region; None where an access to the space cannot reach it."""
        region = self._space.regions.get(segment)
        if region is None or space == "generic":
            return region
        return region if region.space in (space, "global") or (space == "global" and region.space == "const") else None

    def _nearest(self, region: Region, offset: int, name: str) -> str:
        """Describe an out-of-bounds offset, relative to the next buffer if it is shortly before that one."""
        following = self._space.regions.get((region.base >> SEGMENT_SHIFT) + 1) if region.space == "global" else None
        if following is not None and following.space == "global" and offset > _WITHIN // 2:
            region, offset, name = following, offset - int(_WITHIN) - 1, following.name
        return f"{offset} of {name} ({region.size} bytes)"

    def _bad(
        self, attempt: Attempt, region: Region, positions: Lanes, offsets: Addresses, *, name: str = ""
    ) -> Mask | None:
        """Report out-of-bounds and misaligned offsets; return their mask, or None if there are none.

        Findings use the region's own name by default.
        """
        width, bad, name = attempt.width, None, name or region.name
        limit = region.size - width
        access = f"{attempt.verb} of {width} bytes at offset"
        if limit < 0 or int(offsets.view(np.uint64).max()) > limit:
            bad = (offsets < 0) | (offsets > limit)
            at = np.flatnonzero(bad)
            detail = f"{access} {self._nearest(region, int(offsets[at[0]]), name)}"
            self._find("out-of-bounds", attempt, positions.take(at).indices(), detail)
        place = self.extents.get(attempt.position)
        if place is not None and region.space == place.space:
            beyond = (offsets < place.offset) | (offsets > place.offset + place.size - width)
            if beyond.any():
                at = np.flatnonzero(beyond)
                variable = self._findings.element(place.space, region.name, place.offset, width).partition(" of ")[2]
                inside = int(offsets[at[0]]) - place.offset
                detail = f"{access} {inside} of {variable}, beyond the variable"
                self._find("out-of-bounds", attempt, positions.take(at).indices(), detail)
                bad = beyond if bad is None else bad | beyond
        if width > 1 and int(np.bitwise_or.reduce(offsets)) & (width - 1):
            crooked = (offsets & (width - 1)) != 0
            bad = crooked if bad is None else bad | crooked
            at = np.flatnonzero(crooked)
            detail = f"{access} {int(offsets[at[0]])} of {name}"
            self._find("misaligned", attempt, positions.take(at).indices(), detail)
        return bad

    def _find(self, kind: FindingKind, attempt: Attempt, at: Indices, detail: str) -> None:
        """Report a fault of the threads at some positions of an access."""
        threads = attempt.lanes.take(at).indices()
        self._findings.add(kind, attempt.position, detail, threads, address=int(attempt.addresses[at[0]]))
