"""B6: overflow is recognised from the providers' own wordings, and from nothing else."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.compaction import overflow
from refold.data import data_table
from refold.messages import Assistant, Usage, assistant
from tests.timing import within

ROWS = data_table("overflow")
WINDOW = 100_000


@pytest.mark.parametrize("row", ROWS["overflow"], ids=lambda row: f"{row['provider']}: {row['pattern'][:40]}")
def test_B6_wording_is_overflow(row) -> None:
    sign = overflow.in_error(row["wording"])
    assert sign is not None
    assert sign.window == row.get("window")
    assert re.search(row["pattern"], row["wording"], re.IGNORECASE), "the row's own pattern must match it"


@pytest.mark.parametrize("row", ROWS["exclude"], ids=lambda row: f"{row['provider']}: {row['pattern'][:40]}")
def test_B6_wording_is_no_overflow(row) -> None:
    assert overflow.in_error(row["wording"]) is None
    assert re.search(row["pattern"], row["wording"], re.IGNORECASE), "the row's own pattern must match it"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Connection error.",
        "Internal server error",
        "Invalid API key provided",
        "413 Payload Too Large",
        "messages.3: `tool_use` ids were found without `tool_result` blocks immediately after",
        "Unsupported value: 'temperature' does not support 0 with this model.",
        "The response was filtered due to the prompt triggering content management policy.",
        "ThrottlingException: Too many tokens per day, please wait before trying again.",
        "Your request was rejected: image exceeds 5 MB maximum",
        "Rate limit reached: maximum context length is 8192 tokens in your tier",
    ],
)
def test_B6_other_errors_are_no_overflow(text: str) -> None:
    assert overflow.in_error(text) is None


@pytest.mark.parametrize(
    ("stated", "window"), [("65536", 65_536), ("128,000", 128_000), ("1,048,576", 1_048_576)]
)
def test_B6_the_window_is_read_with_or_without_commas(stated: str, window: int) -> None:
    sign = overflow.in_error(
        f"This model's maximum context length is {stated} tokens. However, it was too long."
    )
    assert sign is not None and sign.window == window


def test_B6_table_has_thirty_wordings_each_with_a_source() -> None:
    assert len(ROWS["overflow"]) >= 30
    assert all(row["source"] and row["wording"] for kind in ROWS.values() for row in kind)


def test_B6_silent_overflow() -> None:
    said = assistant("fine")
    assert overflow.in_reply(said, Usage(input=60_000, cache_read=40_001), WINDOW)
    assert not overflow.in_reply(said, Usage(input=60_000, cache_read=40_000), WINDOW)
    assert not overflow.in_reply(said, Usage(input=60_000, cache_read=40_001), None)
    assert not overflow.in_reply(said, None, WINDOW)


def test_B6_length_stop_without_output_at_99_percent() -> None:
    cut = Assistant((), stop="length")
    assert overflow.in_reply(cut, Usage(input=99_000), WINDOW)
    assert not overflow.in_reply(cut, Usage(input=98_999), WINDOW)
    assert not overflow.in_reply(cut, Usage(input=99_000, output=1), WINDOW)
    assert not overflow.in_reply(assistant(""), Usage(input=99_000), WINDOW)


def test_B6_error_inside_a_reply() -> None:
    failed = Assistant((), stop="error", error="prompt is too long: 213462 tokens > 200000 maximum")
    assert overflow.in_reply(failed, None, None) == overflow.Sign("anthropic", 200_000)
    assert not overflow.in_reply(Assistant((), stop="error", error="Overloaded"), None, None)


@given(st.text(max_size=300))
def test_any_text_is_judged(text: str) -> None:
    overflow.in_error(text)


@pytest.mark.timing
def test_huge_hostile_texts_are_judged_quickly() -> None:
    with within(2):
        for piece in ("maximum context length is ", "input token count (1", "exceeds ", "9", "4", "request "):
            overflow.in_error(piece * 200_000)
