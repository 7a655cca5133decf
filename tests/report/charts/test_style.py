"""Colours can be told apart and read."""

from __future__ import annotations

from lab.isa.model import InstructionClass
from lab.measured.timing import Kind
from lab.report.charts import style


def luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb` (WCAG 2.2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(first: str, second: str) -> float:
    low, high = sorted(map(luminance, (first, second)))
    return (high + 0.05) / (low + 0.05)


def test_every_class_and_every_kind_is_known():
    assert set(style.CLASS_COLOURS) == {str(cls) for cls in InstructionClass}
    assert len(set(style.CLASS_COLOURS.values())) == len(style.CLASS_COLOURS)
    assert set(style.KIND_MEANING) == set(Kind)


def test_text_on_a_bar_has_the_colour_that_is_easier_to_read():
    bars = {style.MEASURED, style.PREDICTED, style.BASELINE, *style.BOUND_COLOURS.values()}
    for colour in bars:
        ink = "#ffffff" if colour in style.DARK else style.INK
        assert contrast(colour, ink) > 4


def test_the_palette_of_a_series_repeats():
    assert style.series_colour(0) == style.series_colour(len(style.SERIES)) == style.MEASURED
    assert len({style.series_colour(i) for i in range(len(style.SERIES))}) == len(style.SERIES)
