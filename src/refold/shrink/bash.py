"""Bash: the command, how it ended, the edges of stdout, the end of stderr."""

from __future__ import annotations

import re

from refold.messages import Call
from refold.session.toolnames import command_line
from refold.shrink.base import Data, Limits, edges, first, flags, short, split
from refold.text.truncate import middle

_KEPT = ("exit_code", "exit_status", "signal", "directory", "cwd", "duration_seconds")
_STREAMS = re.compile(r"^(?:stderr|standard error)\s*:\s*", re.I | re.M)
_STATUS = re.compile(
    r"^.{0,80}(?:exit(?:ed with)? (?:code|status)|exit_code|return code)"
    r"\"?\s{0,3}[:=]?\s{0,3}-?\d{1,4}.{0,20}$",
    re.I | re.M,
)


def data(call: Call, data: Data, limits: Limits) -> Data:
    out = split(str(first(data, "stdout", "output") or ""))
    err = split(str(data.get("stderr") or ""))
    command = str(first(data, "command") or command_line(call))
    kept = {name: data[name] for name in _KEPT if name in data}
    return {
        "command": short(command, limits),
        **kept,
        "stdout_lines": len(out),
        "stdout": "\n".join(edges(out, limits.bash_edge_lines, limits)),
        **({"stderr": "\n".join(_last(err, limits))} if err else {}),
        **flags(data),
    }


def plain(call: Call, text: str, limits: Limits) -> str:
    found = _STREAMS.search(text)
    out = split(text[: found.start()] if found else text)
    err = split(text[found.end() :]) if found else []
    edge = edges(out, limits.bash_edge_lines, limits)
    status = [m[0] for m in _STATUS.finditer(middle(text, 1_000, "\n"))][-1:]
    shown = [row for row in status if row not in edge and row not in err[-limits.bash_stderr_lines :]]
    rows = [f"$ {short(command_line(call), limits)}", *shown, f"({len(out)} lines)", *edge]
    return "\n".join([*rows, *(["stderr:", *_last(err, limits)] if err else [])])


def _last(rows: list[str], limits: Limits) -> list[str]:
    count = limits.bash_stderr_lines
    kept = [short(row, limits) for row in rows[-count:]] if count else []
    return [f"… ({len(rows) - count} lines)", *kept] if len(rows) > count else kept
