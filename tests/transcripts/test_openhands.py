"""OpenHands event histories."""

from __future__ import annotations

import json
from typing import Any

import pytest

from refold import entries as e
from refold import messages as m
from refold import transcripts
from refold.errors import FormatError
from refold.session import Session
from tests.data import shared
from tests.transcripts.foreign import counts, lines, load, results, session, spoken, view

FILE = "openhands/multi_swe_bench-example-output.jsonl"
RUNS = [
    ({"system": 1, "user": 1, "assistant": 23, "tool": 22, "calls": 23, "usage": 23}, 567716, 1),
    ({"system": 1, "user": 1, "assistant": 33, "tool": 32, "calls": 33, "usage": 33}, 415325, 1),
    ({"system": 1, "user": 1, "assistant": 49, "tool": 49, "calls": 49, "usage": 49}, 943642, 1),
]


@pytest.mark.data
@pytest.mark.parametrize("index", range(3))
def test_real_runs_have_the_independently_counted_content(index: int) -> None:
    loaded = transcripts.read(f"{shared(FILE)}#{index}")
    expected, tokens, errors = RUNS[index]
    found = counts(loaded)
    found.pop("notes")
    assert found == expected
    assert sum(entry.usage.total for entry in spoken(loaded) if entry.usage) == tokens
    notes = [entry.kind for entry in loaded.entries if isinstance(entry, e.Note)]
    assert notes.count("error") == (errors if index else 0)
    assert all(result.name for result in results(loaded))
    assert loaded.problems == ()


@pytest.mark.data
def test_the_first_of_several_is_read_and_the_others_are_announced() -> None:
    loaded = transcripts.read(shared(FILE))
    assert loaded.info is not None and loaded.info.id == "ponylang__ponyc-4595"
    assert "holds 3 conversations" in loaded.problems[0].text
    with pytest.raises(FormatError, match="choose 0 to 2"):
        transcripts.read(shared(FILE), index=3)


def action(id: int, kind: str, source: str = "agent", **args: Any) -> dict[str, Any]:
    return {"id": id, "source": source, "action": kind, "args": args}


def made(id: int, kind: str, call: str, reply: str, *calls: str) -> dict[str, Any]:
    given = [
        {"id": c, "type": "function", "function": {"name": "bash", "arguments": '{"command":"ls"}'}}
        for c in calls
    ]
    response = {"id": reply, "model": "x", "choices": [{"message": {"content": "hm", "tool_calls": given}}]}
    response["usage"] = {
        "prompt_tokens": 10,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 4},
    }
    metadata = {"function_name": "bash", "tool_call_id": call, "model_response": response}
    return {**action(id, kind, command="ls"), "tool_call_metadata": metadata}


def seen(id: int, kind: str, cause: int, content: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "source": "agent", "observation": kind, "cause": cause, "content": content, **more}


def doc(*events: Any) -> bytes:
    return json.dumps(list(events)).encode()


def test_actions_of_one_reply_are_one_message() -> None:
    loaded = load(
        doc(
            action(0, "message", "user", content="go", image_urls=["data:image/png;base64,QQ=="]),
            made(1, "run", "c1", "r1", "c1", "c2"),
            made(2, "run", "c2", "r1", "c1", "c2"),
            seen(
                3,
                "run",
                1,
                "one",
                extras={"metadata": {"exit_code": 2, "suffix": "[!]", "working_dir": "/w"}},
            ),
            seen(4, "error", 2, "two"),
        )
    )
    user, reply, first, second = spoken(loaded)
    assert user.message.parts == (m.Text("go"), m.Image("image/png", "QQ=="))
    assert [call.id for call in reply.message.calls] == ["c1", "c2"]
    assert reply.usage == m.Usage(6, 2, 4)
    assert (
        first.message.text == "one[!]\n[Current working directory: /w]\n[Command finished with exit code 2]"
    )
    assert isinstance(second.message, m.Result) and second.message.is_error
    assert [entry.id for entry in Session.of(loaded).path] == ["0", "1", "2", "3", "4"]


def test_agents_without_function_calling_get_calls_of_their_own() -> None:
    found = load(
        lines(
            {
                "history": [
                    [action(0, "run", thought="why", command="ls", hidden=False), seen(1, "run", 0, "files")]
                ]
            }
        )
    )
    reply, result = spoken(found)
    assert reply.message == m.Assistant(
        (m.Text("why"), m.Call("call-0", "run", {"command": "ls"})), "tool_use"
    )
    assert result.message == m.Result("call-0", (m.Text("files"),), "run")


def test_condensations_are_folds_and_later_ones_cover_earlier_ones() -> None:
    turns = [action(n, "message", "user" if n % 2 == 0 else "agent", content=f"m{n}") for n in range(6)]
    first = action(6, "condensation", forgotten_event_ids=[1, 2], summary="S1", summary_offset=1)
    more = [action(7, "message", "user", content="m7")]
    second = action(8, "condensation", forgotten_events_start_id=3, forgotten_events_end_id=4, summary="S2")
    found = session(doc(*turns, first, *more))
    assert [said for _, said in view(found)] == ["m0", "S1", "m3", "m4", "m5", "m7"]
    found = session(doc(*turns, first, *more, second))
    assert [said for _, said in view(found)] == ["m0", "S2", "m5", "m7"]
    assert isinstance(found["8"], e.Fold) and found["8"].author == "import:openhands"


def test_one_edit_covers_forgotten_events_with_unseen_ones_between() -> None:
    turns = [action(n, "message", "user", content=f"m{n}") for n in (0, 1, 3)]
    unseen = action(2, "recall", "user", query="x")
    found = session(
        doc(
            turns[0],
            turns[1],
            unseen,
            turns[2],
            action(4, "condensation", forgotten_event_ids=[1, 3], summary="S"),
        )
    )
    fold = found["4"]
    assert isinstance(fold, e.Fold)
    assert [(edit.first, edit.last) for edit in fold.edits] == [("1", "3")]


def test_what_the_model_never_saw_and_what_is_unknown() -> None:
    knowledge = {"microagent_knowledge": [{"name": "github", "content": "Use the token."}]}
    loaded = load(
        doc(
            action(0, "recall", "user", query="x"),
            seen(1, "recall", 0, "Added", extras=knowledge),
            seen(2, "agent_state_changed", 0, ""),
            {"id": 3, "source": "user", "kind": "Oddity"},
            action(4, "condensation", forgotten_event_ids=[99], summary="S"),
            seen(5, "error", None, "bad call"),
        )
    )
    assert view(Session.of(loaded)) == [("user", "Use the token."), ("user", "bad call")]
    said = " | ".join(problem.text for problem in loaded.problems)
    assert "'Oddity'" in said and "not in this file" in said


def test_events_of_the_agent_sdk() -> None:
    def acted(id: str, call: str, reply: str, *thought: str) -> dict[str, Any]:
        said = [{"type": "text", "text": text} for text in thought]
        made = {"id": call, "name": "terminal", "arguments": '{"command":"ls"}'}
        return {
            "id": id,
            "kind": "ActionEvent",
            "source": "agent",
            "thought": said,
            "tool_name": "terminal",
            "tool_call_id": call,
            "tool_call": made,
            "llm_response_id": reply,
        }

    def observed(id: str, call: str, **observation: Any) -> dict[str, Any]:
        return {
            "id": id,
            "kind": "ObservationEvent",
            "source": "environment",
            "tool_name": "terminal",
            "tool_call_id": call,
            "observation": observation,
        }

    text = {"type": "text", "text": "S"}
    loaded = load(
        doc(
            {"id": "s", "kind": "SystemPromptEvent", "source": "agent", "system_prompt": text},
            {
                "id": "u",
                "kind": "MessageEvent",
                "source": "user",
                "llm_message": {"role": "user", "content": [text]},
            },
            acted("a1", "c1", "r1", "why"),
            acted("a2", "c2", "r1"),
            observed("o1", "c1", content=[{"type": "text", "text": "one"}], is_error=False),
            {"id": "o2", "kind": "AgentErrorEvent", "source": "agent", "error": "no", "tool_call_id": "c2"},
            {"id": "p", "kind": "PauseEvent", "source": "user"},
            {
                "id": "z",
                "kind": "Condensation",
                "source": "environment",
                "forgotten_event_ids": ["u"],
                "summary": "SUM",
            },
        )
    )
    assert loaded.problems == ()
    assert spoken(loaded)[2].message == m.Assistant(
        (
            m.Text("why"),
            m.Call("c1", "terminal", {"command": "ls"}),
            m.Call("c2", "terminal", {"command": "ls"}),
        ),
        "tool_use",
    )
    assert [(r.text, r.name, r.is_error) for r in results(loaded)] == [
        ("one", "terminal", False),
        ("no", "terminal", True),
    ]
    found = Session.of(loaded)
    assert [said for _, said in view(found)] == ["S", "SUM", "why", "one", "no"]
    assert [entry.id for entry in found.path] == ["s", "u", "a1", "a2", "o1", "o2", "p", "z"]
