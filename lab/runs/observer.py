"""What a run tells about its progress."""

from __future__ import annotations

from typing import Protocol

from lab.experiment.model import Experiment
from lab.experiment.space import Expansion
from lab.experiment.variants import Planned
from lab.recorded.run_records import VariantRecord
from lab.stages.build import BuildFailure, Built


class RunObserver(Protocol):
    """Receives the progress of a run, in the main thread. An error that it raises ends the run."""

    def planned(self, experiment: Experiment, expansion: Expansion, variants: int, gpu: str) -> None:
        """The number of variants is known; `gpu` is the GPU's name, or the reason why none is used."""

    def resumed(self, finished: int) -> None:
        """The run goes on with an interrupted one, of which `finished` variants are kept."""

    def drawing(self) -> None:
        """Every variant is finished; the report is about to be drawn."""

    def more(self, variants: int) -> None:
        """A search goes on with `variants` further variants."""

    def built(self, planned: Planned, outcome: Built | BuildFailure) -> None:
        """One variant was compiled and inspected, or could not be."""

    def executed(self, record: VariantRecord) -> None:
        """One variant was executed on the CPU, or could not be; where there is a GPU, it is still to be measured."""

    def noted(self, sentence: str) -> None:
        """The run found something that a reader of the report must see."""

    def recorded(self, record: VariantRecord) -> None:
        """One variant is finished."""

    def confirming(self) -> None:
        """Every variant is finished; the fastest of each problem are about to be measured again."""

    def counting(self, variants: int) -> None:
        """The hardware counters of `variants` variants are about to be read."""

    def counted(self, variants: int) -> None:
        """The hardware counters of `variants` more variants were read."""


class SilentObserver:
    """A `RunObserver` that shows nothing; one of your own need only replace what it shows."""

    def planned(self, experiment: Experiment, expansion: Expansion, variants: int, gpu: str) -> None:
        """Show nothing."""

    def resumed(self, finished: int) -> None:
        """Show nothing."""

    def drawing(self) -> None:
        """Show nothing."""

    def more(self, variants: int) -> None:
        """Show nothing."""

    def built(self, planned: Planned, outcome: Built | BuildFailure) -> None:
        """Show nothing."""

    def executed(self, record: VariantRecord) -> None:
        """Show nothing."""

    def noted(self, sentence: str) -> None:
        """Show nothing."""

    def recorded(self, record: VariantRecord) -> None:
        """Show nothing."""

    def confirming(self) -> None:
        """Show nothing."""

    def counting(self, variants: int) -> None:
        """Show nothing."""

    def counted(self, variants: int) -> None:
        """Show nothing."""
