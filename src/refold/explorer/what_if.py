"""What another preset, budget or model would make of a session. Nothing is sent and nothing is written: the
conversation is fed to the preset again in memory, and no model is asked."""

from __future__ import annotations

from refold import entries as e
from refold import loop, presets
from refold.compare import budgets, measures
from refold.compare.forms import FORM_WORDS
from refold.compare.report.html import redacted_text
from refold.compare.run import Cell, ComparisonPlan, compare
from refold.costs import known, known_models
from refold.errors import UsageError
from refold.explorer.timeline import Timeline, list_line
from refold.registry.engine import Engine
from refold.session import Session
from refold.text.lenient_json import JsonObject

WINDOW_SHARE = 0.5
"""Of a model's window, where no budget is named."""
FALLBACK_BUDGET = "30%"
"""Where no model is named either."""


def choices() -> JsonObject:
    return {
        "presets": list(presets.names()),
        "models": sorted(model.name for model in known_models() if model.prices and model.window),
    }


def what_if(session: Session, preset: str, budget: str, model: str) -> JsonObject:
    """The session as the preset would show it, in so many tokens (or half of the model's window)."""
    if preset not in presets.names():
        raise UsageError(f"unknown preset {preset!r}; there are {', '.join(presets.names())}")
    about = known(model) if model else None
    if model and (about is None or not about.prices or not about.window):
        raise UsageError(f"nothing is known of the model {model!r}; `refold models` lists those that are")
    if not budget.strip() and about and about.window:
        budget = str(int(about.window * WINDOW_SHARE))
    wanted = budgets.parse_budget(budget.strip() or FALLBACK_BUDGET)
    done = loop.run(
        compare([("session", session)], ComparisonPlan((preset,), (wanted,), prices=model or None))
    )
    if done.unread:
        raise UsageError(done.unread[0][1])
    [cell] = done.cells
    about_log = done.transcripts[0]
    return {
        "preset": cell.preset,
        "budget": cell.budget,
        "prices": redacted_text(about_log.prices),
        "log_tokens": cell.log_tokens,
        "unfolded": about_log.dollars,
        **_figures(cell),
    }


def _figures(cell: Cell) -> JsonObject:
    if cell.failed or cell.done is None:
        return {"error": redacted_text(cell.error or "there is no view")}
    counted = {name: cell.counts[name] for name in measures.MEASURES if name in cell.counts}
    return {
        "tokens": cell.tokens,
        "fits": cell.fits,
        "why": redacted_text(cell.error or ""),
        "cost": cell.cost,
        "forms": {form: cell.forms[form].messages for form in FORM_WORDS} if cell.forms else {},
        "kept": [
            {"what": measures.MEASURES[name][1], "kept": count.kept, "of": count.of}
            for name, count in counted.items()
            if count.of
        ],
        "folds": len(cell.done.all_folds),
        "items": _items(cell.done.session, cell.preset),
    }


def _items(session: Session, preset: str) -> list[JsonObject]:
    engine = Engine(preset)
    timeline = Timeline(session, engine)
    timeline.follow()
    places = {row["id"]: row for row in timeline.rows}
    folds = {fold.id for fold in session.annotations(e.Fold)}
    return [
        {
            "role": item.message.role,
            "tokens": engine.counter.message(item.message),
            "folded": item.fold in folds,
            "about": places[item.entries[0]]["about"] if item.fold is None else list_line(item.message.text),
        }
        for item in engine.view(session).items
    ]
