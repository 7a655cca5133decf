"""The report of a tuning run, on a store that is planted: its times are invented, nothing was measured."""

from __future__ import annotations

import csv
import json
import re
import shutil
from dataclasses import replace

import pandas as pd
import pytest
from planted_tuning import GPU, LABEL, SIZES, facts, invented, plant
from typer.testing import CliRunner

from lab.cli.main import app
from lab.measured.timing import Kind, Samples
from lab.report.tuning.data import analyse
from lab.report.tuning.render import MOST_ROWS, cut_sentence, render, shown
from lab.store.tuning import TuningStore
from lab.store.tuning_model import (
    Cut,
    CutKind,
    FinalSizes,
    KernelFacts,
    ProblemType,
    ProtocolStep,
    StepRow,
    Timed,
    TimingStage,
)


@pytest.fixture(scope="module", params=[GPU, None], ids=["measured", "predicted"])
def drawn(request, tmp_path_factory):
    folder = plant(tmp_path_factory.mktemp("planted"), request.param)
    with TuningStore(folder) as store:
        files = render(store)
        return folder, analyse(store), files, request.param


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
    assert "42 pairs of kernel and size got no further samples" in text
    assert "loses 1.23 % on average over the 16 sizes" in text
    assert "1.71 % (at most 30.0 %) over 9 held-out sizes" in text
    assert "3 combinations were excluded by no" in text
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
    assert script.publish(folder, out) == ("The libraries are not kept.", "Samples are rounded to five digits.")
    assert {file.name for file in out.glob("*.png")} == {file.name for file in folder.glob("*.png")}
    facts = json.loads((out / "provenance.json").read_text())
    assert "libraries" not in facts
    assert len(facts["published"]) == 2
    done = CliRunner().invoke(app, ["report", str(out)])
    assert done.exit_code == 0, done.output
    assert (out / "full" / "kernels.csv").read_bytes() == (folder / "kernels.csv").read_bytes()
    pages = [(place / "index.html").read_text().partition("<script")[0] for place in (out / "full", folder)]
    assert pages[0] == pages[1], "what is behind it, data of charts, has samples of five digits"
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


@pytest.mark.parametrize(
    ("cut", "reason"),
    [
        (
            Cut(CutKind.PREDICTION, 3, 6.0),
            "were not run: the kernel's predicted time is more than 6 times the best prediction.",
        ),
        (
            Cut(CutKind.NEIGHBOURS, 3, 0.2, nearest=4, coarse=12, sizes=30),
            """were not run: the kernel is more than 20% slower than the fastest at each of the 4 nearest of 12 coarse
            sizes (30 sizes in all).""",
        ),
        (
            Cut(CutKind.FIRST_SAMPLE, 3, 0.15),
            """got no further samples: the kernel's first sample is more than 15% slower than the fastest kernel's.""",
        ),
    ],
)
def test_a_cut_is_a_sentence(cut, reason):
    assert cut_sentence(cut) == f"3 pairs of kernel and size {' '.join(reason.split())}"


def test_a_steps_rows_stand_by_competition_with_the_winner_first_and_failures_last():
    rows = [
        StepRow("slow", {}, 2.0, "a", wins=False),
        StepRow("failed", {}, None, "a", wins=False, failure="hung"),
        StepRow("other", {}, 3.0, "b", wins=True),
        StepRow("best", {}, 1.0, "a", wins=True),
    ]
    step = ProtocolStep("g", 4, "t", "", (), tuple(rows))
    assert [row.name for row in shown(step)] == ["best", "slow", "failed", "other"]
    many = tuple(StepRow(str(i), {}, 1.0 + i, "", wins=False) for i in range(MOST_ROWS + 5))
    assert len(shown(ProtocolStep("g", 4, "t", "", (), many))) == MOST_ROWS


def test_what_a_reader_must_know_of_the_run_is_on_the_page(tmp_path):
    with TuningStore(plant(tmp_path, None), create=True) as store:
        store.write_facts(
            replace(facts(None), interrupted=True, grown_again="It was grown again.", notes=("It was damaged.",))
        )
        render(store)
    html = (tmp_path / "index.html").read_text()
    for sentence in ("The run was interrupted", "It was grown again.", "It was damaged."):
        assert sentence in html


def test_a_pause_before_samples_is_on_the_page_where_there_was_one(tmp_path):
    for pause_ms, mentioned in ((0.0, False), (250.0, True)):
        timing = replace(facts(GPU).timing, pause_ms=pause_ms)
        with TuningStore(plant(tmp_path / str(mentioned), GPU), create=True) as store:
            store.write_facts(replace(facts(GPU), timing=timing))
            render(store)
        html = (tmp_path / str(mentioned) / "index.html").read_text()
        assert ("with a pause of 250 ms before each sample" in html) == mentioned
        assert ("a pause" in html) == mentioned


def test_the_order_in_which_workers_finished_decides_nothing(tmp_path):
    """Neither which of two equally fast kernels is named, nor the order of the rows."""
    tables = []
    for turn, names in enumerate((("b", "a"), ("a", "b"))):
        with TuningStore(tmp_path / str(turn), create=True) as store:
            store.write_kernels(KernelFacts(f"id-{name}", name, "g", LABEL, "t", {}, "sm_90") for name in names)
            for size in SIZES:
                equal = Timed(Samples((0.5,)), Kind.PREDICTED)
                store.write_times(TimingStage.FINAL, size, {f"id-{name}": equal for name in names})
            store.write_facts(replace(facts(None), singles={}, libraries={}))
            render(store)
        tables.append([(tmp_path / str(turn) / name).read_text() for name in ("winners.csv", "kernels.csv")])
    assert tables[0] == tables[1]


def test_batches_have_maps_and_columns_of_their_own(tmp_path):
    of, sides = ProblemType("float32", "nn", batched=True), (16, 32, 64)
    sizes = tuple((m, n, 64, batch) for m in sides for n in sides for batch in (4, 8))
    kernel = KernelFacts("one", "one", "g", of.label, "gemm/tensile.cu.j2", {}, "sm_90")
    with TuningStore(tmp_path / "run", create=True) as store:
        store.write_kernels([kernel])
        for size in sizes:
            store.write_times(TimingStage.FINAL, size, {"one": Timed(Samples((1.0,)), Kind.PREDICTED)})
        final = {of.label: FinalSizes(ranges=sizes, exact=())}
        made = replace(facts(None), types={of.label: of}, final=final, libraries={}, singles={of.label: ("one",)})
        store.write_facts(made)
        page, *rest = render(store)
    assert {f"throughput_{of.label}_64_{batch}.png" for batch in (4, 8)} <= {one.name for one in rest}
    text = page.read_text()
    assert "K = 64, batch = 8" in text
    assert '<th class="num">batch</th>' in text
    rows = list(csv.DictReader((page.parent / "winners.csv").open()))
    assert {row["batch"] for row in rows} == {"4", "8"}
    assert all(float(row["tflops"]) == 2e-9 * int(row["m"]) * int(row["n"]) * 64 * int(row["batch"]) for row in rows)
