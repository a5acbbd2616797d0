"""Random branched sessions as pi writes them, and what pi itself answers about them."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from refold.text.lenient_json import JsonObject

WORDS = (
    "alpha",
    "βeta",
    "日本語",
    "x😀y",
    "path/to/f.ts",
    '"quoted"',
    "line\nbreak",
    "tab\t",
    "  ",
    "</summary>",
)
PATHS = ("a.ts", "src/b.ts", "./a.ts", "/abs/c.py", "d e.md")
EDITABLE = ("user", "assistant", "toolResult", "custom_message")
START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Case:
    """One session and the questions about it. Entries are named by their number, which is also their second."""

    entries: list[JsonObject]
    version: int
    leaf: int | None
    """None: where the file ends."""
    target: int
    keep: int
    reserve: int
    window: int
    budget: int

    def write(self, path: Path) -> None:
        header = {"type": "session", "id": "s", "timestamp": stamp(0), "cwd": "/x"}
        if self.version > 1:
            header["version"] = self.version  # type: ignore[assignment]
        lines = (json.dumps(row, ensure_ascii=False) for row in (header, *self.entries))
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")

    @property
    def questions(self) -> JsonObject:
        names = ("leaf", "target", "keep", "reserve", "window", "budget")
        return {name: getattr(self, name) for name in names}


def stamp(number: int) -> str:
    return (START + timedelta(seconds=number)).isoformat(timespec="milliseconds")[:-6] + "Z"


def milliseconds(number: int) -> int:
    return int(START.timestamp() + number) * 1000


def ask_pi(node: str, package: Path, cases: Sequence[tuple[Path, Case]]) -> list[JsonObject]:
    """The answers of the package in that folder."""
    driver = Path(__file__).with_name("pi_answers.mjs")
    lines = "".join(json.dumps({"file": str(path), **case.questions}) + "\n" for path, case in cases)
    done = subprocess.run([node, driver, package], input=lines, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


# ── generation ──────────────────────────────────────────────────────────────────────────────────


def case(seed: int) -> Case:
    return _Writer(random.Random(seed)).case()


@dataclass
class _Writer:
    chance: random.Random
    entries: list[JsonObject] = field(default_factory=list[JsonObject])
    parents: dict[int, int | None] = field(default_factory=dict[int, int | None])
    leaf: int | None = None
    waiting: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Calls that have no result yet: id and tool."""

    def case(self) -> Case:
        chance = self.chance
        version = chance.choices((3, 2, 1), (8, 1, 1))[0]
        length = chance.choice((3, 8, 20, 40, 80))
        while len(self.entries) < length:
            if version > 1 and self.entries and chance.random() < 0.07:
                self.leaf, self.waiting = chance.choice([*self.parents, None]), []
            self.step(version)
        numbers = list(self.parents)
        return Case(
            entries=self.entries,
            version=version,
            leaf=chance.choice(numbers) if version > 1 and chance.random() < 0.3 else numbers[-1],
            target=chance.choice(numbers),
            keep=chance.choice((0, 1, 20, 60, 150, 400, 1500, 20_000)),
            reserve=chance.choice((16, 500, 16_384)),
            window=16_385 + chance.choice((100, 3_000, 200_000)),
            budget=chance.choice((0, 30, 120, 500, 5_000)),
        )

    def step(self, version: int) -> None:
        kinds: dict[Any, int] = {
            self.user: 5,
            self.reply: 8,
            self.bash: 2,
            self.custom: 1,
            self.custom_message: 1,
            self.label: 1,
            self.model_change: 1,
            self.session_info: 1,
            self.compaction: 2,
            self.usage_entry: 1,
            self.context_edit: 3,
        }
        if version > 1:
            kinds[self.branch_summary] = 1
        if version == 2:
            kinds[self.hook_message] = 2
        if self.waiting and self.chance.random() < 0.85:
            self.result()
        else:
            self.chance.choices(list(kinds), list(kinds.values()))[0](version)

    def add(self, version: int, kind: str, /, **body: Any) -> None:
        number = len(self.entries) + 1
        record: JsonObject = {"type": kind, **body, "timestamp": stamp(number)}
        if version > 1:
            record |= {"id": f"n{number}", "parentId": None if self.leaf is None else f"n{self.leaf}"}
        self.parents[number] = self.leaf
        self.entries.append(record)
        self.leaf = number

    def message(self, version: int, role: str, **body: Any) -> None:
        at = milliseconds(len(self.entries) + 1)
        self.add(version, "message", message={"role": role, **body, "timestamp": at})

    def words(self, most: int = 60) -> str:
        return " ".join(self.chance.choices(WORDS, k=self.chance.choice((0, 1, 5, most))))

    def content(self) -> Any:
        if self.chance.random() < 0.4:
            return self.words()
        parts: list[JsonObject] = [
            {"type": "text", "text": self.words()} for _ in range(self.chance.randint(0, 2))
        ]
        if self.chance.random() < 0.1:
            parts.append({"type": "image", "data": "aGk=", "mimeType": "image/png"})
        return parts

    def user(self, version: int) -> None:
        self.message(version, "user", content=self.content())

    def hook_message(self, version: int) -> None:
        self.message(version, "hookMessage", content=self.content(), customType="h", display=True)

    def reply(self, version: int) -> None:
        chance = self.chance
        parts: list[JsonObject] = []
        if chance.random() < 0.3:
            parts.append({"type": "thinking", "thinking": self.words(), "thinkingSignature": "seal"})
        if chance.random() < 0.8:
            parts.append({"type": "text", "text": self.words()})
        stop = chance.choices(("stop", "toolUse", "error", "aborted", "length"), (4, 6, 1, 1, 1))[0]
        self.waiting = []
        for index in range(chance.randint(1, 3) if stop == "toolUse" else 0):
            call = self.call(f"c{len(self.entries)}-{index}")
            parts.append(call)
            self.waiting.append((call["id"], call["name"]))
        body: JsonObject = {
            "content": parts,
            "provider": "p",
            "model": chance.choice("ab"),
            "stopReason": stop,
        }
        if stop == "error":
            body["errorMessage"] = "529 overloaded"
        if chance.random() < 0.7:
            body["usage"] = self.usage()
        self.message(version, "assistant", **body)

    def call(self, id: str) -> JsonObject:
        tool = self.chance.choice(("read", "write", "edit", "bash", "grep"))
        arguments: JsonObject = {"path": self.chance.choice(PATHS)} if self.chance.random() < 0.9 else {}
        if tool == "bash":
            arguments = {"command": f"cat {self.chance.choice(PATHS)}"}
        if tool == "write":
            arguments["content"] = self.words()
        return {"type": "toolCall", "id": id, "name": tool, "arguments": arguments}

    def usage(self) -> JsonObject:
        counts = [self.chance.choice((0, 7, 900)) for _ in range(4)]
        names = ("input", "output", "cacheRead", "cacheWrite")
        return {**dict(zip(names, counts, strict=True)), "totalTokens": sum(counts)}

    def result(self) -> None:
        id, tool = self.waiting.pop(0)
        version = 3 if "id" in self.entries[-1] else 1
        text = [{"type": "text", "text": self.words(300)}]
        self.message(version, "toolResult", toolCallId=id, toolName=tool, content=text, isError=False)

    def bash(self, version: int) -> None:
        body: JsonObject = {"command": "ls", "output": self.words(), "exitCode": self.chance.choice((0, 1))}
        if self.chance.random() < 0.4:
            body["excludeFromContext"] = True
        self.message(version, "bashExecution", **body, cancelled=False, truncated=False)

    def custom(self, version: int) -> None:
        self.add(version, "custom", customType="state", data={"words": self.words()})

    def custom_message(self, version: int) -> None:
        self.add(version, "custom_message", customType="note", content=self.content(), display=True)

    def label(self, version: int) -> None:
        if version > 1 and self.parents:
            target = self.chance.choice(list(self.parents))
            self.add(version, "label", targetId=f"n{target}", label=self.chance.choice(("", "here", "there")))

    def model_change(self, version: int) -> None:
        if self.chance.random() < 0.5:
            self.add(version, "model_change", provider="q", modelId="c")
        else:
            self.add(version, "thinking_level_change", thinkingLevel=self.chance.choice(("low", "high")))

    def usage_entry(self, version: int) -> None:
        self.add(version, "usage", kind="cache_warm", provider="p", model="a", usage=self.usage())

    def context_edit(self, version: int) -> None:
        editable = [at for at in self.above() if self.is_editable(self.entries[at - 1])]
        if version > 1 and editable:
            target = self.chance.choice(editable[:8])
            replacement = (
                None if self.chance.random() < 0.6 else {"content": [{"type": "text", "text": "less"}]}
            )
            self.add(version, "context_edit", targetId=f"n{target}", replacement=replacement)

    def is_editable(self, record: JsonObject) -> bool:
        return record.get("message", record).get("role", record["type"]) in EDITABLE

    def session_info(self, version: int) -> None:
        self.add(version, "session_info", name="a name")

    def lists(self) -> JsonObject:
        return {
            "readFiles": self.chance.sample(PATHS, self.chance.randint(0, 2)),
            "modifiedFiles": self.chance.sample(PATHS, self.chance.randint(0, 2)),
        }

    def above(self) -> list[int]:
        """Numbers of the entries on the path, newest first."""
        found: list[int] = []
        at = self.leaf
        while at is not None:
            found.append(at)
            at = self.parents[at]
        return found

    def compaction(self, version: int) -> None:
        path = self.above()
        if not path:
            return
        first = self.chance.choice(path if self.chance.random() < 0.95 else list(self.parents))
        kept = {"firstKeptEntryIndex": first} if version == 1 else {"firstKeptEntryId": f"n{first}"}
        body: JsonObject = {"summary": f"S {self.words()}", "tokensBefore": 1, **kept}
        self.add(version, "compaction", **body, **self.made())

    def branch_summary(self, version: int) -> None:
        summary = f"B {self.words()}" if self.chance.random() < 0.9 else ""
        self.add(version, "branch_summary", fromId="root", summary=summary, **self.made())

    def made(self) -> JsonObject:
        """What a summary's entry says beyond its text, by pi or by a hook."""
        body: JsonObject = {"details": self.lists()} if self.chance.random() < 0.8 else {}
        return {**body, "fromHook": True} if self.chance.random() < 0.3 else body
