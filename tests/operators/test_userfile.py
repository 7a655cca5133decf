"""Python files that a user names: imported once, and their errors said in words."""

from __future__ import annotations

import pytest

from lab.base.errors import Location, UserError
from lab.operators.userfile import imported


def test_a_file_is_imported_once(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("value = []\n")
    module = imported(file, "./mine.py:f", None)
    assert imported(file, "./mine.py:f", None) is module
    assert imported(file, "./mine.py:f", None, "reference") is not module


def test_an_error_in_the_file_is_the_users(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("1 / 0\n")
    with pytest.raises(UserError) as caught:
        imported(file, "./mine.py:f", Location("x.yaml", 3), "reference")
    assert "the reference file cannot be imported: " in caught.value.message
    assert (caught.value.key, caught.value.at.line) == ("reference", 3)
