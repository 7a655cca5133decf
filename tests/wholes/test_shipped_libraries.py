"""The libraries in `libraries/`: whole, small, and found by their names."""

from __future__ import annotations

from pathlib import Path

import pytest
from library_support import random_sizes
from typer.testing import CliRunner

from lab.cli.main import app
from lab.library import dispatch
from lab.library.archive import SHIPPED, stored
from lab.library.package import TimesKind

FOLDER = Path(__file__).parents[2] / "libraries"
NAMES = sorted(folder.name for folder in FOLDER.iterdir() if folder.is_dir())


def test_there_is_one() -> None:
    assert FOLDER == SHIPPED
    assert "h200_sgemm" in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_library_is_whole_and_small(name: str) -> None:
    assert sum(file.stat().st_size for file in (FOLDER / name).iterdir()) <= 8 << 20
    for one in stored(name):
        assert {kernel.cubin for kernel in one.library.kernels} == set(one.cubins)
        assert all(data.startswith(b"\x7fELF") for data in one.cubins.values())
        assert one.library.times is TimesKind.MEASURED
        assert one.library.held_out is not None
        assert len(one.library.measured) > 100


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_library_picks_for_any_size_and_says_why(name: str) -> None:
    loaded = dispatch.load(name)
    assert isinstance(loaded, dispatch.LayoutDispatcher)
    assert set(loaded.layouts) == {"nn", "nt", "tn", "tt"}
    for layout in loaded.layouts:
        for m, n, k in (random_sizes(50, 3) % 20_000 + 1).tolist():
            assert loaded.select(m, n, k, layout=layout)
            assert loaded.workspace_bytes(m, n, k, layout=layout) >= 0
    told = CliRunner().invoke(app, ["library", "explain", name, "997", "13", "1"])
    assert told.exit_code == 0
    assert told.output.count("because") == 4


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_library_says_where_it_comes_from(name: str) -> None:
    text = (FOLDER / name / "README.md").read_text(encoding="utf-8")
    assert "lab tune experiments/" in text
    assert "commit" in text
