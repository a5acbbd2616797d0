"""Does a written session, read back, say what was to be said, in that order? One that does not is refused."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from refold import entries as e
from refold import messages as m
from refold.errors import FormatError
from refold.session import Item, Projection, Session, dialects
from refold.session.dialects.common import call_object, without_surrogates
from refold.session.edits import said_by
from refold.text.frames import without_escapes
from refold.text.lenient_json import JsonObject
from refold.transcripts import read_stream
from refold.transcripts.base import TranscriptFile
from refold.transcripts.embedded_fold import EMBEDDED_KEY
from refold.transcripts.programs import Page, Ticket, json_lines, sendable_items, writer
from refold.transcripts.values import as_object


def refuse_unlike(data: bytes, program: str, page: Page, ticket: Ticket, *, before: bytes = b"") -> None:
    """`FormatError` where a session as it would be written says something else; `before`: the file that it is
    appended to."""
    found = [] if ticket.id else ["it does not name its session"]
    # What the program sees counts, and what we see: it reads nothing of what a record carries for us.
    for seen in (before + without_carried(data), before + data):
        found = found or _unlike(seen, program, page)
    if found:
        raise FormatError(
            f"{program} would not resume this session: {found[0]}. Nothing was written; "
            "`refold export FILE --to jsonl` holds everything"
        )


def _unlike(data: bytes, program: str, page: Page) -> list[str]:
    """How the file, read back, differs from what it should say."""
    session = Session.of(read_stream(io.BytesIO(data), name="session.jsonl", format=program))
    wanted = _words(page.view, program)
    chosen = writer(program)
    there = _words(sendable_items(Projection(session).items, chosen.dialect, chosen.adapted), program)
    pairs = enumerate(zip_longest(wanted, there))
    return [f"read back, part {at} of the view differs" for at, (a, b) in pairs if a != b][:1]


def unchanged(
    path: Sequence[e.Entry], program: str, records: Sequence[JsonObject], places: Mapping[str, str]
) -> dict[str, str]:
    """Of the entries that records say, those that come back as they are when these are read."""
    read = read_stream(io.BytesIO(json_lines(records)), name="session.jsonl", format=program)
    there = {entry.id: _said(entry) for entry in read.entries}
    return {
        entry.id: place
        for entry in path
        if (place := places.get(entry.id)) and there.get(place) == _said(entry)
    }


def _said(entry: e.Entry) -> list[tuple[str, ...]] | None:
    message = said_by(entry)
    return None if message is None else spoken_texts([message])


def without_carried(data: bytes) -> bytes:
    records = [record for _, record in TranscriptFile(io.BytesIO(data)).records()]
    for record in records:
        record.pop(EMBEDDED_KEY, None)
        as_object(record.get("payload")).pop(EMBEDDED_KEY, None)
    return json_lines(records)


def _words(items: Sequence[Item], program: str) -> list[tuple[str, ...]]:
    """What the provider would be told."""
    dialect = dialects.get(writer(program).dialect)
    return spoken_texts(dialect.parse_list(dialect.render(items)))


def spoken_texts(messages: Iterable[m.Message]) -> list[tuple[str, ...]]:
    """What is said, with its speaker, in order. What one side says in a row is one text."""
    found: list[tuple[str, ...]] = []
    for message in messages:
        if isinstance(message, m.Result):
            found.append(("result", message.call_id, plainly(message.text)))
            continue
        for part in message.parts:
            if isinstance(part, m.Call):
                found.append(("call", part.id, part.name, m.compact_json(call_object(part))))
            elif isinstance(part, m.Text) and (said := plainly(part.text)):
                role = "assistant" if isinstance(message, m.Assistant) else "user"
                if found and found[-1][0] == role:
                    said = found.pop()[1] + said
                found.append((role, said))
    return found


def plainly(text: str) -> str:
    """Letters and signs alone: escapes, blanks and half characters may be lost on the way."""
    return "".join(without_surrogates(without_escapes(text)).split())
