"""The folder of a tuning run: every time as soon as it is known, so that whatever ends the run costs one size at most.

::

    reports/<tuning>/
        tuning.sqlite      kernels, times, steps and the run's facts; the only source of the report
        <library>/         a library a problem type
        run.lock           who writes here

A time belongs to a kernel, known by a hash of what decides its machine code, and a size: steps that ask for it again,
and a run that goes on, find it here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter, ValidationError

from lab.base.errors import StoreError
from lab.base.sizes import Size
from lab.store.journal import Journal, JournalFormat
from lab.store.tuning_model import Cut, KernelFacts, ProtocolStep, Timed

SCHEMA = 1
"""Raised when what is stored changes its shape; an older store is refused, never misread."""

FILE = "tuning.sqlite"
_TIMED, _KERNEL = TypeAdapter(Timed), TypeAdapter(KernelFacts)
_STEPS, _CUTS = TypeAdapter(dict[str, list[ProtocolStep]]), TypeAdapter(dict[str, list[Cut]])


class TimingStage(StrEnum):
    """What a time was taken for; kernels are compared by times of one stage."""

    STEPS = "steps"  # steps 2 to 6
    FINAL = "final"  # step 7
    REFINED = "refined"  # sizes between those of step 7, for the library's thresholds
    HELD_OUT = "held out"  # sizes between those of step 7


class TuningStore(Journal):
    """The folder of a tuning run, opened by one process to write or by any to read. Use as a context manager."""

    form = JournalFormat(
        name=FILE,
        content="tuning run",
        command="lab tune",
        tables=(
            "CREATE TABLE IF NOT EXISTS facts (key TEXT PRIMARY KEY, json TEXT NOT NULL)",
            "CREATE TABLE IF NOT EXISTS kernels (id TEXT PRIMARY KEY, json TEXT NOT NULL)",
            """CREATE TABLE IF NOT EXISTS times
            (stage TEXT NOT NULL, kernel TEXT NOT NULL, m INTEGER NOT NULL, n INTEGER NOT NULL, k INTEGER NOT NULL,
            json TEXT NOT NULL, PRIMARY KEY (stage, kernel, m, n, k)) WITHOUT ROWID""",
        ),
        facts="facts",
        schema=SCHEMA,
    )

    def clear(self) -> None:
        """Forget everything: a new run begins."""
        self._commit(("DELETE FROM facts", [()]), ("DELETE FROM kernels", [()]), ("DELETE FROM times", [()]))

    def write_kernels(self, kernels: Iterable[KernelFacts]) -> None:
        """Remember kernels, replacing what is known of them."""
        rows = [(one.id, _KERNEL.dump_json(one).decode()) for one in kernels]
        self._commit(("INSERT OR REPLACE INTO kernels VALUES (?, ?)", rows))

    def write_times(self, stage: TimingStage, size: Size, times: Mapping[str, Timed]) -> None:
        """Remember times of kernels, by their ids, at one size; all of them or none."""
        rows = [(stage, kernel, *size, _TIMED.dump_json(timed).decode()) for kernel, timed in times.items()]
        self._commit(("INSERT OR REPLACE INTO times VALUES (?, ?, ?, ?, ?, ?)", rows))

    def write_steps(self, steps: Mapping[str, list[ProtocolStep]], cuts: Mapping[str, list[Cut]]) -> None:
        """Remember what the steps did, by problem type, and what step 7 left out."""
        self._commit(
            self._noting("steps", _STEPS.dump_json(dict(steps)).decode()),
            self._noting("cuts", _CUTS.dump_json(dict(cuts)).decode()),
        )

    def kernels(self) -> tuple[KernelFacts, ...]:
        """Every kernel, in the order of writing."""
        return tuple(self._each(_KERNEL, "SELECT json FROM kernels ORDER BY rowid"))

    def times(self, stage: TimingStage) -> dict[str, dict[Size, Timed]]:
        """Every time of a stage, by the kernel's id and the size."""
        found: dict[str, dict[Size, Timed]] = {}
        try:
            for kernel, m, n, k, text in self._select("SELECT kernel, m, n, k, json FROM times WHERE stage=?", stage):
                found.setdefault(kernel, {})[m, n, k] = _TIMED.validate_json(text)
        except ValidationError as error:
            raise StoreError(f"{self.folder}: a time cannot be read: {error}") from error
        return found

    def steps(self) -> tuple[dict[str, list[ProtocolStep]], dict[str, list[Cut]]]:
        """What `write_steps` remembered."""
        steps = list(self._each(_STEPS, "SELECT json FROM facts WHERE key='steps'"))
        cuts = list(self._each(_CUTS, "SELECT json FROM facts WHERE key='cuts'"))
        return (steps[0] if steps else {}), (cuts[0] if cuts else {})

    def _each(self, adapter: TypeAdapter[Any], statement: str) -> Iterator[Any]:
        try:
            yield from (adapter.validate_json(row[0]) for row in self._select(statement))
        except ValidationError as error:
            raise StoreError(f"{self.folder}: what is stored cannot be read: {error}") from error
