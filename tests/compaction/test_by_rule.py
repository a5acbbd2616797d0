"""What is written without a model: lines of turns (D1) and pi's sections (B11), counted in words so that every limit
can be read off."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from refold import messages as m
from refold.compaction.details import RoundsLine
from refold.compaction.strategies.turn_lines import accept_line, merging
from refold.digest import CHECKPOINT, PREFIX, Digest, Source
from refold.digest.turn_line import rule_line
from refold.digest.turn_line import short as short_line
from refold.errors import BadAnswer
from refold.facts.abridged import groups
from refold.protocols import TokenCounter

from .kit import WORDS, many

# ── the line of a turn ──────────────────────────────────────────────────────────────────────────


def line(said: Sequence[tuple[str, m.Message]], limit: int, counter: TokenCounter) -> str:
    return rule_line(groups(said, continues=False), limit, counter)


@pytest.mark.parametrize(
    ("limit", "asked", "done"),
    [(3, 1, 1), (4, 1, 1), (5, 1, 2), (8, 2, 4), (20, 6, 12), (40, 13, 25)],
)
def test_of_a_long_line_two_thirds_are_what_came_of_it(limit: int, asked: int, done: int) -> None:
    said = [("a", m.user(many("ask", 30))), ("b", m.assistant(many("did", 30)))]
    assert line(said, limit, WORDS) == f"{many('ask', asked)}… → {many('did', done)}…"
    assert line(said, 62, WORDS) == f"{many('ask', 30)} → {many('did', 30)}"


def test_a_line_is_never_longer_than_it_may_be_nor_half_of_one() -> None:
    said = [("a", m.user(many("ask", 30))), ("b", m.assistant(many("did", 30)))]
    assert line(said, 1, WORDS) == line(said, 2, WORDS) == "ask1…"
    for limit in range(1, 64):
        made = line(said, limit, WORDS)
        assert WORDS.text(made) <= limit and not made.endswith("→")
    assert line(said[:1], 9, WORDS) == f"{many('ask', 6)}… → interrupted"
    assert line([], 9, WORDS) == "(nothing asked)"
    assert line(said[1:], 9, WORDS) == "(nothing asked) → did1 did2 did3 did4 did5…"


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (m.assistant("It works. The port is 8443."), "Please go → It works. The port is 8443"),
        (m.assistant("# Title\n| a | b |\n- first point\n```\ncode 1\n```"), "Please go → first point"),
        (
            m.assistant("", m.call("c", "Edit", path="src/a.py", old_string="a", new_string="b")),
            "Please go → a.py; interrupted",
        ),
        (m.assistant("", m.call("c", "Bash", command="make all")), "Please go → make all; interrupted"),
    ],
)
def test_a_line_says_what_was_done_or_answered(message: m.Message, told: str) -> None:
    assert line([("a", m.user("Please go.")), ("b", message)], 60, WORDS) == told


@pytest.mark.parametrize(
    ("text", "room", "short"),
    [
        ("one two three", 3, "one two three"),
        ("one two three four", 3, "one two three…"),
        ("one two, three four five", 2, "one two…"),
        ("我们先修好登录。然后再看测试", 1, "我们先修好登录。然后再看测试"),
        ("single", 0, ""),
    ],
)
def test_a_line_is_cut_between_words_and_says_so(text: str, room: int, short: str) -> None:
    assert short_line(text, room, WORDS) == short


def test_an_answer_is_one_line_without_its_label() -> None:
    accept = accept_line(4, WORDS)
    assert accept("\n - [Turn 7] asked → done\nmore") == "asked → done"
    assert accept("one two three four five") == "one two three four…"
    for nothing in ("", " \n ", "[Turn 7]"):
        with pytest.raises(BadAnswer, match="no line") as caught:
            accept(nothing)
        assert caught.value.code == "empty"


# ── too many lines ──────────────────────────────────────────────────────────────────────────────


def lines(*numbers: int) -> list[RoundsLine]:
    return [RoundsLine(f"e{n}", f"e{n}", n, n, f"ask {n} for it → did {n}") for n in numbers]


def size(some: Sequence[RoundsLine]) -> int:
    return sum(WORDS.text(line.text) for line in some)


@pytest.mark.parametrize(
    ("budget", "merged"),
    [
        (
            42,
            {(1, 1): "ask 1 for it → did 1", (2, 2): "ask 2 for it → did 2", (4, 4): "ask 4 for it → did 4"},
        ),
        (41, {(1, 2): "ask 1 for it", (4, 4): "ask 4 for it → did 4", (5, 5): "ask 5 for it → did 5"}),
        (32, {(1, 2): "ask 1 for it", (4, 4): "ask 4 for it → did 4", (5, 5): "ask 5 for it → did 5"}),
        (31, {(1, 2): "ask 1 for it", (4, 5): "ask 4 for it", (6, 6): "ask 6 for it → did 6"}),
        (21, {(1, 2): "ask 1…", (4, 5): "ask 4…", (6, 6): "ask 6 for it → did 6"}),
        (10, {(1, 2): "", (4, 6): "ask 6 for…", (9, 9): "ask 9 for it → did 9"}),
        (5, {(1, 2): "", (4, 6): "", (9, 9): "ask 9 for…"}),
    ],
)
def test_neighbours_in_the_oldest_half_become_ranges(budget: int, merged: dict[tuple[int, int], str]) -> None:
    found = merging(lines(1, 2, 4, 5, 6, 9), budget, size, WORDS)
    assert {(line.start, line.end): line.text for line in found[:3]} == merged
    assert [line.start for line in found] == sorted(line.start for line in found)
    assert (found[0].first, found[-1].last) == ("e1", "e9")
    assert size(found) <= budget


def test_lines_that_cannot_become_smaller_stay() -> None:
    empty = [RoundsLine("a", "a", 1, 1, ""), RoundsLine("c", "c", 3, 3, "")]
    assert merging(empty, -1, size, WORDS) == empty


@pytest.mark.parametrize(
    ("first", "second", "joined"),
    [
        ("a → x y", "b", "a; b"),
        ("a → x", "b → y", "a; b"),
        ("one two three → x", "four → y", "one two three; four"),
        ("a; b; c d e f g → h", "i", "a; b; i"),
        ("one two three four five six", "", "one two three…"),
    ],
)
def test_a_range_keeps_its_beginning_and_its_end(first: str, second: str, joined: str) -> None:
    pair = [RoundsLine("a", "b", 1, 2, first), RoundsLine("c", "d", 3, 4, second)]
    budget = size(pair) - 1
    found = merging(pair, budget, size, WORDS)
    assert (found[0].first, found[0].last, found[0].start, found[0].end) == ("a", "d", 1, 4)
    assert found[0].text == joined


class Letters:
    """A token is a character."""

    name = "letters"

    def text(self, text: str) -> int:
        return len(text)

    def message(self, message: m.Message) -> int:
        return len(message.text)

    def tools(self, tools: Sequence[object]) -> int:
        return len(tools)


@pytest.mark.parametrize(
    ("first", "second", "joined"),
    [("xx → yy", "zz → w", "xx; zz"), ("xxx → y", "zz → w", "xxx"), ("aa; bb → long", "cc; dd", "aa; dd")],
)
def test_a_range_is_half_as_long_as_its_parts_to_the_character(first: str, second: str, joined: str) -> None:
    def length(some: Sequence[RoundsLine]) -> int:
        return sum(len(line.text) for line in some)

    pair = [RoundsLine("a", "b", 1, 2, first), RoundsLine("c", "d", 3, 4, second)]
    found = merging(pair, len(first) + len(second) - 1, length, Letters())
    assert found[0].text == joined


# ── pi's sections ───────────────────────────────────────────────────────────────────────────────

EDIT = m.call("c1", "Edit", path="src/login.py", old_string="a", new_string="b")
SAID: tuple[m.Message, ...] = (
    m.user("Never touch migrations/. Please fix the login in src/login.py."),
    m.assistant("", EDIT),
    m.result("c1", "ok"),
    m.assistant("We decided to use sha256 because md5 is weak. The port is 8443."),
    m.user("Now add a test."),
    m.assistant("", m.call("c2", "Bash", command="pytest -x")),
    m.result("c2", "FAILED tests/test_login.py: boom", is_error=True),
)


def checkpoint_text(said: Sequence[Source], budget: int, counter: TokenCounter, previous: str) -> str:
    return Digest(said, previous, template=CHECKPOINT).text(budget, counter)


def turn_prefix(said: Sequence[Source], budget: int, counter: TokenCounter) -> str:
    return Digest(said, template=PREFIX).text(budget, counter)


EARLIER = "## Goal\nShip it\n## Odd\n- x\n### Done\n- [x] old\n## Key Decisions\n(none)\n"


def sources(*said: m.Message) -> list[Source]:
    return [Source(id=f"e{n}", message=message) for n, message in enumerate(said)]


def sections(document: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in document.split("\n"):
        if line.startswith("##"):
            found[line.strip("# ")] = []
        elif line:
            [*found.values()][-1].append(line)
    return found


def test_a_checkpoint_has_pis_sections_with_what_happened() -> None:
    assert sections(checkpoint_text(sources(*SAID), 2_000, WORDS, "")) == {
        "Goal": ["Never touch migrations/. Please fix the login in src/login.py."],
        "Constraints and preferences": ["- Never touch migrations/. Please fix the login in src/login.py."],
        "Progress": [],
        "Done": [
            "- [x] Never touch migrations/ → login.py",
        ],
        "In progress": ["- [ ] Now add a test → pytest -x; interrupted"],
        "Blocked": ["(none)"],
        "Key decisions": ["- We decided to use sha256 because md5 is weak. The port is 8443."],
        "Next steps": ["(none)"],
        "Critical context": [
            "User: Never touch migrations/. Please fix the login in src/login.py.",
            "- Edit src/login.py: a → b",
            "User: Now add a test.",
            "- Bash pytest -x → FAILED tests/test_login.py: boom",
        ],
    }


def test_what_was_called_takes_no_room_from_the_lines_of_turns() -> None:
    said: list[m.Message] = []
    for turn in range(6):
        said.append(m.user(f"Do part {turn}."))
        for n in range(8):
            said += [
                m.assistant("", m.call(f"c{turn}-{n}", "Read", path=f"src/{turn}/{n}.py")),
                m.result(f"c{turn}-{n}", "text"),
            ]
        said.append(m.assistant(f"Part {turn} works."))
    found = sections(checkpoint_text(sources(*said), 400, WORDS, ""))
    assert [turn for turn in range(6) if any(f"part {turn}" in line for line in found["Done"])] == [*range(6)]
    assert any("src/5/7.py" in line for line in found["Critical context"])
    again = sections(checkpoint_text(sources(*said[:2]), 400, WORDS, "## Goal\nBoth\nBoth"))
    assert again["Goal"] == ["Both"], "once"


def test_a_checkpoint_goes_on_with_the_one_before() -> None:
    found = sections(checkpoint_text(sources(*SAID[:4]), 2_000, WORDS, EARLIER))
    assert found["Goal"] == ["Ship it"]
    assert found["Done"] == [
        "- [x] old",
        "- [x] Never touch migrations/ → login.py",
    ]
    assert found["In progress"] == ["(none)"]
    assert found["Key decisions"] == ["- We decided to use sha256 because md5 is weak. The port is 8443."]
    text = checkpoint_text(sources(*SAID[:4]), 2_000, WORDS, EARLIER)
    assert text.endswith(
        "## Critical context\n## Odd\n- x\n"
        "User: Never touch migrations/. Please fix the login in src/login.py.\n- Edit src/login.py: a → b"
    ), "what stands among the decisions is not said twice"
    assert text.startswith("## Goal\nShip it\n\n## Constraints") and "\n\n## Key decisions\n" in text
    assert "\n\n## Progress\n\n### Done\n- [x] old\n" in text and "\n\n### In progress\n(none)\n" in text


def test_how_many_were_left_out_is_counted_through_the_passes() -> None:
    text = ""
    for first in (0, 20, 40):
        said = [
            x
            for n in range(first, first + 20)
            for x in (m.user(f"Fix part {n}."), m.assistant(f"Part {n} works."))
        ]
        text = checkpoint_text(sources(*said), 400, WORDS, text)
        note, *told = sections(text)["Done"]
        assert note == f"- ({first + 20 - len(told)} earlier left out)"
        assert [f"part {first + 19}" in row for row in told] == [False] * (len(told) - 1) + [True]


@pytest.mark.parametrize("stop", ["end", "error", "aborted"])
def test_a_turn_that_was_broken_off_is_in_progress(stop: m.Stop) -> None:
    said = (m.user("Explain it."), m.Assistant((m.Text("It is so."),), stop))
    found = sections(checkpoint_text(sources(*said), 500, WORDS, ""))
    assert (found["Done"] == ["(none)"]) is (stop != "end")
    assert (found["In progress"] == ["(none)"]) is (stop == "end")


@pytest.mark.parametrize("budget", [30, 60, 120, 400])
def test_a_checkpoint_stays_within_its_budget(budget: int) -> None:
    long = [
        x
        for n in range(30)
        for x in (m.user(f"Please fix part {n}."), m.assistant(f"Part {n} is at port {9000 + n}."))
    ]
    text = checkpoint_text(sources(*long), budget, WORDS, "")
    assert 0 < WORDS.text(text) <= budget
    assert ("(none)" in text) is (budget > 60), "what says nothing is left out where room is scarce"
    done = sections(text).get("Done", [])
    assert not done or "part 29" in done[-1], "the newest are kept"


def test_the_beginning_of_a_turn_says_what_was_asked_and_found() -> None:
    assert sections(turn_prefix(sources(*SAID), 2_000, WORDS)) == {
        "Original request": [
            "Never touch migrations/. Please fix the login in src/login.py.",
            "Now add a test.",
        ],
        "Early progress": [
            "User: Never touch migrations/. Please fix the login in src/login.py.",
            "- Edit src/login.py: a → b",
            "- We decided to use sha256 because md5 is weak. The port is 8443.",
            "User: Now add a test.",
            "- Bash pytest -x → FAILED tests/test_login.py: boom",
        ],
        "Needed for the kept part": ["- src/login.py: modified"],
    }


def test_B11_what_was_asked_is_cut_and_not_left_out_where_it_is_too_long() -> None:
    said = sources(m.user(many("ask", 300)), m.assistant(many("did", 300)))
    for made, title in ((turn_prefix(said, 200, WORDS), "Original request"),
                        (checkpoint_text(said, 200, WORDS, ""), "Goal")):  # fmt: skip
        assert f"## {title}\nask1 ask2 ask3" in made, title
