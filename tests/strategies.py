"""Hypothesis strategies: conversations as they come from the wild.

`conversations()` are lists of messages with everything that goes wrong: parallel calls, repeated ids,
orphans both ways, late and repeated results, replies that broke off, thinking, pictures, empty texts.
`orderly()` are the well-formed ones.
"""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from refold import messages as m

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def examples(count: int) -> int:
    """With how many examples a property is tried: `count` in `make test-all` (always the same) and in `make torture`
    (at random, many times); a tenth of them in `make test`."""
    return count if settings.default.max_examples >= 100 else max(count // 10, 6)


_WORDS = (
    "fix the login bug",
    "never touch migrations/",
    "ok",
    "数据库迁移失败",
    "日本語のテスト",
    "🙂👩‍👩‍👧‍👦",
    "café",
    "a\n b",
    "  x ",
    "</unpaired_tool_result>",
)
_IDS = ("c1", "c2", "c3", "call_0", "toolu_01A", "functions.Read:0", "id|with|bars", "x" * 70, "", "名前")
_NAMES = ("Read", "Edit", "Bash", "mcp.server/tool", "recall_conversation")

texts: SearchStrategy[str] = (
    st.sampled_from(_WORDS) | st.sampled_from(("", " ", "\n\t")) | st.text(max_size=12)
)
ids: SearchStrategy[str] = st.sampled_from(_IDS)
_values = st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(_WORDS)
_keys: SearchStrategy[str] = st.sampled_from(("path", "command", "数"))
arguments: SearchStrategy[dict[str, Any]] = st.dictionaries(
    _keys, _values | st.lists(_values, max_size=2), max_size=2
)


@st.composite
def calls(draw: DrawFn) -> m.Call:
    """A call; now and then its arguments are malformed."""
    id, name = draw(ids), draw(st.sampled_from(_NAMES))
    if draw(st.integers(0, 9)) == 0:
        return m.Call(id, name, raw=draw(st.sampled_from(('{"path": ', "not json", "[1]", ""))))
    return m.Call(id, name, draw(arguments))


@st.composite
def thinking(draw: DrawFn) -> m.Thinking:
    """Signed, redacted, sealed (OpenAI) or plain thinking."""
    return draw(
        st.sampled_from(
            (
                m.Thinking("hmm", "sig"),
                m.Thinking(data="redacted"),
                m.Thinking("short", None, "sealed", "rs_1"),
                m.Thinking("unsigned"),
                m.Thinking("by reference", id="rs_2"),
            )
        )
    )


images: SearchStrategy[m.Image] = st.sampled_from(
    (
        m.Image(data=PIXEL),
        m.Image("image/bmp", data="Qk0="),
        m.Image(url="https://example.org/a.png"),
        m.Image(),
    )
)
opaques: SearchStrategy[m.Opaque] = st.sampled_from(
    (m.Opaque({"type": "video", "url": "x"}), m.Opaque({"type": "note", "text": "a note"}), m.Opaque({}))
)
_text_parts = st.builds(m.Text, texts)
_told_parts = st.builds(m.Text, texts, st.sampled_from((None, *get_args(m.Origin))))


def _content(*kinds: SearchStrategy[m.AnyPart], most: int = 3) -> SearchStrategy[m.Content]:
    return st.lists(st.one_of(*kinds), max_size=most).map(tuple)


users = st.builds(m.User, _content(_text_parts, _told_parts, images, opaques, most=2))
systems = st.builds(m.System, _content(_text_parts, most=2))
bashes = st.builds(
    m.Bash,
    st.sampled_from(("ls", "pytest -q")),
    texts,
    st.sampled_from((None, 0, 1)),
    hidden=st.booleans(),
)
results = st.builds(
    m.Result,
    ids,
    _content(_text_parts, _text_parts, images, opaques, most=2),
    st.sampled_from((None, "Read")),
    st.booleans(),
)
assistants = st.builds(
    m.Assistant,
    _content(_text_parts, calls(), calls(), thinking(), opaques, images, most=4),
    st.sampled_from(("end", "tool_use", "error", "aborted", None)),
)
messages: SearchStrategy[m.Message] = st.one_of(
    users, assistants, assistants, results, results, systems, bashes
)


@st.composite
def exchanges(draw: DrawFn) -> list[m.Message]:
    """A reply with calls and what came back: shuffled, some missing, some twice, some of nobody's calls."""
    reply = draw(assistants)
    back: list[m.Message] = []
    for call in draw(st.permutations(reply.calls)):
        times = draw(st.sampled_from((0, 1, 1, 1, 1, 2)))
        back += [
            m.Result(call.id, draw(_content(_text_parts, images, most=2)), call.name) for _ in range(times)
        ]
    if draw(st.integers(0, 4)) == 0:
        back.insert(draw(st.integers(0, len(back))), draw(results))
    return [reply, *back]


@st.composite
def conversations(draw: DrawFn, most: int = 8) -> list[m.Message]:
    """Anything: exchanges and stray messages in any order."""
    pieces = draw(st.lists(exchanges() | messages.map(lambda one: [one]), max_size=most))
    return [message for piece in pieces for message in piece]


@st.composite
def orderly(draw: DrawFn, most: int = 5) -> list[m.Message]:
    """A conversation as it should be: turns of batches that are answered completely, in order."""
    found: list[m.Message] = []
    said = st.sampled_from(_WORDS)
    for turn in range(draw(st.integers(1, most))):
        found.append(m.user(draw(said)))
        for step in range(draw(st.integers(0, 2))):
            batch = [
                m.call(f"t{turn}s{step}n{n}", "Read", draw(arguments)) for n in range(draw(st.integers(1, 3)))
            ]
            thought = [m.Thinking("hmm", "sig")] if draw(st.booleans()) else []
            found.append(m.Assistant((*thought, *batch), "tool_use"))
            found += [m.result(call.id, draw(said), name="Read") for call in batch]
        found.append(m.assistant(draw(said)))
    return found
