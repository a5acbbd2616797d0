"""`refold plan`."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from refold import loop
from refold.cli.compact import fold_to_fit
from refold.cli.options import file_argument, json_option, preset_options
from refold.cli.output import console, emit, first_line, styled, waiting
from refold.cli.plan_cost import Money, cost
from refold.cli.session_argument import open_session, tell_problems
from refold.compaction.plan import Plan, Reason
from refold.compaction.plan_context import Due
from refold.compaction.preset import Preset
from refold.compare.replay import Replayed
from refold.entries import Files
from refold.messages import Assistant
from refold.registry.engine import Engine
from refold.session import Session, redacted
from refold.session.edits import said_by
from refold.text.plural import counted


@click.command("plan")
@file_argument
@preset_options
@click.option("--focus", help="What the summary should focus on.")
@json_option
def command(file: str, preset: Preset, focus: str | None, as_json: bool) -> None:
    """Show what a fold would do now (dry run).

    Plans a fold even if the trigger of the preset has not fired; the output says whether it has.
    """
    session = open_session(file)
    engine = Engine(preset)
    with waiting("counting …"):
        plan = engine.plan(session, force=True, instructions=focus)
        natural = engine.plan(session, instructions=focus)
        if isinstance(plan, Reason) and isinstance(natural, Plan):
            plan = natural  # maintenance, which `compact` does without being asked
        rehearsed = _rehearsed(engine, session, plan, focus)
    due = _trigger(session, plan, natural.reason if isinstance(natural, Plan) else natural)
    if as_json:
        emit(redacted.values(msgspec.to_builtins(plan_json(engine, session, plan, due, rehearsed))))
        return
    tell_problems(session)
    print_plan(engine, session, plan, due)
    if rehearsed is not None:
        _print_rehearsal(engine, session, rehearsed)


def _rehearsed(engine: Engine, session: Session, plan: Plan | Reason, focus: str | None) -> Replayed | None:
    """What `compact` does to a copy, without a model; None where the plan is all it does."""
    tokens = plan.tokens_after if isinstance(plan, Plan) else engine.view(session).tokens
    if tokens <= engine.preset.budget and not engine.preset.maintains:
        return None
    copy = Session(session.entries, id=session.id, info=session.info)
    copy.share_counts(session)
    return loop.run(fold_to_fit(engine, copy, None, focus))


def _print_rehearsal(engine: Engine, session: Session, rehearsed: Replayed) -> None:
    view, limit = engine.view(rehearsed.session), engine.preset.budget
    fits, why = rehearsed.verdict(engine, view, limit)
    sizes = f"{engine.view(session).tokens:,} → {view.tokens:,} tokens of {limit:,}: "
    verdict = ("fits", "green") if fits else ("does not fit", "red")
    out = console()
    out.print(
        styled(f"all in all {counted(len(rehearsed.folds), 'fold')}, without a model: {sizes}", verdict)
    )
    if why is not None and not fits:
        out.print(why.removeprefix("does not fit; "))


def _trigger(session: Session, plan: Plan | Reason, due: Due | Reason) -> Due | Reason:
    """The trigger that has fired, if there is something to do."""
    if not due:
        return due
    if not isinstance(plan, Plan):
        return Reason(plan.code, plan.text)
    last = session.last_reply
    if due.code != "overflow" or last is None or last.usage is None:
        return due
    if not isinstance(last.message, Assistant) or last.message.stop == "error":
        return due
    size = last.usage.prompt
    return Due(
        due.code,
        f"the last request had {size:,} tokens by the provider's count; the window is {plan.window:,}",
    )


def plan_json(
    engine: Engine,
    session: Session,
    plan: Plan | Reason,
    due: Due | Reason,
    rehearsed: Replayed | None = None,
) -> dict[str, Any]:
    """The documented JSON of a plan, with the same keys if there is nothing to do."""
    tokens = engine.view(session).tokens
    told: dict[str, Any] = {
        "preset": engine.preset.name,
        "measure": engine.preset.measure,
        "reason": plan,
        "due": bool(due),
        "trigger": due,
        "first_kept": None,
        "fold": [],
        "turn_prefix": [],
        "masked": [],
        "clipped": [],
        "words_left_out": [],
        "split": False,
        "tokens_before": tokens,
        "tokens_after": tokens,
        "fits": True,
        "why": None,
        "window": engine.preset.window,
        "requests": 0,
        "strategy": None,
        "alternatives": [],
        "cost": Money(),
        "files": Files(),
        "previous_summary": None,
    }
    if isinstance(plan, Plan):
        told |= {key: getattr(plan, key) for key in told if hasattr(plan, key)}
        told["tokens_after"] = min(plan.tokens_after, plan.tokens_before)
        told["requests"] = plan.requests if engine.summariser.uses_model else 0
        told["cost"] = cost(plan, engine.model.name if engine.model else None)
    after, limit = told["tokens_after"], engine.preset.budget
    told["fits"] = after <= limit
    told["why"] = None if after <= limit else f"the view may keep {after:,} tokens; the limit is {limit:,}"
    if rehearsed is not None:
        view = engine.view(rehearsed.session)
        told["tokens_after"] = view.tokens
        told["fits"], told["why"] = rehearsed.verdict(engine, view, limit)
    told["rung"] = told["strategy"]  # its old name
    told["files"] = {name: getattr(told["files"], name) for name in Files.__struct_fields__}
    return told


def print_plan(engine: Engine, session: Session, plan: Plan | Reason, due: Due | Reason) -> None:
    out = console()
    trigger = ("due", "yellow") if due else "not due"
    name, measure = engine.preset.name, engine.preset.measure
    out.print(styled((name, "bold"), f" ({measure}): ", trigger, f", {due.text}"))
    if not isinstance(plan, Plan):
        last = session.last_reply
        told = (
            " (the provider's count above includes the system prompt and the tools)"
            if last and last.usage
            else ""
        )
        tokens = f"{engine.view(session).tokens:,} tokens by our count{told}"
        out.print(styled(f"nothing to fold: {plan.text}, {tokens} ", (f"({plan.code})", "dim")))
        return
    out.print(_bar(plan, min(out.columns, 100) - 2))
    then = f"; if that is not enough: {', '.join(plan.alternatives)}" if plan.alternatives else ""
    after = min(plan.tokens_after, plan.tokens_before)
    size = f"{plan.tokens_before:,} → at most {after:,} tokens of {plan.window:,}; strategy "
    if sizes := _two_counts(plan):
        out.print(sizes)
    out.print(styled(size, (plan.strategy, "bold"), f"; {counted(plan.requests, 'model request')}{then}"))
    folded = len(plan.fold) + len(plan.turn_prefix)
    split = "; the cut falls inside a turn" if plan.split else ""
    clipped = len(plan.clipped) + len(plan.masked)
    messages = counted(sum(said_by(entry) is not None for entry in session.path), "message")
    out.print(f"folds {folded:,} of {messages}{split}; clips {clipped:,}; first kept: {plan.first_kept}")
    if plan.words_left_out:
        left = len(plan.words_left_out)
        out.print(f"not all of the user's words fit: {left:,} messages are clipped or left out")
    files = plan.files
    out.print(
        f"files: {len(files.read):,} read, {len(files.modified):,} modified, "
        f"{len(files.created):,} created, {len(files.deleted):,} deleted"
    )
    out.print(_money(plan))
    if plan.fold or plan.turn_prefix:
        out.print("\nfirst messages to fold", style="dim")
    for id in (*plan.fold, *plan.turn_prefix)[:5]:
        message = said_by(session[id])
        if message is not None:
            text = redacted.without_secrets(message.text) or "(tool calls)"
            out.print(f"  {message.role:9} {first_line(text, out.columns - 14)}")


def _money(plan: Plan) -> str:
    money = cost(plan)
    if money.now is None or money.per_turn is None:
        return f"money: price unknown for {money.model or 'this log: it names no model'}"
    pays = (
        "never pays back"
        if money.break_even_turns is None
        else f"pays back after {counted(money.break_even_turns, 'turn')}"
    )
    if money.now <= 0:
        now, pays = f"saves ${-money.now:.4f} at once", "pays back at once"
    else:
        now = f"costs ${money.now:.4f} once"
    later = f"saves ${money.per_turn:.4f} per turn" if money.per_turn > 0 else "saves nothing later"
    return f"money ({money.model}): {now}, {later}; {pays}"


def _two_counts(plan: Plan) -> str | None:
    """Both counts and the reason, if the provider counts differently."""
    sizes = plan.context.sizes
    if abs(sizes.provider - sizes.tokens) * 50 <= sizes.tokens:
        return None
    why = " (with the system prompt and the tools, which a transcript does not have)"
    return f"now {sizes.provider:,} tokens by the provider's count{why}, {sizes.tokens:,} by ours"


def _bar(plan: Plan, width: int) -> Any:
    """The context as a bar: folded, clipped and unchanged parts."""
    s = plan.context
    gone = set(plan.fold) | set(plan.turn_prefix)
    masked = {*plan.masked, *plan.clipped}
    kinds = {"folded": 0, "clipped": 0, "kept": 0}
    for index, item in enumerate(s.items):
        size = s.projection.size(s.counter, index, index + 1)
        ids = set(item.entries)
        kind = "folded" if ids & gone or (item.fold and plan.fold) else "clipped" if ids & masked else "kept"
        kinds[kind] += size
    total = max(sum(kinds.values()), 1)
    styles = (("folded", "red", "░"), ("clipped", "yellow", "▒"), ("kept", "green", "█"))
    drawn = [(mark * round(kinds[kind] * width / total), style) for kind, style, mark in styles]
    return styled(*drawn, "\n", ("  ".join(f"{kind} {size:,}" for kind, size in kinds.items()), "dim"))
