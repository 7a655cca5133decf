import pytest
from mistakes import coded

from lab.base.errors import UserError
from lab.mcp import commands
from lab.mcp.commands import CallLimits, run_command, shortened


def test_a_command_prints_its_result(tmp_path):
    assert run_command(["--version"], tmp_path, CallLimits()).startswith("lab ")


def test_a_mistake_is_an_error_with_its_text(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        run_command(["inspect", "absent.cu"], tmp_path, CallLimits())


def test_a_call_that_takes_too_long_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(commands, "_BEAT_S", 0.01)
    beats: list[float] = []
    with pytest.raises(UserError, check=coded("out-of-range", key="doctor")):
        run_command(["doctor"], tmp_path, CallLimits(seconds=0.03), beats.append)
    assert beats


def test_memory_is_limited(tmp_path):
    with pytest.raises(UserError):
        run_command(["doctor"], tmp_path, CallLimits(megabytes=20))


def test_long_output_is_cut_in_the_middle():
    text = shortened("a" * 50 + "b" * 50, 20)
    assert text.startswith("a" * 10 + "\n")
    assert text.endswith("\n" + "b" * 10)
    assert shortened("short", 20) == "short"
