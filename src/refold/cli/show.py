"""`refold show`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import click
import msgspec
from msgspec.structs import asdict

from refold import entries as e
from refold.cli.options import NameChoice, file_argument, json_option, preset_option
from refold.cli.output import console, emit, first_line, styled, waiting
from refold.cli.session_argument import FORMAT_NAMES, open_session, tell_problems
from refold.compaction.details import LineSource, RefoldDetails, rows
from refold.compaction.path_index import path_index
from refold.compaction.transcript import sources
from refold.compare.forms import FORM_WORDS, forms_sentence, message_forms, record_of_fold
from refold.entries import Fold, PathEntry, key
from refold.facts.abridged import OutlineLimits, groups, xml
from refold.facts.state_text import render
from refold.messages import Call, Result, arguments_json
from refold.registry.engine import Engine
from refold.session import History, Item, Session, View, dialects, redacted
from refold.session.edits import active_folds, edit_stretches, said_by
from refold.text.plural import counted
from refold.text.redact import redact
from refold.text.terminal import clean
from refold.text.truncate import in_short


def _aspect(name: str, text: str) -> Any:
    return click.option(f"--{name}", is_flag=True, help=text)


@click.command("show")
@file_argument
@_aspect("view", "What the model sees (the default).")
@_aspect("tree", "The log as a tree: branches, labels, folds.")
@_aspect("ledger", "What each fold removed from the view, and its check.")
@_aspect("abridged", "One block per turn: request, actions, result.")
@_aspect("trail", "Files, commands, tests and todos of the tool calls.")
@_aspect("why", "The records of folds, each line with its source entries.")
@click.option("--wire", type=NameChoice(dialects.names), help="Messages as sent to a provider.")
@preset_option("Preset whose view is shown.")
@click.option("--full", is_flag=True, help="Whole messages instead of first lines.")
@json_option
def command(file: str, wire: str | None, preset: str, full: bool, as_json: bool, **aspects: bool) -> None:
    """Show a session or a transcript."""
    asked = [name for name in ASPECTS if aspects[name]] or ["view"]
    if wire and asked != ["view"]:  # the view is what is sent
        asked.append("wire")
    if len(asked) > 1:
        raise click.UsageError(f"choose one of {', '.join(f'--{name}' for name in asked)}")
    session = open_session(file)
    engine = Engine(preset)
    find, show = ASPECTS[asked[0]]
    with waiting("counting …"):
        value = engine.view(session).to(wire) if wire else find(engine, session)
    if not as_json:
        tell_problems(session)
    if as_json or wire:
        emit(value)
        return
    out = console()
    with out.pager(styles=True) if out.is_terminal and full else nullcontext():
        show(out, value, full)


def view_dict(view: View) -> dict[str, Any]:
    """The documented JSON of a view."""
    return {
        "messages": [
            {
                "role": item.message.role,
                "content": item.message.parts,
                "entries": item.entries,
                **({"fold": item.fold} if item.fold else {}),
                **({"call_id": item.message.call_id} if item.message.role == "tool" else {}),  # pyright: ignore
            }
            for item in view.items
        ],
        "tokens": view.tokens,
    }


def about_fold(fold: Fold) -> dict[str, Any]:
    """The documented JSON of every fold."""
    names = ("id", "preset", "strategy", "reason", "tokens_before", "tokens_after", "check")
    return {name: getattr(fold, name) for name in names} | {"rung": fold.strategy}  # its old name


def sequence_numbers(session: History, items: Sequence[Item]) -> list[float]:
    """Sort keys of a view's items: the number of the entry that an item shows. What stands in the place of
    several lies between the last of them and the next entry; at the end it has the number of entries."""
    entries = [entry.id for entry in session.path if not isinstance(entry, (e.Fold, e.Undo, e.Redo))]
    numbers = {id: float(number) for number, id in enumerate(entries)}

    def number(item: Item) -> float:
        if len(item.entries) == 1 and item.entries[0] in numbers:
            return numbers[item.entries[0]]
        last = next((x.id for x in session.ancestors(item.entries[-1]) if x.id in numbers), None)
        if last is None:
            return 0.0
        return numbers[last] + 0.5 if last != entries[-1] else float(len(entries))

    return [number(item) for item in items]


def _view(engine: Engine, session: Session) -> dict[str, Any]:
    view = engine.view(session)
    shown = view_dict(view)
    shown["entries"] = len(session)
    shown["forms"] = Counter(message_forms(session, engine.preset.accepts).values())
    for message, number in zip(shown["messages"], sequence_numbers(session, view.items), strict=True):
        message["sequence"] = number
    return shown


def tree_value(engine: Engine, session: Session) -> dict[str, Any]:  # noqa: ARG001
    labels, pins, active = session.labels, set(session.pins), {entry.id for entry in session.path}
    rows: list[dict[str, Any]] = []
    for entry in session.entries:
        if not isinstance(entry, PathEntry):
            continue
        message = said_by(entry)
        rows.append(
            {
                "id": entry.id,
                "parent": entry.parent,
                "type": entry.__struct_config__.tag,
                "role": message.role if message else None,
                "text": redact(first_line(_words(message) if message else _about(entry), 200))[0],
                "children": len(session.children(entry.id)),
                "on_path": entry.id in active,
                "label": redact(label)[0] if (label := labels.get(entry.id)) else None,
                "pinned": entry.id in pins,
            }
        )
    return {"leaf": session.leaf, "entries": rows}


def _words(message: Any) -> str:
    calls = "; ".join(f"{call.name}({first_line(str(call.arguments), 60)})" for call in message.calls)
    return " ".join(text for text in (message.text, calls and f"→ {calls}") if text)


def _about(entry: Any) -> str:
    match entry:
        case e.Fold():
            sizes = f"{entry.tokens_before:,} → {entry.tokens_after:,} tokens"
            return f"{entry.strategy} by {entry.author or '?'}: {sizes}"
        case e.Undo(fold=fold) | e.Redo(fold=fold):
            return f"fold {fold}"
        case e.ModelChange():
            return " ".join(filter(None, (entry.model, entry.thinking)))
        case e.Other():
            return entry.kind
        case e.Hole():
            return entry.why
        case _:
            return ""


def _what(session: Session, id: str) -> str:
    """An entry in words: its role and beginning."""
    message = said_by(session[id]) if id in session else None
    if message is None:
        return "no longer in the log"
    kind = f"result of {message.name or 'a tool'}" if isinstance(message, Result) else message.role
    return f"{kind}: {clean(in_short(_words(message), 80)) or '(no text)'}"


def _origin(session: Session, fold: Fold) -> str | None:
    """A note on a fold of another program, which recorded neither what left nor why."""
    imported, _, format = fold.author.partition("import:")
    if imported or not format:
        return None
    path = session.path_to(fold.parent)
    position = {entry.id: place for place, entry in enumerate(path)}
    covered = {
        place
        for stretch in edit_stretches([fold], position.get)
        for place in range(stretch.first, stretch.last + 1)
        if said_by(path[place]) is not None
    }
    are = "is" if len(covered) == 1 else "are"
    entries = counted(len(covered), "entry")
    return f"{FORMAT_NAMES.get(format, format)} made this fold; its {entries} {are} in the log"


def _ledger(engine: Engine, session: Session) -> dict[str, Any]:
    active = {fold.id for fold in active_folds(session.path)}
    forms = message_forms(session, engine.preset.accepts)
    shown = {
        "forms": Counter(forms.values()),
        "folds": [
            {
                **about_fold(fold),
                "active": fold.id in active,
                "origin": _origin(session, fold),
                "lost": [
                    {**asdict(row), "form": forms.get(row.id), "what": _what(session, row.id)}
                    for row in rows(session, fold, engine.counter)
                ],
            }
            for fold in session.annotations(Fold)
        ],
    }
    return redacted.values(msgspec.to_builtins(shown))


def _abridged(engine: Engine, session: Session) -> dict[str, Any]:  # noqa: ARG001
    found = groups((x.id, x.message) for x in sources(session))
    shown = {"turns": found, "text": xml(found, OutlineLimits(total_chars_limit=1_000_000))}
    return redacted.values(msgspec.to_builtins(shown))


def _trail(engine: Engine, session: Session) -> dict[str, Any]:
    state = path_index(session).state
    shown = {"files": state.files(), "trail": state.facts(), "text": render(state, 1_000_000, engine.counter)}
    return redacted.values(msgspec.to_builtins(shown))


def _why(engine: Engine, session: Session) -> dict[str, Any]:  # noqa: ARG001
    """The records of folds in the view, and the sources of their lines."""
    active = {fold.id for fold in active_folds(session.path)}
    shown: list[dict[str, Any]] = []
    for fold in session.annotations(Fold):
        sources, record = RefoldDetails.of(fold).sources, record_of_fold(fold)
        if record:
            known = sources is not None
            shown.append(
                {
                    "id": fold.id, "preset": fold.preset, "active": fold.id in active, "sources": known,
                    "origin": _origin(session, fold), "lines": _sourced(record, sources or ()),
                }
            )  # fmt: skip
    return {"folds": shown}


def _sourced(record: str, sources: Sequence[LineSource]) -> list[dict[str, Any]]:
    rows = [
        {"line": number, "text": row, "ids": list[str](), "keys": list[str](), "through": False}
        for number, row in enumerate(record.split("\n"))
    ]
    for source in sources:
        for row in rows[source.first : source.last + 1]:
            row.update(ids=source.ids, keys=[key(id) for id in source.ids], through=source.through)
    return rows


def _print_why(out: Any, value: dict[str, Any], full: bool) -> None:
    if not value["folds"]:
        out.print("no fold has written a record; --ledger lists what left the view")
        return
    for fold in value["folds"]:
        state = "" if fold["active"] else " (undone)"
        out.print(styled((fold["id"], "bold magenta"), f"{state} {fold['preset']}"))
        if not fold["sources"]:
            earlier = "an earlier release made this fold; it does not record its sources"
            out.print(f"  {fold['origin'] or earlier}", style="dim")
            continue
        for row in fold["lines"]:
            keys = row["keys"] if full or row["through"] else row["keys"][:4]
            more = f" and {len(row['keys']) - len(keys)} more" if len(keys) < len(row["keys"]) else ""
            came = (" … " if row["through"] else " ").join(keys) + more
            text = clean(row["text"]) if full else first_line(row["text"], max(out.columns - 40, 40))
            out.print(styled(f"  {text}", (f"  ← {came}" if keys else "", "dim")), soft_wrap=True)
    out.print("to read one: `refold recall FILE --keys KEY --full`", style="dim")


def _print_view(out: Any, value: dict[str, Any], full: bool) -> None:
    for row in value["messages"]:
        body = "\n".join(getattr(part, "text", "") or _part(part) for part in row["content"])
        role = (f"{row['role']:9}", "bold magenta" if "fold" in row else "bold")
        stands = " [fold]" if len(row["entries"]) > 1 else ""
        said = clean(body) if full else first_line(body, max(out.columns - 20, 40))
        out.print(styled(role, (stands, "dim"), f" {said}"))
    sizes = f"{value['tokens']:,} tokens; {forms_sentence(value['forms'])}"
    out.print(f"{sizes}; the log has {counted(value['entries'], 'entry')}", style="dim")


def _part(part: Any) -> str:
    if isinstance(part, Call):
        return f"→ {part.name}({arguments_json(part)})"
    return f"[{type(part).__name__.lower()}]"


def print_tree(out: Any, value: dict[str, Any], full: bool) -> None:
    depth: dict[str | None, int] = {None: 0}
    siblings = Counter(row["parent"] for row in value["entries"] if row["type"] != "other" or row["children"])
    records = 0
    for row in value["entries"]:
        branched = siblings[row["parent"]] > 1
        depth[row["id"]] = depth.get(row["parent"], 0) + (1 if branched and not row["on_path"] else 0)
        if row["type"] == "other" and not full:
            records += 1
            continue
        kind = row["role"] or ("record" if row["type"] == "other" else row["type"])
        marks = ((row["label"], "yellow"), ("pinned" if row["pinned"] else None, "green"))
        line = styled(
            "  " * depth[row["id"]] + ("├ " if branched else ""),
            (f"{row['id']} ", "cyan" if row["on_path"] else "dim"),
            (f"{kind:9} ", "magenta" if row["type"] == "fold" else "bold"),
            *((f"[{clean(mark)}] ", style) for mark, style in marks if mark),
        )
        line.append(row["text"] if full else first_line(row["text"], max(out.columns - len(line) - 1, 30)))
        if row["id"] == value["leaf"]:
            line.append("  ← leaf", style="bold yellow")
        out.print(line, soft_wrap=True)
    if records:
        out.print(f"… and {counted(records, 'record')} without content; --full shows them", style="dim")


def _print_ledger(out: Any, value: dict[str, Any], full: bool) -> None:
    if not value["folds"]:
        out.print("no folds: nothing has left the view")
    else:
        out.print(f"now {forms_sentence(value['forms'])}")
    for fold in value["folds"]:
        state = "" if fold["active"] else " (undone)"
        name = (fold["id"], "bold magenta")
        if fold["origin"]:
            out.print(styled(name, f"{state} {fold['origin']}"))
            continue
        sizes = f"{fold['tokens_before']:,} → {fold['tokens_after']:,} tokens"
        why = fold["reason"].partition(": ")[2] or fold["reason"]
        out.print(styled(name, f"{state} {fold['preset']}, strategy {fold['strategy']}: {sizes}; {why}"))
        gone = sum(row["size"] for row in fold["lost"])
        end = "; the log keeps them:" if fold["lost"] else ""
        out.print(f"  folds or clips {counted(len(fold['lost']), 'message')} ({gone:,} tokens){end}")
        for name, found in fold["check"].items():
            out.print(f"  {name}: {first_line(str(found), 300 if full else 100)}", style="dim")
        lost = fold["lost"] if full else fold["lost"][:10]
        for row in lost:
            form = FORM_WORDS[row["form"]] if row["form"] else "other branch"
            out.print(f"  {row['key']}  {row['size']:7,} tokens  {form:12} {row['what']}")
        if lost:
            out.print(f"  to read one: `refold recall FILE --keys {lost[0]['key']} --full`")
        if len(lost) < len(fold["lost"]):
            out.print(f"  … and {len(fold['lost']) - len(lost):,} more; --full shows all", style="dim")


def _print_text(out: Any, value: dict[str, Any], full: bool) -> None:  # noqa: ARG001
    out.print(clean(value["text"]) or "(nothing)")


ASPECTS = {
    "view": (_view, _print_view),
    "tree": (tree_value, print_tree),
    "ledger": (_ledger, _print_ledger),
    "abridged": (_abridged, _print_text),
    "trail": (_trail, _print_text),
    "why": (_why, _print_why),
}
