"""Video instructions, against the PTX ISA's pseudocode on Python integers."""

import random

import numpy as np
import pytest
from small_ptx import execute

from lab.emulator.errors import UnsupportedInstruction

RNG = random.Random(3)  # noqa: S311  no secret
EDGES = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x80FF7F01]
A, B, C = (np.array([*EDGES, *(RNG.getrandbits(32) for _ in range(20))], np.uint32) for _ in range(3))
B, C = np.roll(B, 5), np.roll(C, 11)


def run(opcode, *operands):
    texts = ", ".join(operands)
    _, out = execute(f"mov.b32 %o0, %i2; {opcode} {texts};", A, B, C, check=False)
    return out.tolist()


def cut(word, bits, place, t):
    value = word >> (bits * place) & (2**bits - 1)
    return value - 2**bits if t == "s32" and value >> (bits - 1) else value


def clamp(value, bits, t):
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if t == "s32" else (0, 2**bits - 1)
    return max(least, min(most, value))


OPERATIONS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "absdiff": lambda a, b: abs(a - b),
    "min": min,
    "max": max,
    "avrg": lambda a, b: (a + b + 1) // 2 if a + b >= 0 else (a + b) // 2,
}
WORDS = list(zip(A.tolist(), B.tolist(), C.tolist(), strict=True))


@pytest.mark.parametrize("name", ["add", "sub", "absdiff", "min", "max"])
@pytest.mark.parametrize(("to", "of", "by"), [("u32", "u32", "s32"), ("s32", "s32", "u32"), ("s32", "s32", "s32")])
def test_words_and_their_parts(name, to, of, by):
    apply = OPERATIONS[name]
    results = run(f"v{name}.{to}.{of}.{by}.sat", "%o0", "%i0.h1", "%i1.b2")
    assert results == [clamp(apply(cut(a, 16, 1, of), cut(b, 8, 2, by)), 32, to) % 2**32 for a, b, _ in WORDS]
    results = run(f"v{name}.{to}.{of}.{by}", "%o0", "%i0", "%i1")
    assert results == [apply(cut(a, 32, 0, of), cut(b, 32, 0, by)) % 2**32 for a, b, _ in WORDS]


def test_a_second_operation_and_a_merge():
    results = run("vadd.s32.s32.s32.min", "%o0", "%i0.b0", "%i1.b3", "%i2")
    sums = [(cut(a, 8, 0, "s32") + cut(b, 8, 3, "s32"), c) for a, b, c in WORDS]
    assert results == [min(x, cut(c, 32, 0, "s32")) % 2**32 for x, c in sums]
    results = run("vsub.u32.u32.u32.sat", "%o0.b1", "%i0", "%i1", "%i2")
    assert results == [c & 0xFFFF00FF | clamp(a - b, 8, "u32") << 8 for a, b, c in WORDS]
    results = run("vmax.s32.s32.s32", "%o0.h1", "%i0", "%i1", "%i2")
    larger = [(max(cut(a, 32, 0, "s32"), cut(b, 32, 0, "s32")), c) for a, b, c in WORDS]
    assert results == [c & 0xFFFF | (x & 0xFFFF) << 16 for x, c in larger]


def test_shifts():
    results = run("vshl.u32.u32.u32.clamp", "%o0", "%i0", "%i1.b0")
    assert results == [(a << min(b & 255, 32)) % 2**32 for a, b, _ in WORDS]
    results = run("vshr.s32.s32.u32.wrap.add", "%o0", "%i0", "%i1", "%i2")
    assert results == [((cut(a, 32, 0, "s32") >> (b & 31)) + c) % 2**32 for a, b, c in WORDS]


def test_comparisons():
    results = run("vset.s32.u32.lt", "%o0", "%i0", "%i1")
    assert results == [int(cut(a, 32, 0, "s32") < b) for a, b, _ in WORDS]
    results = run("vset.u32.u32.ge.add", "%o0", "%i0.h0", "%i1.h1", "%i2")
    assert results == [((cut(a, 16, 0, "u32") >= b >> 16) + c) % 2**32 for a, b, c in WORDS]


@pytest.mark.parametrize("scale", [0, 7, 15])
@pytest.mark.parametrize("sign", ["", "-"])
def test_products(scale, sign):
    shift = f".shr{scale}" if scale else ""
    results = run(f"vmad.s32.s32.u32.sat{shift}", "%o0", "%i0.h0", f"{sign}%i1", "%i2")
    factor = -1 if sign else 1
    wanted = [factor * cut(a, 16, 0, "s32") * b + cut(c, 32, 0, "s32") >> scale for a, b, c in WORDS]
    assert results == [clamp(x, 32, "s32") % 2**32 for x in wanted]
    results = run(f"vmad.u32.u32.u32.po{shift}", "%o0", "%i0", "%i1", "%i2")
    assert results == [(a * b + c + 1 >> scale) % 2**32 for a, b, c in WORDS]


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("count", [2, 4])
def test_packed_elements(name, count):
    bits, apply = 32 // count, OPERATIONS[name]

    def elements(a, b, of, by):
        return [apply(cut(a, bits, i, of), cut(b, bits, i, by)) for i in range(count)]

    results = run(f"v{name}{count}.s32.s32.u32.sat", "%o0", "%i0", "%i1", "%i2")
    for got, (a, b, _) in zip(results, WORDS, strict=True):
        wanted = [clamp(x, bits, "s32") % 2**bits for x in elements(a, b, "s32", "u32")]
        assert got == sum(x << (bits * i) for i, x in enumerate(wanted))
    results = run(f"v{name}{count}.s32.s32.s32.add", "%o0", "%i0", "%i1", "%i2")
    assert results == [(sum(elements(a, b, "s32", "s32")) + c) % 2**32 for a, b, c in WORDS]


def test_packed_elements_are_chosen_and_masked():
    results = run("vmin2.u32.u32.u32", "%o0.h1", "%i0.h32", "%i1.h01", "%i2")
    # the upper halves: element 3 is the upper half of b, element 0 the lower half of a
    assert results == [c & 0xFFFF | min(b >> 16, a & 0xFFFF) << 16 for a, b, c in WORDS]
    results = run("vset4.u32.u32.ne.add", "%o0.b20", "%i0", "%i1", "%i2")
    assert results == [(c + (a & 255 != b & 255) + (a >> 16 & 255 != b >> 16 & 255)) % 2**32 for a, b, c in WORDS]
    results = run("vadd4.u32.u32.u32", "%o0", "%i0.b0000", "%i1.b7531", "%i2")
    for got, (a, b, _) in zip(results, WORDS, strict=True):
        chosen = [cut(a, 8, 1, "u32"), cut(a, 8, 3, "u32"), cut(b, 8, 1, "u32"), cut(b, 8, 3, "u32")]
        assert got == sum(((a & 255) + x) % 256 << (8 * i) for i, x in enumerate(chosen))


@pytest.mark.parametrize(
    ("opcode", "operands"),
    [
        ("vadd.u32.u32.u32", ["%o0", "%i0"]),
        ("vadd.u32.u32.u32", ["%o0", "%i0.b4", "%i1"]),
        ("vadd.u32.u32.u32", ["%o0.b0", "%i0", "%i1"]),
        ("vadd.u32.u32.u32", ["%o0", "%i0", "%i1", "%i2"]),
        ("vadd2.u32.u32.u32", ["%o0.b0", "%i0", "%i1", "%i2"]),
        ("vadd2.u32.u32.u32", ["%o0.h01", "%i0", "%i1", "%i2"]),
        ("vadd2.u32.u32.u32", ["%o0", "%i0.h04", "%i1", "%i2"]),
        ("vadd2.u32.u32.u32", ["%o0", "%i0.h011", "%i1", "%i2"]),
        ("vadd2.u32.u32.u32", ["%o0.h2", "%i0", "%i1", "%i2"]),
        ("vadd4.u32.u32.u32", ["%o0", "%i0", "%i1.b8000", "%i2"]),
        ("vadd4.u32.u32.u32", ["%o0", "%i0", "%i1"]),
        ("vmad.u32.u32.u32", ["%o0", "%i0", "%i1"]),
        ("vmad.u32.u32.u32", ["%o0.b0", "%i0", "%i1", "%i2"]),
        ("vmad.u32.u32.u32", ["%o0", "%i0", "%i1", "%i2.b0"]),
        ("vmad.u32.u32.u32.po", ["%o0", "%i0", "%i1", "-%i2"]),
        ("vadd4.u32.u32.u32.sat.add", ["%o0", "%i0", "%i1", "%i2"]),
        ("vmad.u32.u32.u32.po", ["%o0", "-%i0", "%i1", "%i2"]),
    ],
)
def test_forms_that_there_are_not(opcode, operands):
    with pytest.raises(UnsupportedInstruction, match="PTX line"):
        run(opcode, *operands)
