"""The folder of a tuning run. Times are stored as soon as they are known: an interruption costs at most one size.

::

    reports/<tuning>/
        tuning.sqlite      kernels, times, steps and the run's facts; the only source of the report
        <library>/         one library for each problem type
        run.lock           locked by the process that writes here, which run.holder names

A time belongs to a size and to a kernel, which is known by a hash of what decides its machine code. Steps that ask for
the same time again, and a run that is resumed, find it here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from pydantic import ConfigDict, TypeAdapter

from lab.base.errors import StoreError
from lab.base.sizes import AXES, BATCH_AXES, Size
from lab.store.decoding import decode
from lab.store.journal import Journal, JournalFormat
from lab.store.tuning_model import Cut, KernelFacts, ProtocolStep, Timed, TimingStage, TuningFacts

T = TypeVar("T")

FILE = "tuning.sqlite"

TuningFacts.__pydantic_config__ = ConfigDict(ser_json_inf_nan="constants")  # type: ignore[attr-defined]
FACTS = TypeAdapter(TuningFacts)
"""JSON adapter of a tuning run's facts; `provenance.json` of a published run has the same fields."""

_TABLES = {len(AXES): "times", len(BATCH_AXES): "batch_times"}
"""Tables of times by the number of a size's dimensions."""

_TIMED, _KERNEL = TypeAdapter(Timed), TypeAdapter(KernelFacts)
STEPS = TypeAdapter(dict[str, tuple[ProtocolStep, ...]])
CUTS = TypeAdapter(dict[str, tuple[Cut, ...]])


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
            """CREATE TABLE IF NOT EXISTS batch_times
            (stage TEXT NOT NULL, kernel TEXT NOT NULL, m INTEGER NOT NULL, n INTEGER NOT NULL, k INTEGER NOT NULL,
            batch INTEGER NOT NULL, json TEXT NOT NULL, PRIMARY KEY (stage, kernel, m, n, k, batch)) WITHOUT ROWID""",
        ),
        facts="facts",
    )

    def clear(self) -> None:
        """Delete everything for a new run."""
        self._commit(*((f"DELETE FROM {table}", [()]) for table in ("facts", "kernels", *_TABLES.values())))  # noqa: S608

    def write_kernels(self, kernels: Iterable[KernelFacts]) -> None:
        """Store kernels, replacing older facts of them."""
        rows = [(kernel.id, _KERNEL.dump_json(kernel).decode()) for kernel in kernels]
        self._commit(("INSERT OR REPLACE INTO kernels VALUES (?, ?)", rows))

    def write_times(self, stage: TimingStage, size: Size, times: Mapping[str, Timed]) -> None:
        """Store the times of kernels, by their ids, at one size in one transaction."""
        rows = [(stage, kernel, *size, _TIMED.dump_json(timed).decode()) for kernel, timed in times.items()]
        places = ", ".join("?" * (len(size) + 3))
        self._commit((f"INSERT OR REPLACE INTO {_TABLES[len(size)]} VALUES ({places})", rows))  # noqa: S608

    def write_steps(self, steps: Mapping[str, Sequence[ProtocolStep]], cuts: Mapping[str, Sequence[Cut]]) -> None:
        """Store the results of the steps and the cuts of step 7, by the problem type's label."""
        self._commit(
            self._noting("steps", STEPS.dump_json({label: tuple(own) for label, own in steps.items()}).decode()),
            self._noting("cuts", CUTS.dump_json({label: tuple(own) for label, own in cuts.items()}).decode()),
        )

    def write_facts(self, facts: TuningFacts) -> None:
        """Store the run's facts, replacing older ones."""
        self._commit(self._noting("facts", FACTS.dump_json(facts).decode()))

    def known_facts(self) -> TuningFacts | None:
        """Return the run's facts; None if none are written yet.

        Raises:
            StoreError: they cannot be read.
        """
        return self.fact(FACTS, "facts")

    def facts(self) -> TuningFacts:
        """Return the run's facts.

        Raises:
            StoreError: there are none, or they cannot be read.
        """
        stored_facts = self.known_facts()
        if stored_facts is None:
            raise StoreError(f"{self.folder} holds no tuning run: the database is empty")
        return stored_facts

    def kernels(self) -> tuple[KernelFacts, ...]:
        """Return all kernels, in order of writing.

        Raises:
            StoreError: one cannot be read.
        """
        rows = self._select("SELECT json FROM kernels ORDER BY rowid")
        return tuple(decode(_KERNEL, text, f"{self.path}: a kernel") for (text,) in rows)

    def times(self, stage: TimingStage) -> dict[str, dict[Size, Timed]]:
        """Return all times of a stage, by the kernel's id and the size.

        Raises:
            StoreError: one cannot be read.
        """
        by_kernel: dict[str, dict[Size, Timed]] = {}
        for axes in (AXES, BATCH_AXES):
            table = _TABLES[len(axes)]
            query = f"SELECT kernel, json, {', '.join(axes)} FROM {table} WHERE stage=?"  # noqa: S608 - our own names
            for kernel, text, *size in self._select(query, stage):
                by_kernel.setdefault(kernel, {})[tuple(size)] = decode(_TIMED, text, f"{self.path}: a time")
        return by_kernel

    def steps(self) -> tuple[Mapping[str, tuple[ProtocolStep, ...]], Mapping[str, tuple[Cut, ...]]]:
        """Return the steps and cuts stored by `write_steps`.

        Raises:
            StoreError: it cannot be read.
        """
        return self.fact(STEPS, "steps") or {}, self.fact(CUTS, "cuts") or {}
