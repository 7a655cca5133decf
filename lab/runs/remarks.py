"""Observations across a run's variants: shared warnings, and parameters without effect."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator
from typing import Final

from lab.emulator.results import NEVER_SET
from lab.recorded.run_records import VariantRecord

_MOST: Final = 3
"""Most different warnings shown; each variant's build.log has them all."""


class Remarks:
    """Collector of observations across a run's records, keeping little of each."""

    def __init__(self) -> None:
        """Start without records."""
        self._warned: Counter[str] = Counter()
        self._unset: dict[str, None] = {}  # notes on constant memory, in their order
        self._met: dict[str, tuple[dict[str, Hashable], Hashable, str]] = {}  # parameters, circumstances, behaviour

    def meet(self, record: VariantRecord) -> None:
        """Add a finished variant, once."""
        if record.variant in self._met or record.build is None:
            return
        self._warned.update(record.build.warnings)
        noted = record.emulation.notes if record.emulation else ()
        self._unset.update(dict.fromkeys(note for note in noted if note.startswith(NEVER_SET)))
        around = (record.kernel, record.template, record.arch, record.compiler, record.options, repr(record.problem))
        self._met[record.variant] = dict(record.parameters), around, _behaviour(record)

    def notes(self) -> tuple[str, ...]:
        """Return notes for the report."""
        unset = (f"{note[:1].upper()}{note[1:]}. Does the experiment lack `constants`?" for note in self._unset)
        return (*self._warnings(), *unset, *self._idle())

    def _warnings(self) -> Iterator[str]:
        for text, times in self._warned.most_common(_MOST):
            yield f"In {times} of {len(self._met)} variants: {text}"
        if (further := len(self._warned) - _MOST) > 0:
            yield f"Further warnings: {further}. The file build.log of each variant has those of the compiler."

    def _idle(self) -> Iterator[str]:
        values: dict[str, set[Hashable]] = defaultdict(set)
        for parameters, _, _ in self._met.values():
            for name, value in parameters.items():
                values[name].add(value)
        for name in (name for name, distinct in values.items() if len(distinct) > 1):
            groups: dict[Hashable, dict[Hashable, str]] = defaultdict(dict)
            for parameters, around, behaviour in self._met.values():
                fixed = tuple(sorted((key, repr(value)) for key, value in parameters.items() if key != name))
                groups[around, fixed][parameters.get(name)] = behaviour
            compared = [group for group in groups.values() if len(group) > 1]
            compared_values = {value for group in compared for value in group}
            if compared_values == values[name] and all(
                "" not in group.values() and _alike(group) for group in compared
            ):
                yield (
                    f"The parameter {name} has no effect: variants that differ only in it ({len(compared)} "
                    f"{'set' if len(compared) == 1 else 'sets'} of them) have the same machine code, launches and "
                    "executed instructions. Does the kernel use it?"
                )


def _alike(group: dict[Hashable, str]) -> bool:
    return len(set(group.values())) == 1


def _behaviour(record: VariantRecord) -> str:
    """Return a digest of a variant's machine code, launches and executed counts; empty if not emulated."""
    emulation = record.emulation
    if record.build is None or emulation is None or any(launch.executed is None for launch in emulation.launches):
        return ""
    geometry = (record.launch, [(step.entry, step.launch) for step in record.steps])
    text = f"{record.build.sass_sha256} {geometry!r} {emulation.launches!r}"
    return hashlib.sha256(text.encode()).hexdigest()
