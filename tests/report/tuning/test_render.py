"""The report of a tuning run, on a store that is planted: its times are invented, nothing was measured."""

from __future__ import annotations

import csv
import json
import math
import re
import shutil

import pandas as pd
import pytest
from typer.testing import CliRunner

from lab.cli.main import app
from lab.measured.timing import Kind, Samples
from lab.report.tuning.data import analyse
from lab.report.tuning.render import render
from lab.store.tuning import Stage, TuningStore
from lab.store.tuning_model import CUBLAS, Census, Cut, KernelFacts, Row, Step, Timed

SIDES = (16, 64, 256, 1024)
SIZES = [(m, n, 512) for m in SIDES for n in SIDES]
LABEL = "float32_nn"
CENSUS = Census("gemm", 512, 8, 5, 2, 37)


def invented(kernel, m, n):
    """`small` is faster below 100 in both, `large` above; the single-tuned one is large with a penalty."""
    best = 1e-3 + m * n * 512 * 2 / 5e10
    few = max(m, n) < 100
    return best * {"small": 1 if few else 3, "large": 2 if few else 1, "one": 1.5}[kernel]


def facts(gpu):
    return {
        "tuning": "planted",
        "question": "Which <kernel> is fastest?",
        "source": "question: Which?\n",
        "command": "python -m lab tune planted.yaml",
        "started": "2026-01-01T00:00:00+00:00",
        "lab_version": "0",
        "commit": "abc",
        "python": "3",
        "packages": {"numpy": "2"},
        "gpu": gpu,
        "predicted_for": "H200",
        "peak_tflops": 60.0,
        "not_measured": "" if gpu else "There is no GPU.",
        "baseline": "",
        "interrupted": False,
        "timing": {"samples": 5, "cache": "auto", "verify": True},
        "types": {LABEL: {"dtype": "float32", "layout": "nn"}},
        "final": {LABEL: {"ranges": [list(size) for size in SIZES], "exact": [[16, 16, 512], [7, 7, 7]]}},
        "singles": {LABEL: ["id-one"]},
        "libraries": {
            "sgemm_nn": {
                "type": LABEL,
                "kernels": ["small", "large"],
                "splits": 2,
                "exact": 1,
                "interpolated": 40,
                "loss": {"mean": 0.0123, "max": 0.2, "worst": [16, 16, 512], "sizes": 16, "unmeasured": 0},
                "held_out": {"mean": 0.0171, "max": 0.3, "worst": [16, 16, 512], "sizes": 9, "unmeasured": 0},
            }
        },
    }


def plant(folder, gpu):
    kind = Kind.MEASURED if gpu else Kind.PREDICTED
    with TuningStore(folder, create=True) as store:
        names = ("small", "large", "one")
        store.write_kernels(
            KernelFacts(f"id-{name}", name, "g", LABEL, "t", {"a": 1}, "sm_90", census=CENSUS) for name in names
        )
        for m, n, k in SIZES:
            times = {f"id-{name}": Timed(Samples((invented(name, m, n),) * 3), kind, "cold", 1e-8) for name in names}
            if gpu:
                times[f"{CUBLAS} {LABEL}"] = Timed(Samples((invented("large", m, n),)), kind)
            store.write_times(Stage.FINAL, (m, n, k), times)
        failed = Row("large", {"TT": "8x8"}, None, "", wins=False, failure="hung")
        rows = (Row("small", {"TT": "2x2"}, 1.0, "", wins=True), failed)
        store.write_steps({LABEL: [Step("g", 4, "BenchmarkForkParameters", "Kept.", ((1, 2, 3),), rows, {"no": 3})]},
                          {LABEL: [Cut("far behind", 42)]})  # fmt: skip
        store.note("facts", facts(gpu))
    return folder


GPU = {"name": "NVIDIA H200", "driver": "580", "sms": 132}


@pytest.fixture(scope="module", params=[GPU, None], ids=["measured", "predicted"])
def drawn(request, tmp_path_factory):
    folder = plant(tmp_path_factory.mktemp("planted"), request.param)
    with TuningStore(folder) as store:
        files = render(store)
        return folder, analyse(store), files, request.param


def test_winners_are_the_fastest(drawn):
    _, analysis, _, _ = drawn
    (one,) = analysis.types
    assert len(one.winners) == 16  # the exact size is one of them, and one has no time
    for winner in one.winners:
        m, n, k = winner.size
        assert winner.kernel == ("small" if max(m, n) < 100 else "large")
        assert winner.tflops == pytest.approx(2 * m * n * k / invented(winner.kernel, m, n) / 1e9)
    assert [(kernel.name, wins) for kernel, wins, _ in one.kernels] == [("large", 12), ("small", 4)]


def test_ratios_are_over_the_single_tuned_kernel_and_over_cublas(drawn):
    _, analysis, _, gpu = drawn
    found = {ratios.against: ratios for ratios in analysis.ratios}
    assert found["single-tuned"].mean == pytest.approx(1.5)
    assert found["single-tuned"].faster == 1
    assert ("cuBLAS" in found) == bool(gpu)
    if gpu:
        assert found["cuBLAS"].mean == pytest.approx(math.exp(4 / 16 * math.log(2)))
        assert found["cuBLAS"].faster == 0.25


def test_the_map_holds_every_size_of_the_grid(drawn):
    _, analysis, _, _ = drawn
    (grid,) = analysis.types[0].maps
    assert (grid.k, grid.ms, grid.ns) == (512, SIDES, SIDES)
    assert set(grid.cells) == {(m, n) for m in SIDES for n in SIDES}


def test_every_file_says_what_its_times_are(drawn):
    folder, _, files, gpu = drawn
    html = (folder / "index.html").read_text()
    kind, other = ("measured", "predicted") if gpu else ("predicted", "measured")
    assert f'class="chip {kind}"' in html
    assert f'class="chip {other}"' not in html
    assert ("Nothing here was measured. There is no GPU." in html) == (gpu is None)
    rows = list(csv.DictReader((folder / "winners.csv").open()))
    assert {row["kind"] for row in rows} == {kind}
    assert len(rows) == 16
    assert {path.name for path in files} == {
        "index.html",
        "winners.csv",
        "kernels.csv",
        "ratios.png",
        f"throughput_{LABEL}_512.png",
        f"fastest_{LABEL}_512.png",
    }
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in files if path.suffix == ".png")


def test_the_page_tells_steps_census_cuts_and_loss(drawn):
    folder, _, _, _ = drawn
    text = " ".join(re.sub(r"<[^>]+>", " ", (folder / "index.html").read_text().partition("<script")[0]).split())
    assert "Which &lt;kernel&gt; is fastest?" in text
    assert "98.5 % 97.5 % 90.8 %" in text
    assert "Left out: 42 pairs, far behind." in text
    assert "loses 1.23 % in the mean over the 16 sizes" in text
    assert "1.71 % (at most 30.0 %) over 9 held-out sizes" in text
    assert "3 combinations were left out by: no" in text
    assert "hung" in text
    rows = {row["name"]: row for row in csv.DictReader((folder / "kernels.csv").open())}
    assert rows["large"]["wins"] == "12"
    assert float(rows["large"]["efficiency_none_hidden"]) == pytest.approx(512 / 564)


def test_charts_have_a_cell_a_size_and_a_hover(drawn):
    folder, _, _, _ = drawn
    data = json.loads(re.search(r'id="data">(.*?)</script>', (folder / "index.html").read_text(), re.DOTALL)[1])
    spec = data["charts"][f"throughput-{LABEL}-512"]
    assert len(spec["datasets"][spec["data"]["name"]]) == 16
    assert {"tflops", "kernel", "ms", "samples", "entrants"} <= {one["field"] for one in spec["encoding"]["tooltip"]}
    assert set(data["labels"]) == set(data["charts"])


def test_the_whole_page_is_drawn_from_what_was_published(drawn, script, tmp_path):
    folder, _, _, _ = drawn
    out = tmp_path / "out"
    out.mkdir()
    (out / "map_of_other_sizes.png").touch()
    assert script.publish(folder, out) == ("The libraries are not kept.", "Samples are rounded to six digits.")
    assert {file.name for file in out.glob("*.png")} == {file.name for file in folder.glob("*.png")}
    facts = json.loads((out / "provenance.json").read_text())
    assert "libraries" not in facts
    assert len(facts["published"]) == 2
    done = CliRunner().invoke(app, ["report", str(out)])
    assert done.exit_code == 0, done.output
    assert (out / "full" / "kernels.csv").read_bytes() == (folder / "kernels.csv").read_bytes()
    pages = [(place / "index.html").read_text().partition("<script")[0] for place in (out / "full", folder)]
    assert pages[0] == pages[1], "what is behind it, data of charts, has samples of six digits"
    again = script.publish(out, tmp_path / "again")
    assert len(again) == 2
    for name in ("index.html", "tuning.json.xz", "times.csv.xz", "provenance.json"):
        assert (tmp_path / "again" / name).exists()
    assert (tmp_path / "again" / "times.csv.xz").read_bytes() == (out / "times.csv.xz").read_bytes()


def test_published_times_have_every_sample(drawn, script, tmp_path):
    folder, _, _, gpu = drawn
    script.publish(folder, tmp_path)
    times = pd.read_csv(tmp_path / "times.csv.xz")
    assert len(times) == len(SIZES) * (4 if gpu else 3)
    small = times[(times.kernel == "small") & (times.m == SIZES[0][0]) & (times.n == SIZES[0][1])].iloc[0]
    expected = [invented("small", *SIZES[0][:2])] * 3
    assert [float(ms) for ms in small.samples_ms.split()] == pytest.approx(expected, rel=1e-5)


def test_the_report_is_drawn_again_by_command(drawn, tmp_path):
    copy = shutil.copytree(drawn[0], tmp_path / "copy")
    (copy / "index.html").unlink()
    done = CliRunner().invoke(app, ["report", str(copy)])
    assert done.exit_code == 0
    assert str(copy / "index.html") in done.stdout.splitlines()
    assert (copy / "index.html").read_bytes() == (drawn[0] / "index.html").read_bytes()
