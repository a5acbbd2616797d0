"""Codex: `~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl`.

Newer files wrap every line (`{timestamp, type, payload}`), older ones hold the bare items after a header.
The items of one reply (reasoning, text, calls) become one message; events are kept as annotations. Entries
are called by their position, the header not counted. Usage comes from `token_count` events.
"""

from __future__ import annotations

from msgspec.structs import replace

from refold import entries as e
from refold import messages as m
from refold.protocols import Loaded
from refold.session.dialects.common import model_of
from refold.text.lenient_json import JsonObject
from refold.text.plural import counted
from refold.transcripts.base import Head, TranscriptFile, seconds
from refold.transcripts.builder import Builder, usage
from refold.transcripts.codex_items import injected, message_of, output_of, part_of, rebuilt, replacement
from refold.transcripts.embedded_fold import EMBEDDED_KEY, embedded_in, restore_embedded
from refold.transcripts.values import (
    as_count,
    as_list,
    as_name,
    as_object,
    as_text,
    is_list,
    is_object,
    without,
)

name = "codex"

_WRAPPED = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_KEPT = frozenset({"world_state", "token_usage_record"})
"""State that newer releases keep beside the conversation."""
_ITEMS = frozenset({
    "message", "reasoning", "function_call", "function_call_output", "custom_tool_call",
    "custom_tool_call_output", "local_shell_call", "local_shell_call_output", "web_search_call",
    "image_generation_call", "tool_search_call", "tool_search_output", "compaction", "compaction_summary",
    "context_compaction", "ghost_snapshot", "mcp_call", "mcp_list_tools", "computer_call", "file_search_call",
    "code_interpreter_call",
})  # fmt: skip
_HIDDEN = frozenset({"ghost_snapshot", "other"})


def detect(head: Head) -> float:
    best = 0.0
    for number, record in enumerate(head.records[:50]):
        if as_text(record.get("type")) in _WRAPPED and isinstance(record.get("payload"), dict):
            return 0.95
        if record.get("record_type") == "state":
            return 0.9
        if number == 0 and _is_header(record):
            best = 0.7
        elif record.get("type") in ("function_call", "function_call_output", "reasoning", "local_shell_call"):
            best = max(best, 0.3)  # also an OpenAI responses list, one item a line
    return best


def read(source: TranscriptFile) -> Loaded:
    reading = _Import(source)
    offset = 0
    for number, (line, raw) in enumerate(source.records()):
        if number == 0 and (raw.get("type") == "session_meta" or _is_header(raw)):
            offset = 1
        reading.record(number - offset, line, raw)
    return reading.finish()


def _is_header(raw: JsonObject) -> bool:
    """The first line of an older file: `{id, timestamp, instructions, git}`."""
    return "type" not in raw and isinstance(raw.get("id"), str) and "timestamp" in raw


class _Import:
    def __init__(self, source: TranscriptFile) -> None:
        self.source = source
        self.log = Builder(name, source)
        self.header: JsonObject = {}
        self.context: JsonObject = {}
        self.history: list[m.Message] = []
        """What the model sees at this point, from which a compaction without a result is rebuilt."""
        self.turns: list[tuple[str | None, int]] = []
        """For every message of the user: the entry before it, and the length of the history then."""
        self.parts: list[m.AnyPart] = []
        self.start = (0, 0.0)
        self.usage: m.Usage | None = None
        self.total: object = None
        self.early: bool | None = None
        """Is a token count written before the items of its reply (as older releases do)?"""
        self.unpaid: e.MessageEntry | None = None
        self.stray = 0

    # ── lines ───────────────────────────────────────────────────────────────────────────────────

    def record(self, index: int, line: int, raw: JsonObject) -> None:
        kind, payload, when = as_text(raw.get("type")), raw.get("payload"), seconds(raw.get("timestamp"))
        if kind in _WRAPPED and is_object(payload):
            self._wrapped(kind, as_object(payload), index, line, when)
        elif index < 0 and _is_header(raw):
            self.header = raw
        elif kind in _ITEMS:
            self._item(raw, index, line, when)
        else:
            if raw.get("record_type") != "state" and kind not in _KEPT:
                self.log.unknown[kind or "without a type"] += 1
            self.log.state(kind or as_text(raw.get("record_type")) or "record", raw, index, time=when)

    def _wrapped(self, kind: str, payload: JsonObject, index: int, line: int, when: float) -> None:
        if kind == "response_item":
            self._item(payload, index, line, when)
        elif kind == "event_msg":
            self._event(payload, index, line, when)
        elif kind == "turn_context":
            self._turn_context(payload, index, when)
        elif kind == "compacted":
            self._compacted(payload, index, line, when)
        elif self.header:
            self.log.state("session_meta", payload, index, time=when)
        else:
            self.header = {"timestamp": when, **payload}

    def _turn_context(self, payload: JsonObject, index: int, when: float) -> None:
        if payload == self.context:
            self.log.state("turn_context", None, index, time=when)
            return
        self._flush()
        self.context = payload
        effort = as_name(payload.get("effort"))
        self.log.add(e.ModelChange, index, time=when, model=self._model(), thinking=effort, meta=payload)

    def _model(self) -> str | None:
        return model_of(as_name(self.header.get("model_provider")) or "openai", self.context)

    def _event(self, payload: JsonObject, index: int, line: int, when: float) -> None:
        kind = as_text(payload.get("type"))
        if kind == "token_count":
            self._token_count(as_object(payload.get("info")))
        elif kind == "thread_rolled_back":
            self._roll_back(as_count(payload.get("num_turns")), line)
        self.log.state(kind or "event", payload, index, time=when)

    def _token_count(self, info: JsonObject) -> None:
        total = info.get("total_token_usage")
        if not info or (total is not None and total == self.total):
            return  # only the rate limits changed
        self.total = total
        last = as_object(info.get("last_token_usage"))
        found = usage(
            prompt=last.get("input_tokens"),
            output=last.get("output_tokens"),
            read=last.get("cached_input_tokens"),
        )
        self._flush()
        if self.early is None:
            self.early = self.unpaid is None
        if self.early:
            self.stray += self.usage is not None
            self.usage = found
        elif self.unpaid is not None and found is not None:
            self._pay(self.unpaid, found)
        else:
            self.stray += found is not None

    def _pay(self, entry: e.MessageEntry, found: m.Usage) -> None:
        # The reply is among the newest entries: only annotations and its results came after it.
        at = next(i for i in range(len(self.log.entries) - 1, -1, -1) if self.log.entries[i] is entry)
        self.log.entries[at] = replace(entry, usage=found)
        self.unpaid = None

    def _roll_back(self, count: int, line: int) -> None:
        """The user took back the last turns: what follows is a branch."""
        self._flush()
        if not 0 < count <= len(self.turns):
            self.source.problem(
                line, f"{counted(count, 'turn')} rolled back, but there are only {len(self.turns):,}"
            )
            return
        self.log.tail, length = self.turns[-count]
        del self.turns[-count:]
        del self.history[length:]

    # ── items ───────────────────────────────────────────────────────────────────────────────────

    def _item(self, raw: JsonObject, index: int, line: int, when: float) -> None:
        kind = as_text(raw.get("type"))
        if kind.endswith("_output"):
            result, run = output_of(raw)
            if not result.call_id:
                self.source.problem(line, "an output that names no call")
            self._say(result, index, when, {**raw, "run": run} if run else raw)
        elif kind == "message" and raw.get("role") != "assistant":
            message = message_of(raw)
            if message is None:
                self.source.problem(
                    line, f"a message of the unknown role {raw.get('role')!r}: kept as it came"
                )
                self._other(raw, index, when)
            else:
                self._say(message, index, when, raw)
        elif kind not in _ITEMS or kind in _HIDDEN:
            if kind not in _HIDDEN:
                self.log.unknown[kind or "without a type"] += 1
            self._other(raw, index, when)
        else:
            if not self.parts:
                self.start = (index, when)
            self.parts.extend(part_of(raw))

    def _other(self, raw: JsonObject, index: int, when: float) -> None:
        self._flush()
        self.log.add(e.Other, index, kind=as_text(raw.get("type")) or "item", raw=raw, time=when)

    def _say(self, message: m.Message, index: int, when: float, raw: JsonObject) -> None:
        self._flush()
        self.history.append(message)
        note = injected(message)
        meta = without(raw, frozenset({"type", "role", "content", "output", "call_id"}))
        if note:
            self.log.add(e.Note, index, content=message.parts, kind=note, time=when, meta=meta)
            return
        if isinstance(message, m.User):
            self.turns.append((self.log.tail, len(self.history) - 1))
        self.log.say(message, index, time=when, meta=meta)

    def _flush(self) -> None:
        """The reply ends here: its items become one message."""
        if not self.parts:
            return
        message = m.assistant(self.parts, stop=None)
        if message.calls:
            message = m.Assistant(message.content, "tool_use")
        self.parts = []
        index, when = self.start
        self.log.say(message, index, time=when, model=self._model(), usage=self.usage)
        self.history.append(message)
        entry = self.log.entries[-1]
        self.unpaid = entry if isinstance(entry, e.MessageEntry) and self.usage is None else None
        self.usage = None

    # ── compaction ──────────────────────────────────────────────────────────────────────────────

    def _compacted(self, payload: JsonObject, index: int, line: int, when: float) -> None:
        self._flush()
        summary = as_text(payload.get("message"))
        given = payload.get("replacement_history")
        put = replacement(as_list(given), summary) if is_list(given) else rebuilt(self.history, summary)
        self.history = list(put)
        self.turns = []
        if restore_embedded(payload, index, self.log) is not None:
            self.unpaid = None  # what it counted stands before the boundary
            return
        if embedded_in(payload, index):
            self.source.problem(line, "the folds of refold do not fit this file: taken for those of Codex")
        details = without(payload, frozenset({"message", "replacement_history", EMBEDDED_KEY}))
        made = self.log.fold(tuple(put), index, time=when, summary=summary, details=details)
        if made is None:
            for message in put:
                self.log.say(message, index, time=when)

    def finish(self) -> Loaded:
        self._flush()
        stray = self.stray + (self.usage is not None)
        if stray:
            self.source.problem("file", f"{stray} token counts belong to no reply")
        self.log.info.update(without(self.header, frozenset({"id", "cwd"})))
        self.log.times += filter(None, [seconds(self.header.get("timestamp"))])
        cwd = as_name(self.header.get("cwd")) or self.context.get("cwd")
        return self.log.loaded(id=self.header.get("id"), cwd=cwd, leaf=self.log.tail)
