"""Reports of runs have small pictures here: what they look like is the matter of tests/report."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.report.charts import png


@pytest.fixture(scope="package", autouse=True)
def _pictures_are_small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(png, "DPI", 40)
        yield
