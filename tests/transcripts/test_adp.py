"""Samples of the Agent Data Protocol."""

from __future__ import annotations

import json

import pytest

from refold import messages as m
from refold import transcripts
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
