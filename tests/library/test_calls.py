from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from library_support import ADDRESS, OnGpu, fortran, small_library

from lab.base.errors import UserError
from lab.library.calls import CallBuffer, Matrix, apart, matrix, plan, sizes
from lab.library.package import LibraryBuffer, LibraryKernel, LibraryLaunch
from lab.library.tree import Logic


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
    found = matrix("A", value, "float32")
    assert (found.leading, found.pointer) == (leading, ADDRESS)
    assert (found.rows, found.columns) == value.__cuda_array_interface__["shape"]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (fortran(5, 7), "A is not on the GPU"),
        (OnGpu(fortran(5, 7, "float64")), "wrong element type"),
        (OnGpu(np.zeros((5, 7), "f4")), "not column-major"),
        (OnGpu(np.zeros((5, 7), "f4"), strides=False), "not column-major"),
        (OnGpu(fortran(10, 7)[::2]), "not column-major"),
        (OnGpu(fortran(5, 7)[:, ::-1]), "not column-major"),
        (OnGpu(np.broadcast_to(np.zeros((5, 1), "f4"), (5, 7))), "not column-major"),
        (OnGpu(np.zeros(5, "f4")), "not a matrix"),
        (OnGpu(fortran(0, 7)), "not a matrix"),
        (OnGpu(fortran(5, 7), address=ADDRESS + 4), "not aligned"),
    ],
)
def test_other_arrays_are_refused_by_name(value, says):
    with pytest.raises(UserError, match=says) as caught:
        matrix("A", value, "float32")
    assert caught.value.key == "A"


def test_c_must_be_writable_and_small_enough():
    with pytest.raises(UserError, match="read-only"):
        matrix("C", OnGpu(fortran(5, 7), read_only=True), "float32")
    huge = OnGpu(fortran(1, 1))
    huge.__cuda_array_interface__ |= {"shape": (1 << 16, 1 << 15), "strides": (4, 4 << 16)}
    with pytest.raises(UserError, match="too large"):
        matrix("A", huge, "float32")


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_sizes_follow_the_layout(layout):
    a, b = ((3, 5) if layout[0] == "n" else (5, 3)), ((5, 4) if layout[1] == "n" else (4, 5))
    left, right, fits, other = (matrix("A", OnGpu(fortran(*shape)), "float32") for shape in (a, b, (3, 4), (4, 3)))
    assert sizes(left, right, fits, layout) == (3, 4, 5)
    with pytest.raises(UserError, match="do not fit together"):
        sizes(left, right, other, layout)


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
    with pytest.raises(UserError, match="no launch is left"):
        plan(library(launch("1", when="m < 0"), workspace=SCRATCH), POINT)


@pytest.mark.parametrize("grid", ["m - 100", "m / 8", "0 - n"])
def test_an_illegal_grid_is_named_with_its_kernel(grid):
    with pytest.raises(UserError, match="not a legal size") as error:
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
    found = matrix("A", huge, "float32")
    assert (found.rows, found.columns, found.leading) == (2**15, columns, leading)
    huge.__cuda_array_interface__ |= {"shape": (2**31 - 1, 1), "strides": (4, 0)}
    assert matrix("A", huge, "float32").leading == 2**31 - 1
    one = matrix("A", OnGpu(fortran(1, 1)), "float32")
    assert (one.rows, one.columns, one.leading) == (1, 1, 1)


@pytest.mark.parametrize(
    ("strides", "shape"), [((4, 22), (5, 7)), ((4, 16), (5, 7)), ((8, 40), (5, 7)), ((4, 0), (1, 7)), ((4, 2), (1, 7))]
)
def test_strides_that_do_not_fit_are_refused_in_numbers(strides, shape):
    value = OnGpu(fortran(*shape))
    value.__cuda_array_interface__ |= {"strides": strides}
    with pytest.raises(UserError, match="not column-major") as caught:
        matrix("A", value, "float32")
    text = str(caught.value)
    assert f"{shape[0]} x {shape[1]}, strides ({strides[0]}, {strides[1]}) in bytes" in text
    assert f"strides (4, at least {shape[0] * 4})" in text


def test_shapes_that_do_not_fit_are_told_one_by_one():
    def of(rows, columns):
        return matrix("A", OnGpu(fortran(rows, columns)), "float32")

    for a, b, c in (((3, 5), (6, 4), (3, 4)), ((3, 5), (5, 4), (2, 4)), ((3, 5), (5, 4), (3, 2))):
        with pytest.raises(UserError, match="do not fit together") as caught:
            sizes(of(*a), of(*b), of(*c), "nn")
        assert f"A {a[0]} x {a[1]}, B {b[0]} x {b[1]}, C {c[0]} x {c[1]}" in str(caught.value)
    with pytest.raises(UserError, match="k x m, n x k, m x n"):
        sizes(of(1, 2), of(3, 4), of(5, 6), "tt")


def part(row, column, rows, columns, *, leading=100, base=ADDRESS):
    """A part of a matrix of 100 rows."""
    return Matrix(base + 4 * (row + leading * column), rows, columns, leading)


@pytest.mark.parametrize(
    ("c", "clash"),
    [
        (part(0, 0, 10, 10), True),
        (part(9, 9, 10, 10), True),  # one element
        (part(10, 0, 10, 10), False),  # below it: the addresses interleave
        (part(0, 10, 10, 10), False),
        (part(9, 9, 1, 1), True),
        (part(0, 0, 10, 10, base=2 * ADDRESS), False),
        (part(10, 0, 10, 4, leading=30), True),  # its fourth column begins where the second of A does
        (part(10, 0, 10, 3, leading=30), False),
        (part(10, 0, 90, 9), False),
        (part(10, 0, 91, 9), True),  # its columns reach into the next ones
    ],
)
def test_c_may_share_addresses_but_no_elements(c, clash):
    other, far = part(0, 0, 10, 10), part(0, 0, 10, 10, base=8 * ADDRESS)
    for a, b, name in ((other, far, "A"), (far, other, "B")):
        if clash:
            with pytest.raises(UserError, match=f"C shares elements with {name}"):
                apart(a, b, c, "float32")
        else:
            apart(a, b, c, "float32")
    apart(other, other, far, "float32")  # A and B may be one


def test_elements_are_found_to_be_shared_as_by_marking_them():
    rng = np.random.default_rng(1)
    seen = set()
    for _ in range(300):
        x, y = (
            Matrix(ADDRESS + 4 * int(rng.integers(60)), int(rows), int(rng.integers(1, 6)), int(rows + rng.integers(9)))
            for rows in rng.integers(1, 7, 2)
        )
        marked = [
            {one.pointer + 4 * (r + one.leading * k) for r in range(one.rows) for k in range(one.columns)}
            for one in (x, y)
        ]
        shared = bool(marked[0] & marked[1])
        seen.add(shared)
        try:
            apart(x, x, y, "float32")
        except UserError:
            assert shared
        else:
            assert not shared
    assert seen == {True, False}
