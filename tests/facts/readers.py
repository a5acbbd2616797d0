"""Small readers of the real transcripts: messages, and nothing else. Independent of the importers, so that
what is computed from them is a second opinion."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from refold import messages as m
from refold.messages import Bash, Message


def read(path: Path) -> list[list[Message]]:
    """The conversations of a transcript file."""
    return {
        "pi": lambda: [list(pi(path))],
        "claude-code": lambda: [list(claude(path))],
        "codex": lambda: [list(codex(path))],
        "gemini": lambda: [list(gemini(path))],
        "openhands": lambda: [list(openhands(json.loads(line))) for line in path.read_text().splitlines()],
        "swe-agent": lambda: [list(swe_agent(_swe(path)))],
        "adp": lambda: [list(adp(case)) for case in json.loads(path.read_text())],
        "tau-bench": lambda: [list(openai(case["traj"])) for case in json.loads(path.read_text())],
    }[path.parent.name]()


def pi_message(raw: dict[str, Any]) -> Message | None:
    role, content = raw["role"], raw.get("content", "")
    said = content if isinstance(content, str) else [p["text"] for p in content if p["type"] == "text"]
    if role == "user":
        return m.user(said)
    if role == "assistant":
        calls = [m.call(p["id"], p["name"], p["arguments"]) for p in content if p["type"] == "toolCall"]
        return m.assistant(said, *calls)
    if role == "toolResult":
        return m.result(raw["toolCallId"], said, is_error=raw.get("isError", False))
    if role == "bashExecution":
        return Bash(raw["command"], raw.get("output", ""), raw.get("exitCode"))
    return None


def pi(path: Path) -> Iterator[Message]:
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        if entry.get("type") == "message" and (message := pi_message(entry["message"])):
            yield message


def claude(path: Path) -> Iterator[Message]:
    for line in path.read_text().splitlines():
        if line.startswith("//"):
            continue
        raw = json.loads(line).get("message")
        if not raw:
            continue
        parts = (
            raw["content"] if isinstance(raw["content"], list) else [{"type": "text", "text": raw["content"]}]
        )
        for part in parts:
            if part["type"] == "text":
                yield (m.user if raw["role"] == "user" else m.assistant)(part["text"])
            elif part["type"] == "tool_use":
                yield m.assistant("", m.call(part["id"], part["name"], part["input"]))
            elif part["type"] == "tool_result":
                said = part.get("content") or ""
                said = said if isinstance(said, str) else [p["text"] for p in said if p["type"] == "text"]
                yield m.result(part["tool_use_id"], said, is_error=bool(part.get("is_error")))


def codex(path: Path) -> Iterator[Message]:
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        raw = entry.get("payload", {})
        if entry.get("type") != "response_item":
            continue
        if raw["type"] == "function_call":
            yield m.assistant("", m.call(raw["call_id"], raw["name"], json.loads(raw["arguments"])))
        elif raw["type"] == "function_call_output":
            yield m.result(raw["call_id"], raw["output"])
        elif raw["type"] == "message":
            text = "".join(p["text"] for p in raw["content"])
            yield (m.user if raw["role"] == "user" else m.assistant)(text)


def gemini(path: Path) -> Iterator[Message]:
    for raw in json.loads(path.read_text())["messages"]:
        calls = raw.get("toolCalls", [])
        if raw["type"] == "user":
            yield m.user(raw["content"])
        else:
            yield m.assistant(raw.get("content", ""), *(m.call(c["id"], c["name"], c["args"]) for c in calls))
        for call in calls:
            said = "\n".join(
                str(r["functionResponse"]["response"].get("output", "")) for r in call.get("result", [])
            )
            yield m.result(call["id"], said, is_error=call["status"] != "success")


def openhands(case: dict[str, Any]) -> Iterator[Message]:
    for event in case["history"]:
        meta = event.get("tool_call_metadata")
        if event.get("action") and meta:
            raw = meta["model_response"]["choices"][0]["message"]
            call = next(c for c in raw["tool_calls"] if c["id"] == meta["tool_call_id"])
            arguments = json.loads(call["function"]["arguments"] or "{}")
            yield m.assistant(
                raw.get("content") or "", m.call(f"c{event['id']}", meta["function_name"], arguments)
            )
        elif event.get("action") == "message" and event.get("source") == "user":
            yield m.user(event["args"]["content"])
        elif event.get("observation") and meta:
            yield m.result(f"c{event['cause']}", event.get("content") or "")


def _swe(path: Path) -> list[dict[str, Any]]:
    text = path.read_text()
    return json.loads(text)["history"]


def swe_agent(history: list[dict[str, Any]]) -> Iterator[Message]:
    """Function calls where there are some; otherwise the command in the last code block."""
    for index, raw in enumerate(history):
        content = (
            raw["content"] if isinstance(raw["content"], str) else "".join(p["text"] for p in raw["content"])
        )
        if raw["role"] == "assistant":
            yield assistant_block(content, raw.get("tool_calls"), index)
        elif raw["role"] == "tool" or (index > 1 and raw["role"] == "user"):
            yield m.result((raw.get("tool_call_ids") or [f"c{index - 1}"])[0], content)
        elif raw["role"] == "user":
            yield m.user(content)


def assistant_block(content: str, calls: Any, index: int) -> Message:
    if calls:
        found = [
            m.call(c["id"], c["function"]["name"], json.loads(c["function"]["arguments"])) for c in calls
        ]
        return m.assistant(content, *found)
    blocks = re.findall(r"```\w*\n(.*?)\n?```", content, re.S)
    found = [m.call(f"c{index}", "bash", command=blocks[-1])] if blocks else []
    return m.assistant(content, *found)


def adp(case: dict[str, Any]) -> Iterator[Message]:
    if "trajectory" in case:
        roles = {"ai": "assistant", "user": "user", "system": "system"}
        yield from swe_agent(
            [{"role": roles[t["role"]], "content": t["text"] or ""} for t in case["trajectory"][1:]]
        )
        return
    last = ""
    for index, raw in enumerate(case["messages"]):
        if raw["role"] == "assistant":
            found = re.search(r"<function=(\w+)>(.*?)</function>", raw["content"], re.S)
            last = f"c{index}"
            calls = []
            if found:
                pairs = re.findall(r"<parameter=(\w+)>(.*?)</parameter>", found[2], re.S)
                calls = [m.call(last, found[1], dict(pairs))]
            yield m.assistant(raw["content"], *calls)
        elif raw["role"] == "user":
            yield (
                m.result(last, raw["content"])
                if raw["content"].startswith("EXECUTION RESULT")
                else m.user(raw["content"])
            )


def openai(rows: list[dict[str, Any]]) -> Iterator[Message]:
    for raw in rows:
        content = raw.get("content") or ""
        if raw["role"] == "assistant":
            calls = [
                m.call(c["id"], c["function"]["name"], json.loads(c["function"]["arguments"]))
                for c in raw.get("tool_calls") or []
            ]
            yield m.assistant(content, *calls)
        elif raw["role"] == "tool":
            yield m.result(raw["tool_call_id"], content)
        elif raw["role"] == "user":
            yield m.user(content)
