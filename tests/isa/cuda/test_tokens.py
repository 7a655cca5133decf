from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.isa.cuda.tokens import TokenKind, behind, live_tokens, tokens


def texts(source: str) -> list[str]:
    return [token.text for token in tokens(source)]


def test_words_numbers_and_punctuation():
    assert texts("a::b<3>(x->y, 1'000u, .5e-3f)...") == [
        *("a", "::", "b", "<", "3", ">", "(", "x", "->", "y", ",", "1'000u", ",", ".5e-3f", ")", "...")
    ]


def test_comments_strings_and_characters_hide_words():
    source = """a // b
    /* c
    d */ "e /* f" '"' g R"-(h )" "i)-" u8"j\\"k" l"""
    assert [token.text for token in tokens(source) if token.kind is TokenKind.WORD] == ["a", "g", "l"]


def test_a_preprocessor_line_is_one_token_even_over_several_lines():
    source = "#define A /* b\n c */ d \\\n e // f\nint x; # y\n  #  include <a//b>\n"
    directive, *rest = tokens(source)
    assert directive.kind is TokenKind.DIRECTIVE
    assert directive.text.startswith("#define A")
    assert "e" in directive.text
    assert [token.text for token in rest[:5]] == ["int", "x", ";", "#", "y"]
    assert rest[-1].kind is TokenKind.DIRECTIVE


def test_lines_and_offsets_are_those_of_the_source_before_lines_are_joined():
    source = "one\nt\\\nwo \\\n\n  three\n"
    one, two, three = tokens(source)
    assert (one.line, two.line, three.line) == (1, 2, 5)
    assert two.text == "two"
    assert source[two.start : two.end] == "t\\\nwo"
    assert source[three.start : three.end] == "three"


def test_open_comments_and_strings_end_with_the_text():
    for source in ('"abc', "'a", "/* a", 'R"(a', "#define A /* b", "\\", "//\\"):
        assert tokens(source) is not None


@given(st.text(alphabet=st.sampled_from(list("ab1 \n\\\"'/*#R()<>{};:.-\t\r")) | st.characters(), max_size=200))
def test_any_text_splits_into_ordered_tokens_that_stand_in_it(source):
    end = 0
    for token in tokens(source):
        assert end <= token.start < token.end <= len(source)
        assert token.line == source.count("\n", 0, token.start) + 1
        end = token.end
        if "\\" not in source[token.start : token.end]:
            assert source[token.start : token.end].rstrip() == token.text.rstrip()


def test_every_field_of_every_kind():
    source = '#if 1 // a\nx = u8"b" + \'c\' - 1e+3;\n"d" \\\n\\\ne\n'
    assert [(str(token.kind), token.text, token.line, token.start, token.end) for token in tokens(source)] == [
        ("directive", "#if 1", 1, 0, 6),
        ("word", "x", 2, 11, 12),
        ("punctuation", "=", 2, 13, 14),
        ("string", 'u8"b"', 2, 15, 20),
        ("punctuation", "+", 2, 21, 22),
        ("char", "'c'", 2, 23, 26),
        ("punctuation", "-", 2, 27, 28),
        ("number", "1e+3", 2, 29, 33),
        ("punctuation", ";", 2, 33, 34),
        ("string", '"d"', 3, 35, 38),
        ("word", "e", 5, 43, 44),
    ]


def test_a_word_that_goes_on_over_several_lines():
    [word, other] = tokens("a\\\n\\ \t\r\nb\\\nc d")
    assert (word.text, word.line, word.start, word.end) == ("abc", 1, 0, 12)
    assert (other.text, other.line, other.start, other.end) == ("d", 4, 13, 14)


def test_a_number_sign_begins_a_directive_only_where_a_line_begins():
    found = tokens("/* a */ #b\nc #d \\\n#e\n\n  #f")
    assert [(str(one.kind), one.text) for one in found] == [
        ("directive", "#b"), ("word", "c"), ("punctuation", "#"), ("word", "d"), ("punctuation", "#"), ("word", "e"),
        ("directive", "#f"),
    ]  # fmt: skip
    assert [one.start for one in found] == [8, 11, 13, 14, 18, 19, 24]


def test_a_raw_string_is_a_string():
    [raw, word] = tokens('LR"x(a)" )x"b')
    assert (str(raw.kind), raw.text, word.text) == ("string", 'LR"x(a)" )x"', "b")


@pytest.mark.parametrize(
    ("text", "opening", "expected"),
    [
        ("( a ) b", 0, 3),
        ("a ( ( b ) [ c ] ) d", 1, 9),
        ("( a", 0, 2),
        ("{ \n#if A\n { \n#else\n { \n#endif\n } } b", 0, 8),
        ("{ \n#if A\n } \n#elif B\n { { \n#endif\n b", 0, 3),
        ("{ \n#if A\n \n#elif B\n { \n#elif C\n { \n#endif\n } b", 0, 8),
        ("{ \n#if A\n \n#else\n \n#if B\n { \n#endif\n \n#endif\n } b", 0, 8),
        ("{ \n#else\n \n#endif\n } b", 0, 4),
    ],
)
def test_behind_a_bracket(text, opening, expected):
    assert behind(tokens(text), opening) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("#if 0\na\n#endif\nb", "b"),
        ("#if 1\na\n#endif\nb", "a b"),
        ("#if false\na\n#else\nb\n#endif\nc", "b c"),
        ("#if 0\na\n#elif X\nb\n#else\nc\n#endif\nd", "b c d"),
        ("#if 0\n#if 1\na\n#else\nb\n#endif\nc\n#endif\nd", "d"),
        ("#if X\n#if 0\na\n#endif\nb\n#else\nc\n#endif\nd", "b c d"),
        ("#endif\na\n#else\nb", "a b"),
        ("#if 0x\na\n#endif", "a"),
    ],
)
def test_what_a_condition_hides(text, words):
    assert " ".join(token.text for token in live_tokens(text) if not token.text.startswith("#")) == words


def test_both_ends_of_a_hidden_part_stay():
    assert [token.text for token in live_tokens("#if 0\na\n#define B\n#endif\n")] == ["#if 0", "#endif"]
