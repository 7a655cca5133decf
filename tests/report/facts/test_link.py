"""The link of mix and throughput: its axis, its paths and its correlations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from narrowing import known
from scipy import stats

from lab.predict.variant_scores import lean
from lab.report.analysis import analyse
from lab.report.facts.link import FEWEST, correlation, moving_axis, paths
from lab.store import published

ROOT = Path(__file__).parents[3]
UNROLL = ROOT / "reports" / "h200" / "gemm_unroll"


@pytest.fixture(scope="module")
def unrolled():
    kept = published.read_records(UNROLL)
    return analyse(kept.run, tuple(map(lean, kept.records)), {})


def test_the_axis_is_a_figure_that_the_parameter_moves(unrolled):
    (pairs, *_) = [level.effect.pairs for level in unrolled.swept_effects[0].levels]
    assert unrolled.swept_effects[0].name == "unroll"
    assert unrolled.link.x.name == "sass_fma_share"
    still = [axis for axis in unrolled.axes if axis.title.endswith("fma : ld.shared")]
    assert still
    assert moving_axis(pairs, still, unrolled.run.question) is None


def test_a_figure_that_the_question_names_comes_first(unrolled):
    pairs = unrolled.swept_effects[1].levels[0].effect.pairs  # a wider vector moves all of them
    assert unrolled.swept_effects[1].name == "vector_width"
    assert known(moving_axis(pairs, unrolled.axes, "What happens to fma : ld.shared?")).title == "SASS fma : ld.shared"
    assert known(moving_axis(pairs, unrolled.axes, "What happens to the FMA share?")).title == "SASS FMA share"


def test_correlations_are_spearmans_within_groups_and_over_all(unrolled):
    link, of = unrolled.link, unrolled.response.of
    assert link.by.name == "vector_width"
    for records, correlated in [
        (unrolled.records, link.pooled),
        *(
            ([r for r in unrolled.records if r.parameters["vector_width"] == group.value], group.correlation)
            for group in link.groups
        ),
    ]:
        wanted = stats.spearmanr([link.x.get(record) for record in records], [of(record) for record in records])
        assert correlated.rho == pytest.approx(wanted.statistic)
        assert correlated.interval[0] < correlated.rho < correlated.interval[1]
    (sentence,) = link.sentences(unrolled.response)
    assert sentence in unrolled.answer.text
    for group in link.groups:
        assert f"{group.correlation.rho:+.2f}" in sentence


@pytest.mark.parametrize("page", ["README.md", "docs/results/README.md"])
def test_the_figures_in_the_readme_are_those_of_the_picture(unrolled, page):
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    pooled = unrolled.link.pooled
    low, high = pooled.interval
    assert f"{pooled.rho:.2f} (" in text
    assert f"{low:.2f} to {high:.2f}) over {pooled.n} variants" in text
    within = [f"{group.correlation.rho:.2f}" for group in unrolled.link.groups]
    assert f"{within[0]}, {within[1]} and {within[2]}" in text
    gains = dict(unrolled.swept_effects[0].at(4).modifier.within)
    assert f"gains {abs(gains[4].ratio - 1):.0%}".replace("%", " %") in text
    assert f"costs {abs(gains[1].ratio - 1):.0%}".replace("%", " %") in text


def test_a_path_differs_in_the_parameter_alone_and_follows_its_values(unrolled):
    assert len(unrolled.link.paths) == 12
    for path in unrolled.link.paths:
        assert [record.parameters["unroll"] for record in path] == [1, 2, 4, 8]
        assert len({tuple(v for k, v in record.parameters.items() if k != "unroll") for record in path}) == 1
    assert paths(unrolled.records[:1], "unroll") == ()


def test_too_few_variants_and_constant_figures_are_not_correlated(unrolled):
    x, response = unrolled.link.x, unrolled.response
    assert correlation(unrolled.records[: FEWEST - 1], x, response) is None
    alike = [replace(record, sass=unrolled.records[0].sass) for record in unrolled.records]
    assert correlation(alike, x, response) is None
    assert correlation(unrolled.records[:FEWEST], x, response) is not None


def test_failed_variants_are_not_correlated(make):
    store = make("failures")
    analysed = analyse(store.run(), store.records(), {})
    assert known(analysed.link.pooled).n == sum(not record.status.failed for record in analysed.records)
