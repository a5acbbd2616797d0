"""The lines of docs/integrations.md, typed into a file as they stand there, and run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest

from refold import messages as m
from refold.models.scripted import say
from refold.testing.wire import WireServer
from tests.examples.kit import ROOT, installed

PAGE = (ROOT / "docs" / "integrations.md").read_text()
TEXT = "What is part seven?"
BEGUN = f'''
text = "{TEXT}"

def look(number: int) -> str:
    """A part of the plan."""
    return f"Part {{number}} is a screw."

tools = [look]
'''
PREAMBLES = {
    "The plain clients": """
import refold
from openai import OpenAI
from refold.integrations.openai import RECALL

TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]

def run_tool(call):
    return {"role": "tool", "tool_call_id": call.id, "content": look(7)}
""",
    "LangChain and LangGraph": """
import sqlite3
from langchain.agents import create_agent
from langgraph.checkpoint.sqlite import SqliteSaver

checkpointer = SqliteSaver(sqlite3.connect("checkpoints.db", check_same_thread=False))
message = {"role": "user", "content": text}
""",
    "OpenAI Agents SDK": """
from agents import Agent, Runner, function_tool, set_tracing_disabled

set_tracing_disabled(True)
tools = [function_tool(look)]
""",
    "pydantic-ai": "from pydantic_ai import Agent\n",
}
PACKAGES = {
    "LangChain and LangGraph": "langchain_openai",
    "OpenAI Agents SDK": "agents",
    "pydantic-ai": "pydantic_ai",
}


def program(title: str) -> str:
    """What a user types: the imports that the section names, and its lines."""
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    imports = re.findall(r"`(from refold[\w.]* import [\w, ]+)`", section)
    lines = section.split("```python\n")[1].split("```")[0]
    body = indent(lines, "    ")
    head = "\n".join([BEGUN, PREAMBLES[title], *imports])
    return f"import asyncio\n{head}\n\nasync def main():\n{body}\nasyncio.run(main())\n"


@pytest.mark.slow
@pytest.mark.parametrize("title", PREAMBLES)
def test_the_lines_of_the_page_run_and_go_on_in_another_process(title: str, tmp_path: Path) -> None:
    installed(PACKAGES.get(title, "openai"))
    file = tmp_path / "program.py"
    file.write_text(program(title))
    asked = say("I look.", m.call("c1", "look", number=7))
    # Whoever calls a plain client goes on by himself; the others ask again with the result.
    script = [asked, "A screw."] if title == "The plain clients" else [asked, "A screw.", "Still a screw."]
    with WireServer(*script) as server:
        given = {**os.environ, "OPENAI_BASE_URL": server.v1, "OPENAI_API_KEY": "any"}
        for _ in range(2):
            done = subprocess.run(
                [sys.executable, str(file)],
                cwd=tmp_path,
                env=given,
                capture_output=True,
                text=True,
                timeout=120,
            )
            assert done.returncode == 0, done.stderr
        assert server.problems == []
    assert (tmp_path / "agent.db").exists()
    assert "recall_conversation" in str(server.bodies[0]["tools"])
    last = str(server.bodies[-1])
    assert last.count(TEXT) == 2, "what was said in the first process is there"
    assert "I look." in last
    assert ("Part 7 is a screw." in last) is (title != "The plain clients")
