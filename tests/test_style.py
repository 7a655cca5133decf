"""The lint of docs/style.md: summaries, messages, headings and names of lab, tests and benchmarks."""

import ast
import functools
import re
from collections.abc import Iterator
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

OPENING = re.compile(r"(What|Whether|Where|How|Who|Those|That)\b")
NO_NOUN = re.compile(r"\b(is|are) no (?!longer\b|more\b|less\b|fewer\b|such\b|other\b)[a-z]")
PRIVATE = re.compile(
    r"\b(blocks that stay|resident blocks in a loop|ends of blocks|a warp that fetches|warps that multiply|bulk copies"
    r"|tensor copies|tiles in bands|takes? turns|asides?|strays|pieces? of work|surroundings|16-bit products"
    r"|sums of float32|executed on the CPU|what ptxas spills|floats? of eight bits|in turns|sizes that nobody tuned)\b",
    re.IGNORECASE,
)
"""The left column of the glossary."""

ALLOWED: dict[str, str] = {}
"""Texts and `file:name` pairs that are left as they are, each with its reason; at most 20."""


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def summaries(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the first line of each docstring, with its line."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text.split("\n\n")[0].replace("\n", " ")


def messages(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the literal text of each raised exception's arguments."""
    for node in ast.walk(tree_of(path)):
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
    for function in ast.walk(tree_of(path)):
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


@pytest.mark.parametrize("rule", [OPENING.match, NO_NOUN.search, PRIVATE.search], ids=["opening", "no-noun", "private"])
def test_summaries(rule):
    bad = [
        f"{_where(path, line)}: {text}"
        for path in CODE
        for line, text in summaries(path)
        if rule(text) and text not in ALLOWED
    ]
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize("rule", [NO_NOUN.search, PRIVATE.search], ids=["no-noun", "private"])
def test_messages(rule):
    bad = [
        f"{_where(path, line)}: {text}"
        for path in CODE
        if path.is_relative_to(ROOT / "lab")
        for line, text in messages(path)
        if rule(text) and text not in ALLOWED
    ]
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize("rule", [OPENING.match, NO_NOUN.search, PRIVATE.search], ids=["opening", "no-noun", "private"])
def test_headings(rule):
    bad = [
        f"{_where(path, line)}: {text}"
        for path in DOCS
        if path != STYLE
        for line, text in headings(path)
        if rule(text) and text not in ALLOWED
    ]
    assert not bad, "\n".join(bad)


def test_names():
    bad = [
        f"{_where(path, line)}: {name}"
        for path in CODE
        for line, name in long_lived(path)
        if f"{path.relative_to(ROOT)}:{name}" not in ALLOWED
    ]
    assert not bad, f"{len(bad)}\n" + "\n".join(bad)


def test_few_exceptions():
    assert len(ALLOWED) <= 20
    assert all(reason for reason in ALLOWED.values())


@pytest.mark.parametrize(
    ("rule", "text", "bad"),
    [
        (OPENING.match, "What the cache keeps.", True),
        (OPENING.match, "A cached emulation result.", False),
        (NO_NOUN.search, "metric is no number", True),
        (NO_NOUN.search, "the process is no longer there", False),
        (PRIVATE.search, "Say which blocks that stay are asked.", True),
        (PRIVATE.search, "Persistent CTAs", False),
    ],
)
def test_the_rules_themselves(rule, text, bad):
    assert bool(rule(text)) is bad


def test_a_vague_name_is_found_by_its_life(tmp_path):
    path = tmp_path / "code.py"
    path.write_text(
        "def f(values):\n    found = values[0]\n    return found\n\n\ndef g(one):\n"
        + "    x = 1\n" * 6
        + "    return one + x\n"
    )
    assert list(long_lived(path)) == [(6, "one")]
