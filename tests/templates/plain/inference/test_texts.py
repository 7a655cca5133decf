from __future__ import annotations

import pytest

from lab.isa.cuda.body.limits import Limits
from lab.templates.plain.inference.texts import Texts


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2 * n + 1 - m", "2 * n + 1 - m"),
        ("-n", "-n"),
        ("n - n", "0"),
        ("ceil_div(n + 1, 16) * 16", "16 * ceil_div(n + 1, 16)"),
        ("(n + 2) // 4", "(n + 2) // 4"),
        ("(n // 4) * m", "(n // 4) * m"),
        ("A_width * 2", "2 * A_width"),
    ],
)
def test_expressions_are_written_as_they_are_read(text, written):
    texts = Texts(Limits({}), {"A.width": "A_width"})
    value = texts.polynomial(text)
    assert value is not None
    assert texts.text(value) == written
    assert texts.polynomial(written) == value


@pytest.mark.parametrize("text", ["", "n +", "n / 2", "f(n)", "n < 2", "min(n, 4)", "1.5"])
def test_other_expressions_are_none(text):
    assert Texts(Limits({}), {}).polynomial(text) is None
