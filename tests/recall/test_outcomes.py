"""What came of a run: found by its call, shown with it; and boilerplate of clients comes last."""

from __future__ import annotations

import pytest

from refold import messages as m
from refold.recall import index_of, recall, tool
from refold.session import Session
from tests.data import DATA, shared
from tests.recall.test_search import session_of

NOISE = "the tests of the linter and the tests of the build are tests; all pass, none fail, in the end. "


@pytest.fixture
def runs() -> Session:
    """Four runs of two commands between prose and files that have all the words of the questions."""
    said: list[m.Message] = [m.user("Repair the loader, then rename it.")]
    outputs = ["2 tests FAILED", "lint: 7 issues", "31 tests ok", "lint: 0 issues"]
    commands = ["make test 2>&1 | tail -5", "make lint", "make test", "make lint 2>&1"]
    for n, (command, output) in enumerate(zip(commands, outputs, strict=True)):
        said += [
            m.assistant(f"Now I read file {n}. {NOISE * 2}", m.call(f"r{n}", "Read", path=f"notes{n}.md")),
            m.result(f"r{n}", NOISE * 40),
            m.assistant("", m.call(f"c{n}", "Bash", command=command)),
            m.result(f"c{n}", f"{'... ' * 200}\n{output}"),
        ]
        if n == 1:
            said += [
                m.assistant("The loader is renamed.", m.call("e1", "Edit", path="loader.py", old_string="def load_old(", new_string="def load(")),
                m.result("e1", "The file loader.py has been updated."),
            ]  # fmt: skip
    return session_of(*said)


@pytest.mark.parametrize(
    ("question", "output"),
    [
        ("did all tests pass?", "31 tests ok"),
        ("did the tests pass in the end?", "31 tests ok"),
        ("the first run of the tests", "2 tests FAILED"),
        ("what did the tests report at first?", "2 tests FAILED"),
        ("what did the lint run say?", "lint: 0 issues"),
        ("did lint fail before the loader was renamed?", "lint: 7 issues"),
        ("did the tests pass after the loader was renamed?", "31 tests ok"),
    ],
)
def test_an_outcome_is_found_with_the_call_it_came_of(runs: Session, question: str, output: str) -> None:
    texts = [hit.text for hit in recall(runs, question, limit=3)]
    [found] = [text for text in texts if output in text]
    assert "make " in found and " → " in found
    assert len([text for text in texts if "make test" in text]) <= 1, "runs of one command are one hit"


def test_the_code_before_a_change_is_shown_with_what_became_of_it(runs: Session) -> None:
    [hit, *_] = recall(runs, "what was load_old called before the change?", limit=3)
    assert "def load_old(" in hit.text and "has been updated" in hit.text


def test_a_model_that_asks_gets_the_call_with_its_result(runs: Session) -> None:
    found = tool.tool_answer(index_of(runs), {"query": "did all tests pass?"}, budget=4_000)
    assert 'call="Bash make test"' in found and "31 tests ok" in found
    asked = tool.tool_answer(index_of(runs), {"query": "load_old"}, budget=4_000)
    assert asked.index("def load_old(") < asked.index("has been updated")


def test_boilerplate_of_clients_comes_last() -> None:
    reminder = "<system-reminder>Deploy with care: deploy only what was tested. Deploy keys are secret.</system-reminder>"
    session = session_of(
        m.system("You deploy things. How to deploy: deploy, deploy, deploy."),
        m.user([m.text(reminder, "program")]),
        m.user("Where do we deploy to?"),
        m.assistant("We deploy to the staging cluster."),
        *(m.assistant(f"Something else, number {n}.") for n in range(20)),
    )
    first, second, *rest = recall(session, "deploy", limit=20)
    assert (first.text, second.text) == ("We deploy to the staging cluster.", "Where do we deploy to?")
    assert [hit.text[:10] for hit in rest[-2:]] == ["<system-re", "You deploy"]
    [only] = recall(session, "keys secret", limit=1)
    assert "Deploy keys" in only.text, "what only a client says is found all the same"


@pytest.mark.data
@pytest.mark.slow
def test_outcomes_are_found_in_real_sessions_of_work() -> None:
    """Twenty questions about four sessions that had no part in finding out how to rank them; 18 today."""
    shared("claude-code-compactions")
    from benchmarks.questions import found

    assert found(DATA)["outcomes"][3] >= 17
