from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.base.errors import UserError
from lab.templates.rendering import Renderer, RenderLimits, RenderRequest, answered, renderer
from lab.templates.values import EinsumFacts, MappingFacts

SLOW = "{% set a = [1, 1] %}" + "{% set a = [a, a] %}" * 60 + "{{ a }}"
"""Writes a list of 2^60 ones: one step, in which Python never comes back to the sandbox."""


@pytest.fixture
def limited():
    made = Renderer(RenderLimits(cpu_s=1.0, memory_bytes=1 << 30))
    yield made
    made.stop()


def render(with_, tmp_path, text, **names):
    file = tmp_path / "main.cu.j2"
    file.write_text(text)
    return with_.render("main.cu.j2", (tmp_path,), names, file=file)


def test_values_reach_the_template_as_they_are(tmp_path):
    names = {"m": 2**63, "x": 0.1, "flag": True, "word": 'a"ü\n', "nothing": None}
    names |= {"mapping": MappingFacts("cyclic(width=4)"), "folded": EinsumFacts("ilk,jlk->ijk")}
    text = "{{ m }} {{ x }} {{ flag }} {{ word }} {{ nothing }} {{ mapping.index('i') }} {{ folded.rows }}"
    expected = f"{2**63} 0.1 True a\"ü\n None (((i & 3) + (t << 2)) + ((i >> 2) << 10)) ('i',)"
    found = render(renderer(), tmp_path, text, **names)
    assert found.split()[:4] == expected.split()[:4]
    assert found.endswith("('i',)")
    assert render(renderer(), tmp_path, "{{ m }}", m=1) == "1"


def test_one_process_renders_everything(tmp_path):
    with_ = renderer()
    render(with_, tmp_path, "a")
    process = with_._process
    with pytest.raises(UserError):
        render(with_, tmp_path, "{{ nothing }}")
    assert render(with_, tmp_path, "b") == "b"
    assert with_._process is process


def test_errors_have_the_line_and_what_is_accepted(tmp_path):
    loops = "{% for i in range(10000) %}{% for j in range(10000) %}{% endfor %}{% endfor %}"
    with pytest.raises(UserError, match="takes more than 200000 steps") as caught:
        render(renderer(), tmp_path, f"\n{loops}")
    assert (caught.value.at.file, caught.value.at.line) == (tmp_path / "main.cu.j2", 2)
    assert caught.value.accepted == "fewer turns of loops, and fewer calls of macros"
    with pytest.raises(UserError, match="no such layout") as caught:
        render(renderer(), tmp_path, "{{ error('no such layout') }}")
    assert caught.value.at.line == 1


def test_time_or_memory_without_end_costs_the_process_only(tmp_path, limited):
    begin = time.monotonic()
    with pytest.raises(UserError, match=r"more than 1 s of computing|too much memory") as caught:
        render(limited, tmp_path, SLOW)
    assert caught.value.at.file == tmp_path / "main.cu.j2"
    assert time.monotonic() - begin < 60
    assert render(limited, tmp_path, "next") == "next"


def test_computing_without_end_is_stopped_by_a_signal(tmp_path, limited):
    # one step of the sandbox, and seconds of Python's: each line sorts a list of a hundred thousand texts
    body = "{% set a = range(10000) | list %}" + "{% set a = a + a %}" * 3
    body += "{% set b = a | sort | unique | sort | list %}" * 3000
    with pytest.raises(UserError, match="takes more than 1 s of computing"):
        render(limited, tmp_path, body)


def test_memory_is_limited(tmp_path):
    with_ = Renderer(RenderLimits(memory_bytes=300 << 20))
    text = "{% set s = 'x' %}" + "{% set s = s ~ s %}" * 22
    text += "".join(
        "{% set t" + str(i) + " = (s | replace('xx', 'x')) ~ (s | replace('xx', 'x')) %}" for i in range(200)
    )
    try:
        with pytest.raises(UserError, match=r"too much memory|too long"):
            render(with_, tmp_path, text)
        assert render(with_, tmp_path, "next") == "next"
    finally:
        with_.stop()


def test_a_process_that_was_killed_is_replaced(tmp_path, limited):
    assert render(limited, tmp_path, "a") == "a"
    limited._process.send_signal(signal.SIGKILL)
    limited._process.wait()
    assert render(limited, tmp_path, "b") == "b"


def test_a_process_that_was_started_ahead_is_the_one_that_renders(tmp_path, limited):
    limited.start()
    process = limited._process
    assert render(limited, tmp_path, "a") == "a"
    assert limited._process is process


def test_waiting_has_an_end(tmp_path):
    with_ = Renderer(RenderLimits(wall_s=0.0))
    with pytest.raises(UserError, match="longer than 0 s"):
        render(with_, tmp_path, "a")
    assert with_._process is None


def test_the_process_ends_with_the_one_that_asked(tmp_path):
    (tmp_path / "main.cu.j2").write_text("a")
    script = (
        "import os, signal; from pathlib import Path; from lab.templates.rendering import renderer; one = renderer();"
        f"one.render('main.cu.j2', (Path({str(tmp_path)!r}),), {{}}, file=Path('x'));"
        "print(one._process.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    pid, deadline = int(done.stdout), time.monotonic() + 30
    while alive(pid) and time.monotonic() < deadline:
        pass
    assert not alive(pid)


def alive(pid):
    """Return whether a process is running; a zombie is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_an_answer_is_a_text_or_the_parts_of_an_error(tmp_path):
    (tmp_path / "main.cu.j2").write_text("{{ mapping.bogus }}")
    request = {"name": "main.cu.j2", "roots": [str(tmp_path)], "names": {"mapping": {"mapping": "cyclic"}}}
    error = answered(request)["error"]
    assert (error["file"], error["line"]) == (str(tmp_path / "main.cu.j2"), 1)
    (tmp_path / "main.cu.j2").write_text("{{ mapping.size }} of them")
    assert answered(request) == {"text": "4096 of them"}


def test_many_are_rendered_in_order(tmp_path):
    file = tmp_path / "main.cu.j2"
    file.write_text("{{ m if m != 70 else missing }}")
    many = [RenderRequest("main.cu.j2", (tmp_path,), {"m": m}, file) for m in range(100)]
    assert renderer().render_all(many[:70]) == [str(m) for m in range(70)]
    with pytest.raises(UserError, match="'missing' is undefined"):
        renderer().render_all(many)
    assert renderer().render_all([]) == []


def test_the_one_of_many_that_takes_too_much_is_named(tmp_path, limited):
    for name, text in (("good", "a"), ("bad", SLOW)):
        (tmp_path / f"{name}.cu.j2").write_text(text)
    many = [
        RenderRequest(f"{name}.cu.j2", (tmp_path,), {}, tmp_path / f"{name}.cu.j2") for name in ("good", "bad", "good")
    ]
    with pytest.raises(UserError, match=r"more than 1 s of computing|too much memory") as caught:
        limited.render_all(many)
    assert caught.value.at.file == tmp_path / "bad.cu.j2"
