"""Claude Code sessions. Counts of the real files were made by a script of their own from the raw JSON."""

from __future__ import annotations

from typing import Any

import pytest

from refold import entries as e
from refold import messages as m
from refold import transcripts
from refold.session import Session
from tests.data import shared
from tests.transcripts.foreign import counts, kinds, lines, load, results, session, spoken, view

FILES: dict[str, dict[str, int]] = {
    "agentcmd-full-session-three.jsonl": {
        "uuids": 49, "assistant": 10, "user": 2, "tool": 20, "calls": 23, "usage": 10, "notes": 0,
        "errors": 0, "images": 0, "thinking": 0,
    },
    "agentcmd-full-session-two.jsonl": {
        "uuids": 35, "assistant": 11, "user": 8, "tool": 10, "calls": 10, "usage": 11, "notes": 1,
        "errors": 1, "images": 1, "thinking": 0,
    },
    "session-share-general-tool-calls.jsonl": {
        "uuids": 531, "assistant": 56, "user": 14, "tool": 64, "calls": 65, "usage": 54, "notes": 4,
        "errors": 5, "images": 0, "thinking": 49,
    },
}  # fmt: skip


@pytest.mark.data
@pytest.mark.parametrize("name", FILES)
def test_real_sessions_have_the_independently_counted_content(name: str) -> None:
    loaded = transcripts.read(shared(f"claude-code/{name}"))
    parts = [part for entry in spoken(loaded) for part in entry.message.parts]
    assert loaded.problems == ()
    assert {
        **counts(loaded),
        "uuids": sum(isinstance(entry, e.PathEntry) for entry in loaded.entries),
        "errors": sum(result.is_error for result in results(loaded)),
        "images": sum(isinstance(part, m.Image) for part in parts),
        "thinking": sum(isinstance(part, m.Thinking) and bool(part.signature) for part in parts),
    } == FILES[name]
    assert all(result.name for result in results(loaded))


@pytest.mark.data
def test_real_session_goes_on_where_it_ended_and_keeps_what_is_beside_the_path() -> None:
    loaded = transcripts.read(shared("claude-code/session-share-general-tool-calls.jsonl"))
    found = Session.of(loaded)
    assert loaded.info is not None and loaded.info.id == "88f04c6a-d128-40bf-96b3-6b2aa787f62c"
    assert loaded.info.cwd == "/Users/pete/git/moredip/session-share"
    assert kinds(loaded)["State"] == 8 + 17  # queue operations, file snapshots
    assert kinds(loaded)["Label"] == 4  # summary lines
    assert "Claude Code Session-Share Plugin Implementation" in found.labels.values()
    # The file holds the conversation twice (it was resumed by copying), the second time without 16 of its calls.
    said = [entry for entry in found.path if isinstance(entry, e.MessageEntry)]
    assert sum(isinstance(entry.message, m.Result) for entry in said) == 64
    assert sum(call.name == "Write" for entry in said for call in entry.message.calls) == 7
    assert sum(entry.usage is not None for entry in said) == 54
    calls = {call.id for entry in said for call in entry.message.calls}
    assert {entry.message.call_id for entry in said if isinstance(entry.message, m.Result)} <= calls


def rec(kind: str, uuid: str, parent: str | None, content: Any = None, **more: Any) -> dict[str, Any]:
    message = {"message": {"role": kind, "content": content}} if content is not None else {}
    stamp = "2026-01-01T00:00:00Z"
    return {
        "type": kind,
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": "s",
        "timestamp": stamp,
        **message,
        **more,
    }


def reply(uuid: str, parent: str, message_id: str, *content: Any, output: int = 1) -> dict[str, Any]:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 5}
    message = {"id": message_id, "role": "assistant", "model": "claude-x", "content": list(content)}
    message["usage"] = {**usage, "output_tokens": output}
    return {**rec("assistant", uuid, parent), "message": message}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def use(id: str, name: str = "Read") -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": {"file_path": "a.py"}}


def result(uuid: str, parent: str, call: str, said: Any = "out") -> dict[str, Any]:
    return rec("user", uuid, parent, [{"type": "tool_result", "tool_use_id": call, "content": said}])


def test_records_of_one_reply_are_one_message_and_every_id_stays() -> None:
    loaded = load(
        lines(
            rec("user", "u1", None, "hello"),
            reply("a1", "u1", "m1", {"type": "thinking", "thinking": "hm", "signature": "sig"}, output=1),
            reply("a2", "a1", "m1", text("Let me look."), output=1),
            reply("a3", "a2", "m1", use("c1"), output=40),
            result("r1", "a3", "c1"),
        )
    )
    found = Session.of(loaded)
    assert [entry.id for entry in found.path] == ["u1", "a1", "a2", "a3", "r1"]
    answer = found["a1"]
    assert isinstance(answer, e.MessageEntry) and answer.message.text == "Let me look."
    assert answer.message.parts[0] == m.Thinking("hm", "sig")
    assert [call.id for call in answer.message.calls] == ["c1"]
    assert answer.usage == m.Usage(10, 40, 100, 5)
    assert answer.model == "anthropic:claude-x"
    assert counts(loaded)["usage"] == 1
    assert [role for role, _ in view(found)] == ["user", "assistant", "tool"]


def test_a_copy_of_the_conversation_loses_no_calls() -> None:
    """Resuming copied it under new ids: one block a record, and of parallel calls only the last."""
    opened, asked = text("The user opened a.py."), text("hello")
    found = session(
        lines(
            rec("user", "u1", None, [opened, asked]),
            reply("a1", "u1", "m1", use("c1")),
            reply("a2", "a1", "m1", use("c2", "Write")),
            result("r1", "a1", "c1", "one"),
            result("r2", "a2", "c2", "two"),
            reply("a3", "r2", "m2", text("Done.")),
            rec("user", "U1", None, [opened]),
            rec("user", "U2", "U1", [asked]),
            reply("A2", "U2", "m1", use("c2", "Write")),
            rec("progress", "P1", "A2", data={"type": "hook_progress"}),
            result("R2", "P1", "c2", "two"),
            reply("A3", "R2", "m2", text("Done.")),
            rec("user", "U3", "A3", "And now?"),
            {"type": "summary", "leafUuid": "A3", "summary": "The end"},
        )
    )
    assert [role for role, _ in view(found)] == ["user", "assistant", "tool", "tool", "assistant", "user"]
    assert [
        call.id for entry in found.path if isinstance(entry, e.MessageEntry) for call in entry.message.calls
    ] == ["c1", "c2"]
    assert found.path[-1].id == "U3" and found.labels == {"a3": "The end"}
    assert {found[id].raw["of"] for id in ("U1", "U2", "A2", "R2", "A3")} == {"u1", "a2", "r2", "a3"}
    assert found.problems == ()


def test_the_same_words_at_another_time_are_no_copy() -> None:
    later = {"timestamp": "2026-01-01T00:00:05Z"}
    found = session(
        lines(
            rec("user", "u1", None, "hello"),
            reply("a1", "u1", "m1", text("Hi.")),
            rec("user", "U1", None, "hello", **later),
            {**reply("A1", "U1", "m2", text("Hi.")), **later},
        )
    )
    assert [entry.id for entry in found.path] == ["U1", "A1"]


def test_results_of_parallel_calls_are_on_the_path_whatever_they_hang_on() -> None:
    found = session(
        lines(
            rec("user", "u1", None, "hello"),
            reply("a1", "u1", "m1", use("c1")),
            rec("progress", "p1", "a1", data={"type": "hook_progress"}),
            result("r1", "a1", "c1", "one"),
            reply("a2", "a1", "m1", use("c2", "Bash")),
            result("r2", "a2", "c2", "two"),
            rec("progress", "p2", "r1", data={"type": "hook_progress"}),
            reply("a3", "p2", "m2", text("Done.")),
        )
    )
    assert view(found) == [
        ("user", "hello"),
        ("assistant", ""),
        ("tool", "one"),
        ("tool", "two"),
        ("assistant", "Done."),
    ]
    named = [
        entry.message.name
        for entry in found.path
        if isinstance(entry, e.MessageEntry) and isinstance(entry.message, m.Result)
    ]
    assert named == ["Read", "Bash"]
    assert "p1" in found and found.position("p1") is None


BEFORE = [
    rec("user", "u1", None, "first"),
    reply("a1", "u1", "m1", text("one")),
    rec("user", "u2", "a1", "second"),
    reply("a2", "u2", "m2", text("two")),
]


def boundary(uuid: str, logical: str, **metadata: Any) -> dict[str, Any]:
    more = {"subtype": "compact_boundary", "logicalParentUuid": logical}
    return {
        **rec("system", uuid, None),
        **more,
        "compactMetadata": {"trigger": "auto", "preTokens": 9000, **metadata},
    }


def summary(uuid: str, parent: str | None, said: str = "SUMMARY") -> dict[str, Any]:
    return rec("user", uuid, parent, said, isCompactSummary=True, isVisibleInTranscriptOnly=True)


def test_compaction_is_a_fold_and_the_view_is_what_the_model_saw() -> None:
    found = session(
        lines(*BEFORE, boundary("b1", "a2"), summary("s1", "b1"), rec("user", "u3", "s1", "third"))
    )
    assert view(found) == [("user", "SUMMARY"), ("user", "third")]
    fold = found["s1"]
    assert isinstance(fold, e.Fold) and fold.author == "import:claude-code"
    assert (fold.edits[0].first, fold.edits[0].last) == ("u1", "b1")
    assert (fold.summary, fold.tokens_before, fold.reason) == ("SUMMARY", 9000, "auto")
    assert found.position("u1") == 0


def test_second_compaction_covers_the_first() -> None:
    after = [rec("user", "u3", "s1", "third"), boundary("b2", "u3"), summary("s2", "b2", "SECOND")]
    found = session(lines(*BEFORE, boundary("b1", "a2"), summary("s1", "b1"), *after))
    assert view(found) == [("user", "SECOND")]


def test_compaction_continues_the_record_it_names_not_the_last_one() -> None:
    found = session(lines(*BEFORE, boundary("b1", "a1"), summary("s1", "b1")))
    assert [entry.id for entry in found.path] == ["u1", "a1", "b1", "s1"]


@pytest.mark.parametrize(
    "kept",
    [
        {"preservedSegment": {"headUuid": "u2", "anchorUuid": "s1", "tailUuid": "a2"}},
        {"preservedMessages": {"anchorUuid": "s1", "uuids": ["u2", "a2"]}},
    ],
)
def test_what_a_compaction_kept_stays_behind_its_summary(kept: dict[str, Any]) -> None:
    found = session(
        lines(*BEFORE, boundary("b1", "a2", **kept), summary("s1", "b1"), rec("user", "u3", "s1", "third"))
    )
    assert view(found) == [("user", "SUMMARY"), ("user", "second"), ("assistant", "two"), ("user", "third")]
    fold = found["s1"]
    assert isinstance(fold, e.Fold) and fold.first_kept == "u2"


def test_a_kept_reply_keeps_all_its_records_and_results() -> None:
    work = [
        *BEFORE,
        reply("a3", "a2", "m3", use("c1")),
        reply("a4", "a3", "m3", use("c2")),
        result("r1", "a3", "c1", "one"),
        result("r2", "a4", "c2", "two"),
    ]
    kept = {"preservedMessages": {"uuids": ["a3", "a4", "r1", "r2"]}}
    found = session(lines(*work, boundary("b1", "r2", **kept), summary("s1", "b1")))
    assert view(found) == [("user", "SUMMARY"), ("assistant", ""), ("tool", "one"), ("tool", "two")]


def test_compaction_whose_past_is_in_another_file_shows_its_summary() -> None:
    loaded = load(lines(boundary("b1", "gone"), summary("s1", "b1"), rec("user", "u3", "s1", "third")))
    assert view(Session.of(loaded)) == [("user", "SUMMARY"), ("user", "third")]
    assert any("not in this file" in problem.text for problem in loaded.problems)


def test_microcompaction_masks_the_results_it_names() -> None:
    metadata = {"trigger": "auto", "compactedToolIds": ["c1", "unknown"]}
    micro = rec("system", "x1", "r1", subtype="microcompact_boundary", microcompactMetadata=metadata)
    found = session(
        lines(
            rec("user", "u1", None, "first"),
            reply("a1", "u1", "m1", use("c1")),
            result("r1", "a1", "c1", "very long"),
            micro,
            rec("user", "u2", "x1", "next"),
        )
    )
    assert view(found)[2:] == [("tool", "[Old tool result content cleared]"), ("user", "next")]
    assert found.path[-2].id == "x1" and isinstance(found.path[-2], e.Fold)


def test_subagents_are_branches_and_the_leaf_is_the_main_conversation() -> None:
    found = session(
        lines(
            rec("user", "u1", None, "first", isSidechain=False),
            reply("a1", "u1", "m1", use("c1", "Task")),
            rec("user", "x1", None, "task", isSidechain=True),
            {**reply("x2", "x1", "m9", text("sub")), "isSidechain": True},
            result("r1", "a1", "c1", "report"),
            {**reply("x3", "x2", "m10", text("late")), "isSidechain": True},
        )
    )
    assert found.leaf == "r1"
    assert view(found) == [("user", "first"), ("assistant", ""), ("tool", "report")]
    assert [entry.id for entry in found.path_to("x3")] == ["x1", "x2", "x3"]


def test_text_a_program_put_in_is_a_note_and_starts_no_turn() -> None:
    found = session(lines(rec("user", "u1", None, "Caveat", isMeta=True), rec("user", "u2", "u1", "hello")))
    assert isinstance(found["u1"], e.Note)
    assert list(found.turns) == [1]
    assert view(found) == [("user", "Caveat"), ("user", "hello")]


def test_pictures_unknown_blocks_and_several_results_in_one_record() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
    blocks = [
        {"type": "tool_result", "tool_use_id": "c1", "content": [text("see"), picture], "is_error": True},
        {"type": "tool_result", "tool_use_id": "c2", "content": None},
        text("and now?"),
        {"type": "document", "source": {}},
    ]
    loaded = load(
        lines(
            rec("user", "u1", None, "hi"),
            reply("a1", "u1", "m1", use("c1"), use("c2")),
            rec("user", "u2", "a1", blocks),
        )
    )
    first, second = results(loaded)
    assert first.content == (m.Text("see"), m.Image("image/png", "QUJD")) and first.is_error
    assert second.content == () and not second.is_error
    assert [entry.id for entry in spoken(loaded)] == ["u1", "a1", "u2", "u2:1", "u2:2"]
    assert spoken(loaded)[-1].message.parts == (
        m.Text("and now?"),
        m.Opaque({"type": "document", "source": {}}),
    )


def test_nothing_is_lost_silently() -> None:
    loaded = load(
        b"// a comment\n\n"
        + lines(
            rec("user", "u1", None, "hi"),
            rec("user", "u1", None, "hi"),
            rec("user", "u1", None, "another"),
            rec("novelty", "n1", "u1", thing=1),
            {"type": "gossip", "said": "x"},
            rec("user", "u2", "missing", "orphan"),
            rec("user", "c1", "c2", "in a circle"),
            rec("user", "c2", "c1", "in a circle"),
        )
        + b"{broken\n"
    )
    said = " | ".join(problem.text for problem in loaded.problems)
    for part in (
        "a copy of",
        "another record has the id u1",
        "'novelty'",
        "'gossip'",
        "its parent is not in this file",
        "cycle",
        "not JSON",
    ):
        assert part in said
    found = Session.of(loaded)
    assert isinstance(found["n1"], e.Other) and found["n1"].raw["thing"] == 1
    assert found.state("claude-code:gossip") == {"type": "gossip", "said": "x"}
    assert found["e2"].message.text == "another"


def test_api_errors_and_synthetic_replies() -> None:
    failed = reply("a1", "u1", "m1", text("API Error: 529"))
    failed["message"].update(model="<synthetic>", usage={"input_tokens": 0, "output_tokens": 0})
    loaded = load(lines(rec("user", "u1", None, "hi"), {**failed, "isApiErrorMessage": True}))
    [_, entry] = spoken(loaded)
    assert isinstance(entry.message, m.Assistant)
    assert (entry.message.stop, entry.message.error, entry.usage) == ("error", "API Error: 529", None)


def test_what_the_program_replied_itself_is_none_of_the_models_words() -> None:
    filled = reply("a1", "u1", "m1", text("No response requested."))
    filled["message"].update(model="<synthetic>")
    loaded = load(lines(rec("user", "u1", None, "hi"), filled, reply("a2", "a1", "m2", text("Hello."))))
    _, program, model = (entry.message for entry in spoken(loaded))
    assert program.parts == (m.Text("No response requested.", "program"),)
    assert model.parts == (m.Text("Hello."),)
