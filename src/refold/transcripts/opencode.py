"""opencode: what `opencode export` writes, an object of `info` and `messages`, each of `info` and `parts`; or
its database (`~/.local/share/opencode/opencode.db`), which holds several sessions.

A reply holds its calls together with their results; a result becomes an entry of its own, under the id of its
part. A compaction is a user message with the part `compaction` and a reply marked as summary: together they
are a fold, after which the model sees a question, the summary and what was kept of the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from refold import entries as e
from refold import messages as m
from refold.protocols import Loaded
from refold.session.dialects.common import parse_image
from refold.text.lenient_json import JsonObject
from refold.transcripts.base import Head, TranscriptFile, seconds
from refold.transcripts.builder import Builder, build_call, chosen_object, edits_of
from refold.transcripts.values import as_count, as_list, as_name, as_object, as_text, first, without

name = "opencode"

COMPACTION_REQUEST = "What did we do so far?"
"""What the model sees in place of a request to compact."""
CLEARED = "[Old tool result content cleared]"
"""What it sees in place of a cleared output."""
_STOPS: dict[str, m.Stop] = {
    "tool-calls": "tool_use",
    "stop": "end",
    "length": "length",
    "content-filter": "refusal",
}
_BESIDE = frozenset({"step-start", "step-finish", "patch", "snapshot", "compaction", "retry"})


def detect(head: Head) -> float:
    value = as_object(head.first)
    info, message = as_object(value.get("info")), first(value.get("messages"))
    if as_text(info.get("id")).startswith("ses_") and "directory" in info:
        return 0.95
    return 0.9 if "info" in message and "parts" in message else 0.0


def read(source: TranscriptFile) -> Loaded:
    document = chosen_object(source)
    info = as_object(document.get("info"))
    log = Builder(name, source)
    reading = _Import(log)
    for index, item in enumerate(as_list(document.get("messages"))):
        reading.take(as_object(item), index, item)
    reading.clear(len(log.entries))
    reverted = as_name(as_object(info.get("revert")).get("messageID"))
    leaf = log.parent(reverted) if reverted and reverted in log else None
    log.info.update(without(info, frozenset({"id", "title", "directory"})))
    return log.loaded(id=info.get("id"), title=info.get("title"), cwd=info.get("directory"), leaf=leaf)


class _Import:
    def __init__(self, log: Builder) -> None:
        self.log = log
        self.asked: JsonObject | None = None
        """The request to compact whose summary comes next."""
        self.cleared: list[e.Edit] = []

    def take(self, raw: JsonObject, index: int, item: object) -> None:
        info, parts = as_object(raw.get("info")), [as_object(part) for part in as_list(raw.get("parts"))]
        compaction = next((part for part in parts if part.get("type") == "compaction"), None)
        if info.get("role") == "assistant" and info.get("summary") is True and self.asked is not None:
            self._compaction(info, parts, index)
        elif info.get("role") == "assistant":
            self._reply(info, parts, index)
        elif info.get("role") == "user" and compaction is not None:
            self.asked = {**compaction, "id": info.get("id"), "time": info.get("time")}
        elif info.get("role") == "user":
            content = tuple(_prompted(part) for part in parts if as_text(part.get("type")) not in _BESIDE)
            self.log.say(m.User(content), index, **_place(info), meta=_meta(info, parts))
        else:
            self.log.strange({**info, "parts": parts}, item, index)

    def _reply(self, info: JsonObject, parts: list[JsonObject], index: int) -> None:
        tools = [part for part in parts if part.get("type") == "tool"]
        said = tuple(_spoken(part) for part in parts if as_text(part.get("type")) not in _BESIDE)
        error = as_object(info.get("error"))
        message = m.Assistant(said, _STOPS.get(as_text(info.get("finish")), "tool_use" if tools else "end"))
        if error:
            told = as_text(as_object(error.get("data")).get("message")) or as_text(error.get("name"))
            message = m.Assistant(said, "error", told or "error")
        provider, model = as_text(info.get("providerID")), as_text(info.get("modelID"))
        self.log.say(
            message,
            index,
            **_place(info),
            usage=_usage(as_object(info.get("tokens"))),
            model=f"{provider}:{model}" if provider and model else None,
            meta=_meta(info, parts),
        )
        for part in tools:
            self._result(part, index)

    def _result(self, part: JsonObject, index: int) -> None:
        state = as_object(part.get("state"))
        status = as_text(state.get("status"))
        if status not in ("completed", "error"):
            return  # it was still running: there is no result
        said = as_text(state.get("output")) if status == "completed" else as_text(state.get("error"))
        files = (_prompted(as_object(each)) for each in as_list(state.get("attachments")))
        result = m.Result(
            as_text(part.get("callID")),
            (*m.content(said), *files),
            as_text(part.get("tool")),
            status == "error",
        )
        times = as_object(state.get("time"))
        meta = {"state": without(state, frozenset({"status", "input", "output", "error", "attachments"}))}
        id = self.log.say(result, index, id=part.get("id"), time=seconds(times.get("end")), meta=meta)
        if times.get("compacted"):
            put = m.Result(result.call_id, (m.Text(CLEARED),), result.name, result.is_error)
            self.cleared.append(e.Edit(id, id, (put,), "mask"))

    def clear(self, index: int) -> None:
        """Outputs that were cleared, which only the results themselves show."""
        here = set(self.log.path(self.log.tail))
        if edits := tuple(edit for edit in self.cleared if edit.first in here):
            self.log.folded(edits, index, reason="prune")

    def _compaction(self, info: JsonObject, parts: Iterable[JsonObject], index: int) -> None:
        asked, self.asked = self.asked or {}, None
        summary = "\n".join(as_text(part.get("text")) for part in parts if part.get("type") == "text")
        path = self.log.path(self.log.tail)
        kept = as_name(asked.get("tail_start_id"))
        gone = path[: path.index(kept)] if kept in path else path
        put = (m.User((m.Text(COMPACTION_REQUEST, "program"),)), m.Assistant((m.Text(summary),), "end"))
        if edits := edits_of(path, set(gone), put):
            self.log.folded(
                edits, index, **_place(info), summary=summary, first_kept=kept if kept in path else None,
                reason="auto" if asked.get("auto") is True else "manual",
            )  # fmt: skip
        self.cleared = [edit for edit in self.cleared if edit.first not in gone]


def _place(info: JsonObject) -> dict[str, Any]:
    return {"id": info.get("id"), "time": seconds(as_object(info.get("time")).get("created"))}


def _meta(info: JsonObject, parts: Iterable[JsonObject]) -> JsonObject:
    beside = [part for part in parts if part.get("type") in ("patch", "snapshot", "retry")]
    rest = without(
        info, frozenset({"id", "sessionID", "role", "time", "tokens", "modelID", "providerID", "error"})
    )
    return {**rest, "parts": beside} if beside else rest


def _usage(tokens: JsonObject) -> m.Usage | None:
    cache = as_object(tokens.get("cache"))
    output = as_count(tokens.get("output")) + as_count(tokens.get("reasoning"))
    used = m.Usage(
        as_count(tokens.get("input")), output, as_count(cache.get("read")), as_count(cache.get("write"))
    )
    return used if used.total else None


def _prompted(part: JsonObject) -> m.AnyPart:
    """A part of what the user sends, or a file."""
    if part.get("type") == "text" and isinstance(part.get("text"), str):
        return m.Text(part["text"], "program" if part.get("synthetic") is True else None)
    url = as_text(part.get("url"))
    if part.get("type") == "file" and as_text(part.get("mime")).startswith("image/") and url:
        return parse_image(url)
    if part.get("type") == "file":
        return m.Text(f"[file {as_name(part.get('filename')) or url[:200]}]", "attached")
    return m.Opaque(part)


def _spoken(part: JsonObject) -> m.AnyPart:
    match part.get("type"):
        case "text" if isinstance(part.get("text"), str):
            return m.Text(part["text"])
        case "reasoning":
            return m.Thinking(as_text(part.get("text")), as_name(_signature(part)))
        case "tool":
            state = as_object(part.get("state"))
            return build_call(part.get("callID"), part.get("tool"), state.get("input"))
        case _:
            return m.Opaque(part)


def _signature(part: JsonObject) -> object:
    return next((as_object(each).get("signature") for each in as_object(part.get("metadata")).values()), None)
