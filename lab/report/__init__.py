"""Records to pages: `render` writes `index.html`, PNGs, `records.csv` and `records.json` of a run.

The report reads the store and the variants' files, and never runs anything.
"""

from lab.report.render import render

__all__ = ["render"]
