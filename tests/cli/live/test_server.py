"""Access control of the live server: its clients, and the files it serves."""

from __future__ import annotations

import hmac
import http.client
import json
import select
import socket
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from live_support import begin
from mistakes import coded

from lab.base.errors import UserError
from lab.cli.live import server as module
from lab.cli.live.live_page import PAGE
from lab.cli.live.run_account import RunAccount
from lab.cli.live.server import LiveServer, inside


@pytest.fixture
def account():
    run_account = RunAccount()
    begin(run_account, 4)
    return run_account


@pytest.fixture
def served(account):
    with LiveServer(account) as server:
        yield server


@pytest.fixture
def folder(tmp_path):
    run_folder = tmp_path / "run"
    (run_folder / "variants" / "a1").mkdir(parents=True)
    (run_folder / "index.html").write_text("<!doctype html><title>report</title>")
    (run_folder / "run.sqlite").write_text("records")
    (run_folder / ".hidden.txt").write_text("hidden")
    (run_folder / "variants" / "a1" / "kernel.ptx").write_text(".version 9.0")
    (tmp_path / "secret.txt").write_text("secret")
    (run_folder / "out.txt").symlink_to(tmp_path / "secret.txt")
    return run_folder


def ask(served, path=None, method="GET", host=None, headers=None):
    """Status, headers and body of an answer; the path is behind the token."""
    connection = http.client.HTTPConnection("127.0.0.1", served.server_port, timeout=10)
    target = path if path is not None and path.startswith("/") else f"/{served.token}/{path or ''}"
    connection.putrequest(method, target, skip_host=True)
    for one in [host] if isinstance(host, str) else host or [f"127.0.0.1:{served.server_port}"]:
        connection.putheader("Host", one)
    for name, value in (headers or {}).items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    response = answer.status, answer.headers, answer.read()
    connection.close()
    return response


def test_the_address_leads_to_the_page_on_loopback_alone(served):
    assert served.address == f"http://127.0.0.1:{served.server_port}/{served.token}/"
    assert served.socket.getsockname()[0] == "127.0.0.1"
    status, headers, body = ask(served)
    assert (status, body.decode()) == (200, PAGE)
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "script-src 'sha256-" in headers["Content-Security-Policy"]
    assert "Python" not in headers["Server"]


@pytest.mark.parametrize("path", ["/", "/state.json", "/x/", "/index.html", "/../", "//", "/%00/"])
def test_nothing_is_there_without_the_token(served, path):
    status, _, body = ask(served, path)
    assert (status, body) == (404, b"404 Not Found\n")


def test_a_token_is_long_and_new_each_time(account, served):
    with LiveServer(account) as other:
        assert other.token != served.token
    assert len(served.token) >= 43
    assert ask(served, f"/{served.token[:-1]}/")[0] == 404
    assert ask(served, f"/{served.token}x/")[0] == 404
    assert ask(served, f"/{served.token}")[0] == 404


def test_tokens_are_compared_in_constant_time(served, monkeypatch):
    compared = []

    def compare(a, b):
        compared.append((a, b))
        return a == b

    monkeypatch.setattr(hmac, "compare_digest", compare)
    assert ask(served, "/guess/")[0] == 404
    assert compared == [(b"guess", served.token.encode())]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "localhost.", "[::2]"]
)
def test_a_name_that_was_made_to_point_here_learns_nothing(served, host):
    status, _, body = ask(served, host=host)
    assert status == 421
    assert b"html" not in body


@pytest.mark.parametrize("host", ["127.0.0.1", "LOCALHOST:8080", "localhost", "[::1]:9000", "[::1]"])
def test_the_near_end_of_a_tunnel_may_have_another_port(served, host):
    assert ask(served, host=host)[0] == 200


def test_two_hosts_or_none_are_refused(served):
    assert ask(served, host=["127.0.0.1", "evil.example"])[0] == 421
    with socket.create_connection(("127.0.0.1", served.server_port), timeout=10) as raw:
        raw.sendall(f"GET /{served.token}/ HTTP/1.0\r\n\r\n".encode())
        assert b" 421 " in raw.recv(1000)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"])
def test_it_is_read_only(served, method):
    status, headers, body = ask(served, method=method)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert b"html" not in body


def test_head_has_the_headers_of_get(served):
    status, headers, body = ask(served, method="HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) == len(PAGE.encode())
    assert ask(served, "nothing", method="HEAD")[::2] == (404, b"")


def test_what_is_known_grows(served, account, make):
    first, second = make("sweep").records()[:2]
    state = json.loads(ask(served, "state.json")[2])
    assert (state["question"], state["rows"], state["phase"], state["over"]) == ("Does it?", [], "working", False)
    account.recorded(first)
    state = json.loads(ask(served, "state.json?after=0")[2])
    assert [row["variant"] for row in state["rows"]] == [first.variant]
    account.recorded(second)
    state = json.loads(ask(served, "state.json?after=1")[2])
    assert [row["variant"] for row in state["rows"]] == [second.variant]
    assert state["finished"] == 2
    assert state["stages"][-1] == {"name": "recorded", "done": 2, "total": 4}
    assert state["best"][0]["kind"] == "measured"


@pytest.mark.parametrize("query", ["after=x", "after=-1", "after=", "after=" + "9" * 5000, "after=²", "a&b"])
def test_a_number_that_is_none_asks_for_everything(served, account, make, query):
    account.recorded(make("sweep").records()[0])
    status, headers, body = ask(served, f"state.json?{query.replace('²', '%C2%B2')}")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert len(json.loads(body)["rows"]) == 1


def test_the_report_is_served_when_it_is_there(served, account, folder):
    assert ask(served, "report/")[0] == 404
    account.ended(folder, interrupted=False)
    status, headers, body = ask(served, "report/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert b"<title>report" in body
    status, headers, body = ask(served, "report/variants/a1/kernel.ptx")
    assert (status, body) == (200, b".version 9.0")
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert "sandbox" in headers["Content-Security-Policy"]
    assert json.loads(ask(served, "state.json")[2])["reported"]


@pytest.mark.parametrize(
    "name",
    [
        "../secret.txt",
        "%2e%2e/secret.txt",
        "..%2fsecret.txt",
        "variants/../../secret.txt",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "out.txt",  # a link that leads out
        ".hidden.txt",
        "run.sqlite",
        "variants",
        "variants/",
        "variants/a1/",
        "nothing.txt",
        "..%5csecret.txt",
        "index.html%00.txt",
        "x" * 5000 + ".txt",
    ],
)
def test_no_file_outside_and_no_folder_is_sent(served, account, folder, name):
    account.ended(folder, interrupted=False)
    status, _, body = ask(served, f"report/{name}")
    assert (status, body) == (404, b"404 Not Found\n")


def test_a_file_is_found_by_its_name_alone(folder):
    assert inside(folder, "index.html") == (folder / "index.html").resolve()
    assert inside(None, "index.html") is None
    assert inside(folder / "gone", "index.html") is None
    assert inside(folder, "") is None


def test_what_is_no_request_is_refused_without_a_word_of_it(served):
    with socket.create_connection(("127.0.0.1", served.server_port), timeout=10) as raw:
        raw.sendall(b"<script>alert(1)</script>\r\n\r\n")
        assert b"alert" not in raw.recv(1000)


def test_a_browser_that_goes_away_is_not_an_error(served, capfd):
    for _ in range(3):
        raw = socket.create_connection(("127.0.0.1", served.server_port), timeout=10)
        raw.sendall(f"GET /{served.token}/ HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        raw.close()
    assert ask(served)[0] == 200
    assert capfd.readouterr() == ("", "")


def test_many_connections_wait_their_turn(account, monkeypatch):
    monkeypatch.setattr(module, "_MOST_CONNECTIONS", 2)
    with LiveServer(account) as served:
        statuses = []
        threads = [threading.Thread(target=lambda: statuses.append(ask(served)[0])) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert statuses == [200] * 6


def test_it_ends_with_its_context(account):
    with LiveServer(account) as served:
        place = "127.0.0.1", served.server_port
    with pytest.raises(OSError, match=r"."):
        socket.create_connection(place, timeout=10)


def test_a_port_that_is_taken_is_a_mistake_of_the_user(account, served):
    with pytest.raises(UserError, check=coded("unwritable", key="--port")):
        LiveServer(account, served.server_port)


def test_the_database_is_no_file_of_a_report():
    assert not {Path("run.sqlite").suffix, Path("run.lock").suffix} & set(module._TYPES)


def opened(served, *sent):
    """A connection on which something was sent, and no more comes."""
    raw = socket.create_connection(("127.0.0.1", served.server_port), timeout=10)
    for part in sent:
        raw.sendall(part.encode())
    return raw


@pytest.mark.parametrize("knows_the_token", [False, True])
def test_forty_slow_clients_do_not_block_the_page(served, knows_the_token):
    path = served.token if knows_the_token else "guess"
    with ExitStack() as stack:
        slow = [stack.enter_context(opened(served, f"GET /{path}/ HTTP/1.0\r\nHo")) for _ in range(40)]
        assert ask(served)[0] == 200
        for one in slow[-8:]:
            one.sendall(b"s")
        assert ask(served, "state.json")[0] == 200


def test_forty_clients_that_do_not_read_do_not_block_the_page(served, account, folder):
    with (folder / "large.txt").open("wb") as file:
        file.truncate(64 << 20)  # more than sockets hold
    account.ended(folder, interrupted=False)
    request = f"GET /{served.token}/report/large.txt HTTP/1.0\r\nHost: localhost\r\n\r\n"
    with ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(opened(served, request))
        assert ask(served)[0] == 200


def test_a_slow_request_ends_before_a_slow_answer(served, account, folder, monkeypatch):
    monkeypatch.setattr(module, "_MOST_CONNECTIONS", 2)
    with (folder / "large.txt").open("wb") as file:
        file.truncate(64 << 20)
    account.ended(folder, interrupted=False)
    request = f"GET /{served.token}/report/large.txt HTTP/1.0\r\nHost: localhost\r\n\r\n"
    with opened(served, request) as reading, opened(served, "G") as slow:
        assert reading.recv(15) == b"HTTP/1.0 200 OK"
        assert ask(served)[0] == 200
        assert slow.recv(1) == b""
        received = 15
        while part := reading.recv(1 << 20):
            received += len(part)
    assert received > 64 << 20


def test_a_client_that_sends_a_byte_now_and_then_is_closed(served, monkeypatch):
    monkeypatch.setattr(module, "_PATIENCE_S", 0.1)
    with opened(served, "G") as slow:
        for _ in range(500):
            if select.select([slow], [], [], 0.02)[0]:
                break
            slow.sendall(b"E")
        assert select.select([slow], [], [], 0)[0]
