from __future__ import annotations

import numpy as np
import pytest
from mistakes import coded

from lab.base.errors import UserError
from lab.operators import einsum
from lab.operators.tensors import Layout, TensorShapes, distinct


def shapes(text: str, size: dict[str, int], **given: tuple[int, ...]) -> TensorShapes:
    return TensorShapes(einsum.parse(text), size, given)


def test_a_compact_tensor_uses_every_element() -> None:
    layout = Layout((3, 4), (1, 3))
    assert (layout.elements, layout.is_compact, distinct(layout)) == (12, True, 12)
    assert layout.used().all()


def test_a_tensor_with_gaps_uses_some_elements() -> None:
    layout = Layout((2, 3), (1, 4))
    assert (layout.elements, layout.is_compact, distinct(layout)) == (10, False, 6)
    assert layout.used().tolist() == [True, True, False, False] * 2 + [True, True]


def test_a_tensor_may_overlap_itself() -> None:
    windows = Layout((3, 4), (1, 1))
    assert (windows.elements, distinct(windows)) == (6, 6)
    repeated = Layout((2, 5), (1, 0))
    assert (repeated.elements, distinct(repeated)) == (2, 2)
    assert repeated.view(np.array([7.0, 8.0])).tolist() == [[7] * 5, [8] * 5]


def test_neighbouring_indices_are_merged_with_their_sizes() -> None:
    merged = shapes("mnk,k->mn", {"m": 2, "n": 3, "k": 5}).folded()
    assert merged.size == {"mn": 6, "k": 5}
    kept = shapes("mnk,k->mn", {"m": 2, "n": 3, "k": 5}, A=(1, 2, 6)).folded()
    assert kept.size == {"m": 2, "n": 3, "k": 5}


def test_an_operand_is_grouped_into_one_dimension_a_group() -> None:
    tensors = shapes("ilk,jlk->ijk", {"i": 2, "j": 3, "l": 4, "k": 5})
    buffer = np.arange(40.0)
    grouped = tensors.grouped("A", buffer, (("k",), ("i",), ("l",)))
    assert grouped.shape == (5, 2, 4)
    assert grouped[3, 1, 2] == buffer[1 + 2 * 2 + 3 * 8]


@pytest.mark.parametrize(
    ("size", "alignment"),
    [
        ({"i": 32, "j": 32, "l": 4}, 16),
        ({"i": 8, "j": 32, "l": 4}, 8),
        ({"i": 32, "j": 6, "l": 4}, 2),
        ({"i": 7, "j": 32, "l": 4}, 1),
    ],
)
def test_alignment_divides_what_lies_along_the_tile(size: dict[str, int], alignment: int) -> None:
    assert shapes("il,jl->ij", size).alignment == alignment


def test_arguments_are_sizes_and_strides() -> None:
    found = shapes("il,jl->ij", {"i": 7, "j": 5, "l": 3}).arguments
    assert found == {
        "size_i": 7,
        "size_j": 5,
        "size_l": 3,
        "stride_A_i": 1,
        "stride_A_l": 7,
        "stride_B_j": 1,
        "stride_B_l": 5,
        "stride_C_i": 1,
        "stride_C_j": 7,
    }


def test_strides_must_fit_the_operand() -> None:
    with pytest.raises(UserError, check=coded("mismatch", key="problem.strides_A", found="1")) as error:
        shapes("il,jl->ij", {"i": 7, "j": 5, "l": 3}, A=(1,)).check()
    assert error.value.key == "problem.strides_A"


def test_too_many_elements_are_refused() -> None:
    with pytest.raises(UserError, check=coded("out-of-range", key="problem")):
        shapes("il,jl->ij", {"i": 2**16, "j": 2**16, "l": 1}).check()
    with pytest.raises(UserError, check=coded("out-of-range", key="problem")):
        shapes("ilm,jlm->ij", {"i": 1, "j": 1, "l": 2**16, "m": 2**16}, A=(0, 0, 0), B=(0, 0, 0)).check()
