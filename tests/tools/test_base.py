"""The envelope (E4), argument checks, and that a call never raises for what a model wrote."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold import Session, tools
from refold import messages as m
from refold.messages import Call
from refold.session.toolnames import kind
from refold.shrink import Shrinking
from refold.tools.base import ToolContext, call_tool
from refold.tools.workspace import Workspace
from tests.tools.place import Bench

ARGUMENTS = {
    "Read": "path offset limit",
    "Edit": "path old_string new_string replace_all",
    "MultiEdit": "path edits",
    "Write": "path content",
    "Bash": "command timeout network",
    "Glob": "pattern path",
    "Grep": "pattern path glob",
    "LS": "path",
    "TodoWrite": "todos",
    "Task": "description prompt",
    "recall_conversation": "turn_numbers query keys",
    "compact_conversation": "focus keep",
}


def test_the_tools_and_their_arguments_are_those_that_are_documented() -> None:
    found = {
        name: " ".join(tool.spec.parameters["properties"]) for name, tool in tools.tools_by_name().items()
    }
    assert found == ARGUMENTS


def test_schemas_are_plain_enough_for_every_provider() -> None:
    for tool in tools.tools_by_name().values():
        text = json.dumps(tool.spec.parameters)
        assert not any(word in text for word in ("$ref", "$defs", "anyOf", '"title"')), tool.spec.name
        assert tool.spec.description


def test_the_effect_of_a_tool_says_what_it_may_change() -> None:
    effects = {name: tool.effect for name, tool in tools.tools_by_name().items()}
    assert {n for n, effect in effects.items() if effect == "read"} == {"Read", "LS", "Glob", "Grep"}
    assert {n for n, effect in effects.items() if effect == "edit"} == {"Edit", "MultiEdit", "Write"}
    assert {n for n, effect in effects.items() if effect == "run"} == {"Bash"}


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("Read", {"file_path": "a"}, "Did you mean `path`? There are: path, offset, limit."),
        ("Read", {}, "`path` is missing"),
        ("Read", {"path": 3}, "Expected `str`, got `int` in `path`"),
        ("Read", {"path": "a", "offset": 0}, "`int` >= 1 in `offset`"),
        ("read", {"path": "a"}, "There is no tool called `read`. Did you mean `Read`?"),
        ("MultiEdit", {"path": "a", "edits": []}, "Expected `array` of length >= 1"),
        ("MultiEdit", {"path": "a", "edits": [{"old_string": "x"}]}, "`new_string` is missing in `edits[0]`"),
        ("Write", {"path": "a"}, 'It takes {"path": string, "content": string}'),
        ("Task", {"description": "x", "prompt": "y"}, "no sub-agents"),
        ("recall_conversation", {"query": "x"}, "no earlier conversation"),
    ],
)  # fmt: skip
def test_wrong_arguments_get_a_sentence_that_a_model_can_act_on(
    bench: Bench, tool: str, arguments: dict[str, Any], sentence: str
) -> None:
    assert sentence in bench.error(tool, **arguments)[1]


def test_arguments_that_are_no_object_are_quoted_back(bench: Bench) -> None:
    call = Call("c1", "Read", raw='{"path": "a')
    envelope = asyncio.run(call_tool(tools.tools_by_name(), call, bench.place))
    assert envelope.error is not None
    assert '{"path": "a' in envelope.error.message
    assert envelope.result(call).is_error


def test_names_that_are_no_text_can_be_listed_and_read(bench: Bench) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    bench.write(name, "x\n")
    envelope = bench.call("LS")
    session = Session()
    session.append(m.Assistant((Call("c1", "LS"),)))
    session.append(envelope.result(Call("c1", "LS")))
    assert json.loads(envelope.to_text())["data"]["entries"] == [name]
    assert bench.data("Read", path=name)["content"] == "1\tx"
    assert bench.data("Grep", pattern="x")["total_matches"] == 1


def test_a_number_as_text_is_a_number_and_a_null_is_left_out(bench: Bench) -> None:
    bench.write("a.txt", "x\ny\n")
    assert bench.data("Read", path="a.txt", offset="2", limit=None)["content"] == "2\ty"


NAMES = st.sampled_from(sorted(ARGUMENTS.keys() - {"Bash"}))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = sorted({field for fields in ARGUMENTS.values() for field in fields.split()})


@given(
    name=NAMES | st.text(max_size=5), arguments=st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4)
)
def test_no_call_raises_whatever_a_model_wrote(
    tmp_path_factory: pytest.TempPathFactory, name: str, arguments: dict[str, Any]
) -> None:
    place = ToolContext(Workspace(tmp_path_factory.mktemp("any")))
    try:
        call = Call("c1", name, arguments)
        envelope = asyncio.run(call_tool(tools.tools_by_name(), call, place))
        assert json.loads(envelope.result(call).text)["status"] in ("success", "partial", "error")
    finally:
        place.workspace.close()


def test_E4_E17_the_rules_for_results_know_what_these_tools_write(bench: Bench) -> None:
    bench.write("big.txt", "".join(f"line {i} {'x' * 60}\n" for i in range(900)))
    for i in range(60):
        bench.write(f"pkg/mod{i}.py", "needle = 1\n")
    calls: dict[str, dict[str, Any]] = {
        "Read": {"path": "big.txt"},
        "LS": {"path": "pkg"},
        "Glob": {"pattern": "*.py"},
        "Grep": {"pattern": "needle"},
        "Write": {"path": "new.txt", "content": "a\n" * 50},
        "Edit": {"path": "big.txt", "old_string": "line", "new_string": "row", "replace_all": True},
    }
    small: dict[str, dict[str, Any]] = {}
    for name, arguments in calls.items():
        call = Call("c1", name, arguments)
        assert kind(name) != "other"
        result = bench.call(name, **arguments).result(call)
        shrunk = Shrinking(call, result).at_once()
        small[name] = json.loads((shrunk or result).text)
        assert "context" not in small[name] or shrunk is None, name
    assert small["Read"]["data"]["content"].startswith("1\tline 0")
    assert small["Read"]["data"]["content"].endswith("\n… (400 more lines were read)")
    assert small["Read"]["data"]["mtime"] > 0
    assert small["LS"]["data"]["entries"].startswith("pkg: 60 files, 0 folders\n")
    assert small["Glob"]["data"]["paths"].startswith("*.py: 60 hits\n")
    assert small["Grep"]["data"]["matches"].startswith("needle: 60 matches in 60 files\n")
    assert small["Write"]["data"]["operation"] == "created"
    assert small["Write"]["data"]["preview"] == "\n".join("a" * 30)
    assert (small["Edit"]["data"]["lines_added"], small["Edit"]["data"]["applied"]) == (900, True)
    assert small["Edit"]["data"]["replacements"] == 900


def test_TodoWrite_gives_a_recap_and_refuses_a_state_that_is_none(bench: Bench) -> None:
    todos = [{"content": "read", "status": "completed"}, {"content": "fix", "status": "in_progress"}]
    assert bench.data("TodoWrite", todos=todos) == {"recap": "[1/2] In progress: fix."}
    assert (
        "Invalid enum value 'doing'"
        in bench.error("TodoWrite", todos=[{"content": "x", "status": "doing"}])[1]
    )


def test_recall_and_sub_agents_are_asked_through_the_place(bench: Bench) -> None:
    async def sub_agent(description: str, prompt: str) -> str:
        await asyncio.sleep(0)
        return f"{description}: {prompt}"

    bench.place.recall = lambda arguments: f"turns {arguments['turn_numbers']}"
    bench.place.task = sub_agent
    assert bench.data("recall_conversation", turn_numbers=[3]) == {"text": "turns [3]"}
    assert bench.data("Task", description="count", prompt="all")["answer"] == "count: all"


def test_sub_agents_run_at_the_same_time(bench: Bench) -> None:
    async def together() -> list[str]:
        meeting = asyncio.Barrier(3)

        async def sub_agent(description: str, _: str) -> str:
            async with asyncio.timeout(120):
                await meeting.wait()
            return description

        bench.place.task = sub_agent
        found = await asyncio.gather(*(bench.acall("Task", description=x, prompt="") for x in "abc"))
        return [envelope.data["answer"] for envelope in found]

    assert asyncio.run(together()) == ["a", "b", "c"]
