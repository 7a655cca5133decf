"""Every variant's figures of committed results, a row each: the `records.csv` of the whole page."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import pandas as pd

from lab.report.analysis import analyse, load
from lab.report.render import csv_of
from lab.store import published
from lab.store.database import Store


def rows(folder: Path) -> pd.DataFrame:
    """Read committed results of an experiment.

    Raises:
        StoreError: `folder` holds none, or they are damaged or of another schema.
    """
    with tempfile.TemporaryDirectory() as temporary:
        published.restore(folder, Path(temporary))
        with Store(Path(temporary)) as store:
            analysis = analyse(store.run(), *load(store), store.repeat())
    return pd.read_csv(io.StringIO(csv_of(analysis)))
