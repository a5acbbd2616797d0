"""From a tool call to what it did to files (A16): a table by kind of tool, extensible."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, cast

from refold.entries import Files
from refold.messages import Call, Message
from refold.preserve.action import Action, Verb, tidy
from refold.preserve.commands import shell_actions
from refold.preserve.patches import last_block, patch_actions
from refold.session.dialects.common import listing
from refold.session.toolnames import (
    CONTENTS,
    MANY_PATHS,
    PATCHES,
    PATHS,
    TARGETS,
    Kind,
    argument,
    canonical,
    command_line,
    kind,
    text_argument,
)

Names: TypeAlias = Mapping[str, Kind]
"""Further tool names (canonical spelling) and what they do."""
_VERBS: Mapping[Kind, Verb] = {
    "read": "view", "edit": "modify", "write": "write", "create": "create", "delete": "delete",
}  # fmt: skip
_EDITOR: Mapping[str, Verb] = {
    "view": "view", "create": "create", "write": "write", "str_replace": "modify", "insert": "modify",
    "undo_edit": "modify", "edit_file": "modify", "replace": "modify", "delete": "delete",
}  # fmt: skip
_OLD = ("old_string", "old_str", "oldText", "old_text", "search", "find", "TargetContent", "old")
_NEW = (
    "new_string", "new_str", "newText", "new_text", "replace", "replacement", "new_source",
    "ReplacementContent", "text", "code_edit", "content", "new",
)  # fmt: skip


def actions(call: Call, opened: str = "", names: Names | None = None) -> tuple[Action, ...]:
    """The file actions of one call, in order. `opened` is the file an editor had open before it."""
    what = kind(call.name, names)
    reader = _READERS.get(what)
    return tuple(reader(call, opened, what)) if reader else ()


def opens(call: Call) -> bool:
    """Whether a call leaves its file open in an editor, for edits that name none."""
    return canonical(call.name) in ("open", "create") or command_line(call).startswith(("open ", "create "))


def pi_files(messages: Iterable[Message], previous: Files | None = None) -> Files:
    """The files that messages touch, added to those of an earlier summary."""
    return listed_files((touched(message) for message in messages), previous or Files())


def touched(message: Message) -> tuple[list[str], list[str]]:
    """Files read and files modified by a message as pi collects them (B12): from calls of file tools, whether
    or not they succeeded; a write is a modification. pi's own `bash` counts for nothing; the tools of other
    agents are read as the table knows them."""
    read, modified = list[str](), list[str]()
    for call in message.calls:
        path = call.arguments.get("path")
        if call.name in _PI and isinstance(path, str):
            (read if call.name == "read" else modified).extend([path] if path else [])
        elif call.name != "bash":
            for action in actions(call):
                (read if action.verb == "view" else modified).append(action.path)
    return read, modified


def listed_files(touches: Iterable[tuple[list[str], list[str]]], previous: Files) -> Files:
    """What was read and modified counts as modified; sorted as JavaScript sorts."""
    read, modified = set(previous.read), set(previous.modified)
    for some_read, some_modified in touches:
        read.update(some_read)
        modified.update(some_modified)
    return Files(read=_sorted(read - modified), modified=_sorted(modified))


_PI = ("read", "write", "edit")


def _sorted(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(paths, key=lambda path: path.encode("utf-16-be", "surrogatepass")))


def _paths(call: Call) -> Iterator[str]:
    path = argument(call, PATHS)
    many = [path] if isinstance(path, str) else argument(call, MANY_PATHS) or path
    for one in listing(many):
        if isinstance(one, dict):
            inner = cast("dict[str, Any]", one)
            one = inner.get("path") or inner.get("file_path")
        if isinstance(one, str) and one and len(one) < 2000 and "\n" not in one:
            yield tidy(one)


def _files(call: Call, opened: str, what: Kind) -> Iterator[Action]:
    old, new, how = _change(call, what) if what in ("edit", "write", "create") else ("", "", "")
    found = False
    for path in _paths(call):
        found = True
        yield Action(_VERBS[what], path, old, new, how)
    if found or not opened or what != "edit":
        return
    # SWE-agent's edit and insert name no file: they change the one that is open.
    inner = shell_actions(command_line(call), opened) if call.arguments.get("command") else ()
    yield from inner or (Action("modify", opened, old, new, how),)


def _change(call: Call, what: Kind) -> tuple[str, str, str]:
    """Text replaced, text put in its place, and where, of a tool that edits or writes."""
    if what != "edit":
        return "", text_argument(call, CONTENTS), ""
    diff = text_argument(call, ("diff", "patch"))
    if diff:
        return *last_block(diff), ""
    edits = listing(argument(call, ("edits", "ReplacementChunks", "replacements")))
    if edits and isinstance(edits[-1], dict):
        last = cast("dict[str, Any]", edits[-1])
        more = f"{len(edits)} places, the last" if len(edits) > 1 else ""
        return _text(last, _OLD), _text(last, _NEW), more
    line = call.arguments.get("insert_line", call.arguments.get("insertLine"))
    how = f"after line {line}" if isinstance(line, int) and abs(line) < 10**9 else ""
    return _text(call.arguments, _OLD), _text(call.arguments, _NEW), how


def _text(fields: Mapping[str, Any], names: Iterable[str]) -> str:
    return next((value for name in names if isinstance(value := fields.get(name), str) and value), "")


def _editor(call: Call, _opened: str, _what: Kind) -> Iterator[Action]:
    verb = _EDITOR.get(text_argument(call, ("command",)))
    path = text_argument(call, PATHS)
    if not verb or not path:
        return
    if verb in ("create", "write"):
        yield Action(verb, tidy(path), new=text_argument(call, CONTENTS))
    elif verb == "modify":
        undone = "last edit undone" if call.arguments.get("command") == "undo_edit" else ""
        old, new, how = _change(call, "edit")
        yield Action(verb, tidy(path), old, new, undone or how)
    else:
        yield Action(verb, tidy(path))


def _move(call: Call, _opened: str, _what: Kind) -> Iterator[Action]:
    source, target = text_argument(call, PATHS), text_argument(call, TARGETS)
    if source and target:
        yield Action("create", tidy(target), source=tidy(source))
        yield Action("delete", tidy(source), moved=True)


def _patch(call: Call, _opened: str, _what: Kind) -> Iterator[Action]:
    yield from patch_actions(call.raw or text_argument(call, PATCHES))


def _bash(call: Call, opened: str, _what: Kind) -> Iterator[Action]:
    words = listing(call.arguments.get("command"))
    if len(words) > 1 and words[0] in ("apply_patch", "applypatch"):
        yield from patch_actions(str(words[1]))
    else:
        yield from shell_actions(command_line(call), opened)


_READERS: Mapping[Kind, Callable[[Call, str, Kind], Iterator[Action]]] = {
    **dict.fromkeys(_VERBS, _files),
    "editor": _editor,
    "move": _move,
    "patch": _patch,
    "bash": _bash,
}
