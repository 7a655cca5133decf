"""`benchmarks/peak_loss.py`: shares of the peak, and the table of docs/results/sgemm-peak.md."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def peak_loss(benchmark_script):
    return benchmark_script("peak_loss")


@pytest.mark.parametrize(
    ("block_m", "block_n", "threads", "occupancy", "share"),
    [
        (256, 128, 256, 0.125, 2048 / (16 * 132)),  # a block an SM
        (128, 128, 256, 0.25, 4096 / (16 * 264)),  # two
        (8192, 8192, 256, 0.125, 1 / 132),  # one tile
        (4097, 8192, 256, 0.125, 2 / 132),  # sides that do not divide
    ],
)
def test_rounds_count_the_places_of_whole_rounds(peak_loss, block_m, block_n, threads, occupancy, share):
    assert peak_loss.rounds(block_m, block_n, threads, occupancy) == pytest.approx(share)


def test_the_page_has_the_table_of_the_committed_runs(peak_loss, root):
    page = (root / "docs" / "results" / "sgemm-peak.md").read_text(encoding="utf-8")
    _, _, rest = page.partition("<!-- table: peak loss -->\n")
    assert rest.partition("\n<!-- end table -->")[0].splitlines() == list(peak_loss.lines())
