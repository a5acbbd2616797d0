"""Two people behind one gateway: nothing that one of them said, was told or has stored reaches the other one.

The upstream's side shows it: every request that is made for one of them is searched for words that only the
other one knows.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from refold import entries as e
from refold import messages as m
from refold.gateway.open_sessions import OpenSession, OpenSessions
from refold.gateway.requests import read_request
from refold.models.scripted import ScriptedReply
from refold.protocols import SessionInfo
from refold.recall.tool import NAME
from refold.session import Session
from refold.stores import open_store
from refold.testing.wire import WireServer
from tests.gateway.kit import gateway, run, upstream
from tests.gateway.test_auth import KEYS
from tests.gateway.test_sessions import PATHS, ask, body, long_talk, sessions
from tests.strategies import examples

FIELDS = {"openai": "messages", "responses": "input", "anthropic": "messages"}
RECALL: dict[str, Any] = {"window": 8_000, "recall": True}
ANN = {"x-who": "ann"}
BOB = {"x-who": "bob"}
ONE_KEY = {"x-refold-key": "secret-of-ann"}
Talk = list[tuple[str, str]]


def sent_for(server: WireServer, who: str) -> list[str]:
    """The requests that reached the upstream for one of them."""
    return [seen.raw.decode() for seen in server.requests if seen.headers.get("x-who") == who]


def own_talk(who: str, turns: int = 12) -> Talk:
    """The same question and answer first; then what only one of them says: `ann-` and `bob-` occur in no key."""
    words = " ".join(f"{who}-value-{n}" for n in range(100))
    talk: Talk = [("user", "Good morning."), ("assistant", "Good morning!")]
    for n in range(turns):
        talk += [("user", f"Question {n}, the watchword is swordfish-{who}-{n}: {words}")]
        talk += [("assistant", f"Answer {n}: {words}")]
    return [*talk, ("user", f"And now, says {who}?")]


# ── what a list differs in ──────────────────────────────────────────────────────────────────────

DOCUMENT = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "MARK"}}
RESULT = {"type": "search_result", "source": "u", "title": "t", "content": [{"type": "text", "text": "MARK"}]}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "MARK"}}
PARTS: dict[str, list[dict[str, Any]]] = {
    "openai": [
        {"type": "file", "file": {"filename": "terms.pdf", "file_data": "MARK"}},
        {"type": "file", "file": {"file_id": "MARK"}},
        {"type": "input_audio", "input_audio": {"data": "MARK", "format": "wav"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,MARK"}},
    ],
    "responses": [
        {"type": "input_file", "filename": "terms.pdf", "file_data": "MARK"},
        {"type": "input_file", "file_id": "MARK"},
        {"type": "input_image", "image_url": "data:image/png;base64,MARK"},
    ],
    "anthropic": [
        DOCUMENT,
        RESULT,
        IMAGE,
        {"type": "container_upload", "file_id": "MARK"},
        {"type": "document", "source": {"type": "file", "file_id": "MARK"}},
        {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "MARK"}]}},
    ],
}
CALL: dict[str, Any] = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}],
}


def _of_result(inside: dict[str, Any]) -> list[dict[str, Any]]:
    content = [{"type": "text", "text": "seen"}, inside]
    return [
        CALL,
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": content}]},
    ]


ENDS: list[tuple[str, list[dict[str, Any]]]] = [
    *(
        (dialect, [{"role": "user", "content": [{"type": text, "text": "And this?"}, part]}])
        for dialect, text in (("openai", "text"), ("responses", "input_text"), ("anthropic", "text"))
        for part in PARTS[dialect]
    ),
    *(("anthropic", _of_result(part)) for part in (DOCUMENT, RESULT, IMAGE)),
    (
        "responses",
        [
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": [PARTS["responses"][0]]},
        ],
    ),
]


@pytest.mark.sample(2)
@pytest.mark.parametrize(("dialect", "end"), ENDS)
def test_what_differs_in_a_part_alone_is_sent_as_it_came(dialect: str, end: list[dict[str, Any]]) -> None:
    async def work() -> None:
        async with gateway(server.url, window=16_000) as (_, client):
            for who in (ANN, BOB):
                asked = body(dialect, long_talk(12), stream=False)
                marked = json.loads(json.dumps(end).replace("MARK", f"PARTof{who['x-who']}000"))
                asked[FIELDS[dialect]] += marked
                asked["tools"] = TOOLS[dialect]
                _, done, _ = await ask(client, dialect, asked, **who)
                assert done.startswith("fold")

    with WireServer(then=lambda _: "Fine.") as server:
        run(work)
        for who, other in (("ann", "bob"), ("bob", "ann")):
            [sent] = sent_for(server, who)
            assert f"PARTof{who}000" in sent and f"PARTof{other}000" not in sent


TOOLS: dict[str, list[dict[str, Any]]] = {
    "openai": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}],
    "responses": [{"type": "function", "name": "look", "parameters": {"type": "object"}}],
    "anthropic": [{"name": "look", "input_schema": {"type": "object"}}],
}

# ── recall ──────────────────────────────────────────────────────────────────────────────────────


def recalling(arguments: Callable[[], dict[str, Any]]) -> Callable[[dict[str, Any]], m.Assistant]:
    """A model that recalls once in every answer."""

    def answer(asked: dict[str, Any]) -> m.Assistant:
        listed = asked.get("messages") or asked["input"]
        again = '"r1"' in json.dumps(listed)
        return m.assistant("So it was.") if again else m.assistant("", m.call("r1", NAME, arguments()))

    return answer


@pytest.mark.sample(4)
@pytest.mark.parametrize("headers", [{}, ONE_KEY], ids=["no keys", "one key"])
@pytest.mark.parametrize("how", ["query", "keys", "ids", "numbers", "turn_numbers"])
@pytest.mark.parametrize(("dialect", "stream"), [("openai", True), ("responses", False), ("anthropic", True)])
def test_recall_sees_what_the_request_says_and_nothing_of_others(
    dialect: str, stream: bool, how: str, headers: dict[str, str], tmp_path: Path
) -> None:
    given = {**RECALL, "store": f"sqlite:{tmp_path / 'a.db'}", **({"keys": KEYS} if headers else {})}
    of_ann: list[str] = []

    async def work() -> None:
        async with gateway(server.url, **given) as (made, client):
            for who in ("ann", "bob"):
                asked = body(dialect, own_talk(who), stream)
                status, done, _ = await ask(client, dialect, asked, **{"x-who": who, **headers})
                assert status == 200 and done.startswith("fold")
                known = [x for session in sessions(tmp_path / "a.db") for x in session.entries]
                of_ann[:] = [
                    x.id for x in known if isinstance(x, e.MessageEntry) and "ann-3" in x.message.text
                ]
            assert made.worker.counts["recalled"] == 2

    def arguments() -> dict[str, Any]:
        match how:
            case "query":
                return {"query": "the watchword of ann, swordfish-ann-3"}
            case "keys":
                return {"keys": [e.key(id) for id in of_ann]}
            case "ids":
                return {"keys": of_ann}
            case "numbers":
                return {"keys": [f"#{n}" for n in (6, 8, 30, 32, 34)]}
            case _:
                return {"turn_numbers": [4, 5]}

    with WireServer(then=recalling(arguments)) as server:
        run(work)
    for who, other in (("ann", "bob"), ("bob", "ann")):
        first, again = sent_for(server, who)
        assert f"{other}-value" not in first + again and f"swordfish-{other}" not in first
        assert how == "query" or f"swordfish-{other}" not in again
        if who == "ann" and how not in ("keys", "ids"):
            assert again.count("swordfish-ann") > first.count("swordfish-ann")


def test_recall_of_a_request_that_is_still_being_answered_stays_on_its_own_path() -> None:
    """The other one asks between a request and what its model recalls."""
    sent: dict[str, list[str]] = {"ann": [], "bob": []}

    async def answer(request: web.Request) -> web.Response:
        who = request.headers["x-who"]
        sent[who].append((await request.read()).decode())
        call = {"name": NAME, "arguments": '{"query": "watchword swordfish", "turn_numbers": [3, 4]}'}
        reply: dict[str, Any] = {"role": "assistant", "content": "So it was."}
        if who == "ann" and len(sent[who]) == 1:
            await ask(clients[0], "openai", body("openai", own_talk("bob"), stream=False), **BOB)
            calls = [{"id": "r1", "type": "function", "function": call}]
            reply = {"role": "assistant", "content": None, "tool_calls": calls}
        return web.json_response(
            {"id": "c", "choices": [{"index": 0, "message": reply, "finish_reason": "stop"}]}
        )

    clients: list[ClientSession] = []

    async def work() -> None:
        async with upstream(answer) as url, gateway(url, **RECALL) as (_, client):
            clients.append(client)
            await ask(client, "openai", body("openai", own_talk("ann"), stream=False), **ANN)

    run(work)
    first, again = sent["ann"]
    assert again.count("swordfish-ann") > first.count("swordfish-ann") and "bob-" not in again
    assert sent["bob"] and all("ann-" not in each for each in sent["bob"])


# ── sessions that a name opens ──────────────────────────────────────────────────────────────────


def written(path: Path, id: str, talk: Talk, **facts: Any) -> None:
    """A session of a store, as another program or an earlier release wrote it."""
    store = open_store(f"sqlite:{path}").store
    store.create(SessionInfo(id=id, created=1.0, **facts))
    session = Session(id=id, store=store)
    for role, text in talk:
        session.append(m.user(text) if role == "user" else m.assistant(text))
    store.close()


def contents(path: Path) -> dict[str, list[str]]:
    return {
        session.id: [x.message.text for x in session.entries if isinstance(x, e.MessageEntry)]
        for session in sessions(path)
    }


@pytest.mark.sample(2)
@pytest.mark.parametrize("begins", [True, False], ids=["with its first words", "with others"])
@pytest.mark.parametrize("headers", [{}, ONE_KEY], ids=["no keys", "one key"])
def test_a_name_opens_no_session_of_another_program(
    headers: dict[str, str], begins: bool, tmp_path: Path
) -> None:
    path = tmp_path / "a.db"
    private: Talk = [("user", "Good morning."), ("assistant", "the word is swordfish-private")]
    for id in ("private", "ann-private"):
        written(path, id, private, cwd="/home")
    talk = own_talk("bob") if begins else own_talk("bob")[2:]

    async def work() -> None:
        given = {**RECALL, "store": f"sqlite:{path}", **({"keys": KEYS} if headers else {})}
        async with gateway(server.url, **given) as (_, client):
            for name in ("private", "ann-private"):
                named = {"X-Refold-Session": name, **headers, **BOB}
                status, _, _ = await ask(client, "openai", body("openai", talk), **named)
                assert status == 200

    arguments = {"query": "swordfish private", "turn_numbers": [1, 2]}
    with WireServer(then=recalling(lambda: arguments)) as server:
        run(work)
    assert sent_for(server, "bob") and "swordfish-private" not in "".join(sent_for(server, "bob"))
    stored = contents(path)
    assert stored["private"] == stored["ann-private"] == [text for _, text in private]


def test_without_keys_a_name_alone_opens_nothing(tmp_path: Path) -> None:
    """One who knows the name of a session of the gateway's own, too, has to say what was said in it."""

    async def work() -> None:
        async with gateway(server.url, **RECALL, store=f"sqlite:{tmp_path / 'a.db'}") as (_, client):
            named = {"X-Refold-Session": "project"}
            await ask(client, "openai", body("openai", own_talk("ann")), **named, **ANN)
            ids = [session.id for session in sessions(tmp_path / "a.db")]
            for name in ("project", *ids):
                other = [("user", "What was said?"), *own_talk("bob")]
                await ask(client, "openai", body("openai", other), **{"X-Refold-Session": name}, **BOB)

    with WireServer(
        then=recalling(lambda: {"query": "watchword swordfish", "turn_numbers": [2, 3]})
    ) as server:
        run(work)
    assert "ann-" not in "".join(sent_for(server, "bob"))
    assert len({tuple(texts) for texts in contents(tmp_path / "a.db").values()}) == 2
    assert not [
        texts
        for texts in contents(tmp_path / "a.db").values()
        if "ann-" in str(texts) and "bob-" in str(texts)
    ]


owners = st.text(max_size=12) | st.text(alphabet="-.x_", max_size=6)
names = st.none() | st.text(max_size=12) | st.text(alphabet="-.x/0", max_size=6)


@settings(max_examples=examples(200), deadline=None, suppress_health_check=list(HealthCheck))
@given(owners, owners, names, names)
@example("x", "-x", "s", "s")
@example("x", "-x", "s.9d47234449", "s")
@example("x.s", "x", "t", "s.t")
@example("", "x", "x.s", "s")
@example("\u212b", "\u00c5", "s", "s")
def test_owners_are_compared_whole(one: str, other: str, name: str | None, named: str | None) -> None:
    """Two owners never share a session, however they and their sessions are called."""
    raw = json.dumps(body("openai", [("user", "One?")])).encode()

    async def opened(open_sessions: OpenSessions, owner: str, name: str | None) -> str:
        asked = read_request(PATHS["openai"], raw, {} if name is None else {"x-refold-session": name}, owner)
        assert asked is not None

        async def id_of(opened: OpenSession) -> str:
            return opened.session.id

        return await open_sessions.within(asked, id_of)

    async def work() -> None:
        open_sessions = OpenSessions("memory:")
        ids = [
            await opened(open_sessions, one, name),
            await opened(open_sessions, other, named),
            await opened(open_sessions, one, name),
        ]
        assert ids[0] == ids[2] and (one == other or ids[0] != ids[1])
        await open_sessions.close()

    run(work)


NAMES = [
    *("project", "Project", "PROJECT", " project", "project ", "pro/ject", "../ann.project", "ann.project"),
    *("-project", ".project", "proj\u00e9ct", "proje\u0301ct", "project\ufeff", "project%20", "ann.project."),
]


@pytest.mark.parametrize("name", ["project", "proj\u00e9ct"])
def test_no_spelling_of_a_name_opens_another_owners_session(name: str, tmp_path: Path) -> None:
    path, bob = tmp_path / "a.db", {"Authorization": "Bearer secret-of-bob"}

    def say(text: str, names: Sequence[str], key: dict[str, str]) -> None:
        async def work() -> None:
            async with gateway(server.url, store=f"sqlite:{path}", keys=KEYS) as (_, client):
                for name in names:
                    asked = body("openai", [("user", "Hi."), ("user", text)], stream=False)
                    status, _, _ = await ask(client, "openai", asked, **{"X-Refold-Session": name}, **key)
                    assert status == 200

        run(work)

    with WireServer(then=lambda _: "Fine.") as server:
        say("I am ann.", [name], ONE_KEY)
        [session] = sessions(path)
        say("I am bob.", [*NAMES, session.id, session.id.partition(".")[2]], bob)
        say("Still ann.", [name], ONE_KEY)
    told = [texts for texts in contents(path).values() if "ann." in str(texts)]
    assert told == [["Hi.", "I am ann.", "Fine.", "Still ann.", "Fine."]]


@pytest.mark.parametrize(
    ("headers", "more"),
    [
        ({"thread-id": "s"}, {}),
        ({}, {"prompt_cache_key": "s"}),
    ],
)
def test_two_who_use_one_name_are_told_nothing_of_each_other(
    headers: dict[str, str], more: dict[str, Any], tmp_path: Path
) -> None:
    async def work() -> None:
        async with gateway(server.url, **RECALL, store=f"sqlite:{tmp_path / 'a.db'}") as (_, client):
            for who in ("ann", "bob", "ann"):
                asked = {**body("openai", own_talk(who), stream=False), **more}
                await ask(client, "openai", asked, **headers, **{"x-who": who})

    arguments = {"query": "watchword swordfish", "turn_numbers": [1, 2, 3, 4]}
    with WireServer(then=recalling(lambda: arguments)) as server:
        run(work)
    for who, other in (("ann", "bob"), ("bob", "ann")):
        assert sent_for(server, who) and f"{other}-" not in "".join(sent_for(server, who))


@pytest.mark.sample(1)
@pytest.mark.parametrize("dialect", FIELDS)
def test_what_was_thought_for_one_is_not_handed_to_who_says_the_rest(dialect: str) -> None:
    """The other one has all that is seen of a conversation, and not what its model thought."""
    talk = long_talk(12)

    def answer(asked: dict[str, Any]) -> Any:
        listed = json.dumps(asked.get("messages") or asked["input"])
        thought = m.Thinking("nobody but ann, secret-ann-1", "seal-of-ann")
        return ScriptedReply(content=(thought, m.Text("Fine."))) if "Fine." not in listed else "So it is."

    async def work() -> None:
        async with gateway(server.url, window=16_000) as (_, client):
            await ask(client, dialect, body(dialect, talk, stream=False), **ANN)
            said = [*talk, ("assistant", "Fine."), ("user", "And then?")]
            _, done, _ = await ask(client, dialect, body(dialect, said, stream=False), **BOB)
            assert done.startswith("fold")

    with WireServer(then=answer) as server:
        run(work)
    assert "of-ann" not in sent_for(server, "bob")[0] and "secret-ann" not in sent_for(server, "bob")[0]


def test_after_a_restart_lists_are_known_and_people_are_still_apart(tmp_path: Path) -> None:
    path = tmp_path / "a.db"

    async def work() -> None:
        for _ in range(2):
            async with gateway(server.url, **RECALL, store=f"sqlite:{path}") as (_, client):
                for who in ("ann", "bob"):
                    asked = body("openai", own_talk(who), stream=False)
                    await ask(client, "openai", asked, **{"x-who": who})

    arguments = {"query": "watchword swordfish", "turn_numbers": [2, 3]}
    with WireServer(then=recalling(lambda: arguments)) as server:
        run(work)
    for who, other in (("ann", "bob"), ("bob", "ann")):
        assert len(sent_for(server, who)) == 4 and f"{other}-" not in "".join(sent_for(server, who))
    [texts] = contents(path).values()
    assert len(texts) == 2 + 2 * (len(own_talk("ann")) - 2 + 1), "each list once, with its answer"


@pytest.mark.parametrize("preset", ["refold", "augment", "pi"])
def test_what_one_did_with_tools_is_in_no_summary_of_another(
    preset: str, summariser: Callable[[WireServer, str], None]
) -> None:
    """Files, commands and plans are gathered from calls: those of one path."""
    filler = " ".join(f"word{n}" for n in range(400))

    def talk(who: str) -> list[dict[str, Any]]:
        said: list[dict[str, Any]] = [{"role": "user", "content": "Good morning."}]
        for n in range(12):
            todos = [{"content": f"plan-of-{who}", "status": "pending", "activeForm": "x"}]
            tools = [
                ("Write", {"file_path": f"src/file_of_{who}_{n}.py", "content": filler}),
                ("Bash", {"command": f"pytest tests/check_of_{who}_{n}.py"}),
                ("TodoWrite", {"todos": todos}),
            ]
            uses = [
                {"type": "tool_use", "id": f"c{n}-{at}", "name": name, "input": given}
                for at, (name, given) in enumerate(tools)
            ]
            results = [
                {"type": "tool_result", "tool_use_id": use["id"], "content": f"FAILED of_{who} {filler}"}
                for use in uses
            ]
            said += [{"role": "assistant", "content": uses}, {"role": "user", "content": results}]
        return said

    async def work() -> None:
        async with gateway(server.url, preset=preset, window=24_000) as (_, client):
            for who in ("ann", "bob", "ann"):
                asked = {"model": "m", "max_tokens": 9, "messages": talk(who)}
                status, done, _ = await ask(client, "anthropic", asked, **{"x-who": who})
                assert status == 200 and done.startswith("fold")

    with WireServer(then=lambda _: "Fine.") as server:
        summariser(server, "")
        run(work)
    for who, other in (("ann", "bob"), ("bob", "ann")):
        assert f"of_{other}" not in "".join(sent_for(server, who))
        assert f"of-{other}" not in "".join(sent_for(server, who))


# ── folds, views, thinking, prompts ─────────────────────────────────────────────────────────────

CANARY = re.compile(r"secret-(\w+?)-\d+")


@pytest.fixture
def summariser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[WireServer, str], None]:
    """Summaries are written by a model of this name."""
    monkeypatch.setenv("REFOLD_CONFIG", str(tmp_path / "refold.toml"))
    monkeypatch.setenv("OPENAI_API_KEY", "k")

    def configured(server: WireServer, name: str) -> None:
        written = (
            f'summariser = "openai:{name}"\n[providers.openai]\nbase_url = "{server.v1}"\n' if name else ""
        )
        (tmp_path / "refold.toml").write_text(written + AUGMENT)

    return configured


AUGMENT = """[presets.augment]
trigger_on_history_size_chars = 60_000
history_tail_size_chars_to_exclude = 20_000
prompt = "Summarise."
[presets.pi]
reserve_tokens = 4_000
keep_recent_tokens = 8_000
[presets.layered]
keep_rounds = 2
threshold = 0.5
[presets.window]
max_history = 20
compact_threshold = 14
compact_window = 4
"""


SECTIONS = (
    *("Goal", "Progress", "Period covered", "Objectives and status", "Technical context"),
    *("Completed milestones", "Key insights and decisions", "File-system state"),
)


def telling(asked: dict[str, Any]) -> str:
    """A summary that gives away all that its writer was told."""
    found = dict.fromkeys(each.group() for each in CANARY.finditer(json.dumps(asked)))
    told = "\n".join(f"- {each} was mentioned." for each in found)
    return "\n".join(f"## {section}\n{told}\n" for section in SECTIONS)


def others(text: str, who: str) -> set[str]:
    return {each.group() for each in CANARY.finditer(text) if each.group(1) != who}


def crowd(
    preset: str, dialect: str, seed: int, rounds: int, configured: Callable[[WireServer], None]
) -> None:
    """Three people say the same at first, then each something else; in turns, by chance."""
    chance, numbers = random.Random(seed), iter(range(10_000))
    filler = " ".join(f"word{n}" for n in range(600))
    shared: Talk = []
    for n in range(4):
        shared += [("user", f"Common question {n}: {filler}"), ("assistant", f"Common answer {n}: {filler}")]
    talks: dict[str, list[Any]] = {
        who: [*shared[: 2 * chance.randrange(1, 5)]] for who in ("ann", "bob", "cid")
    }

    def answer(asked: dict[str, Any]) -> Any:
        if asked["model"] == "writer":
            return telling(asked)
        who = re.findall(r"says (\w+)", json.dumps(asked.get("messages") or asked["input"]))[-1]
        thought = m.Thinking(f"secret-{who}-{next(numbers)}", "sealed")
        return ScriptedReply(content=(thought, m.Text(f"Fine, secret-{who}-{next(numbers)}. {filler}")))

    async def work() -> None:
        async with gateway(server.url, preset=preset, window=24_000, recall=True) as (made, client):
            for _ in range(rounds):
                who = chance.choice(("ann", "bob", "cid"))
                talk = talks[who]
                if chance.random() < 0.15:
                    del talk[2 * chance.randrange(1, len(talk) // 2 + 1) :]  # goes back to an earlier place
                talk.append(("user", f"secret-{who}-{next(numbers)} {filler} says {who}"))
                asked = body(dialect, talk, stream=False)
                asked |= {"instructions": f"Be secret-{who}-0."} if dialect == "responses" else {}
                status, _, data = await ask(client, dialect, asked, **{"x-who": who})
                if status == 200:
                    talk.append(("assistant", _text_of(dialect, json.loads(data))))
                else:  # some designs cannot make everything fit
                    assert status == 400 and b"too long" in data
                    del talk[4:]
            assert made.worker.counts["folded"]

    with WireServer(then=answer) as server:
        configured(server)
        run(work)
        assert server.problems == []
    for who in talks:
        told = "".join(sent_for(server, who))
        assert not others(told, who), (preset, dialect, seed)
    assert len(set(map(str, talks.values()))) == 3


def _text_of(dialect: str, data: dict[str, Any]) -> str:
    match dialect:
        case "openai":
            return data["choices"][0]["message"]["content"]
        case "responses":
            return "".join(part["text"] for item in data["output"] for part in item.get("content", ()))
        case _:
            return "".join(part.get("text", "") for part in data["content"])


@pytest.mark.sample(2)
@pytest.mark.parametrize("written", ["writer", ""], ids=["a model", "no model"])
@pytest.mark.parametrize(
    ("preset", "dialect"),
    [
        ("refold", "anthropic"),
        ("augment", "openai"),
        ("pi", "responses"),
        ("layered", "anthropic"),
        ("rounds", "openai"),
        ("window", "responses"),
    ],
)
def test_in_a_crowd_nobody_is_told_of_another(
    preset: str, dialect: str, written: str, summariser: Callable[[WireServer, str], None]
) -> None:
    crowd(preset, dialect, 7, 30, lambda server: summariser(server, written))
