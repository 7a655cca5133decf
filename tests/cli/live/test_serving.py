"""When the page opens, what is printed, and when it ends."""

from __future__ import annotations

import io
import signal
import threading
from types import SimpleNamespace

import pytest
from live_support import written
from rich.console import Console

from lab.base import interrupts
from lab.cli.live import serving
from lab.cli.live.account import Account
from lab.cli.live.serving import LivePage, attended
from lab.cli.live.snapshot import Phase


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=40)


def test_nothing_is_opened_that_nobody_asked_for(console, tmp_path):
    account = Account()
    with LivePage(account, console, serve=False, port=None) as page:
        page.ended(tmp_path, interrupted=False)
        page.stay()
    assert not written(console)
    assert account.snapshot().phase is Phase.FINISHED


def test_the_address_is_printed_once_and_in_one_piece(console):
    with LivePage(Account(), console, serve=True, port=None) as page:
        address = page._server.address
    assert written(console).count(address) == 1


def test_a_port_asks_for_the_page(console):
    with LivePage(Account(), console, serve=True, port=None) as first:
        port = first._server.server_port
    with LivePage(Account(), console, serve=False, port=port) as page:
        assert page._server.server_port == port


def test_it_stays_until_ctrl_c_where_somebody_can_press_it(console, monkeypatch, capfd):
    monkeypatch.setattr(serving, "attended", lambda: True)

    class Pressed(threading.Event):
        def wait(self, timeout=None):
            signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupts.end_at_once()
    with LivePage(Account(), console, serve=True, port=None) as page:
        monkeypatch.setattr(serving, "threading", SimpleNamespace(Event=Pressed))
        page.stay()
        assert written(console).count(page._server.address) == 1
    signal.signal(signal.SIGINT, before)
    assert "served until Ctrl-C" in written(console)
    assert capfd.readouterr().err == "the live page is closed\n"


def test_it_ends_with_the_command_where_nobody_can(console, monkeypatch):
    monkeypatch.setattr(serving, "attended", lambda: False)
    with LivePage(Account(), console, serve=True, port=None) as page:
        page.stay()
    assert "Ctrl-C" not in written(console)


@pytest.mark.parametrize(
    ("handler", "stdin", "stderr", "answer"),
    [
        (signal.default_int_handler, True, True, True),
        (signal.SIG_IGN, True, True, False),
        (signal.default_int_handler, False, True, False),
        (signal.default_int_handler, True, False, False),
    ],
)
def test_a_batch_job_has_nobody_at_its_terminal(monkeypatch, handler, stdin, stderr, answer):
    monkeypatch.setattr(signal, "getsignal", lambda _: handler)
    streams = SimpleNamespace(
        stdin=SimpleNamespace(isatty=lambda: stdin), stderr=SimpleNamespace(isatty=lambda: stderr)
    )
    monkeypatch.setattr(serving, "sys", streams)
    assert attended() is answer
