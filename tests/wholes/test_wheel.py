"""The wheel: light, complete, and usable outside of a clone."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from lab.base.environment import commit
from lab.base.version import VERSION

MOST_BYTES = 4 * 2**20


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    (built,) = WheelBuilder(str(root)).build(directory=str(folder), versions=["standard"])
    return Path(built)


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """A folder that the wheel is unpacked into, as `pip install --target` does."""
    folder = wheel.parent / "site"
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


def lab(installed: Path, tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lab", *words],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_wheel_is_light_and_has_the_experiments_without_the_libraries(wheel: Path) -> None:
    assert wheel.stat().st_size < MOST_BYTES
    names = zipfile.ZipFile(wheel).namelist()
    for name in ("experiments/gemm_unroll.yaml", "experiments/plain/vector_add.cu", "kernel_src/gemm/tiled.cu.j2"):
        assert f"lab/shipped/{name}" in names
    assert not [name for name in names if "libraries/" in name or "__pycache__" in name]


def test_the_libraries_are_a_distribution_of_their_own(root: Path, tmp_path: Path) -> None:
    (built,) = WheelBuilder(str(root / "libraries")).build(directory=str(tmp_path), versions=["standard"])
    assert Path(built).name.startswith(f"lab_libraries-{VERSION}-")
    names = zipfile.ZipFile(built).namelist()
    archives = {path.relative_to(root).as_posix() for path in (root / "libraries").rglob("*.tar.xz")}
    assert archives
    assert {f"lab/shipped/{name}" for name in archives} <= set(names)


def test_a_source_archive_is_light(root: Path, tmp_path: Path) -> None:
    (built,) = SdistBuilder(str(root)).build(directory=str(tmp_path), versions=["standard"])
    assert Path(built).stat().st_size < MOST_BYTES


def test_the_version_of_an_installed_wheel_has_the_commit(installed: Path, tmp_path: Path) -> None:
    done = lab(installed, tmp_path, "--version")
    assert (commit().partition("+")[0] or "unknown commit") in done.stdout


def test_an_experiment_runs_by_its_name_without_a_clone(installed: Path, tmp_path: Path) -> None:
    done = lab(installed, tmp_path, "inspect", "vector_add", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('"variant"') == 6
    wrong = lab(installed, tmp_path, "run", "gemm_unrol")
    assert wrong.returncode == 2
    assert "gemm_unroll" in wrong.stderr
    assert "Traceback" not in wrong.stderr


def test_doctor_names_no_clone_where_there_is_none(installed: Path, tmp_path: Path) -> None:
    done = lab(installed, tmp_path, "doctor", "--json")
    assert "pycuda>=" in done.stdout or '"found": true' in done.stdout.partition("PyCUDA")[2][:40]
    assert "-e '.[" not in done.stdout
