from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from mistakes import coded
from run_support import all_played, without_a_gpu

from lab.base.errors import MissingToolError, StoreError, UserError
from lab.experiment.load import load
from lab.experiment.space import expand
from lab.runs.calibration.derive import RULES
from lab.runs.calibration.microbenchmarks import NARROWED, chosen, measure, measured_before, narrowed

SHIPPED = Path(__file__).parents[3] / "experiments" / "micro"


@pytest.mark.parametrize("name", NARROWED)
def test_each_microbenchmark_is_narrowed_to_variants_that_it_has(name: str, tmp_path: Path) -> None:
    whole, part = (expand(load(file)) for file in (SHIPPED / f"{name}.yaml", narrowed(name, tmp_path)))
    of_whole = {tuple(sorted(point.parameters.items())) for point in whole.points}
    of_part = {tuple(sorted(point.parameters.items())) for point in part.points}
    assert 1 <= len(part.points) <= 12
    assert of_part <= of_whole


def test_every_rule_has_its_microbenchmark() -> None:
    assert {experiment for experiment, _ in RULES.values()} == set(NARROWED)
    assert all((SHIPPED / f"{name}.yaml").is_file() for name in NARROWED)


def test_the_launch_is_measured_with_whatever_is_asked() -> None:
    assert chosen(["banks"]) == ("launch", "banks")
    assert chosen([]) == tuple(NARROWED)
    with pytest.raises(UserError, check=coded("unknown-name", key="--only", found="bank")):
        chosen(["bank"])


def test_a_played_card_runs_what_was_asked() -> None:
    told: list[str] = []
    bench = measure(["launch"], all_played(), told.append)
    assert told == ["launch: 1 of 1 variants measured"]
    (row,) = bench.timings["launch"]
    assert (row.values["blocks"], row.values["threads"], row.n, row.clock_mhz) == (1, 32, 3, 1980)
    assert 1e3 <= row.us <= 2e3


def test_nothing_begins_after_the_limit() -> None:
    told: list[str] = []
    passing = itertools.count(0, 1000)
    bench = measure([], all_played(), told.append, clock=lambda: next(passing))
    assert bench.timings == {}
    assert len(told) == len(NARROWED)
    assert told[0] == "launch: left out, 270 s are over"


def test_without_a_gpu_the_sentence_names_the_other_way() -> None:
    with pytest.raises(MissingToolError, match=r"there is no GPU\. Use --from"):
        measure([], without_a_gpu())


def test_folders_that_hold_no_runs_are_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a folder"):
        measured_before(tmp_path / "none")
    with pytest.raises(UserError, check=coded("nothing-left", key="--from")):
        measured_before(tmp_path)
