"""The sink of a run's results: the store, the observer, and the scores a search uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Self

from lab.experiment.variants import Planned
from lab.recorded.run_records import VariantRecord
from lab.runs.observer import RunObserver
from lab.runs.remarks import Remarks
from lab.search.pruning import Group, Pruner, Rank, score
from lab.store.database import Store
from lab.store.writer import Writer


class Recorder:
    """Writer of a run's records, files and notes; leaving the context waits until all is on disk.

    Attributes:
        store: The run directory.
        observer: Receives the progress.
        scores: Scores of the finished variants, by position.
        notes: Notes for the report.
        pruner: The pruner of a search, else None.
        kept: Records by position, where a search's strategy needs them; else None.
        remarks: Observations across all variants.
        first: Called when the first variant is finished; starts work that must not delay the first one.
        finished: Number of finished variants.
    """

    def __init__(
        self, store: Store, observer: RunObserver, pruner: Pruner | None = None, notes: Iterable[str] = ()
    ) -> None:
        """Start with the notes of an earlier, unfinished run; `pruner` learns from every finished variant."""
        self.store, self.observer = store, observer
        self.scores: dict[int, Rank] = {}
        self._groups: dict[Group, Group] = {}  # interned: few groups of many fields, shared by all scores
        self.notes = list(notes)
        self.kept: dict[int, VariantRecord] | None = None
        self.remarks = Remarks()
        self.first: Callable[[], None] = lambda: None
        self.pruner, self._writer = pruner, Writer()
        self.finished = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.__exit__(kind, error, trace)

    def note(self, *sentences: str) -> None:
        """Add notes for the report, each once."""
        new = [sentence for sentence in dict.fromkeys(sentences) if sentence not in self.notes]
        if new:
            self.notes += new
            self.store.note("notes", self.notes)
            for sentence in new:
                self.observer.noted(sentence)

    def files(self, planned: Planned, files: Mapping[str, str | bytes]) -> None:
        """Write files of a variant."""
        if files:
            self._writer.do(self.store.write_files, planned.variant, files)

    def finish(self, planned: Planned, record: VariantRecord) -> None:
        """Write the record of a finished variant."""
        self._writer.do(self.store.write, record, planned.position)
        self._remember(planned, record)

    def replace(self, position: int, record: VariantRecord) -> None:
        """Rewrite a finished variant's record at once, without notifying the observer."""
        self.store.write(record, position)
        self._score(position, record)

    def take_over(self, planned: Planned, record: VariantRecord) -> None:
        """Reuse a record of an earlier, unfinished run, with its present position and label."""
        if record.label != planned.label:
            record = replace(record, label=planned.label)
            self.store.write(record, planned.position)
        else:
            self.store.place(planned.variant, planned.position)
        self._remember(planned, record)

    def _remember(self, planned: Planned, record: VariantRecord) -> None:
        if self.kept is not None:
            self.kept[planned.position] = record
        self.remarks.meet(record)
        scored = self._score(planned.position, record)
        if scored and self.pruner is not None:
            self.pruner.learn(scored)
        self.finished += 1
        self.observer.recorded(record)
        first, self.first = self.first, lambda: None
        first()

    def _score(self, position: int, record: VariantRecord) -> Rank | None:
        if finished := score(record, position):
            finished = replace(finished, group=self._groups.setdefault(finished.group, finished.group))
            self.scores[position] = finished
        return finished
