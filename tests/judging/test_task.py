import pytest
from judged import ADD, RIGHT, task_in
from mistakes import coded

from lab.base.errors import UserError
from lab.judging.task import CandidateError, candidate_of, choices_of, load_task


@pytest.fixture
def task(tmp_path):
    return load_task(task_in(tmp_path))


def test_a_task_called_task_has_the_name_of_its_folder(tmp_path):
    assert load_task(task_in(tmp_path)).name == "add"
    (tmp_path / "gemm").mkdir()
    file = tmp_path / "gemm" / "TASK.yaml"
    file.write_text(ADD)
    assert load_task(file).name == "gemm"


@pytest.mark.parametrize(
    ("changes", "code", "key"),
    [
        ({"hidden": "{sizes: {m: [1]}}"}, "unknown-name", "hidden.sizes.m"),
        ({"hidden": "{sizes: {n: []}}"}, "wrong-value", "hidden.sizes.n"),
        ({"hidden": "{sizes: {n: {range: [1, 5]}}}"}, "wrong-value", "hidden.sizes.n"),
        ({"baseline": "{}"}, "conflict", "baseline"),
        ({"baseline": "{ms: 1.0, source: a.cu}"}, "conflict", "baseline"),
        ({"reference": ""}, "missing-key", "reference"),
        ({"sources": "[cuda]"}, "wrong-value", "sources[0]"),
    ],
)
def test_mistakes_in_a_task_are_named(tmp_path, changes, code, key):
    with pytest.raises(UserError, check=coded(code, key=key)):
        load_task(task_in(tmp_path, **changes))


def test_ranges_include_their_stop(task):
    assert list(choices_of(task.raw, task.document, "n"))[-1] == 400


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f"/* lab\ngrid: 3\nblock: [32, 2]\n*/\n{RIGHT}", "kernel.cu"),
        (f"// a comment\n// lab\n// grid: 3\n// block: [32, 2]\n{RIGHT}", "kernel.cu"),
        ("# lab\n# grid: 3\n# block: [32, 2]\nimport triton\n", "kernel.py"),
    ],
)
def test_headers_are_comments(task, text, name):
    header = candidate_of(text, name, task).header
    assert (header.grid, header.block) == (3, [32, 2])
    assert candidate_of(RIGHT, "kernel.cu", task).header.grid is None


def test_a_mistake_in_a_header_has_its_line(task):
    text = f"// first line\n/* lab\ngrid: 3\nbolck: 32\n*/\n{RIGHT}"
    with pytest.raises(CandidateError, check=coded("unknown-key", key="bolck", line=4)):
        candidate_of(text, "kernel.cu", task)


def test_only_sources_of_the_task_are_taken(tmp_path, task):
    with pytest.raises(CandidateError, check=coded("unsupported", key="sources", found=".txt")):
        candidate_of(RIGHT, "kernel.txt", task)
    with pytest.raises(CandidateError, check=coded("unsupported", key="sources", found=".ptx")):
        candidate_of("", "kernel.ptx", load_task(task_in(tmp_path, sources="[cu]")))
