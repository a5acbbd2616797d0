"""The view for opencode: what came where it is shown as it was said, a record for what left."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from refold.plugins.opencode import Live, serve_views
from refold.registry.engine import Engine
from refold.registry.sessions import stored
from refold.stores import open_store
from tests.plugins.test_hooks import home

__all__ = ["home"]
WINDOW = 20_000
Wire = dict[str, Any]


def asked(number: int, text: str, **more: Any) -> Wire:
    info = {"id": f"msg_{number:04}u", "sessionID": "ses_1", "role": "user", "time": {"created": number}}
    return {"info": info, "parts": [{"id": f"prt_{number:04}u", "type": "text", "text": text, **more}]}


def step(number: int) -> Wire:
    info = {"id": f"msg_{number:04}a", "sessionID": "ses_1", "role": "assistant", "time": {"created": number}}
    output = "\n".join(f"{number} {row}" for row in range(400))
    state = {"status": "completed", "input": {"command": f"seq {number}"}, "output": output, "time": {}}
    parts = [
        {
            "id": f"prt_{number:04}r",
            "type": "reasoning",
            "text": "Hm.",
            "metadata": {"p": {"signature": "s"}},
        },
        {"id": f"prt_{number:04}t", "type": "text", "text": f"Step {number}."},
        {"id": f"prt_{number:04}c", "type": "tool", "callID": f"c{number}", "tool": "bash", "state": state},
    ]
    return {"info": info, "parts": parts}


def talk(steps: int) -> list[Wire]:
    return [asked(0, "Count, and never touch b.txt."), *(step(number) for number in range(1, steps + 1))]


def size(messages: list[Wire]) -> int:
    return len(json.dumps(messages))


def test_what_fits_goes_as_it_is() -> None:
    assert Live().shown("ses_1", talk(2), WINDOW) is None


def test_what_is_too_long_is_folded_and_the_rest_is_what_came() -> None:
    live, messages = Live(), talk(20)
    shown = live.shown("ses_1", messages, WINDOW)
    assert shown is not None and size(shown) < size(messages) / 2
    assert shown[-1] == messages[-1]
    assert "never touch b.txt" in json.dumps(shown)
    ids = {message["info"]["id"]: message for message in messages}
    clipped = [one for one in shown if one["info"]["id"] in ids and one != ids[one["info"]["id"]]]
    for one in clipped:
        before = ids[one["info"]["id"]]
        assert one["info"] == before["info"]
        assert [part["id"] for part in one["parts"]] == [part["id"] for part in before["parts"]]


def test_what_was_folded_stays_so_in_the_next_request_and_in_the_next_process() -> None:
    messages = talk(20)
    first = Live().shown("ses_1", messages, WINDOW)
    again = Live().shown("ses_1", [*messages, asked(21, "And now?")], WINDOW)
    assert first is not None and again is not None
    assert [_said(one) for one in again[:-1]] == [_said(one) for one in first]


def _said(message: Wire) -> Any:
    return message["info"]["role"], [
        (part.get("text"), part.get("state", {}).get("output")) for part in message["parts"]
    ]


def test_an_undo_elsewhere_shows_everything_again() -> None:
    live, messages = Live(), talk(20)
    assert live.shown("ses_1", messages, WINDOW) is not None
    session = stored(open_store("sqlite:").store, "live-ses_1")
    Engine().undo(session)
    assert live.shown("ses_1", messages, 10 * WINDOW) is None


def test_messages_that_were_taken_back_leave_the_view() -> None:
    live, messages = Live(), talk(20)
    live.shown("ses_1", messages, WINDOW)
    shown = live.shown("ses_1", [*messages[:3], asked(30, "Otherwise.")], WINDOW)
    assert shown is None
    shown = live.shown("ses_1", messages, WINDOW)
    assert shown is not None and shown[-1] == messages[-1]


def test_a_compaction_of_the_program_is_a_beginning() -> None:
    live = Live()
    live.shown("ses_1", talk(20), WINDOW)
    summary = step(50)
    summary["info"]["summary"] = True
    compacted = [asked(49, "", type="compaction"), summary, asked(51, "Go on.")]
    assert live.shown("ses_1", compacted, WINDOW) is None


def test_a_compaction_gets_the_record() -> None:
    live = Live()
    live.shown("ses_1", talk(3), WINDOW)
    record = live.record("ses_1")
    assert "never touch b.txt" in record and "seq 3" in record


@pytest.mark.parametrize("messages", [[], [{"info": {"role": "odd"}, "parts": []}], "no list"])
def test_what_cannot_be_read_is_answered_with_nothing(messages: Any) -> None:
    out = io.StringIO()
    line = json.dumps({"number": 7, "session": "s", "messages": messages, "window": 1000})
    serve_views([line, line], out)
    answers = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [answer["number"] for answer in answers] == [7, 7]
    assert not any(answer.get("messages") for answer in answers)


def test_the_store_is_the_users_own(home: Path) -> None:
    Live().shown("ses_1", talk(2), WINDOW)
    assert [info.id for info in open_store("sqlite:").store.sessions()] == ["live-ses_1"]
    assert (home / ".local" / "share" / "refold" / "sessions.db").exists()
