"""`refold discover` on small sessions that were counted by hand."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from refold import messages as m
from refold import tokens
from refold.cli import main

SECRET = "token=ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
CODE, TESTS = "def port():\n    return 1\n" * 20, "3 passed\n" * 10


def refold(*arguments: str) -> Result:
    done = CliRunner().invoke(main, list(arguments))
    assert done.exit_code == 0, done.output
    return done


class Log:
    """A file of Claude Code, record by record."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def add(self, type: str, *, root: bool = False, **more: Any) -> None:
        number = len(self.records)
        self.records.append(
            {"type": type, "uuid": f"u{number}", "parentUuid": None if root else f"u{number - 1}" if number else None,
             "sessionId": "s", "cwd": "/app", "isSidechain": False, "version": "2.1.0",
             "timestamp": f"2026-01-01T00:00:{number:02}.000Z", **more}
        )  # fmt: skip

    def typed(self, text: str, **more: Any) -> None:
        self.add("user", message={"role": "user", "content": text}, **more)

    def reply(self, block: dict[str, Any], read: int = 0, write: int = 0) -> None:
        usage = {
            "input_tokens": 0,
            "output_tokens": 1,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": write,
        }
        message = {
            "role": "assistant",
            "model": "m",
            "id": f"r{len(self.records)}",
            "content": [block],
            "usage": usage,
        }
        self.add("assistant", message=message)

    def call(self, id: str, name: str, result: str, read: int, write: int, **arguments: str) -> None:
        self.reply({"type": "tool_use", "id": id, "name": name, "input": arguments}, read, write)
        self.add(
            "user",
            message={
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": id, "content": result}],
            },
        )

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{json.dumps(record)}\n" for record in self.records))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.delenv("REFOLD_DATABASE", raising=False)
    log = Log()
    log.typed(f"Keep the port at 8443. Never touch schema.sql. Use {SECRET} only.")
    log.call("c1", "Read", CODE, 0, 1000, file_path="/app/a.py")
    log.call("c2", "Bash", TESTS, 1000, 100, command="pytest -q tests")
    log.call(
        "c3", "Read", CODE, 0, 1200, file_path="/app/a.py"
    )  # nothing changed it; the cache had none of 1,100
    log.reply({"type": "text", "text": "The limit is 5000 now."}, 1200, 100)
    log.add("system", root=True, subtype="compact_boundary", content="Conversation compacted", logicalParentUuid="u7",
            compactMetadata={"trigger": "auto", "preTokens": 1300})  # fmt: skip
    log.typed("This session is being continued. Summary: Keep the port at 8443. a.py was read.", isCompactSummary=True,
              isVisibleInTranscriptOnly=True)  # fmt: skip
    log.call("c4", "Read", CODE, 0, 300, file_path="/app/a.py")  # begins otherwise: no miss
    log.call("c5", "Read", "other", 300, 100, file_path="/app/b.py")  # was not read before
    log.write(tmp_path / ".claude" / "projects" / "-app" / "s.jsonl")
    return tmp_path


def discovered(*arguments: str) -> Any:
    return json.loads(refold("discover", *arguments, "--json").stdout)


def test_every_figure_of_a_session_is_what_its_log_says(home: Path) -> None:
    found, count = discovered(), tokens.get("o200k").message
    code, tests = count(m.result("c", CODE, name="Read")), count(m.result("c", TESTS, name="Bash"))
    other = count(m.result("c", "other", name="Read"))
    assert (found["sessions"], found["formats"], found["unread"]) == (1, {"claude-code": 1}, [])
    assert found["tools"] == {
        "Read": {"calls": 4, "tokens": 3 * code + other},
        "Bash": {"calls": 1, "tokens": tests},
    }
    assert [(one["path"], one["times"]) for one in found["again"]] == [("/app/a.py", 2)]
    assert found["cache"] == {"requests": 6, "prompt": 5300, "read": 2500, "misses": 1, "missed": 1100}
    [event] = found["events"]
    gone = event["compaction"]
    assert (gone["before"], gone["summarised"]) == (1300, True)
    lost = {kind: (one["gone"], one["of"]) for kind, one in gone["lost"].items()}
    # "Keep the port at 8443." stays; 3 words of schema.sql and 3 around the secret go.
    assert lost == {"words": (6, 11), "paths": (0, 1), "commands": (1, 1), "numbers": (1, 2)}
    assert gone["lost"]["commands"]["examples"] == ["pytest -q tests"]
    assert gone["lost"]["numbers"]["examples"] == ["5000"]
    assert gone["again"] == [{"path": "/app/a.py", "times": 1, "tokens": code}]
    both = found["instead"]
    assert both["compactions"] == 1 and both["theirs"]["words"] == {"gone": 6, "of": 11, "examples": []}
    assert both["refold"]["words"]["gone"] == 0  # all of it fits


def test_what_a_shell_prints_is_read_and_what_it_names_may_have_changed(tmp_path: Path) -> None:
    log = Log()
    log.typed("Look at a.py.")
    log.call("c1", "Read", CODE, 0, 0, file_path="/app/a.py")
    log.call("c2", "Bash", CODE, 0, 0, command="cat a.py", description="Look")  # again: all of it, both times
    log.call("c3", "Bash", "def port():", 0, 0, command="sed -n 1,1p a.py", description="Look closer")
    log.call("c4", "Bash", "def port():", 0, 0, command="sed -n 1,1p a.py", description="Once more")  # again
    log.call("c5", "Bash", "", 0, 0, command="sed -i s/1/2/ a.py")
    log.call("c6", "Bash", CODE, 0, 0, command="cd /app && cat a.py")
    log.call("c7", "Bash", CODE, 0, 0, command="cat a.py && pytest -q")  # whose output this is, is not plain
    log.add("system", root=True, subtype="compact_boundary", content="Conversation compacted",
            compactMetadata={"trigger": "auto", "preTokens": 1300})  # fmt: skip
    log.typed("Summary: a.py was read.", isCompactSummary=True, isVisibleInTranscriptOnly=True)
    log.call("c8", "Bash", CODE, 0, 0, command="cat ./a.py")
    log.write(tmp_path / "s.jsonl")
    found = discovered(str(tmp_path))
    assert {one["path"]: one["times"] for one in found["again"]} == {"/app/a.py": 1, "a.py": 1}
    [event] = found["events"]
    assert [(one["path"], one["times"]) for one in event["compaction"]["again"]] == [("/app/a.py", 1)]


def test_the_screen_and_the_page_say_it_and_no_secret(home: Path) -> None:
    screen = refold("discover", "--html", str(home / "page.html")).output
    page = (home / "page.html").read_text()
    for text in (screen, page, json.dumps(discovered())):
        assert SECRET.removeprefix("token=") not in text and "pytest -q tests" in text
    assert "1 session " in screen and "1 compaction " in screen
    assert screen.rstrip().splitlines()[-2].startswith("next: ")
    assert "s.jsonl --budget 40k --resume claude" in screen
    assert page.startswith("<!DOCTYPE html>")


def test_what_cannot_be_read_is_counted_and_named_and_stops_nothing(home: Path) -> None:
    folder = home / ".claude" / "projects" / "-app"
    whole = (folder / "s.jsonl").read_bytes()
    (folder / "half.jsonl").write_bytes(whole[:-40])
    (folder / "notes.json").write_text('{"no": "transcript"}')
    (folder / "broken.jsonl.gz").write_bytes(b"\x1f\x8b\x08broken")
    (folder / "gone.jsonl").symlink_to(folder / "nowhere.jsonl")
    found = discovered()
    states = {Path(one["file"]).name: one["state"] for one in found["unread"]}
    assert states == {
        "half.jsonl": "in part", "notes.json": "foreign", "broken.jsonl.gz": "unreadable", "gone.jsonl": "unreadable",
    }  # fmt: skip
    assert all(one["problem"] for one in found["unread"])
    assert found["sessions"] == 2 and len(found["events"]) == 1  # the copy's compaction is the same one
    screen = refold("discover").output
    assert all(name in screen for name in states)


def test_a_file_of_the_same_size_and_time_is_not_read_again(home: Path) -> None:
    path = home / ".claude" / "projects" / "-app" / "s.jsonl"
    before, state = discovered(), path.stat()
    path.write_bytes(path.read_bytes().replace(b"Bash", b"Dash"))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert discovered() == before
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    assert "Dash" in discovered()["tools"]


def test_an_empty_machine_is_told_what_to_try(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    screen = refold("discover", str(tmp_path / "empty")).output
    assert "No sessions found" in screen and screen.rstrip().endswith("demo")
