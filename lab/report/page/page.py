"""Write `index.html`, one file that works offline, from the template, style sheet and script beside this module."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import lru_cache
from hashlib import sha256
from importlib import metadata, resources
from pathlib import Path
from typing import Any, Final

import vl_convert
from altair import SCHEMA_VERSION
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lab.base.files import write_atomically
from lab.base.folder import Folder
from lab.measured.timing import CardState, Kind
from lab.recorded.run_records import Status, VariantRecord
from lab.report.analysis import Analysis
from lab.report.aside import HERE, Aside
from lab.report.charts import rows as chartdata
from lab.report.charts import style
from lab.report.charts.definition import Row
from lab.report.charts.vega import PageChart
from lab.report.columns import Column, Value
from lab.report.facts import repeatability
from lab.report.facts.agreement import loss
from lab.report.facts.effect_rows import effect_rows, largest_gains
from lab.report.facts.screen import screen_rows
from lab.report.gallery import MIX_ORDER
from lab.report.page.csp import policy
from lab.report.variant.advised import advice_on, advice_rows
from lab.report.variant.faults import findings_of
from lab.report.variant.listings import (
    BUDGET,
    FILES,
    Packed,
    highlight_yaml,
    opcode_classes,
    pack,
    pack_variants,
    unpack,
)
from lab.store.database import Store, variant_folder
from lab.store.figures import by_problem, ranked
from lab.toolchain.cache import default_folder

TEMPLATE: Final = "page/page.html.j2"

LOG_LINES = 12
"""Log lines of a failed variant shown in the table of failures."""

PROBLEMS_A_PAGE = 12
"""Rows per page of the table of problems."""

REPEAT: Final = ("repeat", "index.html")
"""The report of the second run, relative to the first one's."""

SCRIPTS: Final = ("diff.js", "filter.js", "page.js")
"""The page's script in parts; each part uses those before it."""

_NAMES: Final = {**FILES, "provenance": "provenance.json"}
"""Content of a variant's file to its name."""

PAGE_BYTES: Final = 1_500_000
"""Size of a page up to some 400 variants."""
FIXED_BYTES: Final = 600_000
"""Bytes of a page without variants: its text, and the program that draws its charts."""
VARIANT_BYTES: Final = 1_600
"""Bytes that the figures of a variant take."""
LEAST_BUDGET: Final = 150_000
"""Bytes for the listings of the best variants, whatever else the page holds."""

MOST_LOGS = 50
"""Most failed variants whose logs are shown; the others keep their reason."""


def page(
    analysis: Analysis,
    *,
    charts: Sequence[PageChart],
    store: Store,
    folder: Path,
    pngs: Sequence[str],
    budget: int | None = None,
    aside: Aside = HERE,
) -> str:
    """Return the HTML of the page.

    Args:
        analysis: Everything derived from the records.
        charts: Interactive charts.
        store: Where the variants' files are read.
        folder: Where the page will be written; it links only to files that exist below this folder.
        pngs: Names of the PNGs beside the page.
        budget: Bytes that embedded listings may take; by default what a page of `PAGE_BYTES` has left.
        aside: Where listings are prepared.
    """
    best = ranked(analysis.records, analysis.response)
    packed = pack_variants(store, analysis.records, best, _budget(analysis) if budget is None else budget, aside)
    used = {segment.cls for segment in analysis.slices}
    return (
        environment()
        .get_template(TEMPLATE)
        .render(
            a=analysis,
            run=analysis.run,
            charts={chart.id: chart for chart in charts},
            pngs=pngs,
            packed=packed,
            best=best[0] if best else None,
            advice=advice_rows(advice_on(store, best[0]), {best[0].template, FILES["source"]}) if best else None,
            data=_data(analysis, charts, packed) | {"beside": _files_beside(folder, analysis.records)},
            **own_code(*(f"page/{name}" for name in SCRIPTS)),
            classes=[(cls, colour) for cls, colour in style.CLASS_COLOURS.items() if cls in used],
            failures=_failures(store, analysis.records),
            provenance=_provenance(analysis.records),
            source=Markup(highlight_yaml(analysis.run.source)),  # noqa: S704 - escaped by pygments
            kinds=_kinds_shown(analysis),
            mixes=chartdata.MIXES,
            gpu=_gpu(analysis, best[0] if best else None),
            screen=screen_rows(analysis.run, analysis.records, analysis.response),
            effect_rows=effect_rows(analysis.swept_effects),
            gains=largest_gains(analysis.swept_effects, best[0]) if best and not analysis.run.problem_axes else (),
            names=chartdata.names(analysis.records),
            **_mixes_shown(charts),
            heading=chartdata.row_names(list(dict.fromkeys(segment.name for segment in analysis.slices)))[1],
            different=[(r, analysis.different[r.variant]) for r in analysis.records if r.variant in analysis.different],
            most_bars=chartdata.MOST_BARS,
            strays=_strays(analysis),
            curve_charts=[chart.id for chart in charts if chart.id == "curve" or chart.id.startswith("explain-")],
            profiled=[
                (outlier, chartdata.names(analysis.records).get(outlier.variant, outlier.variant))
                for outlier in analysis.strays
            ],
            repeat_link="/".join(REPEAT) if (Folder(folder) / REPEAT[0]).size(REPEAT[1]) is not None else "",
            repeat_facts=repeatability.facts(analysis.repeat) if analysis.repeat else "",
            page_rows=PROBLEMS_A_PAGE,
            problems=len(by_problem(analysis.run, analysis.records)),
        )
    )


def _budget(analysis: Analysis) -> int:
    """Return the bytes that listings may take beside the figures of all variants and the program of the charts."""
    left = PAGE_BYTES - FIXED_BYTES - VARIANT_BYTES * len(analysis.records)
    return max(LEAST_BUDGET, min(BUDGET, left))


def _mixes_shown(charts: Sequence[PageChart]) -> dict[str, Any]:
    """Return the mix that stands beside the throughput, the others, and the ids of the charts of all."""
    ids = [chart.id for chart in charts if chart.id.startswith("mix-")]
    beside = next((id_.removeprefix("mix-") for id_ in MIX_ORDER if id_ in ids), "")
    others = [id_.removeprefix("mix-") for id_ in ids if id_ != f"mix-{beside}"]
    return {"beside_mix": beside, "other_mixes": others, "all_mixes": ids}


def _gpu(analysis: Analysis, best: VariantRecord | None) -> str:
    """Return the GPU of the figures: the measured one, or the one of the predictions with why nothing was measured."""
    run = analysis.run
    if run.gpu is not None:
        count = f"{len(run.cards)} x " if run.cards else ""
        return f"on {count}{run.gpu.name}, driver {run.gpu.driver}"
    predicted = f"predicted for {best.prediction.gpu}" if best and best.prediction else "no GPU"
    return f"{predicted}; {run.not_measured or 'nothing was measured'}"


def warm() -> None:
    """Prepare what every page shares: the template, and our own code with the bundle of the charts."""
    environment().get_template(TEMPLATE)
    vega()


def own_code(*scripts: str) -> dict[str, str]:
    """Return a page's own code for its template: `vega`, `css`, `script`, and the `policy` that allows no other.

    Args:
        scripts: Files of the page's script below `lab/report`; each uses those before it.
    """
    package = resources.files("lab.report")
    css = (package / "page" / "page.css").read_text(encoding="utf-8")
    text = "".join(package.joinpath(script).read_text(encoding="utf-8") for script in scripts)
    security_policy = policy(scripts=[text, unpack(vega())], styles=[css])
    return {"vega": vega(), "css": Markup(css), "script": Markup(text), "policy": Markup(security_policy)}  # noqa: S704 - ours


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Return the Jinja environment of the report's templates, which escapes all values."""
    jinja = Environment(
        loader=PackageLoader("lab.report", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    jinja.policies["json.dumps_kwargs"] = {"sort_keys": False, "separators": (",", ":")}
    return jinja


def _kinds_shown(analysis: Analysis) -> dict[Kind, str]:
    """Return the kinds of figures that can be on the page, with their meanings."""
    emulated = any(record.emulation for record in analysis.records)
    return {kind: text for kind, text in style.KIND_MEANING.items() if emulated or kind is not Kind.EMULATED}


@lru_cache(maxsize=1)
def vega() -> str:
    """Return the Vega runtime for Altair's specifications, packed like the listings.

    Bundling it takes a second or two and gives the same for every report, so the user's cache keeps the result.
    """
    version = ".".join(SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    file = default_folder() / f"vega-{version}-{metadata.version('vl-convert-python')}.bundle"
    with suppress(OSError, UnicodeDecodeError):
        digest, _, packed = file.read_text(encoding="ascii").partition("\n")
        if sha256(packed.encode()).hexdigest() == digest:
            return packed
    packed = pack(vl_convert.javascript_bundle(vl_version=version))  # type: ignore[call-arg]  # the stub lacks a default
    with suppress(OSError):  # a cache that cannot be written is left alone
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, f"{sha256(packed.encode()).hexdigest()}\n{packed}")
    return packed


def _data(analysis: Analysis, charts: Sequence[PageChart], packed: Packed) -> dict[str, Any]:
    """Return the data the page's script reads."""
    columns = _ranked_columns(analysis)
    return {
        "name": analysis.run.experiment,
        "columns": [_column(column, analysis.rows) for column in columns],
        "rows": [[_number(cells[column.key]) for column in columns] for cells in analysis.rows],
        "response": analysis.response.column,
        "charts": {chart.id: [asdict(choice) for choice in chart.choices] for chart in charts},
        "labels": {chart.id: chart.label for chart in charts},
        "datasets": {
            "bars": [bar.row for bar in analysis.bars],
            "curve": [asdict(point) for point in analysis.curve.points] if analysis.curve else [],
        },
        "explain": _explained(analysis),
        "mix": chartdata.pack_slices(analysis.slices),
        "colours": style.CLASS_COLOURS,
        "opcodes": opcode_classes(analysis.records),
        "variants": packed.variants,
        "files": _NAMES,
        "first": next((record.variant for record in ranked(analysis.records, analysis.response)), None),
        "failed": [str(status) for status in Status if status.failed],
        "names": list(chartdata.names(analysis.records).values()),
        "sort": "ratio_to_baseline" if analysis.rule else analysis.response.column,
    }


def _ranked_columns(analysis: Analysis) -> list[Column]:
    """Return the table's columns: the variant, the figures that rank it, then all others in their order."""
    first = {"variant": 0, analysis.response.column: 1, "standing": 2, "ratio_to_baseline": 3}
    columns = (column for column in analysis.columns if column.name != "folder")
    return sorted(columns, key=lambda column: first.get(column.name, len(first)))


def _files_beside(folder: Path, records: Iterable[VariantRecord]) -> dict[str, Any]:
    """Return the variants' files the page can link to: those below its own folder.

    Returns:
        `sets`: lists of file names, each once; `of`: for each record the place of its list in `sets`.
    """
    sets: dict[tuple[str, ...], int] = {}
    of = []
    for record in records:
        files = variant_folder(folder, record.variant).files()
        names = tuple(name for name in _NAMES.values() if name in files)
        of.append(sets.setdefault(names, len(sets)))
    return {"sets": list(sets), "of": of}


def _explained(analysis: Analysis) -> list[tuple[int, str, Kind, Value]]:
    """Return the explanation of the curve: index of a point of the curve, figure, kind and value."""
    if analysis.curve is None or analysis.explanation is None:
        return []
    places = {point.variant: place for place, point in enumerate(analysis.curve.points) if point.variant}
    return [(places[p.variant], p.figure, p.kind, _number(p.value)) for p in analysis.explanation.points]


def _column(column: Column, rows: Sequence[Row]) -> dict[str, Any]:
    values = [value for cells in rows if (value := cells[column.key]) is not None]
    numeric = bool(values) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    return {
        "name": column.name,
        "key": column.key,
        "title": column.title,
        "unit": column.unit,
        "kind": column.kind,
        "format": column.format,
        "about": column.about,
        "numeric": numeric,
        "shown": column.shown and bool(values),
        "empty": not values,
    }


def _number(value: Value) -> Value:
    """Round a value to seven significant digits; None for NaN and infinity, which JSON lacks."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.7g}") if math.isfinite(value) else None


def _failures(store: Store, records: Iterable[VariantRecord]) -> list[dict[str, Any]]:
    """Return the failed variants with the ends of their logs."""
    failures: list[dict[str, Any]] = []
    for record in records:
        if record.status.failed:
            log = store.variant_folder(record.variant).read_text(FILES["log"]) if len(failures) < MOST_LOGS else None
            lines = (log or "").rstrip().splitlines()
            tail, cut = "\n".join(lines[-LOG_LINES:]), len(lines) > LOG_LINES
            failures.append({"record": record, "tail": tail, "cut": cut, "findings": findings_of(record)})
    return failures


def _span(values: Iterable[float | None], unit: str) -> str | None:
    present = [value for value in values if value is not None]
    if not present:
        return None
    low, high = min(present), max(present)
    return f"{low:g} {unit}" if low == high else f"{low:g} to {high:g} {unit}"


def _strays(analysis: Analysis) -> list[tuple[str, tuple[str, str, str]]]:
    """Return each prediction's name with its worst variant: id, name, and a comparison of the figures."""
    rows, by_id, names = [], {r.variant: r for r in analysis.records}, chartdata.names(analysis.records)
    for agreement in (agreement for agreement in analysis.agreements if agreement.usable):
        measured, value = next((x, y) for variant, x, y in agreement.points if variant == agreement.worst)
        cost = loss(by_id[agreement.worst]) if agreement.name == "estimate" else None
        unit = analysis.response.unit
        predicted, observed = analysis.response.text(value), analysis.response.text(measured)
        text = f"predicted {predicted}, measured {observed} {unit}"
        text += f"; in the model, {cost} of the cycles." if cost else "."
        rows.append((agreement.name, (agreement.worst, names.get(agreement.worst, agreement.worst), text)))
    return rows


def _provenance(records: Sequence[VariantRecord]) -> list[tuple[str, str]]:
    """Return names and texts of the compilers, the tools and the GPU's state, over all variants."""
    builds = [record.build for record in records if record.build]
    profilers = dict.fromkeys(record.profile.profiler for record in records if record.profile)
    cards: list[CardState] = [
        card for r in records if r.measurement for card in (r.measurement.before, r.measurement.after)
    ]
    compilers = dict.fromkeys(record.compiler for record in records)
    disassemblers = dict.fromkeys(build.disassembler for build in builds)
    throttles = dict.fromkeys(reason for card in cards for reason in card.throttle_reasons)
    caches = dict.fromkeys(r.measurement.cache for r in records if r.measurement)
    rows = [
        ("compiler", ", ".join(compilers)),
        ("disassembler", ", ".join(disassemblers)),
        ("architecture", ", ".join(dict.fromkeys(record.arch for record in records))),
        ("SM clock", _span((card.sm_clock_mhz for card in cards), "MHz")),
        ("memory clock", _span((card.memory_clock_mhz for card in cards), "MHz")),
        ("power", _span((card.power_w for card in cards), "W")),
        ("temperature", _span((card.temperature_c for card in cards), "°C")),
        ("throttle reasons", ", ".join(throttles) or ("none" if cards else "")),
        ("L2 cache", ", ".join(caches)),
        ("profiler", ", ".join(profilers)),
    ]
    return [(name, text) for name, text in rows if text]
