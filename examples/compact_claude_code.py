"""Fold a transcript with the library: load, plan, apply, look, export.

    python examples/compact_claude_code.py ~/.claude/projects/…/SESSION.jsonl --budget 20000 -o folded.json

The transcript is only read. What is written is a request as Anthropic's messages takes it. Any transcript
that refold reads will do.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import refold
from refold import Engine, presets
from refold.errors import RefoldError
from refold.transcripts.export import export


def compact(source: Path, target: Path, budget: int) -> None:
    session = refold.load(source)
    for problem in session.problems:
        print(f"{source}: {problem}", file=sys.stderr)
    engine = Engine(presets.get("refold", budget=budget))  # model=refold.model("…") for written summaries

    plan = engine.plan(session, force=True)  # a dry run
    if not plan:
        sys.exit(f"nothing to fold: {plan.text}")
    sizes = f"{plan.tokens_before:,} → at most {plan.tokens_after:,} tokens"
    print(f"will fold {len(plan.fold)} messages: {sizes}")

    fold = refold.run(engine.apply(session, plan))
    if not fold:
        sys.exit(f"could not fold: {fold.text}")
    view = engine.view(session)
    print(f"folded by {fold.author}: {len(view)} messages, {view.tokens:,} tokens")
    for hit in engine.recall(session, "error", limit=2):  # what left the view is still there
        print(f"  recall {hit.key}, turn {hit.turn}: {hit.text[:80]!r}")

    exported = export(session, "anthropic", view=True)  # view=False: everything that was said
    target.write_bytes(exported.data)
    for sentence in exported.lost:
        print(sentence, file=sys.stderr)
    print(f"written to {target}")

    engine.undo(session)  # one entry more, and everything is as it was
    print(f"undone: {engine.view(session).tokens:,} tokens")


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("source", type=Path)
    options.add_argument("--budget", type=int, default=20_000)
    options.add_argument("-o", "--output", type=Path, default=Path("folded.json"))
    given = options.parse_args()
    try:
        compact(given.source, given.output, given.budget)
    except RefoldError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
