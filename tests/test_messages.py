"""What a message says: one answer for search, one for a reader."""

from __future__ import annotations

from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from refold import messages as m

REPLY = m.Assistant(
    (
        m.Thinking("hm"),
        m.Text("Look:\x1b[31m red\x1b[0m"),
        m.Image(url="http://x/y.png"),
        m.Call("c", "Edit", {"path": "a.py", "edits": [{"old": 1.5, "new": True}]}),
        m.Opaque({"type": "file", "text": "inside"}),
    )
)


def test_what_is_searched_has_every_word_and_no_colours() -> None:
    assert m.searchable(REPLY) == "hm\nLook: red\nEdit\na.py\n1.5\nfile\ninside"
    assert m.searchable(REPLY, keys=True).split() == [
        "hm", "Look:", "red", "Edit", "path", "a.py", "edits", "old", "1.5", "new", "type", "file", "text", "inside",
    ]  # fmt: skip
    assert m.searchable(m.Bash("ls", "a\nb", exit_code=2)) == "$ ls\na\nb\n(exit 2)"
    assert m.searchable(m.assistant("", m.Call("c", "Bash", raw="{broken"))) == "Bash\n{broken"


def test_a_reader_gets_the_message_in_full() -> None:
    told = m.in_full(REPLY)
    assert told.startswith("(thinking) hm\nLook:")
    assert '(picture: http://x/y.png)\nEdit(path=a.py, edits=[{"old":1.5,"new":true}])' in told
    assert "(thinking)" not in m.in_full(REPLY, thoughts=False)
    long = m.assistant("", m.call("c", "Write", path="a.py", content="one\ntwo"))
    assert m.in_full(long) == "Write(\npath: a.py\ncontent: one\ntwo\n)"


letters = st.text("abc", min_size=1, max_size=4)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | letters,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(letters, inner, max_size=4),
)


@given(values)
def test_leaves_are_the_strings_in_their_order(value: Any) -> None:
    def strings(item: Any) -> list[str]:
        if isinstance(item, dict):
            return [s for key, inner in cast("dict[str, Any]", item).items() for s in (key, *strings(inner))]
        if isinstance(item, list):
            return [s for inner in cast("list[Any]", item) for s in strings(inner)]
        return [item] if isinstance(item, str) else []

    assert [text for text in m.leaves(value, keys=True) if text.isalpha()] == strings(value)


def test_neither_depth_nor_huge_numbers_hurt() -> None:
    deep: Any = "bottom"
    for _ in range(200_000):
        deep = [deep]
    assert list(m.leaves({"deep": deep, "huge": 10**6_000, "nan": float("nan")})) == ["bottom"]
