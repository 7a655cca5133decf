"""Thread-block clusters: their shape and their barrier."""

from __future__ import annotations

import numpy as np

from lab.base.errors import UserError
from lab.emulator.arrays import Indices, Mask
from lab.emulator.batch import Batch, Index3
from lab.emulator.errors import unsupported
from lab.emulator.findings import BatchFindings
from lab.emulator.lanes import Lanes
from lab.emulator.memory.clocks import ClusterPhase
from lab.emulator.memory.watch import AccessWatch
from lab.emulator.pool import Location, Pool
from lab.emulator.program import Program
from lab.isa.model import Instruction


def cluster_shape(program: Program, grid: Index3, requested: Index3 | None = None) -> Index3:
    """Return the cluster shape: blocks along x, y, z.

    Args:
        program: The kernel, which may declare them (`__cluster_dims__`).
        grid: Blocks of the launch.
        requested: The launch's requested shape.

    Raises:
        UserError: The launch's shape differs from the kernel's declaration, or does not divide the grid.
    """
    declared = program.kernel.directives.get("reqnctapercluster", ())
    x, y, z = (*(declared or requested or ()), 1, 1, 1)[:3]
    if declared and requested is not None and requested != (x, y, z):
        accepted = f"{x} x {y} x {z}, as __cluster_dims__ has it, or none"
        raise UserError(
            "the launch's cluster shape differs from the kernel's",
            code="mismatch",
            key="cluster",
            found=requested,
            accepted=accepted,
        )
    if grid[0] % x or grid[1] % y or grid[2] % z:
        raise UserError(
            "the grid must be a multiple of the cluster shape",
            code="mismatch",
            found=grid,
            accepted=f"multiples of {x} blocks along x, {y} along y, {z} along z",
        )
    return int(x), int(y), int(z)


class ClusterBarrier:
    """`barrier.cluster` of every cluster of a batch.

    A thread arrives and, possibly later, waits. The wait ends once every live thread of its cluster has arrived.
    Accesses before an arrival are ordered before those after a wait. A `.relaxed` arrival only orders fenced accesses
    and fenced mbarrier initialisations.
    """

    def __init__(self, batch: Batch, program: Program, pool: Pool, watch: AccessWatch, findings: BatchFindings) -> None:
        """Start without waiting threads.

        Args:
            batch: The threads.
            program: The kernel.
            pool: The pool of runnable threads.
            watch: The access checks, which the barrier updates.
            findings: The collector of faults.
        """
        self._batch, self._pool, self._watch, self._findings = batch, pool, watch, findings
        self._code = program.code
        self._cluster_of = batch.block_of // batch.cluster
        self._arrived = np.zeros(batch.threads, np.bool_)
        self._complete = np.zeros(batch.threads, np.bool_)
        self._relaxed = np.zeros(batch.threads, np.bool_)
        self._apart = np.zeros(batch.threads, np.bool_)  # other instructions between arrival and wait
        self._times = np.zeros(batch.threads, np.int64)  # of the arrivals
        self._phases: dict[int, ClusterPhase] = {}  # latest phase by cluster, unless known to all threads
        self._waiting: list[tuple[int, Location, Lanes]] = []  # instruction, where to continue, threads

    def reach(self, position: int, instruction: Instruction, after: Location, lanes: Lanes) -> None:
        """Execute one of the barrier's instructions.

        Args:
            position: Index of the instruction.
            instruction: The instruction.
            after: Where the threads continue.
            lanes: The threads.

        Raises:
            UnsupportedInstruction: the form of the barrier is not supported.
        """
        words = instruction.opcode.split(".")[2:]
        parts = set(words) - {"aligned", "acquire", "release", "relaxed"}
        threads = lanes.indices()
        arrived = (self._arrived | self._complete)[threads]
        if parts == {"arrive"}:
            self._find(position, threads[arrived], "these threads have arrived already")
            self._arrived[threads] = True
            self._relaxed[threads] = "relaxed" in words
            self._apart[threads] = not self._waits_at(position + 1)
            self._times[threads] = self._watch.arrival()
            self._pool.arrive(after, lanes)
        elif parts == {"wait"}:
            self._find(position, threads[~arrived], "these threads wait without having arrived")
            self._waiting.append((position, after, lanes))
        else:
            raise unsupported(instruction, "this form of barrier")
        self.release()

    def release(self) -> None:
        """Complete the barriers reached by all live threads, and release the waiting ones."""
        if not self._arrived.any() and not self._waiting:
            return
        count = self._batch.blocks // self._batch.cluster
        missing = np.bincount(self._cluster_of[self._pool.alive & ~self._arrived], minlength=count)
        arrived = np.bincount(self._cluster_of[self._arrived], minlength=count)
        complete_clusters = np.flatnonzero((missing == 0) & (arrived > 0))
        if len(complete_clusters):
            completed = np.isin(self._cluster_of, complete_clusters) & self._arrived
            for cluster in complete_clusters.tolist():
                self._order(cluster, completed & (self._cluster_of == cluster))
            self._complete |= completed
            self._arrived &= ~completed
        waiting, self._waiting = self._waiting, []
        for position, after, lanes in waiting:
            ready, pending = lanes.split(lanes.select(self._complete))
            if ready.count:
                self._complete[ready.rows] = False
                self._see(ready.indices())
                self._pool.arrive(after, ready)
            if pending.count:
                self._waiting.append((position, after, pending))

    def _order(self, cluster: int, arrived: Mask) -> None:
        """Order the earlier accesses of the (threads,) that arrived in a cluster."""
        rows = np.arange(cluster * self._batch.cluster, (cluster + 1) * self._batch.cluster)
        if not (arrived & (self._relaxed | self._apart)).any():  # no later accesses possible
            self._watch.order_clusters(rows)
            self._phases.pop(cluster, None)
            return
        threads = np.flatnonzero(arrived)
        phase = self._watch.arrivals(rows, threads, self._times[threads], self._relaxed[threads])
        if phase is not None:
            self._phases[cluster] = phase

    def _see(self, threads: Indices) -> None:
        """Give waiting threads the knowledge of the arrivals, unless they have it already."""
        if not self._phases:
            return
        clusters = self._cluster_of[threads]
        for cluster in np.unique(clusters).tolist():
            if cluster in self._phases:
                self._watch.see_arrivals(threads[clusters == cluster], self._phases[cluster])

    def _waits_at(self, position: int) -> bool:
        """Return whether an instruction is a wait at the barrier."""
        return position < len(self._code) and self._code[position][1].opcode.startswith("barrier.cluster.wait")

    def waiting(self) -> list[tuple[int, Lanes]]:
        """Return the instruction and the threads of each wait."""
        return [(position, lanes) for position, _, lanes in self._waiting]

    def abandon(self) -> None:
        """End the waiting threads without a finding."""
        for _, _, lanes in self._waiting:
            self._pool.end(lanes.rows)
        self._waiting = []

    def break_deadlock(self) -> None:
        """End the threads that would wait forever, with a finding per group."""
        for position, _, lanes in self._waiting:
            detail = "these threads wait here forever: others of the cluster never arrive"
            self._find(position, lanes.indices(), detail)
        self.abandon()

    def _find(self, position: int, threads: Indices, detail: str) -> None:
        if len(threads):
            self._findings.add("barrier-divergence", position, detail, threads)
