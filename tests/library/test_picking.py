from __future__ import annotations

import pytest
from library_support import mapped_library, small_library
from mistakes import coded

from lab.base.errors import UserError
from lab.library.package import SIZES
from lab.library.picking import least_leading, pick, picked, possible

LIBRARY = mapped_library()


def name(*point):
    return LIBRARY.kernels[pick(LIBRARY, dict(zip(SIZES, point, strict=True)))].name


def test_a_kernel_is_picked_where_its_requirements_hold():
    assert name(32, 16, 8, 32, 8, 32) == "mapped"
    assert name(31, 16, 8, 32, 9, 36) == "mapped"  # columns begin at multiples of 16 bytes all the same


def test_elsewhere_the_general_logic_picks():
    assert name(32, 16, 8, 33, 8, 32) == "small"
    assert name(300, 16, 8, 300, 8, 301) == "large"
    assert name(1, 2, 3, 1, 3, 1) == "large"


def test_a_size_alone_is_one_of_matrices_without_padding():
    names = [kernel.name for kernel in LIBRARY.kernels]
    assert [names[picked(LIBRARY, m, 5, 6)] for m in (32, 31, 302)] == ["mapped", "small", "large"]
    transposed = mapped_library("tn")
    assert names[picked(transposed, 32, 5, 6)] == "small"  # lda is k


def test_without_a_general_logic_sizes_alone_decide():
    library = small_library()
    for size in ((1, 1, 1), (400, 48, 64), (399, 47, 63)):
        assert picked(library, *size) == library.logic.select(*size)


def test_a_size_may_get_one_of_two_kernels_by_its_leading_dimensions():
    assert {kernel.name for kernel in possible(LIBRARY, 32, 5, 6)} == {"mapped", "small"}
    assert {kernel.name for kernel in possible(LIBRARY, 302, 5, 6)} == {"mapped", "large"}
    assert len(possible(small_library(), 302, 5, 6)) == 1


def test_what_is_no_size_is_refused():
    with pytest.raises(UserError, check=coded("syntax", key="m", found=0)):
        picked(LIBRARY, 0, 1, 1)


@pytest.mark.parametrize(
    ("layout", "leading"), [("nn", (2, 4, 2)), ("nt", (2, 3, 2)), ("tn", (4, 4, 2)), ("tt", (4, 3, 2))]
)
def test_the_least_leading_dimensions_are_the_extents(layout, leading):
    assert least_leading(layout, 2, 3, 4) == leading
