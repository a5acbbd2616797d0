"""A public name means one thing: what two modules may both define is listed here, with its one meaning."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import refold

SOURCE = Path(refold.__file__).parent

SHARED = {
    # one contract, many modules
    "command": "the command of a module of `cli`",
    "name, detect, read": "a transcript format (`transcripts.base.Format`)",
    "name, field, rules, speaks, parse, parse_list, parse_given, parse_reply, render, render_tools": "a dialect",
    "legal, repair": "a rule of the wire (`session.invariants`)",
    "opened": "a kind of store, opened (`stores.KINDS`)",
    "open_executor": "an executor, opened (`batch.EXECUTORS`)",
    "examine": "what is wrong with a store",
    "dialect, keeps, new_id, adapted, place, spoken, with_server, resume_command, compaction_records, ticket_of, "
    "home_folder, home_variable, RECALL_TOOL": "a program whose sessions are written (`transcripts.programs`)",
    "chat, responses, messages": "a scripted reply as an API sends it",
    "recalled, RECALL, ENDPOINTS": "a wrapped client",
    "version, TABLES, MIGRATIONS, SCHEMA_VERSION, prepare_tables, lines_digest, select_rows, place_of, translated, "
    "best_entries, BEGINNING, tally, tallies, put_tally, session_rows": "a database: SQLite or PostgreSQL",
    "get, names, NAMES": "one by its name, all names, of a table of presets, dialects, counters or hooks",
    "main": "the entry of a module that is run as a program",
    # one thing, at several places
    "undo, pin, recall, load": "the function, and the command or plug-in for it",
    "Engine": "the engine; `registry` gives it the models of the configuration",
    "result": "a result message; of the recall tool for its calls",
    "message_of": "the message that a record or an entry holds",
    "as_count": "a foreign value as a count; what is none is 0",
    "log": "the logger of refold",
    "Sleep": "a function that waits",
    "STYLE": "the form of a strategy's summaries",
    "CLEARED": "what a model sees in place of a result that was cleared",
    "WORKER_END_SECONDS": "how long a worker process may take to end",
}


def definitions(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                if not any(is_command(decorator) for decorator in node.decorator_list):
                    yield node.name
            case ast.Assign(targets=targets, value=value) if not is_type_variable(value):
                yield from (
                    name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)
                )
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case _:
                pass


def is_command(decorator: ast.expr) -> bool:
    """`@group.command("install")`: its name is what users type."""
    return isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith(".command")


def is_type_variable(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func) in ("TypeVar", "ParamSpec")


def test_a_public_name_has_one_meaning() -> None:
    modules = defaultdict[str, set[str]](set)
    for path in SOURCE.rglob("*.py"):
        for name in definitions(ast.parse(path.read_text())):
            if not name.startswith("_"):
                modules[name].add(str(path.relative_to(SOURCE)))
    several = {name: sorted(where) for name, where in modules.items() if len(where) > 1}
    shared = {name for names in SHARED for name in names.split(", ")}
    new = {name: where for name, where in several.items() if name not in shared}
    assert not new, f"choose another name, or say in SHARED what it means everywhere: {new}"
    gone = shared - several.keys()
    assert not gone, f"no longer shared; take it out of this list: {sorted(gone)}"
