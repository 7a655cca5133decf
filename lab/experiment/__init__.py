"""An experiment file: read, validated, expanded to its points."""

from lab.experiment.load import Experiment, KernelEntry, load
from lab.experiment.schema import ExperimentFile, json_schema
from lab.experiment.space import DEFAULT_MAX_VARIANTS, Expansion, Point, expand

__all__ = [
    "DEFAULT_MAX_VARIANTS",
    "Expansion",
    "Experiment",
    "ExperimentFile",
    "KernelEntry",
    "Point",
    "expand",
    "json_schema",
    "load",
]
