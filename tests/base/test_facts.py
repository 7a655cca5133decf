from __future__ import annotations

import pickle

import pytest

from lab.base.facts import Count, FactValue, Number, OperandError, Text, called, described, usage


def grown(text, by: Count, *, times: Number = 1, word: Text | None = None, loud: bool = False):
    return (text, by, times, word, loud)


class Word(FactValue):
    __slots__ = ()
    kind = "word"
    facts = {"letters": len}
    methods = {"grown": grown}

    @classmethod
    def read(cls, text):
        return text.upper()


def test_facts_are_looked_up_by_their_names():
    word = Word("abc")
    assert (word.fact("letters"), str(word)) == (3, "ABC")
    assert word.call("grown", [2], {"times": 1.5}) == ("ABC", 2, 1.5, None, False)
    assert Word("abc") == word
    assert hash(Word("abc")) == hash(word)
    assert pickle.loads(pickle.dumps(word)) == word  # noqa: S301 - made here


@pytest.mark.parametrize("name", ["upper", "__class__", "text", "read", "facts", "_unknown", "leters"])
def test_nothing_else_is_a_fact(name):
    with pytest.raises(OperandError, match=f"has no fact '{name}'") as caught:
        Word("abc").fact(name)
    assert caught.value.accepted == "letters, grown(by, *, times=1, word=None, loud=False)"
    with pytest.raises(OperandError, match=f"has no fact '{name}'"):
        Word("abc").call(name, [], {})
    assert name != "leters" or caught.value.suggestion == "did you mean 'letters'?"


def test_a_fact_is_asked_as_it_is_declared():
    with pytest.raises(OperandError, match="takes arguments"):
        Word("abc").fact("grown")
    with pytest.raises(OperandError, match="takes no arguments"):
        Word("abc").call("letters", [], {})


@pytest.mark.parametrize(
    ("arguments", "keywords", "words"),
    [
        ([], {}, "missing a required argument"),
        ([1, 2], {}, "too many"),
        ([1], {"by": 2}, "multiple values"),
        ([1], {"other": 2}, "unexpected keyword"),
        ([0], {}, "by is the number 0"),
        ([True], {}, "by is true"),
        ([2**31], {}, "by is the number 2147483648"),
        ([1.0], {}, "by is the number 1.0"),
        ([1], {"times": "a"}, "times is the text 'a'"),
        ([1], {"word": 3}, "word is the number 3"),
        ([1], {"loud": 1}, "loud is the number 1"),
    ],
)
def test_arguments_are_checked_against_the_signature(arguments, keywords, words):
    with pytest.raises(OperandError, match=words) as caught:
        Word("abc").call("grown", arguments, keywords)
    assert "grown(by, *, times=1, word=None, loud=False)" in caught.value.accepted


def test_what_a_function_raises_is_an_operand_error():
    with pytest.raises(OperandError, match=r"f: .*by zero"):
        called("f", lambda value: 1 // value, [0], {})
    assert usage("f", lambda value, *, other=2: value + other) == "f(value, *, other=2)"


def test_values_are_described_in_a_few_words():
    assert described("a" * 58) == f"the text '{'a' * 58}'"
    assert described("a" * 100) == f"the text 'a{'a' * 55}..."
    assert described(10**5000) == "a very large number"
    assert [described(value) for value in (None, True, (1,), Word("a"), object())] == [
        "none",
        "true",
        "the list (1,)",
        "a word",
        "a value that expressions do not support",
    ]
