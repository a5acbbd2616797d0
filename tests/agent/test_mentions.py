"""E11, E12: files mentioned with @ are named in a reminder, in order, at most five, never from outside."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.agent.mentions import MAX_MENTIONS, mentioned, reminder


def everything(path: str) -> bool:
    return True


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("look at @src/a.py", ["src/a.py"]),
        ("请看@src/a.py", ["src/a.py"]),
        ("mail me@example.com", []),
        ("see 9@x", []),
        ("see @a.py.", ["a.py"]),
        ("see @a.py, @b-c_d.txt; (@e/f)", ["a.py", "b-c_d.txt", "e/f"]),
        ('see @"path with spaces/ü.txt" now', ["path with spaces/ü.txt"]),
        ("@a.py @b.py @a.py", ["a.py", "b.py"]),
        ("@ alone, @. and @.. and @...", []),
        ("absolute @/etc/passwd", []),
        ('absolute @"/etc/passwd"', []),
        ("@naïve.txt", ["na"]),
        ("@@a.py", ["a.py"]),
    ],
)
def test_E11_what_is_a_mention(text: str, paths: list[str]) -> None:
    assert mentioned(text, everything) == paths


def test_E16_one_file_is_one_mention_however_it_is_written() -> None:
    assert mentioned('@./a.py @a.py @src//b.py @"src/./b.py" @src/b.py', everything) == ["a.py", "src/b.py"]


def test_E11_what_does_not_exist_gets_no_reminder() -> None:
    assert mentioned("@a.py @b.py", lambda path: path == "b.py") == ["b.py"]
    assert reminder([]) == ""


def test_E12_the_reminder_names_at_most_five_in_order() -> None:
    text = reminder([f"f{n}.py" for n in range(8)])
    assert text.startswith("<system-reminder>")
    assert text.rstrip().endswith("</system-reminder>")
    assert "Read tool" in text
    assert [line for line in text.splitlines() if line.startswith("- ")] == [
        f"- f{n}.py" for n in range(MAX_MENTIONS)
    ]
    assert "(and 3 more…)" in text
    assert "more…" not in reminder([f"f{n}.py" for n in range(5)])


@given(st.text(max_size=300))
def test_no_text_breaks_it_and_no_name_is_absolute(text: str) -> None:
    for path in mentioned(text, everything):
        assert path
        assert not path.startswith("/")
        assert "\n" not in path
