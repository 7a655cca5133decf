"""`benchmarks/readme_tables.py`: the README's tables are those of the committed results."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def readme_tables(benchmark_script):
    return benchmark_script("readme_tables")


def test_the_readme_has_todays_tables(readme_tables, root):
    made, readme = readme_tables.tables(), (root / "README.md").read_text()
    assert all(text.count("\n") >= 4 for text in made.values())  # a head, a rule, two rows
    for name, text in made.items():
        shown = f"{readme_tables.START.format(name)}{text}{readme_tables.END}"
        assert shown in readme, "run: python benchmarks/readme_tables.py"
    assert readme_tables.filled(readme, made) == readme


def test_only_what_stands_between_the_markers_is_replaced(readme_tables):
    start, end = readme_tables.START.format("ladder"), readme_tables.END
    text = f"before\n{start}old\n{end}\nafter\n"
    assert readme_tables.filled(text, {"ladder": "new\n"}) == f"before\n{start}new\n{end}\nafter\n"


def test_the_figure_is_a_picture(readme_tables, tmp_path):
    found = readme_tables.winners(readme_tables.H200 / "gemm_winners")
    assert (found["measured_tflops"] > 0).all()
    assert not found.duplicated(["size", "problem.layout"]).any()
    readme_tables.gemm_figure(found, tmp_path / "gemm.png")
    assert (tmp_path / "gemm.png").read_bytes().startswith(b"\x89PNG")
