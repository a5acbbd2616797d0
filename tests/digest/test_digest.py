"""The digest as a whole: it fits, it is the same every time, and the tenth pass keeps what the first kept."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refold import messages as m
from refold import tokens
from refold.digest import Digest, FactDigest, Source, digest
from refold.entries import key
from refold.errors import InvalidValue
from refold.facts.call_text import ARGUMENT
from tests.data import shared
from tests.strategies import examples
from tests.timing import seconds_of, within

COUNTER = tokens.get("o200k")
FORMS: tuple[Literal["readable", "dense"], ...] = ("readable", "dense")


def sources(*messages: m.Message) -> list[Source]:
    return [Source(message=message, id=f"e{i}", key=key(f"e{i}")) for i, message in enumerate(messages)]


def sections(text: str) -> dict[str, str]:
    found = (part.partition("\n") for part in text.removeprefix("## ").split("\n\n## "))
    return {title: rows for title, _, rows in found}


def work(number: int) -> list[Source]:
    """A piece of work with `number` steps, each with names of its own."""
    said: list[m.Message] = [
        m.user("Port the billing service to Python 3.13. Never touch the migrations folder.")
    ]
    for i in range(number):
        path = f"services/billing/module_{i}.py"
        said += [
            m.assistant(
                f"Module {i} depends on ledger_table_{i} and must run before the nightly export.",
                m.call(f"c{i}", "Read", path=path),
            ),
            m.result(
                f"c{i}", f"def handler_{i}(): ...\nerror: ledger_table_{i} is locked\n" + "filler line\n" * 40
            ),
            m.assistant(f"We decided to use advisory lock {5000 + i} instead of the table lock in step {i}."),
        ]
    return sources(*said, m.user("Now write the release notes."))


# ── the budget ──────────────────────────────────────────────────────────────────────────────────

_BITS = ["We met Anna in Oslo.", "不要删除数据库！", "src/app/main.py", "fooBar", "snake_case_name", "123456", "?!", "\n",
         "[image: a dog]", "yesterday", "User: x:", "\n## Facts\n"]  # fmt: skip
_TEXT = st.text(max_size=400) | st.lists(st.sampled_from(_BITS), max_size=60).map(" ".join)
_MESSAGE = st.one_of(
    _TEXT.map(m.user),
    _TEXT.map(m.assistant),
    st.tuples(_TEXT, _TEXT).map(lambda pair: m.assistant(pair[0], m.call("c", "Bash", command=pair[1]))),
    _TEXT.map(lambda text: m.result("c", text)),
    _TEXT.map(m.system),
    _TEXT.map(lambda text: m.Bash(command="ls", output=text, exit_code=1)),
)


@settings(deadline=None, max_examples=examples(120), suppress_health_check=[HealthCheck.too_slow])
@given(
    said=st.lists(_MESSAGE, max_size=25),
    budget=st.integers(-5, 900),
    previous=_TEXT,
    form=st.sampled_from(FORMS),
    kept=st.integers(0, 5),
)
def test_budget_is_never_passed(
    said: list[m.Message],
    budget: int,
    previous: str,
    form: Literal["readable", "dense"],
    kept: int,
) -> None:
    every = sources(*said)
    made = Digest(every[kept:], previous, every[:kept])
    assert COUNTER.text(made.text(budget, COUNTER, form)) <= max(0, budget)
    assert COUNTER.text(made.text(budget // 2, COUNTER, form)) <= max(0, budget // 2)


@pytest.mark.parametrize("form", FORMS)
def test_budget_is_used(form: Literal["readable", "dense"]) -> None:
    for budget in (500, 1_000, 2_000):
        text = digest(work(80), budget=budget, counter=COUNTER, form=form)
        assert COUNTER.text(text) >= 0.9 * budget


class Joins:
    """Counts characters, and much more where sections meet: parts do not add up to the whole."""

    name = "joins"

    def text(self, text: str) -> int:
        return len(text) + 40 * text.count("\n\n## ")

    def message(self, message: m.Message) -> int:
        return self.text(message.text)

    def tools(self, tools: Sequence[Any]) -> int:
        return 0


def test_the_whole_fits_where_parts_do_not_add_up() -> None:
    for budget in range(100, 2_000, 150):
        text = digest(work(20), budget=budget, counter=Joins())
        assert Joins().text(text) <= budget
        assert text or budget < 400


def test_estimating_counters_hold_too() -> None:
    for name in ("bytes4", "chars"):
        counter = tokens.get(name)
        assert counter.text(digest(work(30), budget=700, counter=counter)) <= 700


# ── what is in it ───────────────────────────────────────────────────────────────────────────────


def test_sections_of_a_piece_of_work() -> None:
    made = sections(digest(work(12), budget=1_200, counter=COUNTER))
    assert [*made] == ["Goal", "Done"]
    assert made["Goal"] == "Port the billing service to Python 3.13. Never touch the migrations folder."
    rows = made["Done"].split("\n")
    assert rows[0].startswith("User: Port the billing service to Python 3.13. Never touch")
    assert rows[1:4] == [
        "- Module 0 depends on ledger_table_0 and must run before the nightly export.",
        "  Read services/billing/module_0.py",
        "- We decided to use advisory lock 5000 instead of the table lock in step 0.",
    ]
    assert rows[-1].startswith("User: Now write the release notes. [")


def test_of_a_long_piece_of_work_the_newest_is_told_and_older_requests_and_answers() -> None:
    said: list[m.Message] = []
    for n in range(30):
        reads = [m.call(f"c{n}-{k}", "Read", path=f"src/{n}/{k}.py") for k in range(4)]
        said += [m.user(f"Do part {n}."), m.assistant("", *reads), *(m.result(x.id, "x") for x in reads)]
        said.append(m.assistant(f"Part {n} works."))
    rows = sections(digest(sources(*said), budget=900, counter=COUNTER))["Done"].split("\n")
    reads = [n for n in range(30) if f"  Read src/{n}/3.py" in rows]
    answers = [n for n in range(30) if f"- Part {n} works." in rows]
    assert reads == [*range(reads[0], 30)] and answers == [*range(answers[0], 30)]
    assert answers[0] < reads[0] - 4
    assert rows[0] == f"({3 * 30 - sum(not row.startswith(('  ', '(')) for row in rows)} steps are left out)"


def test_a_long_request_is_told_by_more_than_how_it_begins() -> None:
    plan = "Do this.\n\n" + "\n\n".join(f"Table_{n} must be moved to shard_{n}." for n in range(60))
    calls = [m.call(f"c{n}", "Read", path=f"src/{n}.py") for n in range(90)]
    said = sources(
        m.user(plan), *(x for call in calls for x in (m.assistant("", call), m.result(call.id, "x")))
    )
    rows = sections(digest(said, budget=1_000, counter=COUNTER))["Done"].split("\n")
    [asked] = [row for row in rows if row.startswith("User: ")]
    assert asked.endswith(f" [{key('e0')}]") and asked.count("shard_") > 15
    assert rows[-1] == "- Read src/89.py"


def test_where_all_fits_more_is_told_of_answers() -> None:
    plan = "\n\n".join(f"{n}. Move table_{n} because lock {9_000 + n} must not be held." for n in range(30))
    said = sources(m.user("Plan it."), m.assistant("", m.call("c", "Read", path="a.py")), m.result("c", "x"),
                   m.assistant(plan))  # fmt: skip
    short, long = (digest(said, budget=budget, counter=COUNTER) for budget in (200, 2_000))
    assert "lock 9029" in long and long.count("because") > 2 * short.count("because") > 0


def test_what_was_done_is_told_with_its_outcome_the_newest_where_not_all_fits() -> None:
    said: list[m.Message] = [m.user("Make it pass.")]
    for n in range(60):
        said += [
            m.assistant("", m.call(f"c{n}", "Bash", command=f"pytest tests/test_{n}.py")),
            m.result(f"c{n}", f"{n + 1} failed in 0.1s", is_error=True),
        ]
    made = digest(sources(*said), budget=400, counter=COUNTER)
    rows = sections(made)["Done"].split("\n")
    assert rows[-1] == "- Bash pytest tests/test_59.py → failed: 60 failed"
    assert 3 < len(rows) < 60 and rows[0] != rows[1]
    later = digest(sources(m.user("And now?")), budget=400, counter=COUNTER, previous=made)
    assert rows[-1] in sections(later)["Done"]


def test_R11_the_usual_folder_is_not_named_and_no_name_is_cut() -> None:
    usual, other = "/home/ada/work/app", "/home/ada/work/" + "deep/" * 12 + "down"
    calls = [m.call(f"c{n}", "shell", command=f"make {n}", workdir=usual) for n in range(3)]
    elsewhere = m.call("d", "shell", command="sed -n '1,220p' 'a/b.ts' " * 9, workdir=other)
    made = digest(sources(m.assistant("", *calls), m.assistant("", elsewhere)), budget=400, counter=COUNTER)
    rows = [row.removeprefix("- ").strip() for row in sections(made)["Done"].split("\n")]
    assert rows[:4] == [
        "(paths are given from /home/ada/work/app/)", "shell make 0", "shell make 1", "shell make 2",
    ]  # fmt: skip
    assert rows[4].endswith("/deep/down)") and len(rows[4]) <= ARGUMENT + len("shell ")
    assert "(in …/deep" in rows[4]


def test_readable_facts_are_whole_sentences() -> None:
    made = FactDigest(work(10)).lines(800, COUNTER, "readable")
    assert "Module 9 depends on ledger_table_9 and must run before the nightly export." in made


def test_dialogue_keeps_speakers_and_dates_and_drops_greetings() -> None:
    said = sources(
        m.user("[1:56 pm on 8 May, 2023]\nAnna: Hey Ben! How are you?"),
        m.assistant("Ben: Hi Anna! I moved to Lisbon last month. Wow!"),
        m.user("Anna: Thanks, Ben! I adopted a greyhound named Pixel yesterday."),
        m.assistant("Ben: That's so cool!"),
        m.user("[9:00 am on 2 June, 2023]\nAnna: Hello! Pixel won a race."),
        m.assistant("Ben: Great! My sister Clara visits tomorrow."),
        m.user("Anna: Nice!"),
        m.assistant("Ben: Yes!"),
    )
    text = FactDigest(said).lines(300, COUNTER)
    assert [line.partition(" [")[0] for line in text.split("\n")] == [
        "8 May 2023 Ben: moved to Lisbon April 2023",
        "Anna: adopted greyhound named Pixel 7 May 2023",
        "2 June 2023 Anna: Pixel won race",
        "Ben: sister Clara visits 3 June 2023",
    ]
    assert "Hey" not in text and "cool" not in text


def test_chinese_sentences_are_cut_and_chosen() -> None:
    said = sources(
        m.user("你好！请把支付服务迁移到新的数据库。不要修改旧的迁移脚本！"),
        m.assistant("好的。我发现订单表在柏林机房，密码轮换每三十天一次。嗯。"),
        m.user("谢谢！下周上线。"),
    )
    text = digest(said, budget=400, counter=COUNTER, form="readable")
    assert "请把支付服务迁移到新的数据库。" in text
    assert "我发现订单表在柏林机房，密码轮换每三十天一次。" in text
    assert "不要修改旧的迁移脚本！" in text


def test_time_of_a_source_dates_its_words() -> None:
    said = [Source(message=m.user("I shipped the parser yesterday."), id="e0", time=1683504000.0)]
    assert "7 May 2023" in digest(said, budget=100, counter=COUNTER)


@pytest.mark.parametrize(("apart", "dated"), [(0.001, False), (0.0, True), (60.0, True)])
def test_relative_dates_need_the_times_at_which_the_words_were_said(apart: float, dated: bool) -> None:
    texts = [
        "I shipped the parser yesterday.",
        "The tests of the parser ran on Linux.",
        "Nobody saw an error.",
    ]
    said = [
        Source(message=m.user(text), id=f"e{n}", time=1683504000.0 + n * apart)
        for n, text in enumerate(texts)
    ]
    assert ("7 May 2023" in digest(said, budget=100, counter=COUNTER)) is dated


def test_tool_output_gives_errors_not_bulk() -> None:
    said = sources(
        m.user("Build it."),
        m.assistant("", m.call("c", "Bash", command="make")),
        m.result(
            "c",
            "compiling widgets\n" * 500 + "error: gadget.h not found\n",
            is_error=True,
        ),
    )
    text = digest(said, budget=300, counter=COUNTER)
    assert "gadget.h not found" in text
    assert "compiling widgets" not in text


# ── the same every time ─────────────────────────────────────────────────────────────────────────

_SCRIPT = """
from tests.digest.test_digest import ties, COUNTER, digest
print(digest(ties(), budget=700, counter=COUNTER))
"""


def ties() -> list[Source]:
    """Sentences whose words are equally rare, so that the order of a sum decides."""
    return sources(
        *(
            m.user(
                " ".join(
                    f"{stem}{i // share}q"
                    for stem, share in zip(
                        ("ba", "de", "fo", "gu", "ki", "lu"), (1, 2, 3, 5, 7, 11), strict=True
                    )
                )
            )
            for i in range(2_310 // 5)
        )
    )


@pytest.mark.slow
def test_same_bytes_whatever_the_hash_seed() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", _SCRIPT],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(outputs) == 1 and outputs.pop()


# ── passes ──────────────────────────────────────────────────────────────────────────────────────


def passes(number: int, budget: int) -> str:
    """Digest chunk after chunk, each pass seeing only the new messages and the digest before."""
    text = ""
    for i in range(number):
        chunk: list[m.Message] = [
            m.user(f"Next: review chapter {i}."),
            m.assistant(
                f"Chapter {i} cites professor Halvorsen{i} from Bergen.",
                m.call(f"c{i}", "Read", path=f"book/chapter_{i}.tex"),
            ),
            m.result(f"c{i}", "ok"),
            m.assistant("Nothing special to say about this one."),
        ]
        if i == 0:
            chunk.insert(0, m.user("Edit the Svalbard anthology for print by 14 March 2031."))
        text = digest(sources(*chunk), budget=budget, counter=COUNTER, previous=text)
    return text


@pytest.mark.parametrize("number", [2, 3, 10])
def test_R4_later_passes_keep_the_goal_facts_and_names(number: int) -> None:
    text = passes(number, 900)
    assert "Svalbard anthology" in text and "14 March 2031" in text
    for i in range(number):
        assert f"Halvorsen{i}" in text
        assert f"book/chapter_{i}.tex" in text


def test_ten_passes_in_too_little_room_degrade_but_fit() -> None:
    text = passes(10, 150)
    assert 0 < COUNTER.text(text) <= 150
    assert "Svalbard" in text


def test_recall_keys_survive_a_pass() -> None:
    first = digest(work(40), budget=1_500, counter=COUNTER)
    keys = {line[-8:-1] for line in first.split("\n") if line.endswith("]")}
    second = digest(sources(m.user("And now?")), budget=1_500, counter=COUNTER, previous=first)
    assert keys and len(keys & {line[-8:-1] for line in second.split("\n")}) >= len(keys) // 2


def test_previous_text_whose_sources_are_given_is_not_said_twice() -> None:
    every = work(8)
    first = digest(every, budget=1_500, counter=COUNTER)
    again = digest(every, budget=1_500, counter=COUNTER, previous=first)
    assert again.count("ledger_table_3 and must run") + again.count("ledger_table_3 must run") <= 1


def test_any_summary_can_be_previous() -> None:
    previous = (
        "# Summary\n\nThe user wants the Oslo report.\n- **Deadline**: 3 May\n- Owner: Ingrid Vestergaard"
    )
    text = digest(
        sources(m.user("Continue with the appendix.")), budget=200, counter=COUNTER, previous=previous
    )
    assert "Oslo report" in text and "Ingrid Vestergaard" in text


# ── hostile texts and size ──────────────────────────────────────────────────────────────────────

HOSTILE = {
    "no space": "a" * 1_000_000,
    "digits": "1" * 1_000_000,
    "slashes": "/a" * 500_000,
    "dots": "a." * 500_000,
    "quotes": '"' * 500_000 + "A" * 500_000,
    "brackets": "[" * 500_000 + "image: " * 1000,
    "spaces": " " * 1_000_000,
    "line ends": "\n" * 1_000_000,
    "ago": "a couple of " * 80_000,
    "last": "this past " * 100_000,
    "names": "A. " * 300_000,
    "colons": "a b c: " * 150_000,
    "camel": "aB" * 500_000,
    "chinese": "不要" * 300_000,
    "fences": "```" * 300_000,
    "json": '{"a":' * 150_000,
    "surrogates": "\ud800" * 10_000,
    "nul": "\x00error " * 100_000,
}


@pytest.mark.timing
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_bounded(name: str) -> None:
    text = HOSTILE[name]
    said = sources(
        m.user(text),
        m.assistant(text, m.call("c", "Bash", command=text)),
        m.result("c", text),
        m.user("[1:56 pm on 8 May, 2023]\n" + text),
    )
    with within(5):
        made = digest(said, budget=500, counter=tokens.get("bytes4"), previous=text[:100_000])
        assert tokens.get("bytes4").text(made) <= 500


def test_deep_arguments_do_not_recurse_without_end() -> None:
    deep: object = "src/deep/inside.py"
    for _ in range(200_000):
        deep = [deep]
    said = sources(m.assistant("Look.", m.call("c", "Tool", {"x": deep, "path": "src/shallow/top.py"})))
    with pytest.raises(InvalidValue):
        digest(said, budget=200, counter=COUNTER)


@pytest.mark.timing
@pytest.mark.slow
def test_ten_thousand_messages() -> None:
    yardstick = seconds_of(lambda: sum(range(20_000_000)))
    prose = "The parser of release {} keeps a table of {} widgets for customer {}. "
    said = [
        message
        for i in range(2_500)
        for message in (
            m.user(f"Please look at widget_{i}. " + prose.format(i, i * 7, i % 97) * 8),
            m.assistant(f"Looking at part {i}.", m.call(f"c{i}", "Read", path=f"src/part_{i}/file.py")),
            m.result(f"c{i}", f"value_{i} = compute_{i}(other_{i})\nplain output of the tool\n" * 95),
            m.assistant(prose.format(i, i, i) * 12),
        )
    ]
    every = sources(*said)
    with within(8 * yardstick):  # 2 s where the yardstick takes 0.3 s
        assert COUNTER.text(digest(every, budget=8_000, counter=COUNTER)) <= 8_000


# ── retention on real conversations ─────────────────────────────────────────────────────────────


@pytest.mark.data
@pytest.mark.slow
def test_retention_on_real_dialogues() -> None:
    path = shared("locomo/locomo10.first5.json")
    from benchmarks import dialogues

    assert json.loads(path.read_text(encoding="utf-8"))
    spoken = dialogues.dialogues()[:2]
    for view, floor in ((dialogues.dense, 53.0), (dialogues.readable, 48.0), (dialogues.tail, 25.0)):
        rows = [row[0] for dialogue in spoken for row in dialogues.ask(view(dialogue, 2_000), dialogue)]
        assert 100 * sum(rows) / len(rows) >= floor
