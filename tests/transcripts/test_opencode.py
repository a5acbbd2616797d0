"""Sessions of opencode: read, and written so that it goes on with them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from refold import Session
from refold import entries as e
from refold import messages as m
from refold.errors import FormatError, UsageError
from refold.facts.words import typed
from refold.transcripts import read_all
from refold.transcripts.export import export
from refold.transcripts.importing import find_transcripts
from refold.transcripts.opencode import CLEARED, COMPACTION_REQUEST
from refold.transcripts.opencode_write import GO_ON, Importable
from tests.transcripts.foreign import load, results, session, spoken, view

MODEL = {"providerID": "anthropic", "modelID": "claude-x"}


def asked(id: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"info": {"id": id, "role": "user", "time": {"created": 1_794_906_075_986}, "agent": "build", "model": MODEL}, "parts": list(parts)}  # fmt: skip


def reply(id: str, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    tokens = {"input": 11, "output": 7, "reasoning": 2, "cache": {"read": 100, "write": 5}}
    info = {
        "id": id,
        "role": "assistant",
        "time": {"created": 1_794_906_077_050},
        "tokens": tokens,
        **MODEL,
        **more,
    }
    return {
        "info": info,
        "parts": [{"type": "step-start"}, *parts, {"type": "step-finish", "tokens": tokens}],
    }


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


def tool(id: str, output: str = "hi", status: str = "completed", **time: int) -> dict[str, Any]:
    said = {"output": output} if status == "completed" else {"error": output} if status == "error" else {}
    state = {"status": status, "input": {"command": "echo hi"}, **said, "metadata": {"exit": 0}, "time": time}
    return {"type": "tool", "id": f"prt_{id}", "callID": id, "tool": "bash", "state": state}


def exported(*messages: dict[str, Any], **info: Any) -> bytes:
    head = {"id": "ses_1", "directory": "/w", "title": "A title", "version": "1.18.18", "time": {}, **info}
    return json.dumps({"info": head, "messages": messages}).encode()


def test_replies_hold_their_calls_and_results() -> None:
    loaded = load(
        exported(
            asked("u1", text("Say hi."), text("<file>x</file>", synthetic=True)),
            reply("a1", {"type": "reasoning", "text": "hm"}, text("Now."), tool("c1"), tool("c2", "no", "error"), tool("c3", status="running"), {"type": "patch", "hash": "h"}, finish="tool-calls"),
            reply("a2", text("Done."), finish="stop"),
        )
    )  # fmt: skip
    assert loaded.problems == ()
    assert loaded.info is not None and (loaded.info.id, loaded.info.name, loaded.info.cwd) == (
        "ses_1",
        "A title",
        "/w",
    )
    assert [entry.id for entry in spoken(loaded)] == ["u1", "a1", "prt_c1", "prt_c2", "a2"]
    prompt, first, *_, last = spoken(loaded)
    assert typed(prompt.message) == "Say hi."
    assert first.message.parts[:2] == (m.Thinking("hm"), m.Text("Now."))
    assert [call.id for call in first.message.calls] == ["c1", "c2", "c3"]
    assert (first.usage, first.model) == (m.Usage(11, 9, 100, 5), "anthropic:claude-x")
    assert first.meta["parts"] == [{"type": "patch", "hash": "h"}]
    assert [(found.name, found.text, found.is_error) for found in results(loaded)] == [
        ("bash", "hi", False),
        ("bash", "no", True),
    ]
    assert isinstance(last.message, m.Assistant) and last.message.stop == "end"


def test_a_compaction_is_a_fold_and_keeps_the_tail_that_was_kept() -> None:
    def of(**kept: str) -> Session:
        marker = {"type": "compaction", "auto": True, **kept}
        said = [
            asked("u1", text("One.")),
            reply("a1", text("Yes.")),
            asked("u2", text("Two.")),
            reply("a2", text("Well.")),
        ]
        return session(
            exported(
                *said,
                asked("u3", marker),
                reply("a3", text("The sum."), summary=True),
                asked("u4", text("And?")),
            )
        )

    head = [("user", COMPACTION_REQUEST), ("assistant", "The sum.")]
    assert view(of()) == [*head, ("user", "And?")]
    assert view(of(tail_start_id="u2")) == [*head, ("user", "Two."), ("assistant", "Well."), ("user", "And?")]
    [fold] = [entry for entry in of(tail_start_id="u2").path if isinstance(entry, e.Fold)]
    assert (fold.summary, fold.first_kept, fold.reason) == ("The sum.", "u2", "auto")


def test_outputs_that_were_cleared_are_masked_and_what_was_reverted_is_a_branch() -> None:
    found = session(exported(asked("u1", text("One.")), reply("a1", tool("c1", compacted=5), tool("c2"))))
    assert [said for role, said in view(found) if role == "tool"] == [CLEARED, "hi"]
    assert results(load(exported(reply("a1", tool("c1", "whole", compacted=5)))))[0].text == "whole"
    back = session(
        exported(
            asked("u1", text("One.")),
            reply("a1", text("Yes.")),
            asked("u2", text("No.")),
            revert={"messageID": "u2"},
        )
    )
    assert view(back) == [("user", "One."), ("assistant", "Yes.")]
    failed = load(exported(reply("a1", error={"name": "APIError", "data": {"message": "overloaded"}})))
    assert spoken(failed)[0].message == m.Assistant((), "error", "overloaded")


def database(path: Path, *sessions: bytes) -> Path:
    """As the program stores what it exports."""
    with closing(sqlite3.connect(path)) as made:
        made.execute(
            "create table session (id, parent_id, directory, title, version, revert, time_created, time_updated)"
        )
        made.execute("create table message (id, session_id, time_created, data)")
        made.execute("create table part (id, message_id, session_id, data)")
        for at, session in enumerate(map(json.loads, sessions)):
            info = session["info"]
            revert = json.dumps(info["revert"]) if "revert" in info else None
            row = (info["id"], None, info["directory"], info["title"], info["version"], revert, at, at)
            made.execute("insert into session values (?, ?, ?, ?, ?, ?, ?, ?)", row)
            for order, message in enumerate(session["messages"]):
                id = message["info"].pop("id")
                made.execute(
                    "insert into message values (?, ?, ?, ?)",
                    (id, info["id"], order, json.dumps(message["info"])),
                )
                for number, part in enumerate(message["parts"]):
                    place = (part.pop("id", f"prt_{id}_{number}"), id, info["id"])
                    made.execute("insert into part values (?, ?, ?, ?)", (*place, json.dumps(part)))
        made.commit()
    return path


def test_the_database_holds_the_same_sessions(tmp_path: Path) -> None:
    one = exported(asked("u1", text("Say hi.")), reply("a1", text("Now."), tool("c1"), finish="tool-calls"))
    two = exported(
        asked("v1", text("Other.")),
        reply("b1", text("Yes.")),
        asked("v2", text("No.")),
        id="ses_2",
        revert={"messageID": "v2"},
    )
    path = database(tmp_path / "opencode.db", one, two)
    first, second = (loaded for _, loaded in read_all(path))
    assert [entry.message for entry in spoken(first)] == [entry.message for entry in spoken(load(one))]
    assert view(Session.of(second)) == [("user", "Other."), ("assistant", "Yes.")]
    assert second.info is not None and (second.info.id, second.info.cwd) == ("ses_2", "/w")
    assert [file.name for file, _ in find_transcripts([tmp_path])] == ["opencode.db"]
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("create table something (id)")
    with pytest.raises(FormatError, match="binary file"):
        list(read_all(tmp_path / "other.db"))


# ── written ─────────────────────────────────────────────────────────────────────────────────────


def work() -> Session:
    found = Session(id="w")
    found.append(m.system("You are somebody else."))
    found.append(m.user("Repair the loader."))
    found.append(
        m.assistant("Look.", m.call("c1", "bash", command="ls"), m.call("c2", "bash", command="cat x"))
    )
    found.append(m.result("c1", "a.py"))
    found.append(m.result("c2", "no such file", is_error=True))
    found.append(m.assistant("Done."))
    return found


def folded() -> Session:
    found = work()
    first, last = found.path[1].id, found.path[4].id
    found.append(e.Fold(id="f", parent=found.path[-1].id, edits=(e.Edit(first, last, (m.user("RECORD"),), "summary"),), summary="RECORD", preset="refold"))  # fmt: skip
    found.append(m.user("And now?"))
    return found


def again(given: Session, *, view: bool = False) -> tuple[Importable, Session]:
    written = export(given, "opencode", view=view, cwd="/")
    assert isinstance(written, Importable)
    return written, session(written.data)


def test_a_session_is_written_as_it_was_said() -> None:
    written, found = again(work())
    assert view(found) == [(role, said) for role, said in view(work()) if role != "system"]
    assert written.id == found.id and f"--session {written.id}" in written.command
    assert "system prompt not exported: the program has its own" in written.lost
    messages = json.loads(written.data)["messages"]
    ids = [message["info"]["id"] for message in messages] + [
        part["id"] for each in messages for part in each["parts"]
    ]
    assert len(ids) == len(set(ids))
    assert [message["info"]["id"] for message in messages] == sorted(
        message["info"]["id"] for message in messages
    )


def test_a_fold_is_a_compaction_after_all_that_was_said() -> None:
    _, found = again(folded())
    assert view(found) == [
        ("user", COMPACTION_REQUEST),
        ("assistant", "RECORD"),
        ("user", GO_ON),
        ("assistant", "Done."),
        ("user", "And now?"),
    ]
    assert "Repair the loader." in [
        said.message.text for said in found.path if isinstance(said, e.MessageEntry)
    ]
    _, short = again(folded(), view=True)
    assert ("user", "RECORD") in view(short) and "Repair the loader." not in str(view(short))


def test_secrets_can_be_taken_out_and_an_empty_session_is_refused() -> None:
    secret = "ghp_x8Kq2LmN4pR6sT8vW0yZ1aB3cD5eF7gH9iJ0"
    given = Session(id="w")
    given.append(m.user(f"My key is {secret}."))
    assert secret not in export(given, "opencode", redact=True, cwd="/").data.decode()
    with pytest.raises(UsageError, match="it has no messages"):
        export(Session(id="w"), "opencode")
