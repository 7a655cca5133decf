"""Instruction counts of a kernel's main loop by kind, as in the Tensile paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lab.isa.mix import KernelMix
from lab.isa.model import InstructionClass as C
from lab.store.tuning_model import Census

_KINDS: Final[Mapping[str, frozenset[str]]] = {
    "fma": frozenset({C.FMA, C.MMA}),
    "control": frozenset({C.BRANCH, C.BARRIER, C.OTHER}),
    "global_memory": frozenset({C.LD_GLOBAL, C.ST_GLOBAL, C.CP_ASYNC, C.BULK_COPY, C.ATOMIC, C.LD_LOCAL, C.ST_LOCAL}),
    "shared_memory": frozenset({C.LD_SHARED, C.ST_SHARED}),
}
"""Instruction classes by kind; all other classes count as vector work.

NVIDIA's SMs issue integers, moves and comparisons in the slots of the fma. The scalar instructions that control the
paper's loops on AMD correspond to branches and barriers here.
"""


def census(mix: KernelMix) -> Census | None:
    """Count the instructions in the hot loop's text; None for a kernel without an fma in its hot loop."""
    hot = mix.hot_loop
    if hot is None or not hot.counts.fma:
        return None
    counted = {kind: sum(hot.counts.by_class.get(cls, 0) for cls in classes) for kind, classes in _KINDS.items()}
    return Census(entry=mix.name, vector=hot.counts.instructions - sum(counted.values()), **counted)
