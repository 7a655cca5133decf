import pytest
from judged import RIGHT, SUM, task_in
from mistakes import coded

from lab.base.errors import UserError
from lab.judging.combined import experiment_of
from lab.judging.task import CandidateError, candidate_of, load_task


def combined(folder, text=RIGHT, base=None, **changes):
    task = load_task(task_in(folder, *([base] if base else []), **changes))
    (folder / "work").mkdir(exist_ok=True)
    return experiment_of(task, candidate_of(text, "kernel.cu", task), folder / "work", 5)


def headed(header):
    return f"/* lab\n{header}\n*/\n{RIGHT}"


def test_the_launch_is_the_candidates_or_else_the_tasks(tmp_path):
    assert "block: 128" in combined(tmp_path).text
    assert "block: 64" in combined(tmp_path, headed("block: 64")).text
    assert combined(tmp_path).seed == 5


def test_scratch_buffers_follow_the_tasks_arguments(tmp_path):
    header = "scratch: {partial: 'float32[4]'}\nlaunches: [{kernel: add, grid: 1, block: 32, arguments: [c, a, b, n]}]"
    loaded = combined(tmp_path, headed(header))
    assert [argument.name for argument in loaded.operator.declaration.arguments][-1] == "partial"


@pytest.mark.parametrize(
    ("header", "code", "key"),
    [
        ("scratch: {t: 'float32[4] = arange(4)'}", "refused", "scratch.t"),
        ("scratch: {t: 'float32[4] normal'}", "refused", "scratch.t"),
        ("scratch: {t: 'inout float32[4]'}", "refused", "scratch.t"),
        ("scratch: {t: 'float32[4] secret.npy'}", "refused", "scratch.t"),
        ("scratch: {a: 'float32[4]'}", "duplicate", "scratch.a"),
        ("parameters: {n: 4}", "conflict", "parameters.n"),
        ("parameters: {a: 4}", "conflict", "parameters.a"),
        ("grid: m", "unknown-name", "grid"),
        ("kernel: sub", "unknown-name", "kernel"),
        (
            "launches: [{kernel: add, grid: 1, block: 32, arguments: [c, a, b, z]}]",
            "unknown-name",
            "launches[0].arguments[3]",
        ),
    ],
)
def test_mistakes_of_a_candidate_are_its_own(tmp_path, header, code, key):
    with pytest.raises(CandidateError, check=coded(code, key=key)):
        combined(tmp_path, headed(header))


def test_a_source_without_a_launch_is_a_mistake_of_the_candidate(tmp_path):
    with pytest.raises(CandidateError):
        combined(tmp_path, base=SUM)


@pytest.mark.parametrize(
    ("changes", "code", "key", "line"),
    [
        ({"reference": "{c: a + d}"}, "syntax", "reference.c", 8),
        (
            {"arguments": '{c: "out float32[q]", a: "float32[n]", b: "float32[n]", n: int32}'},
            "unknown-name",
            "arguments.c",
            8,
        ),
    ],
)
def test_mistakes_of_a_task_are_placed_in_it(tmp_path, changes, code, key, line):
    with pytest.raises(UserError, check=coded(code, key=key, line=line)) as caught:
        combined(tmp_path, **changes)
    assert not isinstance(caught.value, CandidateError)
    assert caught.value.at.file == tmp_path / "add.yaml"


def test_files_of_a_task_are_relative_to_it(tmp_path):
    (tmp_path / "ref.py").write_text("def total(a, b):\n    return a + b\n")
    loaded = combined(tmp_path, reference="./ref.py:total")
    assert loaded.operator.declaration.function == f"{tmp_path / 'ref.py'}:total"
