from __future__ import annotations

import pytest
from typer.testing import CliRunner

from lab.cli.main import app
from lab.cli.new import new
from lab.cli.rehearsal import rehearse
from lab.recorded.run_records import Status

GOOD = "if (i < n) y[i] = 2 * x[i];"


def source_of(folder, statement):
    text = (
        f"__global__ void k(float *y, const float *x, int n) {{ int i = blockIdx.x * 64 + threadIdx.x; {statement} }}"
    )
    (folder / "k.cu").write_text(text)
    return folder / "k.cu"


@pytest.mark.parametrize(
    ("statement", "status", "words"),
    [
        (GOOD, Status.PARTIAL, "no reference is given"),
        ("if (i <= n) y[i] = x[i];", Status.WRONG, "out-of-bounds"),
        ("if (i < n) y[i] = unheard_of(x[i]);", Status.COMPILE_FAILED, "unheard_of"),
    ],
)
def test_a_draft_is_executed_at_once(tmp_path, statement, status, words):
    done = rehearse(new(source_of(tmp_path, statement)))
    assert (done.status, done.runs) == (status, status.sound)
    assert words in done.verdict(is_guess=False)
    assert done.verdict(is_guess=True).startswith("not judged")


def test_a_file_that_cannot_be_read_has_no_verdict(tmp_path):
    file = new(source_of(tmp_path, GOOD))
    file.write_text(file.read_text().replace("block: 64", "block: nobody"))
    done = rehearse(file)
    assert (done.status, "nobody" in done.reason) == (None, True)


def test_the_file_of_a_draft_that_does_not_run_says_why(tmp_path):
    source = source_of(tmp_path, "if (i < n) y[i] = unheard_of(x[i]);")
    result = CliRunner().invoke(app, ["new", str(source)])
    assert result.exit_code == 0
    first, *rest = (tmp_path / "k.yaml").read_text().splitlines()
    assert first.startswith("# This draft does not run yet: ")
    assert "unheard_of" in first
    assert rest[0].startswith("question: ")
    CliRunner().invoke(app, ["new", str(source), "--force", "--no-execute"])
    assert (tmp_path / "k.yaml").read_text().startswith("question: ")
