from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base.errors import ReaderError
from lab.isa.ptx.ptx_text import Cursor, OperandReader, PtxText

WORD = re.compile(r"\s*+(\w++)", re.ASCII)


def test_comments_become_blanks_and_lines_stay() -> None:
    text = PtxText("a // b\n/* c\n d */e", "k.ptx")
    assert text.text.split() == ["a", "e"]
    assert [text.line(text.text.index(name)) for name in "ae"] == [1, 3]


def test_strings_hide_comments_and_comments_hide_strings() -> None:
    assert PtxText('"// kept" x', "k.ptx").text == '"// kept" x'
    assert PtxText('// "not kept\nx', "k.ptx").text.strip() == "x"


def test_a_closing_nul_and_a_byte_order_mark_are_dropped() -> None:
    assert PtxText("\ufeffret;\0", "k.ptx").text == "ret;"


@pytest.mark.parametrize(("text", "line"), [("a\n/* b", 2), ('a\n\n"b\n', 3)])
def test_what_does_not_end_is_refused(text: str, line: int) -> None:
    with pytest.raises(ReaderError, match=rf"^k\.ptx:{line}: a string or a comment does not end"):
        PtxText(text, "k.ptx")


@given(st.text(alphabet="ab/*\n \t", max_size=60))
def test_lines_are_those_of_the_original(original: str) -> None:
    try:
        text = PtxText(original, "k.ptx")
    except ReaderError:
        return
    assert text.text.count("\n") == original.count("\n")


def test_a_cursor_takes_what_matches_and_stays_otherwise() -> None:
    cursor = Cursor(PtxText("one two", "k.ptx"))
    first = cursor.take(WORD)
    assert first is not None
    assert first[1] == "one"
    assert cursor.take(re.compile(r"\d")) is None
    assert cursor.need(WORD, "a word")[1] == "two"
    assert not cursor.skip_blanks()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n  ; rest", "k.ptx:2: expected a word, found '; rest'"),
        ("", "k.ptx:1: expected a word, found the end of the text"),
    ],
)
def test_an_error_says_what_was_expected_and_found(text: str, message: str) -> None:
    with pytest.raises(ReaderError) as caught:
        Cursor(PtxText(text, "k.ptx")).need(WORD, "a word")
    assert str(caught.value) == message


def test_integers() -> None:
    cursor = Cursor(PtxText("x", "k.ptx"))
    assert cursor.integer(" 4*8+1 ") == 33
    with pytest.raises(ReaderError, match=r"'1\.5' is not an integer"):
        cursor.integer("1.5")


@pytest.mark.parametrize(
    ("text", "operands"),
    [
        ("", ()),
        (" \n", ()),
        ("%r1, %r2", ("%r1", "%r2")),
        ("[%rd1+ 16] ,{%f1,%f2}", ("[%rd1+ 16]", "{%f1,%f2}")),
        ("(a,\n b), f", ("(a, b)", "f")),
    ],
)
def test_operand_lists(text: str, operands: tuple[str, ...]) -> None:
    reader = OperandReader()
    assert reader.split(text) == operands
    assert reader.split(text) == operands  # from what it remembers


@pytest.mark.parametrize("text", ["%r1,", ",", "%r1,,%r2", "%r1 %r2", "[%r1", "{%r1,%r2", "(a", "a)", "%r1;"])
def test_what_is_no_operand_list(text: str) -> None:
    assert OperandReader().split(text) is None


def test_a_refused_list_is_not_remembered() -> None:
    reader = OperandReader()
    assert reader.split("%r1, %r2 %r3") is None
    assert reader.split("%r1") == ("%r1",)
    assert reader.split("%r2 %r3") is None


def test_lines_of_positions() -> None:
    text = PtxText("a\n\nb", "k.ptx")
    assert [text.line(position) for position in range(4)] == [1, 1, 2, 3]


def test_a_comment_within_a_line_leaves_a_blank() -> None:
    assert PtxText("a/*b*/c//d\ne", "k.ptx").text == "a c \ne"
    assert PtxText("a/*\n\n*/c", "k.ptx").text == "a\n\nc"
    assert PtxText("a / b", "k.ptx").text == "a / b"
    assert PtxText('a "b" /**/ c', "k.ptx").text == 'a "b"   c'


def test_a_failure_at_the_end_names_the_last_line() -> None:
    cursor = Cursor(PtxText("a\nb\n", "k.ptx"))
    cursor.need(WORD, "a word")
    assert cursor.skip_blanks()
    cursor.need(WORD, "a word")
    assert not cursor.skip_blanks()
    with pytest.raises(ReaderError) as caught:
        cursor.need(WORD, "a word")
    assert str(caught.value) == "k.ptx:2: expected a word, found the end of the text"


def test_a_failure_quotes_40_characters_of_its_line() -> None:
    with pytest.raises(ReaderError) as caught:
        Cursor(PtxText(f" ;{'x' * 60}\n;", "k.ptx")).fail("wrong")
    assert str(caught.value) == f"k.ptx:1: wrong, found ';{'x' * 39}'"
    with pytest.raises(ReaderError, match=f"'{'y' * 40}' is not an integer"):
        Cursor(PtxText("x", "k.ptx")).integer(f" {'y' * 50} ")


def test_what_is_remembered_of_operands_is_what_was_read() -> None:
    reader = OperandReader()
    assert reader.split("%r1,%r2 ,  [a + 4]") == ("%r1", "%r2", "[a + 4]")
    assert reader.split("%r2 ,%r1") == ("%r2", "%r1")
    assert reader.split(" %r1, %r2") == ("%r1", "%r2")
    assert reader.split("%r1,") is None
    assert reader.split("{%r1,  %r2},(a)") == ("{%r1, %r2}", "(a)")
    assert reader.split("{%r1,  %r2},(a)") == ("{%r1, %r2}", "(a)")
