"""The instruction ratio that limits a set of variants, chosen by their hot regions.

Every variant of an experiment gets the same ratio, so that they are comparable. The first rule that applies decides:

1. tensor cores: ``mma : shared bytes`` if all variants load shared memory; else matrix multiply-adds per lane and
   instruction, since wgmma reads shared memory itself and does many times the work of an mma;
2. fma and shared-memory loads, at least 10 % and 1 % of the instructions: ``fma : ld.shared``;
3. atomics, at least 1 %: their share;
4. else the SM's bottleneck: global memory (``bytes : instruction``), fma, special functions or integer arithmetic
   (their shares), by the cycles of one warp instruction on an SM of compute capability 9.0: fma and other
   floating-point arithmetic 1/4, integer 1/2, special functions 2 (CUDA C++ Programming Guide, throughput of native
   arithmetic), and for global memory 32 lanes' bytes at 18 bytes per cycle: the DRAM bandwidth of an H200 per SM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from lab.base.warp import WARP_SIZE
from lab.isa.classes import bytes_per_lane, classify
from lab.isa.matrix import matrix_products
from lab.isa.mix import Counts
from lab.isa.model import InstructionClass as C

_MUCH_FMA: Final = 0.10
_SOME: Final = 0.01
_DRAM_BYTES: Final = 18.0


@dataclass(frozen=True, slots=True)
class Ratio:
    """An instruction ratio of a hot region.

    Attributes:
        name: `fma : ld.shared`, `bytes : instruction`, `special-function share`.
        why: A clause that begins with `because`.
        of: Its value; None where a variant lacks the denominator.
        share: The value is a share from 0 to 1.
    """

    name: str
    why: str
    of: Callable[[Counts], float | None]
    share: bool = False


def ratio_that_matters(profiles: Sequence[Counts]) -> Ratio | None:
    """Choose the ratio by which variants are compared.

    Args:
        profiles: Counts of the hot region of each variant's SASS (`KernelMix.hot_counts`).

    Returns:
        The ratio, the same for all; None without instructions.
    """
    nonempty = [counts for counts in profiles if counts.instructions]
    if not nonempty:
        return None
    shares = {cls: fmean(counts.by_class.get(cls, 0) / counts.instructions for counts in nonempty) for cls in C}
    if shares[C.MMA] >= _SOME:
        return _tensor(nonempty, shares)
    if shares[C.FMA] >= _MUCH_FMA and shares[C.LD_SHARED] >= _SOME:
        reason = (
            f"because {shares[C.FMA]:.0%} of the hot region are fma and {shares[C.LD_SHARED]:.0%} load shared memory"
        )
        return Ratio("fma : ld.shared", reason, lambda counts: counts.fma_per_ld_shared)
    if shares[C.ATOMIC] >= _SOME:
        return _share("atomic share", (C.ATOMIC,), f"because {shares[C.ATOMIC]:.0%} of the hot region are atomics")
    return _costliest(nonempty, shares)


def global_bytes(counts: Counts) -> int:
    """Return the bytes a thread loads from and stores to global memory in one pass over the SASS."""
    kinds = {C.LD_GLOBAL, C.ST_GLOBAL}
    return sum(bytes_per_lane(op) * n for op, n in counts.by_opcode.items() if classify("sass", op) in kinds)


def _tensor(profiles: Sequence[Counts], shares: Mapping[C, float]) -> Ratio:
    reason = f"because {shares[C.MMA]:.0%} of the hot region are mma"
    if shares[C.LD_SHARED] >= _SOME and all(counts.load_bytes_shared for counts in profiles):

        def per_byte(counts: Counts) -> float | None:
            return counts.by_class.get(C.MMA, 0) / counts.load_bytes_shared if counts.load_bytes_shared else None

        return Ratio("mma : shared bytes", f"{reason} and {shares[C.LD_SHARED]:.0%} load shared memory", per_byte)
    if any(counts.by_class.get(C.MMA, 0) and not matrix_products(counts.by_opcode) for counts in profiles):
        return _share("mma share", (C.MMA,), reason)

    def of(counts: Counts) -> float | None:
        multiply_adds = sum(matrix_products(counts.by_opcode).values()) / WARP_SIZE
        return multiply_adds / counts.instructions if counts.instructions else None

    return Ratio("multiply-adds : instruction", reason, of)


def _share(name: str, classes: tuple[C, ...], reason: str) -> Ratio:
    def of(counts: Counts) -> float | None:
        return sum(counts.by_class.get(c, 0) for c in classes) / counts.instructions if counts.instructions else None

    return Ratio(name, reason, of, share=True)


def _costliest(profiles: Sequence[Counts], shares: Mapping[C, float]) -> Ratio:
    bytes_per_instruction = fmean(global_bytes(counts) / counts.instructions for counts in profiles)
    costs = {
        "global memory": bytes_per_instruction * WARP_SIZE / _DRAM_BYTES,
        "fma": (shares[C.FMA] + shares[C.FLOAT]) / 4,
        "special functions": shares[C.SPECIAL] * 2,
        "integer": (shares[C.INTEGER] + shares[C.COMPARE]) / 2,
    }
    bottleneck = max(costs, key=lambda name: costs[name])
    reason = f"because {bottleneck} takes an SM longest in the hot region"
    if bottleneck == "global memory":

        def of(counts: Counts) -> float | None:
            return global_bytes(counts) / counts.instructions if counts.instructions else None

        return Ratio("bytes : instruction", reason, of)
    if bottleneck == "special functions":
        return _share("special-function share", (C.SPECIAL,), reason)
    if bottleneck == "integer":
        reason = "because integer arithmetic takes an SM longest in the hot region"
        return _share("integer share", (C.INTEGER, C.COMPARE), reason)
    return _share("FMA share", (C.FMA,), reason)
