"""`benchmarks/texts.py`: texts that stand beside the checkout, and pieces of their listings."""

from __future__ import annotations

import pytest

ONE = "namespace one // see\n{\nint a;\n}; // namespace one\n"
LISTING = f"before\n{ONE}between\nnamespace two {{\nint b;\n}} // namespace two\n"


@pytest.fixture(scope="module")
def texts(benchmark_script):
    return benchmark_script("texts")


def test_a_text_that_is_not_here_names_the_variable(texts, tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_TEXTS", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="LAB_TEXTS"):
        texts.read(texts.SGEMM)
    (tmp_path / texts.SGEMM).write_text("text")
    assert texts.read(texts.SGEMM) == "text"


def test_namespaces_are_cut_by_their_closing_comment(texts):
    assert texts.cut_namespaces(LISTING, "one") == ONE
    assert texts.cut_namespaces(LISTING, "two", "one").count("namespace two") == 2
    with pytest.raises(ValueError, match="three"):
        texts.cut_namespaces(LISTING, "three")


def test_a_piece_is_replaced_behind_a_place(texts):
    assert texts.replaced("x k( x x", "x", "y", after="k(") == "x k( y y"
    assert texts.replaced("x x", "x", "y") == "y y"
    for old, after in (("z", ""), ("x", "nowhere"), ("k", "k(")):
        with pytest.raises(ValueError, match=repr(old)):
            texts.replaced("x k( x", old, "y", after=after)
