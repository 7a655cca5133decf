"""Mbarriers: arrivals, bytes that bulk copies still owe, phases, and who waits for them.

A wait ends when the phase that it names is complete; until then its threads do not run, so nothing spins. A thread that
polls (`test_wait`) waits too, and goes on without success where nothing else can run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lab.emulator.control import CodeBlock
from lab.emulator.errors import UnsupportedInstruction
from lab.emulator.operations.base import Opcode, UnknownForm
from lab.emulator.program import text_of
from lab.emulator.results import FindingKind

if TYPE_CHECKING:
    from lab.emulator.machine import Group, Machine, Stack

Array = NDArray[Any]

BYTES = 8
MOST_ARRIVALS = MOST_BYTES = 2**20 - 1
_SCOPES = ("cta", "cluster")


@dataclass(frozen=True, slots=True)
class Named:
    """Threads with the mbarriers that they name.

    Attributes:
        threads: The machine's index of each; those that named none are left out.
        kept: Positions of these threads among those of the instruction.
        numbers: Number of the mbarrier in its block.
        blocks: Block of each thread.
    """

    threads: Array
    kept: Array
    numbers: Array
    blocks: Array


@dataclass(slots=True)
class _Waiting:
    position: int
    go_on: Group
    named: Named
    parities: Array
    polls: bool


def take_space(op: Opcode) -> None:
    """Take the state space of an mbarrier's address.

    Raises:
        UnknownForm: it is not shared memory of the thread's own block.
    """
    if not (op.flag("shared") or op.flag("shared::cta")):
        raise UnknownForm("an mbarrier that is not in .shared")


class Mbarriers:
    """The mbarriers of a batch: numbered by their offset, which mostly is the same in every block."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._number_at = np.full(machine.memory.shared.stride // BYTES, -1, np.int64)
        self.live = np.zeros((0, machine.blocks), bool)
        self._offsets = np.zeros(0, np.int64)
        self._count, self._pending, self._bytes, self._phase = (
            np.zeros((0, machine.blocks), np.int64) for _ in range(4)
        )
        self._waiting: list[_Waiting] = []
        self._changes = 0
        self._polled_at = -1  # changes at which those who poll went on without success
        self.flipped = False

    # --- state ------------------------------------------------------------------------------------------------

    def place(self, position: int, addresses: Array, chosen: Array | None) -> tuple[Array, Array, Array]:
        """Threads whose address can be an mbarrier's, their positions, and the offsets; the others become findings."""
        machine, region = self._machine, self._machine.memory.shared
        threads = machine.members(chosen)
        kept = np.arange(len(threads))
        for bad, kind, detail in (
            (addresses % BYTES != 0, "misaligned", "an mbarrier lies at a multiple of 8 bytes"),
            ((addresses < 0) | (addresses > region.size - BYTES), "out-of-bounds", "an mbarrier beyond shared memory"),
        ):
            at = np.flatnonzero(bad[kept])
            if len(at):
                self._find(kind, position, threads[kept[at]], detail, address=int(addresses[kept[at[0]]]))  # type: ignore[arg-type]
                kept = np.delete(kept, at)
        return threads[kept], kept, addresses[kept]

    def name(self, position: int, addresses: Array, chosen: Array | None, *, bulk_copy: bool = False) -> Named:
        """Find the mbarriers at some addresses; what is none becomes a finding."""
        machine = self._machine
        threads, kept, offsets = self.place(position, addresses, chosen)
        blocks = machine.block_of[threads]
        numbers = self._number_at[offsets // BYTES]
        good = np.zeros(len(threads), bool)
        known = numbers >= 0
        good[known] = self.live[numbers[known], blocks[known]]
        if not good.all():
            detail = "no mbarrier was initialised here"
            self._find("mbarrier-misuse", position, threads[~good], detail, address=int(offsets[~good][0]))
            threads, kept, offsets, blocks, numbers = (a[good] for a in (threads, kept, offsets, blocks, numbers))
        shadow = machine.memory.shared_shadow
        if shadow is not None and shadow.bulk is not None and len(threads):
            places = offsets + machine.memory.shared.rows[threads]  # type: ignore[index]
            machine.memory.report_shared(
                position, threads, offsets, shadow.use_mbarrier(shadow.bulk, places, threads, bulk_copy=bulk_copy)
            )
        return Named(threads, kept, numbers, blocks)

    def init(self, position: int, addresses: Array, counts: Array, chosen: Array | None) -> None:
        """Make mbarriers."""
        machine = self._machine
        threads, kept, offsets = self.place(position, addresses, chosen)
        counts = np.broadcast_to(counts, addresses.shape)[kept].astype(np.int64)
        wrong = (counts < 1) | (counts > MOST_ARRIVALS)
        if wrong.any():
            detail = f"an mbarrier expects 1 to {MOST_ARRIVALS} arrivals, this one {int(counts[wrong][0])}"
            self._find("mbarrier-misuse", position, threads[wrong], detail)
            threads, offsets, counts = threads[~wrong], offsets[~wrong], counts[~wrong]
        shadow = machine.memory.shared_shadow
        for thread, offset, count in zip(threads.tolist(), offsets.tolist(), counts.tolist(), strict=True):
            number, block = self._number(offset), int(machine.block_of[thread])
            if self.live[number, block]:
                detail = "this mbarrier is initialised already; mbarrier.inval comes before another use of its memory"
                self._find("mbarrier-misuse", position, np.array([thread]), detail, address=offset)
            self.live[number, block] = True
            self._count[number, block] = self._pending[number, block] = count
            self._bytes[number, block] = self._phase[number, block] = 0
            if shadow is not None and shadow.bulk is not None:
                shadow.bulk.forget(number, block)
        self._mark(position, threads, offsets, live=True)

    def inval(self, position: int, addresses: Array, chosen: Array | None) -> None:
        """Give the memory of mbarriers back."""
        named = self.name(position, addresses, chosen)
        offsets = addresses[named.kept]
        shadow = self._machine.memory.shared_shadow
        waited = {
            key
            for one in self._waiting
            for key in zip(one.named.numbers.tolist(), one.named.blocks.tolist(), strict=True)
        }
        for thread, number, block in zip(
            named.threads.tolist(), named.numbers.tolist(), named.blocks.tolist(), strict=True
        ):
            if (number, block) in waited:
                self._find("mbarrier-misuse", position, np.array([thread]), "others still wait for this mbarrier")
            if shadow is not None and shadow.bulk is not None:
                shadow.bulk.retire(number, thread, block)
        self.live[named.numbers, named.blocks] = False
        self._mark(position, named.threads, offsets, live=False)

    def _mark(self, position: int, threads: Array, offsets: Array, *, live: bool) -> None:
        """Both are stores to the mbarrier's memory."""
        machine = self._machine
        shadow = machine.memory.shared_shadow
        if shadow is None or shadow.bulk is None or not len(threads):
            return
        places = offsets + machine.memory.shared.rows[threads]  # type: ignore[index]
        entry = (places[:, None] // shadow.granule + np.arange(max(1, BYTES // shadow.granule))).reshape(-1)
        shadow.bulk.mark(entry, live=False)  # so that this store is not one over a live mbarrier
        found = shadow.write(places, BYTES, threads, position, lambda at: np.zeros(len(at), bool), strong=False)
        machine.memory.report_shared(position, threads, offsets, found)
        shadow.bulk.mark(entry, live=live)

    def _number(self, offset: int) -> int:
        """The number of the mbarriers at an offset, a new one where there were none."""
        number = int(self._number_at[offset // BYTES])
        if number < 0:
            number = self._number_at[offset // BYTES] = len(self._offsets)
            self._offsets = np.append(self._offsets, offset)
            self.live, self._count, self._pending, self._bytes, self._phase = (
                np.pad(array, ((0, 1), (0, 0)))
                for array in (self.live, self._count, self._pending, self._bytes, self._phase)
            )
            shadow = self._machine.memory.shared_shadow
            if shadow is not None and shadow.bulk is not None:
                shadow.bulk.grow(len(self._offsets))
        return number

    # --- arrivals and bytes -----------------------------------------------------------------------------------

    def arrive(self, position: int, named: Named, arrivals: Array, expected: Array) -> None:
        """Count arrivals and expect bytes, the bytes first.

        Args:
            position: Index of the instruction.
            named: Threads and mbarriers.
            arrivals: Of each thread; 0 for `expect_tx` alone.
            expected: Bytes that each thread announces.
        """
        shadow = self._machine.memory.shared_shadow
        some = arrivals > 0
        if shadow is not None and shadow.bulk is not None and some.any():
            shadow.bulk.arrive(named.numbers[some], named.threads[some], named.blocks[some])
        keys = named.numbers * self._machine.blocks + named.blocks
        for key in np.unique(keys):
            mine = keys == key
            number, block = divmod(int(key), self._machine.blocks)
            self._bytes[number, block] += int(expected[mine].sum())
            self._within_limits(position, named.threads[mine], number, block)
            left = int(arrivals[mine].sum())
            while left:
                if not self._pending[number, block]:
                    detail = "more arrivals than the mbarrier expects in a phase, which bytes are missing for"
                    self._find("mbarrier-misuse", position, named.threads[mine], detail)
                    break
                taken = min(left, int(self._pending[number, block]))
                self._pending[number, block] -= taken
                left -= taken
                self._complete(number, block)
        self._changes += 1

    def phases(self, named: Named) -> Array:
        """The phases that are under way."""
        return self._phase[named.numbers, named.blocks]

    def owe_less(self, position: int, thread: int, number: int, block: int, size: int) -> int:
        """Bytes of a bulk copy have arrived; return the phase that they were part of."""
        phase = int(self._phase[number, block])
        self._bytes[number, block] -= size
        self._within_limits(position, np.array([thread]), number, block)
        self._complete(number, block)
        self._changes += 1
        return phase

    def _within_limits(self, position: int, threads: Array, number: int, block: int) -> None:
        if abs(int(self._bytes[number, block])) > MOST_BYTES:
            detail = f"an mbarrier counts up to {MOST_BYTES} bytes, here {int(self._bytes[number, block])}"
            self._find("mbarrier-misuse", position, threads, detail)

    def _complete(self, number: int, block: int) -> None:
        if self._pending[number, block] == 0 and self._bytes[number, block] == 0:
            self._phase[number, block] += 1
            self._pending[number, block] = self._count[number, block]
            self.flipped = bool(self._waiting) or self.flipped

    # --- waits ------------------------------------------------------------------------------------------------

    def wait(
        self, stack: Stack, block: CodeBlock, position: int, chosen: Array | None, pool: dict[Group, Array | None]
    ) -> None:
        """Execute `try_wait` or `test_wait`."""
        machine = self._machine
        _, instruction = machine.program.code[position]
        op = Opcode(instruction.opcode)
        try:
            polls = op.one_of(("try_wait", "test_wait")) == "test_wait"
            width = (
                "u32" if op.flag("parity") else "u64"
            )  # the parity of a phase, or the state that an arrival gave: the phase
            for word in ("acquire", "relaxed", *_SCOPES):
                op.flag(word)
            take_space(op)
            op.one_of(("b64",))
            op.finish()
        except UnknownForm as unknown:
            raise UnsupportedInstruction(instruction.line, text_of(instruction), str(unknown)) from unknown
        _, address, parity, *_ = instruction.operands  # a time limit behind them is one that no wait reaches
        addresses = machine.memory.address(position, address, "shared")(chosen)
        parities = np.broadcast_to(machine.binder.source(position, parity, width)(chosen), addresses.shape)
        named = self.name(position, addresses, chosen)
        go_on = (stack, block.following)
        nameless = np.delete(machine.members(chosen), named.kept)
        self._go_on(_Waiting(position, go_on, named, parities, polls), nameless, pool, done=True)
        self._waiting.append(_Waiting(position, go_on, named, parities[named.kept].astype(np.int64) & 1, polls))
        self.release(pool)

    def release(self, pool: dict[Group, Array | None]) -> None:
        """Let go whose phase is complete."""
        self.flipped = False
        waiting, self._waiting = self._waiting, []
        shadow = self._machine.memory.shared_shadow
        for one in waiting:
            named = one.named
            done = (self._phase[named.numbers, named.blocks] - 1) & 1 == one.parities
            if done.any():
                if shadow is not None and shadow.bulk is not None:
                    shadow.bulk.see(named.numbers[done], one.parities[done], named.threads[done], named.blocks[done])
                self._go_on(one, named.threads[done], pool, done=True)
            if not done.all():
                left = Named(*(a[~done] for a in (named.threads, named.kept, named.numbers, named.blocks)))
                self._waiting.append(_Waiting(one.position, one.go_on, left, one.parities[~done], one.polls))

    def _go_on(self, one: _Waiting, threads: Array, pool: dict[Group, Array | None], *, done: bool) -> None:
        if len(threads):
            machine = self._machine
            result = machine.program.code[one.position][1].operands[0]
            machine.binder.target(one.position, result, "pred")(threads, np.full(len(threads), done))
            machine.arrive(pool, one.go_on, machine.group(threads))

    def break_deadlock(self, pool: dict[Group, Array | None]) -> bool:
        """Let those go on who poll, or end the threads that wait for ever; False where nobody waits."""
        if not self._waiting:
            return False
        machine = self._machine
        polling = [one for one in self._waiting if one.polls]
        if polling and self._polled_at != self._changes:
            self._polled_at = self._changes
            self._waiting = [one for one in self._waiting if not one.polls]
            for one in polling:
                self._go_on(one, one.named.threads, pool, done=False)
            return True
        for one in self._waiting:
            number, block = int(one.named.numbers[0]), int(one.named.blocks[0])
            detail = (
                f"these threads wait for ever for a phase that lacks {int(self._pending[number, block])} of "
                f"{int(self._count[number, block])} arrivals and {int(self._bytes[number, block])} bytes"
            )
            self._find("mbarrier-deadlock", one.position, one.named.threads, detail, address=int(self._offsets[number]))
            machine.alive[one.named.threads] = False
        self._waiting = []
        return True

    def _find(
        self, kind: FindingKind, position: int, threads: Array, detail: str, *, address: int | None = None
    ) -> None:
        machine = self._machine
        machine.launch.findings.add(kind, position, detail, where=machine.where, threads=threads, address=address)
