"""Sessions of the real programs: in, folded, and back."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path

import pytest

import refold
from refold import entries as e
from refold import messages as m
from refold.models.scripted import ScriptedReply
from refold.session import Projection
from refold.testing.wire import WireServer
from refold.transcripts.codex_items import is_context
from refold.transcripts.export import export
from refold.transcripts.programs import page_of, writer
from tests.clients.kit import PATTERNS, Client, conversation, in_order, shows

pytestmark = pytest.mark.clients

PROMPT = "Count up, and never touch b.txt."
STEPS = 6
BUDGET = 1500


@pytest.fixture(params=sorted(PATTERNS))
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Client:
    return Client(request.param, tmp_path)


def first_turns(client: Client) -> tuple[Path, list[tuple[str, ...]]]:
    """A session of two turns, and what the last request of it said."""
    with WireServer(*conversation(client, STEPS), "Nothing else.") as server:
        client.say(server, PROMPT)
        [file] = client.files()
        client.say(server, "What else?", resume=id_of(client, file))
        assert server.problems == []
        return file, client.told(server)


def id_of(client: Client, file: Path) -> str:
    if client.program == "claude-code":
        return file.stem
    return json.loads(file.read_text().splitlines()[0])["payload"]["id"]


def view(client: Client, file: Path) -> list[tuple[str, ...]]:
    """What refold shows of a session, as its program would send it."""
    page = page_of(refold.load(file), writer(client.program))
    return in_order(item.message for item in page.view)


def test_a_session_of_the_real_program_is_imported_without_loss(client: Client) -> None:
    file, told = first_turns(client)
    session = refold.load(file)
    assert session.problems == ()
    assert view(client, file) == [*told, ("assistant", "Nothingelse.")]
    assert [len(message.calls) for message in _replies(session)] == [2] * STEPS + [0, 0]
    known = {entry.id for entry in session.entries}
    records = [json.loads(line) for line in file.read_text().splitlines()]
    assert {record["uuid"] for record in records if "uuid" in record} <= known


def _replies(session: refold.Session) -> list[m.Assistant]:
    shown = (item.message for item in Projection(session).items)
    return [message for message in shown if isinstance(message, m.Assistant)]


def _prompts(session: refold.Session) -> list[m.User]:
    said = (entry.message for entry in session.path if isinstance(entry, e.MessageEntry))
    typed = (message for message in said if isinstance(message, m.User) and not is_context(message))
    return [message for message in typed if not message.text.startswith("<system-reminder>")]


def test_a_folded_session_is_exported_and_resumed_and_after_a_second_fold_again(
    client: Client, tmp_path: Path
) -> None:
    source, _ = first_turns(client)
    folded = tmp_path / "folded.jsonl"
    client.answer("compact", source, "--budget", BUDGET, "-o", folded)
    exported = client.answer("export", folded, "--to", client.program, "--cwd", client.project)
    file = Path(exported["output"])
    assert file in client.files()
    assert file != source
    assert exported["id"] != id_of(client, source)
    assert exported["command"].endswith(f"resume {exported['id']}")
    said = view(client, folded)
    assert PROMPT.replace(" ", "") in str(said)
    with WireServer("After the first fold.", "After the second fold.") as server:
        client.say(server, "Go on.", resume=exported["id"])
        assert client.told(server) == [*said, ("user", "Goon.")]
        # The program went on in our file: what stands before the boundary is the session as it was.
        read, before = refold.load(file), [entry.id for entry in refold.load(folded).path]
        assert [entry.id for entry in read.path][: len(before)] == before
        assert [message.text for message in _prompts(read)] == [PROMPT, "What else?", "Go on."]
        again = client.answer("compact", file, "--budget", BUDGET // 2, "--in-place")
        assert again["in_place"]["id"] == exported["id"]
        said = view(client, file)
        client.say(server, "Go on again.", resume=exported["id"])
        assert client.told(server) == [*said, ("user", "Goonagain.")]
        assert server.problems == []
    assert refold.load(file).problems == ()


def test_with_mcp_the_model_of_the_real_program_reads_a_folded_message_again(
    client: Client, tmp_path: Path
) -> None:
    source, _ = first_turns(client)
    folded = tmp_path / "folded.jsonl"
    client.answer("compact", source, "--budget", BUDGET // 2, "-o", folded)
    to = ("--to", client.program, "--cwd", client.project, "--with-mcp")
    exported = client.answer("export", folded, *to)
    typed = shlex.split(exported["command"])
    more = typed[typed.index(exported["id"]) + 1 :]
    session = f"{client.program}:{exported['id']}"
    call = m.call("call_recall", "mcp__refold__recall", session=session, query="4059 4060 4061")
    wait = m.call("call_wait", "WaitForMcpServers")
    # Codex has the tool in a namespace, which the scripted server does not write: there it is only offered.
    asks = client.program == "claude-code"
    said = [m.assistant("", wait), m.assistant("", call)] if asks else []
    with WireServer(*said, "I see.") as server:
        client.say(server, "What did the fourth step print?", resume=exported["id"], more=more)
        first, last = (json.dumps(body) for body in (server.bodies[0], server.bodies[-1]))
        tools = json.dumps(server.bodies[-1]["tools"])
    assert f'session=\\"{session}\\"' in first
    assert not shows(4060, first)
    assert shows(4060, last.replace(call.arguments["query"], "")) is asks
    assert "mcp__refold" in tools


def test_a_session_is_folded_in_place_twice_and_its_history_stays(client: Client) -> None:
    file, _ = first_turns(client)
    before, sizes = file.read_bytes(), []
    first = [entry.id for entry in refold.load(file).path]
    with WireServer("One.", "Two.") as server:
        for number, budget in enumerate((BUDGET, BUDGET // 2), 1):
            done = client.answer("compact", file, "--budget", budget, "--in-place")
            assert done["fits"]
            assert Path(done["in_place"]["backup"]).name == f"{file.name}.{number}.bak"
            said = view(client, file)
            client.say(server, f"Question {number}.", resume=id_of(client, file))
            assert client.told(server) == [*said, ("user", f"Question{number}.")]
            sizes.append(len(server.requests[-1].raw))
        assert server.problems == []
    assert file.read_bytes().startswith(before)
    session = refold.load(file)
    assert session.problems == ()
    # The folds came back as they were made: nothing is there twice, and each place is what it was.
    assert [entry.id for entry in session.path][: len(first)] == first
    assert [fold.preset for fold in Projection(session).folds] == ["refold", "refold"]
    assert sizes[1] < sizes[0]


def test_a_session_from_elsewhere_is_resumed_with_whatever_model_is_set_up(
    client: Client, tmp_path: Path
) -> None:
    session = refold.Session(id="elsewhere")
    session.append(m.system("You are another agent."))
    session.append(m.user("Fix the login."))
    session.append(m.assistant("Looking.", m.call("c1", "read_file", path="a.py")), model="local:other")
    session.append(m.result("c1", "print(1)"))
    session.append(m.assistant("Done."))
    source = tmp_path / "elsewhere.jsonl"
    source.write_bytes(export(session, "jsonl").data)
    exported = client.answer("export", source, "--to", client.program, "--cwd", client.project)
    assert "system prompt not exported: the program has its own" in exported["lost"]
    with WireServer("Yes.") as server:
        client.say(server, "Go on.", resume=exported["id"])
        assert client.told(server) == [*view(client, source), ("user", "Goon.")]
        assert server.problems == []


def test_a_session_in_use_is_left_alone(client: Client) -> None:
    file, _ = first_turns(client)
    with WireServer(ScriptedReply(content=(m.Text("wait"),), stalls=True)) as server:
        process = client.start(server, "Wait.", resume=id_of(client, file))
        try:
            deadline = time.monotonic() + 120
            while not server.requests and time.monotonic() < deadline:
                time.sleep(0.02)
            before = file.read_bytes()
            done = client.refold("compact", file, "--budget", BUDGET, "--in-place")
            assert done.returncode == 1
            assert "is in use" in done.stderr
            after = file.read_bytes()  # the program itself may have gone on
            assert after.startswith(before)
            assert b"compact" not in after
            assert not list(file.parent.glob("*.bak"))
        finally:
            process.kill()
            process.communicate()
