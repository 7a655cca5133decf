from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from planted_tuning import GPU, LABEL, SIZES, invented, plant

from lab.report.tuning.data import TuningAnalysis, analyse
from lab.report.tuning.gains import MOST_GAINS, flop_per_byte, gains
from lab.report.tuning.render import page
from lab.report.tuning.tuning_rows import charts_of
from lab.store.tuning import TuningStore


@pytest.fixture
def analysis(tmp_path: Path) -> TuningAnalysis:
    with TuningStore(plant(tmp_path, GPU)) as store:
        return analyse(store)


def with_tiles(analysis: TuningAnalysis, **parameters: int) -> TuningAnalysis:
    types = tuple(
        replace(one, kernels=tuple(replace(c, facts=replace(c.facts, parameters=parameters)) for c in one.kernels))
        for one in analysis.types
    )
    return replace(analysis, types=types)


@pytest.mark.parametrize(
    ("tile", "ratio"),
    [((128, 128), 32), ((36, 48), 10), ((64, 16), 6), ((128, 64), 21), ((16, 16), 4), ((48, 36), 10)],
)
def test_the_ratio_is_the_papers(tile: tuple[int, int], ratio: int) -> None:
    assert int(flop_per_byte(tile, "float32")) == ratio
    assert flop_per_byte(tile, "float64") == flop_per_byte(tile, "float32") / 2


def test_the_highest_gain_comes_first(analysis: TuningAnalysis) -> None:
    # invented: the single-tuned kernel takes half as long again everywhere; here one size gains more
    (one,) = analysis.types
    last = replace(one.winners[-1], single_ms=7 * one.winners[-1].ms)
    size_gains = gains(replace(analysis, types=(replace(one, winners=(*one.winners[:-1], last)),)))
    assert len(size_gains) == len(SIZES)
    assert size_gains[0].winner.size == SIZES[-1]
    assert size_gains[0].over_single == pytest.approx(7)
    assert [gain.winner.size for gain in size_gains[1:]] == list(SIZES[:-1])
    m, n, k = SIZES[-1]
    assert size_gains[0].gflops == pytest.approx(2 * m * n * k / invented("large", m, n) / 1e6)
    assert size_gains[0].single_gflops == pytest.approx(size_gains[0].gflops / 7)
    assert (size_gains[0].type, size_gains[0].tile, size_gains[0].flop_per_byte) == (LABEL, None, None)


def test_a_size_without_the_single_tuned_kernel_gains_nothing(analysis: TuningAnalysis) -> None:
    (one,) = analysis.types
    bare = tuple(replace(winner, single_ms=None) for winner in one.winners)
    assert gains(replace(analysis, types=(replace(one, winners=bare),))) == ()


def test_the_page_shows_as_many_as_the_paper(analysis: TuningAnalysis) -> None:
    (one,) = with_tiles(analysis, block_m=128, block_n=64).types
    many = replace(analysis, types=(replace(one, winners=one.winners * 10),))
    html = page(many, charts_of(many), ())
    table = re.search(r'aria-label="Table of sizes that gain most">(.*?)</table>', html, re.DOTALL)
    assert table
    rows = re.findall(r"<tr><td>(.*?)</tr>", table[1], re.DOTALL)
    assert len(rows) == MOST_GAINS
    m, n, k = SIZES[0]
    fast, single = (2 * m * n * k / invented(name, m, n) / 1e6 for name in ("small", "one"))
    cells = re.sub(r"<[^>]+>", " ", rows[0]).split()
    assert cells == [
        LABEL,
        "16",
        "16",
        "512",
        "128x64",
        "21.3",
        f"{single:.4g}",
        f"{fast:.4g}",
        "1.50",
        "2.00",
        "small",
    ]
    assert f"{10 * len(SIZES) - MOST_GAINS} more sizes" in html


def test_a_run_without_a_single_tuned_kernel_has_no_such_table(analysis: TuningAnalysis) -> None:
    (one,) = analysis.types
    bare = tuple(replace(winner, single_ms=None) for winner in one.winners)
    bare_analysis = replace(analysis, types=(replace(one, winners=bare),))
    assert "gain most" not in page(bare_analysis, charts_of(bare_analysis), ())
