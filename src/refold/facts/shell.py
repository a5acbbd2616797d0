"""Command lines as far as a record needs them: which simple commands, in which order, joined by what.

Nothing is expanded and nothing is run. What is not understood (variables, substitutions) stays in the word as
it was written; a line with subshells, loops or conditions is not `plain`, and proves nothing.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from refold.session.toolnames import SHELLS
from refold.text.patterns import lazy_pattern

_MAX_PARSED_CHARS = 20_000
"""Characters of a command line that are looked at."""
_MAX_FOLDER_CHARS = 1_000
_HEREDOC = lazy_pattern(
    r"(?<!<)<<-?[ \t]{0,8}(?:\\|['\"])?(\w{1,60}+)['\"]?([^\n]*+)\n(?:(?s:.*?)\n)??"
    r"[ \t]*+\1(?=[ \t\r]*+(?:\n|\Z|[\"')]))"
)
_TOKEN = lazy_pattern(
    r"[ \t\r]++|\#[^\n]*+|\d{0,2}(?:[<>]&(?:\d++|-)|(?P<redirect>(?:<<<|&>>?|>>|>\||[<>])[ \t]*+))"
    r"|(?P<operator>&&|\|\||\|&|;;|[;&|()\n])"
    r"""|(?P<word>(?>(?:[^\s;&|()<>'"\\$]++|\$(?:\([^()]*+\))?|\\[^\n]|'[^']*+'?|"(?>(?:\\(?s:.)|[^"\\])*)"?)+))"""
    r"|(?s:.)"
)
_QUOTED = re.compile(r"""\\((?s:.))|'([^']*+)'?|"((?>(?:\\(?s:.)|[^"\\])*))"?""")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w{0,80}=")
_DURATION = re.compile(r"\d[\d.]*[smhd]?$")
_WRAPPERS = frozenset({"sudo", "env", "nohup", "command", "exec", "nice", "timeout", "time", "doas"})
_KEYWORDS = frozenset({"do", "then", "else", "elif", "if", "while", "until", "for", "case", "{", "!"})


class Simple(msgspec.Struct, frozen=True):
    """One simple command, `FOO=1 timeout 9 pytest -q 2>&1`."""

    words: tuple[str, ...]
    """Without quotes, redirections, assignments and programs that only run another one."""
    joined: str = ""
    """The operator in front of it; empty where a line begins."""
    start: int = 0
    end: int = 0
    """Where it stands in the line, without the redirections at its end."""
    silent: bool = False
    """What it says of errors is thrown away."""
    folder: str = ""
    """Where it runs, as far as the line says: what `cd` in front of it names."""

    @property
    def program(self) -> str:
        return self.words[0].rsplit("/", 1)[-1] if self.words else ""


class CommandLine(msgspec.Struct, frozen=True):
    text: str
    """Without the bodies of here-documents."""
    commands: tuple[Simple, ...]
    plain: bool
    """Every command runs, one after the other, unless `&&`, `||` or `|` stands in front of it."""
    closed: bool
    """Nothing comes after the last command: it is not sent to the background either."""
    silent: bool = False
    """What some of it says of errors is thrown away."""


@lru_cache(maxsize=64)
def parse(line: str) -> CommandLine:
    """What a command line runs. `bash -c '…'` is what stands between the quotes."""
    text = line[:_MAX_PARSED_CHARS].replace("\\\n", " ")
    text = _HEREDOC.sub(r"\2", text) if "<<" in text else text
    made, operator, plain = list[Simple](), "", len(line) <= _MAX_PARSED_CHARS
    words, start, end, redirect, silent, any_silent = list[str](), 0, 0, "", False, False
    for token in _TOKEN.finditer(text + "\n"):
        if token["redirect"]:
            redirect = token[0]
        elif token["word"] and redirect:
            silent = silent or (token[0] == "/dev/null" and redirect.startswith(("2>", "&>")))
            redirect, any_silent = "", any_silent or silent
        elif token["word"]:
            start, end = (start if words else token.start()), token.end()
            words.append(_QUOTED.sub(lambda part: part[1] or part[2] or part[3] or "", token[0]))
        elif sign := token["operator"]:
            if words:
                plain = plain and words[0] not in _KEYWORDS
                made.append(Simple(_bare(words), operator, start, end, silent, _folder(made)))
                words, operator, silent = [], "", False
            plain = plain and sign not in "()"
            operator = sign if sign != "\n" else operator or (";" if made else "")
    if len(made) == 1 and made[0].program in SHELLS and made[0].words[1:2] in (("-c",), ("-lc",)):
        return parse("".join(made[0].words[2:3]))
    return CommandLine(text, tuple(made), plain, operator in ("", ";"), any_silent)


def _folder(before: Sequence[Simple]) -> str:
    """Where the next command of a line runs."""
    last = before[-1] if before else Simple(())
    if last.program != "cd" or len(last.words) != 2:
        return last.folder
    folder = posixpath.normpath(posixpath.join(last.folder, last.words[1]))
    return "" if folder == "." else folder if len(folder) <= _MAX_FOLDER_CHARS else last.folder


def _bare(words: Sequence[str]) -> tuple[str, ...]:
    """The words of a command without keywords, assignments and wrappers in front of it."""
    at = 0
    while at < len(words):
        if words[at] in _WRAPPERS and at + 1 < len(words):
            at += 1
            while at < len(words) and (words[at].startswith("-") or _DURATION.match(words[at][:20])):
                at += 1
        elif words[at] in _KEYWORDS or _ASSIGNMENT.match(words[at]):
            at += 1
        else:
            break
    return tuple(words[at:])


def operands(words: Sequence[str]) -> list[str]:
    """The words that are no options."""
    return [word for word in words[1:] if not word.startswith("-") or word == "-"]


_PRINTING = re.compile(r"--?(?:tb|maxfail|reporter|colou?rs?|count)=")
"""Options with a value that change only what is printed, and how much of it."""


def normalised(words: Sequence[str]) -> tuple[str, ...]:
    """The same for commands that do the same: the program, and what it is told beside flags. `-x`, `--quiet`
    are flags; `--filter=web` is none."""
    program = words[0].rsplit("/", 1)[-1].rstrip(".0123456789") if words else ""
    told = (word.removeprefix("./").rstrip("/") for word in words[1:] if word[:1] != "-" or "=" in word)
    return (program, *(word for word in told if not _PRINTING.match(word)))


_CD = re.compile(r"\s{0,80}cd (?:\"[^\"\n]{1,400}\"|'[^'\n]{1,400}'|[^\s;&|]{1,400}) ?(?:&&|;|\n)\s{0,80}")


def without_folder(line: str) -> str:
    """The command without the `cd` in front of it."""
    found = _CD.match(line)
    return line[found.end() :] if found else line
