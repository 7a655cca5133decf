"""Colours and names that the page, its charts and the PNGs share.

The hues are those of Okabe and Ito's palette ("Color Universal Design", 2008), which can be told apart with the common
forms of colour blindness, in lighter and darker steps where a family has several members.
"""

from __future__ import annotations

from typing import Final

from lab.isa.model import InstructionClass as C
from lab.measured.timing import Kind

CLASS_COLOURS: Final[dict[str, str]] = {
    C.FMA: "#0072b2",
    C.MMA: "#004a75",
    C.FLOAT: "#56b4e9",
    C.SPECIAL: "#9ad4f5",
    C.LD_SHARED: "#e69f00",
    C.ST_SHARED: "#f5cf7a",
    C.LD_GLOBAL: "#d55e00",
    C.ST_GLOBAL: "#f0a06c",
    C.CP_ASYNC: "#8f3f00",
    C.BULK_COPY: "#5e2a00",
    C.LD_LOCAL: "#b3004b",
    C.ST_LOCAL: "#e0679a",
    C.LD_CONST: "#d9b3c9",
    C.ATOMIC: "#7a2e5d",
    C.SHUFFLE: "#cc79a7",
    C.BARRIER: "#6b4fa0",
    C.INTEGER: "#009e73",
    C.CONVERT: "#7fcfb5",
    C.COMPARE: "#b5dfa0",
    C.MOVE: "#b8bcc2",
    C.BRANCH: "#5c636b",
    C.OTHER: "#dfe2e6",
}
"""Instruction class to colour, in stacking order: arithmetic blue, shared memory amber, global memory vermilion,
spills crimson, integer work green, and control flow and moves grey."""

SERIES: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8a7400", "#5c636b")
"""Colours of the values of one parameter, in the order the values occur."""

MEASURED: Final = "#0072b2"
PREDICTED: Final = "#8aa4b8"
BASELINE: Final = "#5c636b"
BASELINES: Final = ("#1f2328", "#7d8590", "#b0b7bf")
"""Greys of several baselines, in the experiment's order."""
ACCENT: Final = "#d55e00"
INK: Final = "#1f2328"
DARK: Final = frozenset({MEASURED, BASELINE})
"""Colours of bars that need white text; on all others ink is easier to read."""

BOUND_COLOURS: Final[dict[str, str]] = {
    "issue slots": "#0072b2",
    "shared memory": "#e69f00",
    "DRAM": "#d55e00",
    "roofline": "#009e73",
    "memory pipe": "#cc79a7",
    "waves": "#8aa4b8",
}
"""Colours of the bounds that set ceilings, for bars that are ceilings."""

KIND_MEANING: Final[dict[Kind, str]] = {
    Kind.STATIC: "read from the program text",
    Kind.PREDICTED: "computed from the program text and the limits of the GPU",
    Kind.EMULATED: "counted while executing the PTX on the CPU",
    Kind.MEASURED: "observed on a GPU",
}


def series_colour(index: int) -> str:
    """Return the colour of the `index`-th value of a category; the palette repeats after eight."""
    return SERIES[index % len(SERIES)]
