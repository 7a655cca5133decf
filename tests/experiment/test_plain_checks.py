from __future__ import annotations

import pytest

from lab.base import yamlfile
from lab.base.errors import UserError
from lab.base.validation import validate
from lab.experiment.plain_checks import (
    MOST_SOURCE_BYTES,
    PlainReading,
    axes_of,
    baseline_of,
    check_constraints,
    check_emulated,
    type_of,
)
from lab.experiment.schema import PlainFile

FILE = """source: k.cu
problem: {n: 64}
arguments: {c: "out float32[n]"}
parameters: {a: [1, 2, 1], b: {range: [2, 6, 2]}}
"""


@pytest.fixture
def reading(tmp_path):
    def reading(text=FILE):
        document = yamlfile.parse(text, tmp_path / "k.yaml")
        return PlainReading(validate(PlainFile, document), document)

    return reading


def test_parameters_have_each_value_once(reading):
    assert axes_of(reading()) == {"a": (1, 2), "b": (2, 4, 6)}


def test_mistakes_are_kept_and_reading_goes_on(reading):
    file_reading = reading(FILE.replace("[1, 2, 1]", "[1, two]").replace("b:", "n:"))
    assert list(axes_of(file_reading)) == ["a", "n"]
    with file_reading.noting():
        raise UserError("one more", code="wrong-value")
    assert [mistake.message for mistake in file_reading.mistakes] == [
        "the values are of several types",
        "a parameter and a field of the problem have one name",
        "one more",
    ]
    assert file_reading.mistakes[0].at.line == 4


def test_constraints_and_sizes_name_what_is_known(reading):
    file_reading = reading(f"{FILE}constraints: [a < c]\nemulate: {{m: 4}}\n")
    check_constraints(file_reading, {"a", "b", "n"})
    check_emulated(file_reading)
    assert [mistake.key for mistake in file_reading.mistakes] == ["constraints[0]", "emulate.m"]


def test_a_baseline_is_a_setting_of_the_parameters(reading):
    axes = axes_of(reading())
    assert baseline_of(reading(f"{FILE}baseline: {{a: 2}}\n"), axes) == {"a": 2}
    file_reading = reading(f"{FILE}baseline: {{a: 3, d: 1}}\n")
    assert baseline_of(file_reading, axes) == {}
    assert [mistake.key for mistake in file_reading.mistakes] == ["baseline.a", "baseline.d"]


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "no such file"), (b" " * (MOST_SOURCE_BYTES + 1), "at most")],
)
def test_a_source_that_cannot_be_had(reading, tmp_path, content, why):
    if content is not None:
        (tmp_path / "k.cu").write_bytes(content)
    file_reading = reading()
    assert file_reading.text("k.cu") is None
    assert why in str(file_reading.mistakes[0])


def test_a_comment_in_latin_1_is_read(reading, tmp_path):
    (tmp_path / "k.cu").write_bytes(b"// temp\xe9rature\n")
    assert reading().text("k.cu") == "// temp\u00e9rature\n"


def test_a_link_to_nothing_is_told_as_one(reading, tmp_path):
    (tmp_path / "k.cu").symlink_to("gone.cu")
    file_reading = reading()
    assert file_reading.text("k.cu") is None
    assert (file_reading.mistakes[0].found, file_reading.mistakes[0].accepted) == ("k.cu, a link to gone.cu", None)


@pytest.mark.parametrize(("values", "name"), [((1, 2), "int"), ((1, 2.5), "float"), ((True,), "bool"), (("a",), "str")])
def test_types_of_parameters(values, name):
    assert type_of(values) == name
