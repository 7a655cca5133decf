"""`benchmarks/score_agreement.py`: the score held against the committed times."""

from __future__ import annotations

from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "score.md"


def test_a_row_compares_within_and_over_problems(benchmark_script):
    script = benchmark_script("score_agreement")
    first = [script.Point("a", float(10 + i), float(20 + i), 100.0) for i in range(5)]
    second = [script.Point("b", float(100 - i), float(200 + i), 100.0) for i in range(5)]
    row = script.row_of("both", [*first, *second])
    assert (row.n, row.before) == (10, None)
    assert row.within == pytest.approx(0)
    assert row.worst_loss == pytest.approx(0.04)
    assert row.loss == pytest.approx(0.02)
    agreeing = [agrees for _, agrees in script.ordered([*first, *second])]
    assert (len(agreeing), sum(agreeing)) == (20, 10)


def test_the_score_ranks_what_the_ceiling_could_not(benchmark_script):
    script = benchmark_script("score_agreement")
    points_by_report = {name: script.points_of(name) for name in ("copy_mapping", "transpose_mapping", "contraction")}
    rows = {name: script.row_of(name, points) for name, points in points_by_report.items()}
    assert rows["copy_mapping"].before is None
    assert rows["copy_mapping"].now > 0.75
    assert rows["transpose_mapping"].now > 0.75
    assert rows["contraction"].now > rows["contraction"].before + 0.1
    assert rows["contraction"].within > 0.45
    beyond = [
        agrees for points in points_by_report.values() for apart, agrees in script.ordered(points) if apart >= 0.05
    ]
    assert sum(beyond) / len(beyond) > 0.8


def test_the_page_is_the_scripts(benchmark_script):
    script = benchmark_script("score_agreement")
    text = PAGE.read_text(encoding="utf-8")
    row = script.row_of("copy_mapping", script.points_of("copy_mapping"))
    assert f"| copy_mapping | {row.n} |  | {row.now:.2f} |" in text


def test_first_picks_reach_nine_tenths_with_most_kernels_of_a_users_own(benchmark_script):
    script = benchmark_script("score_agreement")
    own, later = ([script.first_pick(name) for name in names] for names in (script.OWN, script.LATER))
    assert sum(one.reached >= 0.9 for one in own) >= 6
    assert sum(one.reached >= 0.9 for one in later) >= 9
    for one in (*own, *later):
        assert one.reached >= 0.5
        assert 1 <= one.ties <= one.n
