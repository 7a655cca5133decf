from __future__ import annotations

import csv
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from library_support import batched_library, small_library
from played_surveys import Played
from typer.testing import CliRunner

from lab.base.errors import UserError
from lab.cli.main import app, main
from lab.gpu.process import find, localcards
from lab.library.emit import write
from lab.library.package import MeasuredSize

SIZES = ((64, 64, 64), (512, 512, 512), (2048, 2048, 64))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = small_library()
    measured = tuple(MeasuredSize(*size, 0, 0.01 * (i + 1), 0.02) for i, size in enumerate(SIZES))
    library = replace(made, measured=measured)
    where = tmp_path / "run" / library.name
    write(library, {kernel.name: kernel.name.encode() for kernel in library.kernels}, where)
    return where


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Played:
    played = Played()

    class Pool:
        def __init__(self, cards: Sequence[object]) -> None:
            assert cards == played.cards

        def __enter__(self) -> Played:
            return played

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(find, "find_cards", lambda **_: (played.cards, ""))
    monkeypatch.setattr(localcards, "LocalCards", Pool)
    return played


def told(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["library", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


def test_explain_says_which_kernel_why_and_what_is_expected(folder: Path) -> None:
    library = small_library()
    text = told("explain", folder, 500, 600, 300)
    number = library.logic.select(500, 600, 300)
    assert text.startswith(f"nn 500 x 600 x 300: {library.kernels[number].name}\n")
    for reason in library.logic.reasons(500, 600, 300):
        assert reason in text
    assert "invented.cu.j2: tile=1" in text
    assert "launch part: grid 4 x 201 x 4, block 256 x 1 x 1, 65536 bytes of dynamic shared memory" in text
    assert "expected: " in text
    near = [line for line in text.splitlines() if "near it" in line]
    assert "predicted near it: 512 x 512 x 512: 13.4 TFLOP/s, 1.00 of cuBLAS's throughput" in near[0]
    assert len(near) == 3


@pytest.fixture
def batches(tmp_path: Path) -> Path:
    library = batched_library()
    measured = tuple(MeasuredSize(64, 64, 64, 0, 0.01 * batch, 0.02, batch) for batch in (4, 8))
    where = tmp_path / "batches" / library.name
    write(replace(library, measured=measured), {kernel.name: b"code" for kernel in library.kernels}, where)
    return where


def test_explain_takes_the_number_of_products(batches: Path, folder: Path) -> None:
    text = told("explain", batches, 64, 64, 64, "--batch", 16)
    assert text.startswith("nn 64 x 64 x 64, batch 16: many\n  because 8 <= batch\n")
    assert "launch strided: grid 16 x 1 x 1" in text
    assert f"workspace: {4 * 64 * 64 * 16} bytes" in text
    near = [line for line in text.splitlines() if "near it" in line]
    assert "near it: 64 x 64 x 64, batch 8: 0.0524 TFLOP/s, 0.25 of cuBLAS's throughput" in near[0]
    assert told("explain", batches, 64, 64, 64).startswith("nn 64 x 64 x 64, batch 1: few\n")
    result = CliRunner().invoke(app, ["library", "explain", str(folder), "64", "64", "64", "--batch", "2"])
    assert "sgemm does not pick by the batch size" in str(result.exception)


def test_check_times_random_batches(batches: Path, tmp_path: Path, gpu: Played) -> None:
    told("check", batches, "--sizes", 9, "--batch", 20, "-o", tmp_path / "out")
    assert len(gpu.orders) == 9
    with (tmp_path / "out" / "check.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert all(1 <= int(row["batch"]) <= 20 and int(row["m"]) <= 1024 for row in rows)
    assert {row["kernel"] for row in rows} == {"few", "many"}
    assert [order.problem["batch"] for order in gpu.orders] == [int(row["batch"]) for row in rows]


def test_pack_writes_an_archive_of_every_library_which_can_be_explained(folder: Path, tmp_path: Path) -> None:
    text = told("pack", folder.parent, "-o", tmp_path / "packed")
    (archive,) = (tmp_path / "packed").iterdir()
    assert text == f"{archive}: {archive.stat().st_size} bytes\n"
    assert told("explain", archive, 9, 9, 9) == told("explain", folder, 9, 9, 9)


def test_a_run_without_a_library_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["library", "pack", str(tmp_path), "-o", str(tmp_path / "packed")])
    assert isinstance(result.exception, UserError)
    assert "the folder holds no library" in str(result.exception)


def test_a_damaged_library_is_refused_for_what_is_wrong_with_it(folder: Path, tmp_path: Path) -> None:
    damaged = shutil.copytree(folder, tmp_path / folder.name)
    file = damaged / f"{folder.name}.json"
    file.write_text(file.read_text()[:-20])
    result = CliRunner().invoke(app, ["library", "pack", str(damaged), "-o", str(tmp_path / "packed")])
    assert isinstance(result.exception, UserError)
    assert str(file) in str(result.exception)
    assert not (tmp_path / "packed").exists()


def test_archives_are_packed_again_with_the_c_of_today(folder: Path, tmp_path: Path) -> None:
    """The machine code and the logic stay; C that an earlier version emitted does not."""
    older = shutil.copytree(folder, tmp_path / "older")
    name = folder.name
    (older / f"{name}.c").write_text("emitted long ago")
    told("pack", older, "-o", tmp_path / "packed")
    told("pack", tmp_path / "packed", "-o", tmp_path / "again")
    told("pack", folder, "-o", tmp_path / "fresh")
    packed, again, fresh = (tmp_path / one / f"{name}.tar.xz" for one in ("packed", "again", "fresh"))
    assert packed.read_bytes() != fresh.read_bytes()
    assert again.read_bytes() == fresh.read_bytes()


def test_a_library_without_machine_code_is_not_packed(folder: Path, tmp_path: Path) -> None:
    without = shutil.copytree(folder, tmp_path / "without")
    cubin = min(without.glob("*.cubin"))
    cubin.unlink()
    result = CliRunner().invoke(app, ["library", "pack", str(without), "-o", str(tmp_path / "packed")])
    assert isinstance(result.exception, UserError)
    assert "the machine code of a kernel is missing" in str(result.exception)
    assert cubin.name in str(result.exception)
    assert not (tmp_path / "packed").exists()


def test_check_times_random_sizes_and_writes_table_and_map(folder: Path, tmp_path: Path, gpu: Played) -> None:
    text = told("check", folder, "--sizes", 7, "--high", 999, "--seed", 5, "-o", tmp_path / "out")
    assert len(gpu.orders) == 7
    with (tmp_path / "out" / "check.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert [float(row["ratio"]) for row in rows] == [2.0] * 7
    assert {int(row[name]) <= 999 for row in rows for name in "mnk"} == {True}
    assert (tmp_path / "out" / "check.png").stat().st_size > 1000
    assert "all               7      2.000      2.000   2.000  100.0%" in text
    assert "expected times: median error" in text
    assert text.count("slowest: nn") == 5


def test_check_takes_the_sizes_of_a_file(folder: Path, tmp_path: Path, gpu: Played) -> None:
    file = tmp_path / "sizes.csv"
    file.write_text("m,n,k,a_t,b_t\n7,8,9,0,0\n1,2,3,1,0\n70,80,90,0,0\n")
    told("check", folder, "--csv", file)
    assert [size for size, _ in gpu.at] == [(7, 8, 9), (70, 80, 90)]
    file.write_text("m,n,k,a_t,b_t\n1,2,3,1,0\n")
    result = CliRunner().invoke(app, ["library", "check", str(folder), "--csv", str(file)])
    assert "no size of these layouts" in str(result.exception)


def test_check_fails_where_a_kernel_failed(folder: Path, gpu: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    survey = gpu.survey

    def failing(order: Any, cubins: Any, **given: Any) -> Any:
        future = survey(order, cubins, **given)
        surveyed = future.result()
        points = tuple(replace(point, samples=None, failure="wrong result") for point in surveyed.points)
        done = type(future)()
        done.set_result(replace(surveyed, points=points))
        return done

    monkeypatch.setattr(gpu, "survey", failing)
    text = told("check", folder, "--sizes", 3, code=1)
    assert text.count("wrong result") == 3


def test_check_without_a_gpu_or_with_another_cache_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(find, "find_cards", lambda **_: ((), "there is no GPU"))
    for given, expected in (
        (["--cache", "lukewarm"], "found: 'lukewarm'"),
        ([], "nothing can be checked: there is no GPU"),
    ):
        monkeypatch.setattr("sys.argv", ["lab", "library", "check", str(folder), *given])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        assert expected in capsys.readouterr().err
