from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.base.importing import without

ROOT = Path(__file__).parents[2]
PLANTED = (
    "altair",
    "numpy",
    "pandas",
    "jinja2",
    "typer",
    "rich",
    "ruamel",
    "pydantic",
    "filelock",
    "tempfile",
)


def test_the_working_directory_is_left_out_unless_lab_is_there():
    path = ["", "/work", "/lib", "."]
    assert without("/work", path, home="/lib") == ["/lib"]
    assert without("/work", path, home="/work") == path


@pytest.fixture
def planted(tmp_path):
    for name in PLANTED:
        (tmp_path / f"{name}.py").write_text(
            f"import os\nos.close(os.open({str(tmp_path / 'ran')!r}, os.O_CREAT))\nraise SystemExit('{name}')\n"
        )
    (tmp_path / "small.yaml").write_text(
        "question: Does it run?\noperator: gemm\nproblem: {m: 32, n: 32, k: 8}\narchs: [sm_90]\nkernels:\n"
        "  - template: gemm/tiled.cu.j2\n"
        "    parameters: {block_m: 32, block_n: 32, block_k: 8, thread_m: 4, thread_n: 4}\n"
    )
    return tmp_path


@pytest.mark.parametrize("words", [["inspect", "small.yaml"], ["run", "small.yaml", "--no-gpu", "--no-emulate"]])
def test_nothing_of_the_working_directory_is_imported_here_or_in_workers(planted, words):
    done = subprocess.run(
        [sys.executable, "-m", "lab", *words],
        cwd=planted, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not (planted / "ran").exists()
