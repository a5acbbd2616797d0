"""Relative dates are computed from the day of their message, or left alone."""

from __future__ import annotations

from datetime import date

import pytest

from refold.digest.dates import heading, of_time, resolve

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
    ("line", "day"),
    [
        ("[1:56 pm on 8 May, 2023]", MONDAY),
        ("# 2023-05-08", MONDAY),
        ("May 8th, 2023", MONDAY),
        ("2023年5月8日", MONDAY),
        ("[31 February 2023]", None),
        ("We met on 8 May 2023 and talked about the whole plan for hours", None),
        ("[image: a dog]", None),
        ("", None),
    ],
)
def test_headings(line: str, day: date | None) -> None:
    assert heading(line) == day


def test_times_out_of_range_are_no_day() -> None:
    assert of_time(1683504000.0) == MONDAY
    assert of_time(None) is of_time(0.0) is of_time(1e300) is of_time(float("inf")) is None
