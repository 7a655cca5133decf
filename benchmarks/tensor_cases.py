"""Kernels of one matrix instruction each, with inputs by seed: what `tensor_cores.py` runs on a card and here.

Fragments are laid out by the PTX ISA's formulas, written out once more: the emulator's own layouts are what is tested.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.unsignedinteger[Any]]
Words = NDArray[np.uint32]

LANES = 32
GROUP, WITHIN = np.arange(LANES)[:, None] >> 2, np.arange(LANES)[:, None] & 3
WIDTH = {
    "b1": 1, "s4": 4, "u4": 4, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "f16": 16, "bf16": 16, "tf32": 32, "f32": 32,
    "s32": 32, "f64": 64,
}  # fmt: skip
FIELDS = {
    "e4m3": (4, 3), "e5m2": (5, 2), "f16": (5, 10), "bf16": (8, 7), "tf32": (8, 10), "f32": (8, 23), "f64": (11, 52),
}  # fmt: skip
"""Floating-point type to its exponent and fraction bits."""

IMAGE = 16_384
"""Bytes of shared memory that the operands of a wgmma may lie in."""

MIXES = (
    "near", "spread", "all", "sparse", "large c", "small c", "cancelling", "subnormal", "special", "zeros", "overflow",
    "zero times huge",
)  # fmt: skip
"""How the inputs of a trial are drawn."""


@dataclass(frozen=True)
class Case:
    """One instruction and the inputs of its trials.

    Attributes:
        name: The instruction, in short.
        ptx: A kernel `k` whose parameters are the inputs and then the output.
        threads: Of a block; there is a block for each trial.
        inputs: Arrays whose first axis is the trial.
        output: Shape and dtype of the output.
        exact: Inputs are small integers, so that only layouts matter.
        mixes: How the inputs of each trial were drawn, where that matters.
    """

    name: str
    ptx: str
    threads: int
    inputs: tuple[NDArray[Any], ...]
    output: tuple[tuple[int, ...], str]
    exact: bool = False
    mixes: tuple[str, ...] = field(default=())


# --- numbers ----------------------------------------------------------------------------------------------------------


def patterns(rng: np.random.Generator, t: str, exponents: NDArray[np.int64], *, zeros: float = 0.0) -> Bits:
    """Return random bit patterns of a floating-point type with given exponents, clipped to those that are finite."""
    wide, fraction = FIELDS[t]
    bias, most = (1 << (wide - 1)) - 1, (1 << wide) - (1 if t == "e4m3" else 2)
    top = np.clip(exponents + bias, 0, most).astype(np.uint64)
    sign = rng.integers(0, 2, exponents.shape).astype(np.uint64)
    rest = rng.integers(0, 1 << fraction, exponents.shape).astype(np.uint64)
    if t == "e4m3":  # all ones are NaN
        rest = np.where((top == most) & (rest == 7), 6, rest)  # noqa: PLR2004  three bits
    bits = (top << np.uint64(fraction)) | rest
    bits = np.where(rng.random(exponents.shape) < zeros, 0, bits)
    bits |= sign << np.uint64(wide + fraction)
    if t == "tf32":
        bits <<= np.uint64(13)
    return bits.astype(f"u{WIDTH[t] // 8}")


def power(rng: np.random.Generator, t: str, exponents: NDArray[np.int64], signs: NDArray[np.int64]) -> Bits:
    """Return powers of two with given signs, 0 or 1."""
    wide, fraction = FIELDS[t]
    bits = patterns(rng, t, exponents).astype(np.uint64)
    kept = (np.uint64((1 << wide) - 1) << np.uint64(fraction)) << np.uint64(13 if t == "tf32" else 0)
    return ((bits & kept) | (signs.astype(np.uint64) << np.uint64(WIDTH[t] - 1))).astype(f"u{WIDTH[t] // 8}")


def trial(
    rng: np.random.Generator, mix: str, types: tuple[str, str, str], shape: tuple[int, int, int]
) -> tuple[Bits, Bits, Bits]:
    """Return the bits of A (m, k), B (k, n) and C (m, n) of one trial."""
    m, n, k = shape
    sizes = ((m, k), (k, n), (m, n))
    most = [1 << (FIELDS[t][0] - 1) for t in types]
    lows, highs, zeros = ranges(mix, most)
    a, b, c = (
        patterns(rng, t, rng.integers(low, high, size, endpoint=True), zeros=share)
        for t, low, high, size, share in zip(types, lows, highs, sizes, (zeros, zeros, 0.0), strict=True)
    )
    if mix == "special":
        a, b, c = (_with_specials(rng, one, t) for one, t in zip((a, b, c), types, strict=True))
    elif mix == "zeros":
        a &= a.dtype.type(1 << (WIDTH[types[0]] - 1))
        c[: m // 2] &= c.dtype.type(1 << (WIDTH[types[2]] - 1))
    elif mix == "zero times huge":
        columns = rng.permutation(k)[: k // 2]
        a[:, columns] &= a.dtype.type(1 << (WIDTH[types[0]] - 1))
        b[columns] = patterns(rng, types[1], np.full((len(columns), n), most[1] - 2))
    elif mix == "cancelling":
        for row in range(m):
            first, second = rng.permutation(k)[:2]
            high = rng.integers(2, 6, 1)
            a[row, [first]] = power(rng, types[0], high, np.zeros(1, int))
            a[row, [second]] = power(rng, types[0], high, np.ones(1, int))
        b = power(rng, types[1], np.zeros((k, n), int), np.zeros((k, n), int))
    return a, b, c


def ranges(mix: str, most: Sequence[int]) -> tuple[Sequence[int], Sequence[int], float]:
    """Return the least and the largest exponents of A, B and C, and the share of zeros in A and B.

    Args:
        mix: How a trial is drawn.
        most: One more than the largest exponent of each type.
    """
    low, high = [-one for one in most], [one - 1 for one in most]
    table: dict[str, tuple[Sequence[int], Sequence[int], float]] = {
        "near": ((-2, -2, -2), (1, 1, 1), 0.0),
        "special": ((-2, -2, -2), (1, 1, 1), 0.0),
        "spread": ((-8, -8, -12), (8, 8, 12), 0.0),
        "all": (low, high, 0.0),
        "sparse": ((-12, -6, -20), (12, 6, 20), 0.7),
        "large c": ((-3, -3, 4), (0, 0, 14), 0.0),
        "small c": ((-2, -2, -40), (2, 2, -8), 0.0),
        "cancelling": ((-16, -8, -20), (-6, 0, -8), 0.0),
        "subnormal": ([one - 1 for one in low], [one + 4 for one in low], 0.0),
        "zeros": ((low[0] - 2, 0, low[2] - 2), (low[0] - 2, 1, low[2] - 2), 0.5),
        "overflow": ([one - 2 for one in high], high, 0.5),
        "zero times huge": ((-3, -3, -10), (0, 0, -6), 0.0),
    }
    return table[mix]


def _with_specials(rng: np.random.Generator, values: Bits, t: str) -> Bits:
    """Return values with some infinities, and some patterns of any bits, among them."""
    raw: NDArray[np.uint8] = rng.integers(0, 256, (*values.shape, WIDTH[t] // 8)).astype(np.uint8)
    pick = rng.random(values.shape)
    mixed = np.where(pick < 0.02, raw.view(values.dtype)[..., 0], values)  # noqa: PLR2004  a few of each
    infinity = _infinity(t)
    if infinity:
        mixed = np.where(pick > 0.98, values.dtype.type(infinity), mixed)  # noqa: PLR2004
    typed: Bits = mixed.astype(values.dtype)
    return typed


def _infinity(t: str) -> int:
    wide, fraction = FIELDS[t]
    if t == "e4m3":
        return 0
    return ((1 << wide) - 1) << (fraction + (13 if t == "tf32" else 0))


def small_integers(rng: np.random.Generator, t: str, shape: tuple[int, ...]) -> Bits:
    """Return the bits of small integers in any type; those of 4 and 1 bits lie in a byte each."""
    if t in ("b1", "s4", "u4", "s8", "u8"):
        return rng.integers(0, 1 << WIDTH[t], shape).astype(np.uint8)
    if t == "s32":
        return rng.integers(-1000, 1000, shape).astype(np.int32).view(np.uint32)
    values = rng.integers(-4, 5, shape)
    if t in ("f64", "f16"):
        native = {"f64": np.float64, "f16": np.float16}[t]
        return np.asarray(values.astype(native).view(f"u{WIDTH[t] // 8}"))
    single = values.astype(np.float32).view(np.uint32)
    if t in ("f32", "tf32"):
        return single
    if t == "bf16":
        return (single >> 16).astype(np.uint16)
    wide, fraction = FIELDS[t]
    bias, top = (1 << (wide - 1)) - 1, (single >> (23 - fraction)) & 0xFF_FFFF >> (16 - fraction)
    code = np.where(values == 0, 0, top.astype(np.int64) - ((127 - bias) << fraction))
    eighth: NDArray[np.uint8] = (code | (values < 0) << 7).astype(np.uint8)
    return eighth


# --- fragments --------------------------------------------------------------------------------------------------------


def packed(elements: Bits, t: str) -> Words:
    """Return (lanes, registers) words of (lanes, elements) bits, the first ones lowest."""
    if t == "f64":
        return np.ascontiguousarray(elements).view(np.uint32)
    per = 32 // WIDTH[t]
    parts = elements.reshape(LANES, -1, per).astype(np.uint32)
    shifts = (np.arange(per) * WIDTH[t]).astype(np.uint32)
    return np.asarray(np.bitwise_or.reduce(parts << shifts, axis=2), np.uint32)


def index_a(m: int, k: int, t: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows and columns of A's elements, by the formulas of each shape."""
    count = m * k // LANES
    i = np.arange(count)[None, :]
    if t == "f64":
        return (GROUP + 8 * (i % 2), WITHIN + 4 * (i // 2)) if m == 16 else (GROUP + 0 * i, WITHIN + 0 * i)  # noqa: PLR2004
    per = 32 // WIDTH[t]
    if m == 8:  # noqa: PLR2004
        return GROUP + 0 * i, WITHIN * per + i
    # two registers hold rows g and g + 8 of the first half of k, two more those of the second
    return GROUP + 8 * ((i // per) % 2), WITHIN * per + i % per + (k // 2 if per * 2 < count else 0) * (i // (2 * per))


def index_b(n: int, k: int, t: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows and columns of B's elements."""
    count = n * k // LANES
    i = np.arange(count)[None, :]
    if t == "f64":
        return WITHIN + 4 * i, GROUP + 0 * i
    per = 32 // WIDTH[t]
    return WITHIN * per + i % per + (i // per) * (k // (count // per)), GROUP + 0 * i


def index_c(m: int, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows and columns of the accumulator's elements."""
    i = np.arange(m * n // LANES)[None, :]
    rows = GROUP + 8 * (i // 2 % 2) if m == 16 else GROUP + 0 * i  # noqa: PLR2004
    pairs = i // (4 if m == 16 else 2)  # noqa: PLR2004
    return rows, WITHIN * 2 + i % 2 + 8 * pairs


# --- kernels ----------------------------------------------------------------------------------------------------------


def _header(version: str) -> str:
    return f".version {version}\n.target sm_90a\n.address_size 64\n"


def _vector(letter: str, count: int) -> str:
    return "{" + ", ".join(f"%{letter}{i}" for i in range(count)) + "}"


def warp_kernel(instruction: str, counts: Sequence[int], out: int, *, wide: bool = False, version: str = "8.4") -> str:
    """Return a kernel of one warp: registers a, b, c (and e) from arrays of words, D to the last one.

    Args:
        instruction: With `D`, `A`, `B`, `C` and `E` for its operands.
        counts: Registers of each input.
        out: Registers of D.
        wide: Registers have 64 bits.
        version: Of PTX.
    """
    t, size = ("b64", 8) if wide else ("b32", 4)
    names = "abce"[: len(counts)]
    lines = [", ".join(f".param .u64 {name}" for name in (*names, "d"))]
    body = ["mov.u32 %t, %tid.x; mov.u32 %n, %ctaid.x; mad.lo.u32 %t, %n, 32, %t;"]
    for name, count in zip(names, counts, strict=True):
        body.append(f"ld.param.u64 %p, [{name}]; mad.wide.u32 %p, %t, {size * count}, %p;")
        body += [f"ld.global.{t} %{name}{i}, [%p+{size * i}];" for i in range(count)]
    text = instruction
    for name, count in zip(names, counts, strict=True):
        text = text.replace(name.upper() + "#", "%e0" if name == "e" else _vector(name, count))
    body.append(text.replace("D#", _vector("d", out)))
    body.append(f"ld.param.u64 %p, [d]; mad.wide.u32 %p, %t, {size * out}, %p;")
    body += [f"st.global.{t} [%p+{size * i}], %d{i};" for i in range(out)]
    registers = " ".join(
        f".reg .{t} %{name}<{count}>;" for name, count in (*zip(names, counts, strict=True), ("d", out))
    )
    joined = "\n".join(body)
    declared = f".reg .b32 %t, %n; .reg .b64 %p; {registers}"
    return f"{_header(version)}.visible .entry k({lines[0]})\n{{\n{declared}\n{joined}\nret;\n}}\n"


def group_kernel(instruction: str, a: int, out: int, version: str = "8.4", *, sparse: bool = False) -> str:
    """Return a kernel of one warpgroup.

    Its inputs are images of shared memory, two descriptors relative to the image, registers of A, and registers of D,
    and of a sparse A its metadata.

    Args:
        instruction: With `D#`, `A#`, `B#`, `P#` (the predicate scale-d, true) and `E#` (metadata) for its operands.
        a: Registers of A; 0 where it lies in shared memory.
        out: Registers of D.
        version: Of PTX.
        sparse: A is sparse.
    """
    body = [
        "mov.u32 %t, %tid.x; mov.u32 %n, %ctaid.x; mov.u32 %s, image;",
        f"ld.param.u64 %p, [i]; mad.wide.u32 %p, %n, {IMAGE}, %p; mad.wide.u32 %p, %t, 16, %p;",
        "shl.b32 %u, %t, 4; add.u32 %u, %s, %u;",
    ]
    for piece in range(IMAGE // 2048):
        body.append(f"ld.global.v4.b32 {{%w0, %w1, %w2, %w3}}, [%p+{2048 * piece}];")
        body.append(f"st.shared.v4.b32 [%u+{2048 * piece}], {{%w0, %w1, %w2, %w3}};")
    body.append("ld.param.u64 %p, [m]; mad.wide.u32 %p, %n, 16, %p; ld.global.b64 %x, [%p]; ld.global.b64 %y, [%p+8];")
    body.append("cvt.u64.u32 %z, %s; shr.u64 %z, %z, 4; add.u64 %x, %x, %z; add.u64 %y, %y, %z;")
    body.append("mad.lo.u32 %t, %n, 128, %t;")
    if a:
        body.append(f"ld.param.u64 %p, [a]; mad.wide.u32 %p, %t, {4 * a}, %p;")
        body += [f"ld.global.b32 %a{i}, [%p+{4 * i}];" for i in range(a)]
    if sparse:
        body.append("ld.param.u64 %p, [e]; mad.wide.u32 %p, %t, 4, %p; ld.global.b32 %w0, [%p];")
    body.append(f"ld.param.u64 %p, [c]; mad.wide.u32 %p, %t, {4 * out}, %p;")
    body += [f"ld.global.b32 %d{i}, [%p+{4 * i}];" for i in range(out)]
    body.append("fence.proxy.async; bar.sync 0; wgmma.fence.sync.aligned; setp.eq.u32 %q, %s, %s;")
    text = instruction.replace("D#", _vector("d", out)).replace("A#", _vector("a", a) if a else "%x")
    body.append(text.replace("B#", "%y").replace("P#", "%q").replace("E#", "%w0"))
    body.append("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;")
    body.append(f"ld.param.u64 %p, [d]; mad.wide.u32 %p, %t, {4 * out}, %p;")
    body += [f"st.global.b32 [%p+{4 * i}], %d{i};" for i in range(out)]
    joined = "\n".join(body)
    parameters = ", ".join(f".param .u64 {name}" for name in ("imaced" if sparse else "imacd"))
    return (
        f"{_header(version)}.visible .entry k({parameters})\n{{\n.shared .align 1024 .b8 image[{IMAGE}];\n"
        f".reg .pred %q; .reg .b32 %t, %n, %s, %u; .reg .b32 %w<4>; .reg .b64 %p, %x, %y, %z;\n"
        f".reg .b32 %a<8>; .reg .b32 %d<{out}>;\n{joined}\nret;\n}}\n"
    )


def _seeded(name: str, seed: int) -> np.random.Generator:
    return np.random.default_rng([zlib.crc32(name.encode()), seed])


def _registers(count: int, t: str) -> int:
    return max(1, count * WIDTH[t] // 32)


def warp_case(shape: tuple[int, int, int], types: tuple[str, str, str], repeats: int, seed: int) -> Case:
    """Return a case of mma.sync with floating-point numbers."""
    (m, n, k), (td, ta, tb) = shape, types
    name = f"mma m{m}n{n}k{k} {td} {ta} {tb}"
    rng, wide = _seeded(name, seed), ta == "f64"
    mixes = tuple(mix for mix in MIXES for _ in range(repeats))
    drawn = [trial(rng, mix, (ta, tb, td), (m, n, k)) for mix in mixes]
    indices = (index_a(m, k, ta), index_b(n, k, tb), index_c(m, n))
    inputs = tuple(np.stack([packed(one[i][indices[i]], t) for one in drawn]) for i, t in enumerate((ta, tb, td)))
    counts = [one.shape[2] // (2 if wide else 1) for one in inputs]
    instruction = f"mma.sync.aligned.m{m}n{n}k{k}.row.col.{td}.{ta}.{tb}.{td} D#, A#, B#, C#;"
    ptx = warp_kernel(instruction, counts, counts[2], wide=wide)
    return Case(name, ptx, LANES, inputs, (inputs[2].shape, "u4"), mixes=mixes)


def exact_case(
    shape: tuple[int, int, int],
    types: tuple[str, str, str],
    words: str = "",
    *,
    seed: int,
    selector: int | None = None,
) -> Case:
    """Return a case of mma.sync, dense or (with a selector) sparse, with small integers."""
    (m, n, k), (td, ta, tb) = shape, types
    name = f"mma m{m}n{n}k{k} {td} {ta} {tb} {words} {'dense' if selector is None else f'sparse {selector}'}"
    rng, trials = _seeded(name, seed), 3
    depth = k if selector is None else k // 2
    indices = (index_a(m, depth, ta), index_b(n, k, tb), index_c(m, n))
    sizes = ((m, depth), (k, n), (m, n))
    inputs = [
        np.stack([packed(small_integers(rng, t, sizes[i])[indices[i]], t) for _ in range(trials)])
        for i, t in enumerate((ta, tb, td))
    ]
    counts = [one.shape[2] for one in inputs]
    before = f"{words} " if words else ""
    sparse = "" if selector is None else ".sp::ordered_metadata"
    more = "" if selector is None else f", E#, {selector}"
    modifiers = f".{words}" if words and "popc" not in words else ""
    bits = f".{words}" if "popc" in before else ""
    instruction = (
        f"mma{sparse}.sync.aligned.m{m}n{n}k{k}.row.col{modifiers}.{td}.{ta}.{tb}.{td}{bits} D#, A#, B#, C#{more};"
    )
    if selector is not None:
        inputs.append(_metadata(rng, ta, trials))
        counts.append(1)
    ptx = warp_kernel(instruction, counts, counts[2], version="8.5")
    return Case(name, ptx, LANES, tuple(inputs), (inputs[2].shape, "u4"), exact=True)


def _metadata(rng: np.random.Generator, t: str, trials: int) -> Words:
    """Return random metadata of all lanes, (trials, 32, 1): each nibble places two elements of a chunk, in order."""
    valid = [0b0100, 0b1110] if WIDTH[t] == 32 else [0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110]  # noqa: PLR2004
    nibbles = np.array(valid, np.uint32)[rng.integers(0, len(valid), (trials, LANES, 8))]
    return np.asarray(np.bitwise_or.reduce(nibbles << (4 * np.arange(8)).astype(np.uint32), axis=2), np.uint32)[
        ..., None
    ]


def descriptor(start: int, leading: int, stride: int, mode: int, base: int = 0) -> int:
    """Return the bits of a matrix descriptor; bytes, and the swizzle mode."""
    return start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | base << 49 | mode << 62


def group_case(td: str, ta: str, tb: str, repeats: int, seed: int) -> Case:
    """Return a case of wgmma with floating-point numbers: both operands without swizzling, rows along k."""
    n, k = 8, 256 // WIDTH[ta]
    name = f"wgmma m64n{n}k{k} {td} {ta} {tb}"
    rng = _seeded(name, seed)
    mixes = tuple(mix for mix in MIXES for _ in range(repeats))
    images, sums = [], []
    rows, columns = index_c(16, n)
    for mix in mixes:
        a, b, c = trial(rng, mix, (ta, tb, td), (64, n, k))
        image = np.zeros(IMAGE, np.uint8)
        for matrix, start in ((a, 0), (np.ascontiguousarray(b.T), 8192)):
            pieces = (
                np.ascontiguousarray(matrix).view(np.uint8).reshape(len(matrix) // 8, 8, 2, 16).transpose(0, 2, 1, 3)
            )
            image[start : start + pieces.size] = pieces.reshape(-1)
        images.append(image)
        sums.append(np.concatenate([packed(c[16 * warp + rows, columns], td) for warp in range(4)]))
    words = np.array([[descriptor(0, 128, 256, 0), descriptor(8192, 128, 256, 0)]] * len(mixes), np.uint64)
    initial = np.stack(sums)
    transposed = ", 0, 0" if WIDTH[ta] == 16 else ""  # noqa: PLR2004
    instruction = f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.{td}.{ta}.{tb} D#, A#, B#, P#, 1, 1{transposed};"
    inputs = (np.stack(images), words, np.zeros((len(mixes), 1), np.uint32), initial)
    return Case(name, group_kernel(instruction, 0, initial.shape[2]), 128, inputs, (initial.shape, "u4"), mixes=mixes)


def layout_case(
    td: str,
    ta: str,
    *,
    seed: int,
    turned: tuple[int, int] = (0, 0),
    wild: bool = False,
    registers: bool = False,
    selector: int | None = None,
) -> Case:
    """Return a case of wgmma, dense or (with a selector) sparse.

    Integers lie all over shared memory, and descriptors are drawn at random.

    Args:
        td: Type of the sums.
        ta: Type of A and B.
        turned: Whether A and B are contiguous along m and n.
        wild: Matrices begin at any piece, with any base offset; otherwise where patterns may begin.
        registers: A is in registers.
        selector: Which lanes give the metadata of a sparse A.
        seed: Of the inputs.
    """
    sparse = selector is not None
    n, k, trials = 16, (512 if sparse else 256) // WIDTH[ta], 16
    name = f"wgmma layout {td} {ta} {turned} {'wild' if wild else 'tame'}{' registers' if registers else ''}"
    name += f" sparse {selector}" if sparse else ""
    rng = _seeded(name, seed)
    images = np.stack(
        [np.ascontiguousarray(small_integers(rng, ta, (IMAGE * 8 // WIDTH[ta],))).view(np.uint8) for _ in range(trials)]
    )
    if ta == "b1":
        images = rng.integers(0, 256, (trials, IMAGE)).astype(np.uint8)
    words = np.zeros((trials, 2), np.uint64)
    for trial in range(trials):
        for which in range(2):
            mode = trial % 4 if which == 0 else int(rng.integers(0, 4))
            row = {0: 16, 1: 128, 2: 64, 3: 32}[mode]
            start = (
                16 * int(rng.integers(0, 256))
                if wild
                else 1024 * int(rng.integers(0, 4)) + 32 * int(rng.integers(0, max(1, row // 32)))
            )
            step = 16 if wild else 8 * row
            leading, stride = (step * int(rng.integers(1, max(2, 1008 // step + 1))) for _ in range(2))
            words[trial, which] = descriptor(start, leading, stride, mode, int(rng.integers(0, 8)) if wild else 0)
    sums = small_integers(rng, td, (trials, 128, n // 2 * WIDTH[td] // 32 * (32 // WIDTH[td])))
    sums = np.ascontiguousarray(sums).view(np.uint32)
    fragments = np.ascontiguousarray(small_integers(rng, ta, (trials, 128, 128 // WIDTH[ta]))).view(np.uint32)
    transposed = (f", {turned[1]}" if registers else f", {turned[0]}, {turned[1]}") if WIDTH[ta] == 16 else ""  # noqa: PLR2004
    scales = "" if td == "s32" else f", 1, -1{transposed}"
    bits = ".and.popc" if ta == "b1" else ""
    form, placed = (".sp", f" E#, {selector},") if sparse else ("", "")
    instruction = f"wgmma.mma_async{form}.sync.aligned.m64n{n}k{k}.{td}.{ta}.{ta}{bits} D#, A#, B#,{placed} P#{scales};"
    held = fragments if registers else np.zeros((trials, 1), np.uint32)
    inputs: list[NDArray[Any]] = [images, words, held, sums]
    inputs += [_metadata(rng, ta, 4 * trials).reshape(trials, 128, 1)] if sparse else []
    ptx = group_kernel(instruction, fragments.shape[2] if registers else 0, sums.shape[2], sparse=sparse)
    return Case(name, ptx, 128, tuple(inputs), (sums.shape, "u4"), exact=True)


def volta_case(td: str, tc: str, by_row: tuple[bool, bool], seed: int) -> Case:
    """Return a case of m8n8k4 with f16 and small integers: four products, each of two quads."""
    name = f"mma m8n8k4 {td} f16 f16 {tc} {by_row}"
    rng, trials = _seeded(name, seed), 3
    lane = np.arange(LANES)[:, None]
    quad, upper, low = lane % 16 // 4, lane // 16, lane % 4
    i, j = np.arange(4)[None, :], np.arange(8)[None, :]
    row_a, column_a = (low + 4 * upper, i) if by_row[0] else (i + 4 * upper, low)
    row_b, column_b = (low, i + 4 * upper) if by_row[1] else (i, low + 4 * upper)
    halves = low + 4 * upper, j
    singles = (low & 1) + (j & 2) + 4 * upper, (j & 4) + (low & 2) + (j & 1)
    row_c, column_c = halves if tc == "f16" else singles
    inputs = []
    for t, size, rows, columns in (
        ("f16", (8, 4), row_a, column_a),
        ("f16", (4, 8), row_b, column_b),
        (tc, (8, 8), row_c, column_c),
    ):
        drawn = [small_integers(rng, t, (4, *size))[quad, rows, columns] for _ in range(trials)]
        inputs.append(np.stack([packed(one, t) for one in drawn]))
    counts = [one.shape[2] for one in inputs]
    out = 4 if td == "f16" else 8
    words = ".".join("row" if one else "col" for one in by_row)
    instruction = f"mma.sync.aligned.m8n8k4.{words}.{td}.f16.f16.{tc} D#, A#, B#, C#;"
    ptx = warp_kernel(instruction, counts, out)
    return Case(name, ptx, LANES, tuple(inputs), ((trials, LANES, out), "u4"), exact=True)


SPARSE_GROUPS = (
    ("f32", "f16", 2, ((0, 0), (0, 1), (1, 0))), ("f16", "f16", 2, ((0, 0),)), ("f32", "bf16", 2, ((0, 0),)),
    ("f32", "tf32", 2, ((0, 0),)), ("f32", "e4m3", 1, ((0, 0),)), ("f16", "e5m2", 1, ((0, 0),)),
    ("s32", "s8", 1, ((0, 0),)), ("s32", "u8", 1, ((0, 0),)),
)  # fmt: skip
"""Types of sums and of a sparse A and B of wgmma, values of the selector, and what is contiguous along m and n."""


def cases(seed: int = 0) -> list[Case]:
    """Return all of them, with inputs by a seed."""
    k4, k8, k16, k32, k64 = (16, 8, 4), (16, 8, 8), (16, 8, 16), (16, 8, 32), (16, 8, 64)
    all_cases = [
        warp_case(k16, ("f32", "f16", "f16"), 3, seed),
        warp_case(k16, ("f16", "f16", "f16"), 3, seed),
        warp_case(k8, ("f32", "f16", "f16"), 2, seed),
        warp_case(k8, ("f16", "f16", "f16"), 1, seed),
        warp_case(k16, ("f32", "bf16", "bf16"), 3, seed),
        warp_case(k8, ("f32", "bf16", "bf16"), 1, seed),
        warp_case(k8, ("f32", "tf32", "tf32"), 3, seed),
        warp_case(k4, ("f32", "tf32", "tf32"), 1, seed),
        warp_case(k32, ("f32", "e4m3", "e4m3"), 3, seed),
        warp_case(k32, ("f32", "e5m2", "e4m3"), 2, seed),
        warp_case(k16, ("f64", "f64", "f64"), 1, seed),
        warp_case((8, 8, 4), ("f64", "f64", "f64"), 1, seed),
        warp_case(k8, ("f64", "f64", "f64"), 1, seed),
        warp_case(k4, ("f64", "f64", "f64"), 1, seed),
        group_case("f32", "f16", "f16", 1, seed),
        group_case("f16", "f16", "f16", 1, seed),
        group_case("f32", "bf16", "bf16", 1, seed),
        group_case("f32", "tf32", "tf32", 1, seed),
        group_case("f32", "e4m3", "e4m3", 1, seed),
        group_case("f32", "e5m2", "e5m2", 1, seed),
        group_case("f16", "e4m3", "e5m2", 1, seed),
    ]
    integers = [
        (((8, 8, 16), k16, k32), "s8", "u8", "satfinite"),
        (((8, 8, 32), k32, k64), "s4", "u4", ""),
        (((8, 8, 128), (16, 8, 128), (16, 8, 256)), "b1", "b1", "and.popc"),
        (((8, 8, 128), (16, 8, 128), (16, 8, 256)), "b1", "b1", "xor.popc"),
    ]
    for shapes, ta, tb, words in integers:
        all_cases += [exact_case(shape, ("s32", ta, tb), words, seed=seed) for shape in shapes]
    sparse = [
        ("f32", "f16", k16, 4), ("f32", "bf16", k32, 2), ("f32", "tf32", k8, 4), ("f32", "tf32", k16, 2),
        ("s32", "s8", k32, 2), ("s32", "u8", k64, 1), ("f32", "e4m3", k64, 1),
        ("s32", "s4", k64, 2), ("s32", "u4", (16, 8, 128), 1),
    ]  # fmt: skip
    for td, ta, shape, selectors in sparse:
        all_cases += [exact_case(shape, (td, ta, ta), selector=one, seed=seed) for one in range(selectors)]
    all_cases += [
        volta_case(td, tc, by_row, seed)
        for td, tc in (("f16", "f16"), ("f32", "f16"), ("f32", "f32"))
        for by_row in ((True, False), (False, True), (True, True), (False, False))
    ]
    for turned in ((0, 0), (0, 1), (1, 0), (1, 1)):
        all_cases += [layout_case("f32", "f16", seed=seed, turned=turned, wild=wild) for wild in (False, True)]
    all_cases += [
        layout_case("f16", "f16", seed=seed),
        layout_case("f32", "bf16", seed=seed, turned=(0, 1), registers=True),
        layout_case("f32", "tf32", seed=seed),
        layout_case("f32", "tf32", seed=seed, registers=True),
        layout_case("f32", "e4m3", seed=seed),
        layout_case("f32", "e5m2", seed=seed, registers=True),
        layout_case("s32", "s8", seed=seed),
        layout_case("s32", "u8", seed=seed, registers=True),
        layout_case("s32", "b1", seed=seed),
    ]
    all_cases += [
        layout_case(td, ta, seed=seed, turned=turned, registers=registers, selector=selector)
        for td, ta, selectors, turns in SPARSE_GROUPS
        for selector in range(selectors)
        for turned in turns
        for registers in ((False, True) if not turned[0] else (False,))
    ]
    return all_cases
