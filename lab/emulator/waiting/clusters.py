"""Thread-block clusters: the barrier of a cluster's blocks, and reading one another's shared memory.

Clusters of consecutive blocks along x. An address in `shared::cluster` is an offset in a block's shared memory with
the block's rank in the cluster, plus 1, above bit `RANK_SHIFT`; 0 there means the block of the thread itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lab.base.errors import UserError
from lab.emulator.control import CodeBlock
from lab.emulator.errors import UnsupportedInstruction
from lab.emulator.program import Program, text_of

if TYPE_CHECKING:
    from lab.emulator.machine import Group, Machine, Stack

Array = NDArray[Any]

RANK_SHIFT = 24
"""Shared memory of a block is far smaller than 16 MiB."""
NOTE = "distributed shared memory was read, but not watched for races"


def cluster_blocks(program: Program, grid: tuple[int, int, int]) -> int:
    """Blocks of a cluster, as the kernel declares them (`__cluster_dims__`); 1 without a declaration.

    Raises:
        UserError: the cluster extends along y or z, which this machine does not do, or does not divide the grid.
    """
    shape = program.kernel.directives.get("reqnctapercluster", (1, 1, 1))
    x, *others = (*shape, 1, 1)[:3]
    if any(size != 1 for size in others):
        raise UserError("clusters along y or z cannot be executed", found=shape, accepted="clusters along x")
    if grid[0] % x:
        raise UserError("the grid is not made of whole clusters", found=grid, accepted=f"a multiple of {x} along x")
    return int(x)


class ClusterBarrier:
    """`barrier.cluster` of every cluster of a batch.

    A thread arrives and, perhaps later, waits; the wait ends once every living thread of its cluster has arrived.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._cluster_of = machine.block_of // machine.cluster
        self._arrived = np.zeros(machine.threads, bool)
        self._complete = np.zeros(machine.threads, bool)
        self._waiting: list[tuple[int, Group, Array]] = []  # position, where to go on, threads

    def reach(
        self, stack: Stack, block: CodeBlock, position: int, chosen: Array | None, pool: dict[Group, Array | None]
    ) -> None:
        """Execute one of the barrier's instructions."""
        _, instruction = self._machine.program.code[position]
        parts = set(instruction.opcode.split(".")[2:]) - {"aligned", "acquire", "release", "relaxed"}
        threads, go_on = self._machine.members(chosen), (stack, block.following)
        if parts == {"arrive"}:
            self._find(
                position, threads[(self._arrived | self._complete)[threads]], "these threads have arrived already"
            )
            self._arrived[threads] = True
            self._machine.arrive(pool, go_on, chosen)
        elif parts == {"wait"}:
            here = self._arrived[threads] | self._complete[threads]
            self._find(position, threads[~here], "these threads wait without having arrived")
            self._waiting.append((position, go_on, threads))
        else:
            raise UnsupportedInstruction(instruction.line, text_of(instruction), "this form of barrier")
        self.release(pool)

    def release(self, pool: dict[Group, Array | None]) -> None:
        """Complete what is complete, and let go who waited for it."""
        machine = self._machine
        if not self._arrived.any() and not self._waiting:
            return
        count = machine.blocks // machine.cluster
        missing = np.bincount(self._cluster_of[machine.alive & ~self._arrived], minlength=count)
        some = np.bincount(self._cluster_of[self._arrived], minlength=count)
        whole = np.flatnonzero((missing == 0) & (some > 0))
        if len(whole):
            machine.memory.barrier(np.flatnonzero(np.isin(np.arange(machine.blocks) // machine.cluster, whole)), None)
            done = np.isin(self._cluster_of, whole) & self._arrived
            self._complete |= done
            self._arrived &= ~done
        waiting, self._waiting = self._waiting, []
        for position, go_on, threads in waiting:
            ready = self._complete[threads]
            if ready.any():
                self._complete[threads[ready]] = False
                machine.arrive(pool, go_on, machine.group(threads[ready]))
            if not ready.all():
                self._waiting.append((position, go_on, threads[~ready]))

    def abandon(self) -> None:
        """End the threads that wait, without a finding."""
        for _, _, threads in self._waiting:
            self._machine.alive[threads] = False
        self._waiting = []

    def break_deadlock(self) -> bool:
        """End the threads that wait for ever; False where nobody does."""
        for position, _, threads in self._waiting:
            self._find(position, threads, "these threads wait here for ever: others of the cluster never arrive")
            self._machine.alive[threads] = False
        found, self._waiting = bool(self._waiting), []
        return found

    def _find(self, position: int, threads: Array, detail: str) -> None:
        if len(threads):
            machine = self._machine
            machine.launch.findings.add("barrier-divergence", position, detail, where=machine.where, threads=threads)


def peer_places(machine: Machine, addresses: Array, chosen: Array | None) -> tuple[Array, Array]:
    """Offsets within a block's shared memory, and places in the data of all blocks, of `shared::cluster` addresses.

    Raises:
        UserError: an address names no block of the cluster.
    """
    blocks = machine.block_of[machine.members(chosen)]
    ranks, offsets = (addresses >> RANK_SHIFT) - 1, addresses & ((1 << RANK_SHIFT) - 1)
    if int(ranks.max()) >= machine.cluster:
        raise UserError("an address in shared::cluster names no block of the cluster", found=int(ranks.max()))
    rows = np.where(ranks < 0, blocks, blocks - blocks % machine.cluster + ranks)
    return offsets, offsets + rows * machine.memory.shared.stride
