from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib import image

from lab.library.checked_sizes import CheckedSize
from lab.measured.timing import Samples
from lab.report.tuning import checked_png


def row(layout: str, ms: float | None) -> CheckedSize:
    ours = Samples((ms,)) if ms else None
    return CheckedSize(layout, (64, 100, 1000), "k", None, ours, Samples((1.0,)), "warm", 0.0, "")


@pytest.mark.usefixtures("painted")
@pytest.mark.parametrize("layouts", [["nn"], ["nn", "tn"]])
def test_a_panel_for_each_layout(tmp_path: Path, layouts: list[str]) -> None:
    rows = [row(layout, ms) for layout in layouts for ms in (0.5, 1.0, 2.0, None)]
    made = checked_png.draw(rows, tmp_path / "check.png", "a library against cuBLAS")
    pixels = image.imread(made)
    assert pixels.shape[1] > pixels.shape[0] * len(layouts)
    assert len(set(map(bytes, pixels[::7, ::7].reshape(-1, pixels.shape[2])))) > 10  # something is drawn
