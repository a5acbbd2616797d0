"""A bounded reader of shell command lines: words, redirections, here-documents.

Enough of the language to see which files a command touches. It never expands and never runs anything; what
it cannot understand (variables, substitutions) stays in the word as written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec

from refold.session.toolnames import SHELLS

LIMIT = 60_000
"""Characters of a command line that are looked at; the rest is data somebody pasted."""
MOST = 1_000
"""Commands of a line that are looked at."""
_BREAKS = frozenset(" \t\n;&|<>()")
_PIECE = re.compile(
    r"""(?P<plain>[^ \t\n;&|<>()\\'"`$]+)|\\(?P<escaped>(?s:.)?)|\$?'(?P<single>[^']*)'?"""
    r"""|"(?P<double>(?:\\(?s:.)|[^"\\])*+\\?)"?|`(?P<back>[^`]*)`?|(?P<nested>\$\()|\$"""
)
"""What a word is made of. Quotes that are not closed go on to the end."""
_IN_QUOTES = re.compile(r'\\(["\\$`])')
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_KEYWORDS = frozenset({"do", "then", "else", "elif", "if", "while", "until", "{", "!", "time"})
_PREFIXES = frozenset(
    {
        "sudo", "env", "nohup", "command", "exec", "stdbuf", "nice", "timeout", "builtin", "unbuffer", "doas",
        "xvfb-run", "caffeinate", "ionice",
    }
)  # fmt: skip
"""Commands that run the rest of their words."""


class Redirect(msgspec.Struct, frozen=True):
    op: str
    target: str


class Simple(msgspec.Struct, frozen=True):
    """One simple command: `FOO=1 sed -i s/a/b/ f > out <<EOF`."""

    words: tuple[str, ...]
    redirects: tuple[Redirect, ...] = ()
    heredoc: str = ""
    joined: str = ""
    """The operator in front of it: empty, `;`, `&&`, `||`, `|` …"""


@lru_cache(maxsize=16)
def parse(line: str) -> tuple[Simple, ...]:
    """The simple commands of a command line, in order. Whoever reads a call asks more than once."""
    return tuple(_Reader(line[:LIMIT]).commands())


def simple_commands(line: str, depth: int = 0) -> Iterator[Simple]:
    """The commands of a line without keywords, assignments and wrappers such as `sudo` or `timeout 10`."""
    for simple in parse(line):
        bare = bare_words(simple.words)
        if command_name(bare) in SHELLS and len(bare) > 2 and bare[1].startswith("-") and depth < 3:
            yield from simple_commands(bare[2], depth + 1)
        else:
            yield msgspec.structs.replace(simple, words=bare)


def command_name(words: Sequence[str]) -> str:
    """What is run, without its folder."""
    return words[0].rsplit("/", 1)[-1] if words else ""


def last_pipeline(commands: Sequence[Simple]) -> int:
    """Where the pipeline begins that decides how the line ends."""
    start = len(commands) - 1
    while start > 0 and commands[start].joined in ("|", "|&"):
        start -= 1
    return start


_DURATION = re.compile(r"\d[\d.]*[smhd]?$")


def bare_words(words: Sequence[str]) -> tuple[str, ...]:
    """The words of a command without keywords, assignments and wrappers in front of it."""
    at = 0
    while at < len(words):
        word = words[at]
        if word in _KEYWORDS or _ASSIGNMENT.match(word):
            at += 1
        elif word in _PREFIXES and len(words) > at + 1:
            at += 1
            while at < len(words) and (words[at].startswith("-") or _DURATION.match(words[at])):
                at += 1
        else:
            break
    return tuple(words[at:])


def _unquoted(piece: re.Match[str]) -> str:
    match piece.lastgroup:
        case "escaped":
            return piece["escaped"].replace("\n", "")
        case "single":
            return piece["single"]
        case "double":
            return _IN_QUOTES.sub(r"\1", piece["double"])
        case "back":
            return f"`{piece['back']}`"
        case _:
            return piece[0]


class _Reader:
    """Position in the text, and the command under construction."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.words: list[str] = []
        self.redirects: list[Redirect] = []
        self.heredoc = ""
        self.joined = ""
        self.awaited: list[tuple[str, bool]] = []
        self.done: list[Simple] = []

    def commands(self) -> Iterator[Simple]:
        while self.at < len(self.text) and len(self.done) < MOST:
            self._step()
        self._finish("")
        yield from self.done

    def _step(self) -> None:
        char = self.text[self.at]
        if char in " \t\r":
            self.at += 1
        elif char == "\n":
            self.at += 1
            self._heredocs()
            self._finish(";")
        elif char == "\\" and self.text.startswith("\\\n", self.at):
            self.at += 2
        elif char == "#" and self._word_start():
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
        elif char in "<>" or (char == "&" and self.text.startswith("&>", self.at)):
            self._redirect("")
        elif char in ";&|()":
            self._operator()
        else:
            self._word()

    def _word_start(self) -> bool:
        return self.at == 0 or self.text[self.at - 1] in _BREAKS

    def _operator(self) -> None:
        pair = self.text[self.at : self.at + 2]
        op = pair if pair in ("&&", "||", ";;", "|&") else self.text[self.at]
        self.at += len(op)
        self._finish(op)

    def _finish(self, op: str) -> None:
        if self.words or self.redirects:
            self.done.append(Simple(tuple(self.words), tuple(self.redirects), self.heredoc, self.joined))
            self.joined = op
        elif op not in ("", ";"):
            self.joined = op
        self.words, self.redirects, self.heredoc = [], [], ""

    def _word(self) -> None:
        start = self.at
        word = self._read_word()
        if word.isdigit() and self.at < len(self.text) and self.text[self.at] in "<>" and self.at > start:
            self._redirect(word)
        else:
            self.words.append(word)

    def _redirect(self, number: str) -> None:
        text, start = self.text, self.at
        while self.at < len(text) and self.at - start < 3 and text[self.at] in "<>&|":
            if text[self.at] == "&" and self.at > start and text[self.at - 1] == "&":
                break
            self.at += 1
        op = text[start : self.at]
        if op in ("<(", ">(") or (self.at < len(text) and text[self.at] == "("):
            return
        strip = op == "<<" and text.startswith("-", self.at)
        self.at += strip
        while self.at < len(text) and text[self.at] in " \t":
            self.at += 1
        target = self._read_word()
        if op == "<<":
            self.awaited.append((target, strip))
            if text.find("\n", self.at) < 0:
                self.awaited.clear()
        elif not (op.endswith("&") and op != "&>" and (target.isdigit() or target == "-")):
            self.redirects.append(Redirect(number + op, target))

    def _heredocs(self) -> None:
        """The bodies of the here-documents announced on the line that just ended."""
        for end_word, strip in self.awaited:
            lines: list[str] = []
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                stop = len(self.text) if end < 0 else end
                row = self.text[self.at : stop]
                self.at = min(stop + 1, len(self.text))
                if (row.lstrip("\t") if strip else row).rstrip("\r") == end_word:
                    break
                lines.append(row)
            self._give(("\n".join(lines) + "\n") if lines else "")
        self.awaited.clear()

    def _give(self, body: str) -> None:
        """Hand a body to the command that is being read, or to the last one of this line."""
        if self.words or self.redirects:
            self.heredoc = self.heredoc or body
        elif self.done:
            self.done[-1] = msgspec.structs.replace(self.done[-1], heredoc=self.done[-1].heredoc or body)

    def _read_word(self) -> str:
        """One word, quotes removed. Stops at an unquoted break."""
        out: list[str] = []
        while piece := _PIECE.match(self.text, self.at):
            if piece["nested"]:
                out.append(self._substitution())
                continue
            self.at = piece.end()
            out.append(_unquoted(piece))
        return "".join(out)

    def _substitution(self) -> str:
        """`$( … )` as written, to its closing bracket."""
        start, depth = self.at, 0
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            if char == "(":
                depth += 1
            elif char == ")":
                depth -= 1
                if not depth:
                    break
        return self.text[start : self.at]
