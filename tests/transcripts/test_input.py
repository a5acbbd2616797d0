"""Wrong input: one clear sentence, bounded memory, nothing silent."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold import messages as m
from refold import transcripts as t
from refold.errors import FormatError, RefoldError, StorageError, UnknownName
from refold.session import Session
from refold.transcripts import base
from refold.transcripts.base import Head, TranscriptFile, loads, seconds
from refold.transcripts.export import export
from refold.transcripts.importing import find_transcripts
from tests.data import shared
from tests.rights import ordinary_rights
from tests.strategies import examples
from tests.timing import JUDGED, seconds_of

HEADER = b'{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/"}\n'
LINE = b'{"type":"message","id":"a","parentId":null,"timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"user","content":"%s"}}\n'


def test_a_directory(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="is a folder"):
        t.read(tmp_path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no session or file"):
        t.read(tmp_path / "none.jsonl")


def test_a_pipe_is_read_like_a_file(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_bytes(HEADER + LINE % b"hello")
    (tmp_path / "s.jsonl.gz").write_bytes(gzip.compress(HEADER + LINE % b"hello"))
    for file in sorted(tmp_path.iterdir()):
        reader, writer = os.pipe()
        os.write(writer, file.read_bytes())
        os.close(writer)
        assert t.read(f"/dev/fd/{reader}").entries == t.read(file).entries
        os.close(reader)


def test_a_compressed_file_is_read_like_another(tmp_path: Path) -> None:
    data = HEADER + LINE % b"hello"
    (tmp_path / "s.jsonl.gz").write_bytes(gzip.compress(data))
    (tmp_path / "s.jsonl").write_bytes(data)
    assert t.read(tmp_path / "s.jsonl.gz") == t.read(tmp_path / "s.jsonl")
    assert {path.name for path, _ in find_transcripts([tmp_path])} == {"s.jsonl", "s.jsonl.gz"}


@pytest.mark.parametrize("damage", [lambda data: data[:-20], lambda data: data[:30] + b"x" * 30])
def test_a_damaged_compressed_file_is_told_in_a_sentence(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "s.jsonl.gz"
    path.write_bytes(damage(gzip.compress(HEADER + LINE % b"hello" * 50)))
    with pytest.raises(StorageError, match="damaged gzip file"):
        t.read(path)


def test_no_permission(tmp_path: Path) -> None:
    path = tmp_path / "secret.jsonl"
    path.write_bytes(HEADER)
    path.chmod(0)
    with ordinary_rights(), pytest.raises(StorageError, match="no permission"):
        t.read(path)


@pytest.mark.parametrize("data", [b"", b"\n\n  \n"])
def test_an_empty_file(data: bytes) -> None:
    with pytest.raises(FormatError, match="empty"):
        t.read_stream(io.BytesIO(data), name="x")


@pytest.mark.parametrize(
    "data", [b"\x7fELF\x02\x01\x01\x00\x00", b"PK\x03\x04\x00\x00", bytes(range(256)) * 300]
)
def test_a_binary_file(data: bytes) -> None:
    with pytest.raises(FormatError, match="binary"):
        t.read_stream(io.BytesIO(data), name="x")


@pytest.mark.parametrize(
    "data", [b"hello\n", b"{}", b"[]", b"17", b'{"a":1}\n{"b":2}\n', b"<html></html>", b'[{"a":1}]', b"[[[["]
)
def test_text_that_is_no_transcript(data: bytes) -> None:
    with pytest.raises(FormatError, match=r"not a transcript in a format|not valid JSON"):
        t.read_stream(io.BytesIO(data), name="x")


def test_an_unknown_format_name() -> None:
    with pytest.raises(UnknownName, match="claude-code"):
        t.read_stream(io.BytesIO(HEADER), format="word")


def test_a_truncated_document_is_read_as_far_as_it_goes() -> None:
    loaded = t.read_stream(io.BytesIO(b'[{"role":"user","content":"a"},\n{"role":"assistant","con'), name="x")
    assert loaded.entries[0].message.text == "a"  # type: ignore[union-attr]  a message
    assert "is incomplete" in loaded.problems[0].text


def test_the_last_line_may_be_torn() -> None:
    loaded = t.read_stream(io.BytesIO(HEADER + LINE % b"a" + (LINE % b"b")[:40]))
    assert len([one for one in loaded.entries if one.on_path]) == 1
    assert loaded.problems[0].where == "line 3"


def test_a_line_longer_than_the_limit_is_reported_and_the_rest_read() -> None:
    source = TranscriptFile(io.BytesIO(b'{"a":1}\n{"b":"' + b"x" * 5000 + b'"}\n{"c":3}\n'), max_line=1000)
    assert [record for _, record in source.records()] == [{"a": 1}, {"c": 3}]
    assert source.problems[0].where == "line 2"
    assert "longer than" in source.problems[0].text
    assert len(source.problems[0].raw) <= 200


def test_a_line_exactly_at_the_limit_is_read() -> None:
    line = b'{"b":"' + b"x" * 92 + b'"}'
    assert len(line) == 100
    for end in (b"\n", b"\r\n", b""):
        source = TranscriptFile(io.BytesIO(line + end), max_line=100 + (end == b"\r\n"))
        assert len(list(source.records())) == 1


@pytest.mark.slow
def test_a_flood_of_problems_is_counted() -> None:
    loaded = t.read_stream(io.BytesIO(HEADER + LINE % b"a" + b"x\n" * 25_000))
    assert len(loaded.problems) == 10_001
    assert loaded.problems[-1].text.startswith("15000 more")


MEMORY = """
import io, resource, sys
from refold.session import Session
from refold.transcripts.base import TranscriptFile

class Endless(io.RawIOBase):
    left = {size}
    def readable(self): return True
    def readinto(self, buffer):
        n = min(len(buffer), self.left)
        buffer[:n] = b"x" * n
        self.left -= n
        return n

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
source = TranscriptFile(io.BufferedReader(Endless(), 1 << 20))
assert list(source.records()) == []
assert "longer than" in source.problems[0].text
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.slow
def test_a_line_of_a_gigabyte_takes_bounded_memory() -> None:
    code = MEMORY.format(size=1 << 30)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert int(done.stdout) < 250


# ── encodings ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_byte_order_marks(encoding: str) -> None:
    text = (HEADER + LINE % "Grüße 日本".encode()).decode()
    loaded = t.read_stream(io.BytesIO(text.encode(encoding)))
    assert loaded.entries[-1].message.text == "Grüße 日本"  # type: ignore[union-attr]  a message


def test_windows_line_ends_and_blank_lines() -> None:
    loaded = t.read_stream(io.BytesIO((HEADER + b"\n" + LINE % b"a").replace(b"\n", b"\r\n")))
    assert not loaded.problems
    assert len(loaded.entries) == 2


def test_bytes_that_are_no_utf8_are_replaced_and_reported() -> None:
    loaded = t.read_stream(io.BytesIO(HEADER + LINE % b"caf\xe9"))
    assert "caf\ufffd" in loaded.entries[-1].message.text  # type: ignore[union-attr]  a message
    assert "not UTF-8" in loaded.problems[0].text


@pytest.mark.parametrize(
    "value",
    [
        b'"\\ud800"',
        b"NaN",
        b"1e999",
        b"123456789" * 30,
        b"-0",
        b'{"a":' * 500 + b"1" + b"}" * 500,
        b'"\\u0000"',
    ],
)
def test_hostile_values_survive(value: bytes) -> None:
    line = b'{"type":"custom","customType":"x","id":"a","parentId":null,"timestamp":"2026-01-01T00:00:00.000Z","data":%s}\n'
    loaded = t.read_stream(io.BytesIO(HEADER + line % value))
    assert len(loaded.entries) == 2 or loaded.problems


def test_nesting_beyond_the_stack_is_a_value_error() -> None:
    with pytest.raises(ValueError):
        loads(b"[" * 200_000 + b"]" * 200_000)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("2026-01-01T00:00:00Z", 1767225600.0),
        ("2026-01-01T01:00:00+01:00", 1767225600.0),
        ("2026-01-01T00:00:00", 1767225600.0),
        (1767225600, 1767225600.0),
        (1767225600000, 1767225600.0),
        ("yesterday", 0.0),
        (None, 0.0),
        (True, 0.0),
        (-5, 0.0),
        (10**300, 0.0),
        (float("nan"), 0.0),
    ],
)
def test_times(value: object, wanted: float) -> None:
    assert seconds(value) == wanted


@settings(max_examples=examples(300), deadline=None)
@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        t.read_stream(io.BytesIO(data), name="x")
    except RefoldError as error:
        assert "\n" not in str(error)


@settings(max_examples=examples(300), deadline=None)
@given(
    st.recursive(
        st.none()
        | st.integers()
        | st.text(max_size=5)
        | st.sampled_from(["user", "assistant", "role", "content"]),
        lambda x: (
            st.lists(x, max_size=4)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "role",
                        "content",
                        "type",
                        "messages",
                        "input",
                        "from",
                        "value",
                        "text",
                        "tool_calls",
                        "id",
                    ]
                ),
                x,
                max_size=5,
            )
        ),
        max_leaves=15,
    )
)
def test_any_json_is_read_or_refused(value: object) -> None:
    for format in ("openai", "openai-responses", "anthropic", "plain", "pi", "refold"):
        head = Head(json.dumps(value).encode(), whole=True)
        assert 0 <= t.format_of(format).detect(head) <= 1
        try:
            t.read_stream(io.BytesIO(json.dumps(value).encode()), name="x", format=format)
        except RefoldError as error:
            assert "\n" not in str(error)


@settings(max_examples=examples(120), deadline=None)
@given(
    st.randoms(use_true_random=False), st.sampled_from(["openai", "anthropic", "openai-responses", "jsonl"])
)
def test_damaged_lists_and_own_files_are_read_or_refused(random: Any, to: str) -> None:
    data = bytearray(_exported(to))
    for _ in range(random.randint(1, 6)):
        at = random.randrange(len(data) or 1)
        match random.randrange(4) if data else 3:
            case 0:
                del data[at:]
                data += b"}"
            case 1:
                data[at] = random.randrange(256)
            case 2:
                del data[at : at + random.randrange(40)]
            case _:
                data[at:at] = random.choice([b"NaN", b"null", b"{}", b"[", b'"', b"\n", b"1e999", b"\xff"])
    try:
        loaded = t.read_stream(io.BytesIO(bytes(data)), name="x")
    except RefoldError as error:
        assert "\n" not in str(error)
        return
    Session.of(loaded)


@cache
def _exported(to: str) -> bytes:
    session = Session(id="s")
    for i in range(6):
        session.append(m.user(f"question {i}"))
        session.append(m.assistant("Looking.", m.call(f"c{i}", "Read", path=f"src/{i}.py")))
        session.append(m.result(f"c{i}", f"text {i}", name="Read"))
        session.append(m.assistant("Done."))
    return export(session, to).data


# ── speed ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.data
@pytest.mark.timing
@pytest.mark.torture
def test_reading_costs_a_small_multiple_of_decoding() -> None:
    """1 MB in 30 ms, as a ratio that holds on any machine: reading ≤ 15 × decoding the JSON alone (4 ms)."""
    path = shared("pi/large-session.jsonl")
    raw = path.read_bytes().splitlines()
    decode = min(seconds_of(lambda: [json.loads(line) for line in raw]) for _ in range(5))
    read = min(seconds_of(lambda: t.read(path)) for _ in range(5))
    assert not JUDGED or read < 5 * decode


@pytest.mark.slow
def test_a_hundred_megabytes_are_not_held_twice(tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    with path.open("wb") as file:
        file.write(HEADER)
        text = b"x" * 10_000
        for i in range(10_000):
            file.write(LINE.replace(b'"a"', b'"n%d"' % i) % text)
    code = f"""
import resource
from refold import transcripts
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
loaded = transcripts.read({str(path)!r})
assert len(loaded.entries) == 10_001
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert int(done.stdout) < 180


@pytest.mark.parametrize(("key", "lines"), [("messages", False), ("messages", True), ("traj", False)])
def test_a_file_of_many_conversations_is_read_once(
    key: str, lines: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists of messages, and runs of a benchmark. What was wrong in the file, each of them says."""
    talks = [
        {"id": f"t{n}", key: [{"role": "user", "content": str(n)}, {"role": "assistant", "content": "b"}]}
        for n in range(200)
    ]
    file, parsed = tmp_path / "a.json", 0
    whole = "\n".join(map(json.dumps, talks)) if lines else json.dumps(talks)
    file.write_text(whole)

    def counted(data: bytes) -> Any:
        nonlocal parsed
        parsed += len(data)
        return loads(data)

    monkeypatch.setattr(base, "loads", counted)
    found = [loaded for _, loaded in t.read_all(file)]
    assert [Session.of(loaded).path[0].message.text for loaded in found] == [str(n) for n in range(200)]  # type: ignore[union-attr]  messages
    assert parsed < 10 * len(whole)
    file.write_text(whole[: len(whole) * 9 // 10])  # broken off
    assert all(loaded.problems for _, loaded in t.read_all(file))


@pytest.mark.parametrize(
    "more", [b"\n" * 100_000, b"x" * 100_000, b'{"role":"user","content":"a"}\n' * 4_000]
)
def test_a_small_file_that_unpacks_to_a_huge_one_is_refused(
    more: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(t, "MAX_UNPACKED_BYTES", 90_000)
    said = b'{"role":"user","content":"a"}\n{"role":"assistant","content":"b"}\n'
    file = tmp_path / "a.jsonl.gz"
    file.write_bytes(gzip.compress(said + more[:80_000]))
    assert len(Session.of(t.read(file)).path) > 1
    file.write_bytes(gzip.compress(said + more))
    with pytest.raises(StorageError, match=r"a\.jsonl\.gz unpacks to more than"):
        t.read(file)
