"""The interpreter: executes all threads of a batch, one basic block at a time.

Threads at the same location with the same call stack form a group and run together. While all threads of the batch are
converged, operations run on whole register arrays without masks. Threads that poll unchanged memory are suspended until
the others have run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from operator import length_hint
from typing import Literal

import numpy as np

from lab.emulator.allowance import Allowance
from lab.emulator.approximations import Rounding
from lab.emulator.arrays import Indices, Mask
from lab.emulator.batch import ALONE, Batch, Index3, padded_threads
from lab.emulator.binding import WARPGROUP, Storage
from lab.emulator.callgraph import ASSERTION
from lab.emulator.calls import Calls, is_provided
from lab.emulator.control import CodeBlock, is_wait
from lab.emulator.errors import unsupported
from lab.emulator.findings import MOST_REPEATS, BatchFindings, Findings
from lab.emulator.instructions import Full, InstructionBinder, Part
from lab.emulator.lanes import Lanes, warp_of
from lab.emulator.memory.access import MemoryUnit
from lab.emulator.memory.asyncshadow import AsyncShadow
from lab.emulator.memory.clocks import LaunchClocks
from lab.emulator.memory.memory import AddressSpace
from lab.emulator.memory.reuse import AccessTrace
from lab.emulator.memory.shadow import SharedShadow
from lab.emulator.memory.tensor import TensorMemory
from lab.emulator.monitor import LaunchMonitor
from lab.emulator.pool import Caller, Location, Pool, Stack
from lab.emulator.printing import Printed, ThreadMemory, formatted
from lab.emulator.program import STACK_BYTES, Place, Program
from lab.emulator.progress import MemoryProgress
from lab.emulator.recurrence import Recurrence
from lab.emulator.registers import RegisterFile
from lab.emulator.results import FindingKind
from lab.emulator.special import StepClock, special_registers
from lab.emulator.tally import Counters
from lab.emulator.turns import Poll, Turns
from lab.emulator.undefined import Act, TurnedLive, UndefinedValues
from lab.emulator.waiting.barriers import Barriers, form_of
from lab.emulator.waiting.clusters import ClusterBarrier
from lab.emulator.waiting.mbarriers import Mbarriers
from lab.emulator.waiting.skipped import SkippedBarriers, behind_barriers
from lab.emulator.waiting.warpgroups import Warpgroups, registers_at_start
from lab.isa.model import Instruction

_MOST_WORK = 50
"""The multiple of the step budget at which a launch stops even if memory still changes."""

Turn = Literal["done", "waits", "stuck"]
"""The outcome of a batch's turn: all threads exited; others may run first; nothing changes any more."""


@dataclass(frozen=True, slots=True, eq=False)
class LaunchState:
    """The launch state shared by all batches.

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
        clocks: The order of accesses; None without checks for races and uninitialised reads.
        max_steps: Steps without progress (no memory changes) before a launch counts as endless.
        notes: Notes on omissions, in order.
        cluster: Blocks of a cluster along x, y, z.
        progress: Changes of memory so far.
        extents: The shared variable each instruction's address derives from, by position.
        workspace: Address of the grid sync workspace of cooperative groups; 0 for none.
        dice: The random scheduler; None for program order.
        printed: The output of printf.
        allowance: The work allowance before compiled code takes over; None for no limit.
        trace: The recorder of global memory accesses; None if not requested.
        chosen: The blocks to execute, as in `Batch`; None for all.
        wraps: Positions of products that wrap around; None if not requested.
        finished: Positions in `chosen` of finished blocks, one range per batch.
        machine: Seed of values the hardware chooses, as in `special_registers`; None for one SM.
        rounding: The choice of approximate results to displace; None for none.
        monitor: The time limit and progress monitor; None for neither.
    """

    program: Program
    space: AddressSpace
    grid: Index3
    block: Index3
    shared_bytes: int
    dynamic_bytes: int
    symbols: dict[str, int]
    counters: Counters | None
    findings: Findings
    clocks: LaunchClocks | None
    max_steps: int
    notes: dict[str, None]
    cluster: Index3 = ALONE
    progress: MemoryProgress = field(default_factory=MemoryProgress)
    extents: Mapping[int, Place] = field(default_factory=dict)
    workspace: int = 0
    dice: np.random.Generator | None = None
    printed: Printed = field(default_factory=Printed)
    allowance: Allowance | None = None
    trace: AccessTrace | None = None
    chosen: Indices | None = None
    wraps: set[int] | None = None
    finished: list[range] = field(default_factory=list)
    machine: int | None = None
    rounding: Rounding | None = None
    monitor: LaunchMonitor | None = None


class StepBudgetSpent(Exception):  # noqa: N818  a way out of the loop, not an error
    """Raised when a launch does not end, or exceeds its step or time budget.

    Attributes:
        steps: Instructions issued until then.
    """

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps


@lru_cache(maxsize=4)
def _behind_barriers(program: Program) -> Mapping[int, frozenset[int]]:
    """Return the evidence that a thread skipped a whole-block barrier, from a small cache."""
    forms = (
        (at, form_of(instruction.opcode, instruction.operands)) for at, (_, instruction) in enumerate(program.code)
    )
    return behind_barriers(program, {at for at, form in forms if form and form.count is None})


class Interpreter:
    """Executes one batch of blocks.

    Attributes:
        stuck_at: The memory-change count at which all runnable threads poll in vain; None while progress is possible.
    """

    def __init__(self, launch: LaunchState, batch: Batch, clock: StepClock) -> None:
        """Prepare a batch.

        Args:
            launch: The state shared by all batches.
            batch: The threads.
            clock: The step counter, continued from earlier batches.
        """
        program = launch.program
        self._launch, self._program, self._batch, self._clock = launch, program, batch, clock
        self._findings = BatchFindings(launch.findings, batch)
        self._pool = Pool(batch, program.priority, self._leave, launch.dice)
        self._turns = Turns(program, launch.progress)
        self._storage = Storage(
            program,
            batch,
            RegisterFile(program, batch.threads),
            special_registers(
                batch,
                launch.shared_bytes,
                launch.dynamic_bytes,
                launch.workspace,
                launch.machine if launch.machine is not None and program.asks_machine else None,
            ),
            launch.symbols,
            clock,
        )
        memory = MemoryUnit(
            program,
            batch,
            launch.space,
            self._findings,
            shared_bytes=launch.shared_bytes,
            counters=launch.counters,
            notes=launch.notes,
            clocks=launch.clocks,
            progress=launch.progress,
            extents=launch.extents,
            trace=launch.trace,
        )
        self._watch, self._bulk_groups = memory.watch, memory.bulk_groups
        self._calls = Calls(self._storage, memory.frame)
        self._clusters = ClusterBarrier(batch, program, self._pool, memory.watch, self._findings)
        self._skipped = SkippedBarriers(_behind_barriers(program) if launch.clocks is not None else {}, batch.threads)
        self._barriers = Barriers(self._storage, self._pool, memory.watch, self._findings, self._skipped)
        self._mbarriers = Mbarriers(
            self._storage,
            self._pool,
            memory.shared,
            memory.watch,
            self._findings,
            decides=program.decides,
        )
        self._undefined: UndefinedValues | None = None
        if launch.clocks is not None and program.definedness.needed:
            self._undefined = memory.watch.undefined = UndefinedValues(self._storage, self._findings)
        directives, threads = program.kernel.directives, padded_threads(launch.block)
        self._warpgroups = Warpgroups(
            batch,
            memory.watch,
            self._findings,
            registers=registers_at_start(directives, threads, program.most_registers),
        )
        self._tensor = self._mbarriers.tensor = TensorMemory(batch, memory.watch, self._findings)
        self._binder = InstructionBinder(
            self._storage,
            batch,
            memory,
            self._mbarriers,
            self._warpgroups,
            self._tensor,
            self._findings,
            launch.counters,
            self._undefined,
            launch.wraps,
            launch.rounding,
        )
        self._bound: dict[int, tuple[list[Full], list[Part]]] = {}
        self._guards: dict[int, Callable[[], Mask]] = {}
        self._end_checks: dict[int, Act | None] = {}
        self._noted: dict[Location, bytes] = {}  # digest of each group's registers at its last poll
        self._woken_at, self._woken = -1, Recurrence()  # memory changes, and the groups suspended since
        self.stuck_at: int | None = None
        self._changes, self._changed_at = -1, 0  # memory changes, and the step of the last one
        self._insisting: Location | None = None  # where a parked group runs although lanes are missing

        self._pool.arrive(((), program.entries[0]), Lanes(batch.threads).split(self._pool.alive)[0])

    @property
    def blocks(self) -> range:
        """The positions of the batch's blocks among those executed."""
        first = self._batch.first_thread // padded_threads(self._batch.block)
        return range(first, first + self._batch.blocks)

    def turn(self, blocks: int | None = None) -> Turn:
        """Run until all threads have exited, or all runnable ones poll unchanged memory.

        Args:
            blocks: The maximum of basic blocks to execute; None for no limit.

        Raises:
            StepBudgetSpent: the launch's budget is used up; a finding is recorded.
            UnsupportedInstruction: the emulator does not support an instruction.
        """
        blocks_left = blocks
        while True:
            while self._pool:
                if blocks_left is not None:
                    if not blocks_left:
                        return "waits"
                    blocks_left -= 1
                self._step(*self._pool.take())
            if self._pool.resting:
                return self._wake()
            if not self._resume():
                self._watch.settle()
                self._tell_undefined()
                return "done"

    def _wake(self) -> Turn:
        """Wake suspended threads; return whether threads and memory are in a state seen before."""
        changes, stuck = self._launch.progress.changes, False
        if changes == self._woken_at:
            stuck = self._woken.comes_back(self._digest(self._pool.resting))
        else:
            self._woken_at, self._woken = changes, Recurrence()
        self._pool.wake()
        if stuck:
            self.stuck_at = changes
        return "stuck" if stuck else "waits"

    def _digest(self, groups: dict[Location, Lanes]) -> bytes:
        """Return a digest of all registers and of some groups' locations and threads."""
        digest = hashlib.blake2b(digest_size=16)
        for at, lanes in sorted(groups.items(), key=lambda item: item[0]):
            digest.update(repr(at).encode())
            digest.update(lanes.indices().tobytes())
        self._storage.registers.hash_into(digest)
        return digest.digest()

    def nudge(self) -> bool:
        """Release threads that wait for lanes or phases that never come; return whether there were any."""
        resumed = self._mbarriers.let_polls_go() or self._unpark()
        if resumed:
            self.stuck_at = None
        return resumed

    def _unpark(self) -> bool:
        """Let a parked group run although lanes are missing; return False if there is none."""
        self._insisting = self._pool.unpark()
        return self._insisting is not None

    def give_up(self) -> None:
        """End all remaining threads, with a finding for each group in an endless loop."""
        waiting = [*self._barriers.waiting(), *self._clusters.waiting(), *self._mbarriers.waiting()]
        waiting_notes = [
            f"{lanes.count} threads wait at {self._launch.findings.line(position)}" for position, lanes in waiting
        ]
        for at, lanes in self._pool.ready.items():
            self._give_up_group(at, lanes, waiting_notes)
        self._pool.end_all()
        for unit in (self._barriers, self._clusters, self._mbarriers):
            unit.abandon()
        self._watch.settle()
        self._tell_undefined()

    def _tell_undefined(self) -> None:
        """Report undefined values that stuck threads had read."""
        if self._undefined is not None and self._launch.findings.stuck:
            self._undefined.give_up()

    def _give_up_group(self, at: Location, lanes: Lanes, waiting_notes: list[str]) -> None:
        """Report an endless loop of a group, with the threads it waits for."""
        threads, head = lanes.indices(), self._program.blocks[at[1]].first
        reads = self._turns.polled.get(at[1], Poll(())).reads
        if not reads:
            self._findings.add("endless-loop", head, "a loop repeats without any change of state", threads)
            return
        detail, address, other_side, position = "these threads poll forever", None, None, reads[0]
        for load_position in reads:
            polled = self._watch.polled(load_position, threads)
            if polled is not None:
                first, name, address, other_side = polled
                threads = np.concatenate([[first], threads[threads != first]])
                position, detail = load_position, f"{detail} ({name}): no runnable thread changes it"
                break
        if other_side is not None:
            detail += "; the other side wrote it last"
        detail = "; ".join([detail, *waiting_notes])
        self._findings.add("deadlock", position, detail, threads, address=address, other_side=other_side)

    def _resume(self) -> bool:
        """Release threads when none is ready; return False when all have exited."""
        # Missing lanes may be polling an mbarrier: they try once more before the others run without them.
        if self._mbarriers.let_polls_go() or self._unpark():
            return True
        if self._mbarriers.break_deadlock():
            if not self._pool:  # threads at barriers wait for the ended ones
                self._barriers.abandon()
                self._clusters.abandon()
            return bool(self._pool)
        self._clusters.break_deadlock()
        self._barriers.break_deadlock()
        return bool(self._pool)

    def _step(self, at: Location, lanes: Lanes) -> None:
        """Execute one basic block of the program for a group."""
        stack, number = at
        block = self._program.blocks[number]
        full, masked = self._bound.get(number) or self._bind(block)
        if block.gate:
            lanes = self._pass_gate(at, block, lanes)
            if not lanes.count:
                return
        if self._launch.counters is not None:
            self._launch.counters.visit(number, lanes)
        if self._launch.trace is not None:
            self._launch.trace.begin()
        if number in self._skipped.tracked:
            self._skipped.visit(number, lanes)
        self._clock.steps += len(full) + 1
        self._check_budget(block, lanes)
        if self._launch.allowance is not None:
            self._launch.allowance.spend(len(full) + 1, lanes.count)
        self._execute(block, full, masked, lanes)
        if self._mbarriers.flipped:
            self._mbarriers.release()
        if block.end is None:
            self._pool.arrive((stack, block.following), lanes)
        else:
            self._end(stack, block, block.end, lanes)

    def _execute(self, block: CodeBlock, full: list[Full], masked: list[Part], lanes: Lanes) -> None:
        """Execute a block's instructions except its terminator."""
        if lanes.whole:
            actions = iter(full)
            try:
                for action in actions:
                    action()
            except TurnedLive:
                actions_left = length_hint(actions)
                for action in self._bind_again(block)[0][len(full) - actions_left :]:
                    action()
            return
        masked_actions = iter(masked)
        try:
            for act in masked_actions:
                act(lanes)
        except TurnedLive:
            actions_left = length_hint(masked_actions)
            for act in self._bind_again(block)[1][len(masked) - actions_left :]:
                act(lanes)

    def _bind_again(self, block: CodeBlock) -> tuple[list[Full], list[Part]]:
        """Rebind a block now, and the others on next use, to track undefined values."""
        self._bound.clear()
        return self._bind(block)

    def _pass_gate(self, at: Location, block: CodeBlock, lanes: Lanes) -> Lanes:
        """Keep the warps that can execute a block's gate instruction; park the others."""
        insist, self._insisting = at == self._insisting, None
        if not lanes.whole:
            lanes = self._gather(at, block, lanes, insist=insist)
        return self._take_registers(at, block, lanes, insist=insist) if block.takes and lanes.count else lanes

    def _gather(self, at: Location, block: CodeBlock, lanes: Lanes, *, insist: bool) -> Lanes:
        """Keep the warps with all lanes present; park the others until their lanes arrive."""
        missing: Mask = self._storage.at(block.first).missing_lanes(lanes, self._pool.alive)
        late, complete = lanes.split(missing[warp_of(lanes.indices())])
        if not late.count:
            return lanes
        if insist:
            detail = "lanes the instruction requires have not arrived"
            self._findings.add("warp-divergence", block.first, detail, late.indices())
            return lanes
        self._pool.park(at, late)
        return complete

    def _take_registers(self, at: Location, block: CodeBlock, lanes: Lanes, *, insist: bool) -> Lanes:
        """Keep the warpgroups whose register request can be met; park the others until it can."""
        taking = lanes
        if self._program.code[block.first][1].predicate is not None:
            taking, _ = lanes.split(lanes.select(self._guard(block.first)))
        short = self._warpgroups.short(taking, block.takes)
        if not short:
            return lanes
        if insist:
            self._warpgroups.never(block.first, short)
            return lanes
        wait: Mask = np.zeros(self._batch.warps, np.bool_)
        for first in short:
            wait[first : first + WARPGROUP] = True
        late, ready = lanes.split(wait[warp_of(lanes.indices())])
        self._pool.park(at, late)
        return ready

    def _check_budget(self, block: CodeBlock, lanes: Lanes) -> None:
        steps, changes, budget = self._clock.steps, self._launch.progress.changes, self._launch.max_steps
        if changes != self._changes:
            self._changes, self._changed_at = changes, steps
        if steps - self._changed_at > budget:
            detail = f"still running, and no memory has changed for {budget} steps"
            self._give_up("endless-loop", block, lanes, detail)
        if steps > _MOST_WORK * budget:
            detail = f"still running after {_MOST_WORK * budget} steps; try a smaller problem"
            self._give_up("endless-loop", block, lanes, detail)
        monitor = self._launch.monitor
        if monitor is not None:
            monitor.steps = steps
            if monitor.expired():
                detail = f"still running after {monitor.limit_s:g} s, the time limit of the launch"
                self._give_up("unfinished", block, lanes, detail)
        repeated = self._launch.findings.repeated
        if repeated is not None:
            location = self._findings.line(repeated)
            note = f"stopped: {location} was at fault more than {MOST_REPEATS:,} times; on a GPU, one ends the launch"
            self._launch.notes[note] = None
            raise StepBudgetSpent(steps)

    def _give_up(self, kind: FindingKind, block: CodeBlock, lanes: Lanes, detail: str) -> None:
        self._findings.add(kind, block.first, detail, lanes.indices())
        raise StepBudgetSpent(self._clock.steps)

    def _bind(self, block: CodeBlock) -> tuple[list[Full], list[Part]]:
        pairs = [self._binder.bind(position) for position in range(block.first, block.stop)]
        bound = [full for full, _ in pairs], [masked for _, masked in pairs]
        self._bound[block.index] = bound
        return bound

    # --- terminators --------------------------------------------------------------------------------------

    def _end(self, stack: Stack, block: CodeBlock, position: int, lanes: Lanes) -> None:
        """Execute a block's terminator: decide where its threads go next."""
        number, instruction = self._program.code[position]
        after = (stack, block.following)
        if self._undefined is not None:
            self._check_end(self._undefined, position, lanes)
        if instruction.predicate is not None:
            lanes, falling_through = lanes.split(lanes.select(self._guard(position)))
            if self._launch.counters is not None:
                self._launch.counters.guarded[position] += lanes.count
            self._pool.arrive(after, falling_through)
            if not lanes.count:
                return
        family = instruction.opcode.split(".")[0]
        if family == "bra":
            target = self._program.block_at.get(self._program.offsets[number] + instruction.targets[0])
            if target is None:
                self._leave(stack, lanes)
            else:
                self._branch(block.index, (stack, target), lanes)
        elif family == "call":
            self._call(stack, block, position, lanes)
        elif family in ("ret", "exit"):
            self._leave(stack if family == "ret" else (), lanes)
        elif family in ("trap", "brkpt"):
            self._trap(position, lanes, f"{family} was executed{self._why_trap(number)}")
        elif family == "brx":
            self._branch_by_table(stack, position, lanes)
        else:
            self._wait(position, instruction, after, lanes)

    def _branch(self, source: int, at: Location, lanes: Lanes) -> None:
        """Move threads to a location, or suspend them in a polling loop."""
        if not self._turns.is_back(source, at[1]):
            self._pool.arrive(at, lanes)
            return
        verdict = self._turns.round(source, at)
        if verdict in ("note", "compare"):
            digest = self._digest({at: lanes})
            if verdict == "compare" and self._noted.get(at) == digest:
                verdict = "rest"
            self._noted[at] = digest
        if verdict == "rest":
            self._turns.rested(at)
            self._pool.rest(at, lanes)
        else:
            self._pool.arrive(at, lanes)

    def _wait(self, position: int, instruction: Instruction, after: Location, lanes: Lanes) -> None:
        """Make threads wait at a barrier or mbarrier phase; they continue at `after`."""
        if is_wait(instruction):
            self._mbarriers.wait(position, after, lanes)
        elif instruction.opcode.startswith("barrier.cluster."):
            self._clusters.reach(position, instruction, after, lanes)
        else:
            self._barriers.arrive(position, after, lanes)

    def _check_end(self, undefined: UndefinedValues, position: int, lanes: Lanes) -> None:
        """Check for undefined values that affect a block's terminator."""
        if position not in self._end_checks:
            self._end_checks[position] = undefined.guards(position)
        check = self._end_checks[position]
        if check is not None:
            check(lanes)

    def _guard(self, position: int) -> Mask:
        """Return the guard of an instruction for all threads of the batch, (threads,)."""
        read_guard = self._guards.get(position)
        if read_guard is None:
            read_guard = self._guards[position] = self._storage.at(position).guard()
        return read_guard()

    def _why_trap(self, number: int) -> str:
        """Explain a function that consists of a trap only."""
        if any(instruction.opcode != "trap" for instruction in self._program.functions[number].instructions):
            return ""
        return ": the compiler replaced the whole function, which writes constant memory or has undefined behaviour"

    def _trap(self, position: int, lanes: Lanes, detail: str) -> None:
        self._findings.add("trap", position, detail, lanes.indices())
        self._leave((), lanes)

    def _leave(self, stack: Stack, lanes: Lanes) -> None:
        """Return threads to their caller, or end them at the outermost level."""
        if stack:
            call = stack[-1]
            self._calls.leave(call.position, call.callee, len(stack) - 1, lanes)
            self._pool.arrive((stack[:-1], call.back), lanes)
            return
        if self._watch.shadow is not None:
            self._copies_are_over(self._watch.shadow, lanes)
        self._warpgroups.leave(lanes)
        self._bulk_groups.leave(lanes)
        self._pool.end(lanes.rows)
        self._tensor.leave(lanes, self._pool.alive)
        if self._watch.shadow is not None and self._watch.bulk is not None:
            self._bulk_copies_are_over(self._watch.shadow, self._watch.bulk, lanes)
        if self._watch.lifetimes is not None:
            self._watch.lifetimes.leave(lanes.indices(), self._pool.alive)
        self._barriers.threads_left()
        self._clusters.release()

    def _copies_are_over(self, shadow: SharedShadow, lanes: Lanes) -> None:
        """Report async copies that threads issued and did not wait for before exiting."""
        threads, positions = shadow.in_flight(lanes.indices())
        for position in np.unique(positions).tolist():
            detail = "these threads exit without waiting for this copy into shared memory"
            self._findings.add("async-not-waited", position, detail, np.unique(threads[positions == position]))

    def _bulk_copies_are_over(self, shadow: SharedShadow, bulk: AsyncShadow, lanes: Lanes) -> None:
        """Report bulk copies into and out of exited blocks that no thread waited for."""
        size = self._batch.threads // self._batch.blocks
        for block in np.unique(self._batch.block_of[lanes.indices()]).tolist():
            if self._pool.alive[block * size : (block + 1) * size].any():
                continue
            threads, positions = bulk.in_flight(block)
            for position in np.unique(positions).tolist():
                detail = "the block exits before any of its threads waits for the mbarrier phase of this bulk copy"
                self._findings.add("async-not-waited", position, detail, np.unique(threads[positions == position]))
            for copy in shadow.sending(block, np.arange(block * size, (block + 1) * size)):
                detail = "the block exits before any of its threads waits for this bulk copy to read its shared memory"
                issuer = np.array([copy.thread - self._batch.first_thread])
                self._findings.add("async-not-waited", copy.position, detail, issuer)

    def _call(self, stack: Stack, block: CodeBlock, position: int, lanes: Lanes) -> None:
        call = self._calls.call(position)
        if is_provided(call):
            if call.target == ASSERTION:
                self._fail_assertion(position, lanes)
            else:
                self._print(position, lanes)
                self._pool.arrive((stack, block.following), lanes)
            return
        by_callee, stray = self._calls.targets(position, lanes)
        for number, callers in by_callee:
            full = self._calls.enter(position, number, len(stack), callers)
            self._stop(position, full, f"calls nested {len(stack)} deep need more than {STACK_BYTES} bytes of stack")
            entered = callers.without(full)
            inner = (*stack, Caller(block.following, position, number))
            if self._program.functions[number].instructions:
                self._pool.arrive((inner, self._program.entries[number]), entered)
            elif entered.count:
                self._leave(inner, entered)
        self._stop(position, stray, "a call to an address without a function")

    def _fail_assertion(self, position: int, lanes: Lanes) -> None:
        """End threads whose assertion failed: `__assertfail(message, file, line, function, character size)`."""
        message, file, line, function = (
            int(self._calls.argument(position, i, lanes, size)[0].view(f"u{size}")[0])
            for i, size in enumerate((8, 8, 4, 8))
        )
        memory = ThreadMemory(self._launch.space, int(lanes.indices()[0]))
        location = f"{memory.string(file)}:{line}"
        detail = f"{location}: {memory.string(function)}: assertion `{memory.string(message)}` failed"
        self._trap(position, lanes, detail)

    def _print(self, position: int, lanes: Lanes) -> None:
        """Print the output of threads in order: `vprintf(format, arguments)`."""
        forms, lists = (self._calls.argument(position, i, lanes, 8).view(np.uint64).reshape(-1) for i in range(2))
        lengths = np.zeros((lanes.count, 4), np.uint8)
        for i, thread in enumerate(lanes.indices().tolist()):
            memory = ThreadMemory(self._launch.space, thread)
            text = formatted(memory, int(forms[i]), int(lists[i]))
            self._launch.printed.add(text)
            lengths[i] = np.frombuffer(np.int32(len(text)).tobytes(), np.uint8)
        self._calls.give_result(position, lengths, lanes)

    def _stop(self, position: int, lanes: Lanes, detail: str) -> None:
        """End threads that cannot continue, with a finding."""
        if lanes.count:
            self._findings.add("out-of-bounds", position, detail, lanes.indices())
            self._leave((), lanes)

    def _branch_by_table(self, stack: Stack, position: int, lanes: Lanes) -> None:
        number, instruction = self._program.code[position]
        function = self._program.functions[number]
        name = instruction.operands[1] if len(instruction.operands) > 1 else ""
        labels = function.tables.get(name)
        if labels is None or not set(labels) <= set(function.labels):
            raise unsupported(instruction, f"{name or 'nothing'} is not a label table of this function")
        index = lanes.fill(self._storage.at(position).source(instruction.operands[0], "u32")(lanes))
        for i, label in enumerate(labels):
            target = self._program.block_at[self._program.offsets[number] + function.labels[label]]
            self._pool.arrive((stack, target), lanes.take(np.flatnonzero(index == i)))
        beyond = lanes.take(np.flatnonzero(index >= len(labels)))
        if beyond.count:
            detail = f"a branch to entry {int(index.max())} of a table of {len(labels)}"
            self._findings.add("out-of-bounds", position, detail, beyond.indices())
            self._leave((), beyond)
