"""Execution of a kernel's machine code over a launch's blocks on several cores."""

from __future__ import annotations

import ctypes
import math
import os
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.emulator.arrays import Bytes, Indices
from lab.emulator.batch import ALONE, Index3, make_batch, padded_threads
from lab.emulator.compiled import accesses, copies, layout, patterns
from lab.emulator.compiled.decoding import NotCompiled
from lab.emulator.compiled.ir import LANES
from lab.emulator.compiled.kept import KernelMaker
from lab.emulator.compiled.kernel_code import KernelCode
from lab.emulator.compiled.primitive_code import SPECIAL
from lab.emulator.compiled.shadows import MANY, MOST_THREADS, WRITTEN, Cells32, Watched, meet
from lab.emulator.compiled.warp_code import COPY, GLOBAL_ATOMIC
from lab.emulator.memory.memory import FIRST_BUFFER, PARAM_SEGMENT, AddressSpace, Region
from lab.emulator.monitor import COMPILED_SHARE, LaunchMonitor
from lab.emulator.operations.floating import SPECIAL_FUNCTIONS
from lab.emulator.program import Program
from lab.emulator.results import MemoryCount
from lab.emulator.tally import Counters
from lab.hardware.memory import CHUNK_BYTES

ROUNDS = 1 << 27
"""The back edges a warp may take between barriers: about a second. More may be a wait for another warp."""

_LOOK_S = 0.1
"""Seconds between checks of the time limit."""

_ALIGNMENT = 256
_CHUNKS = 8  # chunks of blocks per core, for load balance
SUSPICIOUS = "a possible race or read of unwritten memory"
_REASONS = {
    layout.FAULT: "a faulting access or instruction",
    layout.PARTED: "lanes that wait forever for others of their warp",
    layout.SPINS: "a loop that may wait for another warp",
    layout.STOPPED: "not finished in time",
}


@dataclass(frozen=True, slots=True, eq=False)
class Geometry:
    """The size of a launch.

    Attributes:
        grid: Blocks along x, y, z.
        block: Threads along x, y, z.
        shared_bytes: Shared memory of a block, static and dynamic.
        dynamic_bytes: The dynamic part.
        cluster: Blocks of a cluster along x, y, z.
        chosen: (blocks,) grid numbers of the blocks to execute, whole clusters; None for all.
    """

    grid: Index3
    block: Index3
    shared_bytes: int
    dynamic_bytes: int
    cluster: Index3 = ALONE
    chosen: Indices | None = None

    @property
    def blocks(self) -> int:
        """The number of blocks to execute."""
        return self.grid[0] * self.grid[1] * self.grid[2] if self.chosen is None else len(self.chosen)

    @property
    def warps(self) -> int:
        """The number of warps per block."""
        return padded_threads(self.block) // LANES


def cores() -> int:
    """Return the number of cores available to this process."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def execute(
    maker: KernelMaker,
    space: AddressSpace,
    geometry: Geometry,
    counters: Counters | None,
    *,
    writable: Collection[Region] = (),
    threads: int | None = None,
    monitor: LaunchMonitor | None = None,
) -> int:
    """Run a launch; return the warp instructions executed if counted, else 0.

    Args:
        maker: Makes the machine code.
        space: Buffers, module variables and parameters.
        geometry: Size of the launch.
        counters: The counters to update, or None.
        writable: The buffers the kernel may write, if the launch is checked.
        threads: Cores to use; None for all.
        monitor: The time limit; None for none.

    Raises:
        NotCompiled: the interpreter must execute the launch. The memory is then undefined.
    """
    program, watched = maker.program, maker.watched
    threads_in_grid = math.prod(geometry.grid) * geometry.warps * LANES
    if watched is not None and threads_in_grid > MOST_THREADS:
        raise NotCompiled("too many threads for race checks")
    if monitor is not None:
        monitor.hand_over("compiling to machine code")
    kernel = maker.make()
    if monitor is not None:
        monitor.hand_over("machine code")
    code = kernel.code
    count = 1 if code.ordered else max(1, min(threads or cores(), geometry.blocks))
    workers = [_Worker(code, space, geometry, watched, writable) for _ in range(count)]
    status = _run(kernel.native.run, workers, geometry, monitor)
    suspicious = any(worker.suspects for worker in workers) or (not status and _meet(workers))
    if status or suspicious:
        raise NotCompiled(SUSPICIOUS if suspicious else _REASONS.get(status, f"status {status}"))
    if watched is not None:
        _note_written(space, workers, watched.global_)
        updates = any(site.key == GLOBAL_ATOMIC for site in code.sites)
        _log_stores(space, workers, watched.global_, geometry, updates=updates)
    return 0 if counters is None else _collect(program, code, workers, counters)


def _meet(workers: list[_Worker]) -> bool:
    """Return whether blocks of different workers may race."""
    pairs = [(first, second) for i, first in enumerate(workers) for second in workers[:i]]
    return any(meet(first.cells[segment], second.cells[segment]) for first, second in pairs for segment in first.cells)


def _note_written(space: AddressSpace, workers: list[_Worker], granule: int) -> None:
    """Record the written bytes of the buffers that are checked during or after the launch."""
    for segment, region in space.regions.items():
        if region.shadow is not None and segment in workers[0].cells:
            if region.readonly:  # the exact bytes do not matter, and there may be many
                merged = [np.bitwise_or.reduce(worker.cells[segment]) for worker in workers]
                region.shadow.written[:1] |= bool(np.bitwise_or.reduce(merged) & WRITTEN)
                continue
            if region.log is not None:  # the log has them
                continue
            written_cells = np.logical_or.reduce(
                [worker.cells[segment] & np.uint32(WRITTEN) != 0 for worker in workers]
            )
            region.shadow.written |= np.repeat(written_cells, granule)[: len(region.shadow.written)]


def _log_stores(
    space: AddressSpace, workers: list[_Worker], granule: int, geometry: Geometry, *, updates: bool
) -> None:
    """Log stores to traced buffers; updates by threads of several blocks have no block to log.

    Cells do not distinguish a thread's update from its store: with `updates`, each may be an update.
    """
    for segment, region in space.regions.items():
        if region.log is None:
            continue
        for worker in workers:
            cells = worker.cells[segment]
            touched = np.flatnonzero(cells)
            written_cells = touched[cells[touched] & np.uint32(WRITTEN | MANY) == WRITTEN]
            blocks = ((cells[written_cells] & np.uint32(MANY - 1)).astype(np.int64) - 1) // (geometry.warps * LANES)
            if geometry.chosen is not None:
                order = np.argsort(geometry.chosen)
                blocks = order[np.searchsorted(geometry.chosen[order], blocks)]
            region.log.note(blocks, written_cells * granule, granule, update=updates)


def _aligned(size: int) -> Bytes:
    """Return zeroed bytes aligned to `_ALIGNMENT`."""
    raw = np.zeros(size + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + size]


def _exactly(which: int, x: float) -> float:
    """Compute a special function exactly as the interpreter does."""
    with np.errstate(all="ignore"):
        return float(SPECIAL_FUNCTIONS[SPECIAL[which]](np.array([x]))[0])


_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int, ctypes.c_double)(_exactly)


class _Worker:
    """One worker's memory: everything but the buffers.

    Attributes:
        context: The fields that machine code reads.
        counts: Counts of blocks and guards.
        sites: Patterns of the memory instructions.
        cells: The access state of each granule of the checked buffers, by segment.
        chunks: (instructions, chunks) whether a global-memory atomic touched a chunk.
    """

    def __init__(
        self,
        code: KernelCode,
        space: AddressSpace,
        geometry: Geometry,
        watched: Watched | None,
        writable: Collection[Region],
    ) -> None:
        warps = geometry.warps
        self.counts: NDArray[np.int64] = np.zeros(max(1, code.counters), np.int64)
        self.sites = _aligned(max(1, len(code.sites)) * accesses.SITE_BYTES)
        shared_bytes = -(-max(geometry.shared_bytes, 1) // 16) * 16
        shared = _aligned(shared_bytes)
        local = _aligned(max(1, warps * LANES * code.local_stride))
        states = _aligned(warps * code.state_bytes)
        batch = make_batch((1, 1, 1), geometry.block, 0, 1)
        tids = _aligned(warps * 384)
        rows = tids.view(np.uint32).reshape(warps, 3, LANES)
        for axis in range(3):
            rows[:, axis] = batch.tid[axis].reshape(warps, LANES)
        weights = np.left_shift(np.uint32(1), np.arange(LANES, dtype=np.uint32))
        exists = (batch.exists.reshape(warps, LANES) * weights).sum(axis=1, dtype=np.uint32)
        self.cells = {} if watched is None else _cells(space, writable, watched.global_)
        table = _table(space, self.cells)
        atomics = sum(site.key == GLOBAL_ATOMIC for site in code.sites)
        largest = max((region.size for region in space.regions.values() if region.space == "global"), default=0)
        self.chunks: NDArray[np.bool_] = np.zeros((max(1, atomics), largest // CHUNK_BYTES + 1), np.bool_)
        shadow_bytes = 0 if watched is None else shared_bytes // watched.shared * 4
        shadows = [_aligned(max(1, shadow_bytes)) for _ in range(3)]
        local_written = _aligned(max(1, warps * LANES * code.local_stride) if watched is not None else 1)
        self.stop: NDArray[np.int64] = np.zeros(1, np.int64)
        params = space.regions[PARAM_SEGMENT].data
        self._kept = (shared, local, states, tids, exists, table, params, shadows, local_written)
        fields = {
            "params": params.ctypes.data,
            "table": table.ctypes.data,
            "segments": len(table),
            "shared": shared.ctypes.data,
            "shared_bytes": geometry.shared_bytes,
            "local": local.ctypes.data,
            "counts": self.counts.ctypes.data,
            "sites": self.sites.ctypes.data,
            "tids": tids.ctypes.data,
            "exists": exists.ctypes.data,
            "states": states.ctypes.data,
            "callback": ctypes.cast(_CALLBACK, ctypes.c_void_p).value,
            "copied": ctypes.cast(copies.CALLBACK, ctypes.c_void_p).value,
            "stop": self.stop.ctypes.data,
            "fuel": ROUNDS,
            "warps": warps,
            "dynamic_bytes": geometry.dynamic_bytes,
            **{name: array.ctypes.data for name, array in zip(("writes", "reads", "pending"), shadows, strict=True)},
            "chunks": self.chunks.ctypes.data,
            "chunk_bytes": self.chunks.shape[1],
            "local_written": local_written.ctypes.data,
            "shadow_bytes": shadow_bytes,
            **{f"ntid_{axis}": size for axis, size in zip("xyz", geometry.block, strict=True)},
            **{f"nctaid_{axis}": size for axis, size in zip("xyz", geometry.grid, strict=True)},
        }
        self.context: NDArray[np.int64] = np.array([fields.get(name, 0) for name in layout.FIELDS], np.int64)

    @property
    def suspects(self) -> bool:
        """Return whether the worker saw a suspicious access."""
        return bool(self.context[layout.CONTEXT["suspects"] // 8])


def _cells(space: AddressSpace, writable: Collection[Region], granule: int) -> dict[int, Cells32]:
    """Return the cells of buffers the kernel may write, or must write before reading."""
    return {
        segment: np.zeros(region.stride // granule, np.uint32)
        for segment, region in space.regions.items()
        if segment >= FIRST_BUFFER and (region in writable or region.shadow is not None)
    }


def _table(space: AddressSpace, cells: Mapping[int, Cells32]) -> NDArray[np.int64]:
    """Return the table of `accesses.SEGMENT_BYTES`, (segments, 8)."""
    table = np.zeros((max((*space.regions, FIRST_BUFFER)) + 1, accesses.SEGMENT_BYTES // 8), np.int64)
    for segment, region in space.regions.items():
        if segment >= FIRST_BUFFER:
            table[segment, :3] = region.data.ctypes.data, region.size, region.space == "global"
            if segment in cells:
                unwritten = region.shadow is not None and not region.shadow.readable
                table[segment, 3:5] = cells[segment].ctypes.data, unwritten
    return table


def _run(
    run: Any,  # noqa: ANN401  a foreign function
    workers: list[_Worker],
    geometry: Geometry,
    monitor: LaunchMonitor | None,
) -> int:
    """Run blocks on all workers until done, failed or out of time; return the first non-zero result."""
    blocks = geometry.blocks
    chunk = max(1, -(-blocks // (len(workers) * _CHUNKS)))
    spans = [(first, min(first + chunk, blocks)) for first in range(0, blocks, chunk)]
    if geometry.chosen is not None:
        spans = [(number, number + 1) for number in geometry.chosen.tolist()]
    waiting = iter(spans)
    lock, results = threading.Lock(), [0] * len(workers)

    def stop() -> None:
        for worker in workers:
            worker.stop[0] = 1

    def work(number: int) -> None:
        worker = workers[number]
        while True:
            with lock:
                span = next(waiting, None)
            if span is None or any(results):
                return
            result = run(worker.context.ctypes.data, *span)
            if result:
                results[number] = result
                stop()
                return
            if monitor is not None:
                with lock:
                    monitor.finished += span[1] - span[0]

    _wait([threading.Thread(target=work, args=(number,)) for number in range(len(workers))], stop, monitor)
    failures = [result for result in results if result]
    return next((result for result in failures if result != layout.STOPPED), max(failures, default=0))


def _wait(helpers: list[threading.Thread], stop: Callable[[], None], monitor: LaunchMonitor | None) -> None:
    """Run threads to completion, stopping them at the time limit and on Ctrl-C."""
    try:
        for helper in helpers:
            helper.start()
        for helper in helpers:
            while helper.is_alive():
                helper.join(_LOOK_S)
                if monitor is not None and monitor.expired(COMPILED_SHARE):
                    stop()
    finally:
        stop()
        for helper in helpers:
            if helper.ident is not None:
                helper.join()


def _collect(program: Program, code: KernelCode, workers: list[_Worker], counters: Counters) -> int:
    """Add the workers' counts to the launch's; return the executed warp instructions."""
    counts = np.sum([worker.counts for worker in workers], axis=0)
    steps = 0
    for block in program.blocks:
        warps, lanes = (int(value) for value in counts[2 * block.index : 2 * block.index + 2])
        counters.add_visits(block.index, warps, lanes)
        steps += warps * (block.stop - block.first + (block.end is not None))
    first = 2 * len(program.blocks)
    for position, value in zip(code.guarded, counts[first:].tolist(), strict=False):
        counters.guarded[position] += value
    for site, count in zip(code.sites, _traffic(code, workers), strict=True):
        if site.key not in ("", COPY) and count.requests:
            counters.add_traffic(site.position, site.key, count)
    touched = np.logical_or.reduce([worker.chunks for worker in workers])
    atomics = [site for site in code.sites if site.key == GLOBAL_ATOMIC]
    for site, chunks in zip(atomics, touched, strict=False):
        counters.add_chunks(site.position, np.flatnonzero(chunks))
    for number, site in enumerate(code.sites):
        if site.key == COPY:
            place = slice(number * accesses.SITE_BYTES, (number + 1) * accesses.SITE_BYTES)
            sides = copies.traffic(np.concatenate([worker.sites[place] for worker in workers]), site.width)
            if sides[0].requests:
                for key, count in zip(("shared.copy", "global.copy"), sides, strict=True):
                    counters.add_traffic(site.position, key, count)
    return steps


def _traffic(code: KernelCode, workers: list[_Worker]) -> list[MemoryCount]:
    """Return the traffic of each site, over all its patterns and workers."""
    counts = []
    shape = (len(workers), -1, patterns.WAYS, patterns.BYTES)
    raw = np.stack([worker.sites for worker in workers]).reshape(shape)
    narrow, wide = raw.view(np.uint32).astype(np.int64), raw.view(np.int64)
    hits = wide[..., patterns.HITS // 8]
    lanes = np.bitwise_count(narrow[..., patterns.MASK // 4]).astype(np.int64)

    def total(offset: int, per_access: NDArray[np.int64] | int) -> NDArray[np.int64]:
        sums: NDArray[np.int64] = (wide[..., offset // 8] + hits * per_access).sum(axis=(0, 2))
        return sums

    waves = total(patterns.TOTAL_WAVES, narrow[..., patterns.WAVES // 4])
    ideal = total(patterns.TOTAL_IDEAL, narrow[..., patterns.IDEAL // 4])
    requests, used = total(patterns.TOTAL_REQUESTS, 1), total(patterns.TOTAL_LANES, lanes)
    updates = total(patterns.TOTAL_UPDATES, narrow[..., patterns.UPDATES // 4])
    for i, site in enumerate(code.sites):  # fields of copy sites have another meaning, and are not used
        cost, least = int(waves[i]), int(ideal[i])
        shared = site.key.startswith("shared")
        counts.append(
            MemoryCount(
                int(requests[i]),
                cost if shared else 0,
                0 if shared else cost,
                int(used[i]) * site.width,
                least if shared else 0,
                int(updates[i]) if "atomic" in site.key else 0,
            )
        )
    return counts
