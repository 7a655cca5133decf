from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

TRY = "lambda name: attempted(Path(sys.argv[1]), (f'tests/test_{name}.py',), 60.0)"


@pytest.fixture
def mutate(benchmark_script):
    return benchmark_script("mutate")


def test_a_test_run_in_a_copy_passes_and_fails_with_the_projects_own_options(root, tmp_path):
    tree = tmp_path / "copy"
    (tree / "tests").mkdir(parents=True)
    shutil.copy2(root / "pyproject.toml", tree)
    (tree / "tests" / "test_one.py").write_text("def test_sum():\n    assert 1 + 1 == 2\n")
    (tree / "tests" / "test_two.py").write_text("def test_sum():\n    assert 1 + 1 == 3\n")
    # a process of its own: the script forks, which a process with threads must not do
    asked = f"from mutate import *; [print(one.code, one.by) for one in map({TRY}, ('one', 'two'))]"
    env = {**os.environ, "PYTHONPATH": str(root / "benchmarks")}
    done = subprocess.run([sys.executable, "-c", asked, tree], capture_output=True, text=True, check=False, env=env)
    assert done.stdout.splitlines()[1:] == ["1 tests/test_two.py::test_sum"], done.stderr
    assert done.stdout.startswith("0 ")


def test_a_mutant_of_each_kind(mutate):
    text = b"def f(a: int = 1) -> int:\n    if not a < 2 and a:\n        return a + 1\n    return -a\n"
    mutated_texts = {one.applied(text).decode() for one in mutate.mutants_of("lab/f.py", text)}
    assert any("(a) <= (2)" in text for text in mutated_texts)
    assert any("(a) - (1)" in text for text in mutated_texts)
    assert any("(not a < 2) or (a)" in text for text in mutated_texts)
    assert any("return ((a))\n" in text for text in mutated_texts)
    assert any("a: int = (2)" in text for text in mutated_texts)
    assert any("return None\n    return -a" in text for text in mutated_texts)
    assert any("if (not (not a < 2 and a)):" in text for text in mutated_texts)


def test_facts_in_assignments_of_a_module_are_no_mutants(mutate):
    text = b"LIMIT = 3\n\n\ndef f() -> int:\n    return 4\n"
    assert {one.line for one in mutate.drawn("lab/f.py", text, 99, 0, data=False)} == {5}
    assert {one.line for one in mutate.drawn("lab/f.py", text, 99, 0, data=True)} == {1, 5}


def test_every_mistake_made_by_hand_has_its_place_and_its_test(mutate, root):
    for mutant in mutate.HAND_MADE:
        file, _, name = mutant.test.partition("::")
        assert (root / mutant.file).read_text().count(mutant.before) == 1, mutant.what
        assert mutant.before != mutant.after
        assert f"def {name}(" in (root / file).read_text(), mutant.what
