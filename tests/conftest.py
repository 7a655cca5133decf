"""Fixtures that more than one room uses."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(Path(__file__).parent))  # for what the tests of several rooms share


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def benchmark_script(root: Path) -> Callable[[str], ModuleType]:
    """Loads a script of benchmarks/ by its name, as a module."""

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(name, root / "benchmarks" / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        found = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
        return found

    return load


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds are cached for one test session, and never among the user's."""
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))
