"""What a shell command does to files: one small reader per command, in a table."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

import msgspec

from refold.preserve.action import Action, Verb, tidy
from refold.preserve.patches import patch_actions
from refold.preserve.shell import LIMIT, Simple, bare_words, command_name, last_pipeline, parse
from refold.session.toolnames import SHELLS

Reader: TypeAlias = Callable[[Simple, "Place"], Iterator[Action]]

_NOT_FILES = ("/dev/", "/proc/", "&", "$(", "`", "$")
RESTORED = "set back by"
_MAX_LOOP = 64
_MOST = 2_000
"""File actions of one command line that are read."""


class Place:
    """Where the commands of one line stand: directory, folders made, the file an editor has open."""

    def __init__(self, opened: str = "", bodies: Sequence[str] = ()) -> None:
        self.cwd = ""
        self.folders: set[str] = set()
        self.opened = opened
        self.bodies = iter(bodies)
        """New text of SWE-agent's edits, in order."""

    def resolve(self, path: str) -> str:
        if self.cwd and not path.startswith(("/", "~")):
            path = posixpath.join(self.cwd, path)
        return tidy(path)

    def is_folder(self, path: str) -> bool:
        return path.endswith("/") or path in (".", "..") or tidy(path) in self.folders


def shell_actions(line: str, opened: str = "") -> tuple[Action, ...]:
    """The file actions of a command line, in order."""
    line = line[:LIMIT]
    bodies = [found[2] for found in _BODY.finditer(line)]
    place = Place(opened, bodies)
    return tuple(islice(_of_line(_BODY.sub(r"\1", line) if bodies else line, place, 0), _MOST))


_BODY = re.compile(r"^(edit \d+:\d+|insert \d+)[^\n]*\n((?s:.*?))(?:^end_of_\w+$|\Z)", re.M)
"""SWE-agent's edits carry the new text as further lines: they are no commands."""


def _of_line(line: str, place: Place, depth: int, *, fragile: bool = True) -> Iterator[Action]:
    loop: tuple[str, tuple[str, ...]] | None = None
    commands = parse(line)
    decides = last_pipeline(commands) if fragile else len(commands)
    for index, simple in enumerate(commands):
        words = simple.words
        if words[:1] == ("for",) and len(words) > 3 and words[2] == "in":
            loop = (words[1], words[3 : 3 + _MAX_LOOP])
            continue
        if words[:1] == ("done",):
            loop = None
        for one in _unrolled(simple, loop):
            yield from _of_simple(one, place, depth, fragile=index >= decides)


def _unrolled(simple: Simple, loop: tuple[str, tuple[str, ...]] | None) -> Sequence[Simple]:
    """A loop over written-out words is as many commands, where these name its variable."""
    name, values = loop or ("", ())
    made = [_filled(simple, name, value) for value in values]
    return [simple] if made[:1] in ([], [simple]) else made


def _filled(simple: Simple, name: str, value: str) -> Simple:
    def fill(word: str) -> str:
        return word.replace(f"${{{name}}}", value).replace(f"${name}", value)

    redirects = tuple(msgspec.structs.replace(each, target=fill(each.target)) for each in simple.redirects)
    return msgspec.structs.replace(simple, words=tuple(map(fill, simple.words)), redirects=redirects)


def _of_simple(simple: Simple, place: Place, depth: int, *, fragile: bool) -> Iterator[Action]:
    words = bare_words(simple.words)
    name = command_name(words)
    if name in SHELLS and depth < 3:
        yield from _nested(words, simple, place, depth, fragile=fragile)
    elif name == "cd" and len(words) > 1:
        place.cwd = place.resolve(words[-1])
    elif name in READERS:
        for action in READERS[name](msgspec.structs.replace(simple, words=words), place):
            yield msgspec.structs.replace(action, fragile=True) if fragile else action
    for redirect in simple.redirects:
        op = redirect.op.lstrip("0123456789")
        if op.startswith("<") or not _is_file(redirect.target):
            continue
        # A redirection happens before its command runs, whatever becomes of that.
        text = simple.heredoc if simple.heredoc else " ".join(words[1:]) if name in ("echo", "printf") else ""
        verb: Verb = "modify" if ">>" in op else "write"
        how = "appended to" if verb == "modify" and not text else "" if text else f"output of {name}"
        yield Action(verb, place.resolve(redirect.target), new=text, how=how)


def _nested(
    words: Sequence[str], simple: Simple, place: Place, depth: int, *, fragile: bool
) -> Iterator[Action]:
    if len(words) > 2 and words[1].startswith("-") and "c" in words[1]:
        yield from _of_line(words[2], place, depth + 1, fragile=fragile)
    elif simple.heredoc:
        yield from _of_line(simple.heredoc, place, depth + 1, fragile=fragile)


def _is_file(word: str) -> bool:
    return (
        0 < len(word) < 1000
        and word != "-"
        and not word.startswith(_NOT_FILES)
        and "\n" not in word
        and "://" not in word
    )


def _operands(words: Sequence[str], valued: str = "") -> list[str]:
    """The words that are no options; `valued` lists the letters of short options that take the next word."""
    found: list[str] = []
    skip = plain = False
    for word in words[1:]:
        if skip:
            skip = False
        elif plain or not word.startswith("-") or word == "-":
            found.append(word)
        elif word == "--":
            plain = True
        else:
            skip = len(word) == 2 and word[1] in valued
    return [path for word in found for path in _braced(word) if _is_file(path)]


_BRACES = re.compile(r"\{([^{},]{0,80}(?:,[^{},]{0,80}){1,40})\}")


def _braced(word: str) -> list[str]:
    """`src/{a,b}.py` is two words; of several lists only the first is expanded."""
    found = _BRACES.search(word[:1000])
    if not found:
        return [word]
    return [word[: found.start()] + part + word[found.end() :] for part in found[1].split(",")]


def _each(verb: Verb, valued: str = "") -> Reader:
    def read(simple: Simple, place: Place) -> Iterator[Action]:
        for path in _operands(simple.words, valued):
            yield Action(verb, place.resolve(path))

    return read


def _tee(simple: Simple, place: Place) -> Iterator[Action]:
    verb: Verb = "modify" if {"-a", "--append"} & set(simple.words) else "write"
    for path in _operands(simple.words):
        yield Action(verb, place.resolve(path), new=simple.heredoc)


def _sed(simple: Simple, place: Place) -> Iterator[Action]:
    words = simple.words
    in_place = any(re.match(r"-[nrEsz]*i|--in-place", w) for w in words[1:])
    scripted = any(re.match(r"-[nrEszi]*[ef]$|--expression|--file", w) for w in words[1:])
    # BSD sed takes the suffix of -i as a word of its own, usually empty.
    files = _operands(tuple(w for w in words if w), "ef")
    how = next((w for w in words[1:] if w and not w.startswith("-")), "") if in_place else ""
    for path in files if scripted else files[1:]:
        yield Action("modify" if in_place else "view", place.resolve(path), how=f"sed {how}" if how else "")


def _perl(simple: Simple, place: Place) -> Iterator[Action]:
    in_place = any(re.match(r"-[a-hj-z0-9]*i", word) for word in simple.words[1:])
    skip, how = False, "perl"
    for word in simple.words[1:] if in_place else ():
        if skip:
            skip, how = False, f"perl {word}"
        elif word.startswith("-"):
            skip = re.match(r"-[a-z0-9]*e$", word) is not None
        elif _is_file(word):
            yield Action("modify", place.resolve(word), how=how)
    yield from _script(simple, place)


def _copies(moving: bool) -> Reader:
    def read(simple: Simple, place: Place) -> Iterator[Action]:
        words = [w for w in simple.words if w != "mv" or w is simple.words[0]]
        target = _option_value(words, ("-t", "--target-directory"))
        paths = [p for p in _operands(words, "tS") if p != target]
        if target is None:
            if len(paths) < 2:
                return
            target = paths.pop()
        inside = len(paths) > 1 or place.is_folder(target) or any("*" in p for p in paths)
        for path in paths:
            origin = place.resolve(path)
            to = posixpath.join(target, posixpath.basename(path.rstrip("/"))) if inside else target
            yield Action("create" if moving else "write", place.resolve(to), source=origin)
            yield Action("delete" if moving else "view", origin, moved=moving)

    return read


def _option_value(words: Sequence[str], names: Sequence[str]) -> str | None:
    for index, word in enumerate(words):
        if word in names and index + 1 < len(words):
            return words[index + 1]
        for name in names:
            if name.startswith("--") and word.startswith(name + "="):
                return word[len(name) + 1 :]
    return None


def _mkdir(simple: Simple, place: Place) -> Iterator[Action]:
    for path in _operands(simple.words, "m"):
        place.folders.add(tidy(path))
        yield Action("folder", place.resolve(path))


def _git(simple: Simple, place: Place) -> Iterator[Action]:
    words = list(simple.words)
    while len(words) > 2 and words[1] in ("-C", "-c"):
        if words[1] == "-C":
            place.cwd = place.resolve(words[2])
        del words[1:3]
    sub, rest = (words[1] if len(words) > 1 else ""), ["git", *words[2:]]
    inner = msgspec.structs.replace(simple, words=tuple(rest))
    if sub == "mv":
        yield from _copies(moving=True)(inner, place)
    elif sub == "rm" and "--cached" not in rest:
        yield from _each("delete")(inner, place)
    elif sub == "restore" and "--staged" not in rest:
        yield from _restored(_operands(rest, "s"), "git restore", place)
    elif sub == "checkout" and "--" in rest:
        yield from _restored(rest[rest.index("--") + 1 :], "git checkout", place)
    elif sub == "checkout" and rest[-1] != "." and not {"-b", "-B"} & set(rest):
        for action in _restored(_operands(rest), "git checkout", place):
            yield msgspec.structs.replace(action, known=True)
    elif (sub == "reset" and "--hard" in rest) or (sub == "checkout" and rest[-1] == "."):
        yield from _restored((".",), f"git {sub}", place)
    elif sub in ("apply", "am"):
        yield from _placed(patch_actions(simple.heredoc), place)


def _restored(paths: Sequence[str], how: str, place: Place) -> Iterator[Action]:
    for path in paths:
        yield Action("modify", place.resolve(path), how=f"{RESTORED} {how}")


def _download(simple: Simple, place: Place) -> Iterator[Action]:
    name = "-o" if simple.words[0].endswith("curl") else "-O"
    path = _option_value(simple.words, (name, "--output", "--output-document"))
    if path and _is_file(path):
        yield Action("write", place.resolve(path))


def _dd(simple: Simple, place: Place) -> Iterator[Action]:
    for word in simple.words:
        if word.startswith("of=") and _is_file(word[3:]):
            yield Action("write", place.resolve(word[3:]))


def _link(simple: Simple, place: Place) -> Iterator[Action]:
    paths = _operands(simple.words)
    if len(paths) == 2:
        yield Action("create", place.resolve(paths[1]))


_OPENED = re.compile(
    r"""\bopen\(\s*[rbf]?["']([^"'\n]{1,500})["']\s*,\s*(?:mode\s*=\s*)?["']([rwax][bt+]{0,2})["']"""
    r"""|\bPath\(\s*[rf]?["']([^"'\n]{1,500})["']\s*\)\.write_(?:text|bytes)\("""
    r"""|\b(write|append)FileSync\(\s*["'`]([^"'`\n]{1,500})["'`]"""
)


def script_actions(code: str) -> Iterator[Action]:
    """Files that an inline script writes by literal name."""
    for found in _OPENED.finditer(code[:60_000]):
        path = found[1] or found[3] or found[5]
        if found[2] and found[2][0] == "r" and "+" not in found[2]:
            continue
        appends = (found[2] or "").startswith(("a", "r")) or found[4] == "append"
        if "{" not in path and _is_file(path):
            yield Action("modify" if appends else "write", path, how="by a script")


def _script(simple: Simple, place: Place) -> Iterator[Action]:
    inline = _option_value(simple.words, ("-c", "-e", "--eval"))
    yield from _placed(script_actions(inline or simple.heredoc), place)


def _apply_patch(simple: Simple, place: Place) -> Iterator[Action]:
    body = simple.heredoc or (simple.words[1] if len(simple.words) > 1 else "")
    yield from _placed(patch_actions(body), place)


def _placed(actions: Iterator[Action], place: Place) -> Iterator[Action]:
    for action in actions:
        source = place.resolve(action.source) if action.source else ""
        yield msgspec.structs.replace(action, path=place.resolve(action.path), source=source)


def _opening(verb: Verb) -> Reader:
    def read(simple: Simple, place: Place) -> Iterator[Action]:
        paths = _operands(simple.words)
        if paths:
            place.opened = place.resolve(paths[0])
            yield Action(verb, place.opened)

    return read


def _editor_edit(simple: Simple, place: Place) -> Iterator[Action]:
    """SWE-agent's `edit 12:14 … end_of_edit` changes the file that is open."""
    if place.opened and len(simple.words) > 1 and re.fullmatch(r"\d+(:\d+)?", simple.words[1]):
        lines = f"lines {simple.words[1]}".replace(":", "–")
        yield Action("modify", place.opened, new=next(place.bodies, ""), how=lines)


READERS: Mapping[str, Reader] = {
    **dict.fromkeys(("cat", "less", "more", "nl", "bat", "tac", "xxd", "strings"), _each("view")),
    **dict.fromkeys(("head", "tail"), _each("view", "nc")),
    **dict.fromkeys(("rm", "unlink", "shred", "trash"), _each("delete")),
    "touch": _each("create", "tdr"), "truncate": _each("modify", "s"), "tee": _tee, "mkdir": _mkdir,
    "sed": _sed, "gsed": _sed, "perl": _perl, "mv": _copies(moving=True), "cp": _copies(moving=False),
    "install": _copies(moving=False), "git": _git, "curl": _download, "wget": _download, "dd": _dd,
    "ln": _link, "apply_patch": _apply_patch, "applypatch": _apply_patch, "patch": _apply_patch,
    **dict.fromkeys(("python", "python3", "python2", "node", "bun", "deno", "ruby", "uv"), _script),
    "open": _opening("view"), "create": _opening("create"), "edit": _editor_edit, "insert": _editor_edit,
}  # fmt: skip
"""Command → what it does to files. Further commands may be added by whoever needs them."""
