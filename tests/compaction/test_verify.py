"""R5: summaries are checked by code against what they summarise."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold import messages as m
from refold.compaction.claims import claims
from refold.compaction.plan import Source
from refold.compaction.verify import MARK, verify
from tests.timing import JUDGED, seconds_of

SOURCES = tuple(
    Source(f"e{number}", message)
    for number, message in enumerate(
        (
            m.user("Please fix the login bug. Never touch the migrations."),
            m.assistant("", m.call("c1", "Read", path="src/auth/login-form.ts", offset=120)),
            m.result("c1", "export class LoginForm {}\n// 1,284 lines\nDCMAKE -DCMAKE_BUILD_TYPE=Release"),
            m.assistant("", m.call("c2", "Bash", command="npm run check && npm test -- --grep login")),
            m.result("c2", "12 passing\n3 failing: timeout of 2000ms exceeded (Anna Schmidt, see #4711)"),
            m.assistant("登录表单在 src/auth/login-form.ts 里，一共有385行。"),
        )
    )
)


def wrong(text: str, previous: str = "") -> tuple[str, ...]:
    return verify(text, SOURCES, previous).unverified


@pytest.mark.parametrize(
    "said",
    [
        "The bug is in `src/auth/login-form.ts`.",
        "Edited login-form.ts and auth/login-form.ts:120.",
        "See src/auth/{login-form.ts,login-form.ts}.",
        "LoginForm has 1284 lines, about 1,300.",
        "I ran `npm run check` and `npm test -- --grep login`.",
        "`npm run check && … --grep login`",
        'It failed with "timeout of 2000ms exceeded" for Anna Schmidt.',
        "Issue #4711 is about it.",
        "Set DCMAKE_BUILD_TYPE.",
        "文件src/auth/login-form.ts一共385行。",
        "用户说“Never touch the migrations”。",
        "e.g. the read/touch of it, i.e. the form.",
        "```bash\n$ npm run check  # all of it\n```",
        "## Key Decisions Made\n\n**Next Steps:** none",
    ],
)
def test_R5_what_was_said_is_left_alone(said: str) -> None:
    assert verify(said, SOURCES) == verify(said, SOURCES, action="remove")
    assert not wrong(said)


@pytest.mark.parametrize(
    ("said", "claim"),
    [
        ("The bug is in `src/auth/logout.ts`.", "src/auth/logout.ts"),
        ("Edited src/auth/login.ts for it.", "src/auth/login.ts"),  # a part of a longer name
        ("Edited form.ts for it.", "form.ts"),
        ("Edited src/auth/login-form.tsx.", "src/auth/login-form.tsx"),
        ("It has 1285 lines.", "1285"),
        ("It has about 2,900 lines.", "2,900"),
        ("I ran `npm run deploy`.", "npm run deploy"),
        ("I ran `check the login bug`.", "check the login bug"),  # all words occur, the command does not
        ('The user said "ship it today".', "ship it today"),
        ("用户说「今天上线」。", "今天上线"),
        ("Reviewed by Petra Lindqvist on time.", "Petra Lindqvist"),
        ("Petra Lindqvist reviewed it.", "Petra Lindqvist"),
        ("The helper is parseTokens here.", "parseTokens"),
        ("It uses the retry_budget setting.", "retry_budget"),
        ("文件src/auth/token.ts一共有418行。", "src/auth/token.ts"),
        ("一共有418行。", "418"),
        ("See https://example.com/docs for it.", "https://example.com/docs"),
    ],
)
def test_R5_what_nobody_said_is_marked(said: str, claim: str) -> None:
    checked = verify(said, SOURCES)
    assert claim in checked.unverified
    assert checked.text.count(MARK) == len(checked.unverified)
    assert checked.text.replace(MARK, "") == said


def test_R5_the_previous_summary_counts_as_a_source() -> None:
    assert wrong("Then `make halberd` was run.") == ("make halberd",)
    assert not wrong("Then `make halberd` was run.", previous="Use `make halberd`.")


def test_R5_remove_takes_the_sentence_and_nothing_else() -> None:
    text = "# Notes\n- LoginForm is fixed. It has 99999 lines. Done.\n- Built with `make halberd`.\n文件修好了。一共有418行。下一步测试。\n"
    removed = verify(text, SOURCES, action="remove")
    assert removed.text == "# Notes\n- LoginForm is fixed. Done.\n文件修好了。下一步测试。\n"


def test_claims_inside_code_fences() -> None:
    sketch = "```typescript\nclass LoginForm {\n  submitAll(): void // halberd/queue.ts\n}\n```"
    assert set(wrong(sketch)) == {"submitAll", "halberd/queue.ts"}  # what is literal, not the sketch itself
    shell = "```sh\nnpm run check\nmake halberd\n# a remark\n```\nThen `npm run check`."
    assert wrong(shell) == ("make halberd",)


def test_small_numbers_and_ordinals_are_counted_not_quoted() -> None:
    assert not wrong("1. three of 5 steps\n2. done\n13) last of 7\n- [x] 14. more")


def test_claims_do_not_overlap() -> None:
    found = claims('See `src/a_b/c.py` at https://x.org/a_b/c.py, "src/a_b/c.py", and src/a_b/c.py 4711.')
    assert [claim.kind for claim in found] == ["code", "url", "quotation", "path", "number"]
    assert all(a.end <= b.start for a, b in pairwise(found))


@given(st.text(alphabet="abcdefghij ,.!?\n的我们是", max_size=300))
def test_text_without_claims_is_unchanged(text: str) -> None:
    plain = " ".join(word for word in text.split(" ") if "." not in word.strip("."))
    checked = verify(plain, SOURCES)
    assert (checked.text, checked.unverified) == (plain, ())


@given(st.text(max_size=400), st.sampled_from(["mark", "remove"]))
def test_any_text_is_survived_and_marks_are_all_that_is_added(text: str, action: str) -> None:
    checked = verify(text, SOURCES, action=action)
    if action == "mark":
        assert len(checked.text) - len(text) == len(MARK) * (checked.text.count(MARK) - text.count(MARK))
    else:
        assert len(checked.text) <= len(text)


@given(st.text(max_size=300))
def test_what_the_sources_say_word_for_word_holds(text: str) -> None:
    quoted = [claim for claim in claims(text) if claim.kind != "rough"]
    assert not [c for c in quoted if c.text in verify(text, [Source("s", m.user(text))]).unverified]


@pytest.mark.timing
@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "a_",
        "a/",
        "a.",
        "a-",
        "{a,",
        "`a",
        '"a',
        "1,",
        "A b ",
        "Aa",
        "/.",
        "~",
        "“a",
        "```\n",
        "x1",
        "a/{b}",
        "- A:",
    ],
)
def test_time_follows_the_length_of_hostile_text(unit: str) -> None:
    def seconds(length: int) -> float:
        text = unit * (length // len(unit))
        return min(seconds_of(lambda: verify(text, SOURCES[:2])) for _ in range(3))

    # Ten times the text may take ten times as long, and some noise; a quadratic pattern takes a hundred times.
    short, long = seconds(6_000), seconds(60_000)
    assert not JUDGED or long < 40 * short + 0.2
