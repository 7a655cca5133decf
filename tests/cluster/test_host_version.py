"""Which lab runs where."""

from __future__ import annotations

import dataclasses

from lab.cluster.host_version import difference, identity


def test_a_lab_is_the_same_as_itself() -> None:
    assert difference(identity(), identity(), "w") == ""


def test_another_version_code_or_python_is_named() -> None:
    for key, value in (("version", "9.9"), ("code", "000000000000"), ("python", "2.7")):
        said = difference(identity(), dataclasses.replace(identity(), **{key: value}), "tcp://h:1")
        assert value in said
        assert "tcp://h:1" in said
        assert "install the same" in said
