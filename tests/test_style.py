"""The lint of docs/style.md: summaries, messages, headings and names of lab, tests and benchmarks."""

import ast
import functools
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CODE = [path for folder in ("lab", "tests", "benchmarks", "examples") for path in sorted((ROOT / folder).rglob("*.py"))]
DOCS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
STYLE = ROOT / "docs/style.md"

VAGUE = {
    "one", "found", "made", "known", "told", "part", "each", "those", "here", "both",
    "given", "held", "wanted", "kept", "said", "asked", "seen", "meant", "shown", "done",
}  # fmt: skip
"""The names of rule 5, and their like."""

LONGEST_LIFE = 5
"""The most lines between a vague name's binding and its last use."""

OPENING = re.compile(r"^(What|Whether|Where|How(?!-to)|Who|Those|That)\b")
NO_NOUN = re.compile(r"(?<!there )\b(is|are) no (?!longer\b|more\b|less\b|fewer\b|such\b|other\b)[a-z]")
PRIVATE = re.compile(
    r"\b(blocks that stay|resident blocks in a loop|ends of blocks|a warp that fetches|warps that multiply"
    r"|tiles in bands|takes? turns|asides|strays|pieces? of work|surroundings|16-bit products"
    r"|sums of float32|executed on the CPU|what ptxas spills|floats? of eight bits|in turns|sizes that nobody tuned)\b",
    re.IGNORECASE,
)
"""The left column of the glossary, without the words that PTX and English use too, such as bulk copies."""

CEILINGS = {"lab": 77, "tests": 51, "benchmarks": 12, "examples": 0}
"""The vague names that outlive `LONGEST_LIFE` in each folder; lower a ceiling with every fix."""

LONG_SUBJECT = 72

OLD_SUBJECTS = {
    "Document Triton, numba, Warp, CuTe DSL, cuTile, nvcc, clang and libraries",
    "Page: show findings below the answer, and gains beside measured ones in docs",
    "Results table: fit the terminal, name the GPU, show ranges of predictions",
}
"""Longer subjects of commits that are older than this check."""


@functools.cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text())))


def summaries(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the first line of each docstring, with its line."""
    for node in nodes_of(path):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text.split("\n\n")[0].replace("\n", " ")


def messages(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the literal text of each raised exception's arguments."""
    for node in nodes_of(path):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            for argument in (*node.exc.args, *(keyword.value for keyword in node.exc.keywords)):
                for constant in ast.walk(argument):
                    if isinstance(constant, ast.Constant) and isinstance(constant.value, str):
                        yield node.lineno, constant.value


def headings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the headings of a page outside of code blocks."""
    fenced = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fenced ^= line.startswith("```")
        if not fenced and line.startswith("#"):
            yield number, line.lstrip("# ")


def long_lived(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the vague names that are used more than a few lines below their binding in one function."""
    for function in nodes_of(path):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        lines: dict[str, list[int]] = {}
        bound: set[str] = set()
        stack: list[ast.AST] = list(ast.iter_child_nodes(function))
        while stack:
            node = stack.pop()
            if isinstance(node, ast.Name) and node.id in VAGUE:
                lines.setdefault(node.id, []).append(node.lineno)
                if isinstance(node.ctx, ast.Store):
                    bound.add(node.id)
            elif isinstance(node, ast.arg) and node.arg in VAGUE:
                lines.setdefault(node.arg, []).append(node.lineno)
                bound.add(node.arg)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                continue  # walked by itself
            stack.extend(ast.iter_child_nodes(node))
        for name in sorted(bound):
            if max(lines[name]) - min(lines[name]) > LONGEST_LIFE:
                yield min(lines[name]), name


def _where(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def violations(rules: Iterable[re.Pattern[str]], places: Iterable[tuple[Path, int, str]]) -> list[str]:
    """Return the places whose text breaks a rule."""
    return [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path, line, text in places
        if any(rule.search(text) for rule in rules)
    ]


def test_summaries_of_docstrings() -> None:
    places = ((path, line, text) for path in CODE for line, text in summaries(path))
    assert not (bad := violations((OPENING, NO_NOUN, PRIVATE), places)), "\n".join(bad)


def test_messages_of_errors() -> None:
    modules = (path for path in CODE if path.is_relative_to(ROOT / "lab"))
    places = ((path, line, text) for path in modules for line, text in messages(path))
    assert not (bad := violations((NO_NOUN, PRIVATE), places)), "\n".join(bad)


def test_headings_of_pages() -> None:
    places = ((path, line, text) for path in DOCS if path != STYLE for line, text in headings(path))
    assert not (bad := violations((NO_NOUN, PRIVATE), places)), "\n".join(bad)


@pytest.mark.parametrize(("folder", "ceiling"), CEILINGS.items())
def test_vague_names_are_short_lived(folder: str, ceiling: int) -> None:
    modules = [path for path in CODE if path.is_relative_to(ROOT / folder)]
    bad = [f"{path.relative_to(ROOT)}:{line}: {name}" for path in modules for line, name in long_lived(path)]
    assert len(bad) == ceiling, f"{len(bad)}, ceiling {ceiling}\n" + "\n".join(bad)


def test_commit_subjects_are_short() -> None:
    git = ["git", "-C", str(ROOT), "log", "--no-merges", "--format=%s", "-100"]
    log = subprocess.run(git, capture_output=True, text=True, check=False)
    if log.returncode:
        pytest.skip("not a git clone")
    assert [
        subject for subject in log.stdout.splitlines() if len(subject) > LONG_SUBJECT and subject not in OLD_SUBJECTS
    ] == []


@pytest.mark.parametrize(
    ("rule", "text", "bad"),
    [
        (OPENING, "What the cache keeps.", True),
        (OPENING, "A cached emulation result.", False),
        (NO_NOUN, "metric is no number", True),
        (NO_NOUN, "None if there is no file", False),
        (NO_NOUN, "the process is no longer there", False),
        (PRIVATE, "Say which blocks that stay are asked.", True),
        (PRIVATE, "Persistent CTAs", False),
    ],
)
def test_each_rule_on_a_sentence(rule: re.Pattern[str], text: str, bad: bool) -> None:
    assert bool(rule.search(text)) is bad


def test_a_vague_name_is_found_by_its_life(tmp_path: Path) -> None:
    path = tmp_path / "code.py"
    path.write_text(
        "def f(values):\n    found = values[0]\n    return found\n\n\ndef g(one):\n"
        + "    x = 1\n" * 6
        + "    return one + x\n"
    )
    assert list(long_lived(path)) == [(6, "one")]
