"""`benchmarks/report_index.py`: the index of reports/ is current, has every run, and no dead link."""

from __future__ import annotations

import re

import pytest


@pytest.fixture(scope="module")
def report_index(benchmark_script):
    return benchmark_script("report_index")


def test_the_index_is_current(report_index):
    assert report_index.PAGE.read_text() == report_index.page(), "run: python benchmarks/report_index.py"


def test_the_index_has_every_run_and_no_dead_link(report_index):
    links = re.findall(r'\]\(([^)]+)\)|src="([^"]+)"', report_index.PAGE.read_text())
    targets = {link or image for link, image in links}
    folders = [
        path.parent for card in ("h200", "h100") for path in (report_index.REPORTS / card).rglob("provenance.json")
    ]
    pages = {
        (folder / "index.html").relative_to(report_index.REPORTS).as_posix()
        for folder in folders
        if "full" not in folder.parts
    }
    assert pages <= targets
    assert [target for target in targets if not (report_index.REPORTS / target).is_file()] == []


def test_a_row_has_chart_question_and_answer(report_index, tmp_path, monkeypatch):
    monkeypatch.setattr(report_index, "REPORTS", tmp_path)
    run = tmp_path / "h200" / "sum_rows"
    run.mkdir(parents=True)
    (run / "provenance.json").write_text('{"question": "Is a|b fast?"}')
    (run / "index.html").write_text(
        '<p class="headline">5 GB/s</p><p>sum is the fastest &amp; best. rows 1 to 2: +3 %.</p>'
    )
    assert list(report_index.section("h200"))[-2] == (
        "| [sum_rows](h200/sum_rows/index.html) | **Is a\\|b fast?** 5 GB/s. sum is the fastest & best. |"
    )
    (run / "model.png").touch()
    (run / "curve.png").touch()
    row = list(report_index.section("h200"))[-2]
    assert row.startswith('| <img src="h200/sum_rows/curve.png"')
    (run / "index.html").write_text("<p>Times.</p><p>Over cuBLAS: 1.1, faster at 3 sizes.</p>")
    assert "Over cuBLAS: 1.1, faster at 3 sizes." in list(report_index.section("h200"))[-2]
