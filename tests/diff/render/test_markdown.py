from __future__ import annotations

from dataclasses import replace

from diff_support import comparison

from lab.diff.comparison import ListingRow
from lab.diff.render.markdown import MARKER, MOST_BYTES, markdown


def test_a_comment():
    text = markdown(comparison())
    assert text.startswith(f"{MARKER}\n### Kernels: 2 kernels compared")
    assert "| `scale` | sm_90 | changed |" in text
    assert text.count("<details>") == text.count("</details>") == 3
    assert "```diff" in text


def test_a_comment_stays_within_the_limit():
    result = comparison()
    rows = tuple(ListingRow("+", "", f"FFMA R{i}, R1, R2, R3 {'x' * 100}") for i in range(400))
    many = tuple(
        replace(result.changes[0], name=f"kernel{i}", base_name=f"kernel{i}", listing=rows) for i in range(1000)
    )
    text = markdown(replace(result, changes=many))
    assert len(text.encode()) <= MOST_BYTES
    assert "kernel0" in text
    assert "more kernels" in text


def test_names_do_not_become_markup():
    result = comparison()
    evil = replace(result.changes[0], reasons=("<script> @team | `x`",), name="a`b|c", base_name="a`b|c")
    text = markdown(replace(result, changes=(evil,)))
    assert "<script>" not in text
    assert "@team" not in text
    assert "`a'b\\|c`" in text
