"""A conversation with everything in place: layers, permissions, sub-agents, long runs in a small window."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from refold import messages as m
from refold import presets
from refold.agent.chat import Chat, ChatOptions
from refold.agent.events import Notice
from refold.agent.figures import bills, filling, total_dollars
from refold.agent.folder_sessions import fresh
from refold.cli.chat_terminal import ChatCompleter
from refold.compaction.plan import Plan
from refold.entries import Fold, MessageEntry, Note, State
from refold.messages import Assistant, Call, Usage
from refold.models.scripted import Scripted, say
from refold.protocols import Request
from refold.session import Session
from refold.tokens import get as counter_named
from tests.soon import until
from tests.timing import alarm


def made(
    root: Path, *script: Any, then: Any = None, window: int | None = None, **more: Any
) -> tuple[Chat, Scripted]:
    model = Scripted(*script, then=then, context_window=window)
    settings = ChatOptions(**{"permission": "all", "summariser": "digest", **more})
    return Chat(fresh(root), root, settings, model=model), model


# ── layers ──────────────────────────────────────────────────────────────────────────────────────


def test_E2_the_layers_stand_in_their_order_under_every_design(tmp_path: Path) -> None:
    """L1 and L2 in front, history, this turn in full, open todos at the end; neither ever in the log."""
    (tmp_path / "code_law.md").write_text("Never touch the migrations.")
    (tmp_path / "AGENTS.md").write_text("Tabs, not spaces.")
    todos = [
        {"content": "find the bug", "status": "in_progress"},
        {"content": "say so", "status": "completed"},
    ]
    for preset in presets.NAMES:
        chat, model = made(
            tmp_path,
            "Hello.",
            say(m.call("t", "TodoWrite", todos=todos)),
            "Done.",
            preset=preset,
            rules=("AGENTS.md",),
        )
        asyncio.run(chat.say("First."))
        asyncio.run(chat.say("Second."))
        last = model.requests[-1]
        assert last.system
        system = last.system
        assert (
            0
            <= system.find("coding agent")
            < system.find("Tabs, not spaces.")
            < system.find("Never touch the migrations.")
        )
        roles = [message.role for message in last.messages]
        workspace = ["user", "assistant"] if preset == "rounds" else []
        assert roles == [*workspace, "user", "assistant", "user", "assistant", "tool", "user"]
        assert "find the bug" in last.messages[-1].text
        assert "say so" not in last.messages[-1].text
        log = repr(chat.session.entries)
        assert "migrations" not in log
        assert "Open todos" not in log


@pytest.mark.parametrize("text_protocol", [False, True])
def test_E12_the_reminder_and_the_system_prompt_do_not_contradict_each_other(
    tmp_path: Path, text_protocol: bool
) -> None:
    """Reads go together, except for files that a reminder names; and both name only tools that there are."""
    (tmp_path / "a.py").write_text("a")
    (tmp_path / "b.py").write_text("b")
    chat, model = made(tmp_path, "Finish[done]", text_protocol=text_protocol)
    asyncio.run(chat.say("Compare @a.py with @b.py"))
    [request] = model.requests[:1]
    system, said = request.system or "", " ".join(request.messages[-1].text.split())
    assert "read them with the Read tool, one by one, in this order: - a.py - b.py" in said
    rules = " ".join(system.split()).split(" - ")
    [together] = [rule for rule in rules if "go into one reply" in rule]
    assert "Files that a reminder names are read one by one, in its order." in together
    offered = system if text_protocol else {tool.name for tool in request.tools}
    assert "Read" in offered
    assert "recall_conversation" in offered


def test_rules_are_read_anew_for_every_request_and_only_from_inside(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("from elsewhere")
    root = tmp_path / "project"
    root.mkdir()
    (root / "AGENTS.md").symlink_to(tmp_path / "secret")
    chat, model = made(root, "One.", "Two.", rules=("AGENTS.md", "../secret", "missing.md"))
    asyncio.run(chat.say("x"))
    (root / "CODE_LAW.md").write_text("New law.")
    asyncio.run(chat.say("y"))
    assert "elsewhere" not in (model.requests[0].system or "")
    assert "New law." not in (model.requests[1].system or "")
    assert "New law." in model.requests[1].messages[-1].text


def test_E1_E16_the_system_layer_stays_and_what_changes_is_told_behind_it(tmp_path: Path) -> None:
    notes, rules, law = ["likes tabs"], tmp_path / "AGENTS.md", tmp_path / "CODE_LAW.md"
    rules.write_text("Old rules.")
    law.write_text("Old law.")
    chat, model = made(
        tmp_path, "One.", "Two.", "Three.", "Four.", rules=("AGENTS.md",), notes=lambda: notes[-1]
    )
    asyncio.run(chat.say("a"))
    notes.append("likes spaces")
    rules.write_text("New rules.")
    law.write_text("New law.")
    asyncio.run(chat.say("b"))
    asyncio.run(chat.say("c"))
    law.unlink()
    rules.unlink()
    asyncio.run(chat.say("d"))
    assert len({request.system for request in model.requests}) == 1
    assert all(text in (model.requests[0].system or "") for text in ("likes tabs", "Old rules.", "Old law."))
    said = ["\n".join(x.text for x in request.messages if x.role == "user") for request in model.requests]
    for text, counts in (
        ("likes spaces", [0, 1, 1, 1]),
        ("New rules.", [0, 1, 1, 1]),
        ("New law.", [0, 1, 1, 0]),
        ("AGENTS.md: no longer there", [0, 0, 0, 1]),
        ("now: there are none", [0, 0, 0, 1]),
    ):
        assert [each.count(text) for each in said] == counts, text
    assert " law." not in repr(chat.session.entries)


def test_a_file_of_rules_is_read_only_where_tools_would_read_it(tmp_path: Path) -> None:
    """No link that leads out by any way, no pipe that never ends, no device, no file without an end."""
    (tmp_path / "secret").write_text("from elsewhere")
    root = tmp_path / "project"
    (root / "inner").mkdir(parents=True)
    os.mkfifo(root / "pipe.md")
    (root / "inner/real.md").write_text("Real rules.")
    with open(root / "large.md", "wb") as file:
        file.truncate(40_000_000_000)
    links = {
        "a.md": tmp_path / "secret", "b.md": "../secret", "c.md": "pipe.md", "d.md": "/dev/zero", "e.md": "e.md",
        "f.md": "inner/../../secret", "g.md": "/proc/self/environ", "good.md": "inner/real.md", "away": "..",
    }  # fmt: skip
    for name, target in links.items():
        (root / name).symlink_to(target)
    rules = (
        *links,
        "pipe.md",
        "away/secret",
        "inner",
        "../secret",
        str(tmp_path / "secret"),
        "x\0y",
        "large.md",
    )
    chat, model = made(root, "One.", rules=rules)
    with alarm(120):
        asyncio.run(chat.say("x"))
    system = model.requests[0].system or ""
    assert "Real rules." in system
    assert "elsewhere" not in system
    assert "PATH=" not in system


@pytest.mark.parametrize("target", ["../secret", "absolute", "/dev/zero", "/proc/self/environ", "pipe"])
def test_the_law_is_read_only_where_tools_would_read_it(tmp_path: Path, target: str) -> None:
    (tmp_path / "secret").write_text("from elsewhere")
    root = tmp_path / "project"
    root.mkdir()
    law = root / "Code_Law.md"
    if target == "pipe":
        os.mkfifo(law)
    else:
        law.symlink_to(tmp_path / "secret" if target == "absolute" else target)
    chat, model = made(root, "One.")
    with alarm(120):
        asyncio.run(chat.say("x"))
    assert "elsewhere" not in (model.requests[0].system or "")
    assert "PATH=" not in (model.requests[0].system or "")


def test_the_first_layer_is_a_stable_prefix(tmp_path: Path) -> None:
    chat, model = made(tmp_path, "One.", "Two.", "Three.")
    for text in ("a", "b", "c"):
        asyncio.run(chat.say(text))
    assert len({request.system for request in model.requests}) == 1
    assert len({repr(request.tools) for request in model.requests}) == 1


def test_R18_files_that_leave_the_view_are_shown_again_as_they_are_now(tmp_path: Path) -> None:
    for n in range(7):
        (tmp_path / f"part{n}.py").write_text(f"old {n}\n" + f"value_{n} = 1\n" * 600)
    reads = [say(m.call(f"r{n}", "Read", path=f"part{n}.py")) for n in range(7)]
    chat, model = made(tmp_path, *reads, then="Done.", window=60_000)
    asyncio.run(chat.say("Read them all."))
    for n in range(7):
        (tmp_path / f"part{n}.py").write_text(f"new {n}\n")
    (tmp_path / "part6.py").unlink()
    (tmp_path / "part4.py").write_text("x" * 64_001)
    (tmp_path / "part3.py").write_bytes(b"\xff\xfe")
    plan = chat.engine.plan(chat.session, force=True)
    assert isinstance(plan, Plan)
    fold = asyncio.run(chat.engine.apply(chat.session, plan))
    assert isinstance(fold, Fold)
    asyncio.run(chat.say("Go on."))
    sent = "\n".join(message.text for message in model.requests[-1].messages)
    shown = {n for n in range(7) if f"new {n}\n" in sent}
    assert len(fold.details["reads_left"]) > 3
    there = {n for n in (0, 1, 2, 5) if f"part{n}.py" in fold.details["reads_left"]}
    assert shown == there, "of the files that left those that are there and are text"
    assert sum(isinstance(entry, Note) and entry.kind == "files" for entry in chat.session.path) == 1


# ── tools and permissions ───────────────────────────────────────────────────────────────────────


def test_what_the_user_allowed_always_is_not_asked_again_in_this_conversation(tmp_path: Path) -> None:
    asked: list[str] = []

    async def ask(call: Call, question: Any) -> Any:
        asked.append(call.id)
        return "always"

    writes = [say(m.call(f"w{n}", "Write", path="x.txt", content=str(n))) for n in range(3)]
    chat, _ = made(tmp_path, *writes, "Done.", permission="ask")
    chat.ask = ask
    asyncio.run(chat.say("Write."))
    assert asked == ["w0"]
    assert (tmp_path / "x.txt").read_text() == "2"
    again = Chat(
        Session(chat.session.entries, id=chat.session.id),
        tmp_path,
        chat.settings,
        model=Scripted(say(m.call("w9", "Write", path="x.txt", content="9")), "Done."),
    )
    asyncio.run(again.say("Again."))
    assert (tmp_path / "x.txt").read_text() == "9", "remembered in the log"


def test_an_unknown_tool_and_arguments_that_are_no_json_are_answered(tmp_path: Path) -> None:
    chat, model = made(tmp_path, say(m.call("a", "Raed", path="x"), Call("b", "Read", raw="{path")), "Done.")
    asyncio.run(chat.say("x"))
    first, second = (message.text for message in model.requests[1].messages if message.role == "tool")
    assert "Did you mean `Read`?" in first
    assert "not a JSON object" in second


def test_recall_reads_what_was_folded(tmp_path: Path) -> None:
    chat, model = made(
        tmp_path,
        "The password policy is 12 characters.",
        say(m.call("r", "recall_conversation", query="password policy")),
        "Done.",
    )
    asyncio.run(chat.say("What is the policy?"))
    asyncio.run(chat.say("Again?"))
    assert "12 characters" in model.requests[2].messages[-1].text


# ── sub-agents ──────────────────────────────────────────────────────────────────────────────────


class Crowd:
    """Answers the main conversation and its sub-agents, and knows how many are asked at a time."""

    name, context_window = "scripted:crowd", None

    def __init__(self) -> None:
        self.now = self.most = 0

    async def stream(self, request: Request) -> Any:
        said = request.messages[0].text
        line: Any = f"I was asked: {said}"
        if said == "Go.":
            tasks = [
                m.call(f"t{n}", "Task", description=f"part {n}", prompt=f"Do part {n}.") for n in range(4)
            ]
            line = say(*tasks) if len(request.messages) == 1 else "All done."
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.01)
        async for event in Scripted(line).stream(request):
            yield event
        self.now -= 1


def test_A22_independent_sub_agents_run_together_each_in_a_session_of_its_own(tmp_path: Path) -> None:
    crowd = Crowd()
    chat = Chat(fresh(tmp_path), tmp_path, ChatOptions(permission="all", summariser="digest"), model=crowd)
    reply = asyncio.run(chat.say("Go."))
    assert reply.text == "All done."
    assert crowd.most == 4
    assert len({child.id for child in chat.children}) == 4
    results = [
        x.message.text for x in chat.session.path if isinstance(x, MessageEntry) and x.message.role == "tool"
    ]
    assert [f"I was asked: Do part {n}." in text for n, text in enumerate(results)] == [True] * 4
    noted = [entry.value["session"] for entry in chat.session.annotations(State) if entry.name == "task"]
    assert noted == [child.id for child in chat.children]


def test_a_sub_agent_of_a_model_without_tools_works_by_text_too(tmp_path: Path) -> None:
    """And the user hears which tools it uses."""
    (tmp_path / "a.py").write_text("x = 1")
    chat, model = made(
        tmp_path,
        'Thought: ask\nAction: Task[{"description": "look", "prompt": "Look at a.py."}]',
        'Thought: look\nAction: Read[{"path": "a.py"}]',
        "Action: Finish[It is 1.]",
        "Action: Finish[They say it is 1.]",
        text_protocol=True,
    )
    told: list[Any] = []
    chat.tell = told.append
    assert asyncio.run(chat.say("Go.")).text == "They say it is 1."
    assert [request.tools for request in model.requests] == [()] * 4
    assert any(isinstance(event, Notice) and "look: Read a.py" in event.text for event in told)


def test_a_sub_agent_has_no_sub_agents_and_fails_alone(tmp_path: Path) -> None:
    task = m.call("t", "Task", description="part", prompt="Do it.")
    seen: list[tuple[str, ...]] = []

    def answer(request: Request) -> Any:
        seen.append(tuple(tool.name for tool in request.tools))
        if request.messages[0].text == "Do it.":
            return m.Assistant((), stop="error", error="the sub-agent's model is gone")
        return say(task) if len(request.messages) == 1 else "It failed."

    chat, _ = made(tmp_path, then=answer)
    reply = asyncio.run(chat.say("Go."))
    assert reply.text == "It failed."
    assert "Task" in seen[0]
    assert "Task" not in seen[1]
    [result] = [
        x.message
        for x in chat.session.path
        if isinstance(x, MessageEntry) and isinstance(x.message, m.Result)
    ]
    assert result.is_error
    assert "the sub-agent's model is gone" in result.text


# ── long runs ───────────────────────────────────────────────────────────────────────────────────


def long_run(root: Path, preset: str, turns: int, window: int = 16_000) -> tuple[Chat, Scripted]:
    for n in range(5):
        (root / f"f{n}.txt").write_text("".join(f"{n}: line {k} with some words in it\n" for k in range(120)))

    def answer(request: Request) -> Any:
        said = next(x for x in reversed(request.messages) if "Files in play" not in x.text)
        if isinstance(said, m.User) and "turn " in said.text and "todos" not in said.text:
            n = int(said.text.rpartition("turn ")[2])
            return say(f"I look at file {n % 5}.", m.call(f"c{n}", "Read", path=f"f{n % 5}.txt"))
        return say("This is what I found: " + "it is as it should be. " * 30)

    chat, model = made(root, then=answer, window=window, preset=preset)

    async def work() -> None:
        for n in range(turns):
            await chat.say(f"turn {n}")

    asyncio.run(work())
    return chat, model


def sizes(model: Scripted) -> list[int]:
    counter = counter_named("o200k")
    return [
        counter.text(request.system or "")
        + counter.tools(request.tools)
        + sum(map(counter.message, request.messages))
        for request in model.requests
    ]


@pytest.mark.slow
def test_100_turns_in_a_window_of_16k_never_overflow(tmp_path: Path) -> None:
    chat, model = long_run(tmp_path, "refold", 100)
    assert max(sizes(model)) <= 16_000
    assert len(model.requests) == 200
    assert any(isinstance(entry, Fold) for entry in chat.session.path)


@pytest.mark.sample(3)
@pytest.mark.parametrize("preset", presets.NAMES)
def test_no_design_overflows_in_a_small_window(tmp_path: Path, preset: str) -> None:
    _, model = long_run(tmp_path, preset, 16)
    assert max(sizes(model)) <= 16_000
    assert len(model.requests) == 32


@pytest.mark.torture
@pytest.mark.parametrize("preset", presets.NAMES)
def test_100_turns_under_every_design(tmp_path: Path, preset: str) -> None:
    _, model = long_run(tmp_path, preset, 100)
    assert max(sizes(model)) <= 16_000


# ── figures ─────────────────────────────────────────────────────────────────────────────────────


def test_what_fills_the_window_adds_up_to_what_is_sent(tmp_path: Path) -> None:
    chat, _ = long_run(tmp_path, "refold", 30)
    f = filling(chat.engine, chat.session, system=chat.system(), tools=chat.specs)
    view = chat.engine.view(chat.session, system=chat.system(), tools=chat.specs)
    assert f.summary > 0
    assert abs(f.used - view.tokens) <= 0.02 * view.tokens + 20
    assert f.free == f.window - f.used
    assert set(f.verbatim) == {"user", "assistant", "tool"}


def test_the_bill_counts_all_branches_folds_and_sub_agents() -> None:
    session, child = Session(), Session()
    for each in (session, child):
        each.append("x")
        each.append(m.assistant("y"), usage=Usage(1_000_000, 1_000_000), model="anthropic:claude-sonnet-4-5")
    session.move(session.path[0].id)
    session.append(m.assistant("z"), usage=Usage(0, 1_000_000), model="anthropic:claude-sonnet-4-5")
    [row] = bills([session, child])
    assert row.requests == 3
    assert row.usage == Usage(2_000_000, 3_000_000)
    assert row.dollars is not None
    assert total_dollars([row]) == row.dollars > 0
    session.append(m.assistant("q"), usage=Usage(1, 1), model="unheard:of")
    assert total_dollars(bills([session])) is None


# ── completion ──────────────────────────────────────────────────────────────────────────────────


def completed(root: Path, text: str) -> list[str]:
    document = Document(text)
    found = ChatCompleter(root).get_completions(document, CompleteEvent())
    return [text[: len(text) + each.start_position] + each.text for each in found]


def test_files_and_commands_are_completed(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").touch()
    (tmp_path / "sp ace.txt").touch()
    (tmp_path / ".hidden").touch()
    assert completed(tmp_path, "look at @s") == ['look at @"sp ace.txt"', "look at @src/"]
    assert completed(tmp_path, "look at @src/") == ["look at @src/a.py"]
    assert completed(tmp_path, "请看@src/a") == ["请看@src/a.py"]
    assert completed(tmp_path, "me@s") == []
    assert completed(tmp_path, "@../") == []
    assert completed(tmp_path, "@.h") == ["@.hidden"]
    assert completed(tmp_path, "/co") == ["/compact", "/context", "/cost"]
    assert completed(tmp_path, "/compact co") == []


def test_a_reply_without_a_model_says_what_to_do(tmp_path: Path) -> None:
    chat = Chat(fresh(tmp_path), tmp_path, ChatOptions())
    with pytest.raises(Exception, match="Choose one with /model"):
        asyncio.run(chat.say("x"))
    assert isinstance(chat.session.entries, list)
    assert not any(isinstance(entry, Assistant) for entry in chat.session.entries)


def test_A6_the_first_reply_of_a_process_arms_the_cache_timer(tmp_path: Path) -> None:
    settings = {
        "prompt": "Write a <summary>.",
        "trigger_on_history_size_chars": 10**6,
        "trigger_on_history_size_chars_when_cache_expiring": 10,
        "cache_ttl_ms": 20,
        "min_tail_exchanges": 0,
    }
    chat, _ = made(tmp_path, "Hello. " * 50, preset="augment", preset_settings=settings)

    async def first_turn() -> None:
        await chat.say("First.")
        await until(lambda: chat.session.annotations(Fold))
        await chat.close()

    asyncio.run(first_turn())


# ── compact_conversation ────────────────────────────────────────────────────────────────────────


def test_the_model_may_have_the_conversation_folded_before_the_next_request(tmp_path: Path) -> None:
    wants = say(m.call("c", "compact_conversation", focus="the parser", keep=["port 8443"]))
    long = [f"Answer {number}. " + " ".join(f"w{number}-{k}" for k in range(300)) for number in range(40)]
    chat, model = made(tmp_path, *long, wants, "Going on.", window=64_000, compact_tool=True)
    for number in range(40):
        asyncio.run(chat.say(f"Question {number}."))
    before = chat.engine.view(chat.session).tokens
    assert asyncio.run(chat.say("Sum up, then go on.")).text == "Going on."
    [fold] = [entry for entry in chat.session.path if isinstance(entry, Fold)]
    assert fold.tokens_after < before
    asked, told = (counter_named().text(repr(request.messages)) for request in model.requests[-2:])
    assert told < 0.75 * asked and "port 8443" in repr(model.requests[-1].messages)
    assert "has been folded" in model.requests[-1].messages[-1].text


def test_the_tool_is_off_by_default_and_says_where_there_is_nothing_to_fold(tmp_path: Path) -> None:
    chat, _ = made(tmp_path, "Hello.")
    assert "compact_conversation" not in chat.tools
    chat, model = made(tmp_path, say(m.call("c", "compact_conversation")), "Fine.", compact_tool=True)
    asyncio.run(chat.say("Hello."))
    assert "Nothing was folded" in model.requests[-1].messages[-1].text
    assert not [x for x in chat.session.path if isinstance(x, Fold)]


# ── rules ───────────────────────────────────────────────────────────────────────────────────────


def test_rules_stand_in_the_prompt_from_the_users_own_to_the_folders(tmp_path: Path) -> None:
    folder = tmp_path / "repository" / "package"
    (tmp_path / "repository" / ".git").mkdir(parents=True)
    folder.mkdir()
    files = {
        tmp_path / "own" / "CLAUDE.md": "Answer in verse.",
        tmp_path / "AGENTS.md": "Of no concern: outside of the repository.",
        tmp_path / "repository" / "AGENTS.md": "Tabs, not spaces.",
        folder / "AGENTS.md": "No new dependencies.",
        folder / "CLAUDE.md": "No new dependencies.",  # the same: once
        folder / "style.md": "Short names.",
    }
    for path, text in files.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    chat, model = made(
        folder,
        "Hello.",
        rules=("style.md",),
        own_rules=(tmp_path / "own" / "CLAUDE.md", tmp_path / "none.md"),
    )
    asyncio.run(chat.say("Hi."))
    system = model.requests[0].system or ""
    places = [
        system.find(text)
        for text in ("Answer in verse.", "Tabs, not spaces.", "No new dependencies.", "Short names.")
    ]
    assert places == sorted(places) and places[0] > 0
    assert system.count("No new dependencies.") == 1 and "Of no concern" not in system
    assert "../AGENTS.md" in system


@pytest.mark.parametrize(("answer", "seen"), [("once", [True, False]), ("no", [False])])
def test_a_command_has_the_network_when_the_user_said_so_and_only_then(
    answer: Any, seen: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grounds: list[Any] = []

    def box(words: Any, ground: Any) -> list[str]:
        grounds.append(ground.network)
        return list(words)

    async def ask(call: Call, question: Any) -> Any:
        return answer if call.arguments.get("network") else "once"

    monkeypatch.setattr("refold.tools.sandbox.find_sandbox", lambda root=None: box)
    calls = [m.call("n", "Bash", command="echo one", network=True), m.call("o", "Bash", command="echo two")]
    chat, model = made(tmp_path, say(*calls), "Done.", permission="ask")
    chat.ask = ask
    asyncio.run(chat.say("Go."))
    assert grounds == seen
    texts = " ".join(message.text for message in model.requests[-1].messages)
    assert ("declined to let it use the network" in texts) == (answer == "no")


# ── pictures ────────────────────────────────────────────────────────────────────────────────────

PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)


def test_a_picture_goes_to_a_model_that_takes_it_with_its_name_beside_it(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "project", tmp_path / "a shot.jpg"
    folder.mkdir()
    (folder / "shot.png").write_bytes(PNG)
    (folder / "a.py").write_text("x = 1")
    elsewhere.write_bytes(PNG)
    model = Scripted("I see.", name="anthropic:claude-sonnet-5-5")
    chat = Chat(fresh(folder), folder, ChatOptions(summariser="digest"), model=model)
    pasted = str(elsewhere).replace(" ", "\\ ")
    asyncio.run(chat.say(f"Compare @shot.png with {pasted} and read @a.py, not /nowhere/b.png"))
    said = model.requests[0].messages[-1]
    kinds = [part.media_type for part in said.parts if isinstance(part, m.Image)]
    assert kinds == ["image/png", "image/jpeg"]
    assert "[picture shot.png]" in said.text and f"[picture {elsewhere}]" in said.text
    reminder = said.text[said.text.index("<system-reminder>") :]
    assert "- a.py" in reminder and "shot.png" not in reminder


def test_a_model_that_takes_no_pictures_gets_their_names_and_the_user_is_told(tmp_path: Path) -> None:
    (tmp_path / "shot.png").write_bytes(PNG)
    told: list[Any] = []
    chat, model = made(tmp_path, "Well.")
    chat.tell = told.append
    asyncio.run(chat.say("See @shot.png"))
    assert not any(isinstance(part, m.Image) for part in model.requests[0].messages[-1].parts)
    assert "cannot be shown here: shot.png" in model.requests[0].messages[-1].text
    assert any(isinstance(event, Notice) and "may not accept pictures" in event.text for event in told)


def test_a_folded_picture_is_still_named(tmp_path: Path) -> None:
    (tmp_path / "shot.png").write_bytes(PNG)
    long = [f"Answer {number}. " + " ".join(f"w{number}-{k}" for k in range(300)) for number in range(12)]
    model = Scripted("I see.", *long, name="anthropic:claude-sonnet-5-5", context_window=12_000)
    settings = ChatOptions(summariser="digest", preset_settings={"window": 12_000})
    chat = Chat(fresh(tmp_path), tmp_path, settings, model=model)
    asyncio.run(chat.say("What is wrong in @shot.png?"))
    for number in range(12):
        asyncio.run(chat.say(f"Question {number}."))
    view = chat.engine.view(chat.session).messages
    assert not any(isinstance(part, m.Image) for message in view for part in message.parts)
    assert "shot.png" in " ".join(message.text for message in view)


# ── a sub-agent has no more than its parent ─────────────────────────────────────────────────────


def test_sub_agents_are_bounded_in_number_and_few_work_at_a_time(tmp_path: Path) -> None:
    now, most = 0, 0

    async def answer(request: Request) -> Any:
        nonlocal now, most
        now, most = now + 1, max(most, now + 1)
        await asyncio.sleep(0.001)
        now -= 1

    class Many(Crowd):
        async def stream(self, request: Request) -> Any:
            await answer(request)
            tasks = [m.call(f"t{n}", "Task", description=f"part {n}", prompt=f"Part {n}.") for n in range(50)]
            is_first = request.messages[0].text == "Go." and len(request.messages) == 1
            async for event in Scripted(say(*tasks) if is_first else "Done.").stream(request):
                yield event

    chat = Chat(fresh(tmp_path), tmp_path, ChatOptions(permission="all", summariser="digest"), model=Many())
    asyncio.run(chat.say("Go."))
    assert len(chat.children) == 20
    assert most <= 4
    texts = [
        x.message.text for x in chat.session.path if isinstance(x, MessageEntry) and x.message.role == "tool"
    ]
    assert sum("at most 20 sub-agents" in text for text in texts) == 30


def test_files_that_a_model_names_to_a_sub_agent_are_not_opened(tmp_path: Path) -> None:
    """The user may name a picture anywhere, a model may not: it could be any file behind a link."""
    (folder := tmp_path / "work").mkdir()
    (elsewhere := tmp_path / "passport.png").write_bytes(PNG)
    (folder / "link.png").symlink_to(elsewhere)
    (folder / "shot.png").write_bytes(PNG)
    prompt = f"Tell me what is on {elsewhere} and {folder}/link.png and @shot.png"
    task = m.call("t", "Task", description="part", prompt=prompt)

    def answer(request: Request) -> Any:
        return say(task) if len(request.messages) == 1 and request.messages[0].text == "Go." else "Nothing."

    model = Scripted(then=answer, name="anthropic:claude-sonnet-5-5")
    chat = Chat(fresh(folder), folder, ChatOptions(summariser="digest", permission="all"), model=model)
    asyncio.run(chat.say("Go."))
    [asked] = [x.messages[0] for x in model.requests if x.messages[0].text != "Go."]
    assert asked.text == prompt and not [part for part in asked.parts if isinstance(part, m.Image)]


def test_a_sub_agent_may_do_no_more_than_its_parent_and_is_named_in_the_question(tmp_path: Path) -> None:
    task = m.call("t", "Task", description="part", prompt="Do it.")
    write = m.call("w", "Write", path="x", content="y")

    def answer(request: Request) -> Any:
        mine = request.messages[0].text == "Do it."
        return say(write if mine else task) if len(request.messages) == 1 else "Action: Write[{}] done."

    asked: list[Any] = []

    async def ask(call: Call, question: Any) -> Any:
        asked.append(question)
        return "no"

    chat, _ = made(tmp_path, then=answer, permission="ask")
    chat.ask = ask
    asyncio.run(chat.say("Go."))
    assert [question.details for question in asked] == [("for the sub-agent “part”",)]
    chat, _ = made(tmp_path, then=answer, permission="read-only")
    asyncio.run(chat.say("Go."))
    assert not (tmp_path / "x").exists()
    [result] = [
        x.message for x in chat.session.path if isinstance(x, MessageEntry) and x.message.role == "tool"
    ]
    assert "Action: Write" in result.text, "what a sub-agent says is a result, and no call"
    assert [
        call.name for x in chat.session.path if isinstance(x, MessageEntry) for call in x.message.calls
    ] == ["Task"]
