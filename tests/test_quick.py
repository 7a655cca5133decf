"""`.ci/quick`: which tests a change can reach."""

from __future__ import annotations

import importlib.machinery
import importlib.util

import pytest

SOURCES = {
    "lab/base/low.py": "",
    "lab/isa/middle.py": "from lab.base import low",
    "lab/cli/high.py": "import lab.isa.middle as m",
    "lab/cli/apart.py": "",
    "benchmarks/speed.py": "from lab.cli.high import run",
    "tests/support/played.py": "from lab.cli.apart import x",
    "tests/base/test_low.py": "from lab.base.low import x",
    "tests/cli/test_high.py": "from lab.cli.high import x",
    "tests/cli/test_apart.py": "import played",
    "tests/benchmarks/test_speed.py": "",
}


@pytest.fixture(scope="module")
def quick(root):
    loader = importlib.machinery.SourceFileLoader("quick", str(root / ".ci" / "quick"))
    spec = importlib.util.spec_from_loader("quick", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture
def tests_for(quick, tmp_path, monkeypatch):
    for name in (
        *SOURCES,
        "tests/test_readme.py",
        "tests/wholes/test_tutorials.py",
        "tests/test_house.py",
        "tests/on_gpu/test_card.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    monkeypatch.setattr(quick, "ROOT", tmp_path)
    return lambda *changed: set(quick.tests_for(list(changed), SOURCES)) - {"tests/test_house.py"}


def test_tests_are_found_at_any_distance(tests_for):
    assert tests_for("lab/base/low.py") == {"tests/base/test_low.py", "tests/cli/test_high.py"}
    assert tests_for("lab/cli/high.py") == {"tests/cli/test_high.py"}
    assert tests_for("lab/cli/apart.py") == {"tests/cli/test_apart.py"}
    assert tests_for("tests/support/played.py") == {"tests/cli/test_apart.py"}
    assert tests_for("tests/base/test_low.py") == {"tests/base/test_low.py"}
    assert tests_for("benchmarks/speed.py") == {"tests/benchmarks/test_speed.py"}


def test_files_that_are_not_python_have_tests_of_their_folder(tests_for):
    assert tests_for("docs/explanation/verdict.md") == {"tests/test_readme.py", "tests/wholes/test_tutorials.py"}
    assert tests_for("COPYING") == set()


def test_what_every_test_shares_runs_them_all(quick):
    assert quick.tests_for(["tests/conftest.py"], SOURCES) == ["tests"]


def test_the_texts_of_all_modules_are_always_checked(quick, root):
    assert set(quick.tests_for([], {})) == set(quick.ALWAYS)
    assert all((root / name).is_file() for name in quick.ALWAYS)
    assert all((root / test).exists() for tests in quick.BY_FOLDER.values() for test in tests)
