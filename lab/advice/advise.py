"""All rules on a variant's evidence, and their findings in order of gain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from lab.advice.evidence import Evidence, Need
from lab.advice.finding import Advice, PerformanceFinding, Rule, Skipped
from lab.advice.rules import (
    atomics,
    banks,
    barriers,
    codesize,
    constants,
    division,
    latency,
    local,
    occupancy,
    precision,
    sectors,
    tail,
    vectors,
)

Find = Callable[[Evidence], Iterator[PerformanceFinding]]


@dataclass(frozen=True, slots=True)
class _Checked:
    """A function that finds, the rules that it checks, what it needs, and what returns rules that it left open."""

    find: Find
    rules: tuple[Rule, ...]
    needs: tuple[Need, ...]
    undecided: Callable[[Evidence], tuple[Skipped, ...]] = lambda _: ()


_EXECUTED: Final = (Need.PTX, Need.COUNTS)
_MODELLED: Final = (Need.PTX, Need.WORK, Need.RESOURCES, Need.LAUNCH, Need.GPU)

_RULES: Final = (
    _Checked(banks.find, (Rule.BANK_CONFLICT,), _EXECUTED),
    _Checked(sectors.find, (Rule.UNCOALESCED, Rule.MISALIGNED), _EXECUTED, sectors.undecided),
    _Checked(local.find, (Rule.LOCAL_MEMORY,), (Need.PTX, Need.RESOURCES)),
    _Checked(occupancy.find, (Rule.OCCUPANCY,), _MODELLED),
    _Checked(tail.find, (Rule.TAIL_WAVE,), (Need.LAUNCH, Need.GPU)),
    _Checked(latency.find_loops, (Rule.LATENCY,), _MODELLED),
    _Checked(constants.find, (Rule.DIVERGENT_CONSTANT,), (Need.PTX, Need.PATTERNS)),
    _Checked(atomics.find, (Rule.CONTENDED_ATOMIC,), _EXECUTED),
    _Checked(precision.find, (Rule.DOUBLE_PRECISION,), (Need.PTX,)),
    _Checked(division.find, (Rule.DIVISION,), (Need.PTX,)),
    _Checked(vectors.find, (Rule.NARROW_LOADS,), (Need.PTX,)),
    _Checked(codesize.find, (Rule.CODE_SIZE,), (Need.SASS,)),
    _Checked(latency.find_bytes, (Rule.BYTES_IN_FLIGHT,), _MODELLED),
    _Checked(barriers.find, (Rule.REDUNDANT_BARRIER,), (Need.PTX,)),
)


def advise(evidence: Evidence) -> Advice:
    """Check every rule that the evidence allows.

    Findings are in the order of their gains; those whose gains the time model does not tell apart, by the share that
    they waste.
    """
    findings: list[PerformanceFinding] = []
    skipped: list[Skipped] = []
    for rule_set in _RULES:
        missing = evidence.lacks(rule_set.needs)
        if missing is not None:
            skipped += [Skipped(rule, missing) for rule in rule_set.rules]
        else:
            findings += rule_set.find(evidence)
            skipped += rule_set.undecided(evidence)
    findings.sort(key=lambda found: (-round(found.gain or 1.0, 2), -found.waste))
    return Advice(tuple(findings), tuple(skipped))
