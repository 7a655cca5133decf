"""Small mistakes made on purpose in lab's own modules: does a test fail?

python benchmarks/mutate.py [--room isa ...] [--sample 10] [--seed 0] [--data] [--output mutants.json]
python benchmarks/mutate.py --again mutants.json
python benchmarks/mutate.py --by-hand

Works on a copy of the repository. Of each module, `--sample` mutants are drawn. A mutant first meets the module's own
test file, then, if that passes, all tests of the room. The test run is a fork of this process, which has imported the
libraries, so that a mutant costs a second. Prints every mutant and a table of the rooms. `--again` tries what survived
once more and puts the answers into the file. `--by-hand` instead tries the mutants of `hand_made.py`, each against the
test that has to kill it, and exits with 1 if one survives.

Numbers in assignments of a module (tables of GPUs, fitted weights, limits) are facts, which a test could only repeat.
They are left out unless `--data` is given.

It runs by itself, not in the gate: it takes an hour where the tests take minutes.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import importlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import takewhile
from pathlib import Path
from types import ModuleType

from hand_made import HAND_MADE

ROOT = Path(__file__).resolve().parents[1]

ROOMS = (
    "predict",
    "hardware",
    "measured",
    "runs/compare.py",
    "store",
    "base",
    "library",
    "templates/mapping",
    "report/facts",
    "isa",
)
"""Below `lab/`: what decides a figure or guards a file."""

ALSO = {"runs/compare.py": ("tests/runs/test_compare.py",), "report/facts": ("tests/report/facts", "tests/report")}
"""What the second round runs instead of the room's own tests."""

LIBRARIES: tuple[str, ...] = (
    "pytest",
    "numpy",
    "pandas",
    "scipy.stats",
    "scipy.spatial",
    "scipy.optimize",
    "networkx",
    "pydantic",
)
LIBRARIES += ("hypothesis", "ruamel.yaml", "jinja2", "typer", "rich", "_pytest.assertion.rewrite")
LIBRARIES += ("matplotlib.figure", "filelock", "PIL.Image")

COPIED = ("lab", "tests", "benchmarks", "kernel_src", "experiments", "libraries", "docs", "reports")
LEAST_TEXT = 8
"""Bytes of a text that is looked for where a module changed."""

OPTIONS: tuple[str, ...] = ("-x", "-q", "--tb=line", "-rfE", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:lab")
OPTIONS += ("-o", "addopts=--strict-markers --import-mode=importlib")
"""Of each test run. The project's own options name some of xdist's, which a fork of one process does without."""

SETTLED_S = 20.0
"""A test run may take this long and six times what it takes without a mutation; a machine is sometimes busy."""

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
_ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign)
_LEFT_ALONE = (ast.JoinedStr, ast.Assert, ast.Import, ast.ImportFrom)
"""Text for people; assertions, which tell mypy what is known; imports."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One small mistake.

    Attributes:
        file: Below the repository.
        line: Where it begins, from 1.
        kind: What was done.
        before: The text that is replaced.
        after: What replaces it.
        start: First byte of it in the file.
        end: First byte behind it.
    """

    file: str
    line: int
    kind: str
    before: str
    after: str
    start: int
    end: int

    def applied(self, content: bytes) -> bytes:
        """The file with the mistake."""
        return content[: self.start] + self.after.encode() + content[self.end :]


def mutants_of(file: str, content: bytes) -> list[Mutant]:
    """All mutants of a module, in the order of their places, and then its negated conditions."""
    starts, tree = [0], ast.parse(content)
    for line in content.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def mutant(node: ast.expr | ast.stmt, kind: str, after: str) -> Mutant:
        assert node.end_lineno is not None  # noqa: S101 - the parser sets it
        assert node.end_col_offset is not None  # noqa: S101
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        before = content[start:end].decode()
        return Mutant(file, node.lineno, kind, before, after or f"(not ({before}))", start, end)

    mistakes = [mutant(node, kind, after) for node in _reached(tree) for kind, after in _mistakes(node)]
    mistakes.sort(key=lambda mistake: (mistake.start, mistake.end, mistake.kind))
    return [*mistakes, *(mutant(test, "condition", "") for test in _conditions(tree))]


def _reached(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """The nodes below that decide what the program does: no annotation, decorator, type alias or text for people."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "type_params"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, _LEFT_ALONE) or _is_no_code(node, child):
                continue
            if isinstance(child, ast.expr | ast.stmt):
                yield child
            yield from _reached(child)


def _is_no_code(parent: ast.AST, child: ast.AST) -> bool:
    """Type aliases; `strict=True` of `zip`, which is an assertion; blocks for mypy."""
    if isinstance(child, ast.keyword) and child.arg == "strict":
        return True
    if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
        return True
    return isinstance(parent, ast.Module) and isinstance(child, ast.Assign) and isinstance(child.value, ast.BinOp)


def _mistakes(node: ast.expr | ast.stmt) -> Iterator[tuple[str, str]]:  # noqa: C901 - one case an operator
    """Yield the possible mutations of a node: the kind, and the replacement text."""
    match node:
        case ast.Compare(left, [operator], [right]):
            yield "comparison", f"({_text(left)} {_symbol(_COMPARED[type(operator)]())} {_text(right)})"
        case ast.BinOp(left, operator, right) if type(operator) in _COMPUTED:
            if not any(isinstance(side, ast.JoinedStr) or _is_text(side) for side in (left, right)):
                yield "arithmetic", f"({_text(left)} {_symbol(_COMPUTED[type(operator)]())} {_text(right)})"
        case ast.AugAssign(target, operator, value) if type(operator) in _COMPUTED:
            yield "arithmetic", f"{ast.unparse(target)} {_symbol(_COMPUTED[type(operator)]())}= {_text(value)}"
        case ast.BoolOp(operator, values):
            other = " or " if isinstance(operator, ast.And) else " and "
            yield "and/or", f"({other.join(_text(value) for value in values)})"
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield "sign", f"({_text(operand)})"
        case ast.Constant(bool() as value):
            yield "constant", str(not value)
        case ast.Constant(int() | float() as value):
            yield "constant", f"({value + 1!r})"
            yield "constant", f"({value - 1!r})"
        case ast.IfExp(test, body, orelse):
            yield "condition", f"({_text(body)} if not {_text(test)} else {_text(orelse)})"
        case ast.Return(value) if value is not None and ast.unparse(value) != "None":
            yield "return", "return None"
        case ast.Continue():
            yield "loop", "break"
        case ast.Break():
            yield "loop", "continue"


def _conditions(tree: ast.Module) -> list[ast.expr]:
    """The conditions of each `if`, `while` and comprehension."""
    tests: list[ast.expr] = []
    for node in _reached(tree):
        if isinstance(node, ast.If | ast.While) and not isinstance(node.test, ast.Constant):
            tests.append(node.test)
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            tests += [test for loop in node.generators for test in loop.ifs]
    return tests


def _text(node: ast.expr) -> str:
    return f"({ast.unparse(node)})"


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _symbol(operator: ast.cmpop | ast.operator) -> str:
    if isinstance(operator, ast.cmpop):
        return ast.unparse(ast.Compare(ast.Name("a"), [operator], [ast.Name("b")]))[2:-2]
    return ast.unparse(ast.BinOp(ast.Name("a"), operator, ast.Name("b")))[2:-2].strip()


def drawn(file: str, content: bytes, most: int, seed: int, *, data: bool) -> list[Mutant]:
    """At most this many mutants of a module, the same for the same seed, in the order of their places."""
    every = mutants_of(file, content)
    if not data:
        data_nodes = [node for node in ast.parse(content).body if isinstance(node, _ASSIGNMENTS)]
        lines = {line for node in data_nodes for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
        every = [one for one in every if one.line not in lines or one.kind != "constant"]
    rng = random.Random(f"{seed} {file}")  # noqa: S311 - no secret
    return sorted(rng.sample(every, min(most, len(every))), key=lambda one: (one.start, one.end))


def copied(target: Path) -> None:
    """Copy what tests need, links included, without caches."""
    ignore = shutil.ignore_patterns("__pycache__", ".hypothesis")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target / name, ignore=ignore, symlinks=True)
    for file in ROOT.iterdir():
        if file.is_file():
            shutil.copy2(file, target / file.name)


def prepared() -> None:
    """Import the libraries, once for all forks; one thread each, since threads do not survive a fork."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = "1"
    for name in LIBRARIES:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # else every fork goes through all these objects, and so copies their pages


@dataclass(frozen=True, slots=True)
class Tried:
    """The outcome of a test run.

    Attributes:
        code: Exit code of pytest; None where it took too long.
        seconds: Duration.
        output: What it printed.
    """

    code: int | None
    seconds: float
    output: str

    @property
    def by(self) -> str:
        """The test that failed first."""
        if self.code is None:
            return "time limit"
        lines = [line for line in self.output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        return lines[0].split(" - ")[0].split(" ", 1)[1] if lines else "the test run itself ended"


def attempted(tree: Path, tests: Sequence[str], limit_s: float, *, keeps_bytecode: bool = False) -> Tried:
    """Run tests in a fork of this process, in the copy."""
    began = time.perf_counter()
    with tempfile.TemporaryFile("w+") as output:
        child = os.fork()
        if child == 0:
            _be_pytest(tree, tests, output.fileno(), keeps_bytecode=keeps_bytecode)
        code = _awaited(child, began + limit_s)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # the workers that it left
        if code is None:
            os.waitpid(child, 0)
        output.seek(0)
        return Tried(code, time.perf_counter() - began, output.read())


def _awaited(child: int, until: float) -> int | None:
    while time.perf_counter() < until:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    return None


def _be_pytest(tree: Path, tests: Sequence[str], output: int, *, keeps_bytecode: bool) -> None:
    """Become a test run; never returns."""
    code = 70
    try:
        os.setpgid(0, 0)
        for stream in (1, 2):
            os.dup2(output, stream)
        os.chdir(tree)
        sys.path[:] = [
            str(tree),
            *(entry for entry in sys.path if entry not in {str(ROOT), str(ROOT / "benchmarks"), ""}),
        ]
        os.environ["PYTHONPATH"] = str(tree)
        sys.modules["__main__"] = ModuleType("__main__")  # processes that tests start would import this script
        sys.dont_write_bytecode = not keeps_bytecode
        from hypothesis import Phase, settings  # noqa: PLC0415 - imported before the fork
        from pytest import main as test  # noqa: PLC0415, PT013

        # a failure counts whatever its smallest example is; a slow machine is no failure
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutate", deadline=None, database=None, derandomize=True, phases=phases)
        settings.load_profile("mutate")
        base = f"--basetemp={tree.parent / 'pytest'}"
        code = int(test([*OPTIONS, base, *tests]))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


@contextlib.contextmanager
def mistaken(tree: Path, file: str, content: bytes) -> Iterator[None]:
    """The copy with other content in one file; no bytecode of the right one is left."""
    path = tree / file
    right = path.read_bytes()
    for stale in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        stale.unlink()
    path.write_bytes(content)
    try:
        yield
    finally:
        path.write_bytes(right)


@dataclass(frozen=True, slots=True)
class Judged:
    """A mutant and its end.

    Attributes:
        room: Its room.
        mutant: The mutant.
        killed: Whether a test failed.
        by: The first that did.
    """

    room: str
    mutant: Mutant
    killed: bool
    by: str


class Bench:
    """The copy, and how long tests take there without a mistake."""

    def __init__(self, tree: Path) -> None:
        """Start with a copy that no test was run on."""
        self.tree = tree
        self._limits: dict[tuple[str, ...], float | None] = {}

    def limit_s(self, tests: tuple[str, ...]) -> float | None:
        """Time limit of these tests; None where they fail without any mistake."""
        if tests not in self._limits:
            right = attempted(self.tree, tests, 600.0, keeps_bytecode=True)
            self._limits[tests] = SETTLED_S + 6 * right.seconds if right.code == 0 else None
            if right.code:
                last = right.output.strip().rpartition("\n")[2]
                print(f"{' '.join(tests)} fails as it is: {right.by}: {last}", file=sys.stderr)
        return self._limits[tests]

    def judge(self, room: str, mutant: Mutant, rounds: Sequence[tuple[str, ...]]) -> Judged:
        """Try a mutant against the tests, the nearest first."""
        content, met = (self.tree / mutant.file).read_bytes(), False
        for tests in rounds:
            limit = self.limit_s(tests)
            if limit is None:
                continue
            with mistaken(self.tree, mutant.file, mutant.applied(content)):
                tried = attempted(self.tree, tests, limit)
            met = True
            if tried.code != 0:
                return Judged(room, mutant, killed=True, by=tried.by)
        return Judged(room, mutant, killed=False, by="" if met else "no test passes without it")


def modules(room: str) -> list[str]:
    """Files of a room, below the repository."""
    place = ROOT / "lab" / room
    files = [place] if place.is_file() else sorted(place.rglob("*.py"))
    return [str(file.relative_to(ROOT)) for file in files if file.name != "__init__.py"]


def rounds_of(room: str, file: str) -> list[tuple[str, ...]]:
    """The module's own test file, then the room's tests."""
    path = Path(file)
    own = Path("tests", *path.parts[1:-1], f"test_{path.name}")
    rounds = [(str(own),)] if (ROOT / own).is_file() else []
    return [*rounds, *((test,) for test in ALSO.get(room, (f"tests/{room}",)) if test != str(own))]


def sampled(bench: Bench, rooms: Sequence[str], most: int, seed: int, *, data: bool, near: bool) -> Iterator[Judged]:
    """Judge the drawn mutants of rooms; `near` as for `again`."""
    for room in rooms:
        for file in modules(room):
            for mutant in drawn(file, (bench.tree / file).read_bytes(), most, seed, data=data):
                yield bench.judge(room, mutant, rounds_of(room, file)[: 1 if near else None])


def again(bench: Bench, earlier: Sequence[Judged], *, near: bool) -> Iterator[Judged]:
    """Judge those that survived, where their text still is; take over the others.

    Args:
        bench: The copy.
        earlier: What was judged.
        near: Ask the module's own tests alone.
    """
    for judged in earlier:
        mutant = None if judged.killed else _found_again(bench.tree, judged.mutant)
        if mutant is None:
            yield judged
        else:
            yield bench.judge(judged.room, mutant, rounds_of(judged.room, mutant.file)[: 1 if near else None])


def _found_again(tree: Path, mutant: Mutant) -> Mutant | None:
    """The mutant where its text stands now: in its place, or, if it is long enough to be told apart, nearest to it."""
    content, before = (tree / mutant.file).read_bytes(), mutant.before.encode()
    if content[mutant.start : mutant.end] == before:
        return mutant
    places = [at for at in range(len(content)) if content.startswith(before, at)]
    if len(before) < LEAST_TEXT or not places:
        return None
    start = min(places, key=lambda at: abs(at - mutant.start))
    return replace(mutant, line=content[:start].count(b"\n") + 1, start=start, end=start + len(before))


def read(path: Path) -> list[Judged]:
    """Read the file that `--output` wrote."""
    return [Judged(**{**load, "mutant": Mutant(**load["mutant"])}) for load in json.loads(path.read_text())]


def by_hand(bench: Bench) -> Iterator[Judged]:
    """Judge the mutants that people thought of, each against its test alone.

    Raises:
        ValueError: the place of one is not, or not only once, in its file.
    """
    for hand_made in HAND_MADE:
        content = (bench.tree / hand_made.file).read_bytes()
        before = hand_made.before.encode()
        if content.count(before) != 1:
            raise ValueError(
                f"{hand_made.file} has {hand_made.before!r} {content.count(before)} times; accepted is once"
            )
        start = content.index(before)
        line = content[:start].count(b"\n") + 1
        mutant = Mutant(
            hand_made.file, line, hand_made.what, hand_made.before, hand_made.after, start, start + len(before)
        )
        yield bench.judge("by hand", mutant, [(hand_made.test,)])


def table(judged: Sequence[Judged]) -> list[str]:
    """The figures of each room."""
    tried, killed = Counter(one.room for one in judged), Counter(one.room for one in judged if one.killed)
    lines = ["| room | mutants | killed | survived | share |", "| --- | --- | --- | --- | --- |"]
    for room, number in tried.items():
        lines.append(
            f"| `{room}` | {number} | {killed[room]} | {number - killed[room]} | {killed[room] / number:.0%} |"
        )
    if judged:
        whole = sum(killed.values())
        lines.append(f"| all | {len(judged)} | {whole} | {len(judged) - whole} | {whole / len(judged):.1%} |")
    return lines


def _short(text: str) -> str:
    return " ".join(text.split())[:90]


def main() -> None:
    """Mutate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--room", action="append", help="a room below lab/, or a module; may be repeated")
    parser.add_argument("--sample", type=int, default=10, help="mutants of a module")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--minutes", type=float, default=600, help="no further mutant is begun after this time")
    parser.add_argument("--data", action="store_true", help="numbers in assignments of a module, too")
    parser.add_argument("--again", type=Path, help="a file of --output: try what survived again")
    parser.add_argument("--near", action="store_true", help="ask the modules' own tests alone")
    parser.add_argument("--by-hand", action="store_true", help="the mutants of hand_made.py instead")
    parser.add_argument("--output", type=Path, help="a JSON file for all mutants")
    options = parser.parse_args()
    prepared()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="mutate-") as name:
        tree = Path(name) / "copy"
        copied(tree)
        bench = Bench(tree)
        if options.by_hand:
            source = by_hand(bench)
        elif options.again:
            source = again(bench, read(options.again), near=options.near)
        else:
            source = sampled(
                bench, options.room or ROOMS, options.sample, options.seed, data=options.data, near=options.near
            )
        judged: list[Judged] = []
        for result in takewhile(lambda _: time.perf_counter() - began < 60 * options.minutes, source):
            judged.append(result)
            how = f"killed by {result.by}" if result.killed else "SURVIVED"
            place = f"{result.mutant.file}:{result.mutant.line}"
            print(
                f"{place} {result.mutant.kind}: {_short(result.mutant.before)} -> {_short(result.mutant.after)}: {how}",
                flush=True,
            )
            if options.output:
                options.output.write_text(json.dumps([asdict(each) for each in judged], indent=1))
    if options.again:
        options.again.write_text(json.dumps([asdict(each) for each in judged], indent=1))
    print(*table(judged), sep="\n")
    print(f"{len(judged)} mutants in {(time.perf_counter() - began) / 60:.0f} min")
    sys.exit(int(options.by_hand and not all(one.killed for one in judged)))


if __name__ == "__main__":
    main()
