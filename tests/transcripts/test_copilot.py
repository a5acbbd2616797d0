"""Sessions of GitHub Copilot CLI."""

from __future__ import annotations

from typing import Any

import pytest

from refold import Session, transcripts
from refold import entries as e
from refold import messages as m
from refold.facts.words import typed
from tests.data import shared
from tests.transcripts.foreign import counts, kinds, lines, load, results, session, spoken, view


def event(number: int, kind: str, **data: Any) -> dict[str, Any]:
    stamp = f"2026-06-25T01:50:{number:02}.000Z"
    return {
        "type": kind,
        "data": data,
        "id": f"id{number}",
        "timestamp": stamp,
        "parentId": f"id{number - 1}",
    }


START = event(
    0, "session.start", sessionId="s1", producer="copilot-agent", context={"cwd": "/w", "branch": "main"}
)
CALL = {"toolCallId": "c1", "name": "bash", "arguments": {"command": "ls"}, "type": "function"}


def test_what_was_said_is_the_conversation_and_the_rest_is_kept_beside_it() -> None:
    loaded = load(
        lines(
            START,
            event(1, "system.message", role="system", content="You are Copilot."),
            event(2, "hook.start", hookType="userPromptSubmitted", input={"prompt": "List it."}),
            event(3, "user.message", content="List it.", transformedContent="<now>today</now>\n\nList it.\n<reminder/>"),
            event(4, "assistant.message", model="claude-x", content="", toolRequests=[CALL], reasoningText="hm", outputTokens=9),
            event(5, "permission.requested", requestId="p"),
            event(6, "tool.execution_complete", toolCallId="c1", success=True, result={"content": "a.py", "detailedContent": "…"}),
            event(7, "system.notification", content="<system_notification>done</system_notification>"),
            event(8, "assistant.message", model="claude-x", content="One file.", toolRequests=[]),
            event(9, "tool.execution_complete", toolCallId="c9", success=False, error={"message": "no such shell"}),
            event(10, "weather.changed", to="rain"),
        )
    )  # fmt: skip
    assert [problem.text for problem in loaded.problems] == [
        "1 record of the unknown type 'weather.changed': kept unchanged"
    ]
    assert loaded.info is not None and (loaded.info.id, loaded.info.cwd) == ("s1", "/w")
    assert [entry.id for entry in spoken(loaded)] == ["id1", "id3", "id4", "id6", "id8", "id9"]
    _, asked, reply, _, last, _ = (entry.message for entry in spoken(loaded))
    assert typed(asked) == "List it."
    assert "".join(part.text for part in asked.parts if isinstance(part, m.Text)).endswith(
        "List it.\n<reminder/>"
    )
    assert reply == m.Assistant((m.Thinking("hm"), m.Call("c1", "bash", {"command": "ls"})), "tool_use")
    assert spoken(loaded)[2].model == "copilot:claude-x" and last.text == "One file."
    assert results(loaded)[0] == m.Result("c1", (m.Text("a.py"),), "bash")
    assert (results(loaded)[1].text, results(loaded)[1].is_error) == ("no such shell", True)
    assert kinds(loaded)["State"] == 3 and kinds(loaded)["Note"] == 1


def test_a_compaction_is_a_fold() -> None:
    found = session(
        lines(
            START,
            event(1, "user.message", content="Long ago."),
            event(2, "assistant.message", content="Yes.", toolRequests=[]),
            event(3, "session.compaction_complete", success=True, summaryContent="It was said.", preCompactionTokens=900),
            event(4, "user.message", content="Go on."),
        )
    )  # fmt: skip
    assert view(found) == [("user", "It was said."), ("user", "Go on.")]
    [fold] = [entry for entry in found.path if isinstance(entry, e.Fold)]
    assert (fold.summary, fold.tokens_before, fold.author) == ("It was said.", 900, "import:copilot")


@pytest.mark.data
def test_the_real_session_has_the_independently_counted_content() -> None:
    loaded = transcripts.read(shared("copilot-cli/session.jsonl.gz"))
    assert loaded.problems == ()
    assert counts(loaded) == {
        "system": 1, "user": 1, "assistant": 54, "tool": 68, "calls": 68, "usage": 0, "notes": 1,
    }  # fmt: skip
    [asked] = [text for entry in spoken(loaded) if (text := typed(entry.message))]
    assert asked.startswith("investigate why i get") and asked.endswith("and fix")
    calls = {call.id for entry in spoken(loaded) for call in entry.message.calls}
    assert {result.call_id for result in results(loaded)} == calls
    assert Session.of(loaded).info.cwd == "/home/entity/projects/EntityProcess/agentv"
