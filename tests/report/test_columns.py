"""One column by itself."""

from __future__ import annotations

import pytest

from lab.measured.timing import Kind
from lab.report.columns import Column, row, table


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [
        (".1%", 0.8734, "87.3%"),
        (",d", 12345, "12,345"),
        (".3f", None, ""),
        ("", True, "true"),
        (".2f", False, "false"),
        (".2f", "none", "none"),
        ("", 3, "3"),
    ],
)
def test_a_value_is_shown_in_its_columns_format(form, value, text):
    assert Column("x", "x", Kind.STATIC, lambda _: value, format=form).text(value) == text


def test_the_header_has_the_unit_and_a_share_is_known_by_its_format():
    time = Column("ms", "median time", Kind.MEASURED, lambda _: 1.0, "ms", ".4f")
    share = Column("share", "FMA share", Kind.STATIC, lambda _: 0.5, format=".1%")
    assert (time.header, share.header) == ("median time (ms)", "FMA share")
    assert share.is_share
    assert not time.is_share


def test_rows_are_by_name_and_cells_by_key(make):
    record = make("hostile").records()[0]
    columns = (
        Column("p.<script>", "<script>", None, lambda _: 1, field="parameter_0"),
        Column("kernel", "kernel", None, lambda r: r.kernel),
    )
    assert row(record, columns) == {"p.<script>": 1, "kernel": record.kernel}
    (cells,) = table([record], columns)
    assert cells == {"parameter_0": 1, "kernel": record.kernel}
