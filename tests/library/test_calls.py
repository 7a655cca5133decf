from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from library_support import ADDRESS, OnGpu, fortran, small_library
from mistakes import coded

from lab.base.errors import UserError
from lab.library.calls import (
    CallBuffer,
    CallForm,
    Matrix,
    batch_form,
    call_form,
    check_places,
    plan,
    sized_form,
)
from lab.library.operands import operand
from lab.library.package import LibraryBuffer, LibraryKernel, LibraryLaunch
from lab.library.tree import Logic


def formed(*arrays, layout="nn", reader=call_form):
    """The form of A, B and C."""
    a, b, c = (operand(name, array)[1] for name, array in zip("ABC", arrays, strict=True))
    return reader((a, b, c), replace(small_library(), layout=layout))


def matrix(value):
    """Return the parsed description of A, with B and C of matching sizes."""
    rows, columns = value.__cuda_array_interface__["shape"]
    c = OnGpu(fortran(1, 1))
    c.__cuda_array_interface__ |= {"shape": (rows, 1), "strides": (4, 4 * rows)}
    b = OnGpu(fortran(1, 1))
    b.__cuda_array_interface__ |= {"shape": (columns, 1), "strides": (4, 4 * columns)}
    return formed(value, b, c).matrices[0]


@pytest.mark.parametrize(
    ("value", "leading"),
    [
        (OnGpu(fortran(5, 7)), 5),
        (OnGpu(fortran(16, 7)[:5]), 16),
        (OnGpu(np.zeros((5, 1), "f4")), 5),
        (OnGpu(np.zeros((1, 7), "f4")), 1),
        (OnGpu(np.zeros((1, 7), "f4"), strides=False), 1),
        (OnGpu(fortran(8, 7)[:1]), 8),
        (OnGpu(np.zeros((7, 5), "f4").T), 5),
    ],
)
def test_column_major_matrices_are_taken_with_their_leading_dimension(value, leading):
    found = matrix(value)
    assert (found.leading, found.item) == (leading, 4)
    assert (found.rows, found.columns) == value.__cuda_array_interface__["shape"]


FITS = OnGpu(fortran(5, 5))


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (OnGpu(fortran(5, 7, "float64")), "wrong element type"),
        (OnGpu(np.zeros((5, 7), "f4")), "not column-major"),
        (OnGpu(np.zeros((5, 7), "f4"), strides=False), "not column-major"),
        (OnGpu(fortran(10, 7)[::2]), "not column-major"),
        (OnGpu(fortran(5, 7)[:, ::-1]), "not column-major"),
        (OnGpu(np.broadcast_to(np.zeros((5, 1), "f4"), (5, 7))), "not column-major"),
        (OnGpu(np.zeros(5, "f4")), "not a matrix"),
        (OnGpu(fortran(0, 7)), "not a matrix"),
    ],
)
def test_other_arrays_are_refused_by_name(value, says):
    for name, arrays in (("A", (value, FITS, FITS)), ("B", (FITS, value, FITS)), ("C", (FITS, FITS, value))):
        with pytest.raises(UserError, match=f"{name} .*{says}") as caught:
            formed(*arrays)
        assert caught.value.key == name


def test_c_must_be_writable_and_small_enough():
    with pytest.raises(UserError, check=coded("mismatch", key="C")):
        formed(FITS, FITS, OnGpu(fortran(5, 5), read_only=True))
    only_read = OnGpu(fortran(5, 5), read_only=True)
    formed(only_read, only_read, FITS)
    huge = OnGpu(fortran(1, 1))
    huge.__cuda_array_interface__ |= {"shape": (1 << 16, 1 << 15), "strides": (4, 4 << 16)}
    with pytest.raises(UserError, check=coded("out-of-range", key="A", found="65536 x 32768")):
        formed(huge, FITS, FITS)


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_sizes_follow_the_layout(layout):
    a, b = ((3, 5) if layout[0] == "n" else (5, 3)), ((5, 4) if layout[1] == "n" else (4, 5))
    left, right, fits, other = (OnGpu(fortran(*shape)) for shape in (a, b, (3, 4), (4, 3)))
    assert formed(left, right, fits, layout=layout).point == (3, 4, 5, a[0], b[0], 3)
    with pytest.raises(UserError, match="do not fit together"):
        formed(left, right, other, layout=layout)


ARGUMENTS = (("m", "int32"), ("alpha", "float32"), ("A", "float32*"), ("part", "float32*"), ("C", "float32*"))
POINT = {"m": 100, "n": 30, "k": 8, "lda": 100, "ldb": 30, "ldc": 100, "alpha": 2.0, "beta": 0.0}


def library(*launches: LibraryLaunch, workspace: tuple[LibraryBuffer, ...] = ()):
    kernel = LibraryKernel("only", "only.cubin", "gemm/t.cu.j2", {}, launches, workspace)
    return replace(small_library(), kernels=(kernel,), logic=Logic(("only",), ~0))


def launch(*grid: str, entry: str = "e", when: str = "", shared: str = "0", arguments=ARGUMENTS):
    x, y, z = [*grid, "1", "1"][:3]
    return LibraryLaunch(entry, (x, y, z), ("32", "1", "1"), shared, arguments, when)


SCRATCH = (LibraryBuffer("part", "float32", "m * 3", zero=True), LibraryBuffer("more", "float32", "k"))


def test_a_plan_has_numbers_and_names_in_place_of_expressions():
    made = plan(library(launch("ceil_div(m, 32)", "n", shared="4 * k"), workspace=SCRATCH), POINT)
    (step,) = made.steps
    assert (step.grid, step.block, step.shared_bytes) == ((4, 30, 1), (32, 1, 1), 32)
    assert (step.codes, step.values) == ("ifPPP", (100, 2.0, "A", "part", "C"))


def test_scratch_lies_at_multiples_of_the_alignment():
    made = plan(library(launch("1"), workspace=SCRATCH), POINT)
    assert made.buffers == (CallBuffer("part", 0, 1200, zero=True), CallBuffer("more", 1280, 32, zero=False))
    assert made.workspace_bytes == 1280 + 256


def test_launches_whose_condition_fails_are_left_out():
    both = library(launch("1", entry="odd", when="m % 8 != 0"), launch("1", entry="always"), workspace=SCRATCH)
    assert [step.entry for step in plan(both, POINT).steps] == ["odd", "always"]
    assert [step.entry for step in plan(both, {**POINT, "m": 64}).steps] == ["always"]


def test_a_call_that_launches_nothing_is_an_error_and_not_a_wrong_result():
    with pytest.raises(UserError, check=coded("wrong-value", key="launches")):
        plan(library(launch("1", when="m < 0"), workspace=SCRATCH), POINT)


@pytest.mark.parametrize("grid", ["m - 100", "m / 8", "0 - n"])
def test_an_illegal_grid_is_named_with_its_kernel(grid):
    with pytest.raises(UserError, check=coded("wrong-value", key="launches[0].grid")) as error:
        plan(library(launch(grid), workspace=SCRATCH), POINT)
    assert str(error.value.at) == "only"


def test_values_have_the_kinds_of_their_arguments():
    kinds = (("m", "int32"), ("alpha", "float32"), ("beta", "float64"), ("n", "int64"), ("A", "float32*"))
    point = {**POINT, "m": 100.0, "alpha": 2, "beta": 0.5}
    (step,) = plan(library(launch("1", arguments=kinds)), point).steps
    assert step.values == (100, 2.0, 0.5, 30, "A")
    assert [type(value) for value in step.values] == [int, float, float, int, str]
    assert step.codes == f"ifd{np.dtype('int64').char}P"


def test_the_largest_matrix_and_the_smallest():
    huge = OnGpu(fortran(1, 1))
    columns, leading = 2**15, 2**16 - 1
    huge.__cuda_array_interface__ |= {"shape": (1 << 15, columns), "strides": (4, 4 * leading)}
    found = matrix(huge)
    assert (found.rows, found.columns, found.leading) == (2**15, columns, leading)
    huge.__cuda_array_interface__ |= {"shape": (2**31 - 1, 1), "strides": (4, 0)}
    assert matrix(huge).leading == 2**31 - 1
    one = matrix(OnGpu(fortran(1, 1)))
    assert (one.rows, one.columns, one.leading) == (1, 1, 1)


@pytest.mark.parametrize(
    ("strides", "shape"), [((4, 22), (5, 7)), ((4, 16), (5, 7)), ((8, 40), (5, 7)), ((4, 0), (1, 7)), ((4, 2), (1, 7))]
)
def test_strides_that_do_not_fit_are_refused_in_numbers(strides, shape):
    value = OnGpu(fortran(*shape))
    value.__cuda_array_interface__ |= {"strides": strides}
    with pytest.raises(UserError, check=coded("mismatch", key="A")) as caught:
        formed(value, FITS, FITS)
    text = str(caught.value)
    assert f"{shape[0]} x {shape[1]}, strides ({strides[0]}, {strides[1]}) in bytes" in text
    assert f"strides (4, at least {shape[0] * 4})" in text


def test_shapes_that_do_not_fit_are_told_one_by_one():
    for a, b, c in (((3, 5), (6, 4), (3, 4)), ((3, 5), (5, 4), (2, 4)), ((3, 5), (5, 4), (3, 2))):
        with pytest.raises(UserError, match="do not fit together") as caught:
            formed(*(OnGpu(fortran(*shape)) for shape in (a, b, c)))
        assert f"A {a[0]} x {a[1]}, B {b[0]} x {b[1]}, C {c[0]} x {c[1]}" in str(caught.value)
    with pytest.raises(UserError, check=coded("mismatch", found="A 1 x 2, B 3 x 4, C 5 x 6")):
        formed(*(OnGpu(fortran(*shape)) for shape in ((1, 2), (3, 4), (5, 6))), layout="tt")


def part(row, column, rows, columns, *, leading=100, base=ADDRESS):
    """A part of a matrix of 100 rows: its address, and its form."""
    return base + 16 * row + 4 * leading * column, Matrix(4 * rows, columns, leading, 4)


def placed(*parts):
    """Refuse what C must not share. That the shapes fit together was checked before."""
    (at_a, a), (at_b, b), (at_c, c) = parts
    check_places(CallForm((a, b, c), (a.span, b.span, c.span), (1, 1, 1, 1, 1, 1)), (at_a, at_b, at_c))


@pytest.mark.parametrize(
    ("c", "clash"),
    [
        (part(0, 0, 10, 10), True),
        (part(9, 9, 10, 10), True),  # four elements
        (part(10, 0, 10, 10), False),  # below it: the addresses interleave
        (part(0, 10, 10, 10), False),
        (part(9, 9, 1, 1), True),
        (part(0, 0, 10, 10, base=2 * ADDRESS), False),
        (part(10, 0, 10, 2, leading=60), True),  # its second column begins where that of A does
        (part(10, 0, 10, 1, leading=60), False),
        (part(10, 0, 15, 9), False),
        (part(10, 0, 16, 9), True),  # its columns reach into the next ones
    ],
)
def test_c_may_share_addresses_but_no_elements(c, clash):
    other, far = part(0, 0, 10, 10), part(0, 0, 10, 10, base=8 * ADDRESS)
    for a, b, name in ((other, far, "A"), (far, other, "B")):
        if clash:
            with pytest.raises(UserError, match=f"C shares elements with {name}"):
                placed(a, b, c)
        else:
            placed(a, b, c)
    placed(other, other, far)  # A and B may be one


def test_elements_are_found_to_be_shared_as_by_marking_them():
    rng = np.random.default_rng(1)
    outcomes = set()
    for _ in range(300):
        x, y = (
            (
                ADDRESS + 16 * int(rng.integers(20)),
                Matrix(int(rows), int(rng.integers(1, 6)), int(rows + rng.integers(9)), 4),
            )
            for rows in rng.integers(1, 7, 2)
        )
        marked = [
            {at + 4 * (r + one.leading * k) for r in range(one.rows) for k in range(one.columns)} for at, one in (x, y)
        ]
        shared = bool(marked[0] & marked[1])
        outcomes.add(shared)
        try:
            placed(x, x, y)
        except UserError:
            assert shared
        else:
            assert not shared
    assert outcomes == {True, False}


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_matrix_that_is_not_aligned_is_named(which):
    parts = [part(0, 0, 1, 1, base=ADDRESS * i) for i in range(1, 4)]
    parts[which] = (parts[which][0] + 4, parts[which][1])
    with pytest.raises(UserError, match=f"{'ABC'[which]} is not aligned"):
        placed(*parts)


def batch(shape, strides, *, address=ADDRESS):
    made = OnGpu(fortran(1, 1), address=address)
    made.__cuda_array_interface__ |= {"shape": shape, "strides": strides}
    return made


def batch_of(a, b, c):
    return formed(a, b, c, reader=batch_form)


MEMBERS = batch((4, 8, 8), (256, 4, 32))


def test_a_batch_has_a_stride_for_each_matrix():
    broadcast, heads = (
        batch((4, 8, 8), (0, 4, 32)),
        batch((4, 8, 8), (32, 4, 128)),
    )  # heads: four side by side in 32 rows
    found = batch_of(MEMBERS, broadcast, heads)
    assert (found.count, found.steps, found.point) == (4, (256, 0, 32), (8, 8, 8, 8, 8, 32))
    assert found.spans == (256, 256, 7 * 128 + 32)
    one = batch((1, 8, 8), (4, 4, 32))
    assert batch_of(one, one, one).count == 1


@pytest.mark.parametrize(
    ("a", "c", "says"),
    [
        (batch((8, 8), (4, 32)), MEMBERS, "A is not a batch"),
        (batch((4, 8, 8), None), MEMBERS, "A is not column-major"),
        (batch((3, 8, 8), (256, 4, 32)), MEMBERS, "batches differ in length"),
        (batch((4, 8, 8), (260, 4, 32)), MEMBERS, "members of A are not aligned"),
        (MEMBERS, batch((4, 8, 8), (0, 4, 32)), "members of C share elements"),
        (MEMBERS, batch((4, 8, 8), (240, 4, 32)), "members of C share elements"),
        (MEMBERS, batch((4, 8, 8), (-16, 4, 128)), "members of C share elements"),
    ],
)
def test_a_batch_that_cannot_be_computed_is_refused(a, c, says):
    with pytest.raises(UserError, match=says):
        batch_of(a, MEMBERS, c)


def test_every_member_of_c_is_apart_from_every_member_of_a():
    form = batch_of(MEMBERS, MEMBERS, MEMBERS)
    check_places(form, (ADDRESS, ADDRESS, ADDRESS + 1024))
    with pytest.raises(UserError, check=coded("out-of-range", key="C", found="A at 0x100300, C at 0x1003f0")):
        check_places(form, (ADDRESS, 2 * ADDRESS, ADDRESS + 1024 - 16))
    with pytest.raises(UserError, check=coded("out-of-range", key="C", found="B at 0x1003f0, C at 0x100300")):
        check_places(form, (2 * ADDRESS, ADDRESS + 1024 - 16, ADDRESS))
    heads = batch((4, 8, 8), (32, 4, 256))
    form = batch_of(heads, heads, heads)
    check_places(form, (ADDRESS, ADDRESS, ADDRESS + 128))  # the lower half of the same matrix of 64 rows
    with pytest.raises(UserError, check=coded("out-of-range", key="C", found="A at 0x100060, C at 0x100060")):
        check_places(form, (ADDRESS, 2 * ADDRESS, ADDRESS + 96))


def test_a_form_by_sizes_is_that_of_matrices_without_padding():
    shapes = (3, 5), (5, 4), (3, 4)
    of_arrays = formed(*(OnGpu(fortran(*shape)) for shape in shapes))
    assert sized_form(3, 4, 5, None, small_library()) == of_arrays
    padded = sized_form(3, 4, 5, (8, 9, 10), replace(small_library(), layout="tt"))
    assert padded.point == (3, 4, 5, 8, 9, 10)
    assert [(one.rows, one.columns) for one in padded.matrices] == [(5, 3), (4, 5), (3, 4)]
    with pytest.raises(UserError, check=coded("mismatch", key="B", found="5 x 4, strides (4, 16) in bytes")):
        sized_form(3, 4, 5, (3, 4, 3), small_library())
    with pytest.raises(UserError, check=coded("syntax", key="m", found=0)):
        sized_form(0, 4, 5, None, small_library())


@pytest.mark.parametrize(("when", "named"), [("", ()), ("alpha != 0", (0,)), ("beta > alpha", (0, 1)), ("m < 9", ())])
def test_factors_that_decide_launches_are_known(when, named):
    form = sized_form(3, 4, 5, None, library(launch("1", when=when), workspace=SCRATCH))
    assert form.named == named
