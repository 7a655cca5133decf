from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.isa.cuda.definitions import Definition, definitions


def test_definitions_are_guarded_by_their_own_name_alone():
    text = """#ifndef N
#define N 4
#endif
#if !defined(M)
#define M 5
#endif
#ifdef X
#  define P 1 /* one */
#endif
#define F(x) (x)
#define EMPTY
"""
    assert definitions(text) == (
        Definition("N", "4", 2, guarded=True, function_like=False),
        Definition("M", "5", 5, guarded=True, function_like=False),
        Definition("P", "1", 8, guarded=False, function_like=False),
        Definition("F", "(x)", 10, guarded=False, function_like=True, parameters=("x",)),
        Definition("EMPTY", "", 11, guarded=False, function_like=False),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#if X\n#ifndef A\n#endif\n#define A 1\n#endif", False),
        ("#ifndef A\n#if X\n#define A 1\n#endif\n#endif", True),
        ("#ifndef A\n#else\n#define A 1\n#endif", True),
        ("#ifndef B\n#define A 1\n#endif", False),
        ("#endif\n#ifndef A\n#define A 1\n#endif", True),
        ("#if !defined A\n#define A 1\n#endif", True),
        ("#if X\n#elif Y\n#endif\n#ifndef A\n#endif\n#define A 1", False),
    ],
)
def test_a_guard_holds_between_its_ends(text, expected):
    [found] = [definition for definition in definitions(text) if definition.name == "A"]
    assert found.guarded == expected


@given(st.text(alphabet="ab(){}[];=,<>*&:#\n \"'/", max_size=120))
def test_any_text_is_read(text):
    assert definitions(f"#define A 1\n{text}")[0] == Definition("A", "1", 1, guarded=False, function_like=False)
