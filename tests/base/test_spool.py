from __future__ import annotations

import pytest

from lab.base.spool import Spool


def test_values_come_back_as_copies_in_any_order():
    spool = Spool()
    values = {"a": [1, 2], 5: {"x": "long text " * 1000}, ("t", 1): None}
    for key, value in values.items():
        spool[key] = value
    spool["a"] = [3]
    assert {key: spool[key] for key in reversed(values)} == {**values, "a": [3]}
    assert spool["a"] is not spool["a"]
    assert len(spool) == 3
    assert 6 not in spool
    with pytest.raises(KeyError):
        spool[6]


def test_no_file_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    spool = Spool()
    spool["a"] = 1
    assert not [*tmp_path.iterdir()]
