from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from msgspec import json

from refold import messages as m
from refold.entries import key
from refold.format import encode
from refold.registry.sessions import open as open_session
from refold.session import Session


def call(*arguments: str) -> Result:
    from refold.cli import main

    return CliRunner().invoke(main, ["recall", *arguments], catch_exceptions=False)


@pytest.fixture
def session(tmp_path: Path) -> tuple[str, Session]:
    name = f"jsonl:{tmp_path / 'talk.jsonl'}"
    session = open_session(name)
    for message in (
        m.user("Fix the login bug in src/auth.py"),
        m.assistant("", m.call("c", "Read", path="src/auth.py")),
        m.result("c", "def check_token(): \x1b[31mraise\x1b[0m\x07 Expired\u202e"),
        m.user("Thanks, now the docs"),
    ):
        session.append(message)
    return str(tmp_path / "talk.jsonl"), session


def test_hits_as_json(session: tuple[str, Session]) -> None:
    file, talk = session
    result = call(file, "check_token", "-k", "1", "--json")
    hits = json.decode(result.stdout)["hits"]
    assert result.exit_code == 0 and len(hits) == 1
    assert {"entry_id", "key", "turn", "score", "text"} <= hits[0].keys()
    assert hits[0]["entry_id"] == talk.entries[2].id and hits[0]["key"] == key(talk.entries[2].id)


def test_turns_keys_and_conditions(session: tuple[str, Session]) -> None:
    file, talk = session
    hits = json.decode(call(file, "--turns", "1-2", "--json", "-k", "9").stdout)["hits"]
    assert [hit["turn"] for hit in hits] == [1, 1, 1, 2]
    wanted = [key(talk.entries[0].id), talk.entries[3].id]
    hits = json.decode(call(file, "--keys", ",".join(wanted), "--json").stdout)["hits"]
    assert {hit["entry_id"] for hit in hits} == {talk.entries[0].id, talk.entries[3].id}
    assert len(json.decode(call(file, "--tool", "read", "--json").stdout)["hits"]) == 2
    assert json.decode(call(file, "token", "--until", "2001-01-01", "--json").stdout)["hits"] == []


def test_people_see_turns_and_no_control_characters(session: tuple[str, Session]) -> None:
    for more in ((), ("--full",)):
        result = call(session[0], "token", *more)
        assert result.exit_code == 0 and "turn 1" in result.stdout and "check_token" in result.stdout
        assert not set("\x07\u202e") & set(result.stdout) and "\x1b[31mraise" not in result.stdout


def test_exit_codes(session: tuple[str, Session]) -> None:
    assert call(session[0], "xylophone", "--json").exit_code == 1
    assert call(session[0]).exit_code == 2
    assert call(session[0], "--turns", "x").exit_code == 2
    result = call(session[0], "--keys", "nosuchkey", "--json")
    assert result.exit_code == 1 and json.decode(result.stdout)["unknown"] == ["nosuchkey"]


def test_a_query_that_is_a_key_is_the_key(session: tuple[str, Session]) -> None:
    file, talk = session
    third = talk.entries[2].id
    for query in (key(third), third, "#2"):
        hits = json.decode(call(file, query, "--json").stdout)["hits"]
        assert [hit["entry_id"] for hit in hits] == [third]
    talk.append(m.user("see issue #4471"))
    assert "issue #4471" in call(file, "#4471").stdout


@pytest.mark.parametrize("query", ["a", "the", "Is it the"])
def test_a_query_of_function_words_finds_nothing_and_says_why(
    session: tuple[str, Session], query: str
) -> None:
    result = call(session[0], query)
    assert result.exit_code == 1 and not result.stdout
    assert f"Nothing found; {query!r} has no word to search for" in result.stderr


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (("--since", "2130-01-01"), "no entry meets --since"),
        (("--tool", "Nope"), "no entry meets --tool"),
        (("--path", "nope.py"), "no entry meets --path"),
        (("--turns", "2", "--tool", "Read"), "no entry with these words meets --turns and --tool"),
        (("--budget", "1"), "the first hit is larger than --budget 1"),
    ],
)
def test_the_condition_that_leaves_nothing_is_named(
    session: tuple[str, Session], more: tuple[str, ...], why: str
) -> None:
    result = call(session[0], "token", *more)
    assert result.exit_code == 1
    assert f"refold: Nothing found; {why}\n" in result.stderr


def test_entries_of_another_process_are_found(session: tuple[str, Session], tmp_path: Path) -> None:
    file, talk = session
    late = talk.make(type(talk.entries[0]), message=m.assistant("The pelican is ready."))
    talk.append(late)
    assert encode(late)
    assert json.decode(call(file, "pelican", "--json").stdout)["hits"][0]["entry_id"] == late.id


def test_D6_turns_come_back_whole_on_the_path(tmp_path: Path) -> None:
    file = str(tmp_path / "s.jsonl")
    session = open_session(f"jsonl:{file}")
    for turn in range(1, 6):
        session.append(m.user(f"question {turn}"))
        for step in range(4):
            id = f"c{turn}.{step}"
            session.append(m.assistant("", m.call(id, "Read", path=f"{turn}.{step}.py")))
            session.append(m.result(id, f"result {turn}.{step} " * 100))
        session.append(m.assistant(f"answer {turn}"))
    hits = json.decode(call(file, "--turns", "3-4", "--full", "--json").stdout)["hits"]
    assert [hit["turn"] for hit in hits] == [3] * 10 + [4] * 10
    assert sum("result 3.2 " * 99 in hit["text"] for hit in hits) == 1
    assert len(json.decode(call(file, "--turns", "3-4", "-k", "2", "--json").stdout)["hits"]) == 2
    session.move(session.path[19].id)
    session.append(m.user("another third question"))
    there = call(file, "--turns", "3", "--full", "--json")
    assert [hit["text"] for hit in json.decode(there.stdout)["hits"]] == ["another third question"]
    missing = call(file, "--turns", "5,3,9", "--json")
    assert json.decode(missing.stdout)["unknown_turns"] == [5, 9]
    assert "There is no turn 5, 9; turns 1 to 3 exist." in missing.stderr
    assert "There is no turn 30; turns 1 to 3 exist." in call(file, "--turns", "30").stderr
