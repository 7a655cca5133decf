"""An experiment file: read, validated, expanded to its points."""

from lab.experiment.load import Experiment, KernelEntry, load
from lab.experiment.problems import Problem
from lab.experiment.schema import ExperimentFile, ProfileModel, PruneModel, SearchModel, json_schema
from lab.experiment.space import DEFAULT_MAX_VARIANTS, Expansion, Point, expand, neighbours

__all__ = [
    "DEFAULT_MAX_VARIANTS",
    "Expansion",
    "Experiment",
    "ExperimentFile",
    "KernelEntry",
    "Point",
    "Problem",
    "ProfileModel",
    "PruneModel",
    "SearchModel",
    "expand",
    "json_schema",
    "load",
    "neighbours",
]
