"""Sentences of prose, Chinese and output; and the name before a colon."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.text.sentences import MAX_SENTENCE_CHARS, spans, speaker_of, split_sentences


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It works. Does it? Yes!", ["It works.", "Does it?", "Yes!"]),
        ('He said "no." Then he left...', ['He said "no."', "Then he left..."]),
        ("Dr. Wu met J. Doe, e.g. at noon. Done", ["Dr. Wu met J. Doe, e.g. at noon.", "Done"]),
        ("see app.py and v1.2.3 now", ["see app.py and v1.2.3 now"]),
        ("你好。我走了！好；", ["你好。", "我走了！", "好；"]),
        ("one line\n\n  another\n---\n", ["one line", "another"]),
        ('It said "Reading..." though it was done.', ['It said "Reading..." though it was done.']),
        ("It waits... and (as they said!) goes on.", ["It waits... and (as they said!) goes on."]),
        ("...!?", []),
        ("", []),
    ],
)
def test_sentences_end_where_a_reader_stops(text: str, found: list[str]) -> None:
    assert split_sentences(text) == found


@given(st.text(alphabet=st.sampled_from("ab .!?…。\n\"')A你"), max_size=200) | st.text(max_size=200))
def test_spans_are_the_whole_text_in_order(text: str) -> None:
    assert "".join(text[a:b] for a, b in spans(text)) == text
    assert all(a < b for a, b in spans(text))


def test_a_sentence_without_end_is_cut_at_a_space() -> None:
    found = split_sentences("word " * 500)
    assert all(len(each) <= MAX_SENTENCE_CHARS and each.endswith("word") for each in found)
    assert sum(each.count("word") for each in found) == 500
    assert [len(each) for each in split_sentences("x" * 1_300)] == [600, 600, 100]
    assert [len(each) for each in split_sentences("x" * 600)] == [600]
    for at, cut in ((299, 600), (300, 300), (599, 599), (600, 600)):  # in the second half of what fits
        assert len(split_sentences(f"{'x' * at} {'x' * 700}")[0]) == cut
    assert [len(each) for each in split_sentences(f"{'x' * 1_000} {'x' * 900}")] == [600, 400, 600, 300]


@pytest.mark.parametrize(
    ("text", "name", "rest"),
    [
        ("Maria: hello", "Maria", "hello"),
        ("  Jean-Luc Le Roy: hi", "Jean-Luc Le Roy", "hi"),
        ("李明： 你好", "李明", "你好"),
        ("http://x.y", "", "http://x.y"),
        ("12: 30", "", "12: 30"),
        ("This is a long beginning: then", "", "This is a long beginning: then"),
    ],
)
def test_a_speaker_is_a_name_before_a_colon(text: str, name: str, rest: str) -> None:
    found, start = speaker_of(text)
    assert (found, text[start:]) == (name, rest)
