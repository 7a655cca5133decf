"""Serves a command's live page to this machine's user, read-only, while the command works.

Who may read it: whoever knows the address. It holds 256 random bits; without them every answer is 404. The server
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
from dataclasses import asdict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import parse_qs, unquote, urlsplit

from lab.base.errors import UserError
from lab.cli.live.account import Account
from lab.cli.live.page import PAGE, POLICY

LOOPBACK: Final = "127.0.0.1"

_NAMES: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""What a browser on this machine, or at the near end of an SSH tunnel, calls the server; the tunnel's port differs."""

_MOST_CONNECTIONS: Final = 32
"""Connections that are answered at a time; a browser opens six. More wait for a second, and are closed."""

_PATIENCE_S: Final = 10.0
"""Seconds until a connection on which nothing comes is closed."""

_MOST_DIGITS: Final = 12
"""Digits of a row's number."""

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
"""What the header adds to the policy in the report's own page."""

_INERT: Final = "default-src 'none'; sandbox; frame-ancestors 'none'"


class LiveServer(ThreadingHTTPServer):
    """Serves one account. Leaving its context ends it.

    Attributes:
        address: What to open in a browser.
    """

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = False  # of a port that the user asked for, nobody else's old connections are taken

    def __init__(self, account: Account, port: int = 0) -> None:
        """Listen; `start` begins to answer.

        Args:
            account: What is shown.
            port: Where to listen; 0 takes a free port.

        Raises:
            UserError: the port cannot be had.
        """
        self.account, self.token = account, secrets.token_urlsafe(32)
        self._free = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except (OSError, OverflowError) as error:
            raise UserError(
                f"the page cannot be served: {error.strerror if isinstance(error, OSError) else error}",
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
        """Answer in a thread of its own, a bounded number at a time."""
        if not self._free.acquire(timeout=1.0):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
    ) -> None:
        """Make room for the next one when this one is answered."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that went away is nobody's error; the command's terminal shows the command."""


class _Handler(BaseHTTPRequestHandler):
    """Answers one connection, which holds one request."""

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
        """Say nothing: the terminal shows the command, and an address in a log would be a key in it."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse, also what http.server itself cannot read, without repeating what was asked."""
        del message, explain
        if code == HTTPStatus.NOT_IMPLEMENTED:  # a method that has no `do_…`
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, Allow="GET, HEAD")
        else:
            self._refuse(HTTPStatus(code))

    def _answer(self) -> None:
        host = self.headers.get_all("Host") or []
        if len(host) != 1 or _name(host[0]) not in _NAMES:
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST)
            return
        parts = urlsplit(self.path)
        token, slash, rest = parts.path.removeprefix("/").partition("/")
        if not hmac.compare_digest(token.encode(), self.server.token.encode()) or not slash:
            self._refuse(HTTPStatus.NOT_FOUND)
        elif not rest:
            self._send(PAGE.encode(), _TYPES[".html"], POLICY)
        elif rest == "state.json":
            self._send(self._state(parts.query), _TYPES[".json"], _INERT)
        elif rest.startswith("report/"):
            self._file(rest.removeprefix("report/") or "index.html")
        else:
            self._refuse(HTTPStatus.NOT_FOUND)

    def _state(self, query: str) -> bytes:
        """What is known, as JSON: rows only behind the one that the page has."""
        (after,) = parse_qs(query).get("after", ["0"])[:1]
        known = int(after) if after.isascii() and after.isdecimal() and len(after) <= _MOST_DIGITS else 0
        found = self.server.account.snapshot(known)
        return json.dumps(asdict(found) | {"over": found.phase.over}).encode()

    def _file(self, name: str) -> None:
        """A file of the report."""
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
    """The name in a Host header, without the port."""
    name, _, port = host.lower().rpartition(":")
    return name if port.isdecimal() else host.lower()


def inside(folder: Path | None, name: str) -> Path | None:
    """Find a report's file by its name relative to the report's folder.

    Args:
        folder: The folder; None while there is no report.
        name: As an address has it, escapes undone.

    Returns:
        The file; None where it is none, or no file of a report, or where a link or `..` leads out of the folder.
    """
    parts = name.split("/")
    if folder is None or "\0" in name or "\\" in name or any(not part or part.startswith(".") for part in parts):
        return None
    try:
        root, path = folder.resolve(strict=True), folder.joinpath(*parts).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        return None
    return path if path.is_relative_to(root) and path.is_file() and path.suffix in _TYPES else None
