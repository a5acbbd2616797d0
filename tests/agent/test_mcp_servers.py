"""Tools of MCP servers in a conversation: real programs that speak the protocol, and some that stop doing so."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from refold import messages as m
from refold.agent import mcp_servers
from refold.agent.chat import Chat, ChatOptions
from refold.agent.events import Notice
from refold.agent.folder_sessions import fresh
from refold.messages import Call
from refold.models.scripted import Scripted, say
from refold.registry.configuration import Configuration, McpServer

SERVER = """
import json, os, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    method, params = asked.get("method"), asked.get("params") or {}
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "s", "version": "1"}}
    elif method == "tools/list":
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        result = {"tools": [{"name": name, "description": f"Does {name}.", "inputSchema": schema}
                            for name in ("echo", "long", "fail", "hang", "die")]}
    elif method == "tools/call":
        name = params["name"]
        if name == "die":
            os._exit(3)
        if name == "hang":
            time.sleep(600)
        text = {"echo": params["arguments"].get("text", ""), "long": "x" * 200_000, "fail": "no such page"}[name]
        result = {"content": [{"type": "text", "text": text}], "isError": name == "fail"}
    elif "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "unknown"}}), flush=True)
        continue
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine starts a server in half a minute."""
    monkeypatch.setattr(mcp_servers, "START", 300.0)


@pytest.fixture
def program(tmp_path: Path) -> McpServer:
    path = tmp_path / "server.py"
    path.write_text(SERVER)
    return McpServer(command=sys.executable, args=(str(path),))


def talk(
    root: Path, config: Configuration, *script: Any, answer: Any = "once"
) -> tuple[Scripted, list[Any], list[str]]:
    """One turn; what was asked of the model, told to the user and asked of the user."""
    model, told, questions = Scripted(*script), list[Any](), list[str]()

    async def ask(call: Call, question: Any) -> Any:
        questions.append(question.question)
        return answer

    async def work() -> None:
        chat = Chat(
            fresh(root),
            root,
            ChatOptions(summariser="digest"),
            model=model,
            config=config,
            ask=ask,
            tell=told.append,
        )
        try:
            await chat.say("Go.")
        finally:
            await chat.close()

    asyncio.run(work())
    return model, told, questions


def results(model: Scripted) -> dict[str, str]:
    messages = model.requests[-1].messages
    return {message.call_id: message.text for message in messages if isinstance(message, m.Result)}


def test_tools_of_a_server_are_called_by_permission_and_their_results_are_clipped(
    tmp_path: Path, program: McpServer
) -> None:
    calls = [
        m.call("e", "mcp__notes__echo", text="hello"),
        m.call("l", "mcp__notes__long"),
        m.call("f", "mcp__notes__fail"),
    ]
    model, _, questions = talk(tmp_path, Configuration(mcp={"notes": program}), say(*calls), "Done.")
    assert "mcp__notes__echo" in [tool.name for tool in model.requests[0].tools]
    found = results(model)
    assert "hello" in found["e"] and len(found["l"]) < 31_000 and "no such page" in found["f"]
    assert questions[0] == "Run mcp__notes__echo?"
    model, _, _ = talk(tmp_path, Configuration(mcp={"notes": program}), say(calls[0]), "Done.", answer="no")
    assert "declined" in results(model)["e"]


@pytest.mark.slow
def test_a_server_that_hangs_or_dies_is_an_error_of_the_call(tmp_path: Path, program: McpServer) -> None:
    calls = [say(m.call(name, f"mcp__notes__{name}")) for name in ("hang", "die", "echo")]
    impatient = msgspec.structs.replace(program, timeout=2.0)
    model, _, _ = talk(tmp_path, Configuration(mcp={"notes": impatient}), *calls, "Going on.")
    found = results(model)
    assert "did not answer within 2 seconds" in found["hang"]
    assert '"code":"server"' in found["die"] or "did not answer" in found["die"]
    assert '"status":"error"' in found["echo"]


@pytest.mark.slow
def test_a_server_that_does_not_begin_is_told_and_the_conversation_goes_on(
    tmp_path: Path, program: McpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_servers, "START", 1.0)
    silent = McpServer(command=sys.executable, args=("-c", "import time; time.sleep(60)"))
    every = {"gone": McpServer(command=str(tmp_path / "nothing")), "silent": silent, "empty": McpServer()}
    model, told, _ = talk(tmp_path, Configuration(mcp=every), "Hello.")
    sentences = [event.text for event in told if isinstance(event, Notice)]
    assert [
        name for name in every if any(f"MCP server {name} is not available" in text for text in sentences)
    ] == list(every)
    assert model.requests[0].tools and not any(
        tool.name.startswith("mcp__") for tool in model.requests[0].tools
    )


def test_a_server_at_an_address_gets_the_headers_that_variables_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("TOKEN_OF_NOTES", "sesame")
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path),
        "REFOLD_MCP_TOKEN": "sesame",
    }
    command = [
        sys.executable,
        "-m",
        "refold",
        "mcp",
        "--own",
        "--store",
        f"jsonl:{tmp_path / 'store'}",
        "--http",
        str(port),
    ]
    server = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        url = f"http://127.0.0.1:{port}/mcp"
        known = McpServer(url=url, headers={"authorization": "Bearer $TOKEN_OF_NOTES"})
        model, told, _ = talk(
            tmp_path, Configuration(mcp={"past": known, "stranger": McpServer(url=url)}), "Hello."
        )
    finally:
        server.terminate()
        server.wait(120)
    names = [tool.name for tool in model.requests[0].tools]
    assert any(name.startswith("mcp__past__") for name in names)
    assert not any(name.startswith("mcp__stranger__") for name in names)
    assert any("stranger is not available" in event.text for event in told if isinstance(event, Notice))
