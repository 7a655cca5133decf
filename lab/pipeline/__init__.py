"""A model of one SM's schedulers: where the cycles of a kernel's hot loop go, and how fast it would run.

The limits (`lab.limits`) say what a kernel cannot exceed; this says what it would reach, by issuing the loop's SASS
with the compiler's own scheduling bits, cycle by cycle, on an SM with its resident warps, and running the grid's
blocks in rounds. An estimate, from the machine code alone: it is shown as predicted, and measured figures stand beside
it.
"""

from lab.pipeline.estimate import Edges, Estimate, Pace, estimate
from lab.pipeline.machine import Machine, machine_of
from lab.pipeline.simulate import Cause
from lab.pipeline.trace import MainLoop, Traffic, main_loop

__all__ = [
    "Cause",
    "Edges",
    "Estimate",
    "Machine",
    "MainLoop",
    "Pace",
    "Traffic",
    "estimate",
    "machine_of",
    "main_loop",
]
