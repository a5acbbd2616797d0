"""From a tool call to the files it names and what it does to them (A16): a table by kind of tool, extensible.

Arguments alone are read: of a command line, the patches it carries and the files it prints. What else a shell
may have written is not guessed.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

import msgspec

from refold.entries import Files
from refold.facts.shell import CommandLine, operands, parse
from refold.messages import Call, Message
from refold.session.dialects.common import list_or_empty
from refold.session.toolnames import (
    CONTENTS,
    MANY_PATHS,
    PATCHES,
    PATHS,
    TARGETS,
    ToolKind,
    argument,
    command_line,
    kind,
    text_argument,
)
from refold.session.toolstatus import is_framing

Names: TypeAlias = Mapping[str, ToolKind]
"""Further tool names (canonical spelling) and what they do."""
Verb: TypeAlias = Literal["view", "modify", "create", "write", "delete"]
"""`write` creates or replaces: which of the two, its answer may say."""


class Action(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one call does to one file."""

    verb: Verb
    path: str
    old: str = ""
    """Text that is replaced, where the call says so."""
    new: str = ""
    """Text that is put there."""
    how: str = ""
    """In a few words, what the texts do not say: the place of an insertion, how many places."""


_VERBS: Mapping[ToolKind, Verb] = {
    "read": "view", "edit": "modify", "write": "write", "create": "create", "delete": "delete",
}  # fmt: skip
_EDITOR: Mapping[str, ToolKind] = {
    "view": "read", "create": "create", "write": "write", "str_replace": "edit", "insert": "edit",
    "undo_edit": "edit", "edit_file": "edit", "replace": "edit", "delete": "delete",
}  # fmt: skip
"""What the commands of an editor that does everything do."""
_OLD = ("old_string", "old_str", "oldText", "old_text", "search", "find", "TargetContent", "old")
_NEW = (
    "new_string", "new_str", "newText", "new_text", "replace", "replacement", "new_source",
    "ReplacementContent", "text", "code_edit", "content", "new",
)  # fmt: skip


def actions(call: Call, opened: str = "", names: Names | None = None) -> tuple[Action, ...]:
    """The file actions of one call, in order. `opened` is what an edit changes that names no file."""
    what = kind(call.name, names)
    match what:
        case "bash":
            found = _bash(call)
        case "patch":
            found = _patched(call.raw or text_argument(call, PATCHES))
        case "move":
            found = _move(call)
        case "editor":
            found = _files(call, "", _EDITOR.get(text_argument(call, ("command",)), "other"))
        case _:
            found = _files(call, opened, what)
    return tuple(found)


def tidy(path: str) -> str:
    """One spelling per path: no `./`, no doubled or trailing slashes."""
    path = path.strip()
    return posixpath.normpath(path) if path and "://" not in path else path


# ── file tools ──────────────────────────────────────────────────────────────────────────────────


def _paths(call: Call) -> Iterator[str]:
    path = argument(call, PATHS)
    many = [path] if isinstance(path, str) else argument(call, MANY_PATHS) or path
    for one in list_or_empty(many):
        if isinstance(one, dict):
            inner = cast("dict[str, Any]", one)
            one = inner.get("path") or inner.get("file_path")
        if isinstance(one, str) and one and len(one) < 2000 and "\n" not in one:
            yield one


def _files(call: Call, opened: str, what: ToolKind) -> Iterator[Action]:
    if what in _VERBS:
        old, new, how = _change(call, what)
        for path in [*_paths(call)] or ([opened] if opened and what == "edit" else []):
            if what != "read" or not path.endswith("/"):  # else it lists a folder
                yield Action(_VERBS[what], tidy(path), old, new, how)


_BODY = re.compile(r"(?:edit \d{1,9}:\d{1,9}|insert \d{1,9})[^\n]*\n((?s:.*?))(?:^end_of_\w+|\Z)", re.M)
"""SWE-agent's edits carry the new text as further lines of a command."""


def _change(call: Call, what: ToolKind) -> tuple[str, str, str]:
    """Text replaced, text put in its place, and where, of a tool that edits or writes."""
    if what in ("write", "create"):
        return "", text_argument(call, CONTENTS), ""
    if what != "edit":
        return "", "", ""
    if diff := text_argument(call, ("diff", "patch")):
        return *_last_block(diff), ""
    command = text_argument(call, ("command",))
    if body := _BODY.match(command):
        return "", body[1], ""
    edits = list_or_empty(argument(call, ("edits", "ReplacementChunks", "replacements")))
    if edits and isinstance(edits[-1], dict):
        last = cast("dict[str, Any]", edits[-1])
        more = f"{len(edits)} places, the last" if len(edits) > 1 else ""
        return _text(last, _OLD), _text(last, _NEW), more
    line = call.arguments.get("insert_line", call.arguments.get("insertLine"))
    how = f"after line {line}" if isinstance(line, int) and abs(line) < 10**9 else ""
    how = "last edit undone" if command == "undo_edit" else how
    return _text(call.arguments, _OLD), _text(call.arguments, _NEW), how


def _text(fields: Mapping[str, Any], names: Iterable[str]) -> str:
    return next((value for name in names if isinstance(value := fields.get(name), str) and value), "")


def _move(call: Call) -> Iterator[Action]:
    source, target = text_argument(call, PATHS), text_argument(call, TARGETS)
    if source and target:
        yield Action("create", tidy(target))
        yield Action("delete", tidy(source))


# ── patches ─────────────────────────────────────────────────────────────────────────────────────

_LONGEST = 2_000_000
_BEGIN = re.compile(r"^\*\*\* (Add|Update|Delete|Move to|Move)(?: File)?: *(.+)$", re.M)
_END = re.compile(r"^\*\*\* End Patch", re.M)
_DIFF = re.compile(r"^--- (?:a/)?(\S++)[^\n]*+\n\+\+\+ (?:b/)?(\S++)", re.M)
_SECTIONS: Mapping[str, Verb] = {"Add": "write", "Update": "modify", "Delete": "delete"}


def _patched(patch: str) -> Iterator[Action]:
    """Files named by an `apply_patch` envelope or the headers of a unified diff, each with its last hunk."""
    patch = patch[:_LONGEST]
    headers = list(_BEGIN.finditer(patch))
    last = ""
    for header, end in _spans(patch, headers):
        word, path = header[1], tidy(header[2])
        stop = _END.search(patch, header.end(), end)
        old, new = _last_hunk(patch[header.end() : stop.start() if stop else end])
        if word in _SECTIONS:
            last = path
            yield Action(_SECTIONS[word], path, old, new)
        elif last:
            yield Action("delete", last)
            yield Action("create", path, old, new)
    for header, end in () if headers else _spans(patch, list(_DIFF.finditer(patch))):
        before, after = tidy(header[1]), tidy(header[2])
        old, new = _last_hunk(patch[header.end() : end])
        if after == "/dev/null":
            yield Action("delete", before)
        else:
            yield Action("create" if before == "/dev/null" else "modify", after, old, new)


def _spans(patch: str, headers: Sequence[re.Match[str]]) -> Iterator[tuple[re.Match[str], int]]:
    """Each header with the place where what it stands above ends."""
    ends = [*(header.start() for header in headers[1:]), len(patch)]
    return zip(headers, ends, strict=False)


def _last_hunk(body: str) -> tuple[str, str]:
    """The lines that the last hunk of a patch takes out and puts in."""
    rows = body[max(body.rfind("\n@@"), 0) :].split("\n")
    old = "\n".join(row[1:] for row in rows if row.startswith("-") and not row.startswith("---"))
    new = "\n".join(row[1:] for row in rows if row.startswith("+") and not row.startswith("+++"))
    return old, new


def _last_block(diff: str) -> tuple[str, str]:
    """The last `SEARCH … ======= … REPLACE` block of a diff, or its last hunk."""
    start = diff.rfind("SEARCH")
    middle = diff.find("\n=======", start) if start >= 0 else -1
    if middle < 0:
        return _last_hunk(diff)
    end = diff.find("REPLACE", middle)
    old = diff[diff.find("\n", start) + 1 : middle]
    new = diff[middle + len("\n=======") : end if end >= 0 else len(diff)]
    return old, new.strip("\n").rstrip("+> ").rstrip("\n")


# ── command lines ───────────────────────────────────────────────────────────────────────────────

_PRINTS = frozenset({"cat", "head", "tail", "nl", "less", "more", "bat", "sed"})
_LOOKERS: Mapping[str, ToolKind] = {
    **dict.fromkeys(_PRINTS, "read"),
    **dict.fromkeys(("grep", "egrep", "fgrep", "rg"), "grep"),
    **dict.fromkeys(("ls", "find", "tree", "fd"), "ls"),
}
"""Commands whose output is that of a tool that only looks."""
_PIPES = ("|", "|&")
"""From here on what is printed is not what is written."""
_UNSURE = frozenset("*?$`{}|<>\n")
"""A word with one of these may be no name of a file, or of several."""


def _bash(call: Call) -> Iterator[Action]:
    line = command_line(call)
    if "*** Begin Patch" in line[:_LONGEST]:
        yield from _patched(line)
        return
    for _, path in _views(parse(line)):
        yield Action("view", path)


def _views(line: CommandLine) -> Iterator[tuple[str, str]]:
    """Files that a command line is to print: the name as it stands there, and the path."""
    for simple in line.commands:
        if simple.program in _PRINTS and simple.joined not in _PIPES:
            folder, named = simple.folder, operands(simple.words)
            if simple.program == "sed":
                named = named[1:] if "-n" in simple.words else []
            for word in named:
                if not word.isdigit() and len(word) < 1_000 and not _UNSURE & set(word):
                    yield word, tidy(posixpath.join(folder, word))


def printed_files(call: Call, output: str) -> frozenset[str]:
    """Paths that a command line printed, as its output proves: none where that is empty, none that the
    program complains of, and none where the line may hide a complaint."""
    line = parse(command_line(call))
    rows = [row.strip() for row in output[:_LONGEST].splitlines() if row.strip()]
    hides = line.silent or any(simple.joined == "||" for simple in line.commands)
    if hides or all(map(is_framing, rows)):
        return frozenset()
    complaints = [row for row in rows if row.partition(":")[0] in _PRINTS]
    return frozenset(path for word, path in _views(line) if not any(word in row for row in complaints))


def shown_by(call: Call | None) -> ToolKind:
    """What the result of a call shows: `cat F` in a shell is a read like any other."""
    if call is None:
        return "other"
    what = kind(call.name)
    if what == "editor" and call.arguments.get("command") == "view":
        return "read"
    if what != "bash":
        return what
    first = [x for x in parse(command_line(call)).commands if x.joined not in _PIPES and x.program != "cd"]
    kinds: set[ToolKind] = {
        "bash" if "-i" in simple.words else _LOOKERS.get(simple.program, "bash") for simple in first
    }
    return kinds.pop() if len(kinds) == 1 else "bash"


# ── as pi lists them (B12) ──────────────────────────────────────────────────────────────────────


def pi_files(messages: Iterable[Message], previous: Files | None = None) -> Files:
    """The files of an earlier summary and those that messages touch, as pi collects them (B12): from calls of
    file tools, whether or not they succeeded. A write is a modification, and what was read and modified
    counts as modified. pi's own `bash` counts for nothing; the tools of other agents are read as the table
    knows them."""
    earlier = previous or Files()
    read, modified = set(earlier.read), set(earlier.modified)
    for call in (call for message in messages for call in message.calls):
        path = call.arguments.get("path")
        if call.name in ("read", "write", "edit") and isinstance(path, str):
            (read if call.name == "read" else modified).update([path] if path else [])
        elif call.name != "bash":
            for action in actions(call):
                (read if action.verb == "view" else modified).add(action.path)
    return Files(read=_as_javascript_sorts(read - modified), modified=_as_javascript_sorts(modified))


def _as_javascript_sorts(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(paths, key=lambda path: path.encode("utf-16-be", "surrogatepass")))
