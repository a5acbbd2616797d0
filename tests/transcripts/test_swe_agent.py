"""SWE-agent trajectories."""

from __future__ import annotations

import json

import pytest

from refold import entries as e
from refold import messages as m
from refold import transcripts
from refold.session import Session
from tests.data import shared
from tests.transcripts.foreign import counts, load, results, spoken, view

CRYPTO = "swe-agent/trajectories__demonstrations__ctf__crypto__{}.traj"
FILES = {
    CRYPTO.format("BabyEncryption"): (15, 15),
    CRYPTO.format("BabyTimeCapsule"): (9, 9),
    CRYPTO.format("eps"): (14, 14),
    CRYPTO.format("katy"): (18, 18),
}
CALLING = (
    "swe-agent/play__marshmallow-code__marshmallow-1867__function_calling_replace_from_source__"
    "marshmallow-code__marshmallow-1867.traj"
)


@pytest.mark.data
@pytest.mark.parametrize("name", FILES)
def test_thoughts_and_commands_become_calls_and_results(name: str) -> None:
    users, actions = FILES[name]
    loaded = transcripts.read(shared(name))
    # The first user message is the task; every other one is what a command printed.
    assert counts(loaded) == {
        "system": 1, "user": 1, "assistant": actions, "tool": users - 1, "calls": actions, "usage": 0, "notes": 0,
    }  # fmt: skip
    assert loaded.problems == ()
    assert all(result.name for result in results(loaded))
    assert [entry.id for entry in Session.of(loaded).path] == [f"e{n}" for n in range(1 + users + actions)]


@pytest.mark.data
def test_function_calling() -> None:
    loaded = transcripts.read(shared(CALLING))
    assert counts(loaded) == {
        "system": 1, "user": 1, "assistant": 13, "tool": 13, "calls": 13, "usage": 0, "notes": 0,
    }  # fmt: skip
    assert loaded.problems == ()
    assert spoken(loaded)[2].message.calls[0].name == "bash"
    assert spoken(loaded)[2].meta["step"]["state"]["working_dir"] == "/testbed"


def traj(**parts: object) -> bytes:
    return json.dumps(parts).encode()


def test_commands_keep_their_wording_and_name_their_file() -> None:
    reply = {
        "role": "assistant",
        "content": "Look.\n```\nopen a.py\n```",
        "thought": "Look.\n",
        "action": "open a.py\n",
    }
    shell = {"role": "assistant", "content": "x", "thought": "", "action": "ls | wc"}
    loaded = load(
        traj(
            history=[
                {"role": "user", "content": "go", "agent": "main"},
                reply,
                {"role": "user", "content": "print(1)"},
                shell,
            ],
            trajectory=[],
            info={},
        )
    )
    _, first, _, second = spoken(loaded)
    assert first.message == m.Assistant(
        (m.Text("Look.\n"), m.Call("call-1", "open", {"path": "a.py", "command": "open a.py\n"})), "tool_use"
    )
    assert first.meta["content"] == reply["content"]
    assert second.message.calls == (m.Call("call-3", "bash", {"command": "ls | wc"}),)


def test_steps_alone_are_enough() -> None:
    query = [{"role": "system", "content": "S"}, {"role": "user", "content": "task"}]
    step = {
        "action": "ls",
        "thought": "look",
        "response": "look\n```\nls\n```",
        "observation": "a.py",
        "messages": query,
    }
    found = Session.of(load(traj(trajectory=[step], info={})))
    assert view(found) == [("system", "S"), ("user", "task"), ("assistant", "look"), ("tool", "a.py")]


def test_demonstrations_are_notes_and_unknown_roles_are_kept() -> None:
    history = [
        {"role": "user", "content": "demo", "is_demo": True, "agent": "m"},
        {"role": "judge", "content": "?"},
    ]
    loaded = load(traj(history=history, trajectory=[]))
    assert isinstance(loaded.entries[0], e.Note) and isinstance(loaded.entries[1], e.Other)
    assert "'judge'" in loaded.problems[0].text
