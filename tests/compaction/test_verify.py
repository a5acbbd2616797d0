"""R5: summaries are checked by code against what they summarise."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold import messages as m
from refold.compaction.plan import SummarySource
from refold.compaction.verify import MARK, Verified, claims, verify
from tests.timing import JUDGED, seconds_of

SOURCES = tuple(
    SummarySource(f"e{number}", message)
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
        "LoginForm has 1284 lines.",
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
    found = verify(said, SOURCES)
    assert claim in found.unverified
    assert found.text.count(MARK) == len(found.unverified)
    assert found.text.replace(MARK, "") == said


def checked(source: str, said: str) -> Verified:
    return verify(said, [SummarySource("s", m.user(source))])


@pytest.mark.parametrize(
    ("source", "said"),
    [
        # addresses and paths
        ("see https://x.org/docs", "See https://x.org/docs/ for it."),
        ("it is in src/a/b.py", "At `src/a/b.py:120`, `src/a/b.py:12-14`, `src/a/b.py#L3-L9`."),
        ("it is in lib/x.py", "At ./lib/x.py and ~/lib/x.py and ../lib/x.py and ../../lib/x.py."),
        ("it is in src/a.py and src/b.py", "In src/{a,b}.py it is."),
        ("it is in src/auth/login.ts", "All of src/auth/*.ts is done."),
        (r"it is in src\auth\login.ts", "All of src/auth/login.ts is done."),
        ("alpha beta gamma delta", "the alpha/beta/gamma/delta of it"),
        # code
        ("it has 1,284 lines", "It has `1284` lines."),
        ("a Session has a method login(user)", "Then `login()` and `Session.login(user)`."),
        ("it is in src/auth/login.ts", "Then `./src/auth/login.ts` was read."),
        ("first npm run check\nthen make all", "I ran `npm run check && make all` and `make all; npm run check`."),
        ("first make, then lint", "I ran `make;lint` and `lint&&make`."),
        ("reloading reloads reload", "Then `reload` was called."),
        # quotations
        ("I said stop now and go home", 'He said "stop now." and "stop … home".'),
        ("登录表单很好", "用户说“登录 表单”。"),
        ("it’s fine so far", 'He said "it\'s fine".'),
        # identifiers and names
        ("the retry_budget is spent", "All retry_budgets are spent."),
        ("a login-retry_budget flag", "It uses retry_budget here."),
        ("this is read only", "It is read-only here."),
        ("only those who read it", "It is read-only here."),
        ("encoded as utf 8", "Encoded as utf-8 here."),
        ("Anna was here", "I met Anna Li there."),
        ("every token counts", "They are called Tokens there."),
        # words that are cut
        ("it is in src/auth/login.ts, the retry_budget", "In src/auth/logi… and the retry_bud... of it."),
        # numbers
        ("it took 2000ms", "It took 2000 ms."),
        ("10,000 of them", "There are 10_000 of them and 10000."),
        ("release 1.14.2", "Release 14 it is, or 1.14.2."),
        ("it is on lines 120 to 124", "See lines 120-124."),
    ],
)  # fmt: skip
def test_R5_ways_to_say_the_same(source: str, said: str) -> None:
    found = checked(source, said)
    assert found.claims > 0
    assert found.unverified == ()
    assert found.text == said


@pytest.mark.parametrize(
    ("source", "said", "wrong"),
    [
        ("it is in src/a.py", "In src/{a,b}.py it is.", "src/{a,b}.py"),
        ("it is in src/auth/login.ts", "All of src/other/*.ts is done.", "src/other/*.ts"),
        ("it is in src/a/login.tsx", "In src/a/login.ts it is.", "src/a/login.ts"),
        ("it is in src/a/my-login.ts", "In login.ts it is.", "login.ts"),
        ("alpha beta", "the alpha/omega of it", "alpha/omega"),
        ("npm run check --all", "I ran `npm run check … --grep x`.", "npm run check … --grep x"),
        ("reloading it", "Then `reload` was called.", "reload"),
        ("we call login(user)", "Then `logout()` was called.", "logout()"),
        ("we call login(user)", "Then `login(other_user)` was called.", "login(other_user)"),
        ("npm run check", "I ran `npm run check && make all`.", "npm run check && make all"),
        ("I said stop now", 'He said "stop … later".', "stop … later"),
        ("foo bar is here", 'He said "foobar".', "foobar"),
        ("the retry_budget is spent", "The retry_bug… is spent.", "retry_bug"),
        ("x_retryBudget is spent", "The retryBudget is spent.", "retryBudget"),
        ("my_private is spent", "The _private is spent.", "_private"),
        ("Anna was here", "I met Anna Lindqvist there.", "Anna Lindqvist"),
        ("nobody was here", "I met Tom there.", "Tom"),
        ("nobody was here", "I met Petra there.", "Petra"),
        ("1000 lines", "There are about 900 of them.", "900"),
        ("it took 0.5 s", "It took 0.05 seconds.", "0.05"),
        ("1000 lines", "There are 1,001 of them.", "1,001"),
        ("12 lines", "There are 13 of them.", "13"),
    ],
)  # fmt: skip
def test_R5_nearly_the_same_is_not_the_same(source: str, said: str, wrong: str) -> None:
    assert checked(source, said).unverified == (wrong,)


@pytest.mark.parametrize(
    "message",
    [
        m.user("the frobnicate_all step"),
        m.Assistant((m.thinking("the frobnicate_all step"),)),
        m.Bash("frobnicate_all --now", "fine"),
        m.Bash("make", "ran frobnicate_all"),
        m.assistant("", m.call("c", "frobnicate_all")),
        m.assistant("", m.call("c", "Bash", command="frobnicate_all")),
        m.assistant("", m.call("c", "Run", frobnicate_all=True)),
        m.assistant("", m.call("c", "Run", steps=[{"do": ["frobnicate_all"]}])),
        m.assistant("", m.Call("c", "Run", raw='{"do": "frobnicate_all"')),
        m.result("c", "frobnicate_all done"),
    ],
)
def test_R5_everything_readable_in_a_message_is_a_source(message: m.Message) -> None:
    said = "Then frobnicate_all was run."
    assert verify(said, [SummarySource("s", message)]).unverified == ()
    assert verify(said, [SummarySource("s", m.user("nothing"))]).unverified == ("frobnicate_all",)


def test_R5_the_exit_code_of_a_command_is_a_source() -> None:
    source = [SummarySource("s", m.Bash("make", "failed", exit_code=137))]
    assert verify("It ended with 137.", source).unverified == ()


def test_R5_the_report_counts_claims_and_names_each_wrong_one_once() -> None:
    found = checked("only make all", "`make all`, `make it`, then `make it` again at 4711.")
    assert (found.claims, found.unverified) == (4, ("make it", "4711"))
    assert found.text.count(MARK) == 3


@pytest.mark.parametrize(("invented", "foreign"), [(3, False), (4, True)])
def test_R5_a_text_is_about_something_else_where_a_quarter_of_its_claims_is_unsupported(
    invented: int, foreign: bool
) -> None:
    known = [f"`known{n}.py`" for n in range(12)]
    said = [*known, *(f"`other{n}.py`" for n in range(invented))]
    assert checked(" ".join(known), " ".join(said)).foreign is foreign


def test_R5_few_claims_are_marked_not_refused() -> None:
    assert not checked("nothing", " ".join(f"`other{n}.py`" for n in range(11))).foreign


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("the limit is 12", []),
        ("the limit is 13", [("number", "13")]),
        ("about 13, ~14 and 约15", [("number", "13"), ("number", "14"), ("number", "15")]),
        ("it has 1,284, or so", [("number", "1,284")]),
        ("it uses 3.11 now", [("number", "3.11")]),
        ("issue #42 and #4", [("number", "42")]),
        ("set a1b2c now", [("word", "a1b2c")]),
        ("set a1b2 now", []),
        ("use xY here", [("word", "xY")]),
        ("the LoginForm here", [("word", "LoginForm")]),
        ("a read-only view", [("word", "read-only")]),
        ("the __init__ of it", [("word", "__init__")]),
        ("src_a.py is it", [("word", "src_a.py")]),
        ("see https://x.org/a.", [("word", "https://x.org/a")]),
        ("e.g. it, i.e. this", []),
        ("../ and ./ and //", []),
        ("他说『今天上线』和「明天」", [("quotation", "今天上线"), ("quotation", "明天")]),
        ('he said "no" and "never"', [("quotation", "never")]),
        ('he said "" and "yes" and "so"', []),
        ('he said "yes!"', [("quotation", "yes!")]),
        ("- read/write: done", []),
        ("- src/a.py: done", [("word", "src/a.py")]),
        ("## The Old Plan\nby The Old Man", [("name", "The Old Man")]),
        ("Next Steps Now: none", []),
        ("```sh\n$ make all  # everything\n# a remark\n```", [("code", "make all")]),
        ("```python\nmake all\n```", []),
        ("```sh\nmake all\n```\nand make it", [("code", "make all")]),
        ("` ` and `x`", [("code", "x")]),
    ],
)  # fmt: skip
def test_R5_what_is_a_claim(text: str, found: list[tuple[str, str]]) -> None:
    made = claims(text)
    assert [(claim.kind, claim.text) for claim in made] == found
    assert all(text[claim.start : claim.end].find(claim.text) >= 0 for claim in made)


def test_R5_the_previous_summary_counts_as_a_source() -> None:
    assert wrong("Then `make halberd` was run.") == ("make halberd",)
    assert not wrong("Then `make halberd` was run.", previous="Use `make halberd`.")


def test_R5_remove_takes_the_sentence_and_nothing_else() -> None:
    text = "# Notes\n- LoginForm is fixed. It has 99999 lines. Done.\n- Built with `make halberd`.\n文件修好了。一共有418行。下一步测试。\n"
    removed = verify(text, SOURCES, action="remove")
    assert removed.text == "# Notes\n- LoginForm is fixed. Done.\n文件修好了。下一步测试。\n"


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("All fine.\n`make halberd` was run.\nDone.\n", "All fine.\nDone.\n"),
        ("All fine. `make halberd` was run. Done.", "All fine. Done."),
        ("`make halberd` was run. All fine.", "All fine."),
        ("- `make halberd`\n- all fine\n", "- all fine\n"),
        ("It ran. `make halberd`! `make anvil`? Yes.\n", "It ran. Yes.\n"),
    ],
)
def test_R5_a_sentence_with_an_unsupported_claim_goes_and_its_neighbours_stay(text: str, rest: str) -> None:
    assert verify(text, SOURCES, action="remove").text == rest


def test_claims_inside_code_fences() -> None:
    sketch = "```typescript\nclass LoginForm {\n  submitAll(): void // halberd/queue.ts\n}\n```"
    assert set(wrong(sketch)) == {"submitAll", "halberd/queue.ts"}  # what is literal, not the sketch itself
    shell = "```sh\nnpm run check\nmake halberd\n# a remark\n```\nThen `npm run check`."
    assert wrong(shell) == ("make halberd",)


def test_small_numbers_and_ordinals_are_counted_not_quoted() -> None:
    assert not wrong("1. three of 5 steps\n2. done\n13) last of 7\n- [x] 14. more")


def test_claims_do_not_overlap() -> None:
    found = claims('See `src/a_b/c.py` at https://x.org/a_b/c.py, "src/a_b/c.py", and src/a_b/c.py 4711.')
    assert [claim.kind for claim in found] == ["code", "word", "quotation", "word", "number"]
    assert all(a.end <= b.start for a, b in pairwise(found))


@given(st.text(alphabet="abcdefghij ,.!?\n的我们是", max_size=300))
def test_text_without_claims_is_unchanged(text: str) -> None:
    plain = " ".join(word for word in text.split(" ") if "." not in word.strip("."))
    found = verify(plain, SOURCES)
    assert (found.text, found.unverified) == (plain, ())


@given(st.text(max_size=400), st.sampled_from(["mark", "remove"]))
def test_any_text_is_survived_and_marks_are_all_that_is_added(text: str, action: str) -> None:
    found = verify(text, SOURCES, action=action)
    marks = found.text.count(MARK) - text.count(MARK) if action == "mark" else 0
    assert marks >= len(found.unverified) * (action == "mark")
    assert len(found.text) <= len(text) + len(MARK) * marks
    assert found.unverified or found.text == text


@given(st.text(max_size=300))
def test_what_the_sources_say_word_for_word_holds(text: str) -> None:
    assert not verify(text, [SummarySource("s", m.user(text))]).unverified


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

    if not JUDGED:
        verify(unit * (20_000 // len(unit)), SOURCES[:2])  # comes to an end
        return
    # Ten times the text may take ten times as long, and some noise; a quadratic pattern takes a hundred times.
    short, long = seconds(6_000), seconds(60_000)
    assert long < 40 * short + 0.2
