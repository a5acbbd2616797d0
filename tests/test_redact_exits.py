"""R17: what leaves the log is redacted at every exit; what stands in the view is not."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click
import pytest
from benchmarks.redaction import HELD, TUNED, Kind, leaked, planted
from click.testing import CliRunner

import refold
from refold import Engine, Session, presets
from refold import entries as e
from refold import messages as m
from refold.cli import main
from refold.compaction.plan import Plan
from refold.compare.budgets import parse_budget
from refold.compare.report import message_details, page
from refold.compare.run import ComparisonPlan as ComparePlan
from refold.compare.run import compare
from refold.engine.summarise import ByModel
from refold.errors import StorageError
from refold.loop import run
from refold.models.retry import NO_RETRY
from refold.models.scripted import Scripted
from refold.protocols import Request
from refold.recall import recall
from refold.recall.tool import result as recalled
from refold.registry.sessions import named_session
from refold.session import redacted
from refold.shrink.clip import LEVELS, clip_message
from refold.shrink.excerpt import Texts
from refold.stores.memory import MemoryStore
from refold.text.redact import redact
from refold.tokens import get as counter
from refold.transcripts.export import export, targets
from tests.compare.blocks import everything
from tests.test_poison import engine_for

KINDS: tuple[Kind, ...] = tuple(kind for kinds in (TUNED, HELD) for rows in kinds.values() for kind in rows)
LEAST = 0.95
OWN = "My own password = aB3xY9qL7w, never change it."


def secretive(value: int) -> Session:
    """A conversation in which tools and the agent say a secret of every kind."""
    session = Session()
    session.append(m.user(OWN))
    for number, kind in enumerate(KINDS):
        text, _ = planted(kind, value)
        call = m.call(f"c{number}", "Bash", command=f"cat file{number}")
        session.append(m.assistant(f"Found this.\n{text}\nIt matters.", call))
        session.append(m.result(f"c{number}", f"head of the file\n{text}\nend of the file", name="Bash"))
        if number % 8 == 7:
            session.append(m.assistant(f"Part {number} is done.\n{text}\n"))
            session.append(m.user(f"Go on with part {number}."))
    return session


def share(said: str, value: int) -> float:
    gone = [not leaked(said, planted(kind, value)[1]) for kind in KINDS]
    return sum(gone) / len(gone)


def whole(request: Request) -> str:
    return "\n".join(m.in_full(message) for message in request.messages)


def folded(name: str, session: Session, model: bool = True, answer: str = "") -> tuple[str, str]:
    """(what the summariser was sent, what was recorded) by a design whose model repeats all it is told, or gives one
    answer to everything."""
    asked: list[str] = []

    def echo(request: Request) -> str:
        asked.append(whole(request))
        if answer:
            return answer
        return asked[-1][:60_000] if name != "rounds" else asked[-1][-400:]

    engine = engine_for(name, None)
    if model:
        scripted = Scripted(then=echo, context_window=1_000_000)
        engine = Engine(
            engine.preset, model=scripted, summariser=ByModel(scripted, counter(), retries=NO_RETRY)
        )
    plan = engine.plan(session, force=True)
    assert plan, plan
    run(engine.apply(session, plan))
    run(engine.prepare(session)) if name == "rounds" else None
    records = [
        "\n".join(
            (
                fold.summary,
                *(x.text for edit in fold.edits if edit.kind in ("summary", "line") for x in edit.put),
            )
        )
        for fold in session.entries
        if isinstance(fold, e.Fold)
    ]
    lines = [line.text for line in session.annotations(e.TurnLine)]
    return "\n".join(asked), "\n".join((*records, *lines))


def report(session: Session) -> str:
    found = ComparePlan(("refold", "pi"), [parse_budget("6000")])
    return everything(page(run(compare([("x.jsonl", session)], found))))


def exits(value: int) -> dict[str, Callable[[], str]]:
    def recall_text() -> str:
        session = secretive(value)
        whole = recalled(
            session, m.call("c", "recall_conversation", turn_numbers=[*range(1, 40)]), budget=10**6
        )
        hits = [hit.text for kind in KINDS for hit in recall(session, planted(kind, value)[1], limit=3)]
        return "\n".join((whole.text, *hits))

    def exported(to: str) -> str:
        return export(secretive(value), to, redact=to != "markdown").data.decode().replace("\\n", "\n")

    made: dict[str, Callable[[], str]] = {
        **{
            f"{name}, request and record": lambda name=name: "\n".join(folded(name, secretive(value)))
            for name in presets.NAMES
        },
        **{
            f"{name}, digest": lambda name=name: folded(name, secretive(value), model=False)[1]
            for name in presets.NAMES
        },
        **{f"export {to}": lambda to=to: exported(to) for to in targets()},
        "recall": recall_text,
        "report": lambda: report(secretive(value)),
    }
    return made


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", exits(0))
def test_no_exit_tells_secrets(name: str) -> None:
    said = exits(0)[name]()
    assert len(said) > 100, "nothing came out"
    assert share(said, 0) >= LEAST, [kind.name for kind in KINDS if leaked(said, planted(kind, 0)[1])]


@pytest.mark.torture
@pytest.mark.parametrize("first", range(0, 20, 4))
@pytest.mark.parametrize("name", exits(0))
def test_no_exit_tells_secrets_of_twenty_values(name: str, first: int) -> None:
    shares = [share(exits(value)[name](), value) for value in range(first, first + 4)]
    assert sum(shares) / len(shares) >= LEAST


def test_there_are_ninety_kinds() -> None:
    assert len(KINDS) >= 90


def test_the_model_still_sees_what_it_has_seen() -> None:
    session = secretive(0)
    engine = engine_for("refold", None)
    kept = planted(KINDS[0], 0)[1]
    session.append(m.user(f"Use {kept} now."))
    run(engine.apply(session, engine.plan(session, force=True)))
    view = engine.view(session)
    assert kept in view.text
    assert OWN in view.text, "the user's own words are carried as they were typed"


def test_an_export_without_redact_is_the_session_as_it_was() -> None:
    session = secretive(0)
    for to in ("jsonl", "openai"):
        assert planted(KINDS[2], 0)[1].encode() in export(session, to).data


def test_signed_thinking_that_had_to_change_is_left_out_of_an_export() -> None:
    session, secret = Session(), planted(KINDS[2], 0)[1]
    session.append(m.user("Why?"))
    session.append(m.Assistant((m.Thinking(f"I know {secret}", "signed"), m.Text("So."))))
    wire = export(session, "anthropic", redact=True).data.decode()
    assert secret not in wire
    assert "signed" not in wire


def test_arguments_are_redacted_by_their_names() -> None:
    session = Session()
    session.append(m.user("Log in."))
    session.append(
        m.assistant("", m.call("c", "Login", user="me", password="aB3xY9qL7w", at={"apiKey": "Zx81Kq03Lm"}))
    )
    data = export(session, "jsonl", redact=True).data.decode()
    assert "aB3xY9qL7w" not in data
    assert "Zx81Kq03Lm" not in data


HIDDEN = "aB3xY9qL7w"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A session with a secret in every place that a command shows."""
    path = tmp_path / "s.jsonl"
    session = refold.open(f"jsonl:{path}")
    session.append(session.make(e.Info, name=f"login password={HIDDEN}"))
    for n in range(8):
        session.append(m.user(f"Go on with part {n}. " + "And so on. " * 40))
        bash = m.call(f"b{n}", "Bash", command=f"deploy {n} # contraseña={HIDDEN}")
        session.append(m.assistant(f"password: {HIDDEN}", bash))
        session.append(m.result(bash.id, f"password:\n  {HIDDEN}\n" + "text " * 60, name="Bash"))
        read = m.call(f"r{n}", "Read", file_path=f"src/{n}?password={HIDDEN}")
        write = m.call(f"w{n}", "Write", file_path=f"a{n}.py", content=f"password =\n    '{HIDDEN}'")
        session.append(m.assistant("", read, write))
        session.append(m.result(read.id, "text", name="Read"))
        session.append(m.result(write.id, "ok", name="Write"))
        todo = {"content": f"password: >-\n  {HIDDEN}", "status": "pending"}
        session.append(m.assistant("", m.call(f"t{n}", "TodoWrite", todos=[todo])))
        session.append(m.result(f"t{n}", "ok", name="TodoWrite"))
    session.label(session.path[3].id, f"password={HIDDEN}")
    return path


@pytest.fixture
def folded_file(file: Path) -> Path:
    """The same, with messages that left the view."""
    session, engine = refold.open(f"jsonl:{file}"), Engine(presets.get("refold", budget=2_000))
    plan = engine.plan(session, force=True)
    assert isinstance(plan, Plan) and run(engine.apply(session, plan))
    session.append(m.user("And now?"))
    return file


COMMANDS: dict[str, tuple[str, ...]] = {
    "plan": ("plan {} --budget 3000", "plan {} --budget 3000 --json", "plan {} --preset pi --json"),
    "stats": ("stats {}", "stats {} --json"),
    "discover": ("discover {}", "discover {} --json"),
    "show": ("show {} --abridged", "show {} --tree", "show {} --tree --json", "show {} --trail", "show {} --trail --json", "show {} --ledger", "show {} --ledger --json"),
    "recall": ("recall {} --turns 1-8 --full", "recall {} password", "recall {} password --json"),
    "export": (
        "export {} --to markdown",
        *(f"export {{}} --redact --to {to}" for to in targets()),
        *(f"export {{}} --redact --view --to {to}" for to in ("openai", "markdown")),
    ),
    "compare": ("compare {} --presets refold,pi --budgets 3000 --passes 1 --json",
                "compare {} --presets refold,pi --budgets 3000 --passes 1"),
    "branch": ("branch {} #3", "branch {} #3 --summarize --json", "branch {} nothing"),
    "forget": ("forget {} #3 --dry-run", "forget {} #3 --dry-run --json", "forget {} nothing --dry-run"),
    "pin": ("pin {} #3", "pin {} #3 --json", "pin {} nothing"),
    "unpin": ("unpin {} #3", "unpin {} nothing"),
    "undo": ("undo {}", "undo {} --json"),
    "redo": ("redo {}", "redo {} --json"),
    "import": ("import {} --to sqlite:{}.db", "import {} --to sqlite:{}.db --json"),
    "sessions": ("sessions --store jsonl:{}", "sessions --store jsonl:{} --json", "sessions --store jsonl:{} --search password"),
    "sessions backup": ("sessions backup {}.copy --store jsonl:{}",),
    "sessions copy": ("sessions copy nothing --store jsonl:{} --to sqlite:{}.db",),
    "sessions delete": ("sessions delete nothing --store jsonl:{} --yes",),
    "sessions doctor": ("sessions doctor --store jsonl:{}", "sessions doctor --store jsonl:{} --json"),
    "memory add": ("memory --file {}.md add password={hidden}",),
    "memory compress": ("memory --file {}.md compress",),
}  # fmt: skip
"""What each command says of a session."""
ELSEWHERE = {
    "chat": "shows the conversation as it stands, to who holds it",
    "completion install": "says nothing of a session",
    "config init": "says nothing of a session",
    "doctor": "tests/cli/test_doctor.py",
    "explore": "tests/explorer/test_server.py",
    "compact": "gives the view, which the model sees as it stands",
    "demo": "a session that comes with the package",
    "memory list": "the user's own file, as it was written; what is added to it has no secrets",
    "memory forget": "says how many notes are gone",
    "mcp": "tests/mcp/test_server.py",
    "models": "says nothing of a session",
    **dict.fromkeys(("plugin install", "plugin list", "plugin remove"), "says nothing of a session"),
    **dict.fromkeys(
        ("plugin ask", "plugin hook", "plugin live", "plugin status"),
        "gives a program's own conversation back to it, as it stands there",
    ),
    "presets": "says nothing of a session",
    "run": "the program's own terminal; the gateway beside it logs as `serve` does",
    "serve": "logs routes, states and counts, and no text: tests/gateway/test_auth.py",
}


def commands(group: click.Group, before: str = "") -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")
            if not command.invoke_without_command:
                continue
        yield f"{before}{name}"


def test_every_command_is_in_the_table_of_exits() -> None:
    assert {*commands(main)} == {*COMMANDS, *ELSEWHERE}


@pytest.mark.sample(9)
@pytest.mark.parametrize("arguments", [row for rows in COMMANDS.values() for row in rows])
def test_no_command_tells_a_secret(folded_file: Path, arguments: str) -> None:
    file = folded_file
    Path(f"{file}.md").write_text(f"- password={HIDDEN} is the one\n")
    done = CliRunner().invoke(main, arguments.replace("{hidden}", HIDDEN).replace("{}", str(file)).split())
    assert done.exit_code in (0, 1, 2) and "Missing argument" not in done.output, done.output
    assert done.output.strip() and HIDDEN not in done.output


@pytest.mark.parametrize("name", presets.NAMES)
def test_a_summary_that_says_a_secret_is_recorded_without_it(name: str) -> None:
    """A model may quote what the user said, or make one up."""
    session = Session()
    for n in range(30):
        session.append(m.user(f"Go on with part {n}. " + "And so on. " * 40))
        session.append(m.assistant(f"Part {n} is done. " + "text " * 60))
    said = folded(name, session, answer=f"## Goal\nFix the login.\nThe database password is {HIDDEN}.\n")[1]
    assert HIDDEN not in said


def test_a_store_without_sessions_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"postgresql://me:{HIDDEN}@db.example.org/app"

    def empty(spec: str) -> tuple[MemoryStore, None]:
        assert spec == address
        return MemoryStore(), None

    monkeypatch.setattr("refold.registry.sessions.open_store", empty)
    with pytest.raises(StorageError, match="contains no session") as raised:
        named_session(address)
    assert HIDDEN not in str(raised.value)


def test_identifiers_of_a_digest_are_no_secrets(file: Path) -> None:
    """`Bash(command=… password=x)`: in the text of a call a bracket follows the value."""
    session = refold.load(file)
    for name in presets.NAMES:
        assert HIDDEN not in folded(name, Session(session.entries), model=False)[1], name


def test_reports_and_exports_are_for_their_owner_alone(tmp_path: Path) -> None:
    source = tmp_path / "s.jsonl"
    source.write_bytes(export(secretive(0), "jsonl").data)
    out, html = tmp_path / "new" / "out.md", tmp_path / "r" / "report.html"
    for arguments in (
        ["export", str(source), "--to", "markdown", "-o", str(out)],
        [
            "compare",
            str(source),
            "--presets",
            "refold",
            "--budgets",
            "6000",
            "--passes",
            "1",
            "--html",
            str(html),
        ],
    ):
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 0, done.output
    for path in (out, html):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


# ── parts of secrets: what a cut leaves ─────────────────────────────────────────────────────────

RECOGNISED = [kind for kind in KINDS if not leaked(redact(planted(kind, 0)[0])[0], planted(kind, 0)[1])]
COUNTER = counter()


def halved(kind: Kind, level: int) -> tuple[m.Result, m.Result]:
    """A result with a secret, and a clip that goes through it, as earlier releases and other programs make them;
    where, says the level."""
    text, secret = planted(kind, 0)
    whole = m.result("c", f"plain words go on here {text} and here")
    at = whole.text.index(secret) + max(8, len(secret) * (1 + level % 7) // 8)
    return whole, m.result("c", f"{whole.text[:at]} [… 7 tokens, #3 …]")


def test_a_clip_cuts_hardly_any_secret_in_two() -> None:
    """None of one line."""
    cut = list[str]()
    for kind in RECOGNISED[::4]:
        text, secret = planted(kind, 0)
        for before in range(0, 200, 17):
            filling = "plain words of some length go on here " * 20
            clip = clip_message(
                m.result("c", f"{filling[:before]} {text} {filling}"), LEVELS[4], Texts(COUNTER), key="#3"
            )
            if "\n" not in text and secret not in clip.text and leaked(redact(clip.text)[0], secret):
                cut.append(kind.name)
    assert cut == []


def of_clips(level: int, kinds: Sequence[Kind]) -> tuple[Session, int]:
    """A session in which a secret of each kind is in a clip of that level; and how many are cut in two."""
    session, halves = Session(), 0
    session.append(m.user("Look around."))
    edits: list[e.Edit] = []
    for number, kind in enumerate(kinds):
        whole, cut = halved(kind, level)
        secret = planted(kind, 0)[1]
        halves += secret not in cut.text and leaked(redact(cut.text)[0], secret)
        session.append(m.assistant("I look.", m.call(f"c{number}", "Bash", command=f"cat {number}")))
        entry = session.append(m.result(f"c{number}", whole.text, name="Bash"))
        put = m.result(f"c{number}", cut.text, name="Bash")
        edits.append(e.Edit(entry.id, entry.id, (put,), "summary"))
    session.append(session.make(e.Fold, edits=tuple(edits), preset="refold"))
    return session, halves


def in_report(session: Session, fold: e.Fold) -> str:
    """What the report says of the messages that a fold put."""
    results = [x for x in session.path if isinstance(x, e.MessageEntry) and isinstance(x.message, m.Result)]
    said = [message_details.ReportMessage(x.id, x.message, redacted.message_text(x.message)) for x in results]
    shown = [message_details.ShownText.of(one.text, 10**6) for one in said]
    page = message_details._Folds(said, shown, 10**6, redacted.KnownSecrets(one.message for one in said))
    put = [edit.put[0] for edit in fold.edits]
    texts = [str(page._text(message, number)) for number, message in enumerate(put)]
    return "\n".join([*texts, *(str(page._text(message, None)) for message in put)])


def check_parts(level: int, programs: Sequence[str], kinds: Sequence[Kind] = RECOGNISED) -> int:
    session, halves = of_clips(level, kinds)
    [fold] = session.annotations(e.Fold)
    said = {
        "report": in_report(session, fold),
        **{to: export(session, to, redact=True, cwd="/tmp").data.decode() for to in programs},
        "view": export(session, "markdown", view=True).data.decode(),
    }
    for name, told in said.items():
        loose = [kind.name for kind in kinds if leaked(told, planted(kind, 0)[1])]
        assert loose == [], f"{name} at {level}"
    return halves


def test_no_part_of_a_secret_that_a_clip_cut_in_two_leaves() -> None:
    assert check_parts(LEVELS[4], ("claude-code",), RECOGNISED[::3]) > 3, "hardly any was cut in two"


@pytest.mark.torture
@pytest.mark.parametrize("level", LEVELS[:28])
def test_no_part_of_a_secret_leaves_at_any_level(level: int) -> None:
    check_parts(level, targets())
