"""Scripts as users of Kernel Tuner have them, with one import changed: they run without a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))


def changed(text):
    """One import is another one; the rest is as its user wrote it."""
    assert text.count("from kernel_tuner import tune_kernel\n") == 1
    return text.replace("from kernel_tuner import tune_kernel\n", "from lab import tune_kernel\n")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda one: one.stem)
def test_a_script_runs_with_one_import_changed(script, tmp_path):
    for source in script.parent.glob("*.cu"):
        (tmp_path / source.name).write_text(source.read_text())
    (tmp_path / script.name).write_text(changed(script.read_text()))
    done = subprocess.run(
        [sys.executable, script.name], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "best performing configuration: " in done.stdout
    assert "all configurations are verified" in done.stdout
