"""A date is read as far as it is said; relative ones are computed from the day of their message, or left alone."""

from __future__ import annotations

from datetime import date

import pytest

from refold.text.dates import NEVER, When, asks_when, heading, of_time, read, resolve, tells_time
from refold.text.words import terms

MONDAY = date(2023, 5, 8)


def said(text: str, day: date = MONDAY) -> str:
    return resolve(text, day, lambda _, when: when)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I went yesterday.", "I went 7 May 2023."),
        ("Last Friday we met.", "Friday 5 May 2023 we met."),
        ("last Monday", "Monday 1 May 2023"),
        ("next Monday", "Monday 15 May 2023"),
        ("last week", "week before 8 May 2023"),
        ("this weekend", "weekend of 8 May 2023"),
        ("two months ago", "March 2023"),
        ("ten years ago", "2013"),
        ("3 days ago", "5 May 2023"),
        ("two weekends ago", "two weekends before 8 May 2023"),
        ("a few weeks ago", "few weeks before 8 May 2023"),
        ("last month", "April 2023"),
        ("next year", "2024"),
        ("the day before yesterday", "6 May 2023"),
        ("我昨天去了", "我2023年5月7日去了"),
        ("去年开始", "2022年开始"),
        ("it feels like yesterday", "it feels like yesterday"),
        ("the last weekday rule", "the last weekday rule"),
        ("the ladder lasts", "the ladder lasts"),
    ],
)
def test_relative_dates(text: str, expected: str) -> None:
    assert said(text) == expected


def test_months_of_different_length_and_year_ends() -> None:
    assert said("last month", date(2024, 3, 31)) == "February 2024"
    assert said("last month", date(2024, 1, 31)) == "December 2023"
    assert said("yesterday", date(2024, 1, 1)) == "31 December 2023"


def test_what_has_no_date_stays() -> None:
    assert said("900 years ago", date(500, 1, 1)) == "900 years ago"
    assert said("999 months ago", date(10, 1, 1)) == "999 months ago"
    assert said("3 days ago", date.min) == "3 days ago"


@pytest.mark.parametrize(
    ("line", "when"),
    [
        ("[1:56 pm on 8 May, 2023]", When(2023, 5, 8)),
        ("# 2023-05-08", When(2023, 5, 8)),
        ("**Monday, May 8th, 2023**", When(2023, 5, 8)),
        ("2023-05-08T10:11:12Z", When(2023, 5, 8)),
        ("2023年5月8日", When(2023, 5, 8)),
        ("  (Sept. 2023)", When(2023, 9)),
        ("We met on 8 May 2023", NEVER),
        ("Meeting 8 May 2023", NEVER),
        ("[image: a dog]", NEVER),
        ("8 May, monday", NEVER),
        ("12345678", NEVER),
        ("", NEVER),
    ],
)
def test_a_line_that_is_nothing_but_a_date_heads_what_follows(line: str, when: When) -> None:
    text = f"{line}\nAnna: hi"
    found, end = heading(text)
    assert found == when
    assert text[end:] == ("Anna: hi" if when != NEVER else text)
    assert heading(line) == (NEVER, 0), "an answer that is a date heads nothing"


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("What did she do on 8 May 2023?", When(2023, 5, 8)),
        ("at 10:30 on May 8th", When(0, 5, 8)),
        ("in May 2023", When(2023, 5)),
        ("during 2023", When(2023)),
        ("2023/13/45", When(2023)),
        ("what may she march for", NEVER),
        ("in 3 days", NEVER),
    ],
)
def test_a_date_is_read_as_far_as_it_is_said(text: str, when: When) -> None:
    assert read(text, capitals=True) == when


def test_a_date_covers_every_day_it_does_not_exclude() -> None:
    assert When(2023, 5).covers(When(2023, 5, 8)) and NEVER.covers(When(2023))
    assert not When(2023, 5).covers(When(2023)) and not When(2023, 5).covers(When(2023, 6, 1))


def test_a_day_that_does_not_exist_is_none() -> None:
    assert When(2023, 5, 8).date == MONDAY
    assert When(2023, 2, 31).date is When(2023, 5).date is NEVER.date is None


def test_times_out_of_range_are_no_day() -> None:
    assert of_time(1683504000.0).date == MONDAY
    assert {of_time(time) for time in (None, 0.0, -1.0, 1e300, float("inf"))} == {NEVER}


def test_questions_about_time_and_words_that_tell_it() -> None:
    assert asks_when("When did they move?") and asks_when("什么时候 搬家?") and not asks_when("Who moved?")
    assert tells_time(terms("We moved last Friday")) and tells_time(terms("in 2023"))
    assert not tells_time(terms("We moved"))
