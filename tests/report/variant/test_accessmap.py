from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from narrowing import as_, known

from lab.report.charts import style
from lab.report.variant.accessmap import COLUMNS, ROWS, access_maps, svg
from lab.report.variant.details import variant_detail
from lab.templates.mapping.text import parse

CELL = 26


def owners_drawn(picture):
    """Element to thread and colour, read off the picture."""
    root = ET.fromstring(picture)  # noqa: S314 - our own
    drawn, (rects, texts) = {}, ([e for e in root if e.tag == kind] for kind in ("rect", "text"))
    for rect, text in zip(rects, texts, strict=True):
        row, first = int(rect.attrib["y"]) // CELL, int(rect.attrib["x"]) // CELL
        for column in range(first, first + (int(rect.attrib["width"]) + 2) // CELL):
            drawn[row * COLUMNS + column] = int(known(text.text)), rect.get("fill")
    return drawn


@pytest.mark.parametrize(
    "text",
    [
        "[3] | [2, 2] => [i0, t1, t0]",
        "[3] | [2, (2, 1)] => [i0, t0, t1]",
        "[(3, 4)] | [2, 2] => [i0, t0, t1], offset: 5",
        "cyclic(width=4)",
        "[16] | [16, 16] => [i0, t1, t0]",
    ],
)
def test_the_picture_shows_the_map(text):
    owners = parse(text).access_map()[: COLUMNS * ROWS].tolist()
    drawn = owners_drawn(svg(parse(text)))
    assert [drawn.get(element, (-1,))[0] for element in range(len(owners))] == owners
    assert all(colour == style.series_colour(owner) for owner, colour in drawn.values())


def with_mappings(make, **parameters):
    record = make("sweep").records()[0]
    return replace(record, parameters={**record.parameters, **parameters}, mappings=tuple(parameters))


def test_a_variants_maps_stand_in_its_details(make):
    record = with_mappings(make, load="cyclic(width=2)", store="blocked(items=2, threads=3)")
    load, store = json.loads(json.dumps(variant_detail(record)))["maps"]
    assert (load["name"], load["text"]) == ("load", "[2, 8] | [256] => [i0, t0, i1]")
    assert "the first 512 elements" in load["caption"]
    assert (store["name"], store["caption"]) == ("store", "3 threads x 2 items; numbers are threads")


def test_nothing_of_a_users_reaches_the_picture(make):
    hostile = "<img src=x onerror=alert(1)>"
    assert access_maps(with_mappings(make, load=hostile)) == []
    (drawn,) = access_maps(with_mappings(make, **{hostile: "blocked(items=2, threads=3)"}))
    assert set(re.findall(r"<(\w+)", drawn["svg"])) == {"svg", "rect", "text"}
    assert "onerror" not in drawn["svg"]


def test_predicted_accesses_stand_beside_the_bounds(make):
    record = replace(make("sweep").records()[0], accesses={"global.load": 4.0, "shared.store": 1.5})
    sections = as_(list, variant_detail(record)["sections"])
    rows = next(rows for heading, _, rows in sections if heading == "Occupancy and bounds")
    assert ("global load", "4.00 sectors per request") in rows
    assert ("shared store", "1.50 bank conflicts per request") in rows
