"""Trajectories of mini-swe-agent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from refold import entries as e
from refold import messages as m
from refold.facts.words import typed
from refold.transcripts import detect
from refold.transcripts.base import HEAD_BYTES
from tests.transcripts.foreign import load, results, spoken

TASK = {"role": "user", "content": "Please solve this issue: the loader hangs."}
LARGE = {"config": {"agent": {"instance_template": "x" * 2 * HEAD_BYTES}}, "exit_status": "Submitted"}


def trajectory(*messages: dict[str, Any], info: dict[str, Any] = LARGE) -> bytes:
    said = [{"role": "system", "content": "S"}, TASK, *messages]
    return json.dumps({"info": info, "messages": said, "trajectory_format": "mini-swe-agent-1"}).encode()


@pytest.mark.parametrize(
    "info",
    [
        LARGE,
        {"mini_version": "1.9", "x": "x" * HEAD_BYTES},
        {"model_stats": {}, "exit_status": "", "x": "x" * HEAD_BYTES},
        {},
    ],
)
def test_it_is_recognised_whatever_comes_before_the_messages(info: dict[str, Any]) -> None:
    data = trajectory(info=info)
    assert detect(data[:HEAD_BYTES]) == "mini-swe-agent"
    assert [entry.message.text for entry in spoken(load(data))] == ["S", TASK["content"]]


def test_commands_are_calls_and_only_the_task_is_typed() -> None:
    loaded = load(
        trajectory(
            {
                "role": "assistant",
                "content": "THOUGHT: Look.\n\n```bash\nls -a\n```",
                "extra": {"response": {}},
            },
            {"role": "user", "content": "<returncode>0</returncode>\n<output>\na.py\n</output>"},
            {
                "role": "assistant",
                "content": "Both.\n<mswea_bash_command>pwd</mswea_bash_command> and\n<mswea_bash_command>id</mswea_bash_command>",
                "extra": {"actions": [{"command": "pwd"}, {"command": "id"}], "timestamp": 1_700_000_000.5},
            },
            {"role": "user", "content": "/w"},
            {"role": "user", "content": "root"},
            {"role": "exit", "content": "Submitted", "extra": {}},
        )
    )
    assert loaded.problems == ()
    assert [typed(entry.message) for entry in spoken(loaded) if entry.message.role == "user"] == [
        TASK["content"]
    ]
    first, second = (entry for entry in spoken(loaded) if entry.message.role == "assistant")
    call = m.Call("call-2", "bash", {"command": "ls -a"})
    assert first.message == m.Assistant((m.Text("THOUGHT: Look."), call), "tool_use")
    assert second.message.text == "Both." and second.time == 1_700_000_000.5
    assert [call.arguments["command"] for call in second.message.calls] == ["pwd", "id"]
    assert [(result.call_id, result.text.splitlines()[0]) for result in results(loaded)] == [
        ("call-2", "<returncode>0</returncode>"), ("call-4", "/w"), ("call-4.1", "root"),
    ]  # fmt: skip
    assert [entry.name for entry in loaded.entries if isinstance(entry, e.State)] == ["mini-swe-agent:exit"]


def test_tools_that_were_called_by_the_model() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    loaded = load(
        trajectory(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [call],
                "extra": {"actions": [{"command": "ls"}]},
            },
            {"role": "tool", "tool_call_id": "c1", "content": "a.py", "extra": {"returncode": 0}},
        )
    )
    assert [entry.message.calls for entry in spoken(loaded)][2] == (m.Call("c1", "bash", {"command": "ls"}),)
    assert results(loaded) == [m.Result("c1", (m.Text("a.py"),), "bash")]
