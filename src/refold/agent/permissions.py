"""What a tool may do without asking: a mode, what the user allowed for the rest of the session, one function.

    match decide(mode, tool, arguments, load(session)):
        case Allow(): …
        case Ask(): …                      # "once", "always" (then `remember(session, ask)`) or "no"
        case Refuse(reason): …

Looking is always allowed: no path leaves the workspace. A command that nothing confines is always asked
about, whatever the mode. A command is remembered word for word: what another argument makes of a program is
not known (`git fetch --upload-pack=…`, `make SHELL=…`). Only of a few programs that do nothing but show, with
options that do nothing else, the program is remembered; and only where all of a command is understood, so
`git status` does not cover `git status; rm -rf x`, nor what a substitution or a redirection would do.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from refold import entries as e
from refold.messages import compact_json
from refold.session import Session
from refold.stores import data_folder
from refold.text.truncate import middle
from refold.tools.base import Tool

Mode: TypeAlias = Literal["ask", "edits", "read-only", "all"]
"""Ask before changes · allow edits, ask before commands · change nothing · allow everything."""
PermissionAnswer: TypeAlias = Literal["once", "always", "no"]
PERMISSIONS_STATE = "permissions"
EDITS = "Edit"
"""The name under which all tools that change files are remembered."""
COMMAND_TOOL = "Bash"
_SHOWN = 400


class Grant(msgspec.Struct, frozen=True, omit_defaults=True):
    """A permission for the rest of a session."""

    tool: str
    words: tuple[str, ...] = ()
    """A program that only displays (and its subcommand), or the folders of a file."""
    exact: str = ""
    """The one command or file, if the permission is for only that."""
    unconfined: bool = False
    """True if it also holds without a sandbox."""
    network: bool = False
    """True if it also holds with network access."""

    def __str__(self) -> str:
        if self.exact and self.tool == COMMAND_TOOL:
            return "only this command, word for word" + (", with the network" if self.network else "")
        if self.exact:
            return f"only `{middle(self.exact, _SHOWN)}`"
        if self.tool == EDITS:
            return f"files in `{'/'.join(self.words)}/`"
        return f"`{' '.join(self.words)} …` with options that only show" if self.words else self.tool


class Allow(msgspec.Struct, frozen=True):
    pass


class NeedsPermission(msgspec.Struct, frozen=True):
    question: str
    grants: tuple[Grant, ...]
    """Permissions that "always" would give."""
    details: tuple[str, ...] = ()
    """What a command may do: where it runs, whether it has network access."""

    @property
    def offer(self) -> str:
        """The permissions in words."""
        return ", ".join(dict.fromkeys(map(str, self.grants)))


class Refuse(msgspec.Struct, frozen=True):
    reason: str


PermissionDecision: TypeAlias = Allow | NeedsPermission | Refuse


def decide(
    mode: Mode,
    tool: Tool,
    arguments: Mapping[str, Any],
    remembered: Sequence[Grant],
    *,
    confined: bool = True,
) -> PermissionDecision:
    """Whether a call is allowed. `confined`: a sandbox would contain the command."""
    if tool.effect in ("read", "none"):
        return Allow()
    if mode == "read-only":
        return Refuse(f"{tool.spec.name} is not allowed: nothing may be changed. Say what you would do.")
    unconfined = tool.effect == "run" and not confined
    if not unconfined and (mode == "all" or (mode == "edits" and tool.effect == "edit")):
        return Allow()
    wishes = _wishes(tool, arguments, unconfined)
    if all(any(_covers(grant, wish) for grant in remembered) for wish in wishes):
        return Allow()
    return NeedsPermission(_question(tool, arguments, unconfined), _grants(wishes))


def _question(tool: Tool, arguments: Mapping[str, Any], unconfined: bool) -> str:
    named = arguments.get("command") or arguments.get("path")
    what = f" `{middle(named, _SHOWN)}`" if isinstance(named, str) else ""
    if tool.effect == "edit":
        return f"Change{what} with {tool.spec.name}?"
    beyond = " WITHOUT A SANDBOX" if unconfined else " with the network" if wants_network(arguments) else ""
    return f"Run{what or ' ' + tool.spec.name}{beyond}?"


def wants_network(arguments: Mapping[str, Any]) -> bool:
    """True if a command asks for network access; an unclear value counts as yes."""
    return arguments.get("network") not in (None, False, 0, "", "false", "False", "0")


# ── what is remembered ──────────────────────────────────────────────────────────────────────────


def load_grants(session: Session) -> tuple[Grant, ...]:
    """The user's permissions in this session. Unreadable ones, and those signed by another user (a session
    file can come from anywhere), count for nothing."""
    try:
        stored = msgspec.convert(session.state(PERMISSIONS_STATE), _Stored)
    except msgspec.ValidationError:
        return ()
    return stored.grants if stored.seal == _seal(session, stored.grants) else ()


def remember(session: Session, asked: NeedsPermission) -> None:
    """Stores a permission after the user said "always"."""
    grants = tuple(dict.fromkeys((*load_grants(session), *asked.grants)))
    value = msgspec.to_builtins(_Stored(grants, _seal(session, grants)))
    session.append(session.make(e.State, name=PERMISSIONS_STATE, value=value))


class _Stored(msgspec.Struct, frozen=True):
    grants: tuple[Grant, ...]
    seal: str


def _seal(session: Session, grants: tuple[Grant, ...]) -> str:
    text = compact_json([session.id, msgspec.to_builtins(grants)]).encode("utf-8", "surrogatepass")
    return hmac.new(_key(data_folder() / "permissions.key"), text, "sha256").hexdigest()


@cache
def _key(path: Path) -> bytes:
    """A secret of this user on this machine; if none can be stored, one of this process."""
    new = secrets.token_bytes(32)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with suppress(FileExistsError), open(os.open(path, flags, 0o600), "wb") as file:
            file.write(new)
        return path.read_bytes() or new
    return new


# ── what a call wants ───────────────────────────────────────────────────────────────────────────


class _Wish(NamedTuple):
    """One thing that a call would do. Words: as in a grant; None: uncertain."""

    tool: str
    text: str
    words: tuple[str, ...] | None
    unconfined: bool = False
    network: bool = False


def _wishes(tool: Tool, arguments: Mapping[str, Any], unconfined: bool) -> list[_Wish]:
    if tool.effect == "edit":
        path = str(arguments.get("path"))
        return [_Wish(EDITS, path, _folders(path))]
    name = tool.spec.name
    if name != COMMAND_TOOL:
        return [_Wish(name, "", (), unconfined)]
    command, network = str(arguments.get("command")), wants_network(arguments)
    every = simple_commands(command) or [None]
    return [_Wish(name, command, words, unconfined, network) for words in every]


def _covers(grant: Grant, wish: _Wish) -> bool:
    if grant.tool != wish.tool or (wish.unconfined and not grant.unconfined):
        return False
    if wish.network and not grant.network:
        return False
    if grant.exact:
        return grant.exact == wish.text
    if wish.tool == COMMAND_TOOL:
        return bool(grant.words) and _shown_by(wish) == grant.words
    return wish.words is not None and wish.words[: len(grant.words)] == grant.words


def _grants(wishes: Sequence[_Wish]) -> tuple[Grant, ...]:
    """ "Always": the programs of a command that only displays, a file's folder; else exactly that."""
    first = wishes[0]
    words = [_shown_by(wish) if wish.tool == COMMAND_TOOL else wish.words for wish in wishes]
    if first.text and not all(words):
        return (Grant(first.tool, exact=first.text, unconfined=first.unconfined, network=first.network),)
    return tuple(dict.fromkeys(Grant(first.tool, each or (), unconfined=first.unconfined) for each in words))


def _shown_by(wish: _Wish) -> tuple[str, ...] | None:
    """The program that only displays something, and its subcommand; None if it may do more. Without a
    sandbox, or with network access, it may."""
    if wish.unconfined or wish.network or not wish.words:
        return None
    program, *rest = wish.words
    if program in _SHOW:
        return (program,)
    if program != "git" or not rest or rest[0] not in _GIT_SHOWS:
        return None
    harmless = all(_GIT_OPTION.fullmatch(word) or not _ODD_WORD.match(word) for word in rest[1:])
    return (program, rest[0]) if harmless else None


_SHOW = frozenset(["ls", "cat", "head", "tail", "wc", "pwd", "echo", "grep", "cut", "stat", "du", "true"])
"""Programs without any option that writes a file or runs a program."""
_GIT_SHOWS = frozenset(["status", "log", "diff", "show", "blame"])
_GIT_OPTION = re.compile(
    r"--|-\d+|-[nU]\d*|-[abpswuML]|--(?:oneline|short|branch|stat|shortstat|numstat|summary|name-only|name-status|cached"
    r"|staged|graph|all|decorate|patch|no-patch|no-color|no-ext-diff|no-textconv|follow|reverse|merges|no-merges"
    r"|first-parent|word-diff|porcelain(?:=v[12])?|(?:format|pretty|since|until|author|grep|max-count|date)=[^*?\[]*)"
)
"""Their options that only select what is displayed. (`--output=FILE` writes, `--ext-diff` runs a program.)"""
_ODD_WORD = re.compile(r"[-~]|.*[*?\[]", re.S)
"""Any other option, or a pattern, which may expand to a file name that looks like one."""


def _folders(path: str) -> tuple[str, ...] | None:
    """The folders of a file. `..` is not resolved, because it depends on links."""
    parts = path.split("/")
    if path.startswith("/") or ".." in parts:
        return None
    return tuple(part for part in parts[:-1] if part not in ("", "."))


# ── commands ────────────────────────────────────────────────────────────────────────────────────

_TOKEN = re.compile(
    r"""(?P<blank>[ \t]+)
    | (?P<harmless>(?:[12]?>|&>)[ \t]*/dev/null(?=[ \t\n;|&]|\Z) | 2>&1(?=[ \t\n;|&]|\Z))
    | (?P<joint>&&|\|\|?(?![|&])|;(?!;)|\n)
    | (?P<piece>[^\s;&|<>()${}`\\#!'"]+ | '[^']*' | "[^"$`\\]*")""",
    re.X,
)
_LONGEST = 10_000
_CONTROL = re.compile(r"[^\n\t\x20-\x7e\xa0-\U0010ffff]")


def simple_commands(command: str) -> list[tuple[str, ...]] | None:
    """The commands of a line as lists of words, if it consists only of words, quotation marks, `;`, `&&`,
    `||` and `|`. None for anything else, such as a variable, a substitution, a redirection, a group, an
    assignment or a background job."""
    if len(command) > _LONGEST or _CONTROL.search(command):
        return None
    commands: list[list[str]] = [[]]
    at, fresh = 0, True
    while at < len(command):
        token = _TOKEN.match(command, at)
        if token is None:
            return None
        at, text = token.end(), token[0]
        match token.lastgroup:
            case "joint":
                commands.append([])
                fresh = True
            case "piece":
                bare = text[1:-1] if text[0] in "'\"" else text
                if fresh:
                    commands[-1].append(bare)
                else:
                    commands[-1][-1] += bare
                fresh = False
            case _:
                if token.lastgroup == "harmless" and not fresh:
                    return None  # the digit of `x2>…` belongs to the word
                fresh = True
    found = [tuple(words) for words in commands if words]
    odd = any("=" in words[0] or words[0] in _KEYWORDS for words in found)
    return None if odd or not found else found


_KEYWORDS = frozenset(
    ["if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "in",
     "select", "function", "time", "coproc", "[["]
)  # fmt: skip
