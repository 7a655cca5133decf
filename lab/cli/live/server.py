"""Serve a command's live page to this machine's user, read-only, while the command works.

Whoever knows the address may read it. It holds 256 random bits; without them every answer is 404. The server
listens on loopback alone, and answers only requests for a loopback name, so that a page of another site whose name was
made to point here learns nothing (DNS rebinding). It takes GET and HEAD, lists no folder, and sends the files of the
command's own folder alone, of the types that a report has.
"""

from __future__ import annotations

import hmac
import json
import secrets
import shutil
import socket
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self
from urllib.parse import parse_qs, unquote, urlsplit

from lab.base.errors import UserError
from lab.cli.live.account import Account
from lab.cli.live.live_page import PAGE, POLICY

LOOPBACK: Final = "127.0.0.1"

_NAMES: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""Names of the server for a browser on this machine, or at the near end of an SSH tunnel of another port."""

_MOST_CONNECTIONS: Final = 32
"""Most open connections; a browser opens six. One more closes the one slowest to send its request."""

_GRACE_S: Final = 0.25
"""Seconds before a connection may be closed for another one: most are answered in less."""

_PATIENCE_S: Final = 10.0
"""Seconds within which a request must have arrived, and a part of the answer must be taken."""

_MOST_DIGITS: Final = 12
"""Most digits of a row's number."""

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".png": "image/png",
    ".json": "application/json",
    **dict.fromkeys((".csv", ".txt", ".log", ".cu", ".ptx", ".sass", ".yaml", ".py"), "text/plain; charset=utf-8"),
    ".cubin": "application/octet-stream",
}
"""Types of a report's files; the run's database and its lock are not among them."""

_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the address is the key
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

_FRAMES: Final = "frame-ancestors 'none'; form-action 'none'; base-uri 'none'"
"""Additions of the header to the policy in the report's own page."""

_INERT: Final = "default-src 'none'; sandbox; frame-ancestors 'none'"


class _Since(NamedTuple):
    """The state of a connection; the smaller of two is closed first.

    Attributes:
        answering: Its request has come.
        began: Time of the monotonic clock at which it was opened.
    """

    answering: bool
    began: float


class LiveServer(ThreadingHTTPServer):
    """Server of one account; leaving its context ends it.

    Attributes:
        address: URL to open in a browser.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 4 * _MOST_CONNECTIONS
    allow_reuse_address = False  # of a port that the user asked for, nobody else's old connections are taken

    def __init__(self, account: Account, port: int = 0) -> None:
        """Listen; `start` begins to answer.

        Args:
            account: The account to show.
            port: Port to listen on; 0 takes a free one.

        Raises:
            UserError: the port is not available.
        """
        self.account, self.token = account, secrets.token_urlsafe(32)
        self._open: dict[socket.socket, _Since] = {}
        self._changed = threading.Condition()  # of `_open`
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except (OSError, OverflowError) as error:
            raise UserError(
                f"the page cannot be served: {error.strerror if isinstance(error, OSError) else error}",
                code="unwritable",
                key="--port",
                found=str(port),
                accepted="a free port from 1024 to 65535, or --serve alone, which takes one",
            ) from None
        self.address = f"http://{LOOPBACK}:{self.server_port}/{self.token}/"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, name="live page", daemon=True).start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.shutdown()
        self.server_close()

    def process_request(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        """Answer in a separate thread; a new connection never waits for others, however slow they are."""
        assert isinstance(request, socket.socket)  # noqa: S101 - it serves TCP
        with self._changed:
            while len(self._open) >= _MOST_CONNECTIONS:
                slowest = min(self._open, key=self._open.__getitem__)
                wait_s = self._open[slowest].began + _GRACE_S - time.monotonic()
                if wait_s <= 0:
                    self._cut(slowest)
                else:
                    self._changed.wait(wait_s)
            self._open[request] = _Since(answering=False, began=time.monotonic())
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Close connections whose request is late; the base class calls this twice a second."""
        latest = _Since(answering=False, began=time.monotonic() - _PATIENCE_S)
        with self._changed:
            for late in [request for request, since in self._open.items() if since < latest]:
                self._cut(late)

    def request_came(self, request: socket.socket) -> None:
        """Grant a connection the time of its answer."""
        with self._changed:
            if request in self._open:
                self._open[request] = _Since(answering=True, began=self._open[request].began)

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        """Forget an answered connection."""
        with self._changed:
            self._open.pop(request, None)  # type: ignore[arg-type]  # it serves TCP
            self._changed.notify()
        super().shutdown_request(request)

    def _cut(self, request: socket.socket) -> None:
        """Close a connection, which ends the thread that reads from it or writes to it."""
        del self._open[request]
        with suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore errors such as a browser that went away; the terminal shows the command."""


class _Handler(BaseHTTPRequestHandler):
    """Handler of one connection, which holds one request."""

    server: LiveServer
    timeout = _PATIENCE_S
    server_version, sys_version = "lab", ""

    def do_GET(self) -> None:
        """Answer with the content."""
        self._answer()

    def do_HEAD(self) -> None:
        """Answer with the headers of GET."""
        self._answer()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Log nothing: the terminal shows the command, and a logged address would reveal the key."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse a request, also one http.server itself cannot read, without repeating it."""
        del message, explain
        if code == HTTPStatus.NOT_IMPLEMENTED:  # a method that has no `do_…`
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, Allow="GET, HEAD")
        else:
            self._refuse(HTTPStatus(code))

    def _answer(self) -> None:
        self.server.request_came(self.connection)
        host = self.headers.get_all("Host") or []
        if len(host) != 1 or _name(host[0]) not in _NAMES:
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST)
            return
        parts = urlsplit(self.path)
        token, slash, path = parts.path.removeprefix("/").partition("/")
        if not hmac.compare_digest(token.encode(), self.server.token.encode()) or not slash:
            self._refuse(HTTPStatus.NOT_FOUND)
        elif not path:
            self._send(PAGE.encode(), _TYPES[".html"], POLICY)
        elif path == "state.json":
            self._send(self._state(parts.query), _TYPES[".json"], _INERT)
        elif path.startswith("report/"):
            self._file(path.removeprefix("report/") or "index.html")
        else:
            self._refuse(HTTPStatus.NOT_FOUND)

    def _state(self, query: str) -> bytes:
        """Return the state as JSON, with only the rows after the page's last one."""
        (after,) = parse_qs(query).get("after", ["0"])[:1]
        last_row = int(after) if after.isascii() and after.isdecimal() and len(after) <= _MOST_DIGITS else 0
        snapshot = self.server.account.snapshot(last_row)
        return json.dumps(asdict(snapshot) | {"over": snapshot.phase.over}).encode()

    def _file(self, name: str) -> None:
        """Send a file of the report."""
        path = inside(self.server.account.folder, unquote(name))
        if path is None:
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        kind = _TYPES[path.suffix]
        try:
            with path.open("rb") as file:
                self._head(HTTPStatus.OK, kind, path.stat().st_size, _FRAMES if path.suffix == ".html" else _INERT)
                if self.command != "HEAD":
                    shutil.copyfileobj(file, self.wfile)
        except FileNotFoundError:
            self._refuse(HTTPStatus.NOT_FOUND)

    def _send(self, body: bytes, kind: str, policy: str) -> None:
        self._head(HTTPStatus.OK, kind, len(body), policy)
        if self.command != "HEAD":
            self.wfile.write(body)

    def _refuse(self, status: HTTPStatus, **headers: str) -> None:
        body = f"{status.value} {status.phrase}\n".encode()
        self._head(status, "text/plain; charset=utf-8", len(body), _INERT, **headers)
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head(self, status: HTTPStatus, kind: str, length: int, policy: str, **headers: str) -> None:
        self.send_response(status)
        own = {"Content-Type": kind, "Content-Length": str(length), "Content-Security-Policy": policy}
        for name, value in (own | _HEADERS | headers).items():
            self.send_header(name, value)
        self.end_headers()


def _name(host: str) -> str:
    """Return the name in a Host header, without the port."""
    name, _, port = host.lower().rpartition(":")
    return name if port.isdecimal() else host.lower()


def inside(folder: Path | None, name: str) -> Path | None:
    """Find a report's file by its name relative to the report's folder.

    Args:
        folder: The folder; None while there is no report.
        name: As an address has it, escapes undone.

    Returns:
        The file; None where it does not exist, is not a file of a report, or lies outside of the folder.
    """
    parts = name.split("/")
    if (
        folder is None
        or "\0" in name
        or "\\" in name
        or any(not segment or segment.startswith(".") for segment in parts)
    ):
        return None
    try:
        root, path = folder.resolve(strict=True), folder.joinpath(*parts).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        return None
    return path if path.is_relative_to(root) and path.is_file() and path.suffix in _TYPES else None
