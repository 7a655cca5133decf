"""Fixtures that more than one room uses."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(Path(__file__).parent))  # for what the tests of several rooms share


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds are cached for one test session, and never among the user's."""
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))
