"""Put what a reader needs of a run into the repository: a small page, PNGs, provenance, and records in few bytes.

python benchmarks/publish.py reports/gemm_ladder reports/h200/gemm_ladder
python benchmarks/publish.py reports/h200/gemm_ladder reports/h200/gemm_ladder

python benchmarks/publish.py --redraw reports/h200/gemm_ladder

The first argument is a directory of `lab run` or `lab tune`, or a folder of committed results, to draw them again with
today's program. `lab report reports/h200/gemm_ladder` draws the whole page from what is committed. `--redraw` replaces
page and pictures of a run alone, and leaves records and listings as they are.

Every record is kept. Listings are kept of the best variants, as many as fit, and how often each of their lines was
executed; of the pictures those that the page shows first, as many as fit. A tuning run's libraries are not kept: their
machine code is larger than all the rest. What was left out is printed, and stands on the page and in provenance.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from small_page import caption_place, html, of_run, of_tuning  # the module beside this one

from lab.recorded.run_records import VariantRecord
from lab.report.analysis import Analysis, analyse, load
from lab.report.charts.png import draw
from lab.report.gallery import ROOFLINE, chart_list, pictures
from lab.report.render import render
from lab.report.tuning.data import analyse as analyse_tuning
from lab.report.tuning.render import render as render_tuning
from lab.report.variant.listings import published_texts
from lab.store import figures, published
from lab.store.codec import record_to_json
from lab.store.database import Store
from lab.store.tuning import FACTS, TuningStore
from lab.store.tuning import FILE as TUNING_STORE

ROOT = Path(__file__).resolve().parents[1]

MOST_LISTING_BYTES = 24_000
"""Bytes that the compressed listings of a run may take: some 100 runs are committed, in 12 MB all together."""

MOST_PICTURE_BYTES = 58_000
"""Bytes that the pictures of an experiment may take."""

MOST_MAP_BYTES = 250_000
"""Bytes that the maps of a tuning run may take, which has little else to show."""

WHOLE_PAGE_ALONE = "Pictures that are drawn with the whole page alone: "

NO_LINES = "Records of variants without listings do not say how often each PTX line was executed."

_SMALL = 8_000_000
"""Characters of listings that are compressed all at once, in the hope that they fit."""

_OF_TUNING_ALONE = ("final", "singles", "libraries")
"""Facts of a tuning run that a program reads, and no reader; tuning.json.xz has them."""


def publish(
    source: Path, target: Path, most_listing_bytes: int = MOST_LISTING_BYTES, *, with_pictures: bool = True
) -> tuple[str, ...]:
    """Write the committed form of a run.

    Args:
        source: A directory of `lab run` or `lab tune`, or a folder of committed results. A missing report is drawn.
        target: Where it goes; the files of an earlier call are replaced. It may be `source` if that holds committed
            results.
        most_listing_bytes: Of the compressed listings.
        with_pictures: Whether the PNGs of an experiment are kept.

    Returns:
        What was left out, as sentences.

    Raises:
        StoreError: `source` holds no run, or cannot be read.
    """
    with tempfile.TemporaryDirectory() as temporary:
        staging = Path(temporary) / "made"
        staging.mkdir()
        run = source
        if published.is_published(source):
            run = Path(temporary) / "run"
            published.restore(source, run)
        if (run / TUNING_STORE).exists():
            left_out = _tuning_run(run, staging, target)
        else:
            left_out = _run(run, staging, target, most_listing_bytes, with_pictures=with_pictures)
        _replace(target, staging)
    return left_out


def _run(run: Path, staging: Path, target: Path, most_listing_bytes: int, *, with_pictures: bool) -> tuple[str, ...]:
    with Store(run) as store:
        if not (run / "index.html").exists():
            render(store)  # it was restored, or interrupted while it drew its report
        facts, earlier = store.run(), tuple(store.noted(published.LEFT_OUT) or ())
        records, different = load(store)
        analysis = analyse(facts, records, different, store.repeat())
        texts = _listings(store, analysis, most_listing_bytes)
        left_out = earlier
        if len(texts) < len(records):
            which = f"{len(texts)} of {len(records)} variants, {_kind(texts, analysis)}" if texts else "no variant"
            left_out = (*earlier, f"Listings are kept of {which}.")
        every = store.records()
        kept = tuple(record if record.variant in texts else _without_lines(record) for record in every)
        if kept != every and NO_LINES not in earlier:
            earlier, left_out = (*earlier, NO_LINES), (*left_out, NO_LINES)
        published.write_records(published.PublishedRun(facts, kept, store.repeat(), earlier), staging)
        published.write_listings(texts, staging)
        if with_pictures:
            left_out = (*left_out, *_pictures(run, staging, MOST_PICTURE_BYTES))
        _provenance({**record_to_json(facts), published.LEFT_OUT: left_out}, staging)
        (staging / "index.html").write_text(html(of_run(analysis), staging, left_out, _place(target)), encoding="utf-8")
    return left_out


def redraw(folder: Path, most_picture_bytes: int = MOST_PICTURE_BYTES) -> tuple[str, ...]:
    """Draw page and pictures of a run's committed results again, and leave its other files as they are.

    Args:
        folder: The committed results of a run.
        most_picture_bytes: Of the pictures.

    Returns:
        What the committed results lack, as sentences.
    """
    provenance = folder / "provenance.json"
    facts = json.loads(provenance.read_text(encoding="utf-8"))
    left_out = tuple(sentence for sentence in facts[published.LEFT_OUT] if not sentence.startswith(WHOLE_PAGE_ALONE))
    with tempfile.TemporaryDirectory() as temporary:
        run, drawn = Path(temporary) / "run", Path(temporary) / "drawn"
        drawn.mkdir()
        published.restore(folder, run)
        with Store(run) as store:
            records, different = load(store)
            analysis = analyse(store.run(), records, different, store.repeat())
        had_pictures = any(folder.glob("*.png"))
        for old in folder.glob("*.png"):
            old.unlink()
        if had_pictures:
            for picture in pictures(analysis, chart_list(analysis)):
                draw(picture, drawn)
            left_out = (*left_out, *_pictures(drawn, folder, most_picture_bytes))
    _provenance({**facts, published.LEFT_OUT: left_out}, folder)
    (folder / "index.html").write_text(html(of_run(analysis), folder, left_out, _place(folder)), encoding="utf-8")
    return left_out


def _without_lines(record: VariantRecord) -> VariantRecord:
    """A record without the executions of lines, which mean nothing without the listing that they are lines of."""
    if record.emulation is None or not record.emulation.lines:
        return record
    return replace(record, emulation=replace(record.emulation, lines=()))


def _listings(store: Store, analysis: Analysis, most_bytes: int) -> dict[str, dict[str, str]]:
    """Texts of the best variants, then of failed ones, then of the others, as many as fit."""
    best = figures.ranked(analysis.records, analysis.response)
    first = {record.variant for record in best}
    rest = sorted(
        (record for record in analysis.records if record.variant not in first), key=lambda r: not r.status.failed
    )
    every: dict[str, dict[str, str]] = {}
    for record in (*best, *rest):
        if texts := published_texts(store, store.record(record.variant)):
            every[record.variant] = texts
    return _fitting(every, most_bytes)


def _kind(kept: Collection[str], analysis: Analysis) -> str:
    """Describe the published variants; the best one may be missing when its files were lost."""
    best = [record.variant for record in figures.ranked(analysis.records, analysis.response)][: len(kept)]
    return "the best ones" if all(variant in kept for variant in best) else "the best ones that have files"


def _fitting(texts: Mapping[str, dict[str, str]], most_bytes: int) -> dict[str, dict[str, str]]:
    """The longest beginning whose archive is small enough, found by halving."""
    names = list(texts)

    def cut(count: int) -> dict[str, dict[str, str]]:
        return {name: texts[name] for name in names[:count]}

    fits, too_many = 0, len(names) + 1
    size = sum(len(text) for files in texts.values() for text in files.values())
    guess = len(names) if size <= _SMALL else min(1, len(names))  # compressing many listings takes minutes
    while too_many - fits > 1:
        if len(published.archive(cut(guess))) <= most_bytes:
            fits, guess = guess, min(2 * guess, (guess + too_many) // 2)
        else:
            too_many, guess = guess, (fits + guess) // 2
    return cut(fits)


def _tuning_run(run: Path, staging: Path, target: Path) -> tuple[str, ...]:
    left_out: tuple[str, ...] = ("The libraries are not kept.", "Samples are rounded to five digits.")
    with TuningStore(run) as store:
        if not (run / "index.html").exists():
            render_tuning(store)
        published.write_tuning(store, staging)
        (staging / published.WINNERS).write_bytes(published.compressed((run / "winners.csv").read_bytes()))
        left_out = (*left_out, *_pictures(run, staging, MOST_MAP_BYTES))
        every = FACTS.dump_python(store.facts(), mode="json")
        facts = {name: value for name, value in every.items() if name not in _OF_TUNING_ALONE}
        _provenance({**facts, published.LEFT_OUT: left_out}, staging)
        page = of_tuning(analyse_tuning(store))
        (staging / "index.html").write_text(html(page, staging, left_out, _place(target)), encoding="utf-8")
    return left_out


def _pictures(run: Path, staging: Path, most_bytes: int) -> tuple[str, ...]:
    """Copy the pictures that fit, in the order in which the page shows them; say so if some do not."""
    every = sorted(run.glob("*.png"), key=lambda file: (caption_place(file.stem), file.name))
    wanted = [file for file in every if file.name != ROOFLINE]  # a committed folder has little room
    for file in wanted:
        if _size([*staging.glob("*.png"), file]) <= most_bytes:
            shutil.copyfile(file, staging / file.name)
    missing = [file.stem for file in wanted if not (staging / file.name).exists()]
    return (f"{WHOLE_PAGE_ALONE}{', '.join(missing)}.",) if missing else ()


def _provenance(facts: Mapping[str, Any], staging: Path) -> None:
    text = json.dumps(facts, indent=1, ensure_ascii=False) + "\n"
    (staging / "provenance.json").write_text(text, encoding="utf-8")


def _place(target: Path) -> str:
    """The folder as it is named from the root of the repository, or its name alone outside of it."""
    full = target.resolve()
    return full.relative_to(ROOT).as_posix() if full.is_relative_to(ROOT) else target.name


def _replace(target: Path, staging: Path) -> None:
    """Let a folder hold these files and none that an earlier call wrote."""
    target.mkdir(parents=True, exist_ok=True)
    for old in target.iterdir():
        if old.is_file():
            old.unlink()
    for file in sorted(staging.iterdir()):
        shutil.copyfile(file, target / file.name)


def _size(files: Sequence[Path]) -> int:
    return sum(file.stat().st_size for file in files)


def main() -> None:
    """Publish, and say what was left out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="a run directory, or a folder of committed results")
    parser.add_argument(
        "target", type=Path, nargs="?", help="the folder of committed results; by default the first one"
    )
    parser.add_argument("--redraw", action="store_true", help="replace page and pictures alone")
    parser.add_argument("--pictures", type=int, default=MOST_PICTURE_BYTES, help="bytes that the pictures may take")
    parser.add_argument("--bare", action="store_true", help="keep records alone: no listings, and no PNGs")
    given = parser.parse_args()
    target = given.target or given.source
    most = 0 if given.bare else MOST_LISTING_BYTES
    if given.redraw:
        left_out = redraw(target, given.pictures)
    else:
        left_out = publish(given.source, target, most, with_pictures=not given.bare)
    for sentence in left_out:
        print(sentence)
    files = [file for file in target.iterdir() if file.is_file()]
    print(f"{target}: {len(files)} files, {_size(files) / 2**20:.2f} MiB")


if __name__ == "__main__":
    main()
