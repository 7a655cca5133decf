from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from mistakes import coded

from lab.base.errors import Location, UserError
from lab.library.meaning import Meaning, interpreted

AT = Location("library.json", 3)


class Shape(Meaning[str]):
    """Writes every part down, with as many brackets as there are nodes."""

    def constant(self, value: object) -> str:
        return repr(value)

    def name(self, name: str) -> str:
        return name

    def negative(self, value: str) -> str:
        return f"neg[{value}]"

    def inverse(self, value: str) -> str:
        return f"not[{value}]"

    def binary(self, symbol: str, left: str, right: str) -> str:
        return f"[{left} {symbol} {right}]"

    def comparison(self, first: str, others: Sequence[tuple[str, str]]) -> str:
        return f"[{first}{''.join(f' {symbol} {other}' for symbol, other in others)}]"

    def choice(self, test: str, then: Callable[[], str], otherwise: Callable[[], str]) -> str:
        return f"[{test} ? {then()} : {otherwise()}]"

    def call(self, function: str, arguments: Sequence[str]) -> str:
        return f"{function}[{', '.join(arguments)}]"

    def item(self, value: str, index: str) -> str:
        return f"at[{value}, {index}]"


@pytest.mark.parametrize(
    ("expression", "shape"),
    [
        ("m + n * 2", "[m + [n * 2]]"),
        ("m - n - 1", "[[m - n] - 1]"),
        ("-m // 2", "[neg[m] // 2]"),
        ("m % 2 == 0 and not n", "[[[m % 2] == 0] and not[n]]"),
        ("1 < m <= n != 3", "[1 < m <= n != 3]"),
        ("m if n > 1 else 'x'", "[[n > 1] ? m : 'x']"),
        ("ceil_div(m, 4) ** 2", "[ceil_div[m, 4] ** 2]"),
        ("layout[0] in 'nt'", "[at[layout, 0] in 'nt']"),
        ("true or m / 2", "[True or [m / 2]]"),
        ("m and n and k or m", "[[[m and n] and k] or m]"),
        ("m | abs", "abs[m]"),
    ],
)
def test_every_part_has_its_meaning(expression: str, shape: str) -> None:
    assert interpreted(expression, Shape(), at=AT, key="grid") == shape


@pytest.mark.parametrize(
    "expression", ["m | length", "[m, n]", "m ~ n", "min(m)", "range(3)", "m.real", "m << n", "abs(x=m)"]
)
def test_what_no_meaning_has_is_refused_where_it_stands(expression: str) -> None:
    with pytest.raises(UserError, check=coded("syntax", key="grid", line=3)) as error:
        interpreted(expression, Shape(), at=AT, key="grid")
    assert (error.value.at, error.value.key) == (AT, "grid")


def test_a_meaning_may_lack_an_operation() -> None:
    with pytest.raises(UserError, check=coded("syntax", key="grid", found="m", line=3)) as error:
        interpreted("m + 1", Meaning[int](), at=AT, key="grid")
    assert error.value.found == "m"


def test_only_the_chosen_side_is_read() -> None:
    class First(Shape):
        def choice(self, test: str, then: Callable[[], str], otherwise: Callable[[], str]) -> str:
            return then()

    assert interpreted("m if n else (m ~ n)", First(), at=AT, key="grid") == "m"
