"""reports/: committed results are light, whole, and have no dead links."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from lab.store import published

REPORTS = Path(__file__).parents[1] / "reports"
CARDS = {"h200": "NVIDIA H200", "h100": "NVIDIA H100 80GB HBM3"}
"""Folder of committed results to the GPU that they were measured on."""
MOST_BYTES = 12 * 2**20


def of_card(folder: Path) -> str:
    """Return the folder of a card that a path lies in; for results that git ignores, some other name."""
    return folder.relative_to(REPORTS).parts[0]


FOLDERS = sorted(
    file.parent
    for file in REPORTS.rglob("provenance.json")
    if published.FULL not in file.parts and of_card(file) in CARDS
)
SHOWN = [folder for folder in FOLDERS if folder.parent.parent == REPORTS]
"""Those with charts; of groups of small experiments, records alone are kept."""
BLOCK = 4096  # of a file system: what a small file takes
MOST_PAGE_BYTES = 100_000


def committed() -> list[Path]:
    """Files of results that git keeps."""
    every = (path for card in CARDS for path in (REPORTS / card).rglob("*"))
    return [REPORTS / "README.md", *(path for path in every if path.is_file() and published.FULL not in path.parts)]


def links(page: Path) -> list[str]:
    """Return a page's external links and images, without fragments and inline data."""
    found = re.findall(r'(?:href|src)="([^"]*)"', page.read_text(encoding="utf-8"))
    return [link for link in found if link and not link.startswith(("#", "data:"))]


def test_all_reports_together_are_light():
    assert sum(-(-path.stat().st_size // BLOCK) * BLOCK for path in committed()) <= MOST_BYTES


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.relative_to(REPORTS).as_posix())
def test_a_report_has_what_the_whole_page_is_drawn_from(folder):
    assert published.is_published(folder)
    facts = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    assert facts["question"]
    assert facts["gpu"]["name"] == CARDS[of_card(folder)]
    assert (folder / "index.html").stat().st_size < MOST_PAGE_BYTES
    assert (folder in SHOWN) == bool(list(folder.glob("*.png")))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.relative_to(REPORTS).as_posix())
def test_no_link_of_a_page_is_dead(folder):
    found = links(folder / "index.html")
    assert found
    assert [link for link in found if not (folder / unquote(link.partition("#")[0])).is_file()] == []


def test_the_results_link_to_the_runs():
    results = REPORTS.parent / "docs" / "results" / "README.md"
    found = re.findall(r"\]\((\.\./\.\./reports/[^)#]*)", results.read_text(encoding="utf-8"))
    assert len(found) >= len(SHOWN) - 8
    assert [link for link in found if not (results.parent / link).exists()] == []


@pytest.mark.parametrize(
    "folder",
    [path for path in FOLDERS if (path / published.RECORDS).is_file()],
    ids=lambda path: path.relative_to(REPORTS).as_posix(),
)
def test_records_are_those_of_the_provenance(folder):
    kept = published.read_records(folder)
    facts = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    assert (kept.run.started, kept.run.commit) == (facts["started"], facts["commit"])
    assert kept.records
    assert len({record.variant for record in kept.records}) == len(kept.records)
    assert set(published.read_listings(folder)) <= {record.variant for record in kept.records}
