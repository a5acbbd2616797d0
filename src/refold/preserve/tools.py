"""From a tool call to what it did to files (A16): a table by kind of tool, extensible."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, cast

from refold.messages import Call
from refold.preserve.shelled import Action, Verb, patch_actions, shell_actions, tidy
from refold.session.toolnames import (
    MANY_PATHS,
    PATCHES,
    PATHS,
    TARGETS,
    Kind,
    argument,
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


def actions(call: Call, opened: str = "", names: Names | None = None) -> tuple[Action, ...]:
    """The file actions of one call, in order. `opened` is the file an editor had open before it."""
    reader = _READERS.get(kind(call.name, names))
    return tuple(reader(call, opened, kind(call.name, names))) if reader else ()


def _paths(call: Call) -> Iterator[str]:
    path = argument(call, PATHS)
    many = [path] if isinstance(path, str) else argument(call, MANY_PATHS) or path
    for one in cast("list[Any]", many) if isinstance(many, list) else []:
        if isinstance(one, dict):
            inner = cast("dict[str, Any]", one)
            one = inner.get("path") or inner.get("file_path")
        if isinstance(one, str) and one and len(one) < 2000 and "\n" not in one:
            yield tidy(one)


def _files(call: Call, opened: str, what: Kind) -> Iterator[Action]:
    found = False
    for path in _paths(call):
        found = True
        yield Action(_VERBS[what], path)
    # SWE-agent's edit and insert name no file: they change the one that is open.
    if not found and opened and what == "edit":
        yield Action("modify", opened)


def _editor(call: Call, _opened: str, _what: Kind) -> Iterator[Action]:
    verb = _EDITOR.get(text_argument(call, ("command",)))
    path = text_argument(call, PATHS)
    if verb and path:
        yield Action(verb, tidy(path))


def _move(call: Call, _opened: str, _what: Kind) -> Iterator[Action]:
    source, target = text_argument(call, PATHS), text_argument(call, TARGETS)
    if source and target:
        yield Action("delete", tidy(source))
        yield Action("create", tidy(target))


def _patch(call: Call, _opened: str, _what: Kind) -> Iterator[Action]:
    yield from patch_actions(call.raw or text_argument(call, PATCHES))


def _bash(call: Call, opened: str, _what: Kind) -> Iterator[Action]:
    value = call.arguments.get("command")
    words = cast("list[Any]", value) if isinstance(value, list) else []
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
