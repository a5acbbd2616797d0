"""Scripts as text files."""

from __future__ import annotations

import asyncio

import pytest

from refold.errors import FormatError, ModelUnavailable, Overflow, Transient
from refold.messages import Call, Text, Thinking, Usage, user
from refold.models import complete
from refold.models.retry import NO_RETRY
from refold.models.script_file import parse_script, read_script
from refold.protocols import Request

SCRIPT = """\
@# The first reply looks into a file.
@think Where is it?
Let me look.
@@mention is text
@call Read {"path": "a.py"}
@call Bash {"command": "ls"}
@usage 1200 80 300
---
@for summary
# Goal

Fix the login bug.
---
@error overflow prompt is too long: 210000 tokens > 200000 maximum
---
Half
@cut
---
@stop length
Too long
---
@always
Whatever you say.
@call Read {}
"""


def ask(model, purpose="chat"):
    request = Request(messages=(user("x"),), purpose=purpose)
    return asyncio.run(complete(model, request, retries=NO_RETRY))


def test_a_script_is_played(tmp_path) -> None:
    path = tmp_path / "replies.txt"
    path.write_text(SCRIPT, "utf-8")
    model = read_script(path, context_window=5000)
    assert model.name == f"scripted:{path}"
    assert model.context_window == 5000
    assert ask(model, "summary").message.content == (
        Thinking("Where is it?"),
        Text("Let me look.\n@mention is text"),
        *CALLS,
    )
    assert ask(model, "summary").text == "# Goal\n\nFix the login bug."
    with pytest.raises(Overflow) as caught:
        ask(model)
    assert caught.value.window == 200000
    with pytest.raises(Transient):
        ask(model)
    assert ask(model).message.stop == "length"
    assert [ask(model).text for _ in range(3)] == ["Whatever you say."] * 3


CALLS = (Call("call_1", "Read", {"path": "a.py"}), Call("call_2", "Bash", {"command": "ls"}))


def test_usage_and_ids_count_on() -> None:
    lines, then = parse_script(SCRIPT)
    assert lines[0].usage == Usage(1200, 80, 300)
    assert then is not None
    assert then.content[-1] == Call("call_3", "Read")
    assert parse_script("") == ([], None)
    assert parse_script("\n---\n---\n") == ([], None)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("@nonsense", "unknown word"),
        ("@call Read {not json", "line 2: @call"),
        ("@call Read [1]", "line 2: @call"),
        ("@usage many", "line 2: @usage"),
        ("@stop never", "not a stop reason"),
        ("@error strange x", "not one of transient"),
    ],
)
def test_mistakes_name_their_line(row: str, told: str) -> None:
    with pytest.raises(FormatError, match=told):
        parse_script(f"fine\n{row}\n", "s.txt")


def test_a_missing_file(tmp_path) -> None:
    with pytest.raises(ModelUnavailable, match="No such file"):
        read_script(tmp_path / "none.txt")
