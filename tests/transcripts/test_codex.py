"""Codex rollouts. Counts of the real files were made by a script of their own from the raw JSON."""

from __future__ import annotations

import io
import tracemalloc
from typing import Any

import pytest

from refold import entries as e
from refold import messages as m
from refold import transcripts
from refold.session import Session
from tests.data import shared
from tests.transcripts.foreign import counts, kinds, lines, load, results, session, spoken, view

FILES = {
    "rollout-2025-09-24T19-22-20-01997e76-d124-7592-9cac-2ec05abbca08.jsonl": {
        "user": 13, "notes": 2, "assistant": 132, "tool": 123, "calls": 123, "usage": 132, "reasoning": 125,
        "prompt": 7494343, "output": 99678, "state": 133 + 132 + 4 + 9 + 13 + (136 - 2),
    },
    "rollout-2025-09-25T15-12-14-019982b8-3422-79e0-8b3b-05abaf4f3c3e.jsonl": {
        "user": 1, "notes": 1, "assistant": 35, "tool": 34, "calls": 34, "usage": 35, "reasoning": 33,
        "prompt": 536834, "output": 6654, "state": 32 + 35 + 1 + 1 + (35 - 1),
    },
}  # fmt: skip


@pytest.mark.data
@pytest.mark.parametrize("name", FILES)
def test_real_rollouts_have_the_independently_counted_content(name: str) -> None:
    loaded = transcripts.read(shared(f"codex/{name}"))
    parts = [part for entry in spoken(loaded) for part in entry.message.parts]
    usages = [entry.usage for entry in spoken(loaded) if entry.usage]
    assert loaded.problems == ()
    assert {
        **counts(loaded),
        "reasoning": sum(isinstance(part, m.Thinking) and bool(part.data) for part in parts),
        "prompt": sum(usage.prompt for usage in usages),
        "output": sum(usage.output for usage in usages),
        "state": kinds(loaded)["State"],
    } == FILES[name]
    assert {result.name for result in results(loaded)} <= {"shell", "update_plan"}
    assert Session.of(loaded).path[-1].id == spoken(loaded)[-1].id
    assert loaded.info is not None and loaded.info.id in name


def item(kind: str, **fields: Any) -> dict[str, Any]:
    return {"timestamp": "2026-01-01T00:00:00Z", "type": "response_item", "payload": {"type": kind, **fields}}


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"timestamp": "2026-01-01T00:00:00Z", "type": "event_msg", "payload": {"type": kind, **fields}}


def user(said: str) -> dict[str, Any]:
    return item("message", role="user", content=[{"type": "input_text", "text": said}])


def answer(said: str) -> dict[str, Any]:
    return item("message", role="assistant", content=[{"type": "output_text", "text": said}])


def spent(total: int, prompt: int, output: int) -> dict[str, Any]:
    last = {"input_tokens": prompt, "cached_input_tokens": 5, "output_tokens": output}
    return event("token_count", info={"total_token_usage": {"total_tokens": total}, "last_token_usage": last})


META = {"timestamp": "2026-01-01T00:00:00Z", "type": "session_meta", "payload": {"id": "s1", "cwd": "/w"}}


def test_entries_are_called_by_their_position_without_the_header() -> None:
    found = session(lines(META, user("<environment_context>x"), user("go"), answer("done")))
    assert [entry.id for entry in found.path] == ["e0", "e1", "e2"]
    assert isinstance(found["e0"], e.Note)
    assert (found.info.id, found.info.cwd) == ("s1", "/w")


def test_every_kind_of_call() -> None:
    action = {"type": "exec", "command": ["ls"]}
    loaded = load(
        lines(
            META,
            user("go"),
            item(
                "reasoning",
                summary=[{"type": "summary_text", "text": "plan"}],
                encrypted_content="gAAA",
                id="rs",
            ),
            item("function_call", name="shell", call_id="c1", arguments='{"command":["ls"]}'),
            item("function_call", name="odd", call_id="c2", arguments="not json"),
            item("custom_tool_call", name="apply_patch", call_id="c3", input="*** Begin Patch"),
            item("local_shell_call", call_id="c4", action=action),
            item("web_search_call", status="completed"),
            item("function_call_output", call_id="c1", output={"content": "no", "success": False}),
            item("function_call_output", call_id="c2", output=[{"type": "input_text", "text": "listed"}]),
            item("custom_tool_call_output", call_id="c3", output="patched"),
            item("local_shell_call_output", call_id="c4", output="files"),
            answer("done"),
        )
    )
    said = spoken(loaded)
    assert [entry.message.role for entry in said] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "tool",
        "tool",
        "assistant",
    ]
    reply = said[1].message
    assert reply.parts[0] == m.Thinking("plan", None, "gAAA", "rs")
    assert reply.calls == (
        m.Call("c1", "shell", {"command": ["ls"]}),
        m.Call("c2", "odd", {}, "not json"),
        m.Call("c3", "apply_patch", {}, "*** Begin Patch"),
        m.Call("c4", "local_shell", action),
    )
    assert isinstance(reply.parts[-1], m.Opaque)
    assert [(r.name, r.text, r.is_error) for r in results(loaded)] == [
        ("shell", "no", True), ("odd", "listed", False), ("apply_patch", "patched", False), ("local_shell", "files", False),
    ]  # fmt: skip
    assert loaded.problems == ()


def test_older_layout_without_wrapper() -> None:
    bare = [record["payload"] for record in (user("go"), answer("done"))]
    head = {"id": "old", "timestamp": "2025-08-18T01:16:13Z", "instructions": None, "git": {"branch": "main"}}
    loaded = load(lines(head, {"record_type": "state"}, *bare))
    assert view(Session.of(loaded)) == [("user", "go"), ("assistant", "done")]
    assert [entry.id for entry in spoken(loaded)] == ["e1", "e2"]
    assert loaded.info is not None and (loaded.info.id, loaded.info.created) == ("old", 1755479773.0)
    assert loaded.problems == ()


@pytest.mark.parametrize("early", [True, False])
def test_token_counts_reach_their_reply_in_both_orders(early: bool) -> None:
    first, second = [answer("one")], [answer("two")]
    records = (
        [spent(15, 12, 3), *first, user("more"), spent(40, 20, 5), spent(40, 20, 5), *second]
        if early
        else [*first, spent(15, 12, 3), user("more"), *second, spent(40, 20, 5), spent(40, 20, 5)]
    )
    loaded = load(lines(META, user("go"), *records))
    assert [entry.usage for entry in spoken(loaded) if entry.message.role == "assistant"] == [
        m.Usage(7, 3, 5),
        m.Usage(15, 5, 5),
    ]
    assert loaded.problems == ()


def compacted(**payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-01-01T00:00:00Z", "type": "compacted", "payload": payload}


def test_compaction_with_its_result_is_a_fold_of_that_result() -> None:
    history = [user("kept")["payload"], {"type": "compaction", "encrypted_content": "gAAA"}]
    found = session(
        lines(
            META,
            user("one"),
            answer("two"),
            compacted(message="S", replacement_history=history),
            user("three"),
        )
    )
    assert view(found) == [("user", "kept"), ("assistant", ""), ("user", "three")]
    fold = found["e2"]
    assert isinstance(fold, e.Fold) and (fold.edits[0].first, fold.edits[0].last) == ("e0", "e1")
    assert (fold.author, fold.summary) == ("import:codex", "S")


def test_compaction_without_its_result_is_rebuilt_as_codex_does() -> None:
    found = session(
        lines(
            META,
            user("<environment_context>e"),
            user("one"),
            answer("two"),
            compacted(message="S"),
            user("three"),
        )
    )
    assert view(found) == [
        ("user", "<environment_context>e"),
        ("user", "one"),
        ("user", "S"),
        ("user", "three"),
    ]


def test_long_messages_of_the_user_are_carried_over_a_compaction_up_to_a_limit() -> None:
    old, new = "a" * 60_000, "b" * 60_000
    found = session(lines(META, user(old), user(new), compacted(message="S")))
    cut, kept, summary = [said for _, said in view(found)]
    assert kept == new and summary == "S"
    assert len(cut) < 20_000 and cut.startswith("a") and "…" in cut


def test_turns_that_were_taken_back_are_a_branch() -> None:
    found = session(
        lines(
            META,
            user("one"),
            answer("two"),
            user("three"),
            answer("four"),
            event("thread_rolled_back", num_turns=1),
            user("five"),
        )
    )
    assert view(found) == [("user", "one"), ("assistant", "two"), ("user", "five")]
    assert "e2" in found and found.position("e2") is None


def test_turns_that_were_taken_back_are_not_carried_over_a_compaction() -> None:
    back = event("thread_rolled_back", num_turns=1)
    found = session(lines(META, user("one"), user("gone"), back, user("two"), compacted(message="S")))
    assert [said for _, said in view(found)] == ["one", "two", "S"]


def test_the_model_is_known_where_the_context_names_it() -> None:
    context = {"type": "turn_context", "payload": {"model": "gpt-x", "effort": "high"}}
    loaded = load(lines(META, user("one"), context, answer("two"), context))
    assert spoken(loaded)[-1].model == "openai:gpt-x"
    assert kinds(loaded)["ModelChange"] == 1


def test_nothing_is_lost_silently() -> None:
    loaded = load(
        lines(
            META,
            user("one"),
            item("message", role="ghost", content="boo"),
            item("riddle", x=1),
            {"timestamp": "", "type": "weather_state", "payload": {"x": 1}},
            item("function_call_output", output="of what?"),
            event("thread_rolled_back", num_turns=7),
            spent(9, 9, 9),
        )
    )
    said = " | ".join(problem.text for problem in loaded.problems)
    for part in (
        "'ghost'",
        "'riddle'",
        "'weather_state'",
        "names no call",
        "rolled back",
        "belong to no reply",
    ):
        assert part in said
    kept = {entry.kind: entry.raw for entry in loaded.entries if isinstance(entry, e.Other)}
    assert kept["riddle"]["x"] == 1 and kept["message"]["content"] == "boo"


def test_reading_holds_a_file_about_once() -> None:
    said = "word " * 2_000
    lines_ = b"".join(lines(user(f"{number} {said}"), answer(f"{number} {said}")) for number in range(100))
    data = lines(META) + lines_
    load(data[: len(data) // 10])  # modules and caches first
    stream = io.BytesIO(data)
    tracemalloc.start()
    loaded = transcripts.read_stream(stream)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(spoken(loaded)) == 200
    assert peak < 1.3 * len(data)
