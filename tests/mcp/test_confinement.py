import pytest
from judged import ADD
from mistakes import coded

from lab.base.errors import UserError
from lab.mcp.confinement import Confinement


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "root"
    folder.mkdir()
    (tmp_path / "secret.cu").write_text("x")
    (folder / "link.cu").symlink_to(tmp_path / "secret.cu")
    (folder / "kernel.cu").write_text("x")
    (folder / "good.yaml").write_text(ADD)
    (folder / "kernel.py").write_text("x = 1\n")
    return folder


@pytest.mark.parametrize("name", ["../secret.cu", "/etc/hostname", "link.cu", "a/../../secret.cu", "\0"])
def test_paths_stay_in_the_root(root, name):
    with pytest.raises(UserError, check=coded("refused", key="file")):
        Confinement(root).file(name, "file")


def test_files_of_the_root_are_taken(root):
    assert Confinement(root).file("kernel.cu", "file") == root / "kernel.cu"
    assert Confinement(root).file("good.yaml", "task") == root / "good.yaml"


@pytest.mark.parametrize(
    "line",
    [
        "reference: /home/me/expected.npy",
        "root: ../..",
        "include: [..]",
        "include: ['~/headers']",
        "source: a/../../k.cu",
        'arguments: {a: "float32[4] /srv/a.npy"}',
    ],
)
def test_files_that_name_what_is_outside_are_refused(root, line):
    (root / "bad.yaml").write_text(f"problem: {{n: 4}}\n{line}\n")
    with pytest.raises(UserError, check=coded("refused", key="task", line=2)):
        Confinement(root).file("bad.yaml", "task")


def test_divisions_and_relative_paths_are_no_such_names(root):
    text = ADD + "grid: n // 4 / 2\ninclude: [headers/mine]\nmetrics: {GB/s: 4 * n / time}\n"
    (root / "fine.yaml").write_text(text)
    assert Confinement(root).file("fine.yaml", "task")


def test_python_needs_permission(root):
    (root / "ref.yaml").write_text("reference: ./ref.py:total\n")
    for name in ("kernel.py", "ref.yaml"):
        with pytest.raises(UserError, check=coded("refused", key="file", found=name)):
            Confinement(root).file(name, "file")
        assert Confinement(root, python=True).file(name, "file") == root / name
