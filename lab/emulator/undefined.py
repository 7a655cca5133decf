"""Tracking of undefined values in registers, shared and local memory, up to their first effect.

Every watched register has an origin for each thread: 0 while its value is defined, else the number of the register or
load that the undefined value comes from. Arithmetic propagates origins, and so do shared and local memory. An origin
becomes a finding where it has an effect: in a branch or guard, an address, or a store to global memory. A value that is
only moved or deselected is not a fault: compilers emit such moves, and libraries read one element too many and select
another one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from lab.base.warp import WARP_SIZE
from lab.emulator import operands
from lab.emulator.arrays import Bits, Indices, Mask
from lab.emulator.binding import WARPGROUP, Storage
from lab.emulator.definedness import Roles, follows
from lab.emulator.findings import BatchFindings
from lab.emulator.lanes import Lanes, preceded, warp_of
from lab.emulator.memory.memory import Region
from lab.emulator.memory.reach import Reach
from lab.emulator.memory.watch import ForeignReads
from lab.emulator.opcodes import Opcode
from lab.emulator.operations.shapes import take_shape
from lab.emulator.operations.undefinedness import (
    Origins,
    Spread,
    group_product,
    loaded_registers,
    spread_of,
    stored_elements,
)
from lab.emulator.operations.warp import SHUFFLES, source_lanes
from lab.isa.model import Instruction

Act = Callable[[Lanes], object]

_STRICT = 1 << 30
"""The flag of strict origins, which win a maximum: a loaded matrix, whose registers all count."""


_LAST = _STRICT - 1
"""The first origin of shuffles. They count down, so that the first one in a sum is the greatest."""

_ALL_LANES = "make all 32 lanes execute the shuffle, with a neutral value if needed, or read active lanes only"


class TurnedLive(Exception):  # noqa: N818  a way out of a basic block, not an error
    """Raised when a load finds the batch's first undefined value: later instructions must track it."""


@dataclass(frozen=True, slots=True)
class _Load:
    """A load of unwritten shared or local memory."""

    position: int
    detail: str
    variable: str


@dataclass(frozen=True, slots=True)
class _Exchange:
    """A shuffle's first read of registers of inactive lanes."""

    position: int
    reads: ForeignReads


@dataclass(frozen=True, slots=True)
class _Sides:
    """The watched registers of an instruction, one entry per operand or element; None if not watched."""

    position: int
    number: int
    instruction: Instruction
    reads: list[Origins]
    writes: list[Origins]


class UndefinedValues:
    """The undefined values of one batch.

    Attributes:
        live: Some register may hold one; until then nothing is tracked.
    """

    def __init__(self, storage: Storage, findings: BatchFindings) -> None:
        """Start with possibly unwritten registers and all local memory undefined."""
        program, threads = storage.program, storage.batch.threads
        self._storage, self._findings, self._static = storage, findings, program.definedness
        self._block_ends = frozenset(block.end for block in program.blocks)
        self._sources: list[str | _Load | _Exchange] = [""]
        self._loads: dict[int, int] = {}
        self._origins: dict[tuple[int, str], Origins] = {}
        for number, name in sorted(self._static.watched):
            origin = 0
            if (number, name) in self._static.unwritten:
                origin = len(self._sources)
                self._sources.append(name)
            self._origins[number, name] = np.full(threads, origin, np.int32) if origin else np.zeros(threads, np.int32)
        self.live = bool(self._static.unwritten)
        self._written = Region("", "local", 0, program.local_bytes, row_count=threads)  # bits are set for written bytes
        self._loaded: dict[int, Origins] = {}  # unwritten origins by element of the current load
        self._fetched: dict[int, tuple[Indices, Origins]] = {}  # warpgroups and rows by operand of the current wgmma
        self._stored: list[Origins | None] = []  # by element of the current store
        self._exchanged: Origins | None = None  # values the current shuffle read from absent lanes
        self._kept: dict[tuple[str, int], int] = {}  # origins from shuffles in shared and local memory

    # --- instructions -----------------------------------------------------------------------------------------

    def around(self, position: int, full: Callable[[], object], masked: Act) -> tuple[Callable[[], object], Act]:
        """Wrap an instruction, without its guard, to track undefined values.

        While there are none, it is the instruction itself, except that a load raises `TurnedLive` after the first one.

        Args:
            position: Index of the instruction.
            full: Executes it for all threads of the batch.
            masked: Executes it for some threads.
        """
        number, instruction = self._storage.program.code[position]
        roles = self._static.roles(position)
        if not (self.live or self._static.follows(position)):
            return full, masked
        reads, writes, addresses = (
            [self._origins[number, name] for name in names if (number, name) in self._origins]
            for names in (roles.reads, roles.writes, roles.addresses)
        )
        if not (reads or writes or addresses):
            return full, masked
        sides = _Sides(position, number, instruction, reads, writes)
        family = instruction.opcode.split(".")[0]
        everyone = self._storage.batch.everyone
        follow = self._following(sides)
        if family == "wgmma":
            follow, masked = None, self._multiplying_group(sides, masked)
            full = partial(masked, everyone)
        elif family == "shfl":
            follow, masked = None, self._shuffling(sides, masked)
            full = partial(masked, everyone)
        elif follows(instruction):
            follow, masked = None, self._loading(sides, masked)
            full = partial(masked, everyone)
        elif family in ("st", "stmatrix", "wmma") and not roles.writes:
            masked = self._storing(sides, masked)
            full = partial(masked, everyone)
        elif family in ("atom", "red"):
            follow = self._updating(sides, follow)

        def before(lanes: Lanes) -> None:
            if not self.live:
                return
            for origins in addresses:
                self._check(position, origins, lanes, "is part of an address")
            if follow is not None:
                follow(lanes)

        return preceded(before, everyone, full, masked)

    def guards(self, position: int) -> Act | None:
        """Return a check of an instruction's guard and a terminator's operands; None if there is nothing to check.

        A terminator's results, such as a barrier's, count as defined afterwards.
        """
        number, instruction = self._storage.program.code[position]
        roles, ends = self._static.roles(position), position in self._block_ends
        names = (instruction.predicate,) if instruction.predicate else ()
        checked = [self._origins[number, name] for name in names if (number, name) in self._origins]
        writes: list[Origins] = []
        if ends and not instruction.opcode.startswith("call"):  # call arguments have no effect yet
            checked += [self._origins[number, name] for name in roles.reads if (number, name) in self._origins]
        if ends:
            writes = [self._origins[number, name] for name in roles.writes if (number, name) in self._origins]
        if not (checked or writes):
            return None

        def check(lanes: Lanes) -> None:
            if self.live:
                for origins in checked:
                    self._check(position, origins, lanes, "controls a branch or guard")
                for origins in writes:
                    origins[lanes.rows] = 0

        return check

    def _following(self, sides: _Sides) -> Act | None:
        """Return the propagation of origins from an instruction's sources to its results."""
        roles, opcode = self._static.roles(sides.position), sides.instruction.opcode
        if not (sides.writes or (sides.reads and roles.writes and roles.passes_on == "never")):
            return None
        if opcode.startswith("redux."):
            return self._reducing(sides)
        if opcode in ("and.pred", "or.pred"):
            return self._short_circuit(sides)
        spread = spread_of(opcode)
        if spread is not None:
            return self._multiplying(sides, spread)
        if sides.reads and opcode.startswith(("selp.", "slct.")):
            return self._choosing(sides)
        return self._passing_on(sides, roles)

    def _passing_on(self, sides: _Sides, roles: Roles) -> Act:
        """Return the propagation of all sources' origins to all results."""
        reads, writes = sides.reads, sides.writes
        if not reads:
            return lambda lanes: _give(writes, lanes, 0)
        if roles.passes_on == "never":
            return partial(self._dropping, sides)
        defined_part = roles.passes_on == "all" and len(reads) < len(roles.reads)
        join = np.maximum if roles.passes_on == "any" else np.minimum

        def pass_on(lanes: Lanes) -> None:
            result = worst = lanes.select(reads[0])
            for origins in reads[1:]:
                result, worst = join(result, lanes.select(origins)), np.maximum(worst, lanes.select(origins))
            if defined_part:
                result = np.zeros_like(result)
            _give(writes, lanes, np.where(worst >= _STRICT, worst, result))

        return pass_on

    def _dropping(self, sides: _Sides, lanes: Lanes) -> None:
        """Process an instruction whose result counts as defined; report undefined matrices among its sources."""
        for origins in sides.reads:
            self._report(sides.position, _strict(lanes.select(origins)), lanes, "is used")
        _give(sides.writes, lanes, 0)

    def _multiplying(self, sides: _Sides, spread: Spread) -> Act:
        """Return the element-wise propagation for a matrix product or transpose."""
        texts = [operands.elements(text) for text in sides.instruction.operands]
        results, *sources = [[self._of(sides, name) for name in names] for names in texts]

        def multiply(lanes: Lanes) -> None:
            if not any(origins.any() for origins in sides.reads):
                _give(sides.writes, lanes, 0)
                return
            for result, origins in zip(results, spread(sources), strict=True):
                _give([result], lanes, lanes.select(origins))

        return multiply

    def _of(self, sides: _Sides, text: str) -> Origins:
        """Return an operand's origins; zeros where it is not watched."""
        origins = self._origins.get((sides.number, text.lstrip("!- ")))
        return np.zeros(self._storage.batch.threads, np.int32) if origins is None else origins

    def _choosing(self, sides: _Sides) -> Act:
        """Return the propagation for a select: the result takes the origins of the chosen value and the selector."""
        texts, binder = sides.instruction.operands, self._storage.at(sides.position)
        first, second, which = (self._of(sides, text) for text in texts[1:4])
        by_sign = sides.instruction.opcode.startswith("slct")
        read_selector = binder.source(texts[3], sides.instruction.opcode.rsplit(".", 1)[-1] if by_sign else "pred")

        def choose(lanes: Lanes) -> None:
            value = read_selector(lanes)
            chosen = value >= 0 if by_sign else value
            result = np.where(chosen, lanes.select(first), lanes.select(second))
            _give(sides.writes, lanes, np.maximum(result, lanes.select(which)))

        return choose

    def _short_circuit(self, sides: _Sides) -> Act:
        """Return the propagation for `and` and `or` of predicates, which one defined operand may decide."""
        texts, binder = sides.instruction.operands[1:3], self._storage.at(sides.position)
        a, b = (self._of(sides, text) for text in texts)
        first, second = (binder.source(text, "pred") for text in texts)
        decisive = sides.instruction.opcode.startswith("or")

        def combine(lanes: Lanes) -> None:
            left, right = lanes.select(a), lanes.select(b)
            decided = ((first(lanes) == decisive) & (left == 0)) | ((second(lanes) == decisive) & (right == 0))
            _give(sides.writes, lanes, np.where(decided, np.int32(0), np.maximum(left, right)))

        return combine

    def _shuffling(self, sides: _Sides, masked: Act) -> Act:
        """Wrap a shuffle: each lane gets the source lane's origin; the predicate result is defined.

        A value from an inactive lane is undefined.
        """
        texts, binder = sides.instruction.operands, self._storage.at(sides.position)
        result, *flag = (self._of(sides, text.strip()) for text in texts[0].split("|"))
        source = self._of(sides, texts[1])
        read_b, read_c = (binder.source(text, "u32") for text in texts[2:4])
        mode = next(word for word in sides.instruction.opcode.split(".") if word in SHUFFLES)
        threads = np.arange(self._storage.batch.threads)
        lane = (threads % WARP_SIZE).astype(np.int32)

        def shuffle(lanes: Lanes) -> None:
            was_live, origins = self.live, np.zeros(lanes.count, np.int32)
            if was_live:  # before the shuffle writes to its operands
                mine = lanes.select(lane)
                source_lane, _ = source_lanes(mode, mine, read_b(lanes), read_c(lanes))
                origins = source[lanes.select(threads) - mine + source_lane]
            self._exchanged = None
            masked(lanes)
            if self._exchanged is not None:
                foreign = lanes.select(self._exchanged)
                origins = np.where(foreign > 0, foreign, origins)
            if self.live:
                _give([result], lanes, origins)
                _give(flag, lanes, 0)
            if self.live is not was_live:
                raise TurnedLive

        return shuffle

    def exchange(self, position: int, threads: Indices, reads: ForeignReads) -> None:
        """Record the (count,) threads that read registers of inactive lanes in a shuffle."""
        number = self._loads.get(position)
        if number is None:
            number = self._loads[position] = _STRICT | (_LAST - len(self._sources))
            self._sources.append(_Exchange(position, reads))
        self._exchanged = np.zeros(self._storage.batch.threads, np.int32)
        self._exchanged[threads] = number
        self.live = True

    def _reducing(self, sides: _Sides) -> Act:
        """Return the propagation for `redux`: any member's origin, or for bits, the origin common to all members."""
        opcode, texts = sides.instruction.opcode, sides.instruction.operands
        result, source = self._of(sides, texts[0]), self._of(sides, texts[1])
        read_mask = self._storage.at(sides.position).source(texts[2], "u32")
        warps = (np.arange(self._storage.batch.threads) // WARP_SIZE).astype(np.int64)
        join = np.minimum if opcode.endswith(".b32") else np.maximum

        def reduce(lanes: Lanes) -> None:
            origins = lanes.select(source)
            self._report(sides.position, _strict(origins), lanes, "is used")
            origins = np.where(origins >= _STRICT, 0, origins)  # already reported
            masks = np.broadcast_to(read_mask(lanes), origins.shape).astype(np.int64)
            _, first, group = np.unique(
                (lanes.select(warps) << WARP_SIZE) + masks, return_index=True, return_inverse=True
            )
            joined = origins[first]
            join.at(joined, group, origins)
            _give([result], lanes, joined[group])

        return reduce

    def _multiplying_group(self, sides: _Sides, masked: Act) -> Act:
        """Wrap a `wgmma`, whose operands are in registers or shared memory."""
        opcode, texts = sides.instruction.opcode, sides.instruction.operands
        inside = texts[1].startswith("{")
        results = [self._of(sides, name) for name in operands.elements(texts[0])]
        inputs = [self._of(sides, name) for name in operands.elements(texts[1])] if inside else []
        sparse = "sp" in opcode.split(".")
        metadata = self._of(sides, texts[3]) if sparse else None
        last = texts[5 if sparse else 3]  # behind the metadata and the selector of a sparse A
        other_origins = [self._of(sides, text) for text in (*texts[2 if inside else 1 : 3], last)]
        adds, batch = self._storage.at(sides.position).source(last, "pred"), self._storage.batch
        m, n, _ = take_shape(Opcode(opcode))

        def run(lanes: Lanes) -> None:
            self._fetched, was_live = {}, self.live
            masked(lanes)
            if self.live:
                for origins in other_origins:
                    self._report(sides.position, _strict(lanes.select(origins)), lanes, "is used")
                accumulates = np.zeros(batch.threads, np.bool_)
                accumulates[lanes.rows] = lanes.fill(adds(lanes))
                warps_per_block = batch.warps // batch.blocks
                warps = np.unique(warp_of(lanes.indices()))
                starts = np.unique(warps - warps % warps_per_block % WARPGROUP)
                rows, columns = (np.zeros((len(starts), count), np.int32) for count in (m, n))
                for into, operand in ((rows, 1), (columns, 2)):
                    if operand in self._fetched:
                        whose, row_origins = self._fetched[operand]
                        into[np.searchsorted(starts, whose)] = row_origins
                sums = [np.where(accumulates, origins, np.int32(0)) for origins in results]
                product = group_product(opcode, inputs, sums, (rows, columns), starts, metadata=metadata)
                for result, origins in zip(results, product, strict=True):
                    _give([result], lanes, lanes.select(origins))
            if self.live is not was_live:
                raise TurnedLive

        return run

    def fetch(self, position: int, operand: int, rows: Mask, starts: Indices, *, region: Region, offset: int) -> None:
        """Record which rows of a `wgmma` operand contain unwritten data.

        Args:
            position: Index of the instruction.
            operand: 1 for A, 2 for B (columns instead of rows).
            rows: (warpgroups, rows) whether each does.
            starts: (warpgroups,) the first warp of each.
            region: The shared memory.
            offset: Offset of the first one in the block's shared memory.
        """
        self._fetched[operand] = starts, np.where(rows, self._number(position, region, offset, 1), 0).astype(np.int32)
        self.live = True

    # --- memory -----------------------------------------------------------------------------------------------

    def _loading(self, sides: _Sides, masked: Act) -> Act:
        """Wrap a load whose results are undefined where they come from unwritten memory."""
        texts = operands.elements(sides.instruction.operands[0])
        targets, opcode = {i: self._of(sides, text) for i, text in enumerate(texts)}, sides.instruction.opcode

        def run(lanes: Lanes) -> None:
            self._loaded, was_live = {}, self.live
            masked(lanes)
            if self.live:
                loaded = loaded_registers(opcode, self._loaded, len(targets), lanes.threads)
                for i, origins in targets.items():
                    loaded_origins = loaded.get(i)
                    origins[lanes.rows] = 0 if loaded_origins is None else loaded_origins[lanes.rows]
            if self.live is not was_live:
                raise TurnedLive

        return run

    def _storing(self, sides: _Sides, masked: Act) -> Act:
        """Wrap a store to record which of its elements are undefined."""
        opcode = sides.instruction.opcode
        texts = operands.elements(sides.instruction.operands[-1 if opcode.startswith("st.") else 1])
        sources = [self._origins.get((sides.number, text)) for text in texts]
        fragment = None if opcode.startswith("st.") else [self._of(sides, text) for text in texts]

        def run(lanes: Lanes) -> None:
            if self.live:
                self._stored = list(sources if fragment is None else stored_elements(opcode, fragment))
            masked(lanes)
            self._stored = []

        return run

    def _updating(self, sides: _Sides, follow: Act | None) -> Act:
        """Return a check of an atomic update's source values."""

        def run(lanes: Lanes) -> None:
            for origins in sides.reads:
                self._check(sides.position, origins, lanes, "goes into an atomic update")
            if follow is not None:
                follow(lanes)

        return run

    def follows(self, position: int) -> bool:
        """Return whether a load's values are tracked, so that reading unwritten memory is not a finding yet."""
        return self._static.follows(position)

    def load_local(self, position: int, reach: Reach, width: int, vector: int) -> None:
        """Record unwritten local memory read by a load of `vector` elements of `width` bytes."""
        for i, bits in enumerate(self._written.load(reach.places, width, vector)):
            self.load(position, reach, bits == 0, i, width)

    def load(self, position: int, reach: Reach, fresh: Mask, element: int, width: int, *, first: int = 0) -> None:
        """Record for which threads of a load, (count,), an element of `width` bytes was unwritten.

        Args:
            position: Index of the instruction.
            reach: Where it falls.
            fresh: (count,) whether the element was unwritten.
            element: Number of the element in this access.
            width: Bytes of it.
            first: Number of the access's first element among those of the instruction.
        """
        if not fresh.any():
            return
        number = self._number(position, reach.region, int(reach.offsets[fresh][0]) + element * width, width)
        element_origins = self._loaded.setdefault(first + element, np.zeros(reach.lanes.threads, np.int32))
        threads = reach.lanes.indices()[fresh]
        element_origins[threads] = number
        if self._kept:
            places = reach.places[fresh] + element * width
            shuffled = [self._kept.get((reach.region.space, place), 0) for place in places.tolist()]
            element_origins[threads] = np.where(np.array(shuffled) > 0, shuffled, element_origins[threads])
        self.live = True

    def _number(self, position: int, region: Region, offset: int, width: int) -> int:
        """Return the origin for an instruction's unwritten reads; the offset is the first occurrence's."""
        number = self._loads.get(position)
        if number is None:
            plain = self._storage.program.code[position][1].opcode.startswith("ld.")
            number = self._loads[position] = len(self._sources) | (0 if plain else _STRICT)
            detail = f"nothing wrote this {region.space} memory ({region.name}, offset {offset})"
            variable = self._findings.element(region.space, region.name, offset, width)
            self._sources.append(_Load(position, detail, variable))
        return number

    def store(self, position: int, reach: Reach, values: Sequence[Bits], *, first: int = 0) -> list[Mask | None]:
        """Record a store; an undefined value stored to global memory is a finding.

        Args:
            position: Index of the instruction.
            reach: Where it falls.
            values: (count,) bits, one array for each element.
            first: Number of the first element among those that the instruction stores.

        Returns:
            For each element, which of the (count,) threads store an undefined value in shared or local memory, which
            then counts as unwritten; None for a defined element.
        """
        stored = self._stored[first : first + len(values)]
        origins = [
            None if element_origins is None else reach.lanes.select(element_origins) for element_origins in stored
        ]
        space, width = reach.region.space, values[0].itemsize
        if space in ("shared", "local"):
            for i, element_origins in enumerate(origins):
                if element_origins is not None and element_origins.any():
                    self._keep(reach, element_origins, i * width)
        undefined: list[Mask | None] = [
            None if element_origins is None else element_origins != 0 for element_origins in origins
        ]
        if space == "local":
            masks = [np.full(len(reach.places), ~value.dtype.type(0), value.dtype) for value in values]
            for mask, bad in zip(masks, undefined, strict=False):
                if bad is not None:
                    mask[bad] = 0
            self._written.store(reach.places, width, masks)
        elif space != "shared" and (
            tracked := [element_origins for element_origins in origins if element_origins is not None]
        ):
            worst = _strict(np.maximum.reduce(tracked))
            if space == "global" and len(tracked) == len(origins):
                worst = np.maximum(worst, np.minimum.reduce(tracked))
            self._report(position, worst, reach.lanes, "is stored" if space == "global" else "is passed to a function")
        return undefined

    def _keep(self, reach: Reach, origins: Origins, offset: int) -> None:
        """Record where (count,) threads store values from shuffles, `offset` bytes into their accesses."""
        space = reach.region.space
        for at in np.flatnonzero(origins).tolist():
            key, number = (space, int(reach.places[at]) + offset), int(origins[at])
            if isinstance(self._source(number), _Exchange):
                self._kept[key] = number
            else:
                self._kept.pop(key, None)

    # --- findings ---------------------------------------------------------------------------------------------

    def _source(self, number: int) -> str | _Load | _Exchange:
        """Return the source of an origin."""
        number &= _STRICT - 1
        return self._sources[number if number < _LAST // 2 else _LAST - number]

    def _check(self, position: int, origins: Origins, lanes: Lanes, use: str) -> None:
        """Report undefined values in a register, which then count as defined: each is reported once."""
        self._report(position, lanes.select(origins), lanes, use)
        origins[lanes.rows] = 0

    def give_up(self) -> None:
        """Report all matrix loads with undefined values still in some register."""
        threads_by_origin: dict[int, Mask] = {}
        for origins in self._origins.values():
            for number in np.unique(_strict(origins)).tolist():
                if number:
                    threads_by_origin[number] = threads_by_origin.get(number, np.zeros(len(origins), np.bool_)) | (
                        origins == number
                    )
            origins[:] = 0
        for number, threads in threads_by_origin.items():
            source = self._source(number)
            if isinstance(source, _Load):
                detail = f"{source.detail}, and the kernel got stuck before a value computed from it had an effect"
                indices = np.flatnonzero(threads)
                self._findings.add("uninitialised-read", source.position, detail, indices, variable=source.variable)

    def _report(self, position: int, origins: Origins, lanes: Lanes, use: str) -> None:
        bad = np.flatnonzero(origins)
        if not len(bad):
            return
        number = int(origins[bad[0]])
        source, threads = self._source(number), lanes.indices()[bad]
        if isinstance(source, _Load):
            detail = f"{source.detail}, and a value computed from it {use} at {self._findings.line(position)}"
            self._findings.add("uninitialised-read", source.position, detail, threads, variable=source.variable)
            return
        if isinstance(source, _Exchange):
            words = source.reads.words(int(threads[0]) % WARP_SIZE)
            detail = f"{words}, and a value computed from it {use} at {self._findings.line(position)}"
            self._findings.add("warp-divergence", source.position, detail, threads, remedy=_ALL_LANES)
            return
        detail = f"nothing has written register {source}, and a value computed from it {use}"
        self._findings.add(
            "uninitialised-register", position, detail, threads, remedy="initialise the variable at its declaration"
        )


def _strict(origins: Origins) -> Origins:
    """Return the origins of matrices only."""
    return np.where(origins >= _STRICT, origins, np.int32(0))


def _give(targets: Sequence[Origins], lanes: Lanes, origins: Origins | int) -> None:
    for target in targets:
        target[lanes.rows] = origins
