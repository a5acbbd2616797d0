"""What the tools write is read by those who clip results and who look for how the work stands."""

from __future__ import annotations

import json

import pytest

from refold import tokens
from refold.facts.tool_outcome import outcome_of
from refold.messages import Call
from refold.session.toolstatus import bare_output, printed_output
from refold.shrink.clip import clip_message
from refold.shrink.excerpt import Texts
from tests.tools.place import Bench

OUTPUT = "\n".join(["collected 300 items", *(f"tests/test_{i}.py ." for i in range(200)), "E   assert 0 == 1", "1 failed, 299 passed"])  # fmt: skip


def test_a_clipped_result_is_lines_and_not_half_a_piece_of_json(bench: Bench) -> None:
    bench.write("a.py", "".join(f"def f{i}():\n    return {i}\n" for i in range(200)))
    call = Call("c1", "Read", {"path": "a.py"})
    text = clip_message(
        bench.call("Read", path="a.py").result(call), 150, Texts(tokens.get()), key="abc", kind="read"
    ).text
    assert text.startswith("(lines 1–400)\ndef f0():\n    return 0\n")
    assert "return 199" in text
    assert "\\n" not in text


def test_a_command_through_an_envelope_is_judged_by_what_it_printed(bench: Bench) -> None:
    bench.place.unconfined = True
    bench.write("out.txt", OUTPUT)
    call = Call("c1", "Bash", {"command": "cat out.txt; echo trouble >&2; exit 1"})
    result = bench.call("Bash", **call.arguments).result(call)
    found = outcome_of(result, "bash")
    assert (found.failed, found.exit) == (True, 1)
    assert "\n1 failed, 299 passed\n" in found.body
    assert bare_output(result.text).endswith("1 failed, 299 passed\nstderr:\ntrouble\n(exit code 1)")
    small = clip_message(result, 120, Texts(tokens.get()), key="abc", kind="bash").text
    assert "\nE   assert 0 == 1\n" in small


def test_each_tool_is_read_as_what_it_is_called_for(bench: Bench) -> None:
    bench.write("a.txt", "x = 1\n")
    said = {
        "LS": ({}, "a.txt"),
        "Glob": ({"pattern": "*.txt"}, "a.txt"),
        "Grep": ({"pattern": "x"}, "a.txt:1:x = 1"),
        "Read": ({"path": "a.txt"}, "1\tx = 1"),
        "Edit": ({"path": "a.txt", "old_string": "1", "new_string": "2"}, "@@ -1 +1 @@\n-x = 1\n+x = 2"),
        "TodoWrite": ({"todos": [{"content": "go on"}]}, "[0/1] Pending: go on."),
    }
    for tool, (arguments, text) in said.items():
        assert printed_output(bench.call(tool, **arguments).to_text()) == text, tool
    failed = bench.call("Read", path="none").result(Call("c1", "Read"))
    assert bare_output(failed.text) == "`none` does not exist: look with LS or Glob."
    assert outcome_of(failed, "read").error == "`none` does not exist: look with LS or Glob."


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"status":', '{"status":"x"}', '{"status":"x","data":[1]}', '{"status":"x","error":"e"}', '{"status":"x","data":{}}',
     '{"state":1}', '{"status":"x","data":{"stdout":1}}', "[" * 100_000, '{"status":' + "[" * 100_000],
)  # fmt: skip
def test_everything_else_is_left_as_it_is(text: str) -> None:
    assert printed_output(text) is None
    assert bare_output(text) == text


def test_deep_and_odd_values_do_not_disturb() -> None:
    text = json.dumps({"status": "x", "data": {"matches": [1, None, {"a": []}, "m"], "stdout": "o\n"}}, separators=(",", ":"))  # fmt: skip
    assert printed_output(text) == "m\no"
