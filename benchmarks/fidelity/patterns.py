"""Address patterns of one warp, and one-instruction kernels that access memory with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Offsets = NDArray[np.uint32]

LANES = 32
IDLE = 0xFFFFFFFF
"""Offset of a lane that takes no part."""
SHARED_BYTES = 32768
GLOBAL_BYTES = 1 << 16
WIDTHS = (4, 8, 16)
_RANDOM = 5

_LANE = np.arange(LANES)


@dataclass(frozen=True, slots=True)
class Pattern:
    """The memory access pattern of one warp.

    Attributes:
        space: `shared` or `global`.
        operation: `load`, `store`, or `copy` (cp.async from global to shared memory).
        width: Bytes of a lane's access.
        name: Of the pattern, such as `stride 2`.
        offsets: Bytes from the start of the memory, a lane; `IDLE` where it takes no part.
        sources: Where a copy reads, in bytes from the start of a global buffer, a lane; zeros for others.
    """

    space: str
    operation: str
    width: int
    name: str
    offsets: Offsets
    sources: Offsets

    @property
    def kernel(self) -> str:
        """Its kernel in `source`."""
        return f"{self.space}_{self.operation}_{self.width}"


def patterns() -> tuple[Pattern, ...]:
    """Every pattern of every space, operation and width."""
    collected = []
    none = np.zeros(LANES, np.uint32)
    for width in WIDTHS:
        contiguous = _bytes(_LANE, width)
        for name, elements in _shared(width):
            offsets = _bytes(elements, width)
            collected += [Pattern("shared", operation, width, name, offsets, none) for operation in ("load", "store")]
            if len(set(offsets[offsets != IDLE])) == np.count_nonzero(offsets != IDLE):  # else the lanes race
                collected += [Pattern("shared", "copy", width, name, offsets, contiguous)]
        for name, target, source in _copied():
            collected += [Pattern("shared", "copy", width, name, _bytes(target, width), _bytes(source, width))]
        for name, offsets in _global(width):
            collected += [Pattern("global", operation, width, name, offsets, none) for operation in ("load", "store")]
    return tuple(collected)


def _bytes(elements: NDArray[np.int64], width: int) -> Offsets:
    return np.where(elements < 0, IDLE, elements * width).astype(np.uint32)


def _shared(width: int) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Element index of each lane; -1 for a lane that takes no part."""
    yield "all idle", np.full(LANES, -1)
    yield "one lane", np.where(_LANE == 0, 0, -1)
    for stride in (1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 32, 33):
        yield f"stride {stride}", _LANE * stride
    yield "reversed", LANES - 1 - _LANE
    yield "broadcast", np.zeros(LANES, np.int64)
    for group in (2, 4, 8, 16):
        yield f"{group} neighbours share", _LANE // group
        yield f"every {LANES // group}th lane shares", _LANE % (LANES // group)
    yield "halves swapped", (_LANE + 16) % LANES
    yield "lane xor 1", _LANE ^ 1
    yield "lane xor 5", _LANE ^ 5
    yield "tile 8 x 4, along rows", _LANE % 8
    yield "tile 8 x 4, along columns", _LANE // 8
    yield "tile 4 x 8 in z-order", _LANE % 2 + 2 * (_LANE // 4 % 2)
    yield "two rows of 16, 64 words apart", _LANE % 16 + _LANE // 16 * (256 // width)
    yield "two rows of 16, 65 elements apart", _LANE % 16 + _LANE // 16 * 65
    yield "column of a 32-wide tile", _LANE * 32
    yield "column of a padded tile", _LANE * (32 + max(1, 4 // width))
    yield "even lanes", np.where(_LANE % 2 == 0, _LANE, -1)
    yield "first 8 lanes", np.where(_LANE < 8, _LANE, -1)
    yield "first 16 lanes, stride 2", np.where(_LANE < 16, _LANE * 2, -1)
    yield "lanes of two quarters", np.where(_LANE // 8 % 2 == 0, _LANE, -1)
    low, pairs, by_two = _LANE < 16, _LANE // 2, _LANE % 2 + _LANE // 4 * 2
    yield "even lanes, close", np.where(_LANE % 2 == 0, pairs, -1)
    yield "lanes 0 and 1 of 4, close", np.where(_LANE % 4 < 2, by_two, -1)
    yield "low half shares with lane xor 1", np.where(low, pairs, _LANE)
    yield "high half shares with lane xor 1", np.where(low, _LANE, pairs)
    yield "low half shares with lane xor 1, high half with xor 2", np.where(low, pairs, by_two)
    yield "first quarter shares with lane xor 1", np.where(_LANE < 8, pairs, _LANE)
    yield "each quarter shares another way", np.where(_LANE // 8 % 2 == 0, pairs, by_two)
    yield "one pair does not share", np.where(_LANE == 5, 31, pairs)
    yield "high half only, sharing with lane xor 1", np.where(low, -1, pairs)
    rng = np.random.default_rng(width)
    elements = SHARED_BYTES // width
    for i in range(_RANDOM):
        yield f"random {i}", rng.integers(elements, size=LANES)
        yield f"random of 16 elements {i}", rng.integers(16, size=LANES)
        yield f"random of 64 elements {i}", rng.integers(64, size=LANES)
        yield f"permutation {i}", rng.permutation(LANES)
        yield f"random lanes, random of 32 {i}", np.where(rng.random(LANES) < 0.5, rng.integers(32, size=LANES), -1)
        shared = rng.integers(elements, size=LANES // 2)
        yield f"neighbours share, random {i}", np.repeat(shared, 2)
        yield f"lane xor 2 shares, random {i}", shared[by_two]
        yield f"neighbours share, random, some idle {i}", np.where(rng.random(LANES) < 0.3, -1, np.repeat(shared, 2))
        yield (
            f"some neighbours share, random {i}",
            np.where(rng.random(LANES) < 0.2, shared[by_two], np.repeat(shared, 2)),
        )


def _copied() -> Iterator[tuple[str, NDArray[np.int64], NDArray[np.int64]]]:
    """Target and source element of each lane of a copy whose source is not contiguous."""
    for stride in (2, 4, 8, 16, 32):
        yield f"from stride {stride}", _LANE, _LANE * stride
    yield "from reversed", _LANE, LANES - 1 - _LANE
    yield "from one element", _LANE, np.zeros(LANES, np.int64)
    yield "from past a line", _LANE, _LANE + 5
    for row in (4, 8, 16):
        source = _LANE % row + _LANE // row * 100
        yield f"from rows of {row}", _LANE, source
        yield f"from rows of {row}, transposed", _LANE % row * 33 + _LANE // row, source
        yield f"from rows of {row}, transposed, padded", _LANE % row * 36 + _LANE // row, source
    rng = np.random.default_rng(7)
    for i in range(_RANDOM):
        yield f"from random {i}", _LANE, rng.integers(GLOBAL_BYTES // 16, size=LANES)
        yield f"from random to a permutation {i}", rng.permutation(LANES), rng.integers(64, size=LANES)
        yield f"from random to random {i}", rng.permutation(256)[:LANES], rng.integers(64, size=LANES)


def _global(width: int) -> Iterator[tuple[str, Offsets]]:
    yield "all idle", np.full(LANES, IDLE, np.uint32)
    for stride in range(1, 33):
        yield f"stride {stride}", _bytes(_LANE * stride, width)
    for elements in range(1, 128 // width):
        yield f"unit stride, {elements * width} bytes past a line", _bytes(_LANE + elements, width)
    yield "broadcast", _bytes(np.zeros(LANES, np.int64), width)
    yield "reversed", _bytes(LANES - 1 - _LANE, width)
    yield "even lanes", _bytes(np.where(_LANE % 2 == 0, _LANE, -1), width)
    rng = np.random.default_rng(100 + width)
    for i in range(_RANDOM):
        yield f"random {i}", _bytes(rng.integers(GLOBAL_BYTES // width, size=LANES), width)
        yield f"random of 64 elements {i}", _bytes(rng.integers(64, size=LANES), width)


_REGISTERS = {4: ("%0", ""), 8: ("{%0, %1}", ".v2"), 16: ("{%0, %1, %2, %3}", ".v4")}


def source() -> str:
    """CUDA source of all kernels; inline PTX, so that no compiler merges or drops the access."""
    kernels = [_kernel(operation, space, width) for space, operation in _KINDS for width in WIDTHS]
    return "\n".join(kernels)


_KINDS = (("shared", "load"), ("shared", "store"), ("shared", "copy"), ("global", "load"), ("global", "store"))


def _kernel(operation: str, space: str, width: int) -> str:
    words = width // 4
    registers, vector = _REGISTERS[width]
    names = [f"r{i}" for i in range(words)]
    if operation == "load":
        outputs = ", ".join(f'"=r"({name})' for name in names)
        access = (
            f'asm volatile("ld.{space}{vector}.b32 {registers}, [%{words}];" : {outputs} : "{_LETTER[space]}"(at));'
        )
        result = f"out[threadIdx.x] = {' + '.join(names)};"
    elif operation == "store":
        inputs = ", ".join(f'"r"({name})' for name in names)
        access = f'asm volatile("st.{space}{vector}.b32 [%{words}], {registers};" :: {inputs}, "{_LETTER[space]}"(at));'
        result = ""
    else:
        cache = "cg" if width == 16 else "ca"  # libraries pass by L1 where they may: with 16 bytes
        access = (
            f'asm volatile("cp.async.{cache}.shared.global [%0], [%1], {width};" :: "r"(at), '
            f'"l"(data + offsets[{LANES} + threadIdx.x]));'
        )
        result = 'asm volatile("cp.async.wait_all;");'
    base = "(unsigned)__cvta_generic_to_shared(memory)" if space == "shared" else "(size_t)data"
    memory = f"__shared__ alignas(1024) unsigned char memory[{SHARED_BYTES}];" if space == "shared" else ""
    return f"""
extern "C" __global__ void {space}_{operation}_{width}(const unsigned* offsets, unsigned char* data, unsigned* out) {{
    {memory}
    const unsigned offset = offsets[threadIdx.x];
    unsigned {", ".join(f"{name} = {i + 1}" for i, name in enumerate(names))};
    if (offset != {IDLE}u) {{
        const auto at = {base} + offset;
        {access}
    }}
    {result}
}}
"""


_LETTER = {"shared": "r", "global": "l"}
