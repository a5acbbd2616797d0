"""Counters: exact, estimates, pictures, hostile text."""

from __future__ import annotations

import base64
import builtins
import gzip
import json
import random
import struct
import sys
import zlib
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold import Engine, Session, presets, tokens
from refold import messages as m
from refold import transcripts as t
from refold.entries import MessageEntry
from refold.errors import UnknownName, WrongType
from refold.loop import run
from refold.protocols import TokenCounter, ToolSpec
from refold.session import dialects
from refold.session.dialects import openai_responses
from refold.tokens import estimate, exact, images, parts
from tests.data import shared
from tests.strategies import examples
from tests.timing import within

PI = tokens.get("utf16/4")
O200K = tokens.get("o200k")


@pytest.mark.sample(7)
@pytest.mark.parametrize("name", tokens.names())
def test_every_name_gives_a_counter(name: str) -> None:
    counter = tokens.get(name)
    assert isinstance(counter, TokenCounter)
    assert counter.name == name
    assert counter.message(m.user("Hello world")) > 0


def test_an_unknown_name_says_which_there_are() -> None:
    with pytest.raises(UnknownName, match="o200k"):
        tokens.get("o201k")
    with pytest.raises(UnknownName):
        tokens.get("o200k@nobody")


def test_o200k_counts_as_published() -> None:
    # tiktoken's o200k_base gives the same numbers for these texts.
    assert O200K.text("Hello, world!") == 4
    assert O200K.text("tiktoken is great!") == 6
    assert O200K.text("お誕生日おめでとう") == 8
    assert O200K.text("") == 0


def test_special_tokens_in_a_text_are_text() -> None:
    assert O200K.text("<|endoftext|>") > 1


def test_without_the_tokenizer_it_estimates_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **options: Any) -> Any:
        if name == "splintr":
            raise ImportError(name)
        return real(name, *rest, **options)

    exact.vocabulary_counter.cache_clear()
    monkeypatch.setattr(builtins, "__import__", refuse)
    try:
        counter = exact.vocabulary_counter("o200k")
    finally:
        exact.vocabulary_counter.cache_clear()
    assert not tokens.is_exact(counter)
    assert "bytes4" in counter.name
    assert "o200k" in counter.name
    assert counter.text("abcdefgh") == 2
    assert tokens.is_exact(O200K)


def test_bytes4_is_close_for_chinese_where_characters_are_not() -> None:
    text = "请在不改动数据库迁移的情况下修复登录错误，然后运行所有测试。" * 20
    true = O200K.text(text)
    assert abs(tokens.get("bytes4").text(text) - true) / true < 0.25
    assert len(text) / 4 < 0.6 * true


def test_len3_rounds_down() -> None:
    assert tokens.get("len//3").text("x" * 299) == 99
    assert tokens.get("len//3").text("x" * 300) == 100


def test_messages_counts_messages() -> None:
    counter = tokens.get("messages")
    assert counter.message(m.user("a" * 1000)) == 1
    assert counter.message(m.Bash("ls", hidden=True)) == 0


def test_chars_counts_names_and_compact_arguments() -> None:
    call = m.call("c1", "Read", path="a.py")
    assert tokens.get("chars").message(m.assistant("Hi", call)) == len("Hi") + len("Read") + len(
        '{"path":"a.py"}'
    )


# ── B7: pi's estimate ───────────────────────────────────────────────────────────────────────────


def test_B7_utf16_units_rounded_up() -> None:
    assert PI.message(m.user("abcde")) == 2
    assert PI.message(m.user("😀😀")) == 1
    assert PI.message(m.user("😀😀x")) == 2


def test_B7_an_image_is_1200() -> None:
    assert PI.message(m.user(["", m.image("aGk=")])) == 1200


def test_B7_a_call_is_name_and_compact_json() -> None:
    assert PI.message(m.assistant("", m.call("c", "bash", command="ls -la"))) == -(
        -len('bash{"command":"ls -la"}') // 4
    )


def test_B7_a_command_counts_command_and_output_hidden_or_not() -> None:
    assert PI.message(m.Bash("ls", "a\nb\n")) == 2
    assert PI.message(m.Bash("ls", "a\nb\n", hidden=True)) == 2


@pytest.mark.data
@pytest.mark.parametrize("name", ["large-session", "before-compaction"])
def test_B7_every_estimate_of_the_sample_files(name: str) -> None:
    wanted = json.loads(shared(f"pi/cuts.{name}.json").read_bytes())["tokens"]
    loaded = t.read(shared(f"pi/{name}.jsonl"))
    path = [entry for entry in loaded.entries if entry.on_path]
    found = [PI.message(entry.message) if isinstance(entry, MessageEntry) else None for entry in path]
    assert found == wanted


@pytest.mark.data
def test_B7_every_estimate_of_the_oracle() -> None:
    cases = json.loads(gzip.decompress(shared("pi/oracle.json.gz").read_bytes()))["cases"]
    checked = 0
    for case in cases:
        raw = {entry["id"]: entry for entry in case["entries"]}
        for id, wanted in zip(case["out"]["path"], case["out"]["tokens"], strict=True):
            if wanted is not None:
                from refold.transcripts.pi_parts import message_from

                message = message_from(raw[id]["message"])
                assert message is not None
                assert PI.message(message) == wanted
                checked += 1
    assert checked > 3000


def test_sealed_thoughts_weigh_without_the_summary_beside_them() -> None:
    sealed = m.Thinking("summary", data="A" * 4000)
    assert parts.sealed_size(m.assistant([sealed, "b"]), O200K) == parts.sealed("A" * 4000) > 400
    assert parts.sealed_size(m.assistant([m.thinking("open"), "b"]), O200K) == 0


# ── pictures ────────────────────────────────────────────────────────────────────────────────────


def png(width: int, height: int) -> m.Image:
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + b"\x08\x06\x00\x00\x00"
    return m.image(base64.b64encode(head).decode())


def jpeg(width: int, height: int) -> m.Image:
    app = b"\xff\xe0" + struct.pack(">H", 16) + b"JFIF\x00" + b"\x00" * 9
    frame = b"\xff\xc0" + struct.pack(">HBHH", 17, 8, height, width) + b"\x00" * 10
    return m.image(base64.b64encode(b"\xff\xd8" + app + frame).decode(), "image/jpeg")


def gif(width: int, height: int) -> m.Image:
    return m.image(
        base64.b64encode(b"GIF89a" + struct.pack("<HH", width, height) + b"\x00" * 8).decode(), "image/gif"
    )


@pytest.mark.parametrize("make", [png, jpeg, gif])
def test_sizes_are_read_from_the_header(make: Any) -> None:
    assert images.size(make(640, 480)) == (640, 480)


def test_anthropic_pictures() -> None:
    assert images.anthropic(png(750, 100)) == 100
    assert images.anthropic(png(200, 200)) == 54
    assert images.anthropic(png(8000, 8000)) == 1600  # scaled down, then capped


def test_openai_pictures() -> None:
    assert images.openai(png(1024, 1024)) == 765  # 85 + 4 × 170, as documented
    assert images.openai(png(2048, 4096)) == 1105  # as documented
    assert images.openai(png(100, 100)) == 255


def test_the_picture_rule_is_part_of_the_name() -> None:
    claude = tokens.get("o200k@anthropic")
    assert claude.name == "o200k@anthropic"
    picture = m.user([png(750, 100)])
    assert claude.message(picture) != O200K.message(picture)


@given(st.binary(max_size=200), st.sampled_from(["image/png", "image/jpeg"]))
def test_any_bytes_are_a_picture_of_some_size(data: bytes, kind: str) -> None:
    image = m.image(base64.b64encode(data).decode(), kind)
    assert 85 < images.openai(image) < 100_000
    assert 0 < images.anthropic(image) <= 1600


@pytest.mark.parametrize(
    "start", [b"\x89PNG\r\n\x1a\n", b"\xff\xd8", b"\xff\xd8\xff\xc0", b"GIF8", b"RIFF0000WEBPVP8 "]
)
@given(tail=st.binary(max_size=60))
def test_damaged_headers_are_harmless(start: bytes, tail: bytes) -> None:
    images.openai(m.image(base64.b64encode(start + tail).decode()))


# ── documents ───────────────────────────────────────────────────────────────────────────────────


def pdf(pages: int, scan: int = 0, *, packed: bool = False) -> bytes:
    """A document of so many pages and a scanned picture of so many bytes; `packed` as PDF 1.5 writes objects."""
    objects = b"<</Type/Pages/Count %d>>" % pages + b"<< /Type /Page /Parent 1 0 R >>\n" * pages
    if packed:
        data = zlib.compress(objects)
        objects = b"<</Type/ObjStm/Filter/FlateDecode/Length %d>>stream\r\n%s\nendstream" % (len(data), data)
    return b"%PDF-1.5\n" + objects + b"\nstream\n" + b"\x93" * scan + b"\nendstream %%EOF"


def attached(document: bytes) -> dict[str, m.Message]:
    """The document as each dialect sends it."""
    data = base64.b64encode(document).decode()
    source = {"type": "base64", "media_type": "application/pdf", "data": data}
    url = f"data:application/pdf;base64,{data}"
    shapes: dict[str, Any] = {
        "anthropic": {"type": "document", "source": source},
        "anthropic result": {
            "type": "tool_result", "tool_use_id": "c", "content": [{"type": "document", "source": source}]
        },
        "openai": {"type": "file", "file": {"filename": "a.pdf", "file_data": url}},
        "responses": {"type": "input_file", "filename": "a.pdf", "file_data": url},
    }  # fmt: skip
    return {
        name: dialects.parse_list([{"role": "user", "content": [shape]}])[0] for name, shape in shapes.items()
    }


@pytest.mark.parametrize("counter", ["o200k", "o200k@anthropic", "bytes4", "utf16/4"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("shape", attached(b""))
def test_a_pdf_counts_by_its_pages(shape: str, packed: bool, counter: str) -> None:
    """Its base64 counted as text: 3 MB were 3 million tokens."""
    count = tokens.get(counter).message(attached(pdf(10, 3_000_000, packed=packed))[shape])
    assert 10 * images.PAGE_TOKENS <= count < 10 * images.PAGE_TOKENS + 200


def test_a_view_with_a_scanned_document_is_sent_as_it_is() -> None:
    session = Session()
    session.append(attached(pdf(20, 3_000_000))["anthropic"])
    session.append(m.assistant("It is an invoice."))
    session.append(m.user("Whose?"))
    view = run(Engine(presets.get("refold", budget=150_000)).prepare(session))
    assert "JVBERi0" in json.dumps(view.to("anthropic"))


PAGE = pdf(1)
HIDDEN: dict[str, bytes] = {
    "no page": b"%PDF-1.7\n" + b"x" * 3000,
    "encrypted objects": PAGE + b"<</Type/ObjStm>>stream\n" + bytes(range(256)) * 10,
    "objects that end early": PAGE
    + b"<</Type/ObjStm>>stream\n"
    + zlib.compress(random.Random(1).randbytes(3000))[:-9],
    "objects without a stream": PAGE + b"/ObjStm" * 500,
    "too many lists of objects": PAGE + b"".join(pdf(0, packed=True) for _ in range(1_001)),
    "a bomb": PAGE + b"<</Type/ObjStm>>stream\n" + zlib.compress(b"\0" * (80 << 20)),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_a_pdf_whose_pages_cannot_be_seen_counts_by_its_bytes(name: str) -> None:
    for message in attached(HIDDEN[name]).values():
        assert O200K.message(message) >= len(HIDDEN[name])


def test_base64_that_is_damaged_counts_by_its_length() -> None:
    data = base64.b64encode(pdf(1, 30_000)).decode()
    for damaged in (data + "-_", data[:-1]):
        assert images.pdf(m.Image(data=damaged)) >= 30_000


@pytest.mark.parametrize("text", ["JVBERi0xLjQK" * 500 + " and more", "UEsDBBQAAAAI" * 500])
def test_other_documents_count_as_text(text: str) -> None:
    part = m.Opaque({"type": "input_file", "file_data": text})
    assert O200K.message(m.user([part])) >= O200K.text(text)


# ── tools, hostile text, chunks ─────────────────────────────────────────────────────────────────


def test_tools_count_the_same_in_every_shape() -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    bare = {"name": "Read", "description": "Reads a file.", "parameters": schema}
    assert O200K.tools([bare]) == O200K.tools([{"type": "function", "function": bare}])
    assert O200K.tools([ToolSpec("Read", "Reads a file.", schema)]) == O200K.tools([bare])
    assert O200K.tools([]) == 0


@pytest.mark.timing
@pytest.mark.parametrize(
    "text", ["a" * 1_000_000, " " * 1_000_000, "日" * 300_000, "'" * 500_000, "\n" * 1_000_000]
)
def test_a_megabyte_without_words_is_linear(text: str) -> None:
    with within(2):
        whole = O200K.text(text)
    half = O200K.text(text[: len(text) // 2])
    assert whole == pytest.approx(2 * half, rel=0.02)


def test_lone_surrogates_are_counted() -> None:
    assert O200K.text("a\ud800b") > 0
    assert PI.text("a\ud800b") == 1
    assert tokens.get("bytes4").text("\ud800") == 1


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.text(max_size=200), min_size=1, max_size=8), st.integers(2, 60))
def test_cutting_long_texts_between_words_changes_nothing(bits: list[str], times: int) -> None:
    text = (" and then some words ".join(bits) + " and more words") * times * 20
    pieces = list(exact.text_chunks(text))
    assert "".join(pieces) == text
    assert all(len(piece) <= exact._CHUNK for piece in pieces)


@pytest.mark.data
def test_cutting_a_real_transcript_changes_nothing() -> None:
    text = shared("pi/large-session.jsonl").read_text()
    from splintr import Tokenizer

    assert O200K.text(text) == len(Tokenizer.from_pretrained("o200k_base").encode_ordinary(text))


@given(st.text(max_size=300))
def test_estimates_never_shrink_when_text_grows(text: str) -> None:
    for name in ("bytes4", "utf16/4", "chars", "len//3"):
        counter = tokens.get(name)
        assert counter.text(text) <= counter.text(text + "x")
        assert counter.message(m.user(text)) <= counter.message(m.user(text + "x"))


@pytest.mark.sample(1)
@pytest.mark.parametrize("vocabulary", ["o200k", "qwen3"])
@pytest.mark.parametrize("text", ["plain words", "a mark <|endoftext|> inside", "<tool_call> … 你好", "…"])
def test_counting_keeps_no_second_copy_of_a_text_and_sees_no_special_tokens(
    vocabulary: str, text: str
) -> None:
    from splintr import Tokenizer

    said = "".join(list(text) * 3)
    before = sys.getsizeof(said)
    encoded = Tokenizer.from_pretrained(exact.VOCABULARIES[vocabulary]).encode_ordinary("".join(list(said)))
    assert tokens.get(vocabulary).text(said) == len(encoded)
    assert sys.getsizeof(said) == before


class Lying:
    """A counter of somebody else's, whose answers are no numbers of tokens."""

    name = "lying"

    def __init__(self, answer: object) -> None:
        self.answer: Any = answer

    def text(self, text: str) -> int:
        return self.answer

    def message(self, message: m.Message) -> int:
        return self.answer

    def tools(self, tools: Any) -> int:
        return self.answer


@pytest.mark.parametrize("answer", [float("nan"), float("inf"), -5, 1.5, 10**30, "5", None, True])
def test_a_counter_that_says_no_number_of_tokens_is_an_error_and_nothing_is_folded(answer: object) -> None:
    session = Session()
    for number in range(30):
        session.append(m.user(f"Question {number}. " + "word " * 300))
        session.append(m.assistant("word " * 300))
    before = len(session)
    with pytest.raises(WrongType, match="whole number of tokens"):
        run(Engine(presets.get("refold", window=4000), counter=Lying(answer)).prepare(session))
    assert len(session) == before


def test_what_is_no_counter_is_refused_when_the_engine_is_made() -> None:
    with pytest.raises(WrongType, match="expected a token counter"):
        Engine(counter=cast("Any", 5))


@pytest.mark.parametrize("text", ["a summary of words " * 50, "Überlegung – 思考の要約 " * 50])
@pytest.mark.parametrize("name", ["bytes4", "o200k"])
def test_a_summary_beside_a_sealed_thought_is_counted_like_any_text(name: str, text: str) -> None:
    counter = estimate.Bytes4() if name == "bytes4" else exact.vocabulary_counter(name)
    sealed, bare = "s" * 4_000, m.Thinking(text)
    whole = counter.message(m.Assistant((m.Thinking(text, None, sealed, "r1"),)))
    assert whole == counter.message(m.Assistant((bare,))) + parts.sealed(sealed)


@pytest.mark.parametrize("field", ["summary", "content"])
def test_reasoning_is_counted_wherever_its_text_stands_and_sent_only_with_its_id(field: str) -> None:
    kind = {"summary": "summary_text", "content": "reasoning_text"}[field]
    item = {
        "type": "reasoning",
        "id": "r1",
        "encrypted_content": "sealed",
        field: [{"type": kind, "text": "thought"}],
    }
    said = {"type": "message", "role": "assistant", "content": "Done."}
    [message] = openai_responses.parse_list([item, said])
    assert message.parts[0] == m.Thinking("thought", None, "sealed", "r1")
    assert [x["type"] for x in openai_responses.render([message])] == ["reasoning", "message"]
    [message] = openai_responses.parse_list([{**item, "id": None}, said])
    assert [x["type"] for x in openai_responses.render([message])] == ["message"]
