"""The table of functions, and how their arguments are checked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lab.operators.declared.elements import SINGLE
from lab.operators.declared.functions import ARRAY_FUNCTIONS, CONSTANTS, array_of, integer_of
from lab.operators.declared.tracked import ArrayOperationError, Rules, Tracked

RULES = Rules(SINGLE)
DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "references.md"


def table() -> str:
    """The list of functions in `docs/reference/references.md`."""
    lines = []
    for group in dict.fromkeys(one.group for one in ARRAY_FUNCTIONS.values()):
        lines += ["", f"### {group.capitalize()}", "", "| function | value |", "| --- | --- |"]
        for function in ARRAY_FUNCTIONS.values():
            if function.group == group:
                purpose = function.purpose.replace("|", "\\|").removeprefix("Return ")
                lines.append(f"| `{function.usage}` | {purpose} |")
    return "\n".join(lines).strip()


def test_the_document_lists_every_function():
    text = DOCUMENT.read_text(encoding="utf-8")
    begin, end = "<!-- functions -->\n", "\n<!-- end functions -->"
    assert text.partition(begin)[2].partition(end)[0] == table()
    for name in CONSTANTS:
        assert f"`{name}`" in text


@pytest.mark.parametrize("function", ARRAY_FUNCTIONS.values(), ids=lambda one: one.name)
def test_every_function_says_what_it_returns_and_checks_its_arguments(function):
    assert len(function.purpose) > 5
    assert function.usage.startswith(f"{function.name}(")
    with pytest.raises(ArrayOperationError) as caught:
        function(RULES, (), {"nonsense": Tracked(np.asarray(1))})
    assert function.usage in caught.value.accepted
    with pytest.raises(ArrayOperationError):
        function(
            RULES,
            ("text",) * len([parameter for parameter in function.parameters if parameter.default is parameter.empty]),
            {},
        )


def test_values_become_operands():
    scalar, two = Tracked(np.asarray(1)), Tracked(np.asarray(2.5))
    assert integer_of(scalar) == 1
    with pytest.raises(TypeError):
        integer_of(two)
    with pytest.raises(TypeError):
        integer_of(Tracked(np.asarray(1), np.asarray(1.0)))
    assert array_of((scalar, two)).values.tolist() == [1, 2.5]
    for wrong in (None, "a", ()):
        with pytest.raises(TypeError):
            array_of(wrong)


def test_the_maximum_of_two_numbers_and_of_two_arrays():
    greatest = ARRAY_FUNCTIONS["max"]
    assert greatest(RULES, (Tracked(np.asarray(3)), Tracked(np.asarray(7))), {}).values == 7
    array = Tracked(np.zeros(3))
    with pytest.raises(ArrayOperationError) as caught:
        greatest(RULES, (array, array), {})
    assert "maximum" in caught.value.accepted
