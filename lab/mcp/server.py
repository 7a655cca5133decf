"""The MCP server over stdio, or over HTTP on the loopback interface with a token."""

from __future__ import annotations

import functools
import importlib
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from lab.base.errors import LabError, MissingToolError
from lab.mcp.tools import Tools

HOST: Final = "127.0.0.1"
_UNAUTHORISED: Final = 401
_INSTRUCTIONS: Final = (
    "lab compiles, executes and checks CUDA kernels on the CPU, and predicts their time. "
    "Write a kernel, call judge with the task, read reason, evidence and advice, change the kernel, and judge it again."
)

Scope = MutableMapping[str, Any]
Asgi = Callable[[Scope, Callable[..., Awaitable[Any]], Callable[..., Awaitable[Any]]], Awaitable[None]]


def make_server(tools: Tools) -> Any:  # noqa: ANN401, C901 - of a package of an extra; one function for each tool
    """Return an MCP server with the tools.

    Raises:
        MissingToolError: The extra `mcp` is not installed.
    """
    mcpserver = _package("mcp.server.mcpserver")
    to_thread, from_thread = _package("anyio.to_thread"), _package("anyio.from_thread")
    server = mcpserver.MCPServer("lab", instructions=_INSTRUCTIONS)
    context_type = mcpserver.Context

    async def call(context: Any, function: Callable[..., str], *arguments: Any, **options: Any) -> str:  # noqa: ANN401
        steps = 0

        def report(line: str) -> None:
            nonlocal steps
            steps += 1
            from_thread.run(functools.partial(context.report_progress, steps, None, line))

        try:
            return str(await to_thread.run_sync(functools.partial(function, *arguments, report=report, **options)))
        except LabError as error:
            raise _package("mcp.server.mcpserver.exceptions").ToolError(str(error)) from None

    async def judge(context: Any, task: str, candidate: str, seed: int | None = None, full: bool = False) -> str:  # noqa: ANN401
        """Judge a kernel for a task: one JSON verdict with evidence, predicted time and advice.

        `task` is a task file; `candidate` a .cu or .ptx file, or CUDA text. `seed` repeats a verdict.
        """
        return await call(context, tools.judge, task, candidate, seed, full=full)

    async def advise(context: Any, task: str, candidate: str) -> str:  # noqa: ANN401
        """List what would make a kernel faster, the largest predicted gain first, each with its line and remedy."""
        return await call(context, tools.advise, task, candidate)

    async def run(context: Any, experiment: str, measure: bool = True) -> str:  # noqa: ANN401
        """Run an experiment file: compile, verify, predict and, where there is a GPU, time every variant."""
        return await call(context, tools.run, experiment, measure=measure)

    async def inspect(context: Any, file: str, kernel: str = "") -> str:  # noqa: ANN401
        """Show registers, spills, hot loops and the instruction mix of a .cu, .ptx or .cubin."""
        return await call(context, tools.inspect, file, kernel)

    async def emulate(  # noqa: PLR0917 - passed by name
        context: Any,  # noqa: ANN401
        file: str,
        arguments: list[str],
        grid: str = "1",
        block: str = "32",
        kernel: str = "",
    ) -> str:
        """Execute one launch on the CPU, and list its faults and counts.

        Arguments are texts in the kernel's order: i32=40, f32[40]=normal, f32[40]=out.
        """
        return await call(context, tools.emulate, file, arguments, grid=grid, block=block, kernel=kernel)

    async def compare(context: Any, a: str, b: str) -> str:  # noqa: ANN401
        """Say which of two runs, or of two variants RUN#ID, is faster, and why."""
        return await call(context, tools.compare, a, b)

    async def diff(context: Any, a: str, b: str) -> str:  # noqa: ANN401
        """Show how the machine code of two kernels differs: .cu, .ptx or .cubin files."""
        return await call(context, tools.diff, a, b)

    async def gpus(part: str = "") -> str:
        """List the GPUs that times can be predicted for."""
        return tools.gpus(part)

    for function in (judge, advise, run, inspect, emulate, compare, diff):
        function.__annotations__["context"] = context_type
        server.tool(structured_output=False)(function)
    server.tool(structured_output=False)(gpus)
    return server


def serve_stdio(tools: Tools) -> None:
    """Serve on standard input and output until they are closed."""
    make_server(tools).run("stdio")


def serve_http(tools: Tools, port: int, token: str) -> None:
    """Serve on the loopback interface; every request needs the token."""
    app = with_token(make_server(tools).streamable_http_app(host=HOST), token)
    _package("uvicorn").run(app, host=HOST, port=port, log_level="warning")


def with_token(app: Asgi, token: str) -> Asgi:
    """Return an application that refuses requests without ``Authorization: Bearer TOKEN``."""
    expected = f"Bearer {token}".encode()

    async def checked(
        scope: Scope, receive: Callable[..., Awaitable[Any]], send: Callable[..., Awaitable[Any]]
    ) -> None:
        if scope["type"] == "http":
            sent = dict(scope["headers"]).get(b"authorization", b"")
            if not secrets.compare_digest(sent, expected):
                headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain")]
                await send({"type": "http.response.start", "status": _UNAUTHORISED, "headers": headers})
                await send({"type": "http.response.body", "body": b"a token is required\n"})
                return
        elif scope["type"] != "lifespan":
            return
        await app(scope, receive, send)

    return checked


def _package(name: str) -> Any:  # noqa: ANN401 - a module
    try:
        return importlib.import_module(name)
    except ImportError as error:
        message = "the package mcp is not installed: pip install 'lab[mcp]'"
        raise MissingToolError(message) from error
