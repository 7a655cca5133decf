"""Upper bounds on a kernel's throughput, from its SASS and the GPU's limits. All of them are predicted.

Each bound is the throughput of a kernel limited by one resource only; the lowest is the ceiling. The loop's bounds
consider the hot loop only. They assume that it does all of the problem's operations, that every static instruction is
issued once per iteration (also on a path that a branch skips, but not the single-warp code that issues bulk copies),
and that nothing stalls. Code outside the loop is ignored. So a measurement should lie below the ceiling; one above it
shows that an assumption does not hold.

Per warp and iteration, with 32 lanes in a warp and four schedulers in an SM:

issue slots
    A scheduler issues one instruction per cycle (CUDA C++ Programming Guide, Compute Capabilities), and an instruction
    of the arithmetic type keeps its pipe busy for ``32 x results / (lanes / 4)`` cycles. The larger one limits:
    ``operations x 32 / (max(issue cycles, pipe cycles) / 4) x SMs x clock``.
tensor cores
    Replaces the arithmetic type's pipes if the loop has matrix instructions. Each keeps the tensor cores busy for its
    multiply-adds over those of an SM per cycle (`lab.hardware.gpus.Architecture.tensor_lanes`).
shared memory
    One wavefront of 128 bytes per cycle and SM: ``operations x 32 / wavefronts x SMs x clock``. A wgmma reads at least
    32 bytes of shared memory per column.
memory pipe
    A load or store of any state space occupies the load/store units for ``32 / lsu_lanes`` cycles.
DRAM
    ``operations / bytes x bandwidth`` of the problem, with cold caches.
roofline
    ``min(peak, DRAM)``: Williams, Waterman, Patterson, Roofline, CACM 52(4), 2009.
waves
    ``peak x blocks / (SMs x ceil(blocks / SMs))``. The busiest SM computes that many blocks, whatever the occupancy.
    This holds if all blocks do equal work.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import DTypeLike

from lab.base.warp import BANK_BYTES, BANKS, WARP_SIZE
from lab.hardware.gpus import Gpu
from lab.hardware.occupancy import ResourceUse, occupancy
from lab.isa.classes import bytes_per_lane, least_wavefronts
from lab.isa.matrix import WARPS_OF_A_GROUP, matrix_product, matrix_products
from lab.isa.mix import Counts, KernelMix
from lab.isa.model import InstructionClass
from lab.measured.timing import Merit
from lab.recorded.predictions import Bound, Prediction


@dataclass(frozen=True, slots=True)
class LaunchFacts:
    """Launch parameters that limits depend on.

    Attributes:
        threads_per_block: Threads in a block.
        dynamic_shared_bytes: Bytes of dynamic shared memory per block.
        blocks: Blocks of the grid; None omits the bound `waves`.
        carveout: Preferred shared memory of an SM, in percent of its maximum; None leaves it to the driver.
    """

    threads_per_block: int
    dynamic_shared_bytes: int = 0
    blocks: int | None = None
    carveout: int | None = None


LEAST_WAVEFRONTS: Mapping[int, float] = MappingProxyType({4: 1.0, 8: 1.0, 16: 1.0})
"""Minimum wavefronts of a warp's shared-memory access, with all lanes at one address, by bytes per lane.

The code does not show which lanes share addresses, and a ceiling must assume the best case. Lanes with distinct
addresses take 1, 2 and 4. Counted values, from an emulation or a profiler, can be passed to `predict` instead. The
minimum for LDSM and STSM follows from the matrix size (`lab.isa.classes.least_wavefronts`).
"""

_FMA = 2  # floating-point operations of a fused multiply-add

# For each arithmetic type: opcode root to (results per lane, operations per result).
_ARITHMETIC: dict[str, dict[str, tuple[int, int]]] = {
    "float32": {
        "FFMA": (1, 2), "FFMA32I": (1, 2), "FADD": (1, 1), "FADD32I": (1, 1), "FMUL": (1, 1), "FMUL32I": (1, 1),
        "FFMA2": (2, 2), "FADD2": (2, 1), "FMUL2": (2, 1),
    },
    "float64": {"DFMA": (1, 2), "DADD": (1, 1), "DMUL": (1, 1)},
    "float16": {
        "HFMA2": (2, 2), "HADD2": (2, 1), "HMUL2": (2, 1),
        "HFMA2_32I": (2, 2), "HADD2_32I": (2, 1), "HMUL2_32I": (2, 1),
    },
}  # fmt: skip

_SHARED_ACCESS = frozenset({"LDS", "LDSM", "STS", "STSM"})
_LOAD_STORE = (
    InstructionClass.LD_SHARED, InstructionClass.ST_SHARED, InstructionClass.LD_GLOBAL, InstructionClass.ST_GLOBAL,
    InstructionClass.LD_LOCAL, InstructionClass.ST_LOCAL, InstructionClass.ATOMIC,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Arithmetic:
    """A lane's arithmetic in one pass over the loop's code.

    Attributes:
        results: Results produced by the pipe.
        operations: Floating-point operations; an fma counts as two.
        fused: Fused multiply-add instructions.
        label: Their number and names: `64 FFMA`.
    """

    results: int
    operations: int
    fused: int
    label: str


def predict(
    gpu: Gpu,
    mix: KernelMix | None,
    use: ResourceUse,
    launch: LaunchFacts,
    *,
    flops: int,
    bytes_moved: int,
    dtype: DTypeLike,
    merit: Merit = Merit.TFLOPS,
    wavefronts_per_access: Mapping[int, float] = LEAST_WAVEFRONTS,
) -> Prediction:
    """Predict occupancy and throughput bounds of one kernel on one GPU.

    Args:
        gpu: The GPU.
        mix: Static mix of the kernel's SASS; None where no disassembler lists it, which leaves the problem's bounds.
        use: Registers, static shared memory and barriers (`lab.toolchain.base.Resources`).
        launch: Threads and dynamic shared memory of a block, blocks of the grid.
        flops: Floating-point operations of the problem; an fma counts as two. With 0, there are no bounds.
        bytes_moved: Least bytes of the problem through DRAM.
        dtype: Arithmetic type of the peak: float32, float64 or float16.
        merit: The unit of throughput. For bytes, the only bound is `DRAM`, in GB/s, since the others limit operations.
        wavefronts_per_access: Wavefronts of a warp's shared-memory access by bytes per lane (4, 8, 16).

    Returns:
        The bounds that apply: those of the loop only if the hot loop (or the whole of a kernel without loops) has fused
        multiply-adds of `dtype` or matrix instructions; only `DRAM` if the rate of the latter is unknown; none if the
        kernel cannot be launched.

    Raises:
        UserError: `dtype` has no known peak on this GPU.
        ValueError: `mix` is not a mix of SASS.
    """
    if mix is not None and mix.isa != "sass":
        raise ValueError(f"bounds need a SASS instruction mix, got {mix.isa}")
    kernel_occupancy = occupancy(
        gpu.architecture, use, launch.threads_per_block, launch.dynamic_shared_bytes, launch.carveout
    )
    counts, issued = (None, 0) if mix is None else _hot(mix)
    peak = gpu.peak_tflops(dtype) if mix is None else peak_of(gpu, mix, dtype)
    bounds: list[Bound] = []
    if merit is Merit.BANDWIDTH:
        bounds += _bandwidth_bound(gpu, flops, bytes_moved) if kernel_occupancy.blocks_per_sm else []
    elif flops > 0 and kernel_occupancy.blocks_per_sm:
        if counts is None:
            # the kernel may use tensor cores, which no peak of the other pipes bounds
            bounds += _problem_bounds(gpu, math.inf, flops, bytes_moved)
        elif counts.by_class.get(InstructionClass.MMA, 0):
            products = matrix_products(counts.by_opcode)
            has_tensor_peak = gpu.tensor_tflops(products) is not None
            if has_tensor_peak:
                bounds += _tensor_bounds(gpu, counts, products, peak, wavefronts_per_access, issued=issued)
                bounds += [_wave_bound(gpu, peak, launch.blocks)] if launch.blocks else []
            # without the tensor cores' rates there is no hard peak
            bounds += _problem_bounds(gpu, peak if has_tensor_peak else math.inf, flops, bytes_moved)
        else:
            bounds += _loop_bounds(gpu, counts, np.dtype(dtype), wavefronts_per_access, issued=issued)
            bounds += _problem_bounds(gpu, peak, flops, bytes_moved)
            bounds += [_wave_bound(gpu, peak, launch.blocks)] if launch.blocks else []
    return Prediction(
        gpu=gpu.name,
        occupancy=kernel_occupancy.fraction,
        blocks_per_sm=kernel_occupancy.blocks_per_sm,
        limited_by=kernel_occupancy.reason or ", ".join(kernel_occupancy.limited_by),
        peak_tflops=peak,
        bounds=tuple(bounds),
        peak_gb_s=gpu.dram_gb_s if merit is Merit.BANDWIDTH else None,
    )


def peak_of(gpu: Gpu, mix: KernelMix, dtype: DTypeLike) -> float:
    """Return the peak of the units that multiply in a kernel's hot loop, in TFLOP/s.

    Args:
        gpu: The GPU.
        mix: Mix of the kernel's SASS.
        dtype: The arithmetic type outside the tensor cores.

    Returns:
        The tensor cores' peak for the loop's mix of input types if it has matrix instructions with known rates; else
        the peak of the pipes of `dtype`.

    Raises:
        UserError: `dtype` has no known peak on this GPU.
    """
    tensor = gpu.tensor_tflops(matrix_products(_hot(mix)[0].by_opcode))
    return gpu.peak_tflops(dtype) if tensor is None else tensor


def predict_sequence(
    gpu: Gpu, parts: Sequence[Prediction], *, flops: int, bytes_needed: int, bytes_moved: int | None, merit: Merit
) -> Prediction:
    """Predict the upper bound of kernels that run one after the other and together solve the problem once.

    Times and traffic add up: every launch reads its data from DRAM and writes its results to DRAM. A sequence whose
    intermediate data stays in L2 can exceed this ceiling.

    Args:
        gpu: The GPU.
        parts: The prediction of each launch.
        flops: Floating-point operations of the problem.
        bytes_needed: Least bytes of the problem through DRAM.
        bytes_moved: Least bytes that the launches together move; None if unknown, which means `bytes_needed`.
        merit: The unit of throughput.

    Returns:
        The lowest occupancy of the parts with its limiters, and the problem's bounds with the sequence's traffic. Loop
        bounds do not apply, since no part does all of the operations.
    """
    least = min(parts, key=lambda prediction: prediction.occupancy)
    total = bytes_needed if bytes_moved is None else bytes_moved
    bounds: list[Bound] = []
    if least.blocks_per_sm and merit is Merit.BANDWIDTH:
        share = bytes_needed / total if total else 1.0
        for bound in _bandwidth_bound(gpu, flops, total):
            text = f"{bound.explanation} in {len(parts)} launches, {total / max(bytes_needed, 1):.3g}x the bytes needed"
            bounds.append(replace(bound, explanation=text, gb_s=share * (bound.gb_s or 0.0)))
    elif least.blocks_per_sm and flops > 0:
        bounds += _problem_bounds(gpu, least.peak_tflops, flops, total)
    return replace(least, bounds=tuple(bounds))


def delayed(prediction: Prediction, flops: int, seconds: float) -> Prediction:
    """Return the prediction of a kernel after other launches that do none of the problem's operations.

    Args:
        prediction: The prediction of the kernel alone.
        flops: Floating-point operations of the problem.
        seconds: Least time of the other launches.
    """
    bounds = tuple(
        replace(bound, tflops=flops / (flops / bound.tflops + seconds * 1e12)) if bound.tflops else bound
        for bound in prediction.bounds
    )
    return replace(prediction, bounds=bounds)


def _hot(mix: KernelMix) -> tuple[Counts, int]:
    """Return the counts of the hot region, and the number of instructions that every warp issues in it."""
    hot = mix.hot_loop
    return (mix.counts, mix.counts.instructions) if hot is None else (hot.counts, hot.counts.instructions - hot.aside)


def _loop_bounds(
    gpu: Gpu,
    counts: Counts,
    dtype: np.dtype[np.generic],
    wavefronts_per_access: Mapping[int, float],
    *,
    issued: int,
) -> Iterator[Bound]:
    """Yield the bounds from the loop's code."""
    work = _arithmetic(counts, dtype)
    if work is None:
        return
    yield _issue_bound(gpu, issued, work, dtype)
    accesses, wavefronts = _wavefronts(counts, wavefronts_per_access)
    if wavefronts:
        cycles = wavefronts * BANKS * BANK_BYTES / gpu.architecture.shared_bytes_per_cycle
        text = f"{work.label} per {wavefronts:g} shared-memory wavefronts ({accesses} accesses), 1 per cycle and SM"
        yield Bound("shared memory", _tflops(gpu, work.operations, cycles), text)
    accessing = _memory_instructions(counts)
    if accessing:
        lanes = gpu.architecture.lsu_lanes
        text = f"{work.label} per {accessing} loads and stores, {lanes} lanes per cycle and SM"
        yield Bound("memory pipe", _tflops(gpu, work.operations, accessing * WARP_SIZE / lanes), text)


def _tensor_bounds(
    gpu: Gpu,
    counts: Counts,
    products: Mapping[str, float],
    peak: float,
    wavefronts_per_access: Mapping[int, float],
    *,
    issued: int,
) -> Iterator[Bound]:
    """Yield the bounds from the code of a loop of matrix instructions."""
    operations = _FMA * sum(products.values()) / WARP_SIZE  # per lane
    number = counts.by_class[InstructionClass.MMA]
    label = f"{number} matrix instructions of {_FMA * sum(products.values()) / 1e3:g} kFLOP per warp"
    types = " + ".join(sorted(products))
    yield Bound("tensor cores", peak, f"{label}, {types}")
    slots = _tflops(gpu, operations, issued / gpu.architecture.sub_partitions)
    yield Bound("issue slots", slots, f"{label} in {issued} issued, 1 per cycle and scheduler")
    accesses, wavefronts = _wavefronts(counts, wavefronts_per_access)
    wgmma = sum(
        n * product.columns * _COLUMN_BYTES / WARPS_OF_A_GROUP / (BANKS * BANK_BYTES)
        for opcode, n in counts.by_opcode.items()
        if (product := matrix_product(opcode)) is not None and product.group
    )
    if wavefronts + wgmma:
        cycles = (wavefronts + wgmma) * BANKS * BANK_BYTES / gpu.architecture.shared_bytes_per_cycle
        text = f"{label} per {wavefronts + wgmma:g} shared-memory wavefronts ({accesses} accesses), 1 per cycle and SM"
        yield Bound("shared memory", _tflops(gpu, operations, cycles), text)
    if accessing := _memory_instructions(counts):
        lanes = gpu.architecture.lsu_lanes
        text = f"{label} per {accessing} loads and stores, {lanes} lanes per cycle and SM"
        yield Bound("memory pipe", _tflops(gpu, operations, accessing * WARP_SIZE / lanes), text)


_COLUMN_BYTES: Final = 32
"""Bytes per column of a wgmma operand in shared memory: k is 16 of two bytes, 8 of four or 32 of one."""


def _issue_bound(gpu: Gpu, issued: int, work: _Arithmetic, dtype: np.dtype[np.generic]) -> Bound:
    """Return the issue-slot bound, computed as a share of the peak so that rounding never exceeds the peak."""
    sm = gpu.architecture
    pipe = work.results * WARP_SIZE * sm.sub_partitions / sm.lanes(dtype)
    cycles = max(pipe, issued)
    tflops = gpu.peak_tflops(dtype) * (work.operations / (_FMA * work.results)) * (pipe / cycles)
    share = f"{100 * work.fused / issued:.1f} %"
    text = f"{work.label} of {issued} issued: {share}; {issued} issue cycles"
    text += f" and {pipe:g} {dtype.name} pipe cycles per warp"
    return Bound("issue slots", tflops, text)


def _problem_bounds(gpu: Gpu, peak: float, flops: int, bytes_moved: int) -> Iterator[Bound]:
    """Yield the problem's bounds, which hold for any code; `peak` is infinite if unknown."""
    dram = math.inf
    if bytes_moved > 0 and gpu.dram_gb_s is not None:
        intensity = flops / bytes_moved
        dram = intensity * gpu.dram_gb_s / 1e3
        yield Bound("DRAM", dram, f"{intensity:.4g} FLOP per byte x {gpu.dram_gb_s:g} GB/s")
    if peak < math.inf:
        memory = f"DRAM {dram:.4g} TFLOP/s" if dram < math.inf else "DRAM (unknown bandwidth)"
        yield Bound("roofline", min(peak, dram), f"least of peak {peak:.4g} TFLOP/s and {memory}")


def _bandwidth_bound(gpu: Gpu, flops: int, bytes_moved: int) -> Iterator[Bound]:
    """Yield the bound of moving every byte once through DRAM at the datasheet's bandwidth."""
    if bytes_moved > 0 and gpu.dram_gb_s is not None:
        text = f"{bytes_moved / 1e6:.4g} MB at {gpu.dram_gb_s:g} GB/s"
        yield Bound("DRAM", flops / bytes_moved * gpu.dram_gb_s / 1e3, text, gpu.dram_gb_s)


def _wave_bound(gpu: Gpu, peak: float, grid_blocks: int) -> Bound:
    """Return the bound from the SM with the most blocks (wave quantisation)."""
    fullest = -(-grid_blocks // gpu.sms)
    share = grid_blocks / (fullest * gpu.sms)
    text = f"{grid_blocks} blocks on {gpu.sms} SMs, {fullest} on the fullest: {100 * share:.1f} % of the peak"
    return Bound("waves", peak * share, f"{text}, for blocks of equal work")


def _arithmetic(counts: Counts, dtype: np.dtype[np.generic]) -> _Arithmetic | None:
    """Return the loop's arithmetic of a type, or None if it has no fused multiply-adds."""
    rates = _ARITHMETIC[dtype.name]
    arithmetic = [(_root(opcode), n) for opcode, n in counts.by_opcode.items() if _root(opcode) in rates]
    fused = [(root, n) for root, n in arithmetic if rates[root][1] == _FMA]
    if not fused:
        return None
    count = sum(n for _, n in fused)
    names = "+".join(sorted({root for root, _ in fused}))
    return _Arithmetic(
        results=sum(n * rates[root][0] for root, n in arithmetic),
        operations=sum(n * rates[root][0] * rates[root][1] for root, n in arithmetic),
        fused=count,
        label=f"{count} {names}",
    )


def _wavefronts(counts: Counts, wavefronts_per_access: Mapping[int, float]) -> tuple[int, float]:
    """Return the shared-memory accesses of one pass over the code, and their wavefronts."""
    accesses = {opcode: n for opcode, n in counts.by_opcode.items() if _root(opcode) in _SHARED_ACCESS}
    per_access = {
        opcode: max(wavefronts_per_access[bytes_per_lane(opcode)], least_wavefronts(opcode)) for opcode in accesses
    }
    return sum(accesses.values()), sum(n * per_access[opcode] for opcode, n in accesses.items())


def _memory_instructions(counts: Counts) -> int:
    """Return the number of load/store-unit instructions, including LDGSTS (asynchronous copies)."""
    copies = sum(n for opcode, n in counts.by_opcode.items() if _root(opcode) == "LDGSTS")
    return copies + sum(counts.by_class.get(cls, 0) for cls in _LOAD_STORE)


def _root(opcode: str) -> str:
    return opcode.partition(".")[0]


def _tflops(gpu: Gpu, operations: float, cycles: float) -> float:
    """Return the throughput if every SM executes a warp's iteration, of `operations` per lane, in `cycles`."""
    return operations * WARP_SIZE / cycles * gpu.sms * gpu.clock_mhz * 1e6 / 1e12
