"""What a shell command does to files: one small reader per command, in a table."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from refold.preserve.shell import LIMIT, Simple, parse
from refold.session.toolnames import SHELLS

Verb: TypeAlias = Literal["view", "modify", "create", "write", "delete"]
"""`write` creates or replaces: which of the two depends on whether the file was known."""


class Action(msgspec.Struct, frozen=True, omit_defaults=True):
    verb: Verb
    path: str


Reader: TypeAlias = Callable[[Simple, "Place"], Iterator[Action]]

_NOT_FILES = ("/dev/", "/proc/", "&", "$(", "`", "$")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_KEYWORDS = frozenset({"do", "then", "else", "elif", "if", "while", "until", "{", "!", "time"})
_PREFIXES: Mapping[str, int] = {
    # Commands that run the rest of their words, and how many operands of their own they take.
    "sudo": 0, "env": 0, "nohup": 0, "command": 0, "exec": 0, "stdbuf": 0, "nice": 0, "timeout": 1,
    "builtin": 0, "unbuffer": 0, "doas": 0, "xvfb-run": 0, "caffeinate": 0, "ionice": 0,
}  # fmt: skip
_MAX_LOOP = 64


class Place:
    """Where the commands of one line stand: directory, folders made, the file an editor has open."""

    def __init__(self, opened: str = "") -> None:
        self.cwd = ""
        self.folders: set[str] = set()
        self.opened = opened

    def resolve(self, path: str) -> str:
        if self.cwd and not path.startswith(("/", "~")):
            path = posixpath.join(self.cwd, path)
        return tidy(path)

    def is_folder(self, path: str) -> bool:
        return path.endswith("/") or path in (".", "..") or tidy(path) in self.folders


def tidy(path: str) -> str:
    """One spelling per path: no `./`, no doubled or trailing slashes."""
    path = path.strip()
    return posixpath.normpath(path) if path and "://" not in path else path


def shell_actions(line: str, opened: str = "", depth: int = 0) -> tuple[Action, ...]:
    """The file actions of a command line, in order."""
    place = Place(opened)
    return tuple(_of_line(_BODY.sub(r"\1", line[:LIMIT]), place, depth))


_BODY = re.compile(r"^(edit \d+:\d+|insert \d+)[^\n]*\n(?s:.*?)(?:^end_of_\w+$|\Z)", re.M)
"""SWE-agent's edits carry the new text as further lines: they are no commands."""


def simple_commands(line: str) -> Iterator[Simple]:
    """The commands of a line without keywords, assignments and wrappers such as `sudo` or `timeout 10`."""
    for simple in parse(line):
        bare = _bare(simple.words)
        if bare and bare[0].rsplit("/", 1)[-1] in SHELLS and len(bare) > 2 and bare[1].startswith("-"):
            yield from simple_commands(bare[2]) if len(line) > len(bare[2]) else ()
        else:
            yield msgspec.structs.replace(simple, words=bare)


def _of_line(line: str, place: Place, depth: int) -> Iterator[Action]:
    loop: tuple[str, tuple[str, ...]] | None = None
    for simple in parse(line):
        words = simple.words
        if words[:1] == ("for",) and len(words) > 3 and words[2] == "in":
            loop = (words[1], words[3 : 3 + _MAX_LOOP])
            continue
        if words[:1] == ("done",):
            loop = None
        for one in _unrolled(simple, loop):
            yield from _of_simple(one, place, depth)


def _unrolled(simple: Simple, loop: tuple[str, tuple[str, ...]] | None) -> Iterator[Simple]:
    """A loop over written-out words is as many commands."""
    name = loop[0] if loop else ""
    uses = [
        w
        for w in (*simple.words, *(r.target for r in simple.redirects))
        if f"${name}" in w or f"${{{name}}}" in w
    ]
    if not loop or not uses:
        yield simple
        return
    for value in loop[1]:
        words = tuple(_filled(w, name, value) for w in simple.words)
        redirects = tuple(
            msgspec.structs.replace(r, target=_filled(r.target, name, value)) for r in simple.redirects
        )
        yield msgspec.structs.replace(simple, words=words, redirects=redirects)


def _filled(word: str, name: str, value: str) -> str:
    return word.replace(f"${{{name}}}", value).replace(f"${name}", value)


def _of_simple(simple: Simple, place: Place, depth: int) -> Iterator[Action]:
    words = _bare(simple.words)
    name = words[0].rsplit("/", 1)[-1] if words else ""
    if name in SHELLS and depth < 3:
        yield from _nested(words, simple, place, depth)
    elif name == "cd" and len(words) > 1:
        place.cwd = place.resolve(words[-1])
    elif name in READERS:
        yield from READERS[name](msgspec.structs.replace(simple, words=words), place)
    for redirect in simple.redirects:
        op = redirect.op.lstrip("0123456789")
        if op.startswith("<") or not _is_file(redirect.target):
            continue
        verb: Verb = "modify" if ">>" in op else "write"
        yield Action(verb, place.resolve(redirect.target))


def _nested(words: Sequence[str], simple: Simple, place: Place, depth: int) -> Iterator[Action]:
    if len(words) > 2 and words[1].startswith("-") and "c" in words[1]:
        yield from _of_line(words[2], place, depth + 1)
    elif simple.heredoc:
        yield from _of_line(simple.heredoc, place, depth + 1)


def _bare(words: Sequence[str]) -> tuple[str, ...]:
    rest = list(words)
    while rest:
        word = rest[0]
        if word in _KEYWORDS or _ASSIGNMENT.match(word):
            rest.pop(0)
        elif word in _PREFIXES and len(rest) > 1:
            rest = _after_prefix(rest)
        else:
            break
    return tuple(rest)


def _after_prefix(words: list[str]) -> list[str]:
    operands, rest = _PREFIXES[words[0]], words[1:]
    while rest and rest[0].startswith("-"):
        rest.pop(0)
    return rest[operands:]


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
    return [w for w in found if _is_file(w)]


def _each(verb: Verb, valued: str = "") -> Reader:
    def read(simple: Simple, place: Place) -> Iterator[Action]:
        for path in _operands(simple.words, valued):
            yield Action(verb, place.resolve(path))

    return read


def _tee(simple: Simple, place: Place) -> Iterator[Action]:
    verb: Verb = "modify" if {"-a", "--append"} & set(simple.words) else "write"
    for path in _operands(simple.words):
        yield Action(verb, place.resolve(path))


def _sed(simple: Simple, place: Place) -> Iterator[Action]:
    words = simple.words
    in_place = any(re.match(r"-[nrEsz]*i|--in-place", w) for w in words[1:])
    scripted = any(re.match(r"-[nrEszi]*[ef]$|--expression|--file", w) for w in words[1:])
    # BSD sed takes the suffix of -i as a word of its own, usually empty.
    files = _operands(tuple(w for w in words if w), "ef")
    for path in files if scripted else files[1:]:
        yield Action("modify" if in_place else "view", place.resolve(path))


def _perl(simple: Simple, place: Place) -> Iterator[Action]:
    words = simple.words
    if any(re.match(r"-[a-hj-z0-9]*i", w) for w in words[1:]):
        scripted = any(re.match(r"-[a-z0-9]*e$", w) for w in words[1:])
        yield from _scripted_files(words, scripted, place)
    yield from _script(simple, place)


def _scripted_files(words: Sequence[str], scripted: bool, place: Place) -> Iterator[Action]:
    skip = False
    for word in words[1:]:
        if skip:
            skip = False
        elif word.startswith("-"):
            skip = scripted and word.endswith("e")
        elif _is_file(word):
            yield Action("modify", place.resolve(word))


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
            yield Action("delete" if moving else "view", place.resolve(path))
            to = posixpath.join(target, posixpath.basename(path.rstrip("/"))) if inside else target
            yield Action("create" if moving else "write", place.resolve(to))

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
    place.folders.update(tidy(p) for p in _operands(simple.words, "m"))
    return iter(())


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
        yield from _each("modify", "s")(inner, place)
    elif sub == "checkout" and "--" in rest:
        yield from _each("modify")(
            msgspec.structs.replace(inner, words=("git", *rest[rest.index("--") + 1 :])), place
        )
    elif sub in ("apply", "am"):
        yield from _placed(patch_actions(simple.heredoc), place)


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
            yield Action("modify" if appends else "write", path)


def _script(simple: Simple, place: Place) -> Iterator[Action]:
    inline = next(
        (w for f, w in zip(simple.words[1:], simple.words[2:], strict=False) if f in ("-c", "-e", "--eval")),
        "",
    )
    yield from _placed(script_actions(inline or simple.heredoc), place)


def _apply_patch(simple: Simple, place: Place) -> Iterator[Action]:
    body = simple.heredoc or (simple.words[1] if len(simple.words) > 1 else "")
    yield from _placed(patch_actions(body), place)


def _placed(actions: Iterator[Action], place: Place) -> Iterator[Action]:
    for action in actions:
        yield Action(action.verb, place.resolve(action.path))


_BEGIN = re.compile(r"^\*\*\* (Add|Update|Delete|Move to|Move)(?: File)?: *(.+?) *$", re.M)
_DIFF = re.compile(r"^--- (?:a/)?(\S+).*\n\+\+\+ (?:b/)?(\S+)", re.M)
_VERBS: Mapping[str, Verb] = {"Add": "create", "Update": "modify", "Delete": "delete"}


def patch_actions(patch: str) -> Iterator[Action]:
    """Files named by an `apply_patch` envelope or by the headers of a unified diff."""
    last = ""
    for found in _BEGIN.finditer(patch[:2_000_000]):
        word, path = found[1], found[2]
        if word in _VERBS:
            last = path
            yield Action(_VERBS[word], tidy(path))
        elif last:
            yield Action("delete", tidy(last))
            yield Action("create", tidy(path))
    if last:
        return
    for found in _DIFF.finditer(patch[:2_000_000]):
        old, new = found[1], found[2]
        if new == "/dev/null":
            yield Action("delete", tidy(old))
        else:
            yield Action("create" if old == "/dev/null" else "modify", tidy(new))


def _editor_open(simple: Simple, place: Place) -> Iterator[Action]:
    paths = _operands(simple.words)
    if paths:
        place.opened = place.resolve(paths[0])
        yield Action("view", place.opened)


def _editor_create(simple: Simple, place: Place) -> Iterator[Action]:
    paths = _operands(simple.words)
    if paths:
        place.opened = place.resolve(paths[0])
        yield Action("create", place.opened)


def _editor_edit(simple: Simple, place: Place) -> Iterator[Action]:
    """SWE-agent's `edit 12:14 … end_of_edit` changes the file that is open."""
    if place.opened and len(simple.words) > 1 and re.fullmatch(r"\d+(:\d+)?", simple.words[1]):
        yield Action("modify", place.opened)


READERS: Mapping[str, Reader] = {
    **dict.fromkeys(("cat", "less", "more", "nl", "bat", "tac", "xxd", "strings"), _each("view")),
    **dict.fromkeys(("head", "tail"), _each("view", "nc")),
    **dict.fromkeys(("rm", "unlink", "shred", "trash"), _each("delete")),
    "touch": _each("create", "tdr"), "truncate": _each("modify", "s"), "tee": _tee, "mkdir": _mkdir,
    "sed": _sed, "gsed": _sed, "perl": _perl, "mv": _copies(moving=True), "cp": _copies(moving=False),
    "install": _copies(moving=False), "git": _git, "curl": _download, "wget": _download, "dd": _dd,
    "ln": _link, "apply_patch": _apply_patch, "applypatch": _apply_patch, "patch": _apply_patch,
    **dict.fromkeys(("python", "python3", "python2", "node", "bun", "deno", "ruby", "uv"), _script),
    "open": _editor_open, "create": _editor_create, "edit": _editor_edit, "insert": _editor_edit,
}  # fmt: skip
"""Command → what it does to files. Further commands may be added by whoever needs them."""
