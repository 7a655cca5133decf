"""Memory traffic of a variant's matrix instructions, from emulated counts: figures beside its throughput.

They are of the whole launch that has the most matrix instructions, at the problem that was executed for counts. Matrix
FLOP are two for each multiply-add of `lab.isa.matrix`.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.base.warp import LINE_BYTES, SECTOR_BYTES
from lab.emulator.results import MemoryCount
from lab.isa.model import InstructionClass as C
from lab.predict.gemm_loops import Copies, copies_of, multiply_adds, operand_wavefronts, ring_of, with_loop_along_k
from lab.recorded.run_records import EmulatedStep, VariantRecord


@dataclass(frozen=True, slots=True)
class TensorFigures:
    """The arithmetic intensity of a kernel with matrix instructions.

    Attributes:
        flop_per_shared_byte: Matrix FLOP for each byte that is read in shared memory: by loads of threads, by
            `ldmatrix`, and by wgmma itself. None where nothing is.
        flop_per_global_byte: Matrix FLOP for each byte of the sectors that loads, `cp.async` and bulk copies fetch.
        share: Matrix instructions of all warp instructions, 0 to 1.
        bytes_in_flight: Bytes of the stages that are filled while another one is read, of a block. None without stages.
    """

    flop_per_shared_byte: float | None
    flop_per_global_byte: float | None
    share: float
    bytes_in_flight: float | None


def tensor_figures(record: VariantRecord) -> TensorFigures | None:
    """Return the figures of a variant; None without an executed matrix instruction of a known shape."""
    emulation = record.emulation
    launches = emulation.counted.launches if emulation is not None else ()
    if not launches:
        return None
    heaviest = max(range(len(launches)), key=lambda i: _matrix_instructions(launches[i]))
    step, counts = launches[heaviest], launches[heaviest].executed
    if counts is None or not (flop := 2 * multiply_adds(counts)):
        return None
    instructions, copies = _matrix_instructions(step), copies_of(step, 1.0)
    loads, loaded, copied = (
        counts.memory.get(key, MemoryCount()) for key in ("shared.load", "global.load", "global.copy")
    )
    shared = loads.bytes_used + LINE_BYTES * operand_wavefronts(counts, instructions)
    fetched = SECTOR_BYTES * (loaded.sectors + (copies.sectors if copies is not None else copied.sectors))
    return TensorFigures(
        flop / shared if shared else None,
        flop / fetched if fetched else None,
        instructions / counts.warps,
        _in_flight(record, heaviest, step, copies),
    )


def _matrix_instructions(step: EmulatedStep) -> int:
    return step.executed.warps_by_class.get(C.MMA, 0) if step.executed is not None else 0


def _in_flight(record: VariantRecord, number: int, step: EmulatedStep, copies: Copies | None) -> float | None:
    """Return the bytes in flight per block, for the launch of that number."""
    launch, ptx, resources = record.launch, record.ptx, record.build.resources if record.build else None
    if record.steps:
        of = record.steps[number]
        launch, ptx, resources = of.launch, of.ptx, of.resources
    if launch is None:
        return None
    looped = with_loop_along_k(step, ptx)
    along_k = ptx.with_hot(looped.hot_label) if ptx is not None else None
    shared = launch.dynamic_shared_bytes + (resources.shared_bytes if resources is not None else 0)
    ring = ring_of(looped, along_k, copies, 1.0, shared)
    return ring.bytes * ring.ahead if ring is not None else None
