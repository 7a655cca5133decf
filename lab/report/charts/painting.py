"""Draw a picture in any process, without importing the page's modules, which takes a second."""

from __future__ import annotations

from pathlib import Path

from lab.report.charts.definition import Picture


def draw_picture(picture: Picture, folder: Path) -> Path:
    """Draw a picture; matplotlib is imported only here."""
    from lab.report.charts import png  # noqa: PLC0415 - it takes the better part of a second

    return png.draw(picture, folder)
