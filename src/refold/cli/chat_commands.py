"""The /commands of a conversation; each inspects the session or changes it through the engine."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console

from refold import entries as e
from refold.agent.chat import Chat
from refold.agent.figures import bills, filling, total_dollars
from refold.agent.folder_sessions import fresh, here, resumed
from refold.cli import show
from refold.cli.chat_once import named, stoppable
from refold.cli.chat_screen import Printer
from refold.cli.memory import default_path
from refold.cli.output import first_line, styled, text_table, write_private
from refold.cli.plan import print_plan
from refold.cli.recall import print_hits
from refold.compaction.plan import Failed, Reason
from refold.errors import RefoldError, UsageError
from refold.memory import note
from refold.messages import Message, Text
from refold.session import Session
from refold.session.edits import said_by
from refold.session.find import find
from refold.stores.memory_file import MemoryFile
from refold.text.dates import in_utc
from refold.text.plural import counted
from refold.text.terminal import clean
from refold.transcripts.export import export as exported
from refold.transcripts.export import targets

CHART = 50
"""Characters of the longest bar."""
MAX_LISTED = 20


class ChatContext(Protocol):
    """The conversation in which a command is given."""

    chat: Chat
    printer: Printer
    screen: Console
    draft: str
    leaving: bool

    async def turn_to(self, session: Session) -> None:
        """Switches to another conversation in the same folder."""
        ...


@dataclass(frozen=True)
class Command:
    help: str
    run: Callable[[ChatContext, str], Coroutine[Any, Any, None]]
    arguments: str = ""


async def run_command(terminal: ChatContext, line: str) -> None:
    """Runs a command typed after the slash; any error becomes a sentence."""
    name, _, rest = line[1:].strip().partition(" ")
    command = CHAT_COMMANDS.get(name)
    if command is None:
        near = _near(name.lower())
        hint = f"; did you mean /{near}?" if near else "; /help lists them"
        terminal.screen.print(f"Unknown command /{first_line(name, 40)}{hint}", style="yellow")
        return
    try:
        await stoppable(command.run(terminal, rest.strip()))
    except asyncio.CancelledError:
        terminal.printer.wait(None)
        terminal.screen.print("Stopped; nothing was changed", style="yellow")
    except (RefoldError, OSError) as error:
        terminal.printer.wait(None)
        terminal.screen.print(first_line(str(error), 500), style="yellow")


def _near(name: str) -> str | None:
    """The command that was probably meant: by another name, its beginning, or its letters."""
    begun = [command for command in CHAT_COMMANDS if name and command.startswith(name)]
    close = difflib.get_close_matches(name, [*CHAT_COMMANDS, *OTHER_NAMES], 1)
    found = next(iter((*begun, *close)), None)
    return OTHER_NAMES.get(name) or (OTHER_NAMES.get(found, found) if found else None)


def _needed(argument: str, what: str) -> str:
    if not argument:
        raise UsageError(f"Missing {what}")
    return argument


# ── folding ─────────────────────────────────────────────────────────────────────────────────────


async def _compact(t: ChatContext, focus: str) -> None:
    done = await t.chat.compact(focus)  # the printer is told how it ends
    if isinstance(done, Reason):
        t.screen.print(f"Nothing was folded: {done.text}")


async def _plan(t: ChatContext, _: str) -> None:
    chat = t.chat
    system, tools = chat.system(), chat.specs
    due = await asyncio.to_thread(chat.engine.plan, chat.session, system=system, tools=tools)
    forced = await asyncio.to_thread(chat.engine.plan, chat.session, force=True, system=system, tools=tools)
    print_plan(chat.engine, chat.session, forced, due if isinstance(due, Reason) else due.reason)


async def _undo(t: ChatContext, fold: str) -> None:
    mark = t.chat.engine.undo(t.chat.session, fold or None)
    _tell_view(t, f"Fold {mark.fold} undone")


async def _redo(t: ChatContext, fold: str) -> None:
    mark = t.chat.engine.redo(t.chat.session, fold or None)
    _tell_view(t, f"Fold {mark.fold} redone")


async def _pin(t: ChatContext, key: str) -> None:
    mark = t.chat.engine.pin(t.chat.session, _needed(key, "KEY: an id or key from /tree or /recall"))
    t.screen.print(f"{mark.target} is pinned: it stays verbatim in every fold")


def _tell_view(t: ChatContext, what: str) -> None:
    view = t.chat.engine.view(t.chat.session, system=t.chat.system(), tools=t.chat.specs)
    t.screen.print(f"{what}: {view.tokens:,} tokens")


# ── looking ─────────────────────────────────────────────────────────────────────────────────────


async def _recall(t: ChatContext, query: str) -> None:
    hits = await asyncio.to_thread(t.chat.engine.recall, t.chat.session, _needed(query, "what to search for"))
    print_hits(hits, query)
    if not hits:
        t.screen.print("Nothing found; try other words")


async def _context(t: ChatContext, _: str) -> None:
    f = filling(t.chat.engine, t.chat.session, system=t.chat.system(), tools=t.chat.specs)
    rows = [("system and tools", f.system, "blue"), ("summaries", f.summary, "magenta")]
    rows += [(f"verbatim: {role}", size, "green") for role, size in f.verbatim.items()]
    most = max(*(size for _, size, _ in rows), 1)
    for name, size, colour in rows:
        bar = "█" * round(size * CHART / most)
        t.screen.print(styled(f"{name:20} {size:10,} {size / f.window:6.1%} ", (bar, colour)))
    t.screen.print(styled(f"{'free':20} {f.free:10,} {f.free / f.window:6.1%}"))
    t.screen.print(
        f"{f.used:,} of {f.window:,} tokens; {counted(len(t.chat.session.path), 'entry')} on the path",
        style="dim",
    )


async def _cost(t: ChatContext, _: str) -> None:
    rows = bills([t.chat.session, *t.chat.children], t.chat.config.models)
    if not rows:
        t.screen.print("No usage reported yet")
        return
    told = (
        (
            r.model,
            r.requests,
            f"{r.usage.prompt:,}",
            f"{r.usage.cache_read:,}",
            f"{r.usage.output:,}",
            _money(r.dollars),
        )
        for r in rows
    )
    names = ("model", "requests", "read", "of that cached", "written", "cost")
    t.screen.print(text_table(names, told, right=names[1:]))
    t.screen.print(f"Total: {_money(total_dollars(rows))}")


def _money(dollars: float | None) -> str:
    return "price unknown" if dollars is None else f"${dollars:.4f}"


# ── the tree ────────────────────────────────────────────────────────────────────────────────────


async def _tree(t: ChatContext, rest: str) -> None:
    """`/tree` shows the tree, `/tree KEY` goes to an entry, `/tree KEY summary [focus]` summarises."""
    session, engine = t.chat.session, t.chat.engine
    if not rest:
        show.print_tree(t.screen, show.tree_value(engine, session), False)
        return
    to, _, more = rest.partition(" ")
    word, _, focus = more.strip().partition(" ")
    if word not in ("", "summary"):
        raise UsageError("Use /tree KEY or /tree KEY summary [focus]")
    if word:
        t.printer.wait("summarising the branch you leave")
    done = await engine.branch(session, to, summarize=bool(word), instructions=focus or None)
    t.printer.wait(None)
    if isinstance(done, Failed):
        raise UsageError(f"Did not move: {done.text}")
    t.draft = "" if done.message is None else _typed(done.message)
    _tell_view(
        t, f"Now at {done.leaf or 'the beginning'}" + ("; your message is in the prompt" if t.draft else "")
    )


def _typed(message: Message) -> str:
    """The user's own part of a message."""
    parts = (part for part in message.parts if isinstance(part, Text))
    return "\n".join(part.text for part in parts if part.origin in (None, "typed"))


async def _label(t: ChatContext, rest: str) -> None:
    key, _, text = _needed(rest, "arguments: /label KEY NAME").partition(" ")
    t.chat.session.label(find(t.chat.session, key).id, text.strip())
    t.screen.print(f"{key} is labelled {text.strip()!r}" if text.strip() else f"Label of {key} removed")


async def _restore(t: ChatContext, which: str) -> None:
    """`/restore` lists snapshots of the workspace; `/restore N` restores files and conversation to one."""
    chat = t.chat
    noted = [entry for entry in chat.session.annotations(e.State) if entry.name == "snapshot"]
    if not which:
        rows = [
            (at, _time(entry.time), entry.value["snapshot"][:12], _words(t, entry.target))
            for at, entry in enumerate(noted, 1)
        ]
        t.screen.print(text_table(("", "taken", "snapshot", "after"), rows) if rows else "No snapshots yet")
        return
    if chat.snapshots is None or not which.isdecimal() or not 0 < int(which) <= len(noted):
        raise UsageError("Use /restore NUMBER; /restore lists the numbers")
    chosen = noted[int(which) - 1]
    await asyncio.to_thread(chat.snapshots.take, chat.session.id, "before-restore")
    done = await asyncio.to_thread(chat.snapshots.restore, chosen.value["snapshot"])
    t.screen.print(f"{counted(len(done.changed), 'file')} restored, {len(done.removed):,} removed")
    if done.kept:
        left = first_line(f"Not in the snapshot, left unchanged: {', '.join(done.kept)}", 500)
        t.screen.print(left, style="yellow")
    if chosen.target is not None:
        await _tree(t, chosen.target)


def _time(seconds: float) -> str:
    return f"{in_utc(seconds):%H:%M:%S}"


def _words(t: ChatContext, id: str | None) -> str:
    entry = t.chat.session[id] if id and id in t.chat.session else None
    message = said_by(entry) if entry else None
    return "" if message is None else f"{message.role}: {first_line(_typed(message) or '(tool calls)', 60)}"


# ── the rest ────────────────────────────────────────────────────────────────────────────────────


async def _model(t: ChatContext, name: str) -> None:
    chat = t.chat
    if not name:
        t.screen.print(chat.model.name if chat.model else "No model; choose one with /model NAME")
        return
    chosen = named(name, chat.config)
    chat.use(chosen)
    if chosen is not None and chat.session.entries:
        chat.session.append(chat.session.make(e.ModelChange, model=chosen.name))
    t.screen.print(f"Model: {chosen.name if chosen else 'none'}")


async def _memory(t: ChatContext, rest: str) -> None:
    """`/memory` shows the notes; `/memory add TEXT` adds one."""
    file = MemoryFile(default_path())
    word, _, text = rest.partition(" ")
    if word == "add" and text.strip():
        made = note(text, date=f"{datetime.now(UTC):%Y-%m-%d}")
        file.add(made.line)
        t.screen.print(f"Noted: {made.line}")
    elif rest:
        raise UsageError("Use /memory or /memory add TEXT")
    else:
        t.screen.print(file.read().rstrip() or "No notes yet; add one with /memory add TEXT")


async def _export(t: ChatContext, rest: str) -> None:
    form, _, name = rest.partition(" ")
    if form not in targets() or not name.strip():
        raise UsageError(f"Use /export FORMAT FILE; formats: {', '.join(targets())}")
    path, made = Path(name.strip()), exported(t.chat.session, form)
    await asyncio.to_thread(_write_new, path, made.data)
    t.screen.print(f"Written to {path}")
    for sentence in made.lost:
        t.screen.print(sentence, style="dim")


def _write_new(path: Path, data: bytes) -> None:
    if path.exists():
        raise UsageError(f"{path} already exists; choose another name")
    write_private(path, data)


async def _clear(t: ChatContext, _: str) -> None:
    await t.turn_to(fresh(t.chat.root))
    t.screen.print("New conversation; /resume lists the earlier ones")


async def _resume(t: ChatContext, which: str) -> None:
    """`/resume` lists the conversations of this folder; `/resume NUMBER` or `/resume ID` continues one."""
    store = t.chat.store
    if store is None:
        raise UsageError("This conversation is not stored (--store memory:), so there are no others")
    infos = await asyncio.to_thread(here, store, t.chat.root)
    if not which:
        rows = [
            (
                at,
                f"{in_utc(info.updated).astimezone():%Y-%m-%d %H:%M}",
                first_line(info.name or "", 60),
                info.id,
            )
            for at, info in enumerate(infos[:MAX_LISTED], 1)
        ]
        t.screen.print(
            text_table(("", "last said", "began with", "id"), rows) if rows else "No conversations yet"
        )
        return
    listed = which.isdecimal() and 0 < int(which) <= len(infos)
    id = infos[int(which) - 1].id if listed else which
    await t.turn_to(await asyncio.to_thread(resumed, store, t.chat.root, id))
    _tell_view(t, f"{counted(len(t.chat.session.turns), 'turn')} so far; see /tree")


async def _diff(t: ChatContext, _: str) -> None:
    chat = t.chat
    noted = [entry for entry in chat.session.annotations(e.State) if entry.name == "snapshot"]
    if chat.snapshots is None or not noted:
        raise UsageError("No snapshot to compare with. Snapshots are taken before each request and need git")
    text = await asyncio.to_thread(chat.snapshots.difference, noted[0].value["snapshot"])
    if not text.strip():
        t.screen.print("No changes since this conversation began")
        return
    from rich.syntax import Syntax

    t.screen.print(Syntax(clean(text), "diff", theme="ansi_dark", background_color="default", word_wrap=True))


async def _help(t: ChatContext, _: str) -> None:
    for name, command in CHAT_COMMANDS.items():
        t.screen.print(styled((f"/{name} {command.arguments}".ljust(36), "bold"), command.help))
    t.screen.print(
        "@path mentions a file; Tab completes; Alt-Enter starts a new line; Ctrl-C stops a turn", style="dim"
    )


async def _expand(t: ChatContext, which: str) -> None:
    """`/expand N` shows a shortened output in full; `/expand` the last one."""
    texts = t.printer.collapsed
    number = which or str(len(texts))
    if not number.isdecimal() or not 0 < int(number) <= len(texts):
        raise UsageError("Use /expand NUMBER, with a number shown after a shortened text")
    t.screen.print(texts[int(number) - 1], soft_wrap=True)


async def _quit(t: ChatContext, _: str) -> None:
    t.leaving = True


CHAT_COMMANDS = {
    "compact": Command("Fold the conversation now.", _compact, "[what matters]"),
    "plan": Command("Show what a fold would do (dry run).", _plan),
    "undo": Command("Undo the last fold.", _undo, "[fold]"),
    "redo": Command("Redo an undone fold.", _redo, "[fold]"),
    "pin": Command("Keep an entry verbatim in every fold.", _pin, "KEY"),
    "recall": Command("Find what was said, folded or not.", _recall, "WORDS"),
    "context": Command("Show what fills the window.", _context),
    "tree": Command(
        "Show the conversation as a tree, or move to another entry.", _tree, "[KEY [summary [focus]]]"
    ),
    "label": Command("Name an entry.", _label, "KEY NAME"),
    "model": Command("Show or change the model.", _model, "[NAME]"),
    "memory": Command("Long-term notes.", _memory, "[add TEXT]"),
    "cost": Command("Show the cost so far.", _cost),
    "restore": Command("Restore files and conversation to a snapshot.", _restore, "[NUMBER]"),
    "expand": Command("Show a shortened text in full.", _expand, "[NUMBER]"),
    "export": Command("Write the conversation in another format.", _export, "FORMAT FILE"),
    "diff": Command("Show what changed in the folder since the conversation began.", _diff),
    "clear": Command("Start a new conversation; this one is kept.", _clear),
    "resume": Command("List the conversations in this folder, or resume one.", _resume, "[NUMBER or ID]"),
    "help": Command("Show this list.", _help),
    "quit": Command("Leave; the conversation is kept.", _quit),
    "exit": Command("The same.", _quit),
}
OTHER_NAMES = {
    "new": "clear", "reset": "clear", "bye": "quit", "q": "quit", "usage": "cost", "tokens": "context",
    "status": "context", "history": "tree", "rewind": "restore", "sessions": "resume", "continue": "resume",
    "summarize": "compact", "fold": "compact", "search": "recall", "changes": "diff", "commands": "help",
}  # fmt: skip
"""Names of commands in other programs → names here."""
