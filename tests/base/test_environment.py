from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from lab.base import environment
from lab.base.version import COMMIT_FILE


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    for known in (environment.packages, environment.commit):
        known.cache_clear()
    yield
    for known in (environment.packages, environment.commit):
        known.cache_clear()


def test_packages_that_are_not_installed_are_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name != "numpy":
            raise metadata.PackageNotFoundError(name)
        return "2.1.0"

    monkeypatch.setattr(metadata, "version", version)
    assert environment.packages() == {"numpy": "2.1.0"}


def test_python_names_interpreter_system_and_machine() -> None:
    words = environment.python().split()
    assert len(words) == 5
    assert words[2] == "on"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit, whose `lab/base/environment.py` is asked."""
    git = shutil.which("git")
    if git is None:
        pytest.skip("needs git")
    module = tmp_path / "lab" / "base" / "environment.py"
    module.parent.mkdir(parents=True)
    module.write_text("")
    monkeypatch.setattr(environment, "__file__", str(module))
    for words in (["init"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-m", "one"]):
        subprocess.run([git, "-C", str(tmp_path), *words], check=True, capture_output=True)
    return module


def test_the_commit_of_a_clean_checkout(checkout: Path) -> None:
    found = environment.commit()
    assert len(found) == 12
    assert int(found, 16) >= 0


def test_changes_make_the_commit_dirty(checkout: Path) -> None:
    checkout.write_text("changed")
    assert environment.commit().endswith("+dirty")


def test_an_installed_package_has_the_commit_that_its_wheel_was_built_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "__file__", str(tmp_path / "lab" / "base" / "environment.py"))
    assert environment.commit() == ""
    environment.commit.cache_clear()
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / COMMIT_FILE).write_text("0123456789ab\n")
    assert environment.commit() == "0123456789ab"


def test_without_git_there_is_no_commit(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert environment.commit() == ""


def test_a_folder_that_looks_like_a_checkout_has_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.setattr(environment, "__file__", str(tmp_path / "lab" / "base" / "environment.py"))
    assert environment.commit() == ""


def test_an_extra_is_installed_from_the_clone_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert environment.install_command("gpu") == "python -m pip install -e '.[gpu]'"
    monkeypatch.setattr(environment, "in_clone", lambda: False)
    required = ["numpy>=2.0", "pycuda>=2025.1; extra == 'gpu'", "ruff>=0.8; extra == 'dev'", "ml; extra == 'gpu'"]
    monkeypatch.setattr(metadata, "requires", lambda name: required if name == "lab" else None)
    assert environment.install_command("gpu") == "python -m pip install 'pycuda>=2025.1' ml"
