"""Answers of a summariser: what counts as a summary, what is refused, and when it is no longer asked."""

from __future__ import annotations

import re
from itertools import islice

from refold import entries as e
from refold.errors import BadAnswer
from refold.messages import Assistant
from refold.session import Session

_EMPTY = {"", "null", "none", "undefined", "n/a", "{}", "[]", '""', "''"}
_REFUSALS = re.compile(
    r"^\W*(i['’]?m sorry|i am sorry|sorry,|i can(?:no|['’])t|i am unable|i['’]?m unable|i won['’]?t|"
    r"as an ai\b|抱歉|对不起|我无法|我不能)",
    re.IGNORECASE,
)


def text_of(reply: Assistant) -> str:
    """The text of a reply that was asked for a summary; `BadAnswer` where it is none."""
    if reply.stop == "length":
        raise BadAnswer("truncated", "the summary was cut off by the output limit")
    if reply.stop == "refusal":
        raise BadAnswer("refusal", "the model refused to summarise")
    if reply.stop in ("error", "aborted"):
        raise BadAnswer(reply.stop, reply.error or f"the summary request ended with {reply.stop}")
    text = reply.text.strip()
    if reply.calls and not text:
        raise BadAnswer("tool_call", "the model called a tool instead of summarising")
    if reply.calls or reply.stop == "tool_use":
        raise BadAnswer("tool_call", "the model went on with the task instead of summarising")
    return text


def plain(text: str) -> str:
    """A summary in plain text; `<summary>` tags and an `<analysis>` in front of it are taken off."""
    text = strip_tags(text)
    if text.strip().lower() in _EMPTY:
        raise BadAnswer("empty", "the model returned no summary")
    if len(text) < 400 and _REFUSALS.match(text):
        raise BadAnswer("refusal", "the model refused to summarise")
    return text


def strip_tags(text: str) -> str:
    """What is inside `<summary>` tags, or the text without its `<analysis>` part."""
    inside = _between(text, "<summary>", "</summary>")
    if inside is not None:
        return inside.strip()
    start, end = text.find("<analysis>"), text.rfind("</analysis>")
    if start != -1:
        text = text[:start] + (text[end + len("</analysis>") :] if end > start else "")
    return text.strip()


def _between(text: str, start: str, end: str) -> str | None:
    first, last = text.find(start), text.rfind(end)
    if first == -1:
        return None
    return text[first + len(start) : last if last > first else len(text)]


FAILURES = 3
REST = 300.0
"""Seconds of rest before the model is tried again."""
NOT_ITS_FAULT = ("stale", "cancelled", "aborted", "nothing_shrinks")
"""Codes of attempts that came to nothing whatever the model answered."""


def rests(session: Session, now: float) -> bool:
    """The breaker, read off the log: after three failures in a row, the newest of them a short while ago, a
    model is left alone."""
    failures = (f for f in reversed(session.annotations(e.Failure)) if f.code not in NOT_ITS_FAULT)
    recent = list(islice(failures, FAILURES))[::-1]
    if len(recent) < FAILURES or not 0 <= now - recent[-1].time < REST:
        return False  # a clock that was set back does not prolong the rest
    successes = [fold for fold in session.annotations(e.Fold) if fold.requests]
    return not successes or successes[-1].time < recent[0].time
