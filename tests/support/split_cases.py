"""Settings and problems for kernel_src/split, small enough to execute without a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from lab.base.expressions import Scalar
from lab.operators.builtin import operator
from lab.operators.gemm import GemmProblem
from lab.templates import front_matter

PRECISIONS: Final = ("3xtf32", "bf16x6", "bf16x9")
SMALL: Final[Mapping[str, Scalar]] = MappingProxyType(
    {"block_m": 64, "block_n": 64, "width": 64, "warpgroups": 1, "stages": 3}
)
SETTINGS: Final[Mapping[str, Mapping[str, Scalar]]] = MappingProxyType(
    {
        "one piece": {**SMALL, "promote": 64},
        "pieces along m": {**SMALL, "width": 32, "stages": 4},
        "pieces along both": {**SMALL, "block_n": 128, "width": 32, "block_k": 32, "blocks": 2},
        "two warpgroups": {**SMALL, "block_n": 128, "warpgroups": 2, "promote": 16, "blocks": 2, "group": 2},
        "three warpgroups": {**SMALL, "block_n": 192, "warpgroups": 3, "block_k": 32, "stages": 2, "blocks": 1},
    }
)
"""What parameters make different: pieces, tiles between promotions, widths of lines, warpgroups, tiles of a block."""

POINTS: Final = (
    ((65, 31, 67), (-1.5, 0.5), 3),
    ((31, 65, 40), (0.0, 2.0), 5),
    ((1, 1, 1), (1.0, 0.0), 0),
    ((63, 129, 24), (2.0, 0.0), 1),
)
"""Sizes, factors, and elements behind each column."""


def template() -> front_matter.Template:
    """Read the template."""
    return front_matter.load("split/sgemm.cu.j2", front_matter.search_path())


def problems(layout: str, precision: str, most: int = len(POINTS)) -> Iterator[GemmProblem]:
    """Yield the first points, at most so many, for a layout and a precision."""
    gemm = operator("gemm")
    for (m, n, k), (alpha, beta), slack in POINTS[:most]:
        shape = {"m": m, "n": n, "k": k, "layout": layout, "precision": precision}
        leading = {key: gemm.problem(shape)[key] + slack for key in ("lda", "ldb", "ldc")}
        yield gemm.problem({**shape, **leading, "alpha": alpha, "beta": beta})
