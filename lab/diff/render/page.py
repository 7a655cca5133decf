"""The comparison as a page: listings side by side, aligned, in the style of the report."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lab.diff.comparison import SideComparison
from lab.diff.gates import GateFailure
from lab.diff.render import words
from lab.report.page.csp import policy


def page(comparison: SideComparison, failures: Sequence[GateFailure] = ()) -> str:
    """Return the HTML of a comparison. The page runs no script and loads nothing."""
    css = (resources.files("lab.report") / "page" / "page.css").read_text(encoding="utf-8")
    own = (resources.files("lab.diff") / "render" / "page.css").read_text(encoding="utf-8")
    style = f"{css}\n{own}"
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            c=comparison,
            headline=words.headline(comparison),
            warnings=list(words.warnings(comparison, failures)),
            unlike=words.unlike_kernels(comparison),
            experiment=list(words.experiment_lines(comparison)),
            title=words.title,
            short=words.short_figures,
            rows=words.figure_rows,
            predicted=words.predicted_text,
            css=Markup(style),  # noqa: S704 - ours
            policy=Markup(policy(scripts=[], styles=[style])),  # noqa: S704 - ours
        )
    )


@lru_cache(maxsize=1)
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("lab.diff", "render"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
