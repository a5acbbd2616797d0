"""Samples of the Agent Data Protocol."""

from __future__ import annotations

import json

import pytest

from refold import messages as m
from refold import transcripts
from refold.facts.words import typed
from tests.data import shared
from tests.transcripts.foreign import counts, load, results, spoken

NEBIUS = "adp/nebius_SWE-agent-trajectories.sample_raw.json"
PLAY = "adp/swe-play-trajectories.sample_raw.json"


@pytest.mark.data
@pytest.mark.parametrize(("index", "replies"), list(enumerate([6, 14, 5, 8, 16])))
def test_swe_agent_samples(index: int, replies: int) -> None:
    loaded = transcripts.read(shared(NEBIUS), index=index)
    assert loaded.problems == ()
    assert counts(loaded) == {
        "system": 1, "user": 1, "assistant": replies, "tool": replies - 1, "calls": replies, "usage": 0, "notes": 0,
    }  # fmt: skip
    assert spoken(loaded)[0].message.text.startswith("SETTING:")


@pytest.mark.data
@pytest.mark.parametrize(
    ("index", "replies", "calls"), [(0, 21, 21), (1, 22, 22), (2, 32, 32), (3, 21, 21), (4, 32, 31)]
)
def test_openhands_samples(index: int, replies: int, calls: int) -> None:
    loaded = transcripts.read(shared(PLAY), index=index)
    assert loaded.problems == ()
    found = counts(loaded)
    assert (found["assistant"], found["calls"], found["tool"]) == (
        replies,
        calls,
        31 if index == 4 else calls - 1,
    )
    assert {result.name for result in results(loaded)} <= {
        "execute_bash",
        "str_replace_editor",
        "think",
        "task_tracker",
        "finish",
        "browser",
    }


def sample(*messages: tuple[str, str]) -> bytes:
    said = [{"role": role, "content": text} for role, text in messages]
    return json.dumps([{"messages": said, "source": "x", "id": "1"}]).encode()


def test_calls_written_in_the_text() -> None:
    written = "Go.\n\n<function=edit>\n<parameter=path>a.py</parameter>\n<parameter=text>\nif a<b:\n  pass\n</parameter>\n"
    loaded = load(
        sample(
            ("assistant", written + "</function>"),
            ("user", "EXECUTION RESULT of [edit]:\nok"),
            ("assistant", written),
        ),
        "adp",
    )
    first, result, cut_off = spoken(loaded)
    call = m.Call("call-0", "edit", {"path": "a.py", "text": "if a<b:\n  pass"})
    assert first.message == m.Assistant((m.Text("Go."), call), "tool_use")
    assert first.meta["content"] == written + "</function>"
    assert result.message == m.Result("call-0", (m.Text("ok"),), "edit")
    assert cut_off.message.calls[0].arguments == call.arguments


def test_text_that_only_mentions_a_call_and_users_that_answer() -> None:
    loaded = load(
        sample(("assistant", "Use <function=x></function> like this."), ("user", "thanks"), ("clerk", "?")),
        "adp",
    )
    assert counts(loaded) == {"assistant": 1, "user": 1, "calls": 0, "usage": 0, "notes": 0}
    assert "'clerk'" in loaded.problems[0].text


TASK = ("user", "Repair the loader.")
CALL = "Look.\n\n<function=bash>\n<parameter=command>ls</parameter>\n</function>"
SILENT = "Your command ran successfully and did not produce any output."
FENCED = "THOUGHT: Look.\n\n```bash\nls\n```"


@pytest.mark.parametrize("reply", [CALL, FENCED])
@pytest.mark.parametrize(
    "outputs", [("OBSERVATION:\na.py", SILENT), ("Observation: a.py", "a.py: no such file")]
)
@pytest.mark.parametrize("alone", [True, False])
def test_what_a_command_printed_is_the_tools_and_not_the_users(
    reply: str, outputs: tuple[str, str], alone: bool
) -> None:
    said = [
        ("system", "S"),
        TASK,
        ("assistant", reply),
        ("user", outputs[0]),
        ("assistant", reply),
        ("user", outputs[1]),
    ]
    messages = [{"role": role, "content": [{"type": "text", "text": text}]} for role, text in said]
    data = {"messages": messages, "instance_id": "x"}
    loaded = load(json.dumps(data if alone else [data]).encode())
    assert [typed(each.message) for each in spoken(loaded) if each.message.role == "user"] == [TASK[1]]
    assert [(each.name, each.text) for each in results(loaded)] == [("bash", "a.py"), ("bash", outputs[1])]
    assert {each.arguments["command"] for entry in spoken(loaded) for each in entry.message.calls} == {"ls"}


def test_a_chat_about_code_has_no_calls() -> None:
    said = [TASK, ("assistant", "Run this:\n\n```bash\nls\n```"), ("user", "It prints a.py.")]
    loaded = load(json.dumps({"messages": [{"role": role, "content": text} for role, text in said]}).encode())
    assert [(each.message.role, each.message.text) for each in spoken(loaded)] == said


def test_where_outputs_are_named_other_messages_are_typed() -> None:
    loaded = load(
        sample(TASK, ("assistant", CALL), ("user", "EXECUTION RESULT of [bash]:\na.py"), ("assistant", CALL), ("user", "Stop.")),
        "adp",
    )  # fmt: skip
    assert [typed(each.message) for each in spoken(loaded) if each.message.role == "user"] == [
        TASK[1],
        "Stop.",
    ]
