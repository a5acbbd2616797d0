"""Tools of MCP servers (`[mcp.NAME]` in the configuration): a program on stdio, or a URL.

Each connection runs in its own task. A server that hangs, dies or sends nonsense causes an error of the call,
which the model sees; the conversation continues.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any, cast

from refold.errors import sentence
from refold.protocols import ToolSpec
from refold.registry.configuration import McpServer
from refold.text.truncate import middle, one_line
from refold.tools.base import Effect, Envelope, ToolContext, success
from refold.tools.workspace import ToolRefused

START = 15.0
"""Seconds that a server has to start."""
END = 3.0
MAX_RESULT_CHARS = 30_000
"""Maximum characters of a result; longer ones lose their middle."""


class Connection:
    """One server, from its start to its end."""

    def __init__(self, name: str, server: McpServer) -> None:
        self.name, self.server = name, server
        self._task: asyncio.Task[None] | None = None
        self._leave = asyncio.Event()
        self._session: Any = None

    async def start(self) -> list[ServerTool]:
        """Starts the server and returns its tools; raises `ToolRefused` on failure."""
        ready: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._task = asyncio.ensure_future(self._serve(ready))
        await asyncio.wait((ready, self._task), timeout=START, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            why = self._why() if self._task.done() else f"it did not start within {START:g} seconds"
            await self.close()
            raise ToolRefused("server", why)
        return [ServerTool(self, each) for each in ready.result()]

    async def _serve(self, ready: asyncio.Future[list[Any]]) -> None:
        from mcp import ClientSession

        async with AsyncExitStack() as stack:
            read, write = await stack.enter_async_context(self._streams(stack))
            self._session = await stack.enter_async_context(ClientSession(read, write))
            await self._session.initialize()
            ready.set_result(list((await self._session.list_tools()).tools))
            await self._leave.wait()

    def _streams(self, stack: AsyncExitStack) -> Any:
        import httpx2
        from mcp.client.stdio import StdioServerParameters, stdio_client
        from mcp.client.streamable_http import streamable_http_client

        server = self.server
        if server.url:
            headers = {name: os.path.expandvars(value) for name, value in server.headers.items()}
            client = httpx2.AsyncClient(headers=headers, timeout=server.timeout, follow_redirects=True)
            stack.push_async_callback(client.aclose)
            return streamable_http_client(server.url, http_client=client)
        if not server.command:
            raise ToolRefused("server", "it has no command and no url; set one in the configuration")
        # What it logs would be written over the screen.
        silent = stack.enter_context(open(os.devnull, "w"))  # noqa: SIM115
        parameters = StdioServerParameters(
            command=server.command, args=list(server.args), env=server.env or None
        )
        return stdio_client(parameters, errlog=silent)

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """The server's answer; raises `ToolRefused` on failure."""
        if self._task is None or self._task.done():
            raise ToolRefused("server", f"The server {self.name} has exited ({self._why()}). Do without it.")
        asked = asyncio.ensure_future(self._session.call_tool(tool, dict(arguments)))
        try:
            await asyncio.wait(
                (asked, self._task), timeout=self.server.timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if asked.done():
                return asked.result()
        except Exception as error:
            raise ToolRefused("server", f"{self.name}: {one_line(sentence(error), 300)}") from error
        finally:
            asked.cancel()
        if self._task.done():
            raise ToolRefused("server", f"The server {self.name} exited during the call ({self._why()}).")
        raise ToolRefused("timeout", f"{self.name} did not answer within {self.server.timeout:g} seconds.")

    def _why(self) -> str:
        if self._task is None or not self._task.done() or self._task.cancelled():
            return "it was ended"
        error = self._task.exception()
        while isinstance(error, BaseExceptionGroup):
            error = cast("BaseException", error.exceptions[0])
        if isinstance(error, ImportError):
            return 'MCP support is not installed; run pip install "refold[mcp]"'
        return one_line(sentence(error), 300) if error else "it exited"

    async def close(self) -> None:
        self._leave.set()
        if self._task is not None and not self._task.done():
            await asyncio.wait((self._task,), timeout=END)
            self._task.cancel()
            await asyncio.wait((self._task,), timeout=END)


class ServerTool:
    """A tool of a server, named after both."""

    effect: Effect = "call"

    def __init__(self, connection: Connection, tool: Any) -> None:
        self._connection, self._name = connection, tool.name
        name = re.sub(r"[^A-Za-z0-9_-]", "_", f"mcp__{connection.name}__{tool.name}")[:64]
        self.spec = ToolSpec(name, middle(tool.description or tool.name, 4_000), dict(tool.input_schema))

    async def run(self, arguments: Mapping[str, Any], place: ToolContext) -> Envelope:  # noqa: ARG002
        answer = await self._connection.call(self._name, arguments)
        texts = [getattr(part, "text", None) or f"[{part.type}]" for part in getattr(answer, "content", ())]
        text = middle("\n".join(texts), MAX_RESULT_CHARS)
        if getattr(answer, "is_error", False):
            raise ToolRefused("server", text or "the server reported a failure without a reason")
        return success({"text": text})


class Servers:
    def __init__(self, servers: Mapping[str, McpServer]) -> None:
        self._connections = [Connection(name, server) for name, server in servers.items()]

    async def start(self) -> tuple[dict[str, ServerTool], list[str]]:
        """The tools of the servers that started, by name, and a message for each that did not."""
        found = await asyncio.gather(*(one.start() for one in self._connections), return_exceptions=True)
        tools: dict[str, ServerTool] = {}
        failed: list[str] = []
        for one, given in zip(self._connections, found, strict=True):
            if isinstance(given, BaseException):
                why = given.message if isinstance(given, ToolRefused) else sentence(given)
                failed.append(f"MCP server {one.name} is not available: {one_line(why, 300)}")
            else:
                tools |= {tool.spec.name: tool for tool in given}
        return tools, failed

    async def close(self) -> None:
        with suppress(Exception):
            await asyncio.gather(*(one.close() for one in self._connections), return_exceptions=True)
