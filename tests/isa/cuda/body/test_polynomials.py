from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lab.isa.cuda.body.polynomials import ONE, ZERO, Polynomial, atom, number

NAMES = ("i", "j", "n")
VALUES = {"i": 3, "j": -5, "n": 1009}
monomials = st.lists(st.sampled_from(NAMES), max_size=2).map(lambda names: tuple(sorted(names)))
polynomials = st.dictionaries(monomials, st.integers(-9, 9).filter(bool), max_size=4).map(Polynomial)


@given(polynomials, polynomials)
def test_arithmetic_is_that_of_the_values(a, b):
    x, y = a.evaluate(VALUES), b.evaluate(VALUES)
    assert ((a + b).evaluate(VALUES), (a - b).evaluate(VALUES), (a * b).evaluate(VALUES)) == (x + y, x - y, x * y)
    assert a - a == ZERO
    assert hash(a + b) == hash(b + a)


@given(polynomials, polynomials)
def test_a_product_divides_by_its_factors(a, b):
    if b.terms:
        assert (a * b).quotient(b) == a
        assert b.quotient(b) == ONE


@given(polynomials, polynomials)
def test_substitution_is_that_of_the_value(a, b):
    assert a.substitute({"i": b}).evaluate(VALUES) == a.evaluate(VALUES | {"i": b.evaluate(VALUES)})


def test_parts():
    index = atom("row") * atom("n") + number(3) * atom("row") + number(2)
    assert index.coefficient(("row",)) == atom("n") + number(3)
    assert (index.constant, index.degree, index.number) == (2, 2, None)
    assert index.select(lambda monomial: "row" in monomial) == index - number(2)
    assert (number(7).number, ZERO.number, atom("n").quotient(number(2))) == (7, 0, None)
    assert atom("n").quotient(ZERO) is None
