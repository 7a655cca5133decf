from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError

from lab.base.errors import UserError
from lab.base.validation import Strict, refusal, validate
from lab.base.yamlfile import parse


class Inner(Strict):
    width: int


class Outer(Strict):
    inner: list[Inner]


class Thing(Strict):
    kind: Literal["plain", "fancy"] = "plain"
    count: Annotated[int, Field(ge=1, le=9)] = 1
    share: float = Field(0.5, ge=0)
    most: int = Field(1, le=3)
    odd: int = Field(1, multiple_of=2)
    sizes: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    renamed: bool = Field(default=False, alias="values")


def refused(model: type[BaseModel], text: str) -> UserError:
    with pytest.raises(UserError) as caught:
        validate(model, parse(text, "f.yaml"))
    return caught.value


def test_a_schema_error_names_line_key_and_suggestion() -> None:
    missing = refused(Outer, "inner:\n  - width: 1\n  - widht: 2\n")
    assert (missing.at and missing.at.line, missing.message) == (3, "unknown key")
    extra = refused(Outer, "inner:\n  - width: 1\n  - width: 2\n    widht: 2\n")
    assert (extra.key, extra.at and extra.at.line) == ("inner[1].widht", 4)
    assert extra.suggestion == "did you mean 'width'?"
    wrong = refused(Outer, "inner:\n  - width: wide\n")
    assert (wrong.found, wrong.accepted) == ("wide", "an integer")


def test_only_a_mapping_is_a_document() -> None:
    assert refused(Outer, "[1, 2]\n").accepted == ["inner"]


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("kind: fanzy", ["plain", "fancy"]),
        ("count: 0", "an integer from 1 to 9"),
        ("count: true", "an integer from 1 to 9"),
        ("share: -1", "a number of at least 0"),
        ("most: 4", "an integer of at most 3"),
        ("odd: 3", "a multiple of 2"),
        ("sizes: {a: 0}", "at least 1"),
        ("sizes: {a: 1.5}", "an integer"),
        ("values: 1", "true or false"),
    ],
)
def test_a_wrong_value_says_what_is_accepted(text: str, accepted: object) -> None:
    error = refused(Thing, text)
    assert error.message == "wrong value"
    assert error.accepted == accepted


def test_a_misspelt_word_is_recognised() -> None:
    assert refused(Thing, "kind: fanzy").suggestion == "did you mean 'fancy'?"


def test_an_unknown_key_is_told_the_names_of_the_file_and_not_those_of_the_code() -> None:
    assert "values" in (refused(Thing, "renamed: true").accepted or ())
    assert "renamed" not in (refused(Thing, "renamed: true").accepted or ())


def test_a_missing_key_says_what_belongs_there() -> None:
    assert refused(Inner, "{}").accepted == "an integer"


def test_an_unknown_key_is_reported_before_a_missing_one() -> None:
    with pytest.raises(ValidationError) as caught:
        Inner.model_validate({"widht": 1})
    path, error = refusal(caught.value, Inner)
    assert (path, error.message) == (("widht",), "unknown key")


def test_all_mistakes_are_reported_at_once_in_the_order_of_their_lines() -> None:
    with pytest.raises(UserError) as caught:
        validate(Thing, parse("sizes: {a: 0}\ncuont: 3\nshare: -1.0\n", "f.yaml"))
    message = str(caught.value)
    assert message.index("f.yaml:1") < message.index("did you mean 'count'?") < message.index("f.yaml:3")


def test_a_misspelt_key_is_not_also_missing() -> None:
    with pytest.raises(UserError) as caught:
        validate(Outer, parse("iner: [{width: 1}]\n", "f.yaml"))
    assert "a key is missing" not in str(caught.value)
    assert "did you mean 'inner'?" in str(caught.value)


def test_alternatives_of_a_union_leave_no_trace_in_a_path() -> None:
    class Either(Strict):
        sizes: int | list[int]

    with pytest.raises(UserError) as caught:
        validate(Either, parse("sizes: [1, x]\n", "f.yaml"))
    assert "list[int]" not in str(caught.value)
    assert "key: sizes" in str(caught.value)
    mapping = refused(Either, "sizes: {x: 3}\n")
    assert (mapping.key, mapping.accepted) == ("sizes", "an integer or a list, in brackets")


def test_a_list_and_a_mapping_are_called_so_in_an_error() -> None:
    class Plural(Strict):
        names: list[str] = []
        values: dict[str, int] = {}
        sizes: str | Annotated[list[int], Field(max_length=3)] = ""

    assert refused(Plural, "names: sm_90\n").accepted == "a list, in brackets: [sm_90]"
    assert refused(Plural, "values: 3\n").accepted == "a mapping from names to values, such as {name: value}"
    assert refused(Plural, "sizes: [1, 2, 3, 4]\n").accepted == "text or a list of at most 3"
