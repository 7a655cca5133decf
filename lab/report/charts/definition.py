"""Chart definitions, independent of drawing: rows, axes, colours, reference lines and labels.

`charts` and `explain` make these definitions from the facts of a run. Two drawers read them and nothing else: `vega`
for the page and `png` for the PNGs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from lab.report.columns import Value

Row = Mapping[str, Value]
"""Field name to value."""


@dataclass(frozen=True, slots=True)
class Data:
    """The rows of a chart.

    Attributes:
        source: All rows of the dataset.
        dataset: Name of the page's dataset that holds `source`; empty where the chart carries its rows itself.
        where: Field to the values that a row of the chart may have there.
        known: Fields that must have a value.
    """

    source: Sequence[Row]
    dataset: str = ""
    where: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    known: tuple[str, ...] = ()

    @property
    def rows(self) -> list[Row]:
        """The rows of `source` that the chart shows, in order."""
        return [
            row
            for row in self.source
            if all(row[name] in values for name, values in self.where.items())
            and all(row[name] is not None for name in self.known)
        ]


class Scale(StrEnum):
    """Placement of values on an axis."""

    LINEAR = "linear"
    LOG2 = "log2"
    CATEGORY = "category"


class Ticks(StrEnum):
    """Format of the figures at an axis."""

    PLAIN = "plain"
    RATIO = "ratio"  # at most three digits after the point
    PERCENT = "percent"
    COUNT = "count"  # 2k for 2000


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis.

    Attributes:
        field: Field of the rows that it shows.
        title: With the unit and the kind of the figures; empty for none.
        scale: How it places the values.
        zero: A linear axis begins at 0.
        domain: Its ends, or None for those of the values.
        order: Values of a category axis, in order.
        ticks: Format of its figures.
    """

    field: str
    title: str = ""
    scale: Scale = Scale.LINEAR
    zero: bool = True
    domain: tuple[float, float] | None = None
    order: tuple[Value, ...] = ()
    ticks: Ticks = Ticks.PLAIN


@dataclass(frozen=True, slots=True)
class Shade:
    """The drawing style of one value of a field.

    Attributes:
        value: The value.
        colour: `#rrggbb`.
        dashed: Its line is dashed.
        note: Text behind the value in the legend; empty for none.
    """

    value: Value
    colour: str
    dashed: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Colours:
    """The field that colours the marks.

    Attributes:
        field: Field of the rows.
        shades: Its values, in the order of the legend.
        title: Heading of the legend; empty for none.
        legend: A legend is drawn.
    """

    field: str
    shades: tuple[Shade, ...]
    title: str = ""
    legend: bool = True

    def of(self, value: Value) -> str:
        """Return the colour of a value of the field; raise KeyError for a value without one."""
        return {shade.value: shade.colour for shade in self.shades}[value]


@dataclass(frozen=True, slots=True)
class Tip:
    """One line of a tooltip.

    Attributes:
        field: Field of the rows.
        title: Label before the value.
        format: d3 format specification; empty for text and whole numbers.
    """

    field: str
    title: str
    format: str = ""


@dataclass(frozen=True, slots=True)
class Reference:
    """A dashed horizontal line.

    Attributes:
        value: Its height on the vertical axis.
        text: Its label.
    """

    value: float
    text: str


MOST_LETTERS: Final = 44
"""Most characters of a label; a picture truncates longer ones."""


@dataclass(frozen=True, slots=True)
class Label:
    """Text beside a point, in the units of the axes."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Trace:
    """A line through given points, in the units of the axes: a ceiling, or the edge of a set of points.

    Attributes:
        points: Its corners.
        text: Label at its last corner; empty for none.
        colour: `#rrggbb`.
    """

    points: tuple[tuple[float, float], ...]
    text: str
    colour: str


@dataclass(frozen=True, slots=True)
class Scatter:
    """A scatter plot: one point per row.

    Attributes:
        data: The rows.
        x: Horizontal axis.
        y: Vertical axis.
        colour: Colour of all points where `colours` is None.
        colours: The field that colours the points, or None.
        span: Fields with the ends of a vertical line through each point, or None.
        reference: A horizontal line to compare with, or None.
        diagonal: Draw the line on which both axes have the same value.
        labels: Texts beside points.
        traces: Lines besides the points.
        joined: Thin lines between points, without texts.
        valued: Field whose value stands in small type beside each point; empty for none.
        caption: Caption above the chart; empty for none.
        tips: Lines of the page's tooltip.
    """

    data: Data
    x: Axis
    y: Axis
    colour: str
    colours: Colours | None = None
    span: tuple[str, str] | None = None
    reference: Reference | None = None
    diagonal: bool = False
    labels: tuple[Label, ...] = ()
    traces: tuple[Trace, ...] = ()
    joined: tuple[Trace, ...] = ()
    valued: str = ""
    caption: str = ""
    tips: tuple[Tip, ...] = ()


@dataclass(frozen=True, slots=True)
class Lines:
    """A line chart: one line per colour.

    Attributes:
        data: The rows, along the horizontal axis.
        x: Horizontal axis.
        y: Vertical axis.
        colours: The field that distinguishes the lines.
        dots: Field and value of the rows that are dots rather than parts of a line, or None.
        marked: Every row has a mark on its line.
        strip: Field that is true for the rows that a strip below the axis shows, and the strip's title; or None.
        height: On the page, in pixels.
        tips: Lines of the page's tooltip.
    """

    data: Data
    x: Axis
    y: Axis
    colours: Colours
    dots: tuple[str, Value] | None = None
    marked: bool = False
    strip: tuple[str, str] | None = None
    height: int = 380
    tips: tuple[Tip, ...] = ()


@dataclass(frozen=True, slots=True)
class Bars:
    """A bar chart: one horizontal bar per row, with text on it or beside it.

    Attributes:
        data: The rows: `text` is what the page writes at a bar, `words` what a picture does, `low` and `high` are the
            ends of a span, `ceiling` is the place of a tick; each of these three can be None.
        x: Horizontal axis.
        y: One bar a value of its order.
        colours: The field that colours the bars.
        ceilings: The ticks are drawn.
        names: The bars' names where there is little room, in the order of `y`.
        heading: What the parts of `names` are; empty where they say it themselves.
        note: Text a picture adds to the title of the horizontal axis; empty for none.
        tips: Lines of the page's tooltip.
    """

    data: Data
    x: Axis
    y: Axis
    colours: Colours
    ceilings: bool
    names: tuple[str, ...]
    heading: str = ""
    note: str = ""
    tips: tuple[Tip, ...] = ()

    @property
    def least_inside(self) -> float:
        """The least value whose bar is long enough for text on it."""
        ends = (row[name] for row in self.data.rows for name in (self.x.field, *(["ceiling"] if self.ceilings else [])))
        return 0.3 * max((end for end in ends if isinstance(end, int | float)), default=1.0)


@dataclass(frozen=True, slots=True)
class Stacks:
    """A stacked bar chart: one row per segment.

    Attributes:
        data: The rows; `order` is what the parts of a bar are sorted by on the page.
        x: Length of the parts.
        y: One bar per value of its order.
        colours: The segments, in stacking order.
        names: The bars' names where there is little room, in the order of `y`.
        heading: What the parts of `names` are; empty where they say it themselves.
        caption: The quantity the bars show, with its kind.
        tips: Lines of the page's tooltip.
    """

    data: Data
    x: Axis
    y: Axis
    colours: Colours
    names: tuple[str, ...]
    heading: str
    caption: str
    tips: tuple[Tip, ...] = ()


@dataclass(frozen=True, slots=True)
class Means:
    """Mean and range of a figure at each value of a factor.

    Attributes:
        data: One row per value of the factor; `low` and `high` are the range.
        x: The factor's values.
        y: The mean.
        points: Every variant.
        point: Fields of `points` for the two axes.
        caption: The factor and how much it explains.
        tips: Lines of the page's tooltip.
    """

    data: Data
    x: Axis
    y: Axis
    points: Data
    point: tuple[str, str]
    caption: str
    tips: tuple[Tip, ...] = ()


Drawing = Scatter | Lines | Bars | Stacks | Means


@dataclass(frozen=True, slots=True)
class Choice:
    """One view of a chart; a chart with several gets a switch.

    Attributes:
        label: Its name on the switch; empty where it is the only one.
        drawing: Its drawing.
    """

    label: str
    drawing: Drawing


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of the page.

    Attributes:
        id: HTML id.
        label: Description for screen readers.
        choices: One or more.
    """

    id: str
    label: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """A PNG.

    Attributes:
        file: Its name.
        title: What it shows.
        drawings: Drawings of one type, side by side; or `Stacks` and the `Bars` of the same rows.
    """

    file: str
    title: str
    drawings: tuple[Drawing, ...]
