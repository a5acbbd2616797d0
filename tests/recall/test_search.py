from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold import entries as e
from refold import messages as m
from refold.recall import Index, LogIndex, index_of, recall, search
from refold.session import Session
from tests.strategies import examples

DAY = 86_400.0


def session_of(*said: m.Message) -> Session:
    session = Session(clock=lambda: 1.7e9)
    for message in said:
        session.append(message)
    return session


@pytest.fixture
def work() -> Session:
    return session_of(
        m.user("Never touch the migrations. Fix the login bug."),
        m.assistant("Let me look.", m.call("c1", "Read", path="src/auth/login.py")),
        m.result("c1", "def check_password(user, given):\n    return user.hash == given"),
        m.assistant(
            "The hash is compared in plain.",
            m.call("c2", "Bash", command="pytest tests/test_login.py -k token"),
        ),
        m.result("c2", "FAILED tests/test_login.py::test_expired_token - KeyError: 'exp_claim'"),
        m.assistant("The token has no exp_claim; I add it."),
        m.user("Good. 然后更新数据库的索引。"),
        m.assistant("Done."),
    )


def test_R1_every_entry_comes_back_by_its_key(work: Session) -> None:
    for entry in work.entries:
        hits = recall(work, keys=[e.key(entry.id)])
        assert [hit.entry_id for hit in hits] == [entry.id]


@pytest.mark.parametrize(
    ("query", "position"),
    [
        ("checkPassword", 2),
        ("src/auth/login.py", 1),
        ("exp_claim", 4),
        ("数据库", 6),
        ("migration", 0),
        ("KeyError", 4),
    ],
)
def test_R1_words_identifiers_paths_and_chinese_find_their_entry(
    work: Session, query: str, position: int
) -> None:
    assert work.entries[position].id in [hit.entry_id for hit in recall(work, query, limit=2)]


def test_hit_has_the_documented_fields(work: Session) -> None:
    hit = msgspec.to_builtins(recall(work, "exp_claim")[0])
    assert {"entry_id", "key", "turn", "score", "text"} <= hit.keys()
    assert hit["key"] == e.key(hit["entry_id"]) and hit["turn"] == 1 and "exp_claim" in hit["text"]


def test_R1_folded_masked_and_branched_away_entries_are_found(work: Session) -> None:
    first, last = work.path[0].id, work.path[4].id
    work.append(
        work.make(e.Fold, edits=(e.Edit(first, last, (m.user("summary"),)),), preset="x", summary="summary")
    )
    assert recall(work, "check_password")[0].entry_id == work.entries[2].id
    left = work.append(m.assistant("The zebra migration ran on staging."))
    work.move(first)
    work.append(m.assistant("Another way."))
    found = recall(work, "zebra staging")
    assert found[0].entry_id == left.id and work.position(left.id) is None


def test_R1_what_is_appended_later_is_found_and_old_hits_stay(work: Session) -> None:
    before = recall(work, "exp_claim", limit=1)
    new = work.append(m.user("The quokka build is broken"))
    assert recall(work, "quokka", limit=1)[0].entry_id == new.id
    assert recall(work, "exp_claim", limit=1)[0].entry_id == before[0].entry_id


def test_conditions_narrow_down(work: Session) -> None:
    index = index_of(work)
    assert {h.role for h in search(index, tool="read", limit=9)} == {"assistant", "tool"}
    assert [h.turn for h in search(index, turns=[2], limit=9)] == [2, 2]
    first_turn = {h.entry_id for h in search(index, "token", turns=[1], limit=9)}
    assert set() < first_turn <= {x.id for x in work.path[:6]}
    of_file = search(index, file="tests/test_login.py", limit=9)
    assert of_file and all("login.py" in h.text for h in of_file)
    assert search(index, "token", since=1.8e9) == [] and search(index, "token", until=1.8e9)
    assert search(index) == [] and search(index, "   ") == []


def test_tools_of_results_are_known_by_their_call(work: Session) -> None:
    assert [h.role for h in search(index_of(work), "exp_claim", tool="Bash", limit=1)] == ["tool"]


@pytest.mark.parametrize("query", ["(a+)+$", ".*", "[", "\\", '"', "NEAR(", "*"])
def test_signs_of_a_query_language_find_nothing(work: Session, query: str) -> None:
    assert recall(work, query, limit=9) == []


@pytest.mark.parametrize(
    ("query", "word"), [("exp_claim) OR (x", "exp_claim"), ("* -token", "token"), ('"KeyError', "KeyError")]
)
def test_queries_are_literal(work: Session, query: str, word: str) -> None:
    assert recall(work, query, limit=1)[0].entry_id == work.entries[4].id
    assert [hit.entry_id for hit in recall(work, query)] == [hit.entry_id for hit in recall(work, word)]


def test_text_without_words_is_found_literally() -> None:
    session = session_of(m.user("a -> b"), m.assistant("x == y"))
    assert [h.text for h in recall(session, "->")] == ["a -> b"]


def test_limits_and_budget_bound_the_answer(work: Session) -> None:
    index = index_of(work)
    assert len(search(index, "token login hash user", limit=2)) == 2
    assert search(index, "token login hash", budget=0) == []
    few = search(index, "token login hash user", limit=8, budget=40)
    assert 0 < len(few) < 8 and sum(len(h.text.encode()) for h in few) <= 4 * 40


def test_snippets_show_the_place_and_no_control_characters() -> None:
    text = "filler words " * 4000 + "the \x1b[31mneedle\x1b[0m is here " + "more filler " * 4000
    hit = recall(session_of(m.user(text)), "needle")[0]
    assert "needle is here" in hit.text and len(hit.text) < 400 and "\x1b" not in hit.text


def test_the_answer_to_a_question_is_preferred_to_the_question() -> None:
    session = session_of(
        m.user("Ann: I had soup today."),
        m.assistant("Bob: Nice weather here."),
        m.user("Ann: What instrument did you start to learn?"),
        m.assistant("Bob: The clarinet, since last spring!"),
        m.user("Ann: Lovely."),
        m.assistant("Bob: Yes."),
        m.user("Ann: See you."),
    )
    assert "clarinet" in recall(session, "Which instrument does Bob learn?")[0].text


def test_a_question_in_words_is_answered_by_what_was_said_not_by_what_tools_printed() -> None:
    session = session_of(m.user("Bring the import of the price list back to life."))
    for number in range(8):
        session.append(m.assistant("", m.call(f"c{number}", "Bash", command=f"make import part={number}")))
        session.append(m.result(f"c{number}", "import: work on the first list\nimport did not work\n" * 3))
    session.append(m.assistant("The import did not work because the first line of the list is a comment."))
    session.append(m.user("Fine."))
    [first, *_] = recall(session, "why did the import not work at first?")
    assert first.role == "assistant" and "because" in first.text
    # An identifier asks for the place where it stands, whoever wrote it.
    assert recall(session, "part=3")[0].role in ("assistant", "tool")


def test_a_question_about_a_day_prefers_that_day() -> None:
    index = Index()
    for day, month in ((3, "May"), (9, "June")):
        index.add(f"a{day}", m.user(f"[1:56 pm on {day} {month}, 2023]\nAnn: Hello."), day)
        index.add(f"b{day}", m.assistant("Bob: Hi."), day)
        index.add(f"c{day}", m.assistant("Bob: How are things?"), day)
        index.add(f"e{day}", m.assistant("Bob: Really?"), day)
        index.add(f"d{day}", m.user("Ann: I went swimming in the lake."), day)
    for when, wanted in (("May 2023", "d3"), ("June 2023", "d9")):
        hits = search(index, f"Where did Ann go swimming in {when}?", limit=10)
        assert next(hit.entry_id for hit in hits if hit.entry_id in ("d3", "d9")) == wanted
        scores = {hit.entry_id: hit.score for hit in hits}
        other = "d9" if wanted == "d3" else "d3"
        assert scores[wanted] > scores[other] + 5


def test_roles_are_speakers_where_nobody_has_a_name() -> None:
    session = session_of(m.assistant("Deploy uses port 8080."), m.user("Deploy should use port 9090."))
    assert "9090" in recall(session, "Which deploy port did the user want?")[0].text


def test_several_hits_cover_a_call_together() -> None:
    said: list[m.Message] = [m.user("go")]
    for n in range(6):
        said += [
            m.assistant("", m.call(f"a{n}", "Read", path="core/alpha.py")),
            m.result(f"a{n}", "alpha_one alpha_two alpha_three"),
        ]
    said += [m.assistant("", m.call("b", "Read", path="core/beta.py")), m.result("b", "beta_flag")]
    session = session_of(*said)
    hits = recall(session, "Edit core/alpha.py alpha_one alpha_two alpha_three beta_flag", limit=3)
    assert any("beta_flag" in hit.text for hit in hits)


def test_hidden_shell_commands_are_not_recalled() -> None:
    session = session_of(m.user("hi"), m.Bash("cat secret.txt", "topsecretword", hidden=True))
    assert recall(session, "topsecretword") == []


WORD = st.sampled_from(
    [
        "alpha",
        "beta",
        "gamma",
        "delta",
        "login",
        "token",
        "user_id",
        "src/a.py",
        "数据",
        "42917",
        "when",
        "the",
    ]
)
TEXT = st.lists(WORD, max_size=12).map(" ".join)


@settings(max_examples=examples(60))
@given(st.lists(TEXT, max_size=20), TEXT, st.integers(1, 8))
def test_an_index_grown_bit_by_bit_answers_like_one_built_at_once(
    texts: list[str], query: str, limit: int
) -> None:
    session = Session(clock=lambda: 0.0)
    for at, text in enumerate(texts):
        session.append(m.user(text) if at % 3 else m.assistant(text))
        recall(session, query)
    grown, whole = recall(session, query, limit=limit), search(LogIndex(session.entries), query, limit=limit)
    assert grown == whole and len(grown) <= limit
    assert [h.score for h in grown] == sorted((h.score for h in grown), reverse=True)


@settings(max_examples=examples(40))
@given(st.lists(TEXT, min_size=1, max_size=12), st.data())
def test_R1_a_unique_word_always_comes_back_first(texts: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(texts) - 1))
    texts[at] += " zanzibar"
    session = session_of(*(m.user(text) for text in texts))
    assert recall(session, "zanzibar", limit=1)[0].entry_id == session.entries[at].id


def test_a_large_log_gives_what_scoring_everything_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    from refold.recall import rank

    index = Index()
    for n in range(6000):
        index.add(str(n), m.user(f"common words here number {n} topic{n % 40} item{n % 977}"), n)
    question = rank.parse_question(index, "common topic7 item500 words")
    pruned = rank.rank(index, question, limit=3)
    monkeypatch.setattr(rank, "WHOLE_LIMIT", 10**9)
    assert [i for i, _ in rank.rank(index, question, limit=3)] == [i for i, _ in pruned]


def test_a_long_question_is_answered_by_its_rarest_words() -> None:
    index = Index()
    for n in range(6000):
        index.add(str(n), m.user(f"word{n % 97} item{n % 500}"), n)
    index.add("rare", m.user("the quokka and the pelican"), 6001)
    question = " ".join(f"word{n}" for n in range(90)) + " quokka pelican"
    assert search(index, question, limit=1)[0].entry_id == "rare"


def test_a_condition_reaches_every_entry_of_a_large_log() -> None:
    index = Index()
    for n in range(20_000):
        index.add(str(n), m.user(f"common words {n}"), n)
    assert [h.entry_id for h in search(index, "words common", turns=[3], limit=5)] == ["3"]
