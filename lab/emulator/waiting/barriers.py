"""Block-wide barriers: waiting threads, releases and deadlocks."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

import numpy as np

from lab.base.warp import WARP_SIZE
from lab.emulator.arrays import Indices, Mask
from lab.emulator.binding import Storage
from lab.emulator.errors import unsupported
from lab.emulator.findings import BatchFindings
from lab.emulator.lanes import Lanes, warp_of
from lab.emulator.memory.watch import AccessWatch
from lab.emulator.pool import Location, Pool, living
from lab.emulator.waiting.skipped import SkippedBarriers

_NOBODY: Indices = np.zeros(0, np.int64)
_BARRIERS = 16  # of a block
_ALL = 0  # no thread count: every thread of the block
_VOLTA = 70
"""The first target whose barriers count threads instead of warps (CUDA programming guide, compute capability 7.x)."""


@dataclass(frozen=True, slots=True)
class BarrierForm:
    """A decoded barrier instruction.

    Attributes:
        barrier: Operand with the barrier number.
        count: Operand with the number of threads, or None for all.
        waits: False for `arrive`.
        reduction: `popc`, `and`, `or`, or None.
        result: Operand that receives the reduction.
        predicate: Operand to be reduced.
        aligned: All threads of a warp execute this same instruction, as `__syncthreads()` requires of the whole block.
    """

    barrier: str
    count: str | None
    waits: bool
    reduction: str | None = None
    result: str = ""
    predicate: str = ""
    aligned: bool = True


def form_of(opcode: str, operands: tuple[str, ...]) -> BarrierForm | None:
    """Decode a barrier instruction; return None for unsupported forms."""
    form = _form_of(opcode, operands)
    free = opcode.startswith("barrier.") and "aligned" not in opcode.split(".")
    return replace(form, aligned=False) if form is not None and free else form


def _form_of(opcode: str, operands: tuple[str, ...]) -> BarrierForm | None:
    parts = [modifier for modifier in opcode.split(".")[1:] if modifier not in ("cta", "aligned")]
    if parts == ["sync"] and operands:
        return BarrierForm(operands[0], operands[1] if len(operands) > 1 else None, waits=True)
    if parts == ["arrive"] and len(operands) == 2:  # noqa: PLR2004  barrier and count
        return BarrierForm(operands[0], operands[1], waits=False)
    if parts in (["red", "popc", "u32"], ["red", "and", "pred"], ["red", "or", "pred"]):
        count = operands[2] if len(operands) == 4 else None  # noqa: PLR2004  with a count
        return BarrierForm(
            operands[1], count, waits=True, reduction=parts[1], result=operands[0], predicate=operands[-1]
        )
    return None


@dataclass(frozen=True, slots=True, eq=False)
class _Arrival:
    """Threads of one block that reached a barrier instruction together.

    Attributes:
        position: Index of the instruction.
        after: Where the threads continue.
        lanes: The threads.
        form: The decoded instruction.
        time: The arrival time on `BatchClocks`.
    """

    position: int
    after: Location
    lanes: Lanes
    form: BarrierForm
    time: int


@dataclass(slots=True, eq=False)
class _OpenBarrier:
    """A barrier of one block while threads wait at it.

    Attributes:
        expected: The number of threads that completes it; `_ALL` for every thread of the block.
        arrivals: The arrivals so far.
    """

    expected: int
    arrivals: list[_Arrival] = field(default_factory=list)

    @property
    def arrived(self) -> int:
        """The number of threads that have arrived."""
        return sum(arrival.lanes.count for arrival in self.arrivals)

    def complete(self, alive: int) -> bool:
        """Return whether the barrier is complete, given the number of live threads of the block."""
        if self.expected == _ALL:
            return self.arrived >= alive
        return self.arrived >= self.expected

    def covers(self, alive: int) -> bool:
        """Return whether every live thread of the block takes part and waits."""
        if not all(arrival.form.waits for arrival in self.arrivals):
            return False
        return self.expected == _ALL or self.arrived >= alive


@dataclass(frozen=True, slots=True, eq=False)
class _Phase:
    """The participants of a barrier phase, by warp.

    Attributes:
        warps: The warps of the batch.
        times: (warps,) their arrival times on `BatchClocks`.
        waits: (warps,) whether they waited for completion.
    """

    warps: Indices
    times: Indices
    waits: Mask


def _by_barrier(blocks: Indices, names: Indices) -> list[Indices]:
    """Return the ascending positions of the threads of each block and barrier, of (threads,) each."""
    order = np.lexsort([names, blocks])
    is_first = np.diff(blocks[order], prepend=-1).astype(bool) | np.diff(names[order], prepend=-1).astype(bool)
    return np.split(order, np.flatnonzero(is_first)[1:])


def _number_of(target: str) -> int:
    """Return the number in a PTX target such as ``sm_90a``; 0 for a module without one."""
    number = re.search(r"\d+", target)
    return int(number[0]) if number else 0


class Barriers:
    """The barriers of a batch's blocks."""

    def __init__(
        self, storage: Storage, pool: Pool, watch: AccessWatch, findings: BatchFindings, skipped: SkippedBarriers
    ) -> None:
        """Start without waiting threads.

        Args:
            storage: The storage that operands refer to.
            pool: The pool of runnable threads.
            watch: The access checks, which a barrier updates.
            findings: The collector of faults.
            skipped: The tracker of skipped barriers.
        """
        self._storage, self._batch, self._skipped = storage, storage.batch, skipped
        self._pool, self._watch, self._findings = pool, watch, findings
        self._open: dict[tuple[int, int], _OpenBarrier] = {}  # by block and name
        self._before: dict[tuple[int, int], _Phase] = {}  # the previous phase of barriers with a count
        self._counts_threads = _number_of(storage.program.module.target) >= _VOLTA

    def arrive(self, position: int, after: Location, lanes: Lanes) -> None:
        """Make threads wait at a barrier, or pass it if they complete it.

        Args:
            position: Index of the instruction.
            after: Where the threads continue.
            lanes: The threads.

        Raises:
            UnsupportedInstruction: the form of the barrier is not supported.
        """
        binder = self._storage.at(position)
        form = form_of(binder.instruction.opcode, binder.instruction.operands)
        if form is None:
            raise unsupported(binder.instruction, "this form of barrier")
        if lanes.whole and form.count is None and form.reduction is None and not self._open:
            self._watch.order_all()
            self._skipped.pass_barrier(position, lanes.rows)
            self._pool.arrive(after, lanes)
            return
        names = lanes.fill(binder.source(form.barrier, "u32")(lanes)).astype(np.int64)
        counts = np.zeros(lanes.count, np.int64)
        if form.count is not None:
            counts[:] = binder.source(form.count, "u32")(lanes)
        blocks = lanes.select(self._batch.block_of)
        for mine in _by_barrier(blocks, names):
            row, name = int(blocks[mine[0]]), int(names[mine[0]])
            barrier = self._open.setdefault((row, name), _OpenBarrier(int(counts[mine[0]])))
            arrival = _Arrival(position, after, lanes.take(mine), form, self._watch.arrival())
            self._follow(row, name, arrival)
            if name >= _BARRIERS:
                self._complain(arrival, f"barrier {name}: a block has barriers 0 to {_BARRIERS - 1}")
            if np.any(counts[mine] != barrier.expected):
                other_counts = np.setdiff1d(counts[mine], barrier.expected).tolist()
                counts_text = " and ".join(
                    str(count) if count else "all" for count in (barrier.expected, *other_counts)
                )
                self._complain(arrival, f"threads that meet at one barrier say that {counts_text} threads complete it")
            barrier.arrivals.append(arrival)
            if not form.waits:
                self._pool.arrive(after, arrival.lanes)
        self._release()

    def threads_left(self) -> None:
        """Check again after threads have exited: a barrier may now be complete."""
        if self._open:
            self._release()

    def _release(self) -> None:
        """Release the threads of complete barriers."""
        alive = living(self._batch, self._pool)
        whole_blocks, ready = [], []
        for (row, name), barrier in self._open.items():
            if not barrier.complete(int(alive[row])):
                continue
            ready.append((row, name))
            if barrier.covers(int(alive[row])):
                whole_blocks.append(row)
            else:
                self._order(barrier)
        if whole_blocks:
            self._watch.order_blocks(np.array(whole_blocks))
        for key in ready:
            barrier = self._open.pop(key)
            self._remember(key, barrier)
            self._let_go(barrier)

    def _remember(self, key: tuple[int, int], barrier: _OpenBarrier) -> None:
        """Record the participants in a phase of a barrier with a count."""
        if barrier.expected == _ALL:
            self._before.pop(key, None)
            return
        warps = [np.unique(warp_of(arrival.lanes.indices())) for arrival in barrier.arrivals]
        times = np.repeat(
            [arrival.time for arrival in barrier.arrivals], [len(arrival_warps) for arrival_warps in warps]
        )
        waits = np.repeat(
            [arrival.form.waits for arrival in barrier.arrivals], [len(arrival_warps) for arrival_warps in warps]
        )
        self._before[key] = _Phase(np.concatenate(warps), times, waits)

    def _follow(self, row: int, name: int, arrival: _Arrival) -> None:
        """Report threads that may arrive before another group's phase of their barrier is complete."""
        before = self._before.get((row, name))
        if before is None:
            return
        members = arrival.lanes.indices()
        of = warp_of(members)
        late = [
            warp
            for warp in np.setdiff1d(of, before.warps[before.waits]).tolist()
            if not self._watch.knows_arrivals(members[of == warp], before.warps, before.times)
        ]
        if late:
            detail = f"nothing keeps these threads from arriving before the phase of barrier {name} that was before"
            self._findings.add(
                "barrier-divergence",
                arrival.position,
                f"{detail} is complete: warps {', '.join(map(str, before.warps % self._warps_of_block))} met there",
                members[np.isin(of, late)],
            )

    @property
    def _warps_of_block(self) -> int:
        return self._batch.warps // self._batch.blocks

    def _order(self, barrier: _OpenBarrier) -> None:
        """Order accesses before a barrier's arrivals before those after its waits."""
        waiters = [arrival.lanes.indices() for arrival in barrier.arrivals if arrival.form.waits]
        arrived = [arrival.lanes.indices() for arrival in barrier.arrivals]
        times = np.repeat([arrival.time for arrival in barrier.arrivals], [len(threads) for threads in arrived])
        self._watch.order_threads(np.concatenate([_NOBODY, *waiters]), np.concatenate(arrived), times)

    def _let_go(self, barrier: _OpenBarrier) -> None:
        # PTX, `exit`: exited threads don't count at whole-block barriers. Aligned ones need whole warps before Volta.
        if barrier.expected == _ALL:
            if (partial := self._of_parts(barrier)) is not None:
                detail = (
                    f"only {barrier.arrived} of the block's {self._batch.block_size} threads arrive; the others have"
                )
                self._complain(partial, f"{detail} ended, some of them in the warps of these")
            elif len({arrival.position for arrival in barrier.arrivals if arrival.form.aligned}) > 1:
                detail = "threads of one block wait at different barrier instructions"
                self._complain(barrier.arrivals[0], detail)
            else:
                self._find_skipped(barrier)
        elif barrier.arrived > barrier.expected:
            detail = f"{barrier.arrived} threads arrive at once, and {barrier.expected} complete this barrier"
            self._complain(barrier.arrivals[-1], f"{detail}: it is open which of them meet")
        for arrival in barrier.arrivals:
            if not arrival.form.waits:
                continue
            if arrival.form.reduction:
                self._reduce(arrival, barrier)
            self._pool.arrive(arrival.after, arrival.lanes)

    def _find_skipped(self, barrier: _OpenBarrier) -> None:
        """Report exited threads that should have been at a barrier of the whole block."""
        first = barrier.arrivals[0]
        members = np.concatenate([arrival.lanes.indices() for arrival in barrier.arrivals])
        if len(members) < self._batch.block_size:
            row = self._batch.block_of[members[0]]
            eligible = np.flatnonzero(self._batch.exists & (self._batch.block_of == row))
            reason = self._skipped.why(first.position, np.setdiff1d(eligible, members))
            if reason:
                self._complain(first, f"only {len(members)} of the block's {len(eligible)} threads arrive; {reason}")
        self._skipped.pass_barrier(first.position, members)

    def _of_parts(self, barrier: _OpenBarrier) -> _Arrival | None:
        """Return the first arrival of an aligned barrier with incomplete warps, where the target counts warps."""
        if self._counts_threads or barrier.arrived == self._batch.block_size:
            return None
        members = np.concatenate([arrival.lanes.indices() for arrival in barrier.arrivals])
        lanes = np.bincount(warp_of(members), minlength=self._batch.warps)
        first = np.arange(self._batch.warps) % self._warps_of_block * WARP_SIZE
        incomplete = lanes < np.minimum(WARP_SIZE, self._batch.block_size - first)
        for arrival in barrier.arrivals:
            if arrival.form.aligned and incomplete[warp_of(arrival.lanes.indices())].any():
                return arrival
        return None

    def _complain(self, arrival: _Arrival, detail: str) -> None:
        self._findings.add("barrier-divergence", arrival.position, detail, arrival.lanes.indices())

    def _reduce(self, arrival: _Arrival, barrier: _OpenBarrier) -> None:
        """Write a barrier's reduction to the threads of one arrival."""
        values = np.concatenate(
            [
                contribution.lanes.fill(
                    self._storage.at(contribution.position).source(contribution.form.predicate, "pred")(
                        contribution.lanes
                    )
                )
                for contribution in barrier.arrivals
            ]
        )
        kind = arrival.form.reduction
        total = {"popc": values.sum(), "and": values.all(), "or": values.any()}[kind or "or"]
        write = self._storage.at(arrival.position).target(arrival.form.result, "u32" if kind == "popc" else "pred")
        write(arrival.lanes, np.full(arrival.lanes.count, total, np.uint32 if kind == "popc" else np.bool_))

    def waiting(self) -> list[tuple[int, Lanes]]:
        """Return the instruction and the threads of each wait."""
        arrivals = [arrival for barrier in self._open.values() for arrival in barrier.arrivals if arrival.form.waits]
        return [(arrival.position, arrival.lanes) for arrival in arrivals]

    def abandon(self) -> None:
        """End the waiting threads without a finding: another finding explains the endless wait."""
        for barrier in self._open.values():
            for arrival in barrier.arrivals:
                self._pool.end(arrival.lanes.rows)
        self._open.clear()

    def break_deadlock(self) -> None:
        """End the threads of barriers that can never complete, each with a finding."""
        for barrier in self._open.values():
            for arrival in barrier.arrivals:
                if arrival.form.waits:
                    detail = f"{barrier.arrived} threads wait here forever: the others wait elsewhere or have ended"
                    self._complain(arrival, detail)
                    self._pool.end(arrival.lanes.rows)
        self._open.clear()
