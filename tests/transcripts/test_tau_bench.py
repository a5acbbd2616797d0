"""τ-bench runs."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from refold import transcripts
from refold.errors import FormatError
from tests.data import shared
from tests.transcripts.foreign import counts, lines, load, results, spoken

FILE = "tau-bench/gpt-4o-airline.first80.json"


@pytest.mark.data
def test_all_eighty_runs_have_the_independently_counted_content() -> None:
    total: Counter[str] = Counter()
    for run in json.loads(shared(FILE).read_bytes()):
        loaded = load(json.dumps([run]).encode())
        assert loaded.problems == ()
        assert all(result.name for result in results(loaded))
        total.update(counts(loaded))
    assert dict(+total) == {"system": 80, "user": 639, "assistant": 1060, "tool": 501, "calls": 501}


@pytest.mark.data
def test_one_run_and_what_is_said_about_the_others() -> None:
    first = transcripts.read(shared(FILE))
    assert first.problems[0].text.startswith("holds 80 conversations")
    fourth = transcripts.read(f"{shared(FILE)}#3")
    assert len(spoken(first)) == 32 and len(spoken(fourth)) == 62
    with pytest.raises(FormatError, match="choose 0 to 79"):
        transcripts.read(f"{shared(FILE)}#80")


RUN = {
    "task_id": "7",
    "messages": [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "name": "look", "arguments": {"a": 1}}], "usage": {"prompt_tokens": 5, "completion_tokens": 2}},
        {"role": "tool", "id": "c", "content": "no", "error": True},
        {"role": "oracle", "content": "?"},
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    "data", [json.dumps({"simulations": [{}, RUN]}).encode(), lines({"task_id": 1, "messages": []}, RUN)]
)
def test_simulations_and_lines(data: bytes) -> None:
    loaded = load(data, "tau-bench", 1)
    call, result = spoken(loaded)
    assert call.message.calls[0].name == "look" and call.usage is not None and call.usage.total == 7
    assert results(loaded)[0].is_error and result.message.name == "look"
    assert [problem.text for problem in loaded.problems] == ["has the unknown role 'oracle': kept as it came"]


@pytest.mark.parametrize("data", [b"[]", b"[1, 2]", b"3"])
def test_files_without_a_conversation_say_so(data: bytes) -> None:
    with pytest.raises(FormatError, match="conversation"):
        load(data, "tau-bench")
