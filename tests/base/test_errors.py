from __future__ import annotations

from pathlib import Path

import pytest

from lab.base.errors import CompileError, LabError, Location, ReaderError, UserError, did_you_mean, together


@pytest.mark.parametrize(
    ("location", "text"),
    [
        (Location("a.yaml"), "a.yaml"),
        (Location(Path("folder/a.yaml"), 3), "folder/a.yaml:3"),
        (Location("a.yaml", 3, 7), "a.yaml:3:7"),
    ],
)
def test_a_location_is_written_as_editors_read_it(location: Location, text: str) -> None:
    assert str(location) == text


def test_a_user_error_lists_what_is_known() -> None:
    error = UserError(
        "unknown key", code="unknown-key",
        at=Location("a.yaml", 3), key="kernels[0]", found="blok", accepted=("block", 7),
        suggestion="did you mean 'block'?",
    )  # fmt: skip
    assert str(error).split("\n") == [
        "a.yaml:3: unknown key",
        "  key: kernels[0]",
        "  found: 'blok'",
        "  accepted: block, 7",
        "  suggestion: did you mean 'block'?",
    ]


def test_a_user_error_leaves_out_what_is_not_known() -> None:
    assert str(UserError("no such file", code="wrong-value")) == "no such file"


def test_false_and_empty_values_were_found() -> None:
    assert "found: ''" in str(UserError("wrong value", code="wrong-value", found=""))
    assert "found: False" in str(UserError("wrong value", code="wrong-value", found=False))


def test_accepted_text_is_a_phrase_and_not_its_letters() -> None:
    assert "  accepted: at most 4" in str(UserError("too large", code="wrong-value", accepted="at most 4"))


def test_a_reader_error_names_the_line() -> None:
    error = ReaderError("this statement cannot be read", Location("k.ptx", 12))
    assert str(error) == "k.ptx:12: this statement cannot be read"
    assert error.at.line == 12


def test_a_compile_error_keeps_log_and_command() -> None:
    error = CompileError("k.cu(1): error", "all of the log", "nvcc k.cu")
    assert isinstance(error, LabError)
    assert (str(error), error.log, error.command) == ("k.cu(1): error", "all of the log", "nvcc k.cu")


def test_only_near_names_are_suggested() -> None:
    assert did_you_mean("unrol", ["unroll", "block"]) == "did you mean 'unroll'?"
    assert did_you_mean("zzz", ["unroll", "block"]) is None
    assert did_you_mean("unroll", []) is None


@pytest.mark.parametrize("found", ["x" * 100_000, 16**100_000, ["y" * 50] * 1000], ids=["text", "integer", "list"])
def test_a_long_value_is_quoted_in_part(found):
    assert len(str(UserError("wrong", code="wrong-value", found=found))) < 400


def test_a_value_of_300_characters_is_quoted_whole() -> None:
    assert str(UserError("wrong", code="wrong-value", found="x" * 298)) == f"wrong\n  found: '{'x' * 298}'"
    assert f"found: '{'x' * 299}… (301 characters)" in str(UserError("wrong", code="wrong-value", found="x" * 299))


def test_several_mistakes_stand_in_the_order_of_their_lines_those_without_one_first() -> None:
    third, first = (UserError(f"in {line}", code="wrong-value", at=Location("f", line)) for line in (3, 1))
    file, nowhere = UserError("in all", code="wrong-value", at=Location("f")), UserError("nowhere", code="wrong-value")
    assert str(together([third, first, third])) == "f:1: in 1\nf:3: in 3"
    assert str(together([third, first, file])) == "f: in all\nf:1: in 1\nf:3: in 3"
    assert str(together([third, first, nowhere])) == "nowhere\nf:1: in 1\nf:3: in 3"
    assert together([first, first]) is first


def test_a_name_in_other_capitals_is_close():
    assert did_you_mean("N", ["m", "n"]) == "did you mean 'n'?"


def test_keys_below_others() -> None:
    one, other = UserError("wrong", code="wrong-value", key="grid"), UserError("wrong, too", code="wrong-value")
    assert one.below("kernels[1]").key == "kernels[1].grid"
    both = together([one, other]).below("kernels[1]")
    assert "key: kernels[1].grid" in str(both)
    assert str(both).endswith("key: kernels[1]")
