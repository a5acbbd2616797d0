"""Asking for a summary: prompts, two forms of a request, which answers count, when no model is asked; how a
summary is shown where nothing else goes with it.

*Cached prefix*: the last chat request once more, byte for byte, followed by one instruction. The provider has
that prefix in its cache, so the history costs a tenth of what it costs to send it as a transcript.
*Stand-alone*: a transcript and a prompt, for any model, the conversation's own or another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from itertools import islice
from typing import Literal, TypeAlias

import msgspec

from refold import entries as e
from refold.compaction.plan_context import PlanContext
from refold.costs import same_model
from refold.errors import BadAnswer
from refold.messages import Assistant, Message, assistant, user
from refold.protocols import Request
from refold.session.dialects.tools import given_tools
from refold.session.history import History, last_model
from refold.text.frames import quote

# ── prompts ─────────────────────────────────────────────────────────────────────────────────────

_SLOT = re.compile(r"\{\{(\w+)\}\}")


@cache
def load(name: str) -> str:
    """A prompt: a file of the folder `prompts`."""
    from importlib.resources import files  # with much of the standard library: not needed to start with

    return files("refold.compaction").joinpath("prompts", f"{name}.md").read_text("utf-8").strip()


def fill(template: str, **values: str) -> str:
    """With values in its `{{slots}}`, in one pass: text which happens to contain a slot stays as it is."""
    return _SLOT.sub(lambda slot: values.get(slot[1], ""), template)


def prompt(name: str, **values: str) -> str:
    return fill(load(name), **values)


def focus_line(wish: str | None) -> str:
    """What the user wants a summary to look at, as a line of a prompt."""
    return f"\nPay special attention to: {wish}" if wish else ""


# ── requests ────────────────────────────────────────────────────────────────────────────────────

RequestForm: TypeAlias = Literal["stand-alone", "cached-prefix"]
Wanted: TypeAlias = Literal["auto", "stand-alone", "cached-prefix"]

MARGIN = 0.95
"""How much of the summariser's window is used: its own count may differ from ours."""
PROMPT = 600
"""Tokens of a summariser's instruction."""


def fits(size: int, output: int, window: int | None) -> bool:
    """Does a request of this size, with this much to answer, fit a window? An unknown one: yes."""
    return window is None or size <= int(window * MARGIN) - output


def choose_form(s: PlanContext, wanted: Wanted, *, ttl: float, redact: bool, output: int) -> RequestForm:
    """The form in which this summary will be asked for.

    `auto` continues the chat where that reads a cache: the same model writes the summary, its last reply is
    younger than `ttl` seconds, and system prompt or tools were handed over, so that the prefix is known.
    Secrets cannot be taken out of a prefix; a model that is known to be another one never gets it while
    `redact` is on."""
    if wanted == "stand-alone" or s.writer is None:
        return "stand-alone"
    window = s.writer.window
    # A rough count says whether the view goes into the summariser's window, unless that is close.
    large = window is not None and s.sizes.rough > 2 * window
    if window is not None and (large or not fits(s.sizes.tokens + PROMPT, output, window)):
        return "stand-alone"
    chat = last_model(s.session)
    same = chat is not None and same_model(chat, s.writer.name)
    if wanted == "cached-prefix":
        return "cached-prefix" if same or chat is None or not redact else "stand-alone"
    has_prefix = bool(s.system or s.tools or s.projection.first)
    last = s.session.last_reply
    is_warm = last is not None and 0 <= s.now - last.time < ttl
    return "cached-prefix" if same and has_prefix and is_warm else "stand-alone"


def continued(s: PlanContext, instruction: str, *, max_tokens: int | None = None) -> Request:
    """The view as the next chat request would send it, and the instruction. What the last request sent ends
    before the newest reply: up to there the provider has it."""
    messages = tuple(item.message for item in s.items)
    replies = (at for at in range(len(messages) - 1, -1, -1) if isinstance(messages[at], Assistant))
    sent = next(replies, len(messages))
    chat = Request(messages=messages[:sent], system=s.system, tools=given_tools(s.tools))
    return cached_prefix(chat, instruction, since=messages[sent:], max_tokens=max_tokens)


def cached_prefix(
    chat: Request,
    instruction: str,
    *,
    since: Iterable[Message] = (),
    max_tokens: int | None = None,
) -> Request:
    """The chat's own request, what was said `since` (its reply), and the instruction as the user's words.

    System prompt, tools, messages and sampling stay as they were: a difference in any of them would make
    the provider read everything anew. That is why tools are still offered; the instruction has to say
    that none may be called, and an answer that calls one is refused."""
    return msgspec.structs.replace(
        chat,
        messages=(*chat.messages, *since, user(instruction)),
        stable=len(chat.messages),
        max_tokens=max_tokens,
        purpose="summary",
    )


def stand_alone(
    prompt: str,
    *,
    max_tokens: int,
    purpose: str = "summary",
    timeout: float | None = None,
    system: str = "summariser_system",
) -> Request:
    """A prompt that holds all there is to read; `system`: the name of the one that goes with it."""
    return Request(
        messages=(user(prompt),), system=load(system), max_tokens=max_tokens, purpose=purpose, timeout=timeout
    )


ACKNOWLEDGEMENT = assistant("Understood.")
"""Stands behind a block of lines or a workspace, so that roles alternate (D10)."""


# ── answers ─────────────────────────────────────────────────────────────────────────────────────

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


_SUMMARY = re.compile(r"<summary>(.*)</summary>|<summary>(.*)", re.DOTALL)
_ANALYSIS = re.compile(r"<analysis>(?:.*</analysis>|.*)", re.DOTALL)


def strip_tags(text: str) -> str:
    """What is inside `<summary>` tags, or the text without its `<analysis>` part."""
    if found := _SUMMARY.search(text):
        return (found[1] or found[2] or "").strip()
    return _ANALYSIS.sub("", text, count=1).strip()


# ── the breaker ─────────────────────────────────────────────────────────────────────────────────

FAILURES = 3
REST = 300.0
"""Seconds of rest before the model is tried again."""
NOT_ITS_FAULT = ("stale", "cancelled", "aborted", "nothing_shrinks")
"""Codes of attempts that came to nothing whatever the model answered."""


def rests(session: History, now: float) -> bool:
    """The breaker, read off the log: after three failures in a row, the newest of them a short while ago, a
    model is left alone."""
    failures = (f for f in reversed(session.annotations(e.Failure)) if f.code not in NOT_ITS_FAULT)
    recent = list(islice(failures, FAILURES))[::-1]
    if len(recent) < FAILURES or not 0 <= now - recent[-1].time < REST:
        return False  # a clock that was set back does not prolong the rest
    successes = [fold for fold in session.annotations(e.Fold) if fold.requests]
    return not successes or successes[-1].time < recent[0].time


# ── a summary as it is shown ────────────────────────────────────────────────────────────────────

_SUMMARY_TEMPLATE = (
    "The beginning of this conversation was folded into the summary below. It is a record of what was "
    "said and done, not a new request.\n\n<summary>\n{summary}\n</summary>"
)
FRAME_TOKENS = 24
"""Of a list's tags, at most."""
SUMMARY_TAGS = ("summary", "read-files", "modified-files", "created-files", "deleted-files")


def framing(summary: str, files: e.Files) -> str:
    """The text that stands for what was folded."""
    return _SUMMARY_TEMPLATE.format(summary=quote(summary, *SUMMARY_TAGS) + listing(files))


def listing(files: e.Files) -> str:
    """The lists that follow a summary; files that were modified are not listed as read."""
    blocks = ""
    for name in ("read", "modified", "created", "deleted"):
        rows = [framed_path(path) for path in getattr(files, name)]
        blocks += f"\n\n<{name}-files>\n" + "\n".join(rows) + f"\n</{name}-files>" if rows else ""
    return blocks


def framed_path(path: str) -> str:
    """A path on one line that cannot close the list it stands in."""
    return quote(path, *SUMMARY_TAGS).replace("\n", " ")
