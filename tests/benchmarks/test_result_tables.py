"""`benchmarks/result_tables.py`: the tables of docs/results/README.md are those of the committed results."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def result_tables(benchmark_script):
    return benchmark_script("result_tables")


def test_the_results_have_todays_tables(result_tables, root):
    made, page = result_tables.tables(), (root / "docs" / "results" / "README.md").read_text()
    assert all(text.count("\n") >= 4 for text in made.values())  # a head, a rule, two rows
    for name, text in made.items():
        shown = f"{result_tables.START.format(name)}{text}{result_tables.END}"
        assert shown in page, "run: python benchmarks/result_tables.py"
    assert result_tables.filled(page, made) == page


def test_only_what_stands_between_the_markers_is_replaced(result_tables):
    start, end = result_tables.START.format("ladder"), result_tables.END
    text = f"before\n{start}old\n{end}\nafter\n"
    assert result_tables.filled(text, {"ladder": "new\n"}) == f"before\n{start}new\n{end}\nafter\n"


def test_the_figure_is_a_picture(result_tables, tmp_path):
    found = result_tables.winners(result_tables.H200 / "gemm_winners")
    assert (found["measured_tflops"] > 0).all()
    assert not found.duplicated(["size", "problem.layout"]).any()
    result_tables.gemm_figure(found, tmp_path / "gemm.png")
    assert (tmp_path / "gemm.png").read_bytes().startswith(b"\x89PNG")
