"""All kinds of items and blocks that the providers publish (openai 3.49, anthropic 2.8): what the log has no
words for is sent unchanged while it stands, with its pair, and told elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

import refold
from refold import messages as m
from refold.session import Item, dialects
from refold.session.dialects import anthropic
from refold.session.invariants import repair

Wire = dict[str, Any]
SCREEN = {"type": "computer_screenshot", "image_url": "data:image/png;base64,AAAA"}
DONE = {"status": "completed"}

RESPONSES: dict[str, list[Wire]] = {
    "file_search_call": [{"type": "file_search_call", "id": "f1", "queries": ["q"], **DONE}],
    "web_search_call": [
        {"type": "web_search_call", "id": "w1", "action": {"type": "search", "query": "q"}, **DONE}
    ],
    "computer_call": [
        {"type": "computer_call", "id": "cu1", "call_id": "k1", "pending_safety_checks": [], **DONE,
         "action": {"type": "click", "button": "left", "x": 1, "y": 2}},
        {"type": "computer_call_output", "call_id": "k1", "output": SCREEN,
         "acknowledged_safety_checks": [{"id": "s1"}]},
    ],
    "tool_search_call, client": [
        {"type": "tool_search_call", "call_id": "t1", "execution": "client", "arguments": {"q": "x"}},
        {"type": "tool_search_output", "call_id": "t1", "execution": "client", "tools": []},
    ],
    "tool_search_call, server": [
        {"type": "tool_search_call", "id": "ts", "call_id": None, "execution": "server", "arguments": {}},
        {"type": "tool_search_output", "id": "to", "call_id": None, "execution": "server", "tools": []},
    ],
    "additional_tools": [
        {"type": "additional_tools", "role": "developer", "tools": [{"type": "function", "name": "f"}]}
    ],
    "configuration_update": [{"type": "configuration_update", "reasoning": {"effort": "low"}}],
    "compaction": [{"type": "compaction", "id": "cmp", "encrypted_content": "sealed"}],
    "image_generation_call": [{"type": "image_generation_call", "id": "i1", "result": "AAAA", **DONE}],
    "code_interpreter_call": [
        {"type": "code_interpreter_call", "id": "ci", "code": "1", "container_id": "c", "outputs": [], **DONE}
    ],
    "local_shell_call": [
        {"type": "local_shell_call", "id": "l1", "call_id": "k2", **DONE,
         "action": {"type": "exec", "command": ["ls"], "env": {}}},
        {"type": "local_shell_call_output", "id": "k2", "output": '{"stdout": "a"}'},
    ],
    "shell_call": [
        {"type": "shell_call", "call_id": "k3", "action": {"commands": ["ls"]}, **DONE},
        {"type": "shell_call_output", "call_id": "k3",
         "output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]},
    ],
    "apply_patch_call": [
        {"type": "apply_patch_call", "call_id": "k4", **DONE,
         "operation": {"type": "delete_file", "path": "a"}},
        {"type": "apply_patch_call_output", "call_id": "k4", "output": "done", **DONE},
    ],
    "mcp_list_tools": [{"type": "mcp_list_tools", "id": "ml", "server_label": "s", "tools": []}],
    "mcp_approval_request": [
        {"type": "mcp_approval_request", "id": "ma", "arguments": "{}", "name": "n", "server_label": "s"},
        {"type": "mcp_approval_response", "approval_request_id": "ma", "approve": True},
    ],
    "mcp_call": [
        {"type": "mcp_call", "id": "mc", "arguments": "{}", "name": "n", "server_label": "s", "output": "o"}
    ],
    "item_reference": [{"type": "item_reference", "id": "msg_1"}],
    "item_reference without a type": [{"id": "msg_1"}],
    "program": [
        {"type": "program", "id": "p1", "call_id": "k5", "code": "x", "fingerprint": "f"},
        {"type": "program_output", "id": "p2", "call_id": "k5", "result": "r", **DONE},
    ],
    "not invented yet": [
        {"type": "telepathy_call", "id": "te", "call_id": "k6", "thought": "x"},
        {"type": "telepathy_call_output", "call_id": "k6", "image": "y"},
    ],
    "not invented yet, alone": [{"type": "dream", "id": "d1"}],
}  # fmt: skip
RESPONSE_PARTS: list[Wire] = [
    {"type": "input_image", "file_id": "file-1", "detail": "low"},
    {"type": "input_file", "file_id": "file-1"},
    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
    {"type": "not_invented_yet", "x": 1},
]
CHAT_PARTS: list[Wire] = [
    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
    {"type": "file", "file": {"file_id": "file-1"}},
    {"type": "video_url", "video_url": {"url": "https://x/y.mp4"}},
    {"type": "not_invented_yet", "x": 1},
]


def _run(id: str, kind: str, **content: Any) -> list[Wire]:
    """A tool that the provider runs."""
    return [
        {"type": "server_tool_use", "id": id, "name": kind.removesuffix("_tool_result"), "input": {"q": "x"}},
        {"type": kind, "tool_use_id": id, "content": content},
    ]


ANTHROPIC_REPLIES: dict[str, list[Wire]] = {
    **{
        kind: _run("srv_1", kind, type="x", text="found")
        for kind in (
            "web_search_tool_result",
            "web_fetch_tool_result",
            "advisor_tool_result",
            "code_execution_tool_result",
            "bash_code_execution_tool_result",
            "text_editor_code_execution_tool_result",
            "tool_search_tool_result",
            "not_invented_tool_result",
        )
    },
    "mcp_tool_use": [
        {"type": "mcp_tool_use", "id": "m1", "name": "n", "server_name": "s", "input": {}},
        {"type": "mcp_tool_result", "tool_use_id": "m1", "content": [{"type": "text", "text": "r"}]},
    ],
    "mcp_tool_listing": [{"type": "mcp_tool_listing", "mcp_server_name": "s", "tools": []}],
    "fallback": [{"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}],
    "container_upload": [{"type": "container_upload", "file_id": "f"}],
    "compaction": [{"type": "compaction", "content": "what was", "encrypted_content": "sealed"}],
    "citations": [
        {"type": "text", "text": "So it is.", "citations": [
            {"type": "web_search_result_location", "url": "https://x", "title": "t", "cited_text": "c",
             "encrypted_index": "e"}]},
    ],
    "not invented yet": [{"type": "dream", "x": 1}],
}  # fmt: skip
ANTHROPIC_PARTS: list[Wire] = [
    {"type": "image", "source": {"type": "file", "file_id": "file-1"}},
    {"type": "document", "source": {"type": "file", "file_id": "file-1"}, "title": "t"},
    {
        "type": "search_result",
        "source": "https://x",
        "title": "t",
        "content": [{"type": "text", "text": "r"}],
    },
    {"type": "container_upload", "file_id": "f"},
    {"type": "not_invented_yet", "x": 1},
]
RESULT_PARTS: list[Wire] = [
    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}},
    {
        "type": "search_result",
        "source": "https://x",
        "title": "t",
        "content": [{"type": "text", "text": "r"}],
    },
    {"type": "tool_reference", "tool_name": "t"},
    {"type": "browser_state", "x": 1},
]


def _rendered(dialect: str, listed: list[Wire]) -> list[Wire]:
    """What a list is after it has been in a log."""
    session = refold.Session()
    session.merge(listed)
    view = refold.Engine("refold").view(session)
    return view.to_anthropic(cache=False)["messages"] if dialect == "anthropic" else view.to(dialect)


@pytest.mark.parametrize("kind", RESPONSES)
def test_an_item_of_the_responses_is_sent_as_it_came_with_its_pair(kind: str) -> None:
    items = RESPONSES[kind]
    listed = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
        *items,
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "and"}]},
    ]
    assert _rendered("responses", listed)[1:-1] == items


@pytest.mark.parametrize("kind", [kind for kind, items in RESPONSES.items() if len(items) == 2])
@pytest.mark.parametrize("left", [0, 1])
def test_half_of_a_pair_is_told(kind: str, left: int) -> None:
    if RESPONSES[kind][0].get("execution") == "server":
        pytest.skip("no id says that these two belong together")
    listed = [{"role": "user", "content": "go"}, RESPONSES[kind][left], {"role": "user", "content": "and"}]
    items = [Item(message) for message in dialects.get("responses").parse_list(listed)]
    sent = dialects.get("responses").render(repair(items, "responses"))
    assert {item["type"] for item in sent} == {"message"}
    assert {item["role"] for item in sent} <= {"user", "assistant"}


PAIRS = [items for items in RESPONSES.values() if len(items) == 2 and items[0].get("execution") != "server"]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0]["type"])
def test_a_call_that_is_not_answered_yet_is_sent_as_it_came(pair: list[Wire]) -> None:
    listed = [{"role": "user", "content": "go"}, pair[0]]
    sent = dialects.get("responses").render(dialects.get("responses").parse_list(listed))
    assert sent[-1] == pair[0]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0]["type"])
def test_a_call_of_a_function_that_looks_like_an_item_is_a_call_of_a_function(pair: list[Wire]) -> None:
    """The model chooses arguments; the id of the call it does not."""
    name = pair[0]["type"]
    call = m.Call("c1", name, dict(pair[0]))
    sent = dialects.get("responses").render([m.user("go"), m.Assistant((call,)), m.result("c1", "done")])
    assert [item["type"] for item in sent] == ["message", "function_call", "function_call_output"]
    assert (sent[1]["call_id"], sent[1]["name"], sent[2]["call_id"]) == ("c1", name, "c1")


def test_an_unknown_part_of_a_reply_of_the_responses_is_sent_as_it_came() -> None:
    part = {"type": "not_invented_yet", "x": {"y": [1]}}
    content = [{"type": "output_text", "text": "see"}, part]
    sent = _rendered(
        "responses",
        [{"role": "user", "content": "go"}, {"type": "message", "role": "assistant", "content": content}],
    )
    assert sent[-1] == {"type": "message", "role": "assistant", "content": [part]}


@pytest.mark.parametrize("dialect", ["openai", "responses", "anthropic"])
def test_what_is_sent_may_be_changed_and_the_log_is_not(dialect: str) -> None:
    """The parts that pass unchanged are copies, however deep."""
    part = {"type": "not_invented_yet", "x": {"y": [1]}}
    reply = {"role": "assistant", "content": [part]}
    listed = [
        {"role": "user", "content": [part]},
        {"type": "message", **reply} if dialect == "responses" else reply,
    ]
    listed += [RESPONSES["web_search_call"][0], *RESPONSES["computer_call"]] if dialect == "responses" else []
    parsed = dialects.get(dialect).parse_list(listed)
    before = repr(parsed)

    def spoil(value: Any) -> None:
        for inner in list(
            value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        ):
            spoil(inner)
        if isinstance(value, dict | list):
            value.clear()

    spoil(dialects.get(dialect).render(parsed))
    assert repr(parsed) == before


@pytest.mark.parametrize("part", RESPONSE_PARTS, ids=lambda part: part["type"])
def test_a_part_of_the_responses_is_sent_as_it_came(part: Wire) -> None:
    content = [{"type": "input_text", "text": "see"}, part]
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": content}
    sent = _rendered("responses", [{"type": "message", "role": "user", "content": content}, call, output])
    assert sent[0]["content"] == content
    assert sent[2]["output"] == content


@pytest.mark.parametrize("part", CHAT_PARTS, ids=lambda part: part["type"])
def test_a_part_of_chat_completions_is_sent_as_it_came(part: Wire) -> None:
    calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    content = [{"type": "text", "text": "see"}, part]
    listed = [
        {"role": "user", "content": content},
        {"role": "assistant", "content": content, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c", "content": content},
    ]
    assert _rendered("openai", listed) == listed


@pytest.mark.parametrize("kind", ANTHROPIC_REPLIES)
def test_a_block_of_an_anthropic_reply_is_sent_as_it_came_with_its_pair(kind: str) -> None:
    blocks = [*ANTHROPIC_REPLIES[kind], {"type": "tool_use", "id": "c", "name": "f", "input": {}}]
    result = {"type": "tool_result", "tool_use_id": "c", "content": RESULT_PARTS}
    listed = [
        {"role": "user", "content": [{"type": "text", "text": "go"}, *ANTHROPIC_PARTS]},
        {"role": "assistant", "content": blocks},
        {"role": "user", "content": [result, {"type": "text", "text": "and"}]},
    ]
    assert _rendered("anthropic", listed) == listed


@pytest.mark.parametrize("kind", [kind for kind, blocks in ANTHROPIC_REPLIES.items() if len(blocks) == 2])
@pytest.mark.parametrize("left", [0, 1])
def test_half_of_a_pair_of_blocks_is_told(kind: str, left: int) -> None:
    reply = {"role": "assistant", "content": [ANTHROPIC_REPLIES[kind][left]]}
    sent = _rendered(
        "anthropic", [{"role": "user", "content": "go"}, reply, {"role": "user", "content": "x"}]
    )
    assert [block["type"] for message in sent for block in message["content"]] == ["text"] * 3


def test_marks_for_caches_are_those_that_are_set_here_at_most_four() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    document = {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": "x"},
        **mark,
    }
    result = {"type": "tool_result", "tool_use_id": "c", "content": [document], **mark}
    session = refold.Session()
    session.merge(
        [
            {"role": "user", "content": [document, document, {"type": "text", "text": "go", **mark}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]},
            {"role": "user", "content": [result, document]},
        ]
    )
    request = refold.Engine("refold").view(session, system="Be brief.").to_anthropic()
    assert str(request).count("cache_control") <= 4


def test_a_part_of_one_dialect_is_told_in_the_others() -> None:
    for dialect, listed in (
        (
            "responses",
            [{"role": "user", "content": "go"}, *RESPONSES["computer_call"], *RESPONSES["mcp_call"]],
        ),
        ("anthropic", [{"role": "user", "content": [ANTHROPIC_PARTS[1]]}]),
        ("openai", [{"role": "user", "content": [CHAT_PARTS[2]]}]),
    ):
        session = refold.Session()
        session.merge(listed)
        view = refold.Engine("refold").view(session)
        for other in {"responses", "anthropic", "openai"} - {dialect}:
            sent = str(view.to(other))
            for kind in ("computer_screenshot", "file-1", "video_url'"):
                assert kind not in sent, (dialect, other)


def test_what_was_not_understood_is_told_where_it_is_folded() -> None:
    [message] = dialects.get("responses").parse_list([RESPONSES["mcp_call"][0]])
    assert "mcp_call" in m.in_full(message)
    [call, output] = dialects.get("responses").parse_list(RESPONSES["shell_call"])
    assert "ls" in m.in_full(call)
    assert "stdout" in m.in_full(output)


@pytest.mark.parametrize("kind", [kind for kind, blocks in ANTHROPIC_REPLIES.items() if len(blocks) == 2])
@pytest.mark.parametrize("left", [0, 1])
@pytest.mark.parametrize("given", [False, True])
def test_half_of_a_pair_of_blocks_is_told_where_nothing_was_repaired(
    kind: str, left: int, given: bool
) -> None:
    """Also where the client's own blocks are sent."""
    reply = {"role": "assistant", "content": [ANTHROPIC_REPLIES[kind][left]]}
    listed = [{"role": "user", "content": "go"}, reply, {"role": "user", "content": "x"}]
    read = anthropic.parse_given(listed)
    sent = anthropic.render(read if given else [each.message for each in read])["messages"]
    assert [block["type"] for message in sent for block in message["content"]] == ["text"] * 3


def test_citations_without_their_text_are_not_put_on_another_block() -> None:
    cited = {"type": "text", "text": "said", "citations": [{"type": "odd", "cited_text": "x"}]}
    [message] = anthropic.parse_list([{"role": "assistant", "content": [cited]}])
    call = m.Call("c", "f", {})
    parts = (call, *(part for part in message.parts if not isinstance(part, m.Text)))
    sent = anthropic.render([m.user("go"), m.Assistant(parts), m.result("c", "x")])["messages"]
    assert sent[1]["content"] == [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]


def test_an_unknown_part_of_a_system_message_is_sent_as_it_came_and_told_in_another() -> None:
    part, chat = {"type": "not_invented_yet", "x": 1}, dialects.get("openai")
    [message] = chat.parse_list([{"role": "system", "content": [part]}])
    assert chat.render([message])[0]["content"] == [part]
    [moved] = chat.render([m.User(message.parts)])
    assert "'type': 'not_invented_yet'" not in str(moved) and "not_invented_yet" in str(moved)


@pytest.mark.parametrize("role", ["user", "system", "assistant"])
@pytest.mark.parametrize(
    ("dialect", "part"),
    [
        ("openai", {"type": "image_url", "image_url": {}}),
        ("responses", {"type": "input_image"}),
        ("anthropic", {"type": "image", "source": {"type": "base64"}}),
    ],
)
def test_a_picture_without_a_picture_is_told_wherever_it_stands(dialect: str, part: Wire, role: str) -> None:
    """The provider would refuse the whole request."""
    wire = dialects.get(dialect)
    told = str(wire.render(wire.parse_list([{"role": role, "content": [part]}])))
    assert f"'type': '{part['type']}'" not in told and "image" in told
