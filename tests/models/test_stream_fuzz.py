"""Whatever a server sends, a stream reader understands it or says that it is malformed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.models.anthropic import MessageStream
from refold.models.openai_streams import ChatStream, ResponsesStream, StreamRefused
from refold.models.stream_chunks import Malformed
from refold.protocols import Stopped
from tests.strategies import examples

KEYS = str.split(
    "type index delta content_block content text thinking signature partial_json usage message stop_reason choices "
    "finish_reason tool_calls function id name arguments reasoning_content refusal response item output status "
    "incomplete_details error input_tokens output_tokens prompt_tokens completion_tokens summary call_id role data"
)
WORDS = str.split(
    "message_start content_block_start content_block_delta content_block_stop message_delta message_stop text_delta "
    "thinking_delta signature_delta input_json_delta text tool_use thinking redacted_thinking stop tool_calls length "
    "response.output_text.delta response.output_item.done response.completed response.incomplete response.failed "
    "error function_call reasoning message end_turn assistant"
)
scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(WORDS) | st.text(max_size=4)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)
chunks = st.dictionaries(st.sampled_from(KEYS), values, max_size=5).flatmap(
    lambda chunk: st.sampled_from(WORDS).map(lambda kind: {**chunk, "type": kind})
)


@pytest.mark.sample(1)
@pytest.mark.parametrize("reader", [ChatStream, ResponsesStream, MessageStream])
def test_garbage_is_malformed_and_never_anything_else(reader) -> None:
    @given(st.lists(chunks, max_size=5))
    @settings(max_examples=examples(150), deadline=None)
    def run(sent) -> None:
        stream = reader()
        try:
            events = [event for chunk in sent for event in stream.read(chunk)]
            if isinstance(stream, ChatStream):
                events += stream.end()
        except (Malformed, StreamRefused):
            return
        stops = [chunk for chunk in events if isinstance(chunk, Stopped)]
        assert not stops or any(_ends(chunk) for chunk in sent)

    run()


def _ends(chunk) -> bool:
    """Only these may end a reply."""
    text = repr(chunk)
    return any(
        word in text
        for word in ("finish_reason", "message_stop", "response.completed", "response.incomplete")
    )


@pytest.mark.parametrize(
    "pieces",
    [
        [{"index": 0, "id": "a", "function": {"name": "x", "arguments": "{}"}},
         {"index": 0, "id": "b", "function": {"name": "y", "arguments": "{}"}}],
        [{"id": "a", "function": {"name": "x", "arguments": "{}"}},
         {"id": "b", "function": {"name": "y", "arguments": "{}"}}],
        [{"index": 0, "id": "a", "function": {"name": "x"}}, {"index": 1, "id": "b", "function": {"name": "y"}},
         {"index": 0, "function": {"arguments": "{}"}}, {"index": 1, "function": {"arguments": "{}"}}],
    ],
    ids=["all index 0", "no index", "interleaved"],
)  # fmt: skip
def test_servers_number_their_calls_in_many_ways(pieces) -> None:
    stream = ChatStream()
    for piece in pieces:
        list(stream.read({"choices": [{"delta": {"tool_calls": [piece]}}]}))
    list(stream.read({"choices": [{"delta": {}, "finish_reason": "stop"}]}))
    parts = [event.part for event in stream.end() if hasattr(event, "part")]
    assert [(call.id, call.name, call.arguments) for call in parts] == [("a", "x", {}), ("b", "y", {})]
    assert list(stream.end())[-1] == Stopped("tool_use"), "a call is a call, whatever the server calls it"


def test_tokens_that_are_no_number_count_as_none() -> None:
    stream = ChatStream()
    list(
        stream.read({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": {"prompt_tokens": "many"}})
    )
    assert not any(getattr(event, "input", 0) for event in stream.end())


def test_arguments_that_are_cut_stay_raw() -> None:
    """Half an object is never completed silently."""
    stream = MessageStream()
    start = {"type": "tool_use", "id": "c1", "name": "Write", "input": {}}
    list(stream.read({"type": "content_block_start", "index": 0, "content_block": start}))
    delta = {"type": "input_json_delta", "partial_json": '{"path": "a.py", "content": "import o'}
    list(stream.read({"type": "content_block_delta", "index": 0, "delta": delta}))
    [done] = stream.read({"type": "content_block_stop", "index": 0})
    assert done.part.arguments == {}
    assert done.part.raw == '{"path": "a.py", "content": "import o'
