"""GPU table, occupancy and ceilings: what a kernel can reach at most, predicted from its machine code."""

from lab.limits.bounds import Bound, LaunchFacts, Prediction, delayed, predict, predict_sequence
from lab.limits.gpus import Architecture, Gpu, architecture_for, from_description, gpu_for
from lab.limits.occupancy import Occupancy, occupancy

__all__ = [
    "Architecture",
    "Bound",
    "Gpu",
    "LaunchFacts",
    "Occupancy",
    "Prediction",
    "architecture_for",
    "delayed",
    "from_description",
    "gpu_for",
    "occupancy",
    "predict",
    "predict_sequence",
]
