"""What the tests of the tools share: a place to work in, and one call in one line."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refold import tools
from refold.messages import Call
from refold.tools.base import Envelope, ToolContext, call_tool
from refold.tools.workspace import Workspace


class Bench:
    """A workspace in a folder, beside which lies what must not be reached."""

    def __init__(self, folder: Path) -> None:
        self.outside = folder / "outside"
        self.outside.mkdir()
        (self.outside / "secret.txt").write_text("SECRET\n")
        self.root = folder / "work"
        self.root.mkdir()
        self.place = ToolContext(Workspace(self.root))

    def call(self, tool: str, /, **arguments: Any) -> Envelope:
        return asyncio.run(self.acall(tool, **arguments))

    async def acall(self, tool: str, /, **arguments: Any) -> Envelope:
        return await call_tool(tools.tools_by_name(), Call("c1", tool, arguments), self.place)

    def data(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        envelope = self.call(tool, **arguments)
        assert envelope.error is None, envelope.error
        return envelope.data

    def error(self, tool: str, /, **arguments: Any) -> tuple[str, str]:
        error = self.call(tool, **arguments).error
        assert error is not None
        return error.code, error.message

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.place.workspace.close()
