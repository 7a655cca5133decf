"""Equal pictures are drawn once: most reports that tests write are of the same few runs."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from lab.report import render
from lab.report.charts import png
from lab.report.charts.definition import Picture


@pytest.fixture(scope="package", autouse=True)
def _equal_pictures_are_drawn_once() -> Iterator[None]:
    known: dict[bytes, bytes] = {}

    def draw(picture: Picture, folder: Path) -> Path:
        key = pickle.dumps(picture)
        if key not in known:
            known[key] = png.draw(picture, folder).read_bytes()
        file = folder / picture.file
        file.write_bytes(known[key])
        return file

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(render, "png", SimpleNamespace(draw=draw))
        yield
