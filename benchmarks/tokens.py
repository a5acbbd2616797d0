"""M7: how well the size of the next request is predicted, on transcripts that carry provider usage.

Our count of a request is the view before the reply, without sealed thoughts of finished turns; what the transcript does not hold (system prompt, tools)
is the fixed part that calibration learns. For every request three predictions are compared with what the
provider counted: the bare count, the calibrated count (fitted on earlier requests of that session and model
only), and the usage-anchored one (the last request's figure plus the calibrated count of what came after it).
The first five requests of a session and model are excluded.

    python -m benchmarks.tokens
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from refold import entries as e
from refold import messages as m
from refold import tokens, transcripts
from refold.protocols import TokenCounter
from refold.session import Projection, Session
from refold.tokens.calibrated import MINIMUM, Calibration
from refold.tokens.parts import sealed_size

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("REFOLD_DATA", ROOT.parent / "shared" / "data"))
SOURCES = ("pi", "claude-code", "codex")

Pair = tuple[float, float]


def requests(path: Path, counter: TokenCounter) -> Mapping[str, list[Pair]]:
    """(our count, provider's count) of every request, oldest first, per model."""
    whole = Session.of(transcripts.read(path))
    session = Session(id="replay")
    view = Projection(session)
    found: dict[str, list[Pair]] = defaultdict(list)
    for entry in whole.path:
        if isinstance(entry, e.MessageEntry) and entry.usage is not None and entry.usage.prompt:
            read = view.size(counter) - forgotten([item.message for item in view.items], counter)
            found[entry.model or ""].append((read, entry.usage.prompt))
        session.append(entry)
    return found


def forgotten(messages: Sequence[m.Message], counter: TokenCounter) -> int:
    """Tokens of encrypted thinking before the last user message: counted by us, but never read."""
    last = next((i for i in range(len(messages) - 1, -1, -1) if isinstance(messages[i], m.User)), 0)
    return sum(sealed_size(message, counter) for message in messages[:last])


def predictions(pairs: list[Pair]) -> Iterator[tuple[float, float, float, float]]:
    """Bare, calibrated, anchored, true: from the sixth request on."""
    for number in range(MINIMUM, len(pairs)):
        fit = Calibration.fit(pairs[:number])
        count, true = pairs[number]
        before, said = pairs[number - 1]
        # A view that shrank was folded in between: the old figure says nothing about it.
        anchored = said + fit.scale * (count - before) if count >= before else fit.predict(count)
        yield count, fit.predict(count), anchored, true


def errors(files: list[Path], counter: TokenCounter) -> dict[str, Any]:
    """Mean and median relative error of each prediction."""
    kinds: dict[str, list[float]] = {"before": [], "after": [], "anchored": []}
    fits: list[dict[str, float]] = []
    for path in files:
        for model, pairs in requests(path, counter).items():
            for *guesses, true in predictions(pairs):
                for kind, guess in zip(kinds, guesses, strict=True):
                    kinds[kind].append(abs(guess - true) / true)
            if len(pairs) > MINIMUM:
                fit = Calibration.fit(pairs)
                fits.append({"model": model, "scale": round(fit.scale, 3), "fixed": round(fit.fixed)})
    row: dict[str, Any] = {"requests": len(kinds["before"]), "fits": fits}
    for kind, values in kinds.items():
        row[kind] = {"mean": round(mean(values), 4), "median": round(median(values), 4)} if values else None
    return row


def run(*, quick: bool = False) -> dict[str, Any]:
    """The table: source → counter → errors. Empty, with the reason, where the transcripts are not here."""
    if not DATA.exists():
        return {"skipped": "the transcripts are not here: set REFOLD_DATA to their folder"}
    counters = ("o200k",) if quick else ("o200k", "bytes4")
    table: dict[str, Any] = {}
    for source in SOURCES:
        files = sorted(path for path in (DATA / source).glob("*.jsonl"))
        table[source] = {name: errors(files, tokens.get(name)) for name in counters}
    return {"measure": "M7", "excluded": MINIMUM, "sources": table}


if __name__ == "__main__":
    json.dump(run(quick="--quick" in sys.argv), sys.stdout, indent=1)
    print()
