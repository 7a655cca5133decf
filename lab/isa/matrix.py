"""The shape, type and multiply-adds of a matrix instruction, parsed from its opcode.

PTX names the shape and the types: `mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32`,
`wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16`. So does SASS, with shorter words: `HMMA.16816.F32.BF16`,
`HGMMA.64x256x16.F32`, `IMMA.16832.S8.S8`, `QGMMA.64x128x32.F32.E4M3.E4M3`. Sources: PTX ISA 9.x, Matrix
Multiply-Accumulate Instructions; CUDA Binary Utilities 13.x, Instruction Set Reference; the shapes of SASS from
disassembly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from lab.isa.classes import classify
from lab.isa.model import InstructionClass

WARPS_OF_A_GROUP: Final = 4
"""Warps of a warpgroup, which execute one wgmma together."""

FLOAT16, TF32, FLOAT8, INT8, FLOAT64 = "float16", "tf32", "float8", "int8", "float64"
"""Input types with distinct tensor core rates; float16 stands for bfloat16 too."""


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """One warp's share of a matrix instruction.

    Attributes:
        multiply_adds: Of one warp; a quarter of the warpgroup's for wgmma.
        elements: Type of A and B: `float16`, `tf32`, `float8`, `int8` or `float64`.
        group: A warpgroup executes the instruction together, with an operand in shared memory.
        columns: n of the shape m x n x k.
    """

    multiply_adds: float
    elements: str
    group: bool
    columns: int


_PTX_SHAPE: Final = re.compile(r"m(\d+)n(\d+)k(\d+)\Z")
_LONG_SHAPE: Final = re.compile(r"(\d+)x(\d+)x(\d+)\Z")
_SHORT_SHAPES: Final[Mapping[str, tuple[int, int, int]]] = {
    "884": (8, 8, 4),
    "1684": (16, 8, 4),
    "1688": (16, 8, 8),
    "16816": (16, 8, 16),
    "16832": (16, 8, 32),
    "16864": (16, 8, 64),
    "8816": (8, 8, 16),
    "8832": (8, 8, 32),
}
_PTX_TYPES: Final[Mapping[str, str]] = {
    "f16": FLOAT16, "bf16": FLOAT16, "tf32": TF32, "e4m3": FLOAT8, "e5m2": FLOAT8, "s8": INT8, "u8": INT8,
    "f64": FLOAT64,
}  # fmt: skip
_SASS_TYPES: Final[Mapping[str, str]] = {"I": INT8, "Q": FLOAT8, "D": FLOAT64}
_NARROW: Final = frozenset({"S4", "U4", "B1", "s4", "u4", "b1", "e2m1", "e2m3", "e3m2"})


@lru_cache(maxsize=4096)
def matrix_product(opcode: str) -> MatrixProduct | None:
    """Parse a matrix instruction.

    Args:
        opcode: The full opcode, of PTX or of SASS.

    Returns:
        None for other instructions, and for shapes and types not in this module's tables (4 bits, 1 bit, and those of
        sm_100, whose shapes are in descriptors). A sparse product counts only the multiply-adds executed.
    """
    root, *words = opcode.split(".")
    parsed = _of_ptx(root, words) or _of_sass(root, words)
    if parsed is None or _NARROW.intersection(words):
        return None
    (m, n, k), elements, group = parsed
    sparse = 2 if any(word.lower() == "sp" or word.startswith("sp::") for word in words) else 1
    return MatrixProduct(m * n * k / sparse / (WARPS_OF_A_GROUP if group else 1), elements, group, n)


def matrix_products(opcodes: Mapping[str, int]) -> dict[str, float]:
    """Return a warp's matrix multiply-adds by input type.

    Args:
        opcodes: SASS instruction counts by full opcode.

    Returns:
        Empty if there are no matrix instructions, or the shape or type of one is unknown.
    """
    totals: dict[str, float] = {}
    for opcode, n in opcodes.items():
        if classify("sass", opcode) is not InstructionClass.MMA:
            continue
        if (product := matrix_product(opcode)) is None:
            return {}
        totals[product.elements] = totals.get(product.elements, 0.0) + n * product.multiply_adds
    return totals


def pipe_cycles(opcode: str) -> float:
    """Return the tensor pipe cycles of a matrix instruction on an SM sub-partition of sm_90, at documented rates.

    At least 1; also 1 for instructions that `matrix_product` cannot parse.
    """
    product = matrix_product(opcode)
    return 1.0 if product is None else max(1.0, product.multiply_adds / _A_CYCLE[product.elements])


_A_CYCLE: Final[Mapping[str, int]] = {FLOAT16: 512, TF32: 256, FLOAT8: 1024, INT8: 1024, FLOAT64: 32}
"""Multiply-adds per cycle of an SM sub-partition of sm_90; `lab.hardware.gpus` has the rates per SM."""

_Found = tuple[tuple[int, int, int], str, bool]


def _of_ptx(root: str, words: list[str]) -> _Found | None:
    if root not in {"mma", "wmma", "wgmma"} or (root != "mma" and not {"mma", "mma_async"}.intersection(words)):
        return None
    match = next(filter(None, map(_PTX_SHAPE.match, words)), None)
    types = [_PTX_TYPES[word] for word in words if word in _PTX_TYPES]
    if root == "wmma" and not types and "f32" in words:
        types = [FLOAT16]  # float16 wmma names only the accumulator types
    if match is None or not types:
        return None
    m, n, k = (int(size) for size in match.groups())
    narrowest = min(types, key=_WIDTHS.__getitem__)
    if (m, n, k) == _QUADS and narrowest == FLOAT16:
        m *= 4  # four quads compute one product each
    return (m, n, k), narrowest, root == "wgmma"


_QUADS: Final = (8, 8, 4)
_WIDTHS: Final[Mapping[str, int]] = {INT8: 1, FLOAT8: 1, FLOAT16: 2, TF32: 4, FLOAT64: 8}


def _of_sass(root: str, words: list[str]) -> _Found | None:
    match = re.fullmatch(r"([HIDQ])(G?)MMA", root)
    if match is None:
        return None
    shape = next((parsed for word in words if (parsed := _shape(word)) is not None), None)
    if shape is None:
        return None
    elements = _SASS_TYPES.get(match[1]) or (TF32 if "TF32" in words else FLOAT16)
    if shape == _QUADS and elements == FLOAT16:
        return None  # sm_70: several steps per product, their number depends on the accumulator type
    return shape, elements, match[2] == "G"


def _shape(word: str) -> tuple[int, int, int] | None:
    if match := _LONG_SHAPE.match(word):
        m, n, k = (int(size) for size in match.groups())
        return m, n, k
    return _SHORT_SHAPES.get(word)
