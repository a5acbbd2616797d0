"""`recall_conversation`, the tool with which a model retrieves what left its view (D6)."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from typing import Any, cast

from refold import messages as m
from refold import tokens
from refold.messages import Call, Result
from refold.protocols import TokenCounter, ToolSpec
from refold.recall.index import Doc, Index
from refold.recall.logs import index_of
from refold.recall.query import best_start, called_line, search
from refold.recall.rank import parse_question
from refold.session import redacted
from refold.session.dialects import anthropic, openai_chat, openai_responses
from refold.session.history import History
from refold.session.toolnames import RECALL_TOOL_NAME
from refold.text.frames import RECORD_NOTE, attribute, frame
from refold.text.truncate import head, middle, text_window
from refold.tokens.fitting import fit, largest

NAME = RECALL_TOOL_NAME
ANSWER_BUDGET = 4000
QUERY_HITS = 5
QUERY_LIMIT = 4000
ASKED_LIMIT = 50
"""Most turns or keys in one call."""
TURNS = ("turn_numbers", "turnNumbers")
"""Accepted spellings; models know one of them from other tools."""
_RANGE = re.compile(r"(?:turns? ?)?(\d{1,9})(?: ?(?:[-–—]|\.\.|to) ?(\d{1,9}))?", re.IGNORECASE)
MIN_RECORD_TOKENS = 60
"""A cut record with fewer tokens is not printed."""

SPEC = ToolSpec(
    name=NAME,
    description=(
        "Read earlier parts of this conversation that are no longer shown in full. Give turn numbers, recall "
        "keys (printed in summaries and in the stubs of removed results) or words to search for; at least "
        "one of these. Returns the original messages, tool arguments included."
    ),
    parameters={
        "type": "object",
        "properties": {
            "turn_numbers": {
                "type": "array",
                "items": {"type": "string"},
                "description": 'Turns to read in full, counted from 1: "5", or a range such as "3-8".',
            },
            "query": {
                "type": "string",
                "description": "Words to search for: names, paths, identifiers, a question. Plain text.",
            },
            "keys": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Recall keys of single messages.",
            },
        },
        "additionalProperties": False,
    },
)
"""Works for both dialects: OpenAI's `function` and Anthropic's `input_schema`."""


def for_openai() -> dict[str, Any]:
    """The definition for the `tools` of chat completions."""
    return openai_chat.render_tools([SPEC])[0]


def for_responses() -> dict[str, Any]:
    """The definition for the `tools` of OpenAI's responses."""
    return openai_responses.render_tools([SPEC])[0]


def for_anthropic() -> dict[str, Any]:
    """The definition for the `tools` of Anthropic's messages."""
    return anthropic.render_tools([SPEC])[0]


def result(
    session: History, call: Call, *, budget: int = ANSWER_BUDGET, counter: TokenCounter | None = None
) -> Result:
    """The result for a model's call, ready to append. Turn numbers refer to the path."""
    text = tool_answer(index_of(session), call.arguments, budget=budget, counter=counter)
    return m.result(call.id, text, name=NAME)


def tool_answer(
    index: Index,
    arguments: Mapping[str, Any],
    *,
    budget: int = ANSWER_BUDGET,
    counter: TokenCounter | None = None,
    within: Container[str] | None = None,
) -> str:
    """The answer to a call: the messages without secrets, framed as a record, and one line for each number or
    key that does not exist; at most `budget` tokens by `counter` (default: exact). Never raises for what a
    model wrote.

    Turn numbers refer to the path, or to the entries `within`; keys and queries cover all branches.
    """
    numbers = [each for name in TURNS for each in _listed(arguments.get(name))]
    turns, bad_turns = turn_numbers(numbers)
    keys, bad_keys = _strings(arguments.get("keys"))
    query = arguments.get("query")
    query = query.strip()[:QUERY_LIMIT] if isinstance(query, str) else ""
    remarks: list[str] = []
    _remark(remarks, "Not a turn number: {}.", bad_turns)
    _remark(remarks, "Not a key: {}.", bad_keys)
    if not turns and not keys and not query:
        remarks.append("Nothing was asked for: give turn_numbers, keys or a query.")
    docs = [*_by_turn(index, turns, within, remarks), *_by_key(index, keys, remarks)]
    terms: Sequence[str] = ()
    if query:
        docs += _by_query(index, query, remarks)
        terms = list(parse_question(index, query).terms)
    different = list({doc.entry_id: doc for doc in docs}.values())
    return _told(index, different, remarks, budget, counter or tokens.get(), terms)


def _by_turn(
    index: Index, turns: Sequence[int], within: Container[str] | None, remarks: list[str]
) -> list[Doc]:
    found = index.of_turns(turns, within)
    if missing := [number for number, docs in found.items() if not docs]:
        remarks.append(index.no_turns(missing, within))
    return [doc for docs in found.values() for doc in docs]


def _by_key(index: Index, keys: Sequence[str], remarks: list[str]) -> list[Doc]:
    found = {name: index.by_key(name) for name in keys}
    unknown = [name for name, doc in found.items() if doc is None]
    _remark(remarks, "No message has the key {}; keys are printed in summaries and stubs.", unknown)
    return [doc for doc in found.values() if doc]


def _remark(remarks: list[str], sentence: str, about: Sequence[object]) -> None:
    """One sentence about all of them, naming the first few."""
    if about:
        named = ", ".join(attribute(each)[:40] for each in about[:6])
        remarks.append(sentence.format(named + (" …" if len(about) > 6 else "")))


def _by_query(index: Index, query: str, remarks: list[str]) -> list[Doc]:
    hits = search(index, query, limit=4 * QUERY_HITS)
    found = [at for at in (index.ids[hit.entry_id] for hit in hits) if not _is_recall(index.docs[at])]
    if not found:
        remarks.append("Nothing in the conversation matches the query; try other words.")
    # The request at hand is what made the model ask: it says the words and not the answer.
    newest = max((at for at in found if isinstance(index.docs[at].message, m.User)), default=-1)
    if newest >= 0 and not any(isinstance(doc.message, m.User) for doc in index.docs[newest + 1 :]):
        found = [*(at for at in found if at != newest), newest]
    found = found[:QUERY_HITS]
    return [index.docs[at] for position in found for at in (position, *_results(index, position))]


def _is_recall(doc: Doc) -> bool:
    """Whether an entry is a call of this tool or its answer: these repeat what they ask and find."""
    calls = doc.message.calls
    return doc.tool == NAME or (bool(calls) and all(call.name == NAME for call in calls))


def _results(index: Index, position: int) -> Sequence[int]:
    """The results of a call, which is no answer without them."""
    return () if index.steps.call_of(position) else index.steps.halves(position)


def _told(
    index: Index,
    docs: Sequence[Doc],
    remarks: Sequence[str],
    budget: int,
    counter: TokenCounter,
    terms: Sequence[str],
) -> str:
    """The records in the order asked; the last is cut to the remaining budget, the rest are listed by key."""
    parts: list[str] = [*remarks, RECORD_NOTE] if docs else list(remarks)
    left = budget - counter.text("\n".join(parts)) - MIN_RECORD_TOKENS
    for at, doc in enumerate(docs):
        called = called_line(index, index.ids[doc.entry_id])
        record = _record(doc, redacted.message_text(doc.message), called=called)
        cost = counter.text(record) + 1
        if cost <= left:
            parts.append(record)
            left -= cost
            continue
        if left >= MIN_RECORD_TOKENS * 2:
            parts.append(_shortened(doc, left, counter, called, terms))
            at += 1
        rest = docs[at:]
        if rest:
            parts.append(_left_out(rest))
        break
    # Where there is no room for a record, there may be none for all remarks either.
    return fit("\n".join(parts), budget, counter, head)


def _record(doc: Doc, text: str, *, called: str, cut: str = "") -> str:
    source = f"tool {doc.tool}" if doc.tool else doc.message.role
    return frame("recall", text, source=source, call=called, turn=doc.turn, key=doc.key, cut=cut)


def _shortened(doc: Doc, left: int, counter: TokenCounter, called: str, terms: Sequence[str]) -> str:
    """The record shortened to fit: text around the words asked for stays, otherwise the start and the end."""
    text = redacted.message_text(doc.message)

    def record(characters: int) -> str:
        start = best_start(text.lower(), terms, characters)
        if start is None:
            body = middle(text, characters, "\n[… {cut} characters left out …]\n", 2 / 3)
            return _record(doc, body, called=called, cut="middle")
        window = text_window(text, max(min(start, len(text) - characters), 0), characters)
        body = f"[… {len(text) - len(window)} characters left out …]\n{window}"
        return _record(doc, body, called=called, cut="ends")

    return record(largest(min(len(text), left * 4), lambda n: counter.text(record(n)) <= left))


def _left_out(docs: Sequence[Doc]) -> str:
    keys = ", ".join(doc.key for doc in docs[:8])
    more = " …" if len(docs) > 8 else ""
    return f"{len(docs)} more did not fit; ask for them by key: {keys}{more}"


def turn_numbers(value: Any) -> tuple[list[int], list[Any]]:
    """Turn numbers in a model's argument: a list, a single number, numbers and ranges as strings (D11)."""
    items = [part for item in _listed(value) for part in (_parts(item) if isinstance(item, str) else [item])]
    numbers = [_numbers(item) for item in items]
    bad = [item for item, found in zip(items, numbers, strict=True) if not found]
    return list(dict.fromkeys(number for found in numbers for number in found))[:ASKED_LIMIT], bad


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.strip(" []").replace(";", ",").split(",")]


def _numbers(item: Any) -> Sequence[int]:
    """The numbers in one item, also as `[Turn 3-8]`."""
    if isinstance(item, str) and (named := _RANGE.fullmatch(item)):
        first, last = int(named[1]), int(named[2] or named[1])
        return range(first, min(last, first + ASKED_LIMIT - 1) + 1)
    try:
        return () if isinstance(item, bool) else (int(item),)
    except (TypeError, ValueError, OverflowError):
        return ()


def _strings(value: Any) -> tuple[list[str], list[Any]]:
    items = _listed(value)
    good = [item.strip() for item in items if isinstance(item, str) and item.strip()]
    return list(dict.fromkeys(good)), [item for item in items if not isinstance(item, str)]


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, list | tuple):
        return list(cast("Sequence[Any]", value))[:ASKED_LIMIT]
    return [value]


__all__ = [
    "ANSWER_BUDGET", "NAME", "SPEC", "for_anthropic", "for_openai", "for_responses",
    "result", "tool_answer", "turn_numbers",
]  # fmt: skip
