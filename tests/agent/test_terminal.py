"""The conversation over the real command line in a pseudo-terminal, with a scripted model and real files."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable

import pytest

import refold
from refold import Engine, Session
from refold import messages as m
from refold.agent.loop import NEVER_STARTED, OUTCOME_UNKNOWN
from refold.entries import BranchSummary, Fold, MessageEntry
from refold.session.edits import active_folds
from refold.testing.validators import validate_anthropic, validate_openai
from tests.agent.terminal import PATIENCE, Project, Terminal, environment, results


def check(session: Session) -> None:
    """One result for every call, and what would be sent next is valid."""
    assert all(len(texts) == 1 for texts in results(session).values())
    calls = [c.id for x in session.path if isinstance(x, MessageEntry) for c in x.message.calls]
    assert sorted(calls) == sorted(results(session))
    session.append("and now?")
    view = Engine().view(session)
    assert validate_openai(view.to_openai()) == []
    assert validate_anthropic({**view.to_anthropic(), "model": "x", "max_tokens": 1}) == []


EDIT = """I read it.
@call Read {"path": "a.py"}
@usage 1200 80
---
@call Edit {"path": "a.py", "old_string": "return 1", "new_string": "return 2"}
---
It returns **two** now.
---
@call Bash {"command": "python3 -c 'import a; print(a.f())'"}
---
It says 2.
"""


def test_a_task_of_several_turns_with_real_files_and_questions(project: Project) -> None:
    run = project.chat(EDIT)
    run.until("refold chat in", "› ")
    run.type("Fix @a.py please")
    run.until("I read it.", "→ Read", "return 1", "→ Edit", "y(es), a(lways")
    assert (project.root / "a.py").read_text() == "def f():\n    return 1\n", (
        "nothing is changed before the answer"
    )
    run.say("y", "It returns two now.")
    assert (project.root / "a.py").read_text() == "def f():\n    return 2\n"
    run.type("Run it")
    run.until("→ Bash", "y(es)")
    run.say("y", "It says 2.")
    run.say("/context", "system and tools", "verbatim: user", "free")
    run.say("/cost", "scripted:", "1,200")
    run.say("/recall returns two", "turn 1", "returns")
    run.say("/help", "/compact", "/restore")
    run.say("/nonsens", "Unknown command /nonsens")
    status = run.until("scripted:", "system ", " free ", " ")
    assert re.search(r"system [\d,]+ summary 0 verbatim [\d,]+ free ", status)
    assert run.leave() == 0
    assert "Resume with: refold chat --resume" in run.seen
    check(project.session())


def test_a_call_the_user_does_not_want_is_not_made(project: Project) -> None:
    run = project.chat('@call Write {"path": "x", "content": "y"}\n---\nThen not.')
    run.until("› ")
    run.type("Write x")
    run.until("y(es)")
    run.say("n", "Then not.")
    assert not (project.root / "x").exists()
    run.leave()
    check(project.session())


def test_folding_undoing_and_branching(project: Project) -> None:
    replies = "\n---\n".join(
        f"Answer {n}. " + "It is a rather long answer about many things. " * 60 for n in range(9)
    )
    run = project.chat(replies + "\n---\n@always\nAnother answer.", "--window", "12000")
    run.until("› ")
    for n in range(8):
        run.say(f"Question {n}", f"Answer {n}")
    run.say("/plan", "refold (o200k)")
    run.say("/compact the questions", "Folded", "tokens (", "/undo to undo")
    run.say("/undo", "undone:")
    run.say("/redo", "redone:")
    tree = run.say("/tree", "Question 2", "← leaf")
    key = re.findall(r"([0-9a-f]{12}) user +Question 2", tree)[0]
    leaf = re.findall(r"([0-9a-f]{12}) \w+ +[^\n]*← leaf", tree)[0]
    run.say(f"/label {key} second", "is labelled 'second'")
    run.say(f"/pin {key}", "is pinned")
    run.type("/tree second")
    run.until("your message is in the prompt", "› Question 2")
    run.type(" again", end="\r")
    run.until("Answer 8", "› ")
    run.say(f"/tree {leaf} summary", "Now at")
    run.say("Where were we?", "Another answer.")
    run.leave()
    session = project.session()
    assert len([x for x in session.path if isinstance(x, BranchSummary)]) == 1
    assert len(active_folds(session.path)) == 1
    said = [x.message.text for x in session.entries if isinstance(x, MessageEntry)]
    assert "Question 2 again" in said
    check(session)


def test_an_interrupt_stops_the_turn_and_the_conversation_goes_on(project: Project) -> None:
    script = (
        "Half of what I wanted to say\n\nand the rest\n@stall\n---\nSecond.\n---\n"
        '@call Bash {"command": "touch begun; sleep 600"}\n@call Read {"path": "a.py"}\n---\nThird.'
    )
    run = project.chat(script, "--permission", "all")
    run.until("› ")
    run.type("Go")
    run.until("Half of what I wanted to say")
    run.interrupt()
    run.until("interrupted; the conversation so far is kept", "› ")
    run.say("Again", "Second.")
    run.type("Run something")
    run.until("→ Bash")
    end = time.monotonic() + 60
    while not (project.root / "begun").exists() and time.monotonic() < end:
        time.sleep(0.02)
    run.interrupt()
    run.until("interrupted", "› ")
    run.say("And?", "Third.")
    run.leave()
    session = project.session()
    replies = [
        x.message for x in session.path if isinstance(x, MessageEntry) and isinstance(x.message, m.Assistant)
    ]
    assert (replies[0].stop, replies[0].text.split("\n")[0]) == ("aborted", "Half of what I wanted to say")
    first, second = (texts[0] for texts in results(session).values())
    assert OUTCOME_UNKNOWN in first
    assert NEVER_STARTED in second
    check(session)


KILLED = """First.
@call Bash {"command": "echo x >> log; sleep 0.1"}
@call Bash {"command": "echo y >> log; sleep 0.1"}
@pace 0.05
---
@call Write {"path": "new.txt", "content": "z"}
---
Done.
@pace 0.05
"""


def killed(project: Project, when: Callable[[Terminal], object]) -> None:
    """Killed in the middle of a turn, and resumed: nothing is run again, one result for each call."""
    run = project.chat(KILLED, "--permission", "all")
    run.until("› ")
    run.type("Go")
    when(run)
    run.kill()
    time.sleep(0.25)  # a command that was about to write ends, or dies with its parent, a moment later
    log = project.root / "log"
    before = log.read_text() if log.exists() else ""
    if not project.sessions():
        assert before == "", "nothing is done before it is written down"
        return
    again = project.chat("Going on.", "--continue", "--permission", "all")
    again.until(" so far; see /tree", "› ")
    again.say("Where were we?", "Going on.")
    again.leave()
    assert (log.read_text() if log.exists() else "") == before, "no command is run again"
    check(project.session())


@pytest.mark.sample(2)
@pytest.mark.parametrize("mark", ["First.", "→ Bash", "← Bash", "→ Write", "← Write"])
def test_killed_and_resumed_nothing_is_run_again(project: Project, mark: str) -> None:
    killed(project, lambda run: run.until(mark))


@pytest.mark.torture
@pytest.mark.parametrize("delay", [n / 50 for n in range(60)])
def test_killed_at_many_points_and_resumed(project: Project, delay: float) -> None:
    killed(project, lambda _: time.sleep(delay))


def test_a_fold_that_takes_too_long_can_be_stopped(project: Project) -> None:
    words = "It is a rather long answer about many things. " * 60
    script = "\n---\n".join(f"Answer {n}. {words}" for n in range(3))
    stalls = "\n---\n@for summary\nHalf\n@stall\n---\n@always\nGoing on."
    design = ["--preset", "pi", "--set", "keep_recent_tokens=700", "--summariser", "same"]
    run = project.chat(script + stalls, *design)
    run.until("› ")
    for n in range(3):
        run.say(f"Question {n}", f"Answer {n}")
    run.type("/compact")
    run.until("folding the conversation", "Ctrl-C stops")
    run.interrupt()
    run.until("Stopped; nothing was changed", "› ")
    run.say("And?", "Going on.")
    run.leave()
    session = project.session()
    assert not any(isinstance(entry, Fold) for entry in session.path)
    check(session)


def test_restore_brings_files_and_conversation_back(project: Project) -> None:
    run = project.chat(EDIT, "--permission", "all")
    run.until("› ")
    run.say("Fix @a.py please", "It returns two now.")
    assert "return 2" in (project.root / "a.py").read_text()
    run.say("/restore", "1", "user: Fix @a.py")
    run.type("/restore 1")
    run.until("restored", "your message is in the prompt", "› Fix @a.py please")
    run.settle()
    assert "\n› Fix @a.py please\n" in run.screen.shown
    assert "system-reminder" not in run.screen.shown
    assert "return 1" in (project.root / "a.py").read_text()
    run.type("", end="\x03")  # Ctrl-C empties the prompt
    end = time.perf_counter() + PATIENCE
    while "\n›\n" not in run.screen.shown:  # the status line may stand below
        run.pump(end)
    assert run.leave() == 0
    assert project.session().leaf is None


def test_without_a_model_it_starts_and_offers_what_there_is(project: Project) -> None:
    run = project.nursery.start(["chat", "--store", project.store], project.root, environment(project.home))
    project.runs.append(run)
    run.until("No model is configured", "/model local:smollm2", "/model demo", "› ")
    run.say("hello", "No model")
    run.say("/model demo", "Model: scripted:demo")
    run.say("hello", "→ LS", "scripted demonstration")
    assert run.leave() == 0


def test_an_interrupted_script_says_so_and_can_be_resumed(project: Project) -> None:
    run = project.chat("Half of it\n@stall", "-p", "Go.", "--json")
    end = time.monotonic() + 60
    while not (project.sessions() and project.session().path) and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.3)
    run.interrupt()
    assert run.end() == 1
    told = json.loads(run.seen)
    assert (told["interrupted"], told["answer"], told["error"]) == (True, None, None)
    again = project.chat("All of it.", "-p", "Again.", "--resume", told["session"], "--quiet")
    assert again.end() == 0
    assert again.seen.strip() == "All of it."
    check(project.session())


def test_a_conversation_that_cannot_begin_ends_with_a_sentence(project: Project) -> None:
    for arguments in (
        ["--preset", "nonsense"],
        ["--resume", "nonsense"],
        ["--continue"],
        ["--model", "no:x"],
    ):
        run = project.chat("x", *arguments)
        assert run.end() == 2
        assert "Error:" in run.seen
        assert "Traceback" not in run.seen


def test_verbosities_in_a_terminal(project: Project) -> None:
    for flag, seen, unseen in (
        ("--compact", "← Read: success", "start_line: 1\n"),
        ("--quiet", "two", "Read"),
    ):
        run = project.chat(EDIT, "--permission", "all", flag)
        run.until("› ")
        out = run.say("Fix it", "returns two now")
        assert seen in out
        assert unseen not in out
        run.leave()
        (project.root / "a.py").write_text("def f():\n    return 1\n")


def test_nothing_from_tools_or_models_reaches_the_terminal_raw(project: Project) -> None:
    (project.root / "evil.txt").write_text("\x1b]52;c;ZXZpbA==\x07\x1b[2J\u202eevil\n")
    evil = '[a link](http://example.org) [link](http://x/\x1b]0;pwned\x07) \x1b[31mred\n@call Read {"path": "evil.txt"}\n---\nDone \x1b]0;pwned\x07.'
    run = project.chat(evil)
    run.until("› ")
    run.say("Read", "Done")
    run.leave()
    assert "\x1b]52" not in run.raw
    assert "\x1b]0;pwned" not in run.raw
    assert "\x1b]8" not in run.raw
    assert "\x1b[31mred" not in run.raw
    assert "\u202e" not in run.raw
    assert "evil" in run.seen


def test_E13_a_file_that_somebody_changed_meanwhile_is_noted(project: Project) -> None:
    read = '@call Read {"path": "a.py"}\n---\n'
    run = project.chat(read + "One.\n---\n" + read + "Two.")
    run.until("› ")
    run.say("Read", "One.")
    time.sleep(0.01)
    (project.root / "a.py").write_text("def f():\n    return 3\n")
    run.say("Read again", "Two.")
    run.leave()
    first, second = (texts[0] for texts in results(project.session()).values())
    assert "modified externally" not in first
    assert "a.py was modified externally." in second


def test_a_fold_is_told_while_it_happens_in_a_tool_loop(project: Project) -> None:
    (project.root / "big.txt").write_text(
        "".join(f"line {n} of a file that is rather long\n" for n in range(400))
    )
    steps = "".join(
        f'Part {n}.\n@call Read {{"path": "big.txt", "offset": {n * 40 + 1}, "limit": 120}}\n---\n'
        for n in range(8)
    )
    run = project.chat(steps + "Done.", "--window", "8000", "--compact")
    run.until("› ")
    run.say("Read it all", "Folded ", "Done.")
    run.leave()
    session = project.session()
    assert any(isinstance(entry, Fold) for entry in session.path)
    check(session)


# ── stopping, and seeing before approving ───────────────────────────────────────────────────────

CONTROL_C = "\x03"


def test_control_c_stops_a_command_that_was_allowed_at_a_prompt(project: Project) -> None:
    script = '@call Bash {"command": "echo first; touch begun; sleep 600"}\n---\nGoing on.\n---\nHalf\n\nof it\n@stall'
    run = project.chat(script)
    run.until("› ")
    run.type("Run it")
    run.until("y(es)")
    run.type("y")
    run.until("running Bash … 1 s (Ctrl-C stops)", "first")  # seconds, and what it writes meanwhile
    run.type(CONTROL_C, end="")
    run.until("interrupted; the conversation so far is kept", "› ")
    run.say("And?", "Going on.")
    run.type("More")
    run.until("Half")
    run.type(CONTROL_C, end="")
    run.until("interrupted", "› ")
    assert run.leave() == 0
    check(project.session())


def test_control_c_at_a_question_stops_the_turn_and_does_nothing(project: Project) -> None:
    run = project.chat('@call Write {"path": "b.py", "content": "x"}\n---\nWell.')
    run.until("› ")
    run.type("Write it")
    run.until("y(es)")
    run.type(CONTROL_C, end="")
    run.until("interrupted", "› ")
    assert not (project.root / "b.py").exists()
    run.say("And?", "Well.")
    run.leave()
    check(project.session())


def test_an_edit_is_shown_as_a_diff_with_numbers_before_the_question(project: Project) -> None:
    run = project.chat(EDIT)
    run.until("› ")
    run.type("Fix it")
    shown = run.until("y(es), a(lways")
    assert "1   def f():" in shown and "2 -     return 1" in shown and "2 +     return 2" in shown
    assert shown.index("return 2") < shown.index("Change `a.py` with Edit?")
    run.say("n", "It returns")
    run.type("Run it")
    assert f"in {project.root}; " in run.until("y(es)")  # where it runs, and what it could do
    run.say("n", "It says 2.")
    run.leave()


def test_a_long_diff_is_shown_in_part_until_asked_for(project: Project) -> None:
    content = "\\n".join(f"line {number}" for number in range(160))
    run = project.chat(f'@call Write {{"path": "b.txt", "content": "{content}"}}\n---\nDone.')
    run.until("› ")
    run.type("Write it")
    shown = run.until("… 120 more lines (d shows all)", "d(iff)")
    assert "line 39" in shown and "line 41" not in shown
    run.type("d")
    run.until("line 41", "line 159", "d(iff)")
    run.say("y", "Done.")
    assert (project.root / "b.txt").read_text().count("\n") == 159
    run.leave()


def test_long_outputs_are_collapsed_and_expanded_by_number(project: Project) -> None:
    (project.root / "long.txt").write_text("".join(f"row {number}\n" for number in range(200)))
    run = project.chat('@call Read {"path": "long.txt"}\n---\nRead.')
    run.until("› ")
    run.type("Read it")
    shown = run.until("Read.", "› ")
    assert "row 3" in shown and "row 100" not in shown and "(/expand 1)" in shown
    run.say("/expand 1", "row 100", "row 199")
    run.say("/expand 7", "Use /expand NUMBER")
    run.leave()


def test_the_rules_that_hold_are_named_at_the_start(project: Project) -> None:
    (project.root / "AGENTS.md").write_text("Be brief.")
    (project.home / ".claude").mkdir()
    (project.home / ".claude" / "CLAUDE.md").write_text("Be kind.")
    run = project.chat("Hello.")
    run.until("rules: ~/.claude/CLAUDE.md, AGENTS.md", "› ")
    run.leave()


def test_commands_that_people_type(project: Project) -> None:
    run = project.chat(EDIT + "---\nHello again.")
    run.until("› ")
    run.say("/diff", "No snapshot to compare with")
    run.type("Fix it")
    run.until("y(es)")
    run.say("y", "It returns two now.")
    run.say("/diff", "-    return 1", "+    return 2")
    run.say("/new", "did you mean /clear?")
    run.say("/comp", "did you mean /compact?")
    run.say("/clear", "New conversation")
    run.say("/tree", "")
    run.type("Run it")
    run.until("y(es)")
    run.say("y", "It says 2.")
    run.say("/resume", "Run it", "Fix it")
    run.say("/resume 2", "1 turn so far")
    run.say("And now?", "Hello again.")
    run.type("/exit")
    assert run.end() == 0
    assert len(project.sessions()) == 2
    texts = {id: repr(refold.open(project.store, id=id).path) for id in project.sessions()}
    assert sum("Hello again." in text and "Fix it" in text for text in texts.values()) == 1
