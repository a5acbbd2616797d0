"""Damaged variants of the real files: nothing but a `RefoldError` comes out, and what was lost is said."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from refold import entries as e
from refold import transcripts
from refold.errors import RefoldError
from refold.format import decode, encode
from refold.protocols import Loaded
from refold.session import Projection, Session
from tests.data import shared
from tests.transcripts.foreign import load

LINES = {
    "claude-code": "claude-code/agentcmd-full-session-two.jsonl",
    "codex": "codex/rollout-2025-09-25T15-12-14-019982b8-3422-79e0-8b3b-05abaf4f3c3e.jsonl",
}
DOCUMENTS = {
    "gemini": "gemini/agentcmd-session-2025-10-27T19-55.json",
    "swe-agent": "swe-agent/trajectories__demonstrations__ctf__crypto__eps.traj",
    "tau-bench": "tau-bench/gpt-4o-airline.first80.json",
    "adp": "adp/nebius_SWE-agent-trajectories.sample_raw.json",
    "openhands": "openhands/multi_swe_bench-example-output.jsonl",
}
DEEP: Any = json.loads("[" * 900 + "]" * 900)
HOSTILE: list[Any] = [
    None, True, -1, 0, 2**70, 1e308, float("nan"), float("inf"), "", "\ud800", "e1", "x" * 50, [], {}, [[]], [None],
    {"type": "text"}, {"role": "user"}, [{"type": "tool_result"}], [{"type": "tool_use"}], DEEP,
]  # fmt: skip
quick = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
seeds = st.integers(0, 2**32)


@cache
def some_lines(name: str) -> list[bytes]:
    return shared(LINES[name]).read_bytes().split(b"\n")[:45]


@cache
def document(name: str) -> Any:
    """One conversation of the file, its long list cut short."""
    data = shared(DOCUMENTS[name]).read_bytes()
    value = json.loads(data.split(b"\n")[0] if name == "openhands" else data)
    first = value[0] if isinstance(value, list) else value
    key = next(key for key in ("messages", "history", "traj", "trajectory") if key in first)
    small = {**first, key: first[key][:14]}
    if name == "swe-agent":
        small["trajectory"] = first["trajectory"][:6]
    return [small] if isinstance(value, list) else small


def check(loaded: Loaded) -> Session:
    """A sound log: it opens, shows itself, and survives being written down."""
    session = Session.of(loaded)
    assert len(Projection(session).items) <= 10 * len(loaded.entries)
    for entry in loaded.entries:
        again = decode(encode(entry))
        assert again.id == entry.id
    return session


def survives(data: bytes, format: str | None) -> Loaded | None:
    try:
        loaded = load(data, format)
    except RefoldError as error:
        assert str(error)
        return None
    check(loaded)
    return loaded


def damaged_record(raw: Any, chance: random.Random) -> Any:
    """A copy with one value somewhere in it replaced."""
    raw = copy.copy(raw)
    if not isinstance(raw, dict | list) or not raw:
        return chance.choice(HOSTILE)
    key: Any = chance.choice(list(raw)) if isinstance(raw, dict) else chance.randrange(len(raw))
    raw[key] = chance.choice(HOSTILE) if chance.random() < 0.4 else damaged_record(raw[key], chance)
    return raw


def shuffled(lines: list[bytes], chance: random.Random) -> list[bytes]:
    return chance.sample(lines, len(lines))


def repeated(lines: list[bytes], chance: random.Random) -> list[bytes]:
    return lines + chance.choices(lines, k=5)


def cut(lines: list[bytes], chance: random.Random) -> list[bytes]:
    whole = b"\n".join(lines)
    return [whole[: chance.randrange(len(whole))]]


def mistyped(lines: list[bytes], chance: random.Random) -> list[bytes]:
    return [
        line.replace(b'"type":"user"', b'"type":"weird"').replace(b'"message"', b'"nachricht"')
        for line in lines
    ]


def miscoded(lines: list[bytes], chance: random.Random) -> list[bytes]:
    at = chance.randrange(len(lines))
    return [
        *lines[:at],
        lines[at].replace(b"a", b"\xe4"),
        lines[at].decode("utf-8").encode("utf-16"),
        *lines[at:],
    ]


def crossed(lines: list[bytes], chance: random.Random) -> list[bytes]:
    """Parents and ids exchanged: orphans, cycles, double ids."""
    records = [json.loads(line) for line in lines if line]
    ids = [record.get("uuid") for record in records]
    for record in records:
        if "parentUuid" in record and chance.random() < 0.5:
            record["parentUuid"] = chance.choice(ids)
        if "uuid" in record and chance.random() < 0.1:
            record["uuid"] = chance.choice(ids)
    return [json.dumps(record).encode() for record in records]


def hostile(lines: list[bytes], chance: random.Random) -> list[bytes]:
    return [json.dumps(damaged_record(json.loads(line), chance)).encode() if line else line for line in lines]


DAMAGE: list[Callable[[list[bytes], random.Random], list[bytes]]] = [
    shuffled, repeated, cut, mistyped, miscoded, crossed, hostile,
]  # fmt: skip


@pytest.mark.data
@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
@given(seed=seeds)
@quick
def test_damaged_lines_never_crash(name: str, damage: Any, seed: int) -> None:
    chance = random.Random(seed)
    survives(b"\n".join(damage(some_lines(name), chance)), name)


@pytest.mark.data
@pytest.mark.parametrize("name", DOCUMENTS)
@given(seed=seeds)
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@example(seed=1)
def test_damaged_documents_never_crash(name: str, seed: int) -> None:
    chance = random.Random(seed)
    value = document(name)
    for _ in range(chance.randint(1, 4)):
        value = damaged_record(value, chance)
    survives(json.dumps(value).encode(), name)


_USER, _REPLY = (
    {"role": "user", "content": "Go."},
    {"role": "assistant", "content": "Look.\n\n```bash\nls\n```"},
)
_TOOL = {
    "type": "tool",
    "id": "p1",
    "callID": "c1",
    "tool": "bash",
    "state": {
        "status": "completed",
        "input": {"command": "ls"},
        "output": "a",
        "time": {"start": 1, "end": 2, "compacted": 3},
    },
}
SMALL: dict[str, Any] = {
    "opencode": {
        "info": {"id": "ses_1", "directory": "/w", "title": "t", "revert": {"messageID": "u2"}},
        "messages": [
            {"info": {"id": "u1", "role": "user", "time": {"created": 1}}, "parts": [{"type": "text", "text": "Go.", "synthetic": True}, {"type": "file", "mime": "image/png", "url": "data:image/png;base64,AAAA"}]},
            {"info": {"id": "a1", "role": "assistant", "tokens": {"input": 1, "cache": {"read": 2}}, "error": {"name": "x", "data": {"message": "y"}}}, "parts": [{"type": "reasoning", "text": "hm", "metadata": {"anthropic": {"signature": "s"}}}, _TOOL]},
            {"info": {"id": "u2", "role": "user"}, "parts": [{"type": "compaction", "auto": True, "tail_start_id": "a1"}]},
            {"info": {"id": "a2", "role": "assistant", "summary": True}, "parts": [{"type": "text", "text": "sum"}]},
        ],
    },
    "copilot": [
        {"type": "session.start", "data": {"sessionId": "s", "context": {"cwd": "/w"}}, "id": "1", "timestamp": "2026-01-01T00:00:00Z", "parentId": None},
        {"type": "user.message", "data": {"content": "Go.", "transformedContent": "<now/>Go."}, "id": "2", "parentId": "1"},
        {"type": "assistant.message", "data": {"content": "", "model": "m", "reasoningText": "hm", "toolRequests": [{"toolCallId": "c", "name": "bash", "arguments": {"command": "ls"}}]}, "id": "3", "parentId": "2"},
        {"type": "tool.execution_complete", "data": {"toolCallId": "c", "success": False, "error": {"message": "no"}, "result": {"content": "a"}}, "id": "4", "parentId": "3"},
        {"type": "session.compaction_complete", "data": {"summaryContent": "sum", "preCompactionTokens": 9}, "id": "5", "parentId": "4"},
    ],
    "mini-swe-agent": {
        "info": {"mini_version": "1", "config": {"agent": {}}},
        "messages": [_USER, {**_REPLY, "extra": {"actions": [{"command": "ls"}], "timestamp": 1.5}}, {"role": "user", "content": "<returncode>0</returncode>"}, _REPLY, {"role": "user", "content": "Observation: a"}, {"role": "exit", "content": "done"}],
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
@given(seed=seeds)
@example(seed=153)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_damaged_small_sessions_never_crash(name: str, seed: int) -> None:
    chance = random.Random(seed)
    value = SMALL[name]
    for _ in range(chance.randint(1, 4)):
        value = damaged_record(value, chance)
    lines = (
        "\n".join(map(json.dumps, value))
        if name == "copilot" and isinstance(value, list)
        else json.dumps(value)
    )
    survives(lines.encode(), name)
    survives(lines[: chance.randrange(1, len(lines))].encode(), None)


@pytest.mark.data
@pytest.mark.parametrize("name", [*LINES, *DOCUMENTS])
@given(seed=seeds, auto=st.booleans())
@quick
def test_cut_off_files_say_what_is_missing(name: str, seed: int, auto: bool) -> None:
    whole = b"\n".join(some_lines(name)) if name in LINES else json.dumps(document(name)).encode()
    data = whole[: random.Random(seed).randrange(len(whole) // 2, len(whole) - 1)]
    loaded = survives(data, None if auto else name)
    if loaded is not None and not data.endswith((b"}", b"\n")):
        assert loaded.problems


@pytest.mark.data
@pytest.mark.parametrize("name", LINES)
def test_no_record_vanishes_when_lines_are_shuffled(name: str) -> None:
    lines = [line for line in some_lines(name) if line]
    loaded = load(b"\n".join(random.Random(7).sample(lines, len(lines))), name)
    if name == "claude-code":
        ids = {json.loads(line).get("uuid") for line in lines} - {None}
        assert ids <= {entry.id for entry in loaded.entries}
    else:
        said = [json.loads(line)["payload"] for line in lines]
        outputs = [item["call_id"] for item in said if item.get("type") == "function_call_output"]
        found = [
            entry.message.call_id
            for entry in loaded.entries
            if isinstance(entry, e.MessageEntry) and entry.message.role == "tool"
        ]
        assert sorted(found) == sorted(outputs)


@pytest.mark.data
@pytest.mark.parametrize("name", LINES)
def test_unreadable_lines_are_counted_one_by_one(name: str) -> None:
    bad = [
        b"{",
        b'{"a":NaN',
        b"[1]",
        b"nonsense",
        b"[" * 1000 + b"]" * 1000,
        b'{"a":' + b"[" * 1000 + b"]" * 1000 + b"}",
    ]
    good = load(b"\n".join(some_lines(name)), name)
    mixed = load(b"\n".join([*some_lines(name), *bad]), name)
    assert len(mixed.problems) == len(good.problems) + len(bad)
    assert len(mixed.entries) == len(good.entries)


@pytest.mark.data
def test_every_real_file_imports() -> None:
    from tests.data import all_transcripts, need

    paths = all_transcripts()
    need(paths)
    for path in paths:
        loaded = transcripts.read(path)
        assert check(loaded).path, path
        assert all("conversations" in problem.text for problem in loaded.problems), path
