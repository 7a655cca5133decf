"""Write reports/README.md: every committed run with a thumbnail, its question and its answer.

python benchmarks/report_index.py

The thumbnails are the runs' own charts, scaled by the page. Question and answer are those of each run's page.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
REPORTS = ROOT / "reports"
PAGE = REPORTS / "README.md"
GROUPS = {
    "h200": "NVIDIA H200",
    "h100": "NVIDIA H100",
    "h200/plain": "Plain CUDA kernels on the H200",
    "h200/others": "Kernels from elsewhere on the H200",
    "h200/micro": "Microbenchmarks on the H200",
    "h100/micro": "Microbenchmarks on the H100",
}
"""Folder to its heading. `micro`, `plain` and `others` keep records without charts."""

_HEAD = """\
<!-- made by benchmarks/report_index.py; do not edit -->
# Committed results

Each line is a run on a real card: its question, and its answer in the words of its page. Open a page in a browser;
`lab report reports/h200/NAME` draws the whole one, with every variant, from the records beside it. [The
results](../docs/results/README.md) say what follows from them.
"""


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)


def page() -> str:
    """Return the text of the page."""
    return "\n".join([_HEAD, *(line for group in GROUPS for line in section(group)), ""])


def section(group: str) -> Iterator[str]:
    """The table of one folder's runs, by name; with thumbnails where runs have charts."""
    runs = sorted(file.parent for file in (REPORTS / group).glob("*/provenance.json"))
    charts = [next(iter(sorted(run.glob("*.png"), key=_preference)), None) for run in runs]
    yield f"## {GROUPS[group]}\n"
    first = "| | " if any(charts) else "| "
    yield f"{first}run | question and answer |\n{first.replace('| |', '| --- |')}--- | --- |"
    for run, chart in zip(runs, charts, strict=True):
        image = f'<img src="{_path(chart)}" width="220" loading="lazy" alt="">' if chart else ""
        row = f"| [{run.name}]({_path(run / 'index.html')}) | **{_cell(question(run))}** {_cell(answer(run))} |"
        yield f"| {image} {row}" if any(charts) else row
    yield ""


def question(run: Path) -> str:
    """Return the question of a run."""
    return str(json.loads((run / "provenance.json").read_text(encoding="utf-8"))["question"])


def answer(run: Path) -> str:
    """Return the answer of a run's page: headline and first sentence; of a tuning run, the comparison with cuBLAS."""
    text = (run / "index.html").read_text(encoding="utf-8")
    headline = re.search(r'<p class="headline">(.*?)</p><p>(.*?)</p>', text)
    if headline:
        return _plain(f"{headline[1]}. {_first_sentence(headline[2])}")
    paragraphs = re.findall(r"<p>(.*?)</p>", text)
    return _plain(next((paragraph for paragraph in paragraphs if paragraph.startswith("Over cuBLAS")), paragraphs[-1]))


def _first_sentence(words: str) -> str:
    return re.split(r"(?<=\.)\s+(?=[a-z_]+ |\Z)", words, maxsplit=1)[0]


def _plain(markup: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", markup)).strip()


def _cell(words: str) -> str:
    return words.replace("|", "\\|").replace("*", "\\*").replace("_", "\\_")


def _path(file: Path) -> str:
    return file.relative_to(REPORTS).as_posix()


def _preference(chart: Path) -> tuple[bool, bool, str]:
    # an error plot says least about the answer, a row per variant is too tall for a thumbnail
    return chart.stem in {"model", "mix"}, chart.stem not in {"ratios", "ratio_vs_throughput"}, chart.name


if __name__ == "__main__":
    main()
