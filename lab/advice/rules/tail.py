"""A last wave of blocks that leaves most SMs idle."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from lab.advice.evidence import Evidence
from lab.advice.finding import CodePlace, PerformanceFinding, Rule
from lab.predict.work import LaunchWork

_LEAST: Final = 1.1
"""Blocks of the fullest SM over the mean from which on the tail is worth a remark."""


def find(evidence: Evidence) -> Iterator[PerformanceFinding]:
    """Yield a finding where some SMs get clearly more blocks than the mean."""
    launch, gpu = evidence.launch, evidence.gpu
    if launch is None or gpu is None:
        return
    blocks = math.prod(launch.grid)
    mean = blocks / gpu.sms
    over = math.ceil(mean) / mean
    if over < _LEAST:
        return
    idle = (math.ceil(mean) * gpu.sms - blocks) / gpu.sms

    def even(work: LaunchWork) -> LaunchWork:
        return replace(work, blocks=max(1, work.blocks // gpu.sms) * gpu.sms) if work.blocks == blocks else work

    if blocks < gpu.sms:
        cause = f"{blocks} blocks leave {gpu.sms - blocks} of {gpu.sms} SMs idle"
        remedy = f"smaller blocks or a split of the work into at least {gpu.sms} blocks"
    else:
        cause = f"{blocks} blocks on {gpu.sms} SMs: the fullest gets {math.ceil(mean)}, the mean is {mean:.2f}"
        remedy = f"a number of blocks just below a multiple of {gpu.sms}, smaller blocks, or persistent blocks"
    yield PerformanceFinding(Rule.TAIL_WAVE, CodePlace(), cause, remedy, min(1.0, idle), evidence.gain(even))
