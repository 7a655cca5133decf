"""The progress interface of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the stages, whose values are passed here, take seconds to import
    from lab.experiment.model import Experiment
    from lab.experiment.space import Expansion
    from lab.experiment.variants import Planned
    from lab.recorded.run_records import VariantRecord
    from lab.stages.build import BuildFailure, Built


class RunObserver:
    """Receiver of a run's progress, called in the main thread; an error it raises ends the run.

    It ignores everything; subclasses override what they show.
    """

    def planned(self, experiment: Experiment, expansion: Expansion, variants: int, gpu: str) -> None:
        """Report the number of variants; `gpu` is the GPU's name, or why none is used."""

    def resumed(self, finished: int) -> None:
        """Report that an interrupted run is resumed, with `finished` variants kept."""

    def drawing(self) -> None:
        """Report that every variant is finished and the report is about to be drawn."""

    def more(self, variants: int) -> None:
        """Report that a search continues with `variants` more variants."""

    def built(self, planned: Planned, outcome: Built | BuildFailure) -> None:
        """Report that a variant was compiled and inspected, or failed to."""

    def executed(self, record: VariantRecord) -> None:
        """Report that a variant was emulated, or could not be; with a GPU, it is still to be measured."""

    def noted(self, sentence: str) -> None:
        """Receive a note for the reader of the report."""

    def recorded(self, record: VariantRecord) -> None:
        """Report that a variant is finished."""

    def confirming(self) -> None:
        """Report that the fastest variant of each problem is about to be measured again."""

    def counting(self, variants: int) -> None:
        """Report that the hardware counters of `variants` variants are about to be read."""

    def counted(self, variants: int) -> None:
        """Report that the hardware counters of `variants` more variants were read."""
