"""The version that records carry."""

from __future__ import annotations

import tomllib

import lab
from lab.base.version import VERSION


def test_it_is_the_version_of_the_package(root):
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert project["version"] == lab.__version__ == VERSION
