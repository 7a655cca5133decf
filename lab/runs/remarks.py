"""What the variants of a run show together: warnings that many of them share, parameters that change nothing."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator
from typing import Final

from lab.emulator.results import NEVER_SET
from lab.recorded.run_records import VariantRecord

_MOST: Final = 3
"""How many different warnings are shown; each variant's build.log has them all."""


class Remarks:
    """Meets the records of a run one by one, keeps little of each, and says at the end what a reader should know."""

    def __init__(self) -> None:
        """Start with no record."""
        self._warned: Counter[str] = Counter()
        self._unset: dict[str, None] = {}  # notes on constant memory, in their order
        self._met: dict[str, tuple[dict[str, Hashable], Hashable, str]] = {}  # parameters, circumstances, behaviour

    def meet(self, record: VariantRecord) -> None:
        """Take note of a finished variant, once."""
        if record.variant in self._met or record.build is None:
            return
        self._warned.update(record.build.warnings)
        noted = record.emulation.notes if record.emulation else ()
        self._unset.update(dict.fromkeys(one for one in noted if one.startswith(NEVER_SET)))
        around = (record.kernel, record.template, record.arch, record.compiler, record.options, repr(record.problem))
        self._met[record.variant] = dict(record.parameters), around, _behaviour(record)

    def notes(self) -> tuple[str, ...]:
        """Return sentences for the reader of the report."""
        unset = (f"{one[:1].upper()}{one[1:]}. Does the experiment lack `constants`?" for one in self._unset)
        return (*self._warnings(), *unset, *self._idle())

    def _warnings(self) -> Iterator[str]:
        for text, times in self._warned.most_common(_MOST):
            yield f"The compiler warned about {times} of {len(self._met)} variants: {text}"
        if (further := len(self._warned) - _MOST) > 0:
            yield f"Further warnings of the compiler: {further}. The file build.log of each variant has them."

    def _idle(self) -> Iterator[str]:
        values: dict[str, set[Hashable]] = defaultdict(set)
        for parameters, _, _ in self._met.values():
            for name, value in parameters.items():
                values[name].add(value)
        for name in (name for name, taken in values.items() if len(taken) > 1):
            groups: dict[Hashable, dict[Hashable, str]] = defaultdict(dict)
            for parameters, around, behaviour in self._met.values():
                others = tuple(sorted((key, repr(value)) for key, value in parameters.items() if key != name))
                groups[around, others][parameters.get(name)] = behaviour
            compared = [group for group in groups.values() if len(group) > 1]
            met = {value for group in compared for value in group}
            if met == values[name] and all("" not in group.values() and _alike(group) for group in compared):
                yield (
                    f"The parameter {name} changes nothing: variants that differ in it alone ({len(compared)} "
                    f"{'set' if len(compared) == 1 else 'sets'} of them) have the same machine code, launches and "
                    "executed instructions. Does the kernel use it?"
                )


def _alike(group: dict[Hashable, str]) -> bool:
    return len(set(group.values())) == 1


def _behaviour(record: VariantRecord) -> str:
    """Name what a variant does, by its machine code, launches and executed counts; empty where nothing was executed."""
    done = record.emulation
    if record.build is None or done is None or any(one.executed is None for one in done.launches):
        return ""
    geometry = (record.launch, [(step.entry, step.launch) for step in record.steps])
    text = f"{record.build.sass_sha256} {geometry!r} {done.launches!r}"
    return hashlib.sha256(text.encode()).hexdigest()
