"""Whatever is done to them, the stores agree with each other and with a list."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from refold import messages as m
from refold.entries import AnyEntry, Info, Label, Leaf, MessageEntry
from refold.errors import Conflict
from refold.protocols import SessionInfo
from refold.stores.jsonl import JsonlStore
from refold.stores.memory import MemoryStore
from refold.stores.sqlite import SqliteStore
from tests.strategies import examples


def is_one_way_to_say_it(text: str) -> bool:
    """JSON cannot tell a pair of surrogates from the character they make."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass") == text


texts = st.text(st.characters(codec=None, exclude_categories=()), max_size=30).filter(is_one_way_to_say_it)
kinds = st.lists(st.sampled_from(("message", "message", "label", "leaf", "info")), min_size=1, max_size=4)


class Agreement(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        base = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self.place = Path(tempfile.mkdtemp(dir=base))
        self.memory = MemoryStore()
        self.log: list[AnyEntry] = []
        self.tip: str | None = None
        self.count = 0
        self.reopen()
        for store in self.stores:
            store.create(SessionInfo(id="s", created=1.0))

    def reopen(self) -> None:
        self.stores: list[Any] = [
            self.memory,
            JsonlStore(self.place / "s.jsonl", folder=False),
            SqliteStore(self.place / "s.db"),
        ]

    def teardown(self) -> None:
        for store in self.stores:
            store.close()
        shutil.rmtree(self.place)

    def entry(self, kind: str, text: str) -> AnyEntry:
        self.count += 1
        id = f"{self.count}"
        if kind == "message":
            return MessageEntry(id=id, parent=self.tip, message=m.user(text))
        if kind == "leaf":
            return Leaf(id=id, target=None)
        return Label(id=id, text=text) if kind == "label" else Info(id=id, name=text)

    @rule(kinds=kinds, text=texts)
    def append(self, kinds: list[str], text: str) -> None:
        entries = [self.entry(kind, text) for kind in kinds]
        for store in self.stores:
            store.append("s", entries, after=self.tip)
        self.log += entries
        self.tip = next((e.id for e in reversed(entries) if e.moves), self.tip)

    @rule(kinds=kinds)
    def append_in_the_wrong_place(self, kinds: list[str]) -> None:
        entries = [self.entry(kind, "x") for kind in kinds]
        moving = any(entry.moves for entry in entries)
        for store in self.stores:
            try:
                store.append("s", entries, after="nowhere")
                assert not moving
            except Conflict as conflict:
                assert moving and conflict.found == self.tip
        if not moving:
            self.log += entries

    @precondition(lambda self: self.log)
    @rule()
    def reopen_all(self) -> None:
        for store in self.stores:
            store.close()
        self.reopen()

    @rule(tail=st.sampled_from((b"{", b'{"type":"message","id":"half"', b"\xff\x00", b"]")))
    def tear_the_file(self, tail: bytes) -> None:
        path = self.place / "s.jsonl"
        if path.read_bytes().endswith(b"\n"):
            with path.open("ab") as file:
                file.write(tail)

    @rule(start=st.integers(0, 12))
    def load_from(self, start: int) -> None:
        for store in self.stores:
            assert list(store.load("s", start).entries) == self.log[start:]

    @invariant()
    def agree(self) -> None:
        name = next((e.name for e in reversed(self.log) if isinstance(e, Info)), None)
        for store in self.stores:
            assert list(store.load("s").entries) == self.log
            if isinstance(store, JsonlStore):
                continue  # its list counts lines without reading them: torn ones as well
            (info,) = store.sessions()
            assert (info.name, info.entries) == (name, len(self.log))


Agreement.TestCase.settings = settings(max_examples=examples(80), stateful_step_count=15, deadline=None)
TestAgreement = Agreement.TestCase
