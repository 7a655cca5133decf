"""Mbarriers: arrivals, pending bytes of bulk copies, phases and waiting threads.

A wait ends when its phase completes. Until then its threads do not run, so nothing spins. A polling thread
(`test_wait`) waits too; it continues without success when nothing else can run.

PTX ISA, Parallel Synchronization and Communication Instructions: mbarrier.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from lab.emulator.arrays import Addresses, Indices, Integers, Mask
from lab.emulator.binding import OperandBinder, Storage
from lab.emulator.errors import unsupported
from lab.emulator.findings import BatchFindings
from lab.emulator.lanes import Lanes
from lab.emulator.memory.clocks import Place
from lab.emulator.memory.memory import Region
from lab.emulator.memory.order import WARPS
from lab.emulator.memory.races import Conflict
from lab.emulator.memory.tensor import TensorMemory
from lab.emulator.memory.watch import AccessWatch, never_same
from lab.emulator.opcodes import Opcode, UnknownForm
from lab.emulator.pool import Location, Pool
from lab.emulator.results import FindingKind
from lab.emulator.sources import chosen_by_library
from lab.emulator.waiting.arrivals import ArrivalTurns

BYTES = 8
MOST_ARRIVALS = MOST_BYTES = 2**20 - 1
_SCOPES = ("cta", "cluster")


_WAIT_OPERANDS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Named:
    """Threads with their mbarriers, (count,) arrays.

    Attributes:
        threads: Each thread's index within the batch; threads without an mbarrier are omitted.
        kept: Positions of these threads among those of the instruction.
        numbers: Number of each thread's mbarrier in its block.
        blocks: Block of each thread.
    """

    threads: Indices
    kept: Indices
    numbers: Indices
    blocks: Indices

    def where(self, mask: Mask) -> Named:
        """Return the threads selected by a (count,) mask."""
        return Named(self.threads[mask], self.kept[mask], self.numbers[mask], self.blocks[mask])


@dataclass(frozen=True, slots=True, eq=False)
class _Wait:
    """Threads waiting for phases.

    Attributes:
        position: Index of the instruction.
        after: Where the threads continue.
        named: The threads and their mbarriers.
        parities: (count,) parity of each thread's awaited phase.
        polls: The threads continue without success when nothing else can run.
        relaxed: It only acquires through a later fence.
    """

    position: int
    after: Location
    named: Named
    parities: Indices
    polls: bool
    relaxed: bool


def take_space(op: Opcode) -> None:
    """Consume the state space of an mbarrier's address.

    Raises:
        UnknownForm: it is not shared memory of the thread's own block.
    """
    if not (op.flag("shared") or op.flag("shared::cta")):
        raise UnknownForm("an mbarrier that is not in .shared")


class Mbarriers:
    """The mbarriers of a batch, numbered by offset, which is mostly the same in every block.

    Attributes:
        tensor: Tensor memory, whose products may be complete with a phase; None without any.
        flipped: A phase has completed since the last `release`, and threads are waiting.
        _used: (mbarriers, blocks of a cluster, threads) stamps of each thread's latest use of the block's own one.
        _saw: (mbarriers, threads) number of phases each thread has seen complete.
        _saw_at: (mbarriers, threads) stamps of the latest of these.
        _turns: The arrivals by phase.
    """

    def __init__(
        self,
        storage: Storage,
        pool: Pool,
        shared: Region,
        watch: AccessWatch,
        findings: BatchFindings,
        *,
        decides: Callable[[int], bool] = lambda _: True,
    ) -> None:
        """Start without mbarriers.

        Args:
            storage: The storage that operands refer to.
            pool: The pool of runnable threads.
            shared: Shared memory.
            watch: Its access checks.
            findings: The collector of faults.
            decides: Returns whether an instruction's result has an effect (`Definedness.decides`).
        """
        self._storage, self._batch, self._pool = storage, storage.batch, pool
        self._shared, self._watch, self._findings = shared, watch, findings
        blocks = self._batch.blocks
        self._number_at = np.full(shared.stride // BYTES, -1, np.int64)
        self._offsets = np.zeros(0, np.int64)
        self._live = np.zeros((0, blocks), np.bool_)
        self._used = np.zeros((0, self._batch.cluster, self._batch.threads), np.int64)
        self._saw, self._saw_at = (np.zeros((0, self._batch.threads), np.int64) for _ in range(2))
        self._count, self._pending, self._bytes, self._phase = (np.zeros((0, blocks), np.int64) for _ in range(4))
        self._turns = (
            None if watch.clocks is None or watch.bulk is None else ArrivalTurns(self._batch, watch.clocks, watch.bulk)
        )
        self._waiting: list[_Wait] = []
        self._decides = decides
        self.tensor: TensorMemory | None = None
        self._changes = 0
        self._polled_at = -1  # changes when polling threads last continued without success
        self.flipped = False

    # --- state ------------------------------------------------------------------------------------------------

    def _place(self, position: int, addresses: Addresses, lanes: Lanes) -> tuple[Indices, Indices]:
        """Return the threads with a valid mbarrier address, and their positions; report the others."""
        threads = lanes.indices()
        valid = np.arange(len(threads))
        checks: tuple[tuple[Mask, FindingKind, str], ...] = (
            (addresses % BYTES != 0, "misaligned", f"an mbarrier must be aligned to {BYTES} bytes"),
            (
                (addresses < 0) | (addresses > self._shared.size - BYTES),
                "out-of-bounds",
                "an mbarrier beyond shared memory",
            ),
        )
        for bad, kind, detail in checks:
            at = np.flatnonzero(bad[valid])
            if len(at):
                self._findings.add(kind, position, detail, threads[valid[at]], address=int(addresses[valid[at[0]]]))
                valid = np.delete(valid, at)
        return threads[valid], valid

    def name(
        self,
        position: int,
        addresses: Addresses,
        lanes: Lanes,
        *,
        bulk_copy: bool = False,
        blocks: Indices | None = None,
        awaited: bool = False,
    ) -> Named:
        """Look up the mbarriers at some addresses; report addresses without an mbarrier.

        Args:
            position: Index of the instruction.
            addresses: (count,) byte offsets in the blocks' shared memory.
            lanes: The threads.
            bulk_copy: The use is a bulk copy's.
            blocks: (count,) their blocks in the batch; None for each thread's own.
            awaited: Data arriving in these blocks completes on the mbarrier.
        """
        threads, valid = self._place(position, addresses, lanes)
        offsets = addresses[valid]
        homes = self._batch.block_of[threads] if blocks is None else blocks[valid]
        numbers = self._number_at[offsets // BYTES]
        good = np.zeros(len(threads), np.bool_)
        numbered = numbers >= 0
        good[numbered] = self._live[numbers[numbered], homes[numbered]]
        targets = Named(threads, valid, numbers, homes)
        self._use(targets.where(good))
        if not good.all():
            detail = "no mbarrier was initialised here"
            self._findings.add("mbarrier-misuse", position, detail, threads[~good], address=int(offsets[~good][0]))
            targets, offsets = targets.where(good), offsets[good]
        if blocks is not None and self._watch.lifetimes is not None:
            self._watch.lifetimes.use(position, targets.threads, targets.blocks, awaited=awaited)
        shadow, bulk = self._watch.shadow, self._watch.bulk
        if shadow is not None and bulk is not None and len(targets.threads):
            places = offsets + targets.blocks * self._shared.stride
            conflicts = shadow.use_mbarrier(bulk, places, targets.threads, bulk_copy=bulk_copy)
            conflicts = [conflict for conflict in conflicts if not self._of_library(position, conflict)]
            self._watch.report_shared(position, targets.threads, offsets, conflicts)
        return targets

    def _of_library(self, position: int, conflict: Conflict) -> bool:
        """Return whether a missing fence is a library's fault: it both initialises the mbarrier and copies.

        `cuda::memcpy_async` of 16 bytes on a `cuda::barrier` is such a copy; it becomes a note.
        """
        if conflict.kind != "missing-proxy-fence" or conflict.other_instruction is None:
            return False
        places = [position, *np.unique(conflict.other_instruction).tolist()]
        if not all(chosen_by_library(self._storage.at(place).instruction) for place in places):
            return False
        self._watch.note(position, f"{conflict.detail}; CUDA's headers do both")
        return True

    def _use(self, targets: Named) -> None:
        """Record the latest use of mbarriers by threads."""
        if self._watch.clocks is not None:
            ranks = targets.blocks % self._batch.cluster
            self._used[targets.numbers, ranks, targets.threads] = self._watch.clocks.stamps(targets.threads, WARPS)

    def _see(self, targets: Named) -> None:
        """Record the phases threads have seen complete, and when."""
        if self._watch.clocks is not None:
            self._saw[targets.numbers, targets.threads] = self._phase[targets.numbers, targets.blocks]
            self._saw_at[targets.numbers, targets.threads] = self._watch.clocks.stamps(targets.threads, WARPS)

    def init(self, position: int, addresses: Addresses, counts: Integers, lanes: Lanes) -> None:
        """Initialise mbarriers.

        Args:
            position: Index of the instruction.
            addresses: (count,) byte offsets in the blocks' shared memory.
            counts: (count,) or (1,) expected arrivals per phase of each mbarrier.
            lanes: The threads.
        """
        threads, valid = self._place(position, addresses, lanes)
        offsets = addresses[valid]
        expected = lanes.fill(counts)[valid].astype(np.int64)
        wrong = (expected < 1) | (expected > MOST_ARRIVALS)
        if wrong.any():
            detail = f"an mbarrier expects 1 to {MOST_ARRIVALS} arrivals, this one {int(expected[wrong][0])}"
            self._findings.add("mbarrier-misuse", position, detail, threads[wrong])
            threads, offsets, expected = threads[~wrong], offsets[~wrong], expected[~wrong]
        for thread, offset, count in zip(threads.tolist(), offsets.tolist(), expected.tolist(), strict=True):
            self._init(position, thread, offset, count)
        self._mark(position, threads, offsets, live=True)

    def _init(self, position: int, thread: int, offset: int, count: int) -> None:
        number, block = self._number(offset), int(self._batch.block_of[thread])
        if self._live[number, block]:
            detail = "this mbarrier is initialised already; mbarrier.inval comes before another use of its memory"
            self._findings.add("mbarrier-misuse", position, detail, np.array([thread]), address=offset)
        self._live[number, block] = True
        self._count[number, block] = self._pending[number, block] = count
        self._bytes[number, block] = self._phase[number, block] = 0
        self._saw[number, self._batch.block_of == block] = 0
        if self._watch.bulk is not None:
            self._watch.bulk.forget(number, block)
            if self._turns is not None:
                self._turns.forget(number, block)
            if self._watch.clocks is not None:
                self._watch.clocks.forget((self, number, block))

    def inval(self, position: int, addresses: Addresses, lanes: Lanes) -> None:
        """Invalidate mbarriers. Arguments as in `name`."""
        targets = self.name(position, addresses, lanes)
        waited = {
            key
            for wait in self._waiting
            for key in zip(wait.named.numbers.tolist(), wait.named.blocks.tolist(), strict=True)
        }
        for thread, number, block in zip(
            targets.threads.tolist(), targets.numbers.tolist(), targets.blocks.tolist(), strict=True
        ):
            if (number, block) in waited:
                detail = "other threads still wait for this mbarrier"
                self._findings.add("mbarrier-misuse", position, detail, np.array([thread]))
            elif self._in_use(number, block, thread):
                detail = "other threads may still use this mbarrier: nothing orders that before its end"
                self._findings.add("mbarrier-misuse", position, detail, np.array([thread]))
            if self._watch.bulk is not None:
                self._watch.bulk.retire(number, thread, block)
        self._live[targets.numbers, targets.blocks] = False
        self._mark(position, targets.threads, addresses[targets.kept], live=False)

    def _in_use(self, number: int, block: int, thread: int) -> bool:
        """Return whether some thread's use of an mbarrier is not known to be over by another thread."""
        clocks = self._watch.clocks
        if clocks is None:
            return False
        batch = self._batch
        of_cluster = batch.threads // batch.blocks * batch.cluster
        first = block // batch.cluster * of_cluster
        stamps = self._used[number, block % batch.cluster, first : first + of_cluster]
        return bool(len(clocks.unordered(stamps, np.full(len(stamps), thread))))

    def _mark(self, position: int, threads: Indices, offsets: Addresses, *, live: bool) -> None:
        """Record the initialisation or invalidation of mbarriers: both store to their memory."""
        shadow, bulk = self._watch.shadow, self._watch.bulk
        if shadow is None or bulk is None or not len(threads):
            return
        places = self._shared.places(offsets, threads)
        cells = shadow.cells.covered(places, BYTES).reshape(-1)
        bulk.mark(cells, live=False)  # so that this store is not one over a live mbarrier
        conflicts, _ = shadow.write(places, BYTES, threads, position, never_same)
        self._watch.report_shared(position, threads, offsets, conflicts)
        bulk.mark(cells, live=live)

    def _number(self, offset: int) -> int:
        """Return the number of the mbarriers at an offset, allocating a new one if necessary."""
        number = int(self._number_at[offset // BYTES])
        if number < 0:
            number = self._number_at[offset // BYTES] = len(self._offsets)
            self._offsets = np.append(self._offsets, offset)
            self._live = np.pad(self._live, ((0, 1), (0, 0)))
            self._used = np.pad(self._used, ((0, 1), (0, 0), (0, 0)))
            self._saw, self._saw_at = (np.pad(array, ((0, 1), (0, 0))) for array in (self._saw, self._saw_at))
            self._count, self._pending, self._bytes, self._phase = (
                np.pad(array, ((0, 1), (0, 0))) for array in (self._count, self._pending, self._bytes, self._phase)
            )
            if self._watch.bulk is not None:
                self._watch.bulk.grow(len(self._offsets))
            if self._turns is not None:
                self._turns.grow(len(self._offsets))
        return number

    # --- arrivals and bytes -----------------------------------------------------------------------------------

    def arrive(
        self, position: int, targets: Named, arrivals: Indices, expected: Indices, *, relaxed: bool = False
    ) -> None:
        """Count arrivals and expected bytes, the bytes first.

        Args:
            position: Index of the instruction.
            targets: Threads and mbarriers.
            arrivals: (count,) arrivals of each thread; 0 for `expect_tx` alone.
            expected: (count,) bytes each thread announces.
            relaxed: The arrivals only order what the threads fenced before.
        """
        arriving = arrivals > 0
        if self._watch.bulk is not None and arriving.any():
            home = arriving & (
                self._batch.block_of[targets.threads] == targets.blocks
            )  # a warp sees its own block's phases
            self._watch.bulk.arrive(targets.numbers[home], targets.threads[home], targets.blocks[home])
            self._release(targets.where(arriving), arrivals[arriving], relaxed=relaxed)
            self._take_turns(position, targets.where(home), arrivals[home])
        keys = targets.numbers * self._batch.blocks + targets.blocks
        for key in np.unique(keys).tolist():
            mine = keys == key
            number, block = divmod(key, self._batch.blocks)
            if self._turns is not None and expected[mine].any():
                self._turns.expect(position, number, block, targets.threads[mine & ~arriving & (expected > 0)])
            self._bytes[number, block] += int(expected[mine].sum())
            if (expected[mine] < 0).any():  # bytes counted as arrived
                self._complete(position, number, block)
            self._within_limits(position, targets.threads[mine], number, block)
            self._count_down(position, targets.threads[mine], number, block, int(arrivals[mine].sum()))
        self._changes += 1

    def drop(self, targets: Named, arrivals: Indices) -> None:
        """Reduce the expected arrivals of mbarriers by (count,) from the next phase on."""
        for number, block, dropped in zip(
            targets.numbers.tolist(), targets.blocks.tolist(), arrivals.tolist(), strict=True
        ):
            self._count[number, block] -= dropped

    def _release(self, targets: Named, arrivals: Indices, *, relaxed: bool) -> None:
        """Release threads' knowledge at their mbarriers, to waiters for the phase they arrive in.

        This is the current phase; surplus arrivals count in the next one.
        """
        clocks = self._watch.clocks
        if clocks is None:
            return
        for number, block in {*zip(targets.numbers.tolist(), targets.blocks.tolist(), strict=True)}:
            mask = (targets.numbers == number) & (targets.blocks == block)
            phase, threads = int(self._phase[number, block]), targets.threads[mask]
            late = np.cumsum(arrivals[mask]) > int(self._pending[number, block])
            for thread_block in np.unique(self._batch.block_of[threads]).tolist():
                mine = self._batch.block_of[threads] == thread_block
                for ahead in np.unique(late[mine]).tolist():
                    arrived = threads[mine & (late == ahead)]
                    clocks.arrive((self, number, block), phase + int(ahead), arrived, relaxed=relaxed)

    def _take_turns(self, position: int, targets: Named, arrivals: Indices) -> None:
        """Report arrivals at own mbarriers that may also count in the previous phase."""
        if self._turns is None:
            return
        for number, block in {*zip(targets.numbers.tolist(), targets.blocks.tolist(), strict=True)}:
            mask = (targets.numbers == number) & (targets.blocks == block)
            phase, threads = int(self._phase[number, block]), targets.threads[mask]
            late = np.cumsum(arrivals[mask]) > int(self._pending[number, block])
            for ahead in np.unique(late).tolist():
                early = self._turns.arrive(number, block, phase + int(ahead), threads[late == ahead])
                if len(early):
                    count = int(self._count[number, block])
                    detail = "nothing orders this arrival after the phase before, in which it may count as well; that "
                    detail += f"phase is then complete without another one, and its bytes. The mbarrier expects {count}"
                    self._findings.add("mbarrier-misuse", position, detail, early, address=int(self._offsets[number]))

    def _unexpected(self, number: int, block: int) -> None:
        """Report bytes announced without an arrival that no arrival of the phase waits for."""
        if self._turns is None:
            return
        alone = self._turns.complete(number, block)
        if alone is None or self._watch.clocks is None:
            return
        phase = int(self._phase[number, block])
        for position, thread, stamp in alone:
            if not self._watch.clocks.arrived_after((self, number, block), phase, np.array([stamp]))[0]:
                detail = "nothing orders these bytes before an arrival of the phase, which may be complete without them"
                address = int(self._offsets[number])
                self._findings.add("mbarrier-misuse", position, detail, np.array([thread]), address=address)

    def _acquire(self, targets: Named, *, relaxed: bool) -> None:
        """Give threads the knowledge released at their mbarriers before the current phase, or at a later fence."""
        clocks = self._watch.clocks
        if clocks is None:
            return
        for number, block in {*zip(targets.numbers.tolist(), targets.blocks.tolist(), strict=True)}:
            mine = targets.threads[(targets.numbers == number) & (targets.blocks == block)]
            clocks.see((self, number, block), int(self._phase[number, block]), mine, relaxed=relaxed)

    def _count_down(self, position: int, threads: Indices, number: int, block: int, arrivals: int) -> None:
        """Count arrivals at one mbarrier, over as many phases as they complete."""
        while arrivals:
            if not self._pending[number, block]:
                detail = "more arrivals than the mbarrier expects in a phase, which still lacks bytes"
                self._findings.add("mbarrier-misuse", position, detail, threads)
                return
            counted = min(arrivals, int(self._pending[number, block]))
            self._pending[number, block] -= counted
            arrivals -= counted
            self._complete(position, number, block)

    def phases(self, targets: Named) -> Indices:
        """Return the current phase of each thread's mbarrier, (count,)."""
        return self._phase[targets.numbers, targets.blocks]

    def pending(self, number: int, block: int) -> tuple[Place, int]:
        """Return an mbarrier's place in `BatchClocks`, and its current phase."""
        return (self, number, block), int(self._phase[number, block])

    def owe_less(self, position: int, thread: int, number: int, block: int, size: int) -> int:
        """Count `size` bytes of a bulk copy as arrived; return the phase they were part of."""
        phase = int(self._phase[number, block])
        self._bytes[number, block] -= size
        if self._turns is not None:
            self._turns.expect(position, number, block, np.zeros(0, np.int64))
        self._within_limits(position, np.array([thread]), number, block)
        self._complete(position, number, block)
        self._changes += 1
        return phase

    def _within_limits(self, position: int, threads: Indices, number: int, block: int) -> None:
        if abs(int(self._bytes[number, block])) > MOST_BYTES:
            detail = f"an mbarrier counts up to {MOST_BYTES} bytes, here {int(self._bytes[number, block])}"
            self._findings.add("mbarrier-misuse", position, detail, threads)

    def _overtakes(self, position: int, number: int, block: int) -> None:
        """Report a phase that completes while waiters for the one before may still wait."""
        clocks, phase = self._watch.clocks, int(self._phase[number, block])
        threads = np.flatnonzero(self._saw[number] == phase)
        threads = threads[self._batch.block_of[threads] == block]
        if clocks is None or not phase or not len(threads):
            return
        late = threads[~clocks.arrived_after((self, number, block), phase, self._saw_at[number, threads])]
        if len(late):
            detail = "nothing keeps this phase from being complete before these threads have seen the one before: "
            detail += "they may wait forever"
            self._findings.add("mbarrier-misuse", position, detail, late, address=int(self._offsets[number]))

    def _complete(self, position: int, number: int, block: int) -> None:
        """Start the next phase if nothing is missing in this one."""
        if self._pending[number, block] == 0 and self._bytes[number, block] == 0:
            self._overtakes(position, number, block)
            self._unexpected(number, block)
            self._phase[number, block] += 1
            self._pending[number, block] = self._count[number, block]
            self.flipped = bool(self._waiting) or self.flipped

    # --- waits ------------------------------------------------------------------------------------------------

    def wait(self, position: int, after: Location, lanes: Lanes) -> None:
        """Execute `try_wait` or `test_wait`.

        Args:
            position: Index of the instruction.
            after: Where the threads continue.
            lanes: The threads.

        Raises:
            UnsupportedInstruction: the form of the wait is not supported.
        """
        binder = self._storage.at(position)
        polls, state, relaxed = _wait_form(binder)
        if len(binder.instruction.operands) < _WAIT_OPERANDS:
            binder.refuse("a wait has a predicate, an address and a phase")
        _, address, parity, *_ = binder.instruction.operands  # a time limit may follow; it never expires here
        addresses = binder.address(address, "shared")(lanes)
        parities = lanes.fill(binder.source(parity, state)(lanes)).astype(np.int64) & 1
        targets = self.name(position, addresses, lanes)
        if not polls and not self._decides(position):
            detail = "the result of this wait is not checked: try_wait may end before the phase is complete"
            self._findings.add("mbarrier-misuse", position, detail, lanes.indices())
        wait = _Wait(position, after, targets, parities[targets.kept], polls, relaxed)
        self._go_on(wait, np.delete(lanes.indices(), targets.kept), success=True)
        self._waiting.append(wait)
        self.release()

    def release(self) -> None:
        """Release the threads whose phase is complete."""
        self.flipped = False
        waiting, self._waiting = self._waiting, []
        for wait in waiting:
            targets = wait.named
            completed = (self.phases(targets) - 1) & 1 == wait.parities
            if completed.any():
                ready = targets.where(completed)
                self._use(ready)
                self._see(ready)
                if self._watch.bulk is not None:
                    self._watch.bulk.see(ready.numbers, wait.parities[completed], ready.threads, ready.blocks)
                    self._acquire(ready, relaxed=wait.relaxed)
                    if self.tensor is not None:
                        self.tensor.see(ready.threads)
                self._go_on(wait, ready.threads, success=True)
            if not completed.all():
                self._waiting.append(replace(wait, named=targets.where(~completed), parities=wait.parities[~completed]))

    def _go_on(self, wait: _Wait, threads: Indices, *, success: bool) -> None:
        """Resume (count,) threads with the wait's result."""
        if len(threads):
            binder, lanes = self._storage.at(wait.position), Lanes(self._batch.threads, threads)
            binder.target(binder.instruction.operands[0], "pred")(lanes, np.array([success]))
            self._pool.arrive(wait.after, lanes)

    def break_deadlock(self) -> bool:
        """Resume polling threads without success, or end the threads that wait forever.

        Returns:
            False if no thread waits.
        """
        if not self._waiting:
            return False
        if self.let_polls_go():
            return True
        for wait in self._waiting:
            self._give_up(wait)
        self._waiting = []
        return True

    def let_polls_go(self) -> bool:
        """Resume polling threads without success, once per change; return whether there were any."""
        polling = [wait for wait in self._waiting if wait.polls]
        if not polling or self._polled_at == self._changes:
            return False
        self._polled_at = self._changes
        self._waiting = [wait for wait in self._waiting if not wait.polls]
        for wait in polling:
            self._go_on(wait, wait.named.threads, success=False)
        return True

    def waiting(self) -> list[tuple[int, Lanes]]:
        """Return the instruction and the threads of each wait."""
        return [(wait.position, Lanes(self._batch.threads, wait.named.threads)) for wait in self._waiting]

    def abandon(self) -> None:
        """End the waiting threads without a finding: another finding explains the endless wait."""
        for wait in self._waiting:
            self._pool.end(wait.named.threads)
        self._waiting = []

    def _give_up(self, wait: _Wait) -> None:
        """End the threads of an endless wait, with a finding on what is missing."""
        number, block = int(wait.named.numbers[0]), int(wait.named.blocks[0])
        pending, count = int(self._pending[number, block]), int(self._count[number, block])
        detail = f"these threads wait forever for a phase {_lacking(pending, count, int(self._bytes[number, block]))}"
        threads, offset, phase = wait.named.threads, int(self._offsets[number]), int(self._phase[number, block])
        remedy = ""
        if phase and self._watch.clocks is not None and int(self._saw[number, threads[0]]) < phase:
            detail += f", after one of parity {(phase - 1) & 1} that is complete and that they have not waited for"
            remedy = f"a wait of parity {(phase - 1) & 1} here, if it is meant for that phase"
        elif not phase:
            remedy = "an arrival; or parity 1 here, if this waits for a stage to become free that nobody has filled yet"
        self._findings.add("mbarrier-deadlock", wait.position, detail, threads, address=offset, remedy=remedy)
        self._pool.end(threads)


def _lacking(pending: int, count: int, size: int) -> str:
    """Explain why a phase does not complete.

    Args:
        pending: Arrivals still expected.
        count: All expected arrivals.
        size: Bytes still expected, negative if too many arrived.
    """
    lacks = [f"{pending} of {count} arrivals"] * (pending > 0) + [f"{size} bytes"] * (size > 0)
    parts = [f"that lacks {' and '.join(lacks)}"] if lacks else []
    parts += [f"in which {-size} bytes more arrived than were expected"] if size < 0 else []
    return ", ".join(parts)


def _wait_form(binder: OperandBinder) -> tuple[bool, str, bool]:
    """Return whether a wait polls, the PTX type of its phase operand, and whether it is relaxed.

    Raises:
        UnsupportedInstruction: the form is not supported.
    """
    op = Opcode(binder.instruction.opcode)
    try:
        polls = op.one_of(("try_wait", "test_wait")) == "test_wait"
        state = "u32" if op.flag("parity") else "u64"  # a phase's parity, or the state (the phase) of an arrival
        relaxed = op.flag("relaxed")
        for word in ("acquire", *_SCOPES):
            op.flag(word)
        take_space(op)
        op.one_of(("b64",))
        op.finish()
    except UnknownForm as unknown:
        raise unsupported(binder.instruction, str(unknown)) from unknown
    return polls, state, relaxed
