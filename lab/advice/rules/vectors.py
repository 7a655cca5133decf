"""Neighbouring elements that a thread loads one by one, where one wide load would do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from lab.advice.evidence import Evidence
from lab.advice.finding import PerformanceFinding, Rule
from lab.isa.cfg import control_flow
from lab.isa.model import Instruction, InstructionClass
from lab.predict.work import LaunchWork

_ADDRESS = re.compile(r"\[(%\w+)(?:\+(-?\d+))?\]\Z")
_SCALAR = re.compile(r"ld\.global(?:\.nc)?(?:\.L\d::\w+)*\.([bfsu])(32|64)\Z")
_WIDEST: Final = 16
_LEAST_GAIN: Final = 1.02


def find(evidence: Evidence) -> Iterator[PerformanceFinding]:
    """Yield a finding for runs of scalar loads from neighbouring addresses that a basic block has."""
    runs = list(_runs(evidence))
    if not runs:
        return
    run = max(runs, key=lambda own: (sum(map(evidence.warps, own)), len(own)))
    width = _width(run[0])
    lanes = min(len(run), _WIDEST // width)
    lanes = 1 << (lanes.bit_length() - 1)
    merged = sum(evidence.warps(one) for own in runs for one in own)
    requests = evidence.total("global.load").requests
    saved = merged * (1 - 1 / lanes) / requests if requests else 0.0
    gain = evidence.gain(lambda work: _wider(work, 1 - saved))
    if gain is not None and gain < _LEAST_GAIN:
        return
    yield PerformanceFinding(
        Rule.NARROW_LOADS,
        evidence.place(run[0], "LDG"),
        f"{len(run)} loads of {width} bytes from neighbouring addresses",
        f"one load of {lanes * width} bytes (reinterpret_cast to a vector of {lanes}), whose address is aligned to"
        f" {lanes * width} bytes",
        saved,
        gain,
    )


def _runs(evidence: Evidence) -> Iterator[tuple[Instruction, ...]]:
    """Yield two or more scalar loads of one block and one base register at consecutive offsets."""
    for function in evidence.ptx_functions:
        flow = control_flow(function)
        for block in flow.blocks:
            by_base: dict[tuple[str, str], dict[int, Instruction]] = {}
            for one in function.instructions[block.start : block.stop]:
                match = _ADDRESS.match(one.operands[-1]) if _SCALAR.match(one.opcode) and one.operands else None
                if match is not None and (evidence.counts is None or evidence.warps(one)):
                    by_base.setdefault((match[1], one.opcode), {})[int(match[2] or 0)] = one
            for offsets in by_base.values():
                yield from _consecutive(offsets)


def _consecutive(offsets: dict[int, Instruction]) -> Iterator[tuple[Instruction, ...]]:
    run: list[Instruction] = []
    last: int | None = None
    for offset, one in sorted(offsets.items()):
        if last is not None and offset != last + _width(one):
            if len(run) > 1:
                yield tuple(run)
            run = []
        run.append(one)
        last = offset
    if len(run) > 1:
        yield tuple(run)


def _width(one: Instruction) -> int:
    match = _SCALAR.match(one.opcode)
    return int(match[2]) // 8 if match is not None else 4


def _wider(work: LaunchWork, kept: float) -> LaunchWork:
    loads = work.by_class.get(InstructionClass.LD_GLOBAL, 0.0)
    fewer = loads * (1 - kept)
    by_class = {**work.by_class, InstructionClass.LD_GLOBAL: loads - fewer}
    served = work.fetched
    if served is not None:
        passes = None if served.passes is None else served.passes * kept
        served = replace(served, lines=served.lines * kept, passes=passes)
    return replace(
        work,
        instructions=work.instructions - fewer,
        by_class=by_class,
        load_requests=work.load_requests * kept,
        fetched=served,
    )
