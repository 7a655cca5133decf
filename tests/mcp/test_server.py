import asyncio
import json
import sys

import pytest
from judged import RIGHT, InProcess, task_in

from lab.base.errors import MissingToolError
from lab.mcp import server
from lab.mcp.commands import CallLimits
from lab.mcp.tools import confined


def asked(headers, kind="http"):
    """Return the messages of an application behind the token `secret`."""
    sent = []

    async def app(scope, receive, send):
        await send({"type": "reached"})

    async def send(message):
        sent.append(message)

    async def receive():
        return {}

    async def request():
        await server.with_token(app, "secret")({"type": kind, "headers": headers}, receive, send)

    asyncio.run(request())
    return sent


@pytest.mark.parametrize("headers", [[], [(b"authorization", b"Bearer secre")], [(b"authorization", b"secret")]])
def test_requests_without_the_token_are_refused(headers):
    assert asked(headers)[0]["status"] == 401


def test_requests_with_the_token_arrive():
    assert asked([(b"authorization", b"Bearer secret")]) == [{"type": "reached"}]
    assert asked([], "lifespan") == [{"type": "reached"}]
    assert asked([(b"authorization", b"Bearer secret")], "websocket") == []


def test_without_the_package_the_command_to_install_it_is_said(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    with pytest.raises(MissingToolError, match=r"lab\[mcp\]"):
        server.make_server(confined(tmp_path, CallLimits(), InProcess()))


def test_tools_answer_a_client(tmp_path):
    mcp = pytest.importorskip("mcp", reason="the extra mcp is not installed")
    task_in(tmp_path)
    made = server.make_server(confined(tmp_path, CallLimits(), InProcess()))
    progress = []

    async def follow(step, total, message):
        progress.append(message)

    async def session():
        async with mcp.Client(made) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            arguments = {"task": "add.yaml", "candidate": RIGHT, "seed": 3}
            verdict = await client.call_tool("judge", arguments, progress_callback=follow)
            refused = await client.call_tool("inspect", {"file": "../x.cu"})
            return names, verdict, refused

    names, verdict, refused = asyncio.run(session())
    assert set(names) == {"judge", "advise", "run", "inspect", "emulate", "compare", "diff", "gpus"}
    assert json.loads(verdict.content[0].text)["verdict"] == "correct"
    assert refused.is_error
    assert "outside" in refused.content[0].text
    assert "compile" in progress
