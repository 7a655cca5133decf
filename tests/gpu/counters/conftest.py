"""A profiler that is played."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

SUPPORT = Path(__file__).parents[2] / "support"


@pytest.fixture
def fake_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nsight Compute's command; the environment variable FAKE_NCU says how it behaves."""
    script = tmp_path / "ncu"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{SUPPORT / "fake_ncu.py"}" "$@"\n')
    script.chmod(0o755)
    monkeypatch.delenv("FAKE_NCU", raising=False)
    return script
