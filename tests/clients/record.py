"""Records the way from nothing to the first fold, and back, in every program: `python -m tests.clients.record`.

Writes `docs/recordings/NAME.cast` (asciinema, version 2): commands as a user types them and what the real
programs print, in their time, against a scripted model of this machine.
"""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refold.testing.wire import WireServer
from tests.clients.kit import INSTALLED, ROOT
from tests.clients.test_plugins import Plugged, answering
from tests.clients.test_run import Run

OUT = ROOT / "docs" / "recordings"
WIDTH, HEIGHT = 110, 30
NUMBERS = re.compile(r"(?:\d{4,5}\r?\n){6,}")
"""What the commands print that the scripted model runs: shown as one line."""


class Cast:
    """Events of one recording."""

    def __init__(self, title: str) -> None:
        header = {"version": 2, "width": WIDTH, "height": HEIGHT, "title": title}
        self.lines, self.began = [json.dumps(header)], time.monotonic()

    def show(self, text: str) -> None:
        at = round(time.monotonic() - self.began, 3)
        short = NUMBERS.sub("…\r\n", text)
        self.lines.append(json.dumps([at, "o", short], ensure_ascii=False))

    def run(self, line: str, environment: Mapping[str, str], folder: Path) -> None:
        self.show(f"$ {line}\r\n")
        began = time.monotonic()
        pid, fd = pty.fork()
        if pid == 0:
            os.chdir(folder)
            os.execvpe("sh", ["sh", "-c", line], {**environment, "COLUMNS": str(WIDTH), "TERM": "dumb"})
        while True:
            try:
                piece = os.read(fd, 65536)
            except OSError:
                break
            if not piece:
                break
            self.show(piece.decode("utf-8", "replace"))
        _, status = os.waitpid(pid, 0)
        assert status == 0, (line, self.lines[-5:])
        self.show(f"# {time.monotonic() - began:.1f} s\r\n")

    def write(self, name: str, hidden: Mapping[str, str]) -> None:
        text = "\n".join(self.lines) + "\n"
        for place, shown in hidden.items():
            text = text.replace(place, shown)
        (OUT / f"{name}.cast").write_text(text)


def record(
    name: str, client: Run, lines: Sequence[str], *, steps: int, title: str, compact_at: int = 0
) -> None:
    answer = answering(client, steps)
    with WireServer(then=lambda body: _as_told(body) or answer(body)) as server:
        client.set_up(server, compact_at or None)
        if client.program == "opencode":
            _small_window(client)
        cast = Cast(title)
        for line in lines:
            cast.run(line, client.environment, client.project)
        folder = str(client.folder)
        cast.write(
            name, {str(client.project): "~/project", f"{folder}/home": "~", folder: "~", str(ROOT): "refold"}
        )


def _as_told(body: dict[str, Any]) -> str | None:
    """A model that is told to show something as it is does so."""
    users = [message["content"] for message in body.get("messages", ()) if message["role"] == "user"]
    content: Any = users[-1] if users else []
    parts: list[dict[str, str]] = [] if isinstance(content, str) else content
    texts = [part["text"] for part in parts if "text" in part]
    shown, asks, _ = texts[-1].partition("\n\nShow this to the user as it is.") if texts else ("", "", "")
    return shown if asks else None


def _small_window(client: Run) -> None:
    shutil.copytree(INSTALLED.parent / "opencode-plugin", client.home / ".config" / "opencode")
    config = json.loads((client.project / "opencode.json").read_text())
    config["provider"]["scripted"]["models"]["m"]["limit"] = {"context": 20_000, "output": 2_000}
    (client.project / "opencode.json").write_text(json.dumps(config))


class Fresh(Run):
    """Without anything of ours: refold is installed while it is recorded."""

    @property
    def environment(self) -> dict[str, str]:
        path = f"{self.folder / 'bin'}:{self.folder / 'refold' / 'bin'}:{os.environ['PATH']}"
        own = {key: value for key, value in super().environment.items() if not key.endswith("_PROXY")}
        pip = {
            key: value
            for key, value in os.environ.items()
            if key.startswith("PIP_") or key.endswith("_PROXY")
        }
        return {**own, **pip, "PATH": path, "PYTHONPATH": ""}


def main() -> None:
    OUT.mkdir(exist_ok=True)
    wanted = sys.argv[1:] or ["run", "claude-code", "codex", "opencode"]
    for name in wanted:
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            place = Path(folder)
            if name == "run":
                lines = [
                    f"python3 -m venv {place / 'refold'} && {place / 'refold'}/bin/pip install -q '{ROOT}[gateway]'",
                    'refold run --window 32000 claude -p "Count up." --allowedTools Bash',
                    "refold sessions",
                ]
                record(
                    name, Fresh("claude", place), lines, steps=8, title="refold run claude: the first fold"
                )
            elif name == "claude-code":
                lines = [
                    "refold plugin install claude-code --no-status-line",
                    'claude -p "Count up, and never touch b.txt." --allowedTools Bash',
                    'claude -p "/compact" --continue',
                    'claude -p "/refold:ledger" --continue',
                    "refold sessions",
                    "refold plugin remove claude-code",
                    "refold plugin list",
                ]
                record(name, Plugged("claude", place), lines, steps=6, title="refold in Claude Code")
            elif name == "codex":
                hooks = "--dangerously-bypass-hook-trust"
                lines = [
                    "refold plugin install codex",
                    f'codex exec {hooks} --skip-git-repo-check "Count up, and never touch b.txt."',
                    "refold sessions",
                    "refold plugin remove codex",
                ]
                record(
                    name, Plugged("codex", place), lines, steps=6, title="refold in Codex", compact_at=5_000
                )
            else:
                lines = [
                    "refold plugin install opencode",
                    'opencode run "Count up, and never touch b.txt."',
                    "refold sessions",
                    "refold show live- --ledger | head -5",
                    "refold plugin remove opencode",
                ]
                record(name, Plugged("opencode", place), lines, steps=14, title="refold in opencode")


if __name__ == "__main__":
    main()
