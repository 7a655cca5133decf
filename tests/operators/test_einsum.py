from __future__ import annotations

import itertools

import numpy as np
import pytest
from contraction_cases import equations
from hypothesis import given
from hypothesis import strategies as st

from lab.base.errors import UserError
from lab.operators import einsum


def strides(contraction, sizes):
    compact = {tensor: einsum.compact([sizes[i] for i in contraction.of(tensor)]) for tensor in "ABC"}
    return {tensor: dict(zip(contraction.of(tensor), compact[tensor], strict=True)) for tensor in "ABC"}


@given(equations())
def test_every_index_has_one_role(text):
    contraction = einsum.parse(text)
    roles = [contraction.batch, contraction.rows, contraction.columns, contraction.depth]
    assert (
        sorted(itertools.chain(*roles))
        == sorted(contraction.indices)
        == sorted(set(contraction.A + contraction.B + contraction.C))
    )
    assert set(contraction.C) == {*contraction.batch, *contraction.rows, *contraction.columns}
    assert set(contraction.rows) <= set(contraction.of(contraction.first))
    assert set(contraction.columns) <= set(contraction.of(contraction.second))
    free = [index for index in contraction.C if index not in contraction.batch]
    assert not free or free[0] == contraction.rows[0], "d0 has the shortest stride of all free indices"
    assert list(contraction.depth) == sorted(contraction.depth, reverse=True)


@given(equations())
def test_text_and_indices_are_the_same(text):
    contraction = einsum.parse(text)
    assert str(contraction) == text
    assert einsum.parse(str(contraction.folded())) == contraction.folded()
    assert contraction.folded().folded() == contraction.folded()


@given(equations(), st.data())
def test_folding_moves_no_element(text, data):
    contraction = einsum.parse(text)
    sizes = {letter: data.draw(st.integers(1, 5)) for letter in contraction.indices}
    merged = contraction.folded()
    before, after = strides(contraction, sizes), strides(merged, einsum.sizes(merged, sizes))
    for index in merged.indices:
        for tensor in "ABC":
            assert (index in after[tensor]) == (index[0] in before[tensor])
            held, stride = after[tensor].get(index), 1
            for letter in index:
                if held is not None:
                    assert before[tensor][letter] == held * stride
                stride *= sizes[letter]
    assert [max(group, default="") for group in merged.depth[:1]] == list(contraction.depth[:1])


@given(equations(), st.data())
def test_the_place_of_a_number_counts_the_first_index_fastest(text, data):
    contraction = einsum.parse(text)
    sizes = {letter: data.draw(st.integers(1, 4)) for letter in contraction.indices}
    of = strides(contraction, sizes)
    names = {f"size_{i}": n for i, n in sizes.items()}
    names |= {contraction.stride(tensor, i): s for tensor, held in of.items() for i, s in held.items()}
    assert set(names) == set(contraction.arguments)
    group = data.draw(st.permutations(contraction.rows + contraction.batch))
    values = [sizes[i] for i in group]
    number = data.draw(st.integers(0, int(np.prod(values)) - 1))
    digits = np.unravel_index(number, values, order="F") if group else ()
    for tensor in "ABC":
        expected = sum(int(d) * of[tensor].get(i, 0) for d, i in zip(digits, group, strict=True))
        text = contraction.place("number", group, tensor).replace("/", "//")
        assert eval(text, {"number": number, **names}) == expected  # noqa: S307 - of the operators * + // % alone


@pytest.mark.parametrize(
    ("text", "folded", "apart"),
    [
        ("onijml,onjmkl->ijkl", "(on)ijml,(on)jmkl->ijkl", ""),
        ("abk,kcd->abcd", "(ab)k,k(cd)->(ab)(cd)", ""),
        ("abk,kcd->abcd", "abk,k(cd)->ab(cd)", "A"),
        ("abk,kc->bac", "abk,kc->bac", ""),
        ("abkl,klc->abc", "(ab)(kl),(kl)c->(ab)c", ""),
        ("abklm,klmc->abc", "(ab)(klm),(klm)c->(ab)c", ""),
        ("abkl,lkc->abc", "(ab)kl,lkc->(ab)c", ""),
    ],
)
def test_neighbours_everywhere_are_folded(text, folded, apart):
    assert str(einsum.parse(text).folded(apart)) == folded


@pytest.mark.parametrize(
    ("text", "first", "second", "vectors"),
    [
        ("ik,kj->ij", False, True, "ABC"),
        ("ki,jk->ij", True, False, "ABC"),
        ("ik,kj->ji", True, False, "ABC"),
        ("bik,bkj->bij", False, True, ""),
        ("ibk,kbj->ibj", False, True, "ABC"),
        ("kil,klj->kij", False, True, ""),
        ("xik,kj->ijx", False, True, "BC"),
        ("k,k->", True, True, "AB"),
        ("i,j->ij", False, False, "ABC"),
        ("b,b->b", False, False, ""),
    ],
)
def test_copies_run_where_memory_does(text, first, second, vectors):
    contraction = einsum.parse(text)
    assert contraction.along_depth(contraction.first) == first
    assert contraction.along_depth(contraction.second) == second
    assert "".join(tensor for tensor in "ABC" if contraction.vectors(tensor)) == vectors


def test_assignments_become_letters_from_i():
    assert str(einsum.from_assignments([0, 3, 2], [1, 3, 2], 3)) == "ilk,jlk->ijk"
    assert str(einsum.from_assignments([6, 5, 0, 1, 4, 3], [6, 5, 1, 4, 2, 3], 4)) == "onijml,onjmkl->ijkl"
    assert str(einsum.from_assignments([], [], 0)) == ",->"


def test_unbalanced_parentheses_are_refused():
    for text in ("(ab,ab->", "a(b),ab->", "((ab)),(ab)->", "ab),ab->"):
        with pytest.raises(UserError):
            einsum.parse(text)
