from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from lab.base.errors import CompileError, MissingToolError
from lab.base.executor import WorkerLostError
from lab.toolchain.command import run_tool

WORDS: Any = {"name": "mytool", "command": "mytool x", "install": "pip install mytool"}


def test_what_a_tool_prints_and_how_it_ends(tmp_path):
    script = "import os, sys; print(os.getcwd()); print('bad', file=sys.stderr); sys.exit(3)"
    status, log = run_tool([sys.executable, "-c", script], tmp_path, **WORDS)
    assert (status, log.split()) == (3, [str(tmp_path.resolve()), "bad"])


def test_a_tool_that_was_killed_has_refused_nothing(tmp_path):
    script = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    with pytest.raises(WorkerLostError, match="mytool was killed"):
        run_tool([sys.executable, "-c", script], tmp_path, **WORDS)


def test_a_tool_that_is_not_there(tmp_path):
    with pytest.raises(MissingToolError, match=r"cannot run mytool .*; install it: pip install mytool"):
        run_tool([str(tmp_path / "nothing")], tmp_path, **WORDS)


def test_a_tool_that_hangs(tmp_path, monkeypatch):
    def hang(arguments, *, timeout, **_):
        raise subprocess.TimeoutExpired(arguments, timeout)

    monkeypatch.setattr(subprocess, "run", hang)
    with pytest.raises(CompileError, match="mytool did not finish within 7 s") as caught:
        run_tool(["x"], tmp_path, timeout_s=7, **WORDS)
    assert caught.value.command == "mytool x"
