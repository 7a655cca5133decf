"""The interpreter: all threads of a batch of blocks, one basic block at a time.

A group is a set of threads at one place, with one call stack. Where all threads of the batch are together the
group is None: operations then run on whole register arrays and nothing is masked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.base.warp import WARP_SIZE
from lab.emulator import operands
from lab.emulator.binding import Binder
from lab.emulator.control import CodeBlock, is_wait
from lab.emulator.errors import UnsupportedInstruction
from lab.emulator.findings import Findings
from lab.emulator.memory.access import MemoryUnit
from lab.emulator.memory.memory import AddressSpace
from lab.emulator.operations.move import special_registers
from lab.emulator.program import ASSERTION, IGNORED_CALLS, Place, Program, callee, text_of
from lab.emulator.registers import RegisterFile
from lab.emulator.tally import Counters
from lab.emulator.waiting.barriers import Barriers
from lab.emulator.waiting.mbarriers import Mbarriers

Array = NDArray[Any]
Stack = tuple[int, ...]
Group = tuple[Stack, int]


@dataclass(frozen=True, slots=True)
class LaunchState:
    """What does not change from batch to batch.

    Attributes:
        program: The kernel.
        space: Buffers, module variables and parameters.
        grid: Blocks along x, y, z.
        block: Threads along x, y, z.
        shared_bytes: Shared memory of a block, static and dynamic.
        dynamic_bytes: The dynamic part.
        symbols: Addresses of module variables.
        counters: Tallies, or None.
        findings: Faults.
        check: Watch for races and uninitialised reads.
        max_steps: Step budget.
        notes: What was left out, in order.
        cluster: Blocks of a cluster, consecutive along x.
    """

    program: Program
    space: AddressSpace
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    dynamic_bytes: int
    symbols: dict[str, int]
    counters: Counters | None
    findings: Findings
    check: bool
    max_steps: int
    notes: dict[str, None]
    cluster: int = 1


class StepBudgetSpent(Exception):  # noqa: N818  a way out of the loop, not an error
    """The step budget is used up."""


class Machine:
    """One batch of blocks.

    Attributes:
        threads: Threads of the batch, whole warps: a block's last warp is filled up with lanes that never run.
        registers: The register file.
        memory: Loads, stores and their checks.
        mbarriers: Phases, and who waits for them.
        cluster: Blocks of a cluster.
        steps: Instructions issued so far, over all batches.
    """

    def __init__(self, launch: LaunchState, first_block: int, blocks: int, steps: int = 0) -> None:
        """Prepare a batch.

        Args:
            launch: What does not change.
            first_block: Linear index of the first block.
            blocks: Number of blocks.
            steps: Steps that earlier batches took.
        """
        self.launch, self.program = launch, launch.program
        self.blocks, self.steps, self.cluster = blocks, steps, launch.cluster
        size = launch.block[0] * launch.block[1] * launch.block[2]
        self.block_threads = -(-size // WARP_SIZE) * WARP_SIZE
        self.threads = blocks * self.block_threads
        self.block_of = np.repeat(np.arange(blocks), self.block_threads)
        within = np.tile(np.arange(self.block_threads), blocks)
        self.alive: Array = within < size
        self._place_threads(within, first_block)
        self.registers = RegisterFile(self.program, self.threads)
        self.memory = MemoryUnit(self)
        self.barriers = Barriers(self)
        self.mbarriers = Mbarriers(self)
        self._bound: dict[int, tuple[list[Callable[[], Any]], list[Callable[[Array], Any]]]] = {}
        self._guards: dict[int, Array] = {}
        self._keys: dict[Group, tuple[float, ...]] = {}
        self.binder = Binder(self)
        self.parked: dict[Group, Array] = {}
        self._insist = False

    def _place_threads(self, within: Array, first_block: int) -> None:
        x, y, _ = self.launch.block
        tid = (within % x, within // x % y, within // (x * y))
        linear = first_block + self.block_of
        gx, gy, _ = self.launch.grid
        ctaid = (linear % gx, linear // gx % gy, linear // (gx * gy))
        self._tid, self._ctaid = tid, ctaid
        self.special = special_registers(
            self.launch.grid,
            self.launch.block,
            tid,
            ctaid,
            (self.launch.shared_bytes, self.launch.dynamic_bytes),
            cluster=self.launch.cluster,
        )

    def where(self, thread: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """Return the block index and the thread index of a thread of the batch."""
        block, tid = (tuple(int(axis[thread]) for axis in axes) for axes in (self._ctaid, self._tid))
        return (block[0], block[1], block[2]), (tid[0], tid[1], tid[2])

    def members(self, chosen: Array | None) -> Array:
        """Return a group's threads as indices."""
        return np.arange(self.threads) if chosen is None else chosen

    def group(self, chosen: Array) -> Array | None:
        """Return a group in its shortest form."""
        return None if len(chosen) == self.threads else chosen

    def run(self) -> None:
        """Run every thread to its end.

        Raises:
            StepBudgetSpent: the launch's budget is used up; the finding is noted.
        """
        pool: dict[Group, Array | None] = {}
        start = self.group(np.flatnonzero(self.alive))
        pool[(), self.program.entries[0]] = start
        while True:
            if not pool and not self._resume(pool):
                return
            at = min(pool, key=self._key) if len(pool) > 1 else next(iter(pool))
            self._step(at, pool.pop(at), pool)

    def _key(self, at: Group) -> tuple[float, ...]:
        found = self._keys.get(at)
        if found is None:
            ranks = self.program.priority
            stack, block = at
            # A caller resumes after everything in its callee: the callee counts as just before the return.
            found = self._keys[at] = (*(ranks[back] - 0.5 for back in stack), float(ranks[block]))
        return found

    def _resume(self, pool: dict[Group, Array | None]) -> bool:
        """Find threads to go on with when none can run; False when all have ended."""
        if self.parked:
            at = min(self.parked, key=self._key)
            pool[at] = self.group(self.parked.pop(at))
            self._insist = True
            return True
        if self.mbarriers.break_deadlock(pool):
            if not pool:
                self.barriers.abandon()  # who waits there waits for those that were ended
            return bool(pool)
        return self.barriers.break_deadlock(pool)

    def arrive(self, pool: dict[Group, Array | None], at: Group, chosen: Array | None) -> None:
        """Add threads to a place, where others may already be."""
        if chosen is not None and not len(chosen):
            return
        if at[1] < 0:  # past the last instruction of a function
            self._leave(at[0], chosen, pool)
            return
        waiting = self.parked.pop(at, None)
        parts = [part for part in (pool.get(at), waiting, chosen) if part is not None]
        if chosen is None or len(parts) <= 1:
            pool[at] = chosen
            return
        pool[at] = self.group(np.sort(np.concatenate(parts)))

    def _step(self, at: Group, chosen: Array | None, pool: dict[Group, Array | None]) -> None:
        stack, number = at
        block = self.program.blocks[number]
        full, part = self._bound.get(number) or self._bind(block)
        if block.gate and chosen is not None:
            chosen = self._gather(at, block, chosen)
            if chosen is not None and not len(chosen):
                return
        counters = self.launch.counters
        if counters is not None:
            counters.visit(number, chosen, self.threads)
        self.steps += len(full) + 1
        if self.steps > self.launch.max_steps:
            self._out_of_steps(block, chosen)
        if chosen is None:
            for action in full:
                action()
        else:
            for act in part:
                act(chosen)
        if self.mbarriers.flipped:
            self.mbarriers.release(pool)
        if block.end is None:
            self.arrive(pool, (stack, block.following), chosen)
        else:
            self._end(stack, block, block.end, chosen, pool)

    def _gather(self, at: Group, block: CodeBlock, chosen: Array) -> Array | None:
        """Keep the warps whose lanes are all here; the others wait for their missing lanes."""
        insist, self._insist = self._insist, False
        missing = self.binder.missing_lanes(block.first, chosen)
        late = missing[chosen >> 5]
        if not late.any():
            return self.group(chosen)
        if insist:
            self.launch.findings.add(
                "warp-divergence",
                block.first,
                "lanes that the instruction names are not here",
                where=self.where,
                threads=chosen[late],
            )
            return self.group(chosen)
        self.parked[at] = chosen[late]
        result: Array | None = chosen[~late]
        return result

    def _out_of_steps(self, block: CodeBlock, chosen: Array | None) -> None:
        self.launch.findings.add(
            "endless-loop",
            block.first,
            f"still running after {self.launch.max_steps} steps",
            where=self.where,
            threads=self.members(chosen),
        )
        raise StepBudgetSpent

    def _bind(self, block: CodeBlock) -> tuple[list[Callable[[], Any]], list[Callable[[Array], Any]]]:
        pairs = [self.binder.bind(position) for position in range(block.first, block.stop)]
        bound = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        self._bound[block.index] = bound
        return bound

    # --- terminators --------------------------------------------------------------------------------------

    def _end(
        self, stack: Stack, block: CodeBlock, position: int, chosen: Array | None, pool: dict[Group, Array | None]
    ) -> None:
        number, instruction = self.program.code[position]
        taken, rest = chosen, None
        stays = False
        if instruction.predicate is not None:
            taken, rest, stays = self._divide(position, chosen)
        if stays:
            self.arrive(pool, (stack, block.following), rest)
        if instruction.predicate is not None and taken is not None and not len(taken):
            return
        family = instruction.opcode.split(".")[0]
        if family == "bra":
            target = self.program.block_at.get(self.program.offsets[number] + instruction.targets[0])
            if target is None:
                self._leave(stack, taken, pool)
            else:
                self.arrive(pool, (stack, target), taken)
        elif family == "call":
            self._call(stack, block, position, taken, pool)
        elif family in ("ret", "exit"):
            self._leave(stack if family == "ret" else (), taken, pool)
        elif family == "trap":
            self._trap(position, taken, pool, "trap was executed")
        elif family == "brx":
            self._branch_by_table(stack, position, taken, pool)
        elif is_wait(instruction):
            self.mbarriers.wait(stack, block, position, taken, pool)
        else:
            self.barriers.arrive(stack, block, position, taken, pool)

    def _divide(self, position: int, chosen: Array | None) -> tuple[Array | None, Array | None, bool]:
        """Return the threads with a true guard, those without, and whether there are any without."""
        guard = self.guard(position)
        hit = guard() if chosen is None else guard()[chosen]
        count = int(np.count_nonzero(hit))
        if self.launch.counters is not None:
            self.launch.counters.guarded[position] += count
        if count == len(hit):
            return chosen, None, False
        if count == 0:
            return np.zeros(0, np.int64), chosen, True
        threads = self.members(chosen)
        return threads[hit], threads[~hit], True

    def guard(self, position: int) -> Callable[[], Array]:
        """Return a function that reads an instruction's guard for all threads."""
        number, instruction = self.program.code[position]
        array = self.registers.array(number, instruction.predicate or "")
        if array is None:
            raise UnsupportedInstruction(instruction.line, text_of(instruction), "the guard is no register")
        return (lambda: ~array) if instruction.negated else (lambda: array)

    def _trap(self, position: int, chosen: Array | None, pool: dict[Group, Array | None], detail: str) -> None:
        self.launch.findings.add("trap", position, detail, where=self.where, threads=self.members(chosen))
        self._leave((), chosen, pool)

    def _leave(self, stack: Stack, chosen: Array | None, pool: dict[Group, Array | None]) -> None:
        if stack:
            back = stack[-1]
            call = self.program.blocks[back - 1].end
            if call is not None:
                self._copy_results(call, chosen)
            self.arrive(pool, (stack[:-1], back), chosen)
            return
        self.alive[slice(None) if chosen is None else chosen] = False
        self.barriers.threads_left(pool)

    def _call(
        self, stack: Stack, block: CodeBlock, position: int, chosen: Array | None, pool: dict[Group, Array | None]
    ) -> None:
        _, instruction = self.program.code[position]
        name = callee(instruction)
        if name in IGNORED_CALLS:
            self.launch.notes[f"PTX line {instruction.line}: {name} was not executed"] = None
            self.arrive(pool, (stack, block.following), chosen)
            return
        if name == ASSERTION:
            self._trap(position, chosen, pool, "an assertion failed")
            return
        for source, target in self._transfers(position, results=False):
            self._copy_frame(source, target, chosen)
        number = next(i for i, function in enumerate(self.program.functions) if function.name == name)
        if not self.program.functions[number].instructions:
            self.arrive(pool, (stack, block.following), chosen)
            return
        self.arrive(pool, ((*stack, block.following), self.program.entries[number]), chosen)

    def _copy_results(self, position: int, chosen: Array | None) -> None:
        for source, target in self._transfers(position, results=True):
            self._copy_frame(source, target, chosen)

    def _transfers(self, position: int, *, results: bool) -> list[tuple[Place, Place]]:
        number, instruction = self.program.code[position]
        name = callee(instruction)
        where = next(i for i, function in enumerate(self.program.functions) if function.name == name)
        function = self.program.functions[where]
        lists = [operand for operand in instruction.operands if operand.startswith("(")]
        names_at = instruction.operands.index(name or "")
        returned = lists[0] if names_at == 1 else "()"
        passed = lists[-1] if len(instruction.operands) > names_at + 1 and lists else "()"
        actual = operands.elements(returned if results else passed)
        formal = function.results if results else function.parameters
        pairs = []
        for mine, theirs in zip(actual, formal, strict=True):
            here = self.program.places.get((number, mine))
            if here is None:
                raise UnsupportedInstruction(instruction.line, text_of(instruction), f"{mine} is no parameter")
            there = self.program.places[where, theirs.name]
            pairs.append((there, here) if results else (here, there))
        return pairs

    def _copy_frame(self, source: Place, target: Place, chosen: Array | None) -> None:
        frame = self.memory.frame.data.reshape(self.threads, -1)
        size = min(source.size, target.size)
        rows: Any = slice(None) if chosen is None else chosen
        frame[rows, target.offset : target.offset + size] = frame[rows, source.offset : source.offset + size]

    def _branch_by_table(
        self, stack: Stack, position: int, chosen: Array | None, pool: dict[Group, Array | None]
    ) -> None:
        number, instruction = self.program.code[position]
        function = self.program.functions[number]
        labels = function.tables[instruction.operands[1]]
        index = self.binder.source(position, instruction.operands[0], "u32")(chosen)
        threads = self.members(chosen)
        index = np.broadcast_to(index, threads.shape)
        for i, label in enumerate(labels):
            hit = threads[index == i]
            target = self.program.block_at[self.program.offsets[number] + function.labels[label]]
            self.arrive(pool, (stack, target), self.group(hit))


def run_batches(launch: LaunchState, batch_threads: int) -> int:
    """Run every block of a launch in batches of about `batch_threads` threads; return the steps taken."""
    total = launch.grid[0] * launch.grid[1] * launch.grid[2]
    size = launch.block[0] * launch.block[1] * launch.block[2]
    padded = -(-size // WARP_SIZE) * WARP_SIZE
    most = max(1, batch_threads // (padded * launch.cluster))  # clusters, which a batch holds whole
    batches = -(-total // (most * launch.cluster))
    share = -(-total // (batches * launch.cluster)) * launch.cluster
    steps = 0
    for first in range(0, total, share):
        machine = Machine(launch, first, min(share, total - first), steps)
        try:
            machine.run()
        finally:
            steps = machine.steps
    return steps
