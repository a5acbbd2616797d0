"""What all adapters share: conversations by name, and several processes at one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from refold import entries as e
from refold import messages as m
from refold.integrations import conversation as shared
from refold.integrations.conversation import Conversations
from refold.loop import run
from refold.messages import assistant, user


def conversations(folder: Path) -> Conversations:
    return Conversations(window=8000, store=f"sqlite:{folder / 'agent.db'}")


def test_stored_conversations_are_closed_when_there_are_many_and_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "MAX_OPEN_CONVERSATIONS", 3)
    ours = conversations(tmp_path)
    for number in range(9):
        run(run(ours.named(f"c{number}")).take([user(f"This is {number}.")]))
    assert len(ours._open) == 3
    assert run(run(ours.named("c0")).history("openai")) == [{"role": "user", "content": "This is 0."}]


def test_conversations_in_memory_are_never_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "MAX_OPEN_CONVERSATIONS", 1)
    ours = Conversations(window=8000)
    for number in range(4):
        run(run(ours.named(f"c{number}")).merge([user(f"This is {number}.")]))
    assert [len(run(ours.named(f"c{number}")).session) for number in range(4)] == [1] * 4


def test_what_another_process_wrote_is_seen_and_gone_on_from(tmp_path: Path) -> None:
    here, there = (run(conversations(tmp_path).named("shared")) for _ in range(2))
    said = [user("One.")]
    for number, conversation in enumerate((here, there, here, there)):
        turn = run(conversation.take(said))
        assert [message.text for message in turn.view.messages] == [message.text for message in said]
        reply = assistant(f"Answer {number}.")
        run(turn.answered(reply))
        said += [reply, user(f"Question {number}.")]
    here.session.refresh()
    there.session.refresh()
    assert [entry.id for entry in here.session.path] == [entry.id for entry in there.session.path]
    assert len(here.session.path) == 8


def test_what_another_list_said_is_not_recalled() -> None:
    """Two users whose lists go to one name: each has a branch, and recall stays on it."""
    conversations = Conversations(window=4_000)

    async def work() -> list[str]:
        conversation = await conversations.named("default")
        lists = [
            [m.user("Hello."), m.assistant("Hello."), m.user("My harbour is called Mauritius.")],
            [m.user("Hello."), m.assistant("Hello."), m.user("What is my harbour called?")],
        ]
        said: list[str] = []
        for given in lists:
            await conversation.take(given)
            [key] = [e.key(x.id) for x in conversation.session.entries if "Mauritius" in str(x)]
            said += [await conversation.recall(asked) for asked in ({"query": "harbour"}, {"keys": [key]})]
        return said

    own, by_key, *others = run(work())
    assert "Mauritius" in own and "Mauritius" in by_key
    assert not any("Mauritius" in text for text in others)
