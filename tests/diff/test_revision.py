from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab.base.errors import UserError
from lab.diff.revision import checked_out, is_revision, merge_base, run_build


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", "-C", folder, *identity, *words], check=True, capture_output=True, text=True).stdout  # noqa: S607


@pytest.fixture
def repository(tmp_path):
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "k.cu").write_text("first")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    git(tmp_path, "checkout", "-qb", "change")
    (tmp_path / "k.cu").write_text("second")
    git(tmp_path, "commit", "-qam", "second")
    return tmp_path


def test_files_of_a_revision(repository):
    assert is_revision("main", repository)
    assert not is_revision("nothing", repository)
    assert not is_revision("--help", repository)
    with checked_out("main", repository) as folder:
        assert (folder / "k.cu").read_text() == "first"
    assert not folder.exists()
    assert git(repository, "status", "--porcelain") == ""
    with pytest.raises(UserError), checked_out("nothing", repository):
        pass


def test_merge_base(repository):
    assert merge_base("main", "change", repository) == git(repository, "rev-parse", "main").strip()
    with pytest.raises(UserError):
        merge_base("main", "nothing", repository)


def test_a_build(tmp_path):
    run_build("echo built > out", tmp_path, "HEAD")
    assert (tmp_path / "out").read_text() == "built\n"
    with pytest.raises(UserError) as caught:
        run_build("echo why; exit 3", tmp_path, "HEAD")
    assert (caught.value.code, caught.value.key) == ("user-code", "--build")
    assert "why" in caught.value.found
