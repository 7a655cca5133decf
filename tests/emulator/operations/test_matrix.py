"""mma.sync against NumPy's product of the matrices that its fragments hold."""

import numpy as np
import pytest
from small_ptx import kernel

from lab.emulator.api import launch
from lab.emulator.errors import UnsupportedInstruction

LANE = np.arange(32)
GROUP, WITHIN = LANE // 4, LANE % 4


def fragments(registers, *arrays):
    """Load (32, registers) fragments of 32-bit words as %a.., %b.. and store %d0 to %d3."""
    lines, declarations = (
        ["mov.u32 %r0, %tid.x;"],
        ".reg .b32 %a<8>; .reg .b32 %b<8>; .reg .b32 %c<8>; .reg .b32 %d<8>;",
    )
    for name, array in zip("abc", arrays, strict=True):
        lines.append(f"ld.param.u64 %rd0, [{name}]; mad.wide.u32 %rd0, %r0, {4 * array.shape[1]}, %rd0;")
        lines += [f"ld.global.b32 %{name}{i}, [%rd0+{4 * i}];" for i in range(array.shape[1])]
    lines.append("BODY ld.param.u64 %rd0, [d]; mad.wide.u32 %rd0, %r0, 16, %rd0;")
    lines += [f"st.global.b32 [%rd0+{4 * i}], %d{i};" for i in range(registers)]
    return kernel("\n".join(lines), ["a", "b", "c", "d"], declarations)


def test_tf32_mma():
    random = np.random.default_rng(1)
    a, b = random.integers(-8, 8, (16, 8)), random.integers(-8, 8, (8, 8))
    c = random.integers(-8, 8, (16, 8)).astype(np.float32)
    fragment_a = np.stack([a[GROUP, WITHIN], a[GROUP + 8, WITHIN], a[GROUP, WITHIN + 4], a[GROUP + 8, WITHIN + 4]], 1)
    fragment_b = np.stack([b[WITHIN, GROUP], b[WITHIN + 4, GROUP]], 1)
    places = [(GROUP + 8 * (i // 2), 2 * WITHIN + i % 2) for i in range(4)]
    fragment_c = np.stack([c[place] for place in places], 1)
    words = [np.ascontiguousarray(x, np.float32) for x in (fragment_a, fragment_b, fragment_c)]
    words[0].view(np.uint32)[:] |= 0xFFF  # bits that tf32 does not have are ignored
    out = np.zeros((32, 4), np.float32)
    mma = (
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%d0, %d1, %d2, %d3}, {%a0, %a1, %a2, %a3}, {%b0, %b1}, {%c0, %c1, %c2, %c3};"
    )
    emulation = launch(fragments(4, *words).replace("BODY", mma), "k", 1, 32, [*words, out])
    assert emulation.clean
    expected = a @ b + c
    np.testing.assert_array_equal(out, np.stack([expected[place] for place in places], 1))


def test_a_sum_of_doubles_may_say_that_it_rounds_to_nearest():
    a, b = np.arange(32.0).reshape(8, 4), np.arange(32.0)[::-1].reshape(4, 8)
    fragment_a, fragment_b = (np.ascontiguousarray(x) for x in (a[GROUP, WITHIN], b[WITHIN, GROUP]))
    out = np.zeros((32, 2))
    body = """mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [a]; mad.wide.u32 %rd0, %r0, 8, %rd0; ld.global.f64 %fd0, [%rd0];
        ld.param.u64 %rd0, [b]; mad.wide.u32 %rd0, %r0, 8, %rd0; ld.global.f64 %fd1, [%rd0];
        mov.f64 %fd2, 0d0000000000000000; mov.f64 %fd3, %fd2;
        mma.sync.aligned.m8n8k4.row.col.rn.f64.f64.f64.f64 {%fd2, %fd3}, {%fd0}, {%fd1}, {%fd2, %fd3};
        ld.param.u64 %rd0, [d]; mad.wide.u32 %rd0, %r0, 16, %rd0; st.global.v2.f64 [%rd0], {%fd2, %fd3};"""
    assert launch(kernel(body, ["a", "b", "d"], ""), "k", 1, 32, [fragment_a, fragment_b, out]).clean
    expected = a @ b
    np.testing.assert_array_equal(out, np.stack([expected[GROUP, 2 * WITHIN + i] for i in range(2)], 1))


def test_integer_mma():
    random = np.random.default_rng(2)
    a = random.integers(-128, 128, (16, 16)).astype(np.int8)
    b = random.integers(0, 256, (16, 8)).astype(np.uint8)
    columns = WITHIN[:, None] * 4 + np.arange(4)
    fragment_a = (
        np.stack([a[GROUP[:, None], columns], a[GROUP[:, None] + 8, columns]], 1).reshape(32, 8).view(np.uint32)
    )
    fragment_b = np.ascontiguousarray(b[columns, GROUP[:, None]]).view(np.uint32)
    zero, out = np.zeros((32, 4), np.uint32), np.zeros((32, 4), np.int32)
    mma = (
        "mma.sync.aligned.m16n8k16.row.col.s32.s8.u8.s32 {%d0, %d1, %d2, %d3}, {%a0, %a1}, {%b0}, {%c0, %c1, %c2, %c3};"
    )
    words = [np.ascontiguousarray(fragment_a), fragment_b, zero]
    launch(fragments(4, *words).replace("BODY", mma), "k", 1, 32, [*words, out])
    expected = a.astype(int) @ b.astype(int)
    places = [(GROUP + 8 * (i // 2), 2 * WITHIN + i % 2) for i in range(4)]
    np.testing.assert_array_equal(out, np.stack([expected[place] for place in places], 1))


@pytest.mark.parametrize(
    "instruction",
    [
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32",
        "mma.sync.aligned.m8n8k4.row.col.f32.tf32.tf32.f32",
        "mma.sync.aligned.row.col.f32.tf32.tf32.f32",
        "mma.sync.aligned.m16n8k8.col.col.f32.tf32.tf32.f32",
    ],
)
def test_shapes_and_layouts_that_do_not_exist(instruction):
    if "f16" in instruction:
        instruction = instruction.replace("m16n8k8", "m8n8k4")
    body = instruction + " {%r0, %r1, %r2, %r3}, {%r0, %r1}, {%r2}, {%r0, %r1, %r2, %r3};"
    with pytest.raises(UnsupportedInstruction):
        launch(kernel(body), "k", 1, 32, [])


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f32 {A2}, {A4}, {A2}, {A4};", "types"),
        ("mma.sync.aligned.m16n8k16.row.col.satfinite.f32.f16.f16.f32 {A4}, {A4}, {A2}, {A4};", "satfinite"),
        ("mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32 {A4}, {A2}, {A1}, {A4};", "bit operation"),
        ("mma.sync.aligned.m16n8k16.row.col.rn.f32.f16.f16.f32 {A4}, {A4}, {A2}, {A4};", r"\.rn on \.f32"),
        ("mma.sync.aligned.m8n8k4.row.col.rz.f64.f64.f64.f64 {A2}, {A1}, {A1}, {A2};", r"\.rz"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {A4}, {A2}, {A2}, {A4};", "2 registers"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32 {A4}, {A4}, {A2}, {A4};", "types"),
        ("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {A4}, {A2}, {A2}, {A4}, %r0, 4;", "selector 4 of 4"),
        ("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {A4}, {A2}, {A2}, {A4};", "4 operands"),
    ],
)
def test_what_does_not_exist_is_refused_with_its_reason(instruction, why):
    for count in (1, 2, 4):
        instruction = instruction.replace(f"{{A{count}}}", "{" + ", ".join(f"%r{i}" for i in range(count)) + "}")
    with pytest.raises(UnsupportedInstruction, match=why):
        launch(kernel(instruction), "k", 1, 32, [])


# --- every shape and type, by the cases that a card runs, too ----------------------------------------------------


@pytest.fixture(scope="module")
def tensor(benchmark_script):
    return benchmark_script("tensor_cases")


def numbers(words, t, count):
    """The elements of (trials, 32, registers) words as numbers, (trials, 32, count)."""
    bits = {"b1": 1, "s4": 4, "u4": 4}.get(t)
    if bits:
        found = words[..., None] >> (np.arange(32 // bits) * bits).astype(np.uint32) & (2**bits - 1)
        found = found.reshape(*words.shape[:2], -1).astype(int)
        return np.where(found > 7, found - 16, found) if t == "s4" else found
    if t in ("e4m3", "e5m2"):
        code, fraction = words.view(np.uint8).astype(int), 3 if t == "e4m3" else 2
        bias = 7 if t == "e4m3" else 15
        exponent, rest = code >> fraction & (31 if t == "e5m2" else 15), code & (2**fraction - 1)
        size = np.where(exponent > 0, (1 + rest / 2**fraction) * 2.0 ** (exponent - bias), 0.0)
        return np.where(code > 127, -size, size)
    if t == "bf16":
        return (words.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(float)
    kinds = {"f16": np.float16, "s8": np.int8, "u8": np.uint8, "s32": np.int32}
    return words.view(kinds.get(t, np.float32)).astype(float).reshape(*words.shape[:2], count)


def executed(case):
    out = np.zeros(*case.output)
    emulation = launch(case.ptx, "k", len(out), case.threads, [*case.inputs, out])
    assert emulation.clean, emulation.findings
    return out


def filled(held, index, size):
    """Matrices, (trials, *size), of fragments."""
    found = np.zeros((len(held), *size))
    found[:, index[0], index[1]] = held
    return found


DENSE = [
    (shape, "s32", ta, tb, words)
    for shapes, ta, tb, words in (
        (((8, 8, 16), (16, 8, 16), (16, 8, 32)), "s8", "u8", "satfinite"),
        (((8, 8, 32), (16, 8, 32), (16, 8, 64)), "s4", "u4", ""),
        (((8, 8, 128), (16, 8, 128), (16, 8, 256)), "b1", "b1", "and.popc"),
        (((16, 8, 128), (16, 8, 256)), "b1", "b1", "xor.popc"),
    )
    for shape in shapes
] + [
    ((16, 8, 8), "f32", "f16", "f16", ""),
    ((16, 8, 16), "f16", "f16", "f16", ""),
    ((16, 8, 16), "f32", "bf16", "bf16", ""),
    ((16, 8, 4), "f32", "tf32", "tf32", ""),
    ((16, 8, 32), "f32", "e4m3", "e5m2", ""),
]


@pytest.mark.parametrize(("shape", "td", "ta", "tb", "words"), DENSE)
def test_every_shape(tensor, shape, td, ta, tb, words):
    case = tensor.exact_case(shape, (td, ta, tb), words, seed=7)
    m, n, k = shape
    indices = tensor.index_a(m, k, ta), tensor.index_b(n, k, tb), tensor.index_c(m, n)
    a, b, c = (
        filled(numbers(raw, t, index[0].shape[1]), index, size)
        for raw, t, index, size in zip(case.inputs, (ta, tb, td), indices, ((m, k), (k, n), (m, n)), strict=True)
    )
    expected = (a[:, :, :, None] != b[:, None]).sum(axis=2) + c if "xor" in words else a @ b + c
    np.testing.assert_array_equal(filled(numbers(executed(case), td, m * n // 32), indices[2], (m, n)), expected)


def test_integers_are_clamped_only_where_asked():
    zero, out = np.zeros((32, 4), np.uint32), np.zeros((32, 4), np.int32)
    ones, most = np.full((32, 4), 0x01010101, np.uint32), np.full((32, 4), 2**31 - 1, np.uint32)
    for word, expected in (("", 2**31 - 1 + 16 - 2**32), (".satfinite", 2**31 - 1)):
        mma = (
            f"mma.sync.aligned.m16n8k16.row.col{word}.s32.s8.s8.s32 "
            "{%d0, %d1, %d2, %d3}, {%a0, %a1}, {%b0}, {%c0, %c1, %c2, %c3};"
        )
        launch(fragments(4, ones, ones, most).replace("BODY", mma), "k", 1, 32, [ones, ones, most, out])
        assert (out == expected).all()
    assert not zero.any()


SPARSE = [
    ("f32", "f16", (16, 8, 16), 3), ("f32", "bf16", (16, 8, 32), 1), ("f32", "tf32", (16, 8, 8), 2),
    ("f32", "tf32", (16, 8, 16), 1), ("s32", "s8", (16, 8, 32), 1), ("s32", "u8", (16, 8, 64), 0),
    ("f32", "e4m3", (16, 8, 64), 0), ("s32", "s4", (16, 8, 64), 1), ("s32", "u4", (16, 8, 128), 0),
]  # fmt: skip


@pytest.mark.parametrize(("td", "ta", "shape", "selector"), SPARSE)
def test_sparse_products(tensor, td, ta, shape, selector):
    case = tensor.exact_case(shape, (td, ta, ta), seed=7, selector=selector)
    m, n, k = shape
    indices = tensor.index_a(m, k // 2, ta), tensor.index_b(n, k, ta), tensor.index_c(m, n)
    stored, b, c = (
        filled(numbers(raw, t, index[0].shape[1]), index, size)
        for raw, t, index, size in zip(case.inputs, (ta, ta, td), indices, ((m, k // 2), (k, n), (m, n)), strict=False)
    )
    wide = tensor.WIDTH[ta] > 8
    chunk, pair = {32: (2, 1), 4: (8, 2)}.get(tensor.WIDTH[ta], (4, 1))
    givers = k // chunk // 4
    a = np.zeros((len(stored), m, k))
    for trial in range(len(stored)):
        for row in range(m):
            for number in range(k // chunk):
                if wide:  # 16 bits of a lane for each row: four chunks
                    lane, shift = number // 4, number % 4 * 4 + row // 8 * 16
                else:  # a lane for eight chunks of a row
                    lane, shift = number // 8 * 2 + row // 8, number % 8 * 4
                word = int(case.inputs[3][trial, row % 8 * 4 + selector * givers + lane, 0])
                nibble = word >> shift & 15
                held = chunk // 2 // pair
                spots = [nibble >> 3] if chunk == 2 else [nibble & 3, nibble >> 2]
                for i in range(held):
                    for j in range(pair):
                        at = number * chunk // 2 + i * pair + j
                        a[trial, row, number * chunk + spots[i] * pair + j] = stored[trial, row, at]
    np.testing.assert_array_equal(filled(numbers(executed(case), td, m * n // 32), indices[2], (m, n)), a @ b + c)


@pytest.mark.parametrize("by_row", [(True, False), (False, True), (True, True), (False, False)])
@pytest.mark.parametrize(("td", "tc"), [("f16", "f16"), ("f32", "f16"), ("f32", "f32")])
def test_four_products_of_quads(tensor, td, tc, by_row):
    case = tensor.volta_case(td, tc, by_row, 7)
    out = numbers(executed(case), td, 8)
    a, b, c = (numbers(raw, t, count) for raw, t, count in zip(case.inputs, ("f16", "f16", tc), (4, 4, 8), strict=True))
    for lane in range(32):
        for i in range(8):
            quad = lane % 16 // 4 * 4
            row, column = place_of(lane, i, td)
            other = next(
                (one, e)
                for one in range(32)
                for e in range(8)
                if one % 16 // 4 * 4 == quad and place_of(one, e, tc) == (row, column)
            )
            left = [a[:, *one_of(quad, row, x, by_row=by_row[0])] for x in range(4)]
            right = [b[:, *one_of(quad, column, x, by_row=not by_row[1])] for x in range(4)]
            expected = sum(x * y for x, y in zip(left, right, strict=True)) + c[:, *other]
            np.testing.assert_array_equal(out[:, lane, i], expected)


def place_of(lane, i, t):
    """Row and column of an element of C or D of m8n8k4."""
    if t == "f16":
        return lane % 4 + 4 * (lane >= 16), i
    return (lane & 1) + (i & 2) + 4 * (lane >= 16), (i & 4) + (lane & 2) + (i & 1)


def one_of(quad, across, along, *, by_row):
    """Lane and element that hold an element of A, or of B turned: `across` is its row, `along` its place in k."""
    upper = 16 * (across >= 4)
    return (quad + upper + across % 4, along) if by_row else (quad + upper + along, across % 4)
