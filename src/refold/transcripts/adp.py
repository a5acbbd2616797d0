"""Agent Data Protocol: samples of collected trajectories, several to a file.

Two raw shapes: SWE-agent trajectories whose messages have `text` and the role `ai`, and OpenHands
conversations that spell calls as `<function=…>` in the text. Calls and results are read out of the text; the
reply's own wording is kept in `meta`. Entries are called by their position.
"""

from __future__ import annotations

from typing import Any

from refold import messages as m
from refold.protocols import Loaded
from refold.transcripts.base import Head, Record, Source
from refold.transcripts.foreign import Builder, chat_parts, conversation, plain
from refold.transcripts.origins import OPENHANDS, SWE_AGENT, declared
from refold.transcripts.swe_agent import command_call, is_output, thought_and_command, unheaded
from refold.transcripts.values import first, is_list, listing, mapping, named, text, without

name = "adp"

_USED = frozenset({"role", "content", "text", "system_prompt"})
_CALL, _END = "<function=", "</function>"
_PARAMETER, _PARAMETER_END = "<parameter=", "</parameter>"
_ROLES = {"ai": "assistant", "gpt": "assistant", "human": "user"}


def detect(head: Head) -> float:
    value: Any = head.records[0] if head.records else head.value
    sample = mapping(value) or first(value)
    said = first(sample.get("trajectory"))
    if "role" in said and "text" in said and "system_prompt" in said:
        return 0.95
    several = is_list(value) or bool(head.records)
    if not several or not is_list(sample.get("messages")):
        return 0.0
    if "source" in sample and "category" in sample:
        return 0.9
    # The fields after the messages may lie beyond the head; calls spelled in the text tell as well.
    texts = [text(mapping(item).get("content")) for item in listing(sample["messages"])[:20]]
    return 0.8 if any(is_output(said, {}) or _PARAMETER in said[-20_000:] for said in texts[2:]) else 0.0


def read(source: Source) -> Loaded:
    sample = conversation(source)
    key = "trajectory" if is_list(sample.get("trajectory")) else "messages"
    log = Builder(name, source)
    reading = _Import(log)
    for index, item in enumerate(listing(sample.get(key))):
        reading.take(mapping(item), index, item)
    log.info.update(without(sample, frozenset({key})))
    id = named(sample.get("id")) or named(sample.get("instance_id"))
    return log.loaded(id=id, title=named(sample.get("source")) or id)


class _Import:
    def __init__(self, log: Builder) -> None:
        self.log = log
        self.open: m.Call | None = None

    def take(self, raw: Record, index: int, item: object) -> None:
        given = text(raw.get("role"))
        content = raw.get("content")
        if content is None:
            content = raw.get("text") or raw.get("system_prompt") or ""
        parts = chat_parts(content)
        role = _ROLES.get(given, given)
        if role == "assistant":
            self._reply(parts, raw, index)
        elif role == "user":
            self._user(parts, raw, index)
        elif role == "system":
            self.log.say(m.System(tuple(parts)), index, meta=_meta(raw))
        else:
            self.log.strange(raw, item, index)

    def _reply(self, parts: list[m.AnyPart], raw: Record, index: int) -> None:
        said = parts[0].text if len(parts) == 1 and isinstance(parts[0], m.Text) else ""
        found = _written_call(said, f"call-{index}") or _command(said, raw, f"call-{index}")
        if found is None:
            self.open = None
            self.log.say(m.Assistant(tuple(parts), "end"), index, meta=_meta(raw))
            return
        thought, self.open = found
        content = (*m.content(thought), self.open)
        self.log.say(m.Assistant(content, "tool_use"), index, meta={**_meta(raw), "content": said})

    def _user(self, parts: list[m.AnyPart], raw: Record, index: int) -> None:
        call, self.open = self.open, None
        heading, printed = unheaded(parts)
        if not heading and (call is None or "text" not in raw):
            self.log.say(m.User(declared(parts, (*OPENHANDS, *SWE_AGENT))), index, meta=_meta(raw))
            return
        meta = {**_meta(raw), **({"heading": heading} if heading else {})}
        if call is None or (heading.endswith("]:") and f"[{call.name}]" not in heading):
            # Nobody knows which call it answers.
            self.log.say(m.User(m.with_origin("quoted", map(plain, printed))), index, meta=meta)
        else:
            self.log.say(m.Result(call.id, tuple(printed)), index, meta=meta)


def _meta(raw: Record) -> dict[str, Any]:
    return {key: value for key, value in without(raw, _USED).items() if value is not None}


def _command(said: str, raw: Record, id: str) -> tuple[str, m.Call] | None:
    """A thought and a fenced command, as SWE-agent's replies are written."""
    found = thought_and_command(said) if "text" in raw else None
    return None if found is None else (found[0], command_call(found[1].strip("\n"), id))


def _written_call(said: str, id: str) -> tuple[str, m.Call] | None:
    """`<function=NAME><parameter=KEY>VALUE</parameter>…</function>`; the last tag is often cut off by the
    stop word that ended the reply."""
    start = said.find(_CALL)
    close = said.find(">", start)
    if start < 0 or close < 0:
        return None
    end = said.rfind(_END, close)
    if end >= 0 and said[end + len(_END) :].strip():
        return None  # talked on after it: the text only mentions a call
    body = said[close + 1 : end if end >= 0 else len(said)]
    arguments: dict[str, Any] = {}
    at = 0
    while (at := body.find(_PARAMETER, at)) >= 0 and (key_end := body.find(">", at)) >= 0:
        stop = body.find(_PARAMETER_END, key_end)
        stop = stop if stop >= 0 else len(body)
        arguments[body[at + len(_PARAMETER) : key_end]] = body[key_end + 1 : stop].strip("\n")
        at = stop
    return said[:start].rstrip("\n"), m.Call(id, said[start + len(_CALL) : close], arguments)
