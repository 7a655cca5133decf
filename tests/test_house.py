"""Rules of the house that no linter knows: where modules, classes, tests and PyCUDA may stand."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAB = ROOT / "lab"
MODULES = sorted(path for path in LAB.rglob("*.py") if path.name not in ("__init__.py", "__main__.py"))
FACES = sorted(path for path in LAB.rglob("__init__.py") if path.parent != LAB)
MOST_ROOMS = 27


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_no_module_stands_outside_a_room() -> None:
    assert {path.name for path in LAB.glob("*.py")} == {"__init__.py", "__main__.py"}


def test_the_rooms_fit_on_one_drawing() -> None:
    rooms = [path for path in LAB.iterdir() if (path / "__init__.py").is_file()]
    assert len(rooms) <= MOST_ROOMS


@pytest.mark.parametrize("face", FACES, ids=relative)
def test_a_package_says_what_it_is_for_and_defines_nothing(face: Path) -> None:
    body = ast.parse(face.read_text(encoding="utf-8")).body
    assert body, f"{relative(face)} has no docstring"
    docstring, *rest = body
    assert isinstance(docstring, ast.Expr), f"{relative(face)} has no docstring"
    assert all(isinstance(node, ast.Import | ast.ImportFrom | ast.Assign) for node in rest)
    if relative(face) != "lab/emulator/operations/__init__.py":  # importing it fills the table of operations
        assert not rest, f"{relative(face)} hands names on: import the module that defines them"


def imported_modules(module: Path) -> set[str]:
    """Return the modules of lab that a module imports, also for annotations alone."""
    names = set[str]()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    return names


def test_a_room_names_the_modules_that_other_rooms_import() -> None:
    modules, used = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for path in MODULES:
        room, *rest = path.relative_to(LAB).with_suffix("").parts
        modules[room].add(".".join(rest))
    for path in LAB.rglob("*.py"):
        for name in imported_modules(path):
            _, room, module, *_ = [*name.split(".", 2), "", "", ""]
            if room != path.relative_to(LAB).parts[0] and module in modules.get(room, ()):
                used[room].add(module)
    wrong = {}
    for room, own in modules.items():
        listed = "all" if used[room] == own else ", ".join(f"`{module}`" for module in sorted(used[room]))
        sentence = f"Modules that other rooms import: {listed}."
        if sentence not in " ".join((LAB / room / "__init__.py").read_text(encoding="utf-8").split()):
            wrong[f"lab/{room}/__init__.py"] = sentence
    assert wrong == {}


def defines_something(module: Path) -> bool:
    """Constants and type aliases alone leave nothing to test."""
    body = ast.parse(module.read_text(encoding="utf-8")).body
    return any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) for node in body)


@pytest.mark.parametrize("module", MODULES, ids=relative)
def test_every_module_has_a_test_of_its_name(module: Path) -> None:
    test = ROOT / "tests" / module.relative_to(LAB).parent / f"test_{module.name}"
    assert test.is_file() or not defines_something(module), f"{relative(module)} has no {relative(test)}"


def test_every_test_is_named_after_a_module() -> None:
    """Tests of templates, of scripts, on a GPU and of several rooms together have folders of their own."""
    wholes = ("kernel_src", "benchmarks", "on_gpu", "wholes", "support")
    strays = [
        relative(test)
        for test in sorted((ROOT / "tests").rglob("test_*.py"))
        if (parts := test.relative_to(ROOT / "tests").parts)[0] not in wholes
        and len(parts) > 1
        and not list((LAB / Path(*parts[:-1])).glob(f"{test.stem.removeprefix('test_')}.py"))
    ]
    assert not strays


def test_a_public_class_name_has_one_meaning() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for module in MODULES:
        for node in ast.parse(module.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(relative(module))
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}


def test_only_the_gpu_room_touches_pycuda() -> None:
    """An import contract sees import statements alone; this sees `import_module("pycuda...")`, too."""
    named = re.compile(r"^\s*(?:import|from)\s+pycuda|import_module\(\s*[\"']pycuda", re.MULTILINE)
    offenders = [
        relative(module)
        for module in MODULES
        if named.search(module.read_text(encoding="utf-8")) and "gpu" not in module.relative_to(LAB).parts
    ]
    assert offenders == []


def test_only_the_cluster_room_touches_dask() -> None:
    named = re.compile(r"^\s*(import|from) (dask|distributed)\b", re.MULTILINE)
    users = {relative(module) for module in MODULES if named.search(module.read_text(encoding="utf-8"))}
    assert users
    assert all(name.startswith("lab/cluster/") for name in users)


def test_no_alias_hides_what_an_array_holds() -> None:
    alias = re.compile(r"^\w+(?:: TypeAlias)? = (?:npt\.)?NDArray\[Any\]", re.MULTILINE)
    assert [relative(module) for module in MODULES if alias.search(module.read_text(encoding="utf-8"))] == []


def test_no_test_depends_on_the_clock() -> None:
    """Waiting makes tests slow on a quiet machine and wrong on a busy one."""
    waits = re.compile(r"\btime\.sleep\(|^from time import .*\bsleep\b", re.MULTILINE)
    offenders = [
        relative(test)
        for test in sorted((ROOT / "tests").rglob("*.py"))
        if waits.search(test.read_text(encoding="utf-8")) and "support" not in test.parts
    ]
    assert offenders == []


def test_no_pattern_has_a_possessive_group() -> None:
    """Python 3.11.2, which Debian 12 has, mismatches `(...)*+` (gh-106052); `(?>(...)*)` means the same."""
    possessive = re.compile(r"\)[*+?]\+")
    assert [relative(module) for module in MODULES if possessive.search(module.read_text(encoding="utf-8"))] == []


def test_no_duration_is_taken_from_a_clock_that_can_be_set() -> None:
    """Limits and durations are on `time.monotonic` and `time.perf_counter`; dates are only written down."""
    settable = re.compile(r"\btime\.time(_ns)?\(|^from time import .*\btime\b", re.MULTILINE)
    assert not [relative(module) for module in MODULES if settable.search(module.read_text(encoding="utf-8"))]


def test_every_process_gets_an_environment_of_its_own() -> None:
    """A process that is started without one reads this process's variables, which another thread may be changing."""
    offenders = []
    for module in MODULES:
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("subprocess.run", "subprocess.Popen"):
                offenders += (
                    []
                    if any(keyword.arg == "env" for keyword in node.keywords)
                    else [f"{relative(module)}:{node.lineno}"]
                )
    assert offenders == []


TOUCHES = frozenset(("open", "read_bytes", "write_text", "write_bytes", "unlink", "rename", "iterdir", "glob", "rglob"))
SENT = (
    "lab/store",
    "lab/report",
    "lab/library/archive.py",
    "lab/runs/sides.py",
    "lab/runs/repeat.py",
    "lab/base/lock.py",
)
"""Rooms and modules that read or write what somebody else may have sent."""

ALLOWED = {
    ("lab/library/archive.py", "glob"): "of a folder that its user packs",
    ("lab/library/archive.py", "iterdir"): "likewise, and libraries that come with lab",
    ("lab/library/archive.py", "read_bytes"): "likewise",
    ("lab/report/page/page.py", "read_text"): "the page's own code, and the user's cache",
    ("lab/store/previous.py", "iterdir"): "entries of the run directory itself, whose path is the user's",
    ("lab/store/previous.py", "rename"): "likewise; a link is moved and not followed",
}


def test_what_somebody_sent_is_opened_in_one_place() -> None:
    """`lab.base.folder` follows no link, and opens no FIFO and no device; `pathlib` does."""
    openings = set()
    for module in MODULES:
        if not relative(module).startswith(SENT):
            continue
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            of_a_path = name == "read_text" and any(keyword.arg == "encoding" for keyword in node.keywords)
            of_a_folder = ast.unparse(node.func) in ("folder.open", "self._folder.open", "tarfile.open")
            if (name in TOUCHES and not of_a_folder) or of_a_path:
                openings.add((relative(module), name))
    assert openings == set(ALLOWED)


TERMINAL = {"lab/base/terminal.py", "lab/cli/terminal.py"}
OTHERS = {
    "lab/base/interrupts.py": "a constant text, from a signal's handler, which must not wait for a lock",
    "lab/gpu/device/residents.py": "its standard output is a pipe to the process that asks",
    "lab/toolchain/triton/worker.py": "likewise",
    "lab/operators/checked.py": "what the user's own Python prints",
}
WRITES = re.compile(
    r"print|(?:typer|click)\.s?echo|traceback\.print_\w+|rich\.\w+|(?:\w+\.)*Console|os\.write\([12],.*"
    r"|(?:\w+\.)*_?console\.(?:file\.\w+|out)",
    re.DOTALL,
)
STREAMS = re.compile(r"sys\.(?:__)?(?:stdout|stderr)(?:__)?")
HARMLESS = {"fileno", "flush", "isatty"}


def writes_to_a_terminal(source: str) -> list[int]:
    """Lines at which a module may write to standard output or standard error."""
    tree = ast.parse(source)
    harmless = {node.value for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in HARMLESS}
    writing_lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            writing_lines += (
                [node.lineno] if WRITES.fullmatch(ast.unparse(node) if name == "os.write" else name) else []
            )
        elif isinstance(node, ast.ClassDef):
            writing_lines += [node.lineno for base in node.bases if WRITES.fullmatch(ast.unparse(base))]
        elif isinstance(node, ast.ImportFrom) and node.module in {"sys", "rich"}:
            writing_lines += [node.lineno for name in node.names if name.name in {"stdout", "stderr", "print"}]
        elif isinstance(node, ast.Attribute) and node not in harmless and STREAMS.fullmatch(ast.unparse(node)):
            writing_lines.append(node.lineno)
    return writing_lines


def test_text_reaches_a_terminal_in_one_way() -> None:
    """`lab.base.terminal.write` and the consoles of `lab.cli.terminal` make control characters visible."""
    lines_by_module = {relative(module): writes_to_a_terminal(module.read_text(encoding="utf-8")) for module in MODULES}
    assert {name for name, lines in lines_by_module.items() if lines} == TERMINAL | set(OTHERS)


@pytest.mark.parametrize(
    "line",
    [
        "print(x)",
        "typer.echo(x, err=True)",
        "sys.stdout.write(x)",
        "sys.stderr.buffer.write(x)",
        "out = sys.__stdout__",
        "from sys import stdout",
        "os.write(1, x)",
        "os.write(2, x)",
        "Console(stderr=True)",
        "console.file.write(x)",
        "self._console.out(x)",
        "rich.console.Console()",
        "traceback.print_exc()",
        "json.dump(x, file=sys.stdout)",
    ],
)
def test_each_way_to_write_is_seen(line: str) -> None:
    assert writes_to_a_terminal(line) != []
    assert writes_to_a_terminal("file.write(x); os.write(handle, x); console.print(x); sys.stdout.flush()") == []
