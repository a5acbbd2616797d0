"""Scripts of replies as plain text files, for `scripted:FILE`.

Replies are separated by lines of `---`. A line that begins with `@` says something about the reply; every
other line is its text (`@@` begins a line of text that starts with an `@`).

    @# A comment. The first reply is for chat, with a tool call:
    Let me look.
    @call Read {"path": "a.py"}
    @usage 1200 80
    ---
    @for summary
    ## Goal
    Fix the login bug.
    ---
    @error overflow prompt is too long: 210000 tokens > 200000 maximum

`@for PURPOSE` · `@think TEXT` · `@call NAME {JSON}` · `@usage INPUT OUTPUT [CACHE_READ [CACHE_WRITE]]` ·
`@stop end|tool_use|length|refusal|other` · `@delay SECONDS` · `@pace SECONDS` · `@stall` · `@cut` ·
`@error transient|overflow|unavailable|refused TEXT` · `@always` (this reply answers whatever is left).
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any, get_args

import msgspec

from refold.compaction import overflow
from refold.errors import FormatError, ModelError, ModelUnavailable, Overflow, Transient
from refold.messages import AnyPart, Call, Stop, Text, Thinking, Usage
from refold.models.scripted import Scripted, ScriptedReply


def read_script(file: str | Path, **options: Any) -> Scripted:
    path = Path(file).expanduser()
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise ModelUnavailable(f"scripted:{path}: {error.strerror or error}") from None
    lines, then = parse_script(text, str(path))
    return Scripted(*lines, name=f"scripted:{path}", then=then, **options)


def parse_script(text: str, where: str = "script") -> tuple[list[ScriptedReply], ScriptedReply | None]:
    """The replies of a script, in order, and the one that answers everything else."""
    lines: list[ScriptedReply] = []
    then: ScriptedReply | None = None
    reply = _Reply(where)
    calls = 0
    for number, row in enumerate([*text.splitlines(), "---"], start=1):
        if row.strip() == "---":
            if reply.begun:
                line = reply.line(calls)
                calls += sum(isinstance(part, Call) for part in line.content)
                lines, then = (lines, line) if reply.always else ([*lines, line], then)
            reply = _Reply(where)
        else:
            reply.row(row, number)
    return lines, then


class _Reply:
    def __init__(self, where: str) -> None:
        self.where = where
        self.begun = False
        self.always = False
        self.parts: list[AnyPart] = []
        self.text: list[str] = []
        self.fields: dict[str, Any] = {}

    def row(self, row: str, number: int) -> None:
        if row.startswith("@#"):
            return
        self.begun = self.begun or bool(row.strip())
        if not row.startswith("@") or row.startswith("@@"):
            self.text.append(row[1:] if row.startswith("@@") else row)
            return
        word, _, rest = row[1:].partition(" ")
        try:
            self._directive(word, rest.strip())
        except (ValueError, KeyError) as error:
            raise FormatError(f"{self.where}, line {number}: @{word}: {error}") from None

    def line(self, calls: int) -> ScriptedReply:
        """`calls` have been named before: ids go on counting through the whole script."""
        self._flush()
        ids = count(calls + 1)
        content = tuple(
            msgspec.structs.replace(part, id=f"call_{next(ids)}") if isinstance(part, Call) else part
            for part in self.parts
        )
        return ScriptedReply(content=content, **self.fields)

    def _directive(self, word: str, rest: str) -> None:
        match word:
            case "for":
                self.fields["purpose"] = rest
            case "think":
                self._part(Thinking(rest))
            case "call":
                name, _, arguments = rest.partition(" ")
                self._part(Call("", name, msgspec.json.decode(arguments or "{}", type=dict[str, Any])))
            case "usage":
                self.fields["usage"] = Usage(*(int(number) for number in rest.split()[:4]))
            case "stop":
                if rest not in get_args(Stop):
                    raise ValueError(f"{rest!r} is not a stop reason")
                self.fields["stop"] = rest
            case "delay" | "pace":
                self.fields[word] = float(rest)
            case "stall":
                self.fields["stalls"] = True
            case "cut":
                self.fields["cut"] = True
            case "always":
                self.always = True
            case "error":
                self.fields["error"] = _error(*rest.partition(" ")[::2])
            case _:
                raise ValueError("unknown word")

    def _part(self, part: AnyPart) -> None:
        self._flush()
        self.parts.append(part)

    def _flush(self) -> None:
        text = "\n".join(self.text).strip("\n")
        if text.strip():
            self.parts.append(Text(text))
        self.text = []


def _error(kind: str, text: str) -> ModelError:
    text = text or kind
    if kind == "overflow":
        sign = overflow.in_error(text)
        return Overflow(text, sign.window if sign else None)
    errors = {"transient": Transient, "unavailable": ModelUnavailable, "refused": ModelError}
    if kind not in errors:
        raise ValueError(f"{kind!r} is not one of {', '.join(errors)}, overflow")
    return errors[kind](text)
