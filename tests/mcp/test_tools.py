import json

import pytest
from judged import RIGHT, InProcess, task_in
from mistakes import coded

from lab.base.errors import UserError
from lab.mcp.commands import CallLimits
from lab.mcp.tools import Tools, confined


@pytest.fixture
def tools(tmp_path):
    task_in(tmp_path)
    (tmp_path / "kernel.cu").write_text(RIGHT)
    return confined(tmp_path, CallLimits(), InProcess())


def test_a_candidate_is_a_file_or_text(tools):
    lines: list[str] = []
    assert json.loads(tools.judge("add.yaml", "kernel.cu", 3, lines.append))["verdict"] == "correct"
    assert lines[0] == "compile"
    wrong = json.loads(tools.judge("add.yaml", RIGHT.replace("a[i] +", "a[i] -"), 3, lines.append))
    assert (wrong["verdict"], wrong["seed"]) == ("wrong", 3)


def test_advice_comes_with_the_time(tools):
    advice = json.loads(tools.advise("add.yaml", "kernel.cu", print))
    assert advice["verdict"] == "correct"
    assert advice["time"]["gpu"] == "H200"


@pytest.mark.parametrize("name", ["../add.yaml", "/etc/passwd"])
def test_no_tool_leaves_the_root(tools, name):
    calls = [
        lambda: tools.judge(name, "kernel.cu", 3, print),
        lambda: tools.judge("add.yaml", name, 3, print),
        lambda: tools.run(name, print),
        lambda: tools.inspect(name, "", print),
        lambda: tools.emulate(name, [], print),
        lambda: tools.compare(name, "x", print),
        lambda: tools.diff(name, "kernel.cu", print),
        lambda: tools.compare("x", f"{name}#abc", print),
    ]
    for call in calls:
        with pytest.raises(UserError, check=coded("refused")):
            call()


def test_commands_get_paths_of_the_root_and_limits(tools, tmp_path):
    calls = []

    def command(words, folder, limits, beat):
        calls.append((words, folder, limits))
        beat(2)
        return "text"

    fake = Tools(tools.confinement, tools.limits, tools.executor, command)
    lines: list[str] = []
    assert fake.run("add.yaml", lines.append, measure=False) == "text"
    assert fake.inspect("kernel.cu", "add", lines.append) == "text"
    assert fake.emulate("kernel.cu", ["--help", "i32=4"], lines.append, block="64") == "text"
    assert fake.compare("a#1", "b", lines.append) == "text"
    assert fake.diff("kernel.cu", "kernel.cu", lines.append) == "text"
    file, source = str(tmp_path / "add.yaml"), str(tmp_path / "kernel.cu")
    assert [words for words, _, _ in calls] == [
        ["run", file, "--json", "--output", str(tmp_path / "reports" / "add"), "--no-gpu"],
        ["inspect", source, "--kernel", "add"],
        ["emulate", source, "--grid", "1", "--block", "64", "--", "--help", "i32=4"],
        ["compare", f"{tmp_path / 'a'}#1", str(tmp_path / "b")],
        ["diff", source, source],
    ]
    assert all((folder, limits) == (tmp_path, tools.limits) for _, folder, limits in calls)
    assert lines[:2] == ["lab run", "2 s"]


def test_gpus_are_found_by_a_part_of_their_name(tools):
    assert tools.gpus("h200").startswith("H200: sm_90, 132 SMs")
    assert len(tools.gpus().splitlines()) > 20
