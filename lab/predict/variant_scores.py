"""The score of a variant (`lab.predict.score`): counts of a small problem, scaled to the real one.

Where throughput counts operations, what is executed outside of loops grows with the number of blocks, and what is
executed in loops also with the work that each block has, by a factor that all compared variants share of which the same
sizes were executed: the least ``work ratio / block ratio`` among them, and of matrix products no more than k grows.
Such kernels compute whole tiles, also where the small problem fills them only in part, and whole steps along k.

Of matrix products, the hot loop is the one along k (`lab.predict.gemm_loops`), and loops outside of it that store to
global memory make results: they grow with the tiles. A loop over tiles around it belongs to blocks that stay.

There, asynchronous copies before a loop that asks for more of them fill the first stages of a ring. They grow as the
loop does: of a small problem they may be all copies, while a large one has as many in each step of its loop.

Where throughput counts bytes, threads beyond the data do nothing. Then what is executed in loops grows with the work,
and what is executed outside of loops by as much less as the factor above says.

Where the blocks grow by less than a quarter of the work and the GPU holds them all at once, they loop over the data:
loops grow with the work and the rest with the blocks. Where throughput counts operations and the hot loop is in another
loop, less than half is enough; the hot loop grows with the work, and loops around it, which go from tile to tile, by as
much less as the factor above says. Matrix products grow with the work in whatever loop they stand, since specialised
warps may have a loop each. How the work grows stands in `lab.predict.scaling`. Where it knows how the hot loop, the
other loops and the rest grow each, they grow so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from lab.base.expressions import Scalar
from lab.base.warp import LINE_BYTES, SECTOR_BYTES, WARP_SIZE
from lab.emulator.results import ExecutedCounts, MemoryCount, ReuseCount
from lab.hardware.calibration import known_gpu
from lab.hardware.gpus import Gpu
from lab.hardware.occupancy import preferred_bytes
from lab.isa.matrix import matrix_product
from lab.isa.mix import KernelMix
from lab.isa.model import InstructionClass as C
from lab.measured.timing import Merit
from lab.predict.caches import Residence, fetched
from lab.predict.executed_chains import Scaling, counterpart, local_requests, long_code, warp_chain, warps_of
from lab.predict.expansion import AS_PTX, Expansions, expansions, hot_passes
from lab.predict.gemm_loops import (
    Copies,
    awaited_share,
    both_sides,
    copies_of,
    counts_of_copies,
    multiply_adds,
    multiplying_share,
    operand_wavefronts,
    products_of,
    ring_of,
    stores_results,
    take_turns,
    tile_visits,
    tiles_grown,
    with_loop_along_k,
)
from lab.predict.scaling import Growth, Parts, declared, works
from lab.predict.score import KernelScore, score
from lab.predict.work import LaunchWork, Spilled
from lab.recorded.predictions import Prediction
from lab.recorded.run_records import EmulatedStep, EmulationRecord, LaunchRecord, VariantRecord
from lab.toolchain.base import Resources

_PERSISTENT: Final = 0.25
"""Ratio of blocks to work below which a grid is persistent, looping over the data."""
_SAMPLED: Final = 0.9
"""The same ratio for GEMMs whose sample has the tiles of the real problem."""
_NESTED: Final = 0.5
"""The same ratio for a nested hot loop, where partly filled tiles look like several tiles per block."""
_ALIKE: Final = 0.05
"""Relative difference allowed between the growth of a GEMM's operations and that of m n k: bias and beta add some."""


@dataclass(frozen=True, slots=True)
class _Step:
    """One launch at both sizes.

    Attributes:
        launch: At the real size.
        small: What was counted.
        prediction: Its occupancy, with the GPU.
        ptx: Static mix of the PTX.
        sass: Static mix of the SASS.
        resources: Of its kernel.
        bytes_moved: Declared compulsory bytes of a launch in a sequence.
        own_blocks: The counts are those of blocks of the real launch.
        reuse: Data reuse of some blocks.
        reuse_growth: Work of such a block relative to one of `small`.
    """

    launch: LaunchRecord
    small: EmulatedStep
    prediction: Prediction
    ptx: KernelMix | None
    sass: KernelMix | None
    resources: Resources | None
    bytes_moved: int | None
    own_blocks: bool = False
    reuse: ReuseCount | None = None
    reuse_growth: float = 1.0

    @property
    def cluster(self) -> int:
        """Blocks per cluster."""
        requested = math.prod(self.launch.cluster or (1,))
        return max(1, requested, self.resources.cluster if self.resources is not None else 1)

    @property
    def blocks_ratio(self) -> float:
        return math.prod(self.launch.grid) / math.prod(self.small.launch.grid)


def scores(records: Iterable[VariantRecord]) -> dict[str, KernelScore]:
    """Score variants, problem by problem; see `scores_of_problem`."""
    groups: dict[tuple[tuple[str, Scalar], ...], list[VariantRecord]] = {}
    for record in records:
        groups.setdefault(tuple(record.problem.items()), []).append(record)
    return {
        variant: kernel_score for group in groups.values() for variant, kernel_score in scores_of_problem(group).items()
    }


def rate(record: VariantRecord, kernel_score: KernelScore) -> float | None:
    """Return the throughput of a score, in the record's unit; None if the problem has no work in that unit.

    It may exceed the ceiling, whose bounds hold for operations that the hot loop's text shows, and not for those that
    the file declares by convention, as 20 an interaction of bodies.
    """
    return record.rate(kernel_score.seconds * 1e3) or None


def scores_of_problem(records: Sequence[VariantRecord]) -> dict[str, KernelScore]:
    """Score the variants of one problem, which are comparable.

    Returns:
        Variant id to score. Variants without counts, or on a GPU that is not in the table, are absent; so are those
        whose score is a throughput above the peak, since their counts do not show the problem's work.
    """
    variants = {record.variant: (record, steps) for record in records if (steps := _steps(record))}
    labels = {variant: steps[0].small.hot_label for variant, (_, steps) in variants.items() if len(steps) == 1}
    work = works([record for record, steps in variants.values() if not steps[0].own_blocks], labels)
    work |= {variant: _of_own_blocks(steps) for variant, (_, steps) in variants.items() if steps[0].own_blocks}
    parts = {variant: growth.parts for variant, growth in work.items() if growth.parts is not None}
    kernel_scores = _scored(variants, {variant: growth.likely for variant, growth in work.items()}, parts)
    if any(growth.most > growth.likely for growth in work.values()):
        slowest = _scored(variants, {variant: growth.most for variant, growth in work.items()})
        kernel_scores = {
            variant: replace(kernel_score, most_s=max(kernel_score.most_s, slowest[variant].most_s))
            for variant, kernel_score in kernel_scores.items()
        }
    return {
        variant: kernel_score
        for variant, kernel_score in kernel_scores.items()
        if _possible(variants[variant][0], kernel_score)
    }


def _of_own_blocks(steps: Sequence[_Step]) -> Growth:
    """Return the growth from counted blocks of the real problem to all of them."""
    growth = sum(math.prod(step.launch.grid) for step in steps) / sum(
        math.prod(step.small.launch.grid) for step in steps
    )
    return Growth(growth, growth)


def _possible(record: VariantRecord, kernel_score: KernelScore) -> bool:
    """Return whether a score stays below the GPU's peak; bytes may come from caches, which have no such peak."""
    peak = record.prediction.peak if record.prediction is not None and record.declared_rate is None else 0.0
    predicted = rate(record, kernel_score)
    return record.merit is not Merit.TFLOPS or not peak or predicted is None or predicted <= peak


@dataclass(frozen=True, slots=True)
class RealWork:
    """The work of a variant's launches at the problem's real size, ready to be scored.

    Attributes:
        gpu: The GPU of its predictions.
        launches: What each launch executes.
        bytes_moved: Least bytes of the problem through DRAM.
        warm_below_s: As of `lab.predict.score.score`.
    """

    gpu: Gpu
    launches: tuple[LaunchWork, ...]
    bytes_moved: int
    warm_below_s: float

    def score(self) -> KernelScore:
        """Predict the time of the work."""
        return score(self.gpu, self.launches, self.bytes_moved, warm_below_s=self.warm_below_s)


def real_work(record: VariantRecord) -> RealWork | None:
    """Return the work of a variant, of which no other variants are known.

    None for variants without counts, or on a GPU that is not in the table.
    """
    steps, gpu = _steps(record), _gpu(record)
    if not steps or gpu is None:
        return None
    known = {record.variant: (record, steps)}
    labels = {record.variant: steps[0].small.hot_label} if len(steps) == 1 else {}
    work = _of_own_blocks(steps) if steps[0].own_blocks else works([record], labels)[record.variant]
    growth = _growths(known, {record.variant: work.likely})[record.variant]
    launches = tuple(_launch(record, step, work.likely, growth, work.parts) for step in steps)
    return RealWork(gpu, launches, _compulsory(record, launches), _warm_below(record))


def _scored(
    variants: Mapping[str, tuple[VariantRecord, Sequence[_Step]]],
    work: Mapping[str, float],
    parts: Mapping[str, Parts] = MappingProxyType({}),
) -> dict[str, KernelScore]:
    """Score the variants of one problem whose work grows by `work`, and by parts according to curves."""
    growth, kernel_scores = _growths(variants, work), {}
    for variant, (record, steps) in variants.items():
        gpu = _gpu(record)
        if gpu is not None:
            known_parts = parts.get(variant)
            launches = [_launch(record, step, work[variant], growth[variant], known_parts) for step in steps]
            compulsory = _compulsory(record, launches)
            kernel_scores[variant] = score(gpu, launches, compulsory, warm_below_s=_warm_below(record))
    return kernel_scores


def _compulsory(record: VariantRecord, launches: Sequence[LaunchWork]) -> int:
    """Return the bytes that must pass through DRAM: less than all arrays hold where their parts are read.

    As rows of a table by their index: of them, what the launches request. The emulated problem shows that.
    """
    emulated = record.emulation.counted if record.emulation is not None else None
    if emulated is None or len(launches) > 1:
        return record.bytes_moved
    counts = [step.executed for step in emulated.launches if step.executed is not None]
    used = sum(count.memory.get(key, _NONE).bytes_moved for count in counts for key in (*_LOADS, "global.store"))
    if not used or used >= _IN_PART * emulated.bytes_needed:
        return record.bytes_moved
    requested = sum(work.load_sectors + work.bulk_sectors + work.store_sectors for work in launches)
    return min(record.bytes_moved, round(SECTOR_BYTES * requested))


_IN_PART: Final = 0.9
"""Share of the arrays' bytes below which a kernel surely reads them in part: the last sectors are not full."""


def _warm_below(record: VariantRecord) -> float:
    """Return the seconds below which a kernel is timed with a warm L2: as measured, else by the problem's default."""
    if record.measurement is not None:
        return math.inf if record.measurement.cache == "warm" else 0.0
    return _SHORT_S if record.merit is Merit.TFLOPS else 0.0


_SHORT_S: Final = 50e-6
"""The value of `lab.gpu.timing.cache.SHORT_US` in seconds."""


def _multiplies(step: _Step) -> bool:
    """Return whether a launch does its problem's work; launches that repack operands do not.

    The blocks of the latter do not get deeper with the problem.
    """
    executed = step.small.executed or _NOTHING
    return step.bytes_moved is None or any(executed.warps_by_class.get(cls, 0) for cls in (C.FMA, C.MMA))


def _growths(
    variants: Mapping[str, tuple[VariantRecord, Sequence[_Step]]], work: Mapping[str, float]
) -> dict[str, float]:
    """Return for each variant how much more a block does per tile of the real problem; at least 1.

    Of a matrix product that is how much deeper it is, but for kernels that have more blocks than the tiles account for:
    they share the depth among blocks. Of anything else it is the least ratio of work and blocks among the variants:
    blocks that stay have several tiles of the real problem each, which the ratio does not tell from the work of one.
    """
    least: dict[tuple[Scalar, ...], float] = {}
    own = {}
    for variant, (record, steps) in variants.items():
        sizes = _counted_sizes(record)
        own[variant] = min((work[variant] / step.blocks_ratio for step in filter(_multiplies, steps)), default=1.0)
        least[sizes] = min(least.get(sizes, math.inf), own[variant])
    growths = {}
    for variant, (record, steps) in variants.items():
        depth = _deeper(record, work[variant])
        if depth is None:
            growths[variant] = least[_counted_sizes(record)]
        else:
            growths[variant] = own[variant]
            if own[variant] * _edges(record, steps) >= depth:
                growths[variant] = depth * _whole_steps(record, steps)
    return {variant: max(1.0, growth) for variant, growth in growths.items()}


def _sides(record: VariantRecord, names: str) -> tuple[tuple[int, int], ...] | None:
    """Return sizes of the real problem, each with its emulated size; None if there are no such sizes."""
    assert record.emulation is not None  # noqa: S101 - its launches have counts
    real, small = record.problem, record.emulation.counted.problem
    sides = [(real.get(name), small.get(name)) for name in names]
    pairs = tuple((a, b) for a, b in sides if isinstance(a, int) and isinstance(b, int) and a > 0 and b > 0)
    return pairs if len(pairs) == len(sides) else None


def _deeper(record: VariantRecord, work: float) -> float | None:
    """Return the ratio of k, real to emulated, of a GEMM; None for other problems.

    The work of a product grows as m n k does; of another problem, sizes of these names mean something else.
    """
    ratios = [real / small for real, small in _sides(record, "mnk") or ()]
    return ratios[-1] if ratios and math.isclose(math.prod(ratios), work, rel_tol=_ALIKE) else None


def _whole_steps(record: VariantRecord, steps: Sequence[_Step]) -> float:
    """Return the steps along k, rounded up to whole steps, relative to those that fill the depth.

    How deep a step is follows from the stages that bulk copies fill for a block of the small one.
    """
    (real, small), *_ = _sides(record, "k") or ((1, 1),)
    copies = copies_of(steps[0].small, 1.0) if len(steps) == 1 else None
    fills_per_block = copies.fills / math.prod(steps[0].small.launch.grid) if copies else 0.0
    if not fills_per_block or small % fills_per_block:
        return 1.0
    return math.ceil(real * fills_per_block / small) * small / (real * fills_per_block)


def _edges(record: VariantRecord, steps: Sequence[_Step]) -> float:
    """Return the largest factor by which tiles grow beyond the result's area, since edge tiles are whole.

    Tiles of b rows cover M rows by at most M / b + 1, and m rows by at least 1 and at least m / b, so that there are at
    most M / m (1 + m / M) times as many. Clusters are whole, too.
    """
    cluster = max((step.cluster for step in steps), default=1)
    return math.prod(1 + cluster * small / real for real, small in _sides(record, "mn") or ())


def _counted_sizes(record: VariantRecord) -> tuple[Scalar, ...]:
    """Return the sizes of the counted problem; variants with different samples are not compared by blocks."""
    assert record.emulation is not None  # noqa: S101 - its launches have counts
    problem = record.emulation.counted.problem
    return tuple(problem[name] for name in record.problem if name in problem)


def lean(record: VariantRecord) -> VariantRecord:
    """Return the record without the two thirds that only its own page needs.

    These are the counts of its lines, once it is known what they say of its loops; counts by opcode, except those that
    ratios and scores read; and the second copy of what a single launch executed.
    """
    emulation, (ptx, sass) = record.emulation, (record.ptx, record.sass)
    record = replace(record, ptx=ptx and _lean_mix(ptx), sass=sass and _lean_mix(sass))
    if emulation is None:
        return record
    steps = emulation.launches
    if len(steps) == 1 and steps[0].looped is None and (mix := _mix(record, steps[0].entry, "ptx")) is not None:
        steps = (replace(steps[0], looped=_looped(emulation, mix)),)
    steps = _lean_steps(steps)
    sample, of_blocks = (
        None if other is None else replace(other, launches=_lean_steps(other.launches))
        for other in (emulation.sample, emulation.of_blocks)
    )
    executed, hot = _lean_counts(emulation.executed, opcodes=True), _lean_counts(emulation.hot_loop)
    if len(steps) == 1:
        executed = steps[0].executed if executed == steps[0].executed else executed
        hot = steps[0].hot_loop if hot == steps[0].hot_loop else hot
    lean_emulation = replace(
        emulation,
        lines=(),
        patterns=None,
        launches=steps,
        executed=executed,
        hot_loop=hot,
        sample=sample,
        of_blocks=of_blocks,
    )
    return replace(record, emulation=lean_emulation)


def _lean_steps(steps: Iterable[EmulatedStep]) -> tuple[EmulatedStep, ...]:
    return tuple(
        replace(step, executed=_lean_counts(step.executed, opcodes=True), hot_loop=_lean_counts(step.hot_loop))
        for step in steps
    )


def _lean_counts(counts: ExecutedCounts | None, *, opcodes: bool = False) -> ExecutedCounts | None:
    if counts is None:
        return None
    opcode_counts = {opcode: n for opcode, n in counts.warps_by_opcode.items() if _matters(opcode)} if opcodes else {}
    threads = {
        opcode: n
        for opcode, n in counts.threads_by_opcode.items()
        if opcode in opcode_counts and counts_of_copies(opcode)
    }
    return replace(counts, warps_by_opcode=opcode_counts, threads_by_opcode=threads)


def _lean_mix(mix: KernelMix) -> KernelMix:
    """Return a mix without loop counts by opcode, except those of the SASS hot loop, which ratios read."""
    loops = tuple(
        loop if loop.hot and mix.isa == "sass" else replace(loop, counts=replace(loop.counts, by_opcode={}))
        for loop in mix.loops
    )
    return replace(mix, loops=loops)


def _gpu(record: VariantRecord) -> Gpu | None:
    """Return the GPU of the record's predictions; None if the table lacks it."""
    return known_gpu(record.prediction.gpu) if record.prediction else None


def _mix(record: VariantRecord, entry: str, isa: str) -> KernelMix | None:
    pairs = [(record.ptx, record.sass), *((step.ptx, step.sass) for step in record.steps)]
    return next((p if isa == "ptx" else s for p, s in pairs if p is not None and p.name == entry), None)


def _steps(record: VariantRecord) -> tuple[_Step, ...]:
    """Return a variant's launches at both sizes; empty if one lacks counts or does not fit on an SM.

    Records of older versions lack the operations of the executed problem, without which nothing says how the counts of
    a kernel whose throughput counts operations grow.
    """
    emulation = record.emulation
    if emulation is None or record.status.failed:
        return ()
    if record.merit is Merit.TFLOPS and record.flops and not emulation.counted.flops:
        return ()
    real: list[tuple[LaunchRecord | None, Prediction | None, Resources | None, int | None]]
    real = [(step.launch, step.prediction, step.resources, step.bytes_moved) for step in record.steps]
    real = real or [(record.launch, record.prediction, record.build.resources if record.build else None, None)]
    launches: list[_Step] = []
    for (launch, prediction, resources, bytes_moved), counted in zip(real, emulation.counted.launches, strict=False):
        if launch is None or counted.executed is None or prediction is None or not prediction.blocks_per_sm:
            return ()
        ptx, sass = (_mix(record, counted.entry, isa) for isa in ("ptx", "sass"))
        small = with_loop_along_k(counted, ptx)
        if ptx is not None and sass is not None:
            ptx = ptx.with_hot(small.hot_label)
            # judged by its text alone, the hot loop of the SASS may be another one that ptxas unrolled further
            sass = sass.with_hot(counterpart(sass, ptx.hot_loop), unrolled=True) if ptx.hot_loop is not None else sass
        reuse, reuse_growth = _reuse(emulation, len(launches), small)
        own = emulation.of_blocks is not None
        launches.append(_Step(launch, small, prediction, ptx, sass, resources, bytes_moved, own, reuse, reuse_growth))
    return tuple(launches) if len(launches) == len(real) == len(emulation.counted.launches) else ()


def _reuse(emulation: EmulationRecord, place: int, counted: EmulatedStep) -> tuple[ReuseCount | None, float]:
    """Return the data reuse of a launch's blocks, and the work of a counted block relative to one that was traced.

    Where blocks of the real problem read too much to be traced, those of the small one were.
    """
    if counted.reuse is not None or emulation.of_blocks is None:
        return counted.reuse, 1.0
    small = emulation.launches[place]
    per_block = [
        step.executed.threads / math.prod(step.launch.grid)
        for step in (counted, small)
        if step.executed is not None and step.executed.threads
    ]
    return small.reuse, per_block[0] / per_block[1] if len(per_block) > 1 else 1.0


def _launch(record: VariantRecord, step: _Step, work: float, growth: float, parts: Parts | None = None) -> LaunchWork:
    executed, looped, blocks = step.small.executed or _NOTHING, _looping(record, step), step.blocks_ratio
    parts = Parts(blocks, blocks, blocks) if step.own_blocks else parts
    # what blocks compute beyond the data they do not store
    store_scale = max(1.0, declared(record) / work) if record.merit is not Merit.TFLOPS and parts is None else 1.0
    work = blocks if step.own_blocks else _own_work(step, executed, work)
    grown = blocks * min(growth, work)
    # of nested loops over tiles and through a tile, the outer ones grow by as much less as tiles do
    nested = record.merit is Merit.TFLOPS and _nests(step.ptx)
    stays = nested and stores_results(step.ptx, step.small)  # a loop over tiles is around that along k
    # where products grow by more than blocks do and than a sample leaves its tiles empty, the loops do
    sampled = record.emulation is not None and record.emulation.sample is not None
    beyond = _beyond(record, step, executed)
    limit = _NESTED if nested else _SAMPLED / beyond if sampled and executed.warps_by_class.get(C.MMA) else _PERSISTENT
    resident = (step.own_blocks or stays or grown < limit * work) and _resides(record, step)
    persistent = resident and not step.own_blocks
    if persistent and nested:
        tiles = _tiles_grown(record, step, beyond, copies_of(step.small, beyond)) if stays else None
        work = max(grown, work / beyond) if tiles is None else tiles * growth
    inside = work if persistent or record.merit is not Merit.TFLOPS else grown
    outside = blocks if persistent or record.merit is Merit.TFLOPS else max(blocks, work / growth)
    outside = inside if looped is None else outside
    # of a product, loops that store results of the sums grow with the tiles
    by_tiles = (persistent and nested) or (record.merit is Merit.TFLOPS and stores_results(step.ptx, step.small))
    around = inside / growth if by_tiles else inside
    if parts is not None:
        inside, outside, around = parts.hot, parts.outside, parts.around
    scale = Scaling(inside, outside, around)

    def scaled(of: Callable[[ExecutedCounts], float], expansion: Expansions = AS_PTX) -> float:
        total, in_loops, hot = of(executed), of(within), min(of(deepest), of(within))
        return outside * expansion.outside * (total - in_loops) + expansion.inside * (
            inside * hot + around * (in_loops - hot)
        )

    copies = copies_of(step.small, beyond)
    stages = ring_of(step.small, step.ptx, copies, inside, _shared_bytes(step), alignments=step.launch.map_alignments)
    loads = _LOADS if copies is None else ("global.load",)
    waited = _LOADS if stages is None else ("global.load",)
    results = outside if looped is None else around  # of copies that store them
    copied = inside + copies.leaving * (results - inside) if copies else inside
    # the copies before a loop are the first of those that it goes on with: a small problem may have no others
    ring = record.merit is Merit.TFLOPS and _copies_on(step.ptx)

    def traffic(keys: tuple[str, ...], figure: str, expansion: Expansions = AS_PTX) -> float:
        def of(key: str) -> Callable[[ExecutedCounts], float]:
            return lambda counts: getattr(counts.memory.get(key, _NONE), figure)

        return sum(
            copied * of(key)(executed) if ring and key in _COPIED else scaled(of(key), expansion) for key in keys
        )

    within = looped or _NOTHING
    deepest = step.small.hot_loop or within
    passes = hot_passes(step.ptx, step.small, within) * inside / outside
    filled = store_scale * traffic(("global.store",), "sectors")
    stored = filled + (store_scale * results * copies.stored if copies else 0.0)
    sectors, reuse = traffic(loads, "sectors"), step.reuse
    residence = _residence(record, step, step.reuse_growth * inside / blocks)
    # warps with loops of their own share the products of a tile, and only one of these loops is the hot one
    of_loops = _of_class(C.MMA)(within)
    multiplied = outside * (_of_class(C.MMA)(executed) - of_loops) + inside * of_loops
    by_class: dict[str, Expansions] = {cls: expansions(step.ptx, step.sass, passes, cls) for cls in _MERGED}
    shared = by_class[C.LD_SHARED]
    merged = Expansions(min(1.0, shared.inside), min(1.0, shared.outside))
    waves = traffic(("shared.load",), "wavefronts", merged) + traffic(("shared.store", "shared.atomic"), "wavefronts")
    share = multiplying_share(step.small, step.ptx, copies)
    tiles_per_block = work / growth / blocks
    passes_most = _rounds(tiles_per_block) if persistent and stays else _uneven(step, within, work / blocks)
    return LaunchWork(
        blocks=math.prod(step.launch.grid),
        warps_per_block=-(-math.prod(step.launch.block) // WARP_SIZE),
        blocks_per_sm=step.prediction.blocks_per_sm,
        instructions=scaled(lambda counts: counts.warps, expansions(step.ptx, step.sass, passes)),
        by_class={cls: scaled(_of_class(cls), by_class.get(str(cls), AS_PTX)) for cls in executed.warps_by_class},
        load_requests=traffic(waited, "requests"),
        load_sectors=sectors,
        load_bytes=traffic(loads, "bytes_used"),
        store_sectors=stored,
        stored_alone=filled * reuse.stored_alone / reuse.stored if reuse is not None and reuse.stored else 0.0,
        partial_bytes=max(0.0, SECTOR_BYTES * filled - store_scale * traffic(("global.store",), "bytes_used"))
        if reuse is None or not reuse.stored
        else (SECTOR_BYTES * reuse.written - reuse.filled) * filled / reuse.stored,
        wavefronts=waves + awaited_share(step.small, stages, inside) * traffic(("shared.copy",), "wavefronts"),
        waited_wavefronts=waves,
        constant_passes=traffic(("const.load",), "passes"),
        # records that count no updates have sectors, which are no more than these
        updates=traffic(("global.atomic",), "requests")
        if _aggregates(step, executed)
        else traffic(("global.atomic",), "updates") or traffic(("global.atomic",), "sectors"),
        chunks=executed.memory.get("global.atomic", _NONE).chunks,
        one_float=_one_float(executed),
        loads_together=_together(step.sass),
        double=_floating(executed),
        fetched=None if reuse is None or residence is None else fetched(reuse, residence, sectors),
        uneven=passes_most if resident else 1.0,
        least_bytes=step.bytes_moved,
        chain=warp_chain((step.ptx, step.sass), step.small, step.launch, within, scale, share=share),
        code=long_code((step.ptx, step.sass), step.small, step.launch, within, scale),
        spilled=_spilled(step, within, scale, residence),
        products=products_of(executed, multiplied, group=False),
        group_products=products_of(executed, multiplied, group=True),
        group_wavefronts=operand_wavefronts(executed, multiplied),
        bulk_sectors=inside * copies.sectors if copies else 0.0,
        ring=stages,
        ends=warp_chain((step.ptx, step.sass), step.small, step.launch, within, scale, ends=True, share=share)
        if executed.warps_by_class.get(C.MMA) and step.ptx is not None and step.ptx.loops
        else None,
        end_loads=outside * (_loaded(executed) - _loaded(within)) + around * (_loaded(within) - _loaded(deepest)),
        turns=max(1.0, tiles_per_block) if stays and take_turns(step.ptx) else 1.0,
        cluster=step.cluster,
    )


def _loaded(executed: ExecutedCounts) -> int:
    return executed.memory.get("global.load", _NONE).requests


def _of_class(cls: str) -> Callable[[ExecutedCounts], float]:
    return lambda counts: counts.warps_by_class.get(cls, 0)


def _copies_on(ptx: KernelMix | None) -> bool:
    """Return whether a loop of the PTX has asynchronous copies."""
    loops = ptx.loops if ptx is not None else ()
    return any(loop.counts.by_class.get(cls, 0) for loop in loops for cls in (C.CP_ASYNC, C.BULK_COPY))


def _nests(ptx: KernelMix | None) -> bool:
    """Return whether the hot loop of the PTX is nested in another loop."""
    hot = ptx.hot_loop if ptx is not None else None
    return hot is not None and hot.depth > 1


def _beyond(record: VariantRecord, step: _Step, executed: ExecutedCounts) -> float:
    """Return the ratio of emulated multiply-adds to the problem's: above 1 if tiles extend beyond the data.

    A kernel may also make several products for each of the problem's, of factors that are split into narrower ones.
    That is so where the registers of a block could not hold the sums of so many.
    """
    emulated = record.emulation.counted if record.emulation is not None else None
    if emulated is None or not emulated.flops:
        return 1.0
    products = multiply_adds(executed)
    over = 2 * (products or executed.threads_by_class.get(C.FMA, 0)) / emulated.flops
    depth = emulated.problem.get("k")
    if products and step.resources is not None and isinstance(depth, int) and depth > 0:
        capacity = _SUMS * step.resources.registers * math.prod(step.small.launch.block)
        if products / depth / math.prod(step.small.launch.grid) / tile_visits(step.ptx, step.small) > capacity:
            over /= max(1.0, math.floor(over))
    return max(1.0, over)


_SUMS: Final = 0.8
"""Largest share of its registers that a kernel uses for accumulators."""


def _own_work(step: _Step, executed: ExecutedCounts, work: float) -> float:
    """Return the work of a sequence's launch, relative to the emulated one.

    That of the whole, unless its declared bytes grow clearly less, as where it adds up a fixed number of parts.
    """
    used = sum(executed.memory.get(key, _NONE).bytes_used for key in (*_LOADS, "global.store"))
    if not step.bytes_moved or not used or step.bytes_moved / used > _PERSISTENT * work:
        return work
    return max(step.blocks_ratio, step.bytes_moved / used)


def _uneven(step: _Step, looped: ExecutedCounts, growth: float) -> float:
    """Return the most passes of a block relative to the mean, for blocks that loop over the data.

    How many they make of the small problem is read from the instructions in loops, over those of the loops' text: some
    whole number, or less than one where there are more blocks than work.
    """
    text = sum(loop.counts.instructions for loop in step.ptx.loops if loop.depth == 1) if step.ptx else 0
    if not text or not looped.warps:
        return 1.0
    executed = looped.warps / warps_of(step.small.launch) / text
    passes = growth * (executed if step.own_blocks else round(executed) or executed)
    return math.ceil(passes - _WHOLE) / passes if passes > 1 else 1.0


def _tiles_grown(record: VariantRecord, step: _Step, beyond: float, copies: Copies | None = None) -> float | None:
    """Return the ratio of tile counts, real result to emulated one, over m and n; None if it is unknown."""
    sides = _sides(record, "mn")
    if sides is None:
        return None
    (real_m, small_m), (real_n, small_n) = sides
    blocks = math.prod(step.small.launch.grid), math.prod(step.launch.grid)
    area, sizes = round(beyond * small_m * small_n / blocks[0]), ((small_m, small_n), (real_m, real_n))
    return tiles_grown(area, blocks, *sizes, step.cluster, sides_sum=both_sides(area, step.small, copies))


def _rounds(tiles: float) -> float:
    """Return the most tiles of a block relative to the mean, if the emulated blocks had one each."""
    return math.ceil(tiles - _WHOLE) / tiles if tiles > 1 else 1.0


_WHOLE: Final = 0.01
"""Excess of a number of passes over a whole number, due to partly filled blocks."""


def _shared_bytes(step: _Step) -> int:
    """Return the shared memory per block in bytes."""
    return step.launch.dynamic_shared_bytes + (step.resources.shared_bytes if step.resources else 0)


def _residence(record: VariantRecord, step: _Step, growth: float) -> Residence | None:
    """Return the caches of a block in the real launch; `growth` is its work relative to the small one."""
    gpu = _gpu(record)
    if gpu is None or (l1_bytes := gpu.architecture.l1_bytes) is None:
        return None
    machine, blocks = gpu.architecture, math.prod(step.launch.grid)
    resident = min(step.prediction.blocks_per_sm, -(-blocks // gpu.sms))
    block_bytes = _shared_bytes(step) + machine.reserved_shared
    if step.launch.carveout is None:  # the driver leaves to L1 what the resident blocks do not need
        required = resident * block_bytes
        carved = next((size for size in machine.shared_carveouts if size >= required), machine.shared_per_sm)
    else:
        carved = preferred_bytes(machine, block_bytes, step.launch.carveout)
    lines = (l1_bytes - carved) / LINE_BYTES / resident
    return Residence(lines, min(blocks, resident * gpu.sms), max(1.0, growth), gpu.l2_bytes * gpu.latencies.l2_share)


def _spilled(step: _Step, looped: ExecutedCounts, scale: Scaling, residence: Residence | None) -> Spilled | None:
    """Return the local memory traffic of a launch's spills, and its shares beyond L1 and L2."""
    stack_bytes = step.resources.stack_bytes if step.resources else 0
    if not stack_bytes or residence is None:
        return None
    loads, stores = local_requests((step.ptx, step.sass), step.small, step.launch, looped, scale)
    block = stack_bytes * math.prod(step.launch.block)
    return Spilled(
        loads * warps_of(step.launch),
        stores * warps_of(step.launch),
        past_l1=max(0.0, 1 - residence.lines * LINE_BYTES / block),
        past_l2=max(0.0, 1 - residence.l2_bytes / (block * residence.blocks)),
    )


def _resides(record: VariantRecord, step: _Step) -> bool:
    """Return whether all blocks of the real grid are resident at once, as in a persistent grid."""
    gpu = _gpu(record)
    return gpu is not None and math.prod(step.launch.grid) <= gpu.sms * step.prediction.blocks_per_sm


_MERGED: Final = (C.LD_SHARED, C.LD_GLOBAL, C.INTEGER, C.COMPARE, C.CONVERT, C.SPECIAL)
_NONE: Final = MemoryCount()
_NOTHING: Final = ExecutedCounts(0, 0, {}, {}, {}, {}, {})
_LOADS: Final = ("global.load", "global.copy")
_COPIED: Final = ("global.copy", "shared.copy")
"""Keys of both sides of asynchronous copies."""


def _together(sass: KernelMix | None) -> float:
    """Return the global loads of the innermost loop with most of them, or of code without loops; at least 1.

    The small problem may execute only what ptxas leaves behind an unrolled loop, so the hot region is not asked.
    """
    if sass is None:
        return 1.0
    outer = {loop.parent for loop in sass.loops}
    regions = [loop.counts for loop in sass.loops if loop.label not in outer] or [sass.counts]
    loads = (region.by_class.get(C.LD_GLOBAL, 0) + region.by_class.get(C.CP_ASYNC, 0) for region in regions)
    return max(1.0, *map(float, loads))


def _one_float(executed: ExecutedCounts) -> bool:
    """Return whether atomics add floating-point numbers to a single sector of global memory."""
    traffic = executed.memory.get("global.atomic", _NONE)
    floats = any(map(_adds_floats, executed.warps_by_opcode))
    return floats and traffic.chunks == 1 and traffic.sectors == traffic.requests


def _aggregates(step: _Step, executed: ExecutedCounts) -> bool:
    """Return whether ptxas adds up the atomics of a warp: all lanes update one element, and one lane adds their sum.

    Its code counts the lanes that vote for it, which the PTX does not.
    """
    traffic = executed.memory.get("global.atomic", _NONE)
    if step.ptx is None or step.sass is None or not traffic.updates or traffic.updates * 4 < traffic.bytes_used:
        return False
    in_ptx, in_sass = ({opcode.partition(".")[0] for opcode in mix.counts.by_opcode} for mix in (step.ptx, step.sass))
    return not in_ptx & {"vote", "popc", "match", "redux"} and bool(in_sass & _VOTES) and bool(in_sass & _SUMS_OF_LANES)


_VOTES: Final = frozenset({"VOTE", "VOTEU"})
_SUMS_OF_LANES: Final = frozenset({"POPC", "UPOPC", "REDUX", "CREDUX"})


def _matters(opcode: str) -> bool:
    """Return whether a score depends on the count of an opcode."""
    matrix = matrix_product(opcode) is not None
    return matrix or _adds_floats(opcode) or _computes_doubles(opcode) or counts_of_copies(opcode)


def _adds_floats(opcode: str) -> bool:
    return opcode.partition(".")[0] in ("red", "atom") and ".add" in opcode and opcode.rpartition(".")[2] in _FLOATS


def _computes_doubles(opcode: str) -> bool:
    return opcode.endswith(".f64") and opcode.partition(".")[0] in _ARITHMETIC


_FLOATS: Final = frozenset({"f16", "bf16", "f16x2", "bf16x2", "f32", "f64"})


def _floating(executed: ExecutedCounts) -> float:
    """Return the share of float64 in all floating-point arithmetic, by opcode."""
    total = sum(executed.warps_by_class.get(cls, 0) for cls in (C.FMA, C.FLOAT))
    double = sum(n for opcode, n in executed.warps_by_opcode.items() if _computes_doubles(opcode))
    return min(1.0, double / total) if total else 0.0


_ARITHMETIC: Final = frozenset({"fma", "mad", "add", "sub", "mul", "min", "max", "neg", "abs"})


def _looping(record: VariantRecord, step: _Step) -> ExecutedCounts | None:
    """Return the counts in loops; None if unknown, so that everything scales as loops do."""
    if step.small.looped is not None:
        return step.small.looped
    mix = step.ptx
    if mix is None:
        return None
    if not mix.loops:
        return _NOTHING
    emulation = record.emulation
    if emulation is not None and emulation.sample is None and emulation.lines and len(emulation.launches) == 1:
        return _looped(emulation, mix)
    return step.small.hot_loop if len(mix.loops) == 1 else None


def _looped(emulation: EmulationRecord, mix: KernelMix) -> ExecutedCounts | None:
    """Add up the counts of the lines in loops; None without line counts."""
    if not emulation.lines:
        return None
    inside = frozenset[int]().union(*(loop.numbers for loop in mix.loops if loop.depth == 1))
    warps: dict[str, int] = {}
    threads: dict[str, int] = {}
    memory: dict[str, MemoryCount] = {}
    for group in emulation.lines:
        if not (lines := len(inside.intersection(group.lines))):
            continue
        warps[group.cls] = warps.get(group.cls, 0) + lines * group.warps
        threads[group.cls] = threads.get(group.cls, 0) + lines * group.threads
        for key, count in group.memory.items():
            memory[key] = sum([count] * lines, memory.get(key, MemoryCount()))
    return ExecutedCounts(sum(warps.values()), sum(threads.values()), warps, threads, {}, {}, memory)
