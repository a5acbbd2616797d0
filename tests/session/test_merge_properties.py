"""Two lists that differ anywhere share nothing behind the difference, and the same list stays the same.

The oracle is one sentence: after a list was merged, the path says what the list says.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from refold import Engine, Session, presets
from refold import entries as e
from refold import messages as m
from refold.errors import RefoldError
from refold.session.dialects import DIALECTS, parse_list
from refold.session.invariants import settled
from refold.session.path_digests import write_list
from tests import strategies as made
from tests.strategies import examples

PLAIN = presets.get("pi", enabled=False)
runs = settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
Wire = dict[str, Any]

# ── lists of every kind of part ─────────────────────────────────────────────────────────────────

words: SearchStrategy[str] = st.sampled_from(("a", "b", " a", "a\n", "数", "", " ", "\ud800"))
MARK = {"type": "ephemeral"}


def _a(*samples: Wire) -> SearchStrategy[Wire]:
    return st.sampled_from(samples).map(copy.deepcopy)


def _text(kind: str) -> SearchStrategy[Wire]:
    return words.map(lambda text: {"type": kind, "text": text})


_PNG = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
_OF_ANTHROPIC = _a(
    {"type": "image", "source": _PNG},
    {"type": "image", "source": {"type": "url", "url": "https://x.org/1.png"}},
    {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
    {"type": "document", "source": {**_PNG, "media_type": "application/pdf"}, "title": "Terms"},
    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "terms"}, "cache_control": MARK},
    {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "inside"}]}},
    {"type": "document", "source": {"type": "file", "file_id": "file_1"}, "context": None},
    {"type": "search_result", "source": "https://x.org", "title": "X", "content": [{"type": "text", "text": "found"}]},
    {"type": "container_upload", "file_id": "file_2"},
    {"type": "hologram", "depth": {"of": [1, 2.5, True]}},
)  # fmt: skip
_REPLIED = _a(
    {"type": "thinking", "thinking": "hm", "signature": "sealed"},
    {"type": "redacted_thinking", "data": "sealed"},
    {"type": "text", "text": "So.", "citations": [{"type": "char_location", "cited_text": "terms", "document_index": 0}]},
    {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": 1, "deep": {"er": [None, "x"]}}},
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"type": "web_search_result", "url": "u", "encrypted_content": "e"}]},
)  # fmt: skip


@st.composite
def anthropic(draw: DrawFn) -> list[Wire]:
    said = _text("text") | _OF_ANTHROPIC
    result = st.builds(
        lambda call, content, failed: {
            "type": "tool_result", "tool_use_id": call, "content": content, **({"is_error": True} if failed else {})
        },
        st.sampled_from(("c1", "c2")), words | st.lists(said, max_size=3), st.booleans(),
    )  # fmt: skip
    listed: list[Wire] = []
    for _ in range(draw(st.integers(1, 3))):
        listed.append({"role": "user", "content": draw(words | st.lists(said | result, max_size=3))})
        listed.append({"role": "assistant", "content": draw(st.lists(_text("text") | _REPLIED, max_size=3))})
    return listed


_OF_CHAT = _a(
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
    {"type": "image_url", "image_url": {"url": "https://x.org/1.png"}},
    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
    {"type": "file", "file": {"file_id": "file-1"}},
    {"type": "file", "file": {"filename": "terms.pdf", "file_data": "data:application/pdf;base64,AAAA"}},
    {"type": "hologram", "depth": 2},
)
_CALLED = _a(
    {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}},
    {"id": "c2", "type": "function", "function": {"name": "look", "arguments": "no json"}},
    {"id": "c3", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}},
)


@st.composite
def chat(draw: DrawFn) -> list[Wire]:
    listed: list[Wire] = []
    for _ in range(draw(st.integers(1, 3))):
        content = words | st.lists(_text("text") | _OF_CHAT, max_size=3)
        listed.append({"role": "user", "content": draw(content)})
        reply: Wire = {"role": "assistant", "content": draw(words | st.lists(_text("text"), max_size=2))}
        reply |= draw(st.sampled_from(({}, {"reasoning_content": "hm"}, {"refusal": "No."})))
        if calls := draw(st.lists(_CALLED, max_size=2)):
            reply["tool_calls"] = calls
        listed.append(reply)
        for call in calls:
            named = draw(st.sampled_from(({}, {"name": "look"})))
            listed.append({"role": "tool", "tool_call_id": call["id"], "content": draw(content), **named})
    return listed


_OF_RESPONSES = _a(
    {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"},
    {"type": "input_image", "file_id": "file-1"},
    {"type": "input_file", "file_id": "file-1"},
    {"type": "input_file", "filename": "terms.pdf", "file_data": "AAAA"},
    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
)
_ITEMS = _a(
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "e"},
    {"type": "reasoning", "id": "rs_2", "summary": []},
    {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at":1}'},
    {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "*** Begin"},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}},
    {"type": "code_interpreter_call", "id": "ci_1", "code": "1", "container_id": "cntr_1", "outputs": None},
    {"type": "file_search_call", "id": "fs_1", "queries": ["x"], "results": [{"file_id": "file-1", "text": "found"}]},
    {"type": "mcp_call", "id": "mcp_1", "name": "f", "arguments": "{}", "output": "x", "server_label": "s"},
    {"type": "computer_call_output", "call_id": "cc_1", "output": {"type": "computer_screenshot", "image_url": "u"}},
    {"type": "item_reference", "id": "msg_1"},
)  # fmt: skip


@st.composite
def responses(draw: DrawFn) -> list[Wire]:
    listed: list[Wire] = []
    for _ in range(draw(st.integers(1, 3))):
        content = draw(words | st.lists(_text("input_text") | _OF_RESPONSES, max_size=3))
        listed.append(
            {"type": "message", "role": draw(st.sampled_from(("user", "developer"))), "content": content}
        )
        listed += draw(st.lists(_ITEMS, max_size=3))
        content = draw(words | st.lists(_text("output_text"), max_size=2))
        listed.append({"type": "message", "role": "assistant", "content": content})
        output = draw(words | st.lists(_text("input_text") | _OF_RESPONSES, max_size=3))
        listed.append({"type": "function_call_output", "call_id": "c1", "output": output})
    return listed  # fmt: skip


WIRES: dict[str, SearchStrategy[list[Wire]]] = {
    "openai": chat(),
    "responses": responses(),
    "anthropic": anthropic(),
}

# ── another list ────────────────────────────────────────────────────────────────────────────────


def _places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """All values inside a value, each by the keys that lead there."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*way, key)
        yield from _places(each, (*way, key))


@st.composite
def changed(draw: DrawFn, value: Any) -> Any:
    """The same with one thing changed: a value, an order, something left out or said twice."""
    value = copy.deepcopy(value)
    places = list(_places(value))
    assume(places)
    *way, key = draw(st.sampled_from(places))
    holder = value
    for step in way:
        holder = holder[step]
    kind = draw(st.sampled_from(("other", "other", "gone", "twice", "swapped")))
    old = holder[key]
    if kind == "gone":
        del holder[key]
    elif kind == "twice" and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(old))
    elif kind == "swapped" and isinstance(holder, list) and key:
        holder[key - 1 : key + 1] = [old, holder[key - 1]]
    elif isinstance(old, bool):
        holder[key] = not old
    elif isinstance(old, int | float):
        holder[key] = old + 1
    elif isinstance(old, str):
        holder[key] = draw(st.sampled_from((f"{old}x", f"x{old}", old[:-1], "y")))
    else:
        assume(old is None)
        holder[key] = "y"
    return value


# ── the oracle ──────────────────────────────────────────────────────────────────────────────────


def bare(value: Any) -> Any:
    """Without what means nothing: nulls, marks for caches, the order of fields."""
    if isinstance(value, dict):
        return {k: bare(v) for k, v in value.items() if v is not None and (k, v) != ("cache_control", MARK)}
    return [bare(each) for each in value] if isinstance(value, list) else value


def told(messages: list[m.Message], *, thoughts: bool) -> list[Any]:
    """All that a list says, one part after the other."""
    flat: list[Any] = []
    for message in messages:
        if isinstance(message, m.Bash) and message.hidden:
            continue  # nobody sees it
        if isinstance(message, m.Result):
            flat.append(["result", message.call_id, message.is_error])
        for part in message.parts:
            if isinstance(part, m.Text):
                text = part.text.strip() if isinstance(message, m.Assistant) else part.text
                flat += [[message.role, text]] if text.strip() else []
            elif thoughts or not isinstance(part, m.Thinking):
                flat.append([message.role, bare(msgspec.to_builtins(part))])
    return flat


def without_prompts(messages: list[m.Message]) -> list[m.Message]:
    first = next((n for n, x in enumerate(messages) if not isinstance(x, m.System)), len(messages))
    return messages[first:]


def said(session: Session) -> list[m.Message]:
    return [x.message for x in session.path if isinstance(x, e.MessageEntry)]


def count(session: Session) -> int:
    return len(session.annotations(e.MessageEntry))


def check(one: Any, other: Any, *, verbatim: bool) -> None:
    """Two lists in one session, and the first again."""
    try:
        lists = [without_prompts(parse_list(listed)) for listed in (one, other)]
    except RefoldError:
        assume(False)
        raise
    session = Session()
    for listed, messages in zip((one, other, one), (*lists, lists[0]), strict=True):
        if verbatim:
            write_list(session, messages)
        else:
            session.merge(listed, exactly=True)
        path = said(session) if verbatim else without_prompts(said(session))
        assert told(path, thoughts=verbatim) == told(messages, thoughts=verbatim)


@pytest.mark.sample(3)
@pytest.mark.parametrize("verbatim", [True, False])
@pytest.mark.parametrize("dialect", WIRES)
@runs
@given(data=st.data())
def test_the_path_says_what_the_list_says_wherever_two_lists_differ(
    dialect: str, verbatim: bool, data: st.DataObject
) -> None:
    one = data.draw(WIRES[dialect])
    check(one, data.draw(changed(one)), verbatim=verbatim)


@pytest.mark.parametrize("verbatim", [True, False])
@runs
@given(data=st.data())
def test_the_path_says_what_the_list_says_in_our_own_messages(verbatim: bool, data: st.DataObject) -> None:
    one = data.draw(made.conversations(most=5))
    dumped = data.draw(changed(msgspec.to_builtins(one)))
    try:
        other = msgspec.convert(dumped, list[m.Message])
    except (msgspec.ValidationError, UnicodeEncodeError):
        assume(False)
        raise
    check(one, other, verbatim=verbatim)


@pytest.mark.parametrize("dialect", DIALECTS)
@runs
@given(data=st.data())
def test_a_list_of_every_kind_is_known_when_it_comes_back_as_any_dialect_sends_it(
    dialect: str, data: st.DataObject
) -> None:
    session = Session()
    session.merge(data.draw(st.one_of(made.conversations(most=5), *WIRES.values())))
    view = Engine(PLAIN).view(session)
    assume(settled(view.items))
    wire = view.to(dialect)
    listed = json.loads(json.dumps(wire if isinstance(wire, list) else wire["messages"]))
    before = count(session)
    merged = session.merge(listed)
    assert not merged.branched and not merged.appended
    merged = session.merge([*listed, {"role": "user", "content": "And now?"}])
    assert not merged.branched and [x.message.text for x in merged.appended] == ["And now?"]
    assert count(session) == before + 1


@pytest.mark.parametrize("dialect", WIRES)
@runs
@given(data=st.data())
def test_a_list_that_grows_is_written_down_once_word_for_word(dialect: str, data: st.DataObject) -> None:
    one = data.draw(WIRES[dialect])
    session = Session()
    write_list(session, parse_list(one))
    before = list(session.entries)
    write_list(session, parse_list(copy.deepcopy(one)))
    assert session.entries == before
    write_list(session, parse_list([*one, {"role": "user", "content": "And now?"}]))
    assert [*session.entries][:-1] == before
