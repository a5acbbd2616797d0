"""Nothing from outside moves the cursor; as JSON it stays the same value."""

from __future__ import annotations

import json

import pytest

from refold.text.terminal import clean, escaped


@pytest.mark.parametrize(
    "char",
    [*"\x00\x08\x0b\x1b\x1f\x7f\x9f\u061c\u200e\u200f\u2028\u2029\u202e\u2066\u2069", "\ud800", "\udfff", "\U000e0000", "\U000e007f"],
)  # fmt: skip
def test_what_controls_a_terminal_is_replaced_and_in_json_escaped(char: str) -> None:
    assert clean(f"a{char}b") == "a�b"
    told = escaped(f'"a{char}b"')
    assert told.isascii() and json.loads(told) == f"a{char}b"


def test_all_else_stays() -> None:
    text = "a\n\tä\xa0字👩‍👩‍👧\u2027\u202f\u2065\ud7ff\ue000\U000dffff\U000e0080"
    assert clean(text) == escaped(text) == text


def test_what_would_be_replaced_is_written_so_that_json_reads_it_back() -> None:
    for char in ("\x1b", "\u202e", "\U000e0041"):
        text = escaped(json.dumps(f"a{char}b", ensure_ascii=False))
        assert char not in text and json.loads(text) == f"a{char}b"
