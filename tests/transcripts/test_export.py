"""Exporters: what comes back, and what is said to be lost."""

from __future__ import annotations

import io
import json
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold import entries as e
from refold import messages as m
from refold import transcripts as t
from refold.errors import UnknownName, UsageError
from refold.session import Session
from refold.transcripts.export import export, spoken_items, targets
from refold.transcripts.pi_parts import iso
from refold.transcripts.programs import WRITERS
from tests.data import all_transcripts, shared
from tests.session.identity import identity
from tests.strategies import examples


def talk() -> Session:
    session = Session(id="talk")
    session.append(m.system("Be brief."))
    session.append(m.user("Look at a.py"))
    session.append(m.assistant("Reading.", m.call("c1", "Read", path="a.py")), usage=m.Usage(10, 5))
    session.append(m.result("c1", "print(1)\n```\n# not a heading", name="Read"))
    session.append(m.assistant("It prints 1."))
    return session


def back(data: bytes) -> list[m.Message]:
    loaded = t.read_stream(io.BytesIO(data), name="x")
    return [one.message for one in loaded.entries if isinstance(one, e.MessageEntry)]


def prints(messages: list[m.Message]) -> list[str]:
    return [identity(message) for message in messages]


@pytest.mark.parametrize("to", ["codex", "claude-code", "pi"])
def test_what_reads_like_a_programs_own_json_is_no_reason_to_refuse(to: str) -> None:
    session = Session()
    session.append(m.user("Show it"))
    session.append(m.assistant("", m.call("c1", "Bash", command="cat r.json")))
    session.append(m.result("c1", '{"output":"x","metadata":{"exit_code":1}}'))
    session.append(m.assistant("It is there."))
    assert '\\"exit_code\\":1' in export(session, to, cwd="/w").data.decode()


def test_a_time_that_no_calendar_has_is_written_all_the_same() -> None:
    assert iso(1.7e15) == "1970-01-01T00:00:00.000Z"


@pytest.mark.parametrize("to", ["openai", "openai-responses", "anthropic", "jsonl"])
def test_messages_come_back(to: str) -> None:
    exported = export(talk(), to)
    assert prints(back(exported.data)) == prints([item.message for item in spoken_items(talk())])


def test_jsonl_holds_everything() -> None:
    session = talk()
    session.move(session.entries[1].id)
    session.label(session.entries[0].id, "start")
    exported = export(session, "jsonl")
    assert exported.lost == ()
    assert t.read_stream(io.BytesIO(exported.data)).entries == tuple(session.entries)


@pytest.mark.data
@pytest.mark.parametrize("path", all_transcripts(), ids=lambda path: f"{path.parent.name}-{path.stem[:20]}")
def test_jsonl_of_every_transcript_is_the_same(path) -> None:  # type: ignore[no-untyped-def]  parametrised
    loaded = t.read(path)
    assert t.read_stream(io.BytesIO(export(Session.of(loaded), "jsonl").data)).entries == loaded.entries


def test_losses_are_said() -> None:
    session = talk()
    session.append(m.assistant([m.thinking("hm"), "x"]))
    session.append(m.Bash("ls", "a"))
    session.move(session.entries[2].id)
    session.append(m.result("c1", "other", is_error=True))
    text = " ".join(export(session, "openai").lost)
    assert "4 entries from other branches" in text
    assert "usage of 1 reply" in text
    assert "error mark dropped from 1 result" in text
    session.append(m.assistant([m.thinking("hm"), "x"]))
    assert "1 thinking block " in " ".join(export(session, "openai").lost)
    assert "1 thinking block " in " ".join(export(session, "anthropic").lost)
    assert "thoughts" not in " ".join(export(session, "markdown").lost)


def test_whole_path_or_view() -> None:
    session = talk()
    first, last = session.path[1].id, session.path[3].id
    session.append(session.make(e.Fold, edits=(e.Edit(first, last, (m.user("short"),)),), preset="refold"))
    assert len(back(export(session, "openai").data)) == 5
    assert [message.text for message in back(export(session, "openai", view=True).data)] == [
        "Be brief.",
        "short",
        "It prints 1.",
    ]
    assert any("fold" in text for text in export(session, "openai").lost)
    assert "Folded" in export(session, "markdown", view=True).data.decode()


def test_markdown_reads_well_and_cannot_be_broken_by_its_text() -> None:
    text = export(talk(), "markdown").data.decode()
    assert text.startswith("# talk\n")
    assert "## Turn 1: user\n\nLook at a.py" in text
    assert "**Read**" in text
    assert "````\nprint(1)" in text
    assert "\n# not a heading\n````" in text


def test_markdown_has_no_control_characters() -> None:
    session = Session(id="x\x1b[31m")
    session.append(m.user("a\x1b[2Jb\u202ec\x00"))
    text = export(session, "markdown").data.decode()
    assert not [c for c in text if ord(c) < 32 and c != "\n"]
    assert "\u202e" not in text


def test_an_unknown_target_says_which_there_are() -> None:
    with pytest.raises(UnknownName, match="markdown"):
        export(talk(), "word")


@cache
def real(name: str) -> Session:
    return Session.of(t.read(shared(name)))


@pytest.mark.data
@pytest.mark.parametrize("to", targets())
def test_real_sessions_export_to_everything(to: str) -> None:
    for name in ("pi/before-compaction.jsonl", "pi/large-session.jsonl"):
        exported = export(real(name), to)
        assert len(exported.data) > 100_000
        if to not in ("markdown",):
            assert len(back(exported.data)) > 800


PARTS = st.lists(
    st.text(max_size=30).map(m.Text) | st.just(m.image("aGk=")) | st.text(max_size=9).map(m.thinking),
    max_size=3,
)
MESSAGES = st.one_of(
    PARTS.map(lambda parts: m.User(tuple(parts))),
    st.tuples(
        PARTS,
        st.text("ab", min_size=1, max_size=2),
        st.dictionaries(st.text(max_size=3), st.text(max_size=5), max_size=2),
    ).map(lambda x: m.Assistant((*x[0], m.Call(x[1], "Read", x[2])))),
    st.tuples(st.text("ab", min_size=1, max_size=2), PARTS).map(lambda x: m.Result(x[0], tuple(x[1]))),
    st.text(max_size=10).map(lambda text: m.Bash(text, text)),
)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(MESSAGES, max_size=8), st.sampled_from(targets()), st.booleans())
def test_any_session_exports_to_anything(messages: list[m.Message], to: str, view: bool) -> None:
    session = Session(id="any")
    for message in messages:
        session.append(message)
    try:
        exported = export(session, to, view=view)
    except UsageError as error:
        assert to in (*WRITERS, "opencode") and "no messages" in str(error)
        return
    if to in ("jsonl", "pi") and messages:
        again = t.read_stream(io.BytesIO(exported.data))
        found = [one.message for one in again.entries if isinstance(one, e.MessageEntry)]
        assert prints(found) == prints(messages)
    elif to != "markdown":
        for document in exported.data.splitlines() if to in WRITERS else [exported.data]:
            json.loads(document)


HTML = "<img src=x onerror=alert(1)>"


@pytest.mark.parametrize(
    "said",
    [
        HTML,
        f"a {HTML} b",
        f"```\ncode\n```\n{HTML}",
        f"- ```\n  ```\n{HTML}\n```\n{HTML}",
        f" ```\nx\n```\n{HTML}",
        f"> ```\n> x\n\n{HTML}",
        f"~~~\n```\n~~~\n{HTML}",
        f"````\n```\n````\n{HTML}",
        f"``` `x`\n{HTML}",
        f"<!-- x\n{HTML}",
    ],
)
def test_html_outside_of_fences_is_text_in_markdown(said: str) -> None:
    session = Session()
    session.append(m.user(said))
    session.append(m.Assistant((m.Thinking(HTML), m.Call("c", HTML), m.Text("done"))))
    session.append(m.result("c", "ok", name=HTML))
    written = export(session, "markdown").data.decode()
    assert HTML not in written and "&lt;img" in written


def test_html_in_fenced_code_stays_and_an_open_fence_is_closed() -> None:
    session = Session()
    session.append(m.user(f"```html\n{HTML}\n```"))
    session.append(m.assistant(f"```\n{HTML}"))
    session.append(m.user(HTML))
    written = export(session, "markdown").data.decode()
    assert written.count(HTML) == 2 and written.count("```") == 4
