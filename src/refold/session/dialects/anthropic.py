"""Anthropic messages: `system` and `messages` made of blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, cast

from refold import messages as m
from refold.session.dialects.common import (
    BROKEN_SOURCE,
    CallLink,
    Given,
    ParsedReply,
    Renderable,
    WireRules,
    as_dict,
    block_types,
    call_object,
    content_parts,
    count_field,
    describe_part,
    is_passed,
    json_copy,
    model_of,
    object_or_empty,
    opaque,
    opaque_type,
    parse_arguments,
    reply_alone,
    stop_of,
    text_field,
    to_list,
    unpaired,
    wire_id,
    wire_name,
    without_surrogates,
)
from refold.session.dialects.tools import convert_tool, json_schema
from refold.session.items import Item
from refold.text.frames import element
from refold.text.lenient_json import JsonObject

name = "anthropic"
field = "messages"
rules = WireRules(alternates=True)

CITATIONS = "anthropic/citations"
"""The source of the citations of a text."""
STOP_REASONS: dict[str, m.Stop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tool_use",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}

# ── reading ─────────────────────────────────────────────────────────────────────────────────────


def speaks(raw: JsonObject) -> bool:
    """True for a request with `system`, a whole reply, or a message with blocks of this dialect."""
    if "role" not in raw:
        return "stop_reason" in raw or ("system" in raw and field in raw)
    if raw.get("type") == "message":  # so are items of OpenAI's responses
        return "model" in raw or "stop_reason" in raw
    return not _OWN_PARTS.isdisjoint(block_types(raw))


_OWN_PARTS = frozenset(("tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document"))


def parse(obj: Any) -> list[m.Message]:
    """The message(s) of one Anthropic message. Each tool result becomes a message; the user's other content
    follows, in the order that the dialect demands."""
    raw = as_dict(obj)
    role = raw.get("role")
    if role == "assistant":
        stop = raw.get("stop_reason")
        return [m.Assistant(_reply(raw), None if stop is None else stop_of(stop, STOP_REASONS))]
    if role in ("system", "developer"):
        return [m.System(content_parts(raw.get("content"), parse_block, "anthropic/system"))]
    return [given.message for given in _user(raw.get("content"))]


def parse_list(objs: Iterable[Any] | Mapping[str, Any]) -> list[m.Message]:
    """A list of messages, or a whole request with its `system`."""
    if isinstance(objs, Mapping):
        request = cast(Mapping[str, Any], objs)
        system = content_parts(request.get("system"), parse_block, "anthropic/system")
        head: list[m.Message] = [m.System(system)] if system else []
        return head + parse_list(to_list(request.get("messages")))
    return [given.message for given in parse_given(objs)]


def parse_given(objs: Iterable[Any]) -> list[Given]:
    """The messages of a list, each with its source objects. Cache marks are dropped, because their number
    depends on the whole request."""
    found: list[Given] = []
    for obj in objs:
        raw = as_dict(obj)
        if raw.get("role") in ("assistant", "system", "developer"):
            [message] = parse(raw)
            found.append(Given(message, [{**raw, "content": _blocks(raw.get("content"))}]))
        else:
            found += _user(raw.get("content"))
    return found


def parse_reply(obj: Any) -> ParsedReply:
    """The reply, its usage and its model from a Message, or from a single message."""
    raw = as_dict(obj)
    if "stop_reason" not in raw and raw.get("type") != "message":
        return reply_alone(parse(raw))
    message = m.Assistant(_reply(raw), stop_of(raw.get("stop_reason"), STOP_REASONS))
    return message, parse_usage(raw.get("usage")), model_of("anthropic", raw)


def _reply(raw: JsonObject) -> m.Content:
    """The reply of a Message. Citations follow their text, because no other dialect has a place for them."""
    found: list[m.AnyPart] = []
    blocks = _blocks(raw.get("content"))
    for block, part in zip(blocks, content_parts(blocks, parse_block, "anthropic/assistant"), strict=True):
        found.append(part)
        if type(part) is m.Text and block.get("citations"):
            found.append(m.Opaque({"type": "citations", "citations": block["citations"]}, CITATIONS))
    return tuple(found)


def _user(content: Any) -> list[Given]:
    blocks = _blocks(content)
    results = [Given(_result(b), [_said([b])]) for b in blocks if b.get("type") == "tool_result"]
    rest = [b for b in blocks if b.get("type") != "tool_result"]
    if results and not rest:
        return results
    return [*results, Given(m.User(content_parts(rest, parse_block, "anthropic/user")), [_said(rest)])]


def _said(blocks: list[JsonObject]) -> JsonObject:
    return {"role": "user", "content": blocks}


def _blocks(content: Any) -> list[JsonObject]:
    """Content in any form as blocks, without cache marks."""
    if isinstance(content, str):
        return [_text(content)] if content else []
    blocks = (_text(block) if isinstance(block, str) else as_dict(block) for block in to_list(content))
    return [_unmarked(block) for block in blocks]


def _unmarked(value: Any, levels: int = 10) -> Any:
    """A block without cache marks, which may also be inside results and documents."""
    if isinstance(value, list) and levels:
        return [_unmarked(each, levels - 1) for each in cast("list[Any]", value)]
    if not isinstance(value, dict) or not levels:
        return cast("Any", value)
    block, inner = cast("JsonObject", value), ("content", "source")
    return {
        k: _unmarked(v, levels - 1) if k in inner else v for k, v in block.items() if k != "cache_control"
    }


def _result(raw: JsonObject) -> m.Result:
    content = content_parts(raw.get("content"), parse_block, "anthropic/tool")
    return m.Result(text_field(raw, "tool_use_id"), content, is_error=bool(raw.get("is_error")))


def parse_block(raw: JsonObject) -> m.AnyPart:
    match raw.get("type"):
        case "text":
            return m.Text(text_field(raw))
        case "thinking":
            return m.Thinking(text_field(raw, "thinking"), text_field(raw, "signature") or None)
        case "redacted_thinking":
            return m.Thinking(data=text_field(raw, "data"))
        case "tool_use":
            return parse_arguments(text_field(raw, "id"), text_field(raw, "name"), raw.get("input"))
        case "image":
            return _image(raw)
        case _:
            return opaque(raw)


def _image(raw: JsonObject) -> m.AnyPart:
    source = object_or_empty(raw.get("source"))
    if source.get("type") == "base64" and isinstance(source.get("data"), str):
        return m.Image(text_field(source, "media_type") or "image/png", data=source["data"])
    if source.get("type") == "url" and isinstance(source.get("url"), str):
        return m.Image(url=source["url"])
    is_file = isinstance(source.get("file_id"), str)
    return opaque(raw) if is_file else m.Opaque(dict(raw), BROKEN_SOURCE)


def parse_usage(given: Any) -> m.Usage | None:
    if not given:
        return None
    raw = object_or_empty(given)
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return m.Usage(*(count_field(raw, name) for name in names))


# ── writing ─────────────────────────────────────────────────────────────────────────────────────

_PASSED: dict[str, tuple[str, ...]] = {
    "user": ("document", "search_result", "container_upload"),
    "assistant": (
        "server_tool_use",
        "web_search_tool_result",
        "web_fetch_tool_result",
        "code_execution_tool_result",
        "bash_code_execution_tool_result",
        "text_editor_code_execution_tool_result",
    ),
}
"""Unknown blocks without a source, which are passed through unchanged."""
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_THOUGHTS = ("thinking", "redacted_thinking")


def render(
    shown: Renderable,
    *,
    system: str | None = None,
    tools: Sequence[Any] | None = None,
    cache: bool = False,
    ttl: str | None = None,
) -> JsonObject:
    """Repaired messages as a request's `system` and `messages` (and `tools`, if given), in new dicts.

    Leading system messages become `system`; later ones become framed user text. Consecutive messages of one
    side are joined, results first. `cache` sets at most four breakpoints on the stable prefix; `ttl` (`"5m"`,
    `"1h"`) is their lifetime.
    """
    everything = list(shown)
    messages = [one.message if isinstance(one, Item | Given) else one for one in everything]
    page = _Page(unpaired(messages, _link))
    if system:
        page.system.append(_text(without_surrogates(system)))
    for one in everything:
        if isinstance(one, Item):
            page.put(one.message, one.fold is not None)
        elif isinstance(one, Given):
            page.put_given(one)
        else:
            page.put(one, False)
    page.close()
    request: JsonObject = {"system": page.system, "messages": page.messages}
    if tools is not None:
        request["tools"] = render_tools(tools)
    if cache:
        for block in page.breakpoints(request.get("tools")):
            block["cache_control"] = {"type": "ephemeral", "ttl": ttl} if ttl else {"type": "ephemeral"}
    return request


def render_tools(tools: Sequence[Any]) -> list[JsonObject]:
    return [convert_tool(tool, json_schema, lambda raw: "input_schema" in raw) for tool in tools]


class _Page:
    """A request being written."""

    def __init__(self, unpaired: Set[str] = frozenset()) -> None:
        self.unpaired = unpaired
        self.system: list[JsonObject] = []
        self.messages: list[JsonObject] = []
        self.role = ""
        self.blocks: list[JsonObject] = []
        self.results: list[JsonObject] = []
        self.fold_end: JsonObject | None = None
        """The last block that a fold inserted."""

    def put(self, message: m.Message, folded: bool) -> None:
        if type(message) is m.Result:
            if self.role != "user":
                self._turn("user")
            self.results.append(_result_block(message))
        elif isinstance(message, m.Assistant):
            if self.role != "assistant":
                self._turn("assistant")
            blocks = self.blocks
            for part in message.content:
                block = _text_block(part.text) if type(part) is m.Text else self._reply_block(part)
                if block is not None:
                    blocks.append(block)
        elif isinstance(message, m.System):
            self._put_system(message)
        elif not (isinstance(message, m.Bash) and message.hidden):
            self._turn("user")
            for part in message.parts:
                if (block := _said_block(part, "anthropic/user")) is not None:
                    self.blocks.append(block)
        if folded:
            where = self.blocks or self.results or self.system
            self.fold_end = where[-1] if where else None

    def put_given(self, given: Given) -> None:
        """Adds blocks unchanged; those without their counterpart become text."""
        message, blocks = given.message, [{**block} for each in given.wire for block in each["content"]]
        if isinstance(message, m.Assistant) and any(map(self._is_unpaired, message.content)):
            self.put(message, False)
        elif isinstance(message, m.System):
            self._turn("system")
            self.messages += given.wire
        else:
            self._turn("assistant" if isinstance(message, m.Assistant) else "user")
            into = self.results if isinstance(message, m.Result) else self.blocks
            into += [block for block in blocks if not _is_blank(block)]

    def close(self) -> None:
        self._turn("")
        last = self.messages[-1] if self.messages else None
        if last and last["role"] == "assistant" and last["content"][-1].get("type") == "text":
            last["content"][-1]["text"] = last["content"][-1]["text"].rstrip()

    def _reply_block(self, part: m.AnyPart) -> JsonObject | None:
        """A block of an assistant message, except text."""
        if type(part) is m.Call:
            return {
                "type": "tool_use",
                "id": wire_id(part.id),
                "name": wire_name(part.name),
                "input": call_object(part),
            }
        if isinstance(part, m.Thinking):
            return _thinking_block(part)
        if isinstance(part, m.Opaque) and part.source == CITATIONS:
            if self.blocks and self.blocks[-1]["type"] == "text":
                self.blocks[-1]["citations"] = json_copy(part.raw["citations"])
            return None
        if not isinstance(part, m.Opaque) or self._is_unpaired(part):
            return _text(describe_part(part))
        passes = is_passed(part, "anthropic/assistant", _PASSED["assistant"])
        return json_copy(part.raw) if passes else _text(describe_part(part))

    def _is_unpaired(self, part: m.AnyPart) -> bool:
        link = _link(part.raw) if isinstance(part, m.Opaque) else None
        return link is not None and link[0] in self.unpaired

    def breakpoints(self, tools: list[JsonObject] | None) -> list[JsonObject]:
        """Blocks for cache breakpoints: system (or tools), last fold, two newest user turns."""
        ends = [message["content"][-1] for message in self.messages if message["role"] == "user"]
        head = self.system or tools or []
        wanted = [*head[-1:], *([self.fold_end] if self.fold_end else []), *ends[-2:]]
        marked = {id(b): b for b in wanted if b.get("type") not in _THOUGHTS}
        return list(marked.values())

    def _put_system(self, message: m.System) -> None:
        texts = [p.text if isinstance(p, m.Text) else describe_part(p) for p in message.content]
        texts = [without_surrogates(t) for t in texts if t and not t.isspace()]
        if self.role:
            self._turn("user")
            self.blocks.extend(_text(element("system_message", t)) for t in texts)
        else:
            self.system.extend(_text(t) for t in texts)

    def _turn(self, role: str) -> None:
        if role == self.role:
            return
        content = self.results + self.blocks
        if self.role == "assistant":
            while content and content[-1].get("type") in _THOUGHTS:
                content.pop()  # thinking that led to nothing here
        if content:
            self.messages.append({"role": self.role, "content": content})
        self.role, self.blocks, self.results = role, [], []


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _text_block(text: str) -> JsonObject | None:
    # A text seldom begins with a blank; only then it has to be read to see whether it is nothing else.
    if not text or (text[0].isspace() and text.isspace()):
        return None
    return {"type": "text", "text": text if text.isascii() else without_surrogates(text)}


def _is_blank(block: JsonObject) -> bool:
    return block.get("type") == "text" and not str(block.get("text") or "").strip()


def _link(raw: JsonObject) -> CallLink | None:
    is_answer = "tool_use_id" in raw
    id = raw.get("tool_use_id" if is_answer else "id")
    is_linked = is_answer or opaque_type(raw).endswith("tool_use")
    return (id, is_answer) if is_linked and isinstance(id, str) else None


def _said_block(part: m.AnyPart, source: str) -> JsonObject | None:
    if type(part) is m.Text:
        return _text_block(part.text)
    if isinstance(part, m.Image):
        return _image_block(part)
    if isinstance(part, m.Opaque):
        passes = is_passed(part, source, _PASSED["user"])
        return json_copy(part.raw) if passes else _text(describe_part(part))
    return None


def _thinking_block(part: m.Thinking) -> JsonObject | None:
    """A thinking block, unchanged, if the provider can verify it."""
    if part.signature:
        return {"type": "thinking", "thinking": part.text, "signature": part.signature}
    if part.data and not part.id:
        return {"type": "redacted_thinking", "data": part.data}
    return None


def _image_block(image: m.Image) -> JsonObject:
    if image.data and image.media_type in _PICTURES:
        source = {"type": "base64", "media_type": image.media_type, "data": without_surrogates(image.data)}
        return {"type": "image", "source": source}
    if image.url and not image.data:
        return {"type": "image", "source": {"type": "url", "url": without_surrogates(image.url)}}
    return _text(describe_part(image))


def _result_block(message: m.Result) -> JsonObject:
    block: JsonObject = {"type": "tool_result", "tool_use_id": wire_id(message.call_id)}
    parts = (_said_block(part, "anthropic/tool") for part in message.content)
    content = [block for block in parts if block is not None]
    if message.is_error:
        block["is_error"] = True
        content = content or [_text("(no output)")]  # an error must say something
    if content:
        block["content"] = content
    return block
