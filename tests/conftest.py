"""Fixtures that more than one room uses."""

from __future__ import annotations

import gc
import importlib.util
import io
import os
import pickle
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import wraps
from inspect import unwrap
from pathlib import Path
from types import ModuleType

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings
from matplotlib.figure import Figure
from PIL import Image

from lab.measured.metrics import DeclaredFigure, DeclaredRate
from lab.measured.timing import Merit
from lab.recorded.predictions import Bound
from lab.report.aside import HERE
from lab.report.charts import png, vega
from lab.report.charts.definition import Chart, Picture
from lab.report.charts.vega import PageChart
from lab.report.tuning import png as tuning_png
from lab.runs import ahead, services
from lab.store.database import Store

ROOT = Path(__file__).parents[1]
TESTS = Path(__file__).parent
SUPPORT = str(TESTS / "support")
sys.path.insert(0, SUPPORT)  # what the tests of several rooms share; worker processes must find it, too
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [SUPPORT, os.environ.get("PYTHONPATH")]))
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else a hundred processes compile all of lab, 2 s each


# Both limits are of the wall clock, which counts what else the machine does: 80 ms alone were 320 beside others.
settings.register_profile("lab", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lab")

SPENT = "processor seconds"
_before = [0.0]
"""Processor time of this process and its ended children at the latest report."""


DEAR = ("kernel_src/", "wholes/test_plain_experiments.py")
"""Where the tests are that take the most together, and the longest."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the dearest tests: towards the end a process then has short ones left for another that is idle."""
    items.sort(key=lambda item: not item.path.relative_to(TESTS).as_posix().startswith(DEAR))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect without looking for garbage: there is next to none, and looking took a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.freeze()  # twelve thousand tests stay to the end; to look at them again and again is half of the work of gc
    gc.set_threshold(20_000, 20, 20)  # 700, 10, 10 look 1100 times in 12 s of launches, and find next to nothing
    _before[0] = sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note what a test spent, wherever it runs; a wall clock would count what else the machine does.

    It is asked for once a test: in a process of many threads, `os.times` takes a millisecond and more.
    """
    report = yield
    if report.when == "teardown":
        now = sum(os.times()[:4])
        report.user_properties.append((SPENT, now - _before[0]))
        _before[0] = now
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what each room and the dearest tests spent after a run of all, so that whoever adds one sees its price."""
    if config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    spent, rooms, tests = Counter[str](), Counter[str](), Counter[str]()
    for reports in terminalreporter.stats.values():
        for report in reports:
            for seconds in (value for name, value in getattr(report, "user_properties", ()) if name == SPENT):
                room = report.nodeid.partition("::")[0].split("/")[1]
                spent[report.nodeid] += seconds
                rooms[room] += seconds
                tests[room] += 1
    terminalreporter.section(f"{spent.total() / 60:.1f} minutes of processor time, by room and the most")
    for room, seconds in rooms.most_common():
        terminalreporter.line(
            f"{seconds:6.1f} s  {room}: {tests[room]} tests, {1000 * seconds / max(1, tests[room]):.0f} ms each"
        )
    for test, seconds in spent.most_common(10):
        terminalreporter.line(f"{seconds:6.1f} s  {test}")


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def benchmark_script(root: Path) -> Callable[[str], ModuleType]:
    """Loads a script of benchmarks/ by its name, as a module; it finds the modules beside it."""
    sys.path.append(str(root / "benchmarks"))

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(name, root / "benchmarks" / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        found = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
        return found

    return load


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of one test session, for all of its processes together."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(autouse=True)
def _own_cache(shared_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds are cached for one test session, by all of its processes together, and never among the user's."""
    monkeypatch.setenv("LAB_CACHE_DIR", str(shared_folder / "cache"))
    monkeypatch.setenv("LAB_CALIBRATION", str(shared_folder / "none.yaml"))  # a developer's own decides no test


@pytest.fixture(scope="session", autouse=True)
def _reports_drawn_quickly() -> Iterator[None]:
    """Cache the slow parts of a report, and skip painting its pictures.

    Matplotlib builds each picture's figure, which reads all of its data; laying it out and painting it is left to the
    tests of pictures (`painted`, and all of tests/report/charts). A chart of the page is specified once a process.
    """
    drawn, save, specified = png.draw, png.save, vega.draw
    built, charts = set[str](), dict[str, bytes]()
    blank = io.BytesIO()
    Image.new("P", (8, 8)).save(blank, "png")

    @wraps(drawn)
    def draw(picture: Picture, folder: Path) -> Path:
        shown = repr(picture)
        if shown not in built:
            png._figure_of(picture.drawings)
            built.add(shown)
        path = folder / picture.file
        path.write_bytes(blank.getvalue())
        return path

    @wraps(save)
    def save_blank(figure: Figure, path: Path, title: str) -> Path:
        path.write_bytes(blank.getvalue())
        return path

    @wraps(specified)
    def specify(chart: Chart) -> PageChart:
        shown = repr(chart)
        if shown not in charts:
            charts[shown] = pickle.dumps(specified(chart))
        made: PageChart = pickle.loads(charts[shown])  # noqa: S301 - this process wrote it
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(png, "draw", draw)
        patch.setattr(tuning_png, "save", save_blank)
        patch.setattr(vega, "draw", specify)
        patch.setattr(services, "helpers", lambda: nullcontext(HERE))  # other processes would paint
        patch.setattr(ahead, "ReportProcess", lambda: ahead.DrawHere(services.draw_report))
        yield


@pytest.fixture
def painted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures and charts are drawn as users get them, each time."""
    for module, name in ((png, "draw"), (tuning_png, "save"), (vega, "draw")):
        monkeypatch.setattr(module, name, unwrap(getattr(module, name)))


@pytest.fixture
def painted_small(painted: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are laid out and painted, with a quarter of the pixels a side: whether all of it can be drawn."""
    monkeypatch.setattr(png, "DPI", png.DPI // 4)


@pytest.fixture
def make(tmp_path: Path) -> Callable[[str], Store]:
    import written_runs  # noqa: PLC0415 - after the path is set

    return lambda what: written_runs.make_store(tmp_path, what)


@pytest.fixture
def counting_bytes() -> Callable[[Store], Store]:
    """The same run, of an operator whose throughput counts bytes."""

    def counting(store: Store) -> Store:
        for position, record in enumerate(store.records()):
            bounds = (Bound("DRAM", 410.0, "201 MB at 4800 GB/s", 4800.0),)
            assert record.prediction is not None
            prediction = replace(record.prediction, bounds=bounds, peak_gb_s=4800.0)
            store.write(replace(record, merit=Merit.BANDWIDTH, prediction=prediction), position)
        return store

    return counting


@pytest.fixture
def counting_keys() -> Callable[[Store], Store]:
    """The same run, whose file declares a rate of its own and two more figures: 2 Mkeys a launch."""

    def counting(store: Store) -> Store:
        for position, record in enumerate(store.records()):
            bounds = (Bound("DRAM", 410.0, "201 MB at 4800 GB/s", 4800.0),)
            assert record.prediction is not None
            prediction = replace(record.prediction, bounds=bounds, peak_gb_s=4800.0)
            further = (
                DeclaredFigure("ms", "1000 * time", {}),
                DeclaredFigure("Gbit/s", "64 * n / time", {"n": 1000}, 1e9),
            )
            made = replace(record, merit=Merit.BANDWIDTH, prediction=prediction, estimate=None)
            made = replace(made, declared_rate=DeclaredRate("Mkeys/s", 2.0), declared_figures=further)
            store.write(made, position)
        return store

    return counting


@pytest.fixture(scope="session")
def make_at() -> Callable[[Path, str], Store]:
    import written_runs  # noqa: PLC0415 - after the path is set

    return written_runs.make_store


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory, shared_folder: Path) -> Path:
    """Emulate kernels with known faults and costs into a run directory that tests only read."""
    import planted as kernels  # noqa: PLC0415 - after the path is set

    run_folder = shared_folder / "planted"
    with FileLock(shared_folder / "planted.lock"), pytest.MonkeyPatch.context() as patch:
        if not run_folder.exists():
            patch.setenv("LAB_CACHE_DIR", str(shared_folder / "cache"))
            patch.setenv("LAB_CALIBRATION", str(shared_folder / "none.yaml"))
            kernels.execute(tmp_path_factory.mktemp("planted")).replace(run_folder)
    return run_folder


@pytest.fixture(scope="session")
def script(benchmark_script):
    """`benchmarks/publish.py`."""
    return benchmark_script("publish")


@pytest.fixture
def read_only() -> Iterator[Callable[[Path], None]]:
    """Take the right to write into a folder, which is not below pytest's own, from this process; even root's."""
    before, folders = os.geteuid(), list[Path]()

    def take(folder: Path) -> None:
        os.seteuid(before)
        folders.append(folder)
        for path in folder.iterdir():
            path.chmod(0o444)
        folder.chmod(0o555)
        if before == 0:
            os.seteuid(65534)  # root may write anywhere
        assert not os.access(folder, os.W_OK, effective_ids=True)

    yield take
    os.seteuid(before)
    for folder in folders:
        folder.chmod(0o755)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)
