"""A date is read as far as it is said; relative ones are computed from the day of their message, or left alone."""

from __future__ import annotations

from datetime import date

import pytest

from refold.text.dates import (
    NO_DATE,
    When,
    asks_when,
    heading,
    in_utc,
    of_time,
    read_date,
    relative,
    resolve,
    tells_time,
)
from refold.text.words import terms

MONDAY = date(2023, 5, 8)


@pytest.mark.parametrize("time", [-1.0, 0.0, 4e10, 1.7e15, 1e300, float("nan")])
def test_a_time_that_no_calendar_has_is_the_beginning_of_1970(time: float) -> None:
    assert in_utc(time).isoformat() == "1970-01-01T00:00:00+00:00"
    assert in_utc(1_700_000_000).isoformat() == "2023-11-14T22:13:20+00:00"


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
        ("the day after tomorrow", "10 May 2023"),
        ("tomorrow", "9 May 2023"),
        ("tonight", "8 May 2023"),
        ("last night", "7 May 2023"),
        ("THIS MORNING", "8 May 2023"),
        ("this past month", "April 2023"),
        ("past year", "2022"),
        ("last year", "2022"),
        ("this year", "2023"),
        ("this coming year", "2024"),
        ("next month", "June 2023"),
        ("this month", "May 2023"),
        ("this coming weekend", "weekend after 8 May 2023"),
        ("past weekend", "weekend before 8 May 2023"),
        ("this past Tuesday", "Tuesday 2 May 2023"),
        ("this Tuesday", "Tuesday 9 May 2023"),
        ("this coming Sunday", "Sunday 14 May 2023"),
        ("next Tuesday", "Tuesday 9 May 2023"),
        ("this Monday", "Monday 15 May 2023"),
        ("a week ago", "week before 8 May 2023"),
        ("5 weeks ago", "5 weeks before 8 May 2023"),
        ("a couple of days ago", "6 May 2023"),
        ("a year ago", "2022"),
        ("several months ago", "several months before 8 May 2023"),
        ("上个月", "2023年4月"),
        ("下个月", "2023年6月"),
        ("明年", "2024年"),
        ("上周", "2023年5月8日的前一周"),
        ("上星期", "2023年5月8日的前一周"),
        ("下周", "2023年5月8日的后一周"),
        ("下星期", "2023年5月8日的后一周"),
        ("后天", "2023年5月10日"),
        ("前天", "2023年5月6日"),
        ("今晚", "2023年5月8日"),
        ("我昨天去了", "我2023年5月7日去了"),
        ("去年开始", "2022年开始"),
        ("it feels like yesterday", "it feels like yesterday"),
        ("the last weekday rule", "the last weekday rule"),
        ("the ladder lasts", "the ladder lasts"),
    ],
)
def test_relative_dates(text: str, expected: str) -> None:
    assert said(text) == expected
    assert relative(text) == (expected != text)


def test_months_of_different_length_and_year_ends() -> None:
    assert said("last month", date(2024, 3, 31)) == "February 2024"
    assert said("last month", date(2024, 1, 31)) == "December 2023"
    assert said("yesterday", date(2024, 1, 1)) == "31 December 2023"
    assert said("last year", date(2024, 1, 31)) == said("a year ago", date(2024, 1, 31)) == "2023"
    assert said("next year", date(2024, 12, 31)) == "2025"
    assert said("next Tuesday", date(2023, 5, 11)) == "Tuesday 16 May 2023"
    assert said("last Tuesday", date(2023, 5, 11)) == "Tuesday 9 May 2023"


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
        ("We met on 8 May 2023", NO_DATE),
        ("Meeting 8 May 2023", NO_DATE),
        ("[image: a dog]", NO_DATE),
        ("8 May, monday", NO_DATE),
        ("12345678", NO_DATE),
        ("", NO_DATE),
    ],
)
def test_a_line_that_is_nothing_but_a_date_heads_what_follows(line: str, when: When) -> None:
    text = f"{line}\nAnna: hi"
    found, end = heading(text)
    assert found == when
    assert text[end:] == ("Anna: hi" if when != NO_DATE else text)
    assert heading(line) == (NO_DATE, 0), "an answer that is a date heads nothing"


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("What did she do on 8 May 2023?", When(2023, 5, 8)),
        ("at 10:30 on May 8th", When(0, 5, 8)),
        ("in May 2023", When(2023, 5)),
        ("during 2023", When(2023)),
        ("2023/13/45", When(2023)),
        ("2023/13/5", When(2023)),
        ("2023-12-31", When(2023, 12, 31)),
        ("2023-01-01", When(2023, 1, 1)),
        ("2023-05-32", When(2023)),
        ("2023-00-05", When(2023)),
        ("2023-05", When(2023, 5)),
        ("31 May", When(0, 5, 31)),
        ("1 May", When(0, 5, 1)),
        ("0 May", When(0, 5)),
        ("32 May", When(0, 5)),
        ("12345678 May 7", When(0, 5, 7)),
        ("day 5 of our May", When(0, 5)),
        ("May, on day the 5th", When(0, 5)),
        ("5 of my May", When(0, 5, 5)),
        ("our May on my 5", When(0, 5, 5)),
        ("our May on the 5", When(0, 5)),
        ("what may she march for", NO_DATE),
        ("in 3 days", NO_DATE),
    ],
)
def test_a_date_is_read_as_far_as_it_is_said(text: str, when: When) -> None:
    assert read_date(text, capitals=True) == when


def test_a_date_covers_every_day_it_does_not_exclude() -> None:
    assert When(2023, 5).covers(When(2023, 5, 8)) and NO_DATE.covers(When(2023))
    assert not When(2023, 5).covers(When(2023)) and not When(2023, 5).covers(When(2023, 6, 1))


def test_a_day_that_does_not_exist_is_none() -> None:
    assert When(2023, 5, 8).date == MONDAY
    assert When(2023, 2, 31).date is When(2023, 5).date is NO_DATE.date is None


def test_times_out_of_range_are_no_day() -> None:
    assert of_time(1683504000.0).date == MONDAY
    assert {of_time(time) for time in (None, 0.0, -1.0, 4e10, 1e300, float("inf"))} == {NO_DATE}
    assert of_time(0.5) == When(1970, 1, 1) and of_time(4e10 - 1).year == 3237


def test_questions_about_time_and_words_that_tell_it() -> None:
    assert asks_when("When did they move?") and asks_when("什么时候 搬家?") and not asks_when("Who moved?")
    assert tells_time(terms("We moved last Friday")) and tells_time(terms("in 2023"))
    assert not tells_time(terms("We moved"))
