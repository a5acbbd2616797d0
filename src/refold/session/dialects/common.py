"""Shared code of the dialects: reading foreign objects, arguments, pictures, ids."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import lru_cache
from math import isfinite
from typing import Any, TypeAlias, cast

import msgspec

from refold import messages as m
from refold.errors import UsageError, WrongType
from refold.session.items import Item
from refold.text.lenient_json import JsonObject, dump_json, invalid, storable

ParsedReply: TypeAlias = tuple[m.Assistant, m.Usage | None, str | None]
"""A model's answer: message, usage, model."""
MESSAGES = (m.User, m.Assistant, m.Result, m.System, m.Bash)


class Given(msgspec.Struct, frozen=True):
    """A message with its source objects, which are sent unchanged."""

    message: m.Message
    wire: list[JsonObject]


Renderable: TypeAlias = Iterable[Item | m.Message | Given]
"""Input of a dialect's renderer: items of a view, bare messages, or messages with their source objects."""
CallLink: TypeAlias = tuple[str, bool]
"""The id that a call and its answer share, and whether this is the answer."""


class WireRules(msgspec.Struct, frozen=True):
    """Requirements of a dialect beyond the common ones."""

    unique_ids: bool = True
    """True if call ids must be unique over the whole conversation, not only within a batch."""
    alternates: bool = False
    """True if roles must alternate, so that consecutive replies must be joined."""


MALFORMED = "malformed_arguments"
"""Key that holds arguments that are not a JSON object, so that every server can parse them."""
BROKEN_SOURCE = "broken"
"""Source of parts that no server accepts; they are always rendered as text."""


def as_dict(obj: Any) -> JsonObject:
    """A provider's message, block or reply (a mapping, SDK object or dataclass) as a dict."""
    if isinstance(obj, dict):
        return cast(JsonObject, obj)
    if isinstance(obj, Mapping):
        return dict(cast(Mapping[str, Any], obj))
    dump: Callable[..., Any] | None = getattr(obj, "model_dump", None)
    if dump is not None:
        try:
            return cast(JsonObject, dump(mode="json", exclude_none=True, warnings=False))
        except TypeError:  # an object that only looks like pydantic's
            return cast(JsonObject, dump())
    try:
        plain = msgspec.to_builtins(obj)
    except (TypeError, ValueError):
        plain = None
    if not isinstance(plain, dict):
        raise WrongType(f"expected a message, got {type(obj).__name__}: pass a dict or an SDK object")
    return cast(JsonObject, plain)


def to_list(value: Any) -> list[Any]:
    """A list of foreign values; None is empty, a single value a list of one."""
    if value is None:
        return []
    if isinstance(value, (list, tuple)):
        return list(cast(Iterable[Any], value))
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping)):
        return list(cast(Iterable[Any], value))
    return [value]


def list_or_empty(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def block_types(raw: JsonObject) -> set[Any]:
    """Types of a message's parts; empty if its content is a string."""
    content = raw.get("content")
    blocks = () if isinstance(content, str) else to_list(content)
    types = [as_dict(block).get("type") for block in blocks if not isinstance(block, str)]
    return {kind for kind in types if isinstance(kind, str)}


def reply_alone(messages: list[m.Message]) -> ParsedReply:
    """An assistant message without the envelope of a reply."""
    if len(messages) == 1 and isinstance(messages[0], m.Assistant):
        return messages[0], None, None
    raise UsageError("not a model reply: pass a completion, a response or an assistant message")


def content_parts(
    content: Any, part: Callable[[JsonObject], m.AnyPart], source: str | None = None
) -> m.Content:
    """Content in any form as parts: nothing, a string, one part or several. `source` is recorded on unknown
    parts."""
    if isinstance(content, str):
        return (m.Text(content),) if content else ()
    parts = (m.Text(p) if isinstance(p, str) else part(as_dict(p)) for p in to_list(content))
    return tuple(m.Opaque(p.raw, p.source or source) if type(p) is m.Opaque else p for p in parts)


def is_passed(part: m.Opaque, source: str, kinds: Container[str] = ()) -> bool:
    """True if an unknown part is written unchanged here. Without a source, its kind must be one of
    `kinds`."""
    return opaque_type(part.raw) in kinds if part.source is None else part.source == source


def unpaired(messages: Sequence[m.Message], link: Callable[[JsonObject], CallLink | None]) -> set[str]:
    """Ids of the provider's own calls without an answer, or answers without a call. Calls after the last user
    message may still be answered."""
    calls, answers = set[str](), set[str]()
    last = max((at for at, message in enumerate(messages) if isinstance(message, m.User)), default=-1)
    for at, message in enumerate(messages):
        for part in message.content if isinstance(message, m.Assistant) else ():
            if type(part) is m.Opaque and (found := link(part.raw)) is not None:
                id, is_answer = found
                (answers if is_answer else calls).add(id)
                if at > last and not is_answer:
                    answers.add(id)
    return calls ^ answers


def wire_content(
    content: m.Content, part: Callable[[m.AnyPart], JsonObject | None]
) -> str | list[JsonObject]:
    """Content in wire form; a single text is a string."""
    if len(content) == 1:
        only = content[0]
        if type(only) is m.Text:
            return without_surrogates(only.text)
    return [written for each in content if (written := part(each)) is not None] or ""


def text_field(raw: JsonObject, key: str = "text") -> str:
    """A string field; null is empty, any other value is its JSON."""
    value = raw.get(key)
    if value is None:
        return ""
    return value if isinstance(value, str) else m.compact_json(value)


def parse_arguments(id: str, name: str, given: Any) -> m.Call:
    """A call from arguments in any form: JSON text, an object, or something malformed."""
    if given is None or given == "":
        return m.Call(id, name)
    if isinstance(given, str):
        try:
            value = msgspec.json.decode(given)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            value = _with_surrogates(given)
            if value is None:
                return m.Call(id, name, raw=given)
        return _call(id, name, value, given)
    return _call(id, name, given, None)


def _with_surrogates(text: str) -> Any:
    """JSON with half of a pair in it, which models write in the middle of an emoji; None where it is none."""
    if r"\ud" not in text.lower() or len(text) > 1_000_000:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _call(id: str, name: str, value: Any, text: str | None) -> m.Call:
    if not isinstance(value, dict):
        return m.Call(id, name, raw=m.compact_json(value) if text is None else text)
    arguments = cast(JsonObject, value)
    if invalid(arguments):
        return m.Call(id, name, raw=dump_json(arguments) if text is None else text)
    if len(arguments) == 1 and isinstance(arguments.get(MALFORMED), str):
        return m.Call(id, name, raw=arguments[MALFORMED])
    return m.Call(id, name, arguments)


def parse_image(url: str) -> m.Image:
    """A picture from its URL; `data:` URLs become inline data."""
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return m.Image(head[5:-7].split(";")[0] or "image/png", data=data)
    return m.Image(url=url)


def openai_part(raw: JsonObject) -> m.AnyPart:
    """A part of an OpenAI message. Compatible servers mix the parts of both dialects."""
    kind = raw.get("type")
    if kind in ("text", "input_text", "output_text"):
        return m.Text(text_field(raw))
    if kind == "refusal":
        return m.Text(text_field(raw, "refusal"))
    if kind in ("image_url", "input_image"):
        given = raw.get("image_url")
        url = given if isinstance(given, str) else object_or_empty(given).get("url")
        if isinstance(url, str) and url:
            return parse_image(url)
        return opaque(raw) if isinstance(raw.get("file_id"), str) else m.Opaque(dict(raw), BROKEN_SOURCE)
    return opaque(raw)


def image_url(image: m.Image) -> str | None:
    if image.data:
        return without_surrogates(f"data:{image.media_type};base64,{image.data}")
    return without_surrogates(image.url) if image.url else None


def without_surrogates(text: str) -> str:
    """The text with lone surrogates replaced, so that it can be sent."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


MAX_WIRE_DEPTH = 100
"""Maximum depth of a value on the wire; SDKs and servers fail beyond it."""
MAX_INT_BITS = 13_000
"""Bits of the largest integer that Python's JSON writes (4,300 digits)."""


def json_copy(value: Any, depth: int = 0) -> Any:
    """A copy for any JSON library; values that are too deep become text."""
    if isinstance(value, str):
        return value if value.isascii() else without_surrogates(value)
    if isinstance(value, (dict, list, tuple)) and depth == MAX_WIRE_DEPTH:
        return without_surrogates(m.compact_json(value))
    if isinstance(value, dict):
        copy: JsonObject = {}
        for k, v in cast(JsonObject, value).items():  # nearly all arguments are plain texts
            copy[without_surrogates(str(k))] = (
                v if type(v) is str and v.isascii() else json_copy(v, depth + 1)
            )
        return copy
    if isinstance(value, (list, tuple)):
        return [json_copy(v, depth + 1) for v in cast(Iterable[Any], value)]
    if isinstance(value, float) and not isfinite(value):
        return None
    if isinstance(value, int) and value.bit_length() > MAX_INT_BITS:
        return m.compact_json(value)
    return value


def call_json(call: m.Call) -> str:
    """The arguments as a JSON text that every server can parse."""
    if call.raw is None:
        text = m.compact_json(call.arguments)
        return m.compact_json(json_copy(call.arguments)) if r"\ud" in text else text
    return m.compact_json({MALFORMED: without_surrogates(call.raw)})


def call_object(call: m.Call) -> JsonObject:
    return json_copy(call.arguments) if call.raw is None else {MALFORMED: without_surrogates(call.raw)}


def describe_opaque(raw: JsonObject) -> str:
    """An opaque part in a dialect that has no place for it: its own text, or its type."""
    for key in ("text", "output"):
        if isinstance(text := raw.get(key), str) and text.strip():
            return without_surrogates(text)
    name = raw.get("filename") or raw.get("title") or raw.get("name")
    suffix = f" {name}" if isinstance(name, str) else ""
    return without_surrogates(f"[{opaque_type(raw) or 'content'}{suffix}: not shown here]")


def opaque_type(raw: JsonObject) -> str:
    """The type of an opaque part; empty if it is not a word."""
    kind = raw.get("type")
    return kind if isinstance(kind, str) else ""


def describe_part(part: m.AnyPart) -> str:
    """A part as text, where it has no place."""
    if isinstance(part, m.Opaque):
        return describe_opaque(part.raw)
    return without_surrogates(f"[image: {part.media_type}]") if isinstance(part, m.Image) else ""


_ID = re.compile(r"[a-zA-Z0-9_-]+")
_BAD = re.compile(r"[^a-zA-Z0-9_-]")


@lru_cache(maxsize=8192)
def wire_id(id: str, limit: int = 64) -> str:
    """The id in a form that every provider accepts. Deterministic; different ids stay different."""
    if len(id) <= limit and _ID.fullmatch(id):
        return id
    return f"{_BAD.sub('_', id[: limit - 9])}_{_mark(id)}"


def short_id(id: str, limit: int) -> str:
    """The id, shortened if necessary, for a dialect that accepts any characters."""
    return id if len(id) <= limit and id.isascii() else f"{_BAD.sub('_', id[: limit - 9])}_{_mark(id)}"


def _mark(id: str) -> str:
    return hashlib.blake2b(id.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()


@lru_cache(maxsize=1024)
def wire_name(name: str) -> str:
    """A tool name in a form that every provider accepts."""
    if len(name) <= 64 and _ID.fullmatch(name):
        return name
    return _BAD.sub("_", name[:64]) or "tool"


def opaque(raw: JsonObject) -> m.Opaque:
    return m.Opaque(storable(raw))


def openai_usage(given: Any, prompt: str, output: str) -> m.Usage | None:
    """Usage whose prompt count includes cached tokens; `prompt` and `output` are the names of its counts."""
    if not given:
        return None
    raw = object_or_empty(given)
    details = object_or_empty(raw.get(f"{prompt}_details"))
    if "prompt_cache_hit_tokens" in raw:  # DeepSeek's spelling
        details = {"cached_tokens": raw["prompt_cache_hit_tokens"]}
    read, written = count_field(details, "cached_tokens"), count_field(details, "cache_write_tokens")
    return m.Usage(max(0, count_field(raw, prompt) - read - written), count_field(raw, output), read, written)


def count_field(raw: JsonObject, key: str) -> int:
    return as_count(raw.get(key))


def as_count(value: Any) -> int:
    """A token count; 0 for anything else, so that a malformed count does not lose the reply."""
    try:
        return max(0, min(int(value), 1 << 53))
    except (TypeError, ValueError, OverflowError):
        return 0


def object_or_empty(value: Any) -> JsonObject:
    return as_dict(value) if hasattr(value, "model_dump") or isinstance(value, Mapping) else {}


def stop_of(word: Any, known: Mapping[str, m.Stop]) -> m.Stop:
    return known.get(word, "other") if isinstance(word, str) else "other"


def model_of(provider: str, raw: JsonObject) -> str | None:
    model = raw.get("model")
    return f"{provider}:{model}" if model and isinstance(model, str) else None
