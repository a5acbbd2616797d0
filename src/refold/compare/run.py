"""Transcripts × presets × budgets × passes: what each preset would do to your conversations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from refold import entries as e
from refold import registry, tokens
from refold.compare import measures, money
from refold.compare.budgets import Budget
from refold.compare.forms import FORM_WORDS, MessageForm, RecordPart, forms_of
from refold.compare.measures import CountOf, LogFacts
from refold.compare.money import Paid, Priced, ReplayBill, RequestSeries
from refold.compare.replay import Replayed, checkpoints, replay
from refold.errors import ModelError, RefoldError, UsageError
from refold.protocols import Model
from refold.registry.engine import Engine
from refold.session import Session, View
from refold.session.edits import said_by


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the comparison: a preset on a log, at a budget."""

    file: str
    preset: str
    budget: int
    passes: int
    asked: str = ""
    """The budget as given."""
    log_tokens: int = 0
    tokens: int | None = None
    """Size of the view; None if there is none."""
    fits: bool | None = None
    counts: dict[str, CountOf] = {}
    """How much of the log the view keeps, by measure (`measures.MEASURES`)."""
    forms: dict[MessageForm, RecordPart] | None = None
    cost: float | None = None
    """Dollars for the whole log, folded whenever it has grown to four budgets."""
    seconds: float | None = None
    requests: int | None = None
    error: str | None = None
    """Why there are no figures, why the view does not fit, the preset's remark, which strategies failed."""
    paid: Paid | None = None
    done: Replayed | None = None
    """The folded session itself."""

    @property
    def failed(self) -> bool:
        return self.tokens is None

    @property
    def needs_folding(self) -> bool:
        return self.log_tokens > self.budget

    def share(self, measure: str) -> float | None:
        """Between 0 and 1; None if the log has nothing to measure, or there is no view."""
        count = self.counts.get(measure)
        return None if count is None or self.failed else count.share

    def form(self, form: MessageForm) -> float | None:
        """Share of the messages in this form."""
        whole = sum(part.messages for part in self.forms.values()) if self.forms else 0
        return self.forms[form].messages / whole if self.forms and whole else None


class About(msgspec.Struct, frozen=True):
    file: str
    messages: int
    tokens: int
    requests: int
    prices: str
    """Model whose prices are used."""
    dollars: float
    """Cost without folding."""
    holds: dict[str, int]
    """Totals by measure."""


class Transcript(About, frozen=True):
    """A conversation to compare on, with everything that does not depend on a preset."""

    session: Session
    log: LogFacts
    steps: RequestSeries
    cut: int
    """Number of messages that are folded for `needed`; 0 if nothing is needed later."""
    needed: tuple[str, ...]
    model: Priced
    none: ReplayBill


class Compared(msgspec.Struct, frozen=True):
    cells: tuple[Cell, ...] = ()
    transcripts: tuple[About, ...] = ()
    unread: tuple[tuple[str, str], ...] = ()
    """Files that could not be compared, and why."""
    notes: tuple[tuple[str, str], ...] = ()
    skipped: int = 0
    """Files in folders that are not transcripts."""

    def of(self, file: str) -> list[Cell]:
        return [cell for cell in self.cells if cell.file == file]


class Comparison(Compared, frozen=True):
    """A result with the transcripts and folded sessions."""

    transcripts: tuple[Transcript, ...] = ()


@dataclass(frozen=True)
class ComparisonPlan:
    presets: Sequence[str]
    budgets: Sequence[Budget]
    passes: Sequence[int] = (1,)
    model: Model | str | None = None
    """The model that writes the summaries, or its name; None: no model."""
    prices: str | None = None
    """The model for prices; None: the one named in the transcript."""


Progress = Callable[[float, str], None]
"""Called with the part that is done and what comes next."""


VARIANTS = ("augment:carry_previous_summary=true",)
"""Additional rows: presets with settings."""


def variant(name: str) -> tuple[str, dict[str, str]]:
    """A preset and the settings behind its name: `augment:carry_previous_summary=true`."""
    preset, *settings = name.split(":")
    return preset, {key: value for key, _, value in (text.partition("=") for text in settings)}


async def compare(
    sessions: Iterable[tuple[str, Session | RefoldError | OSError]],
    plan: ComparisonPlan,
    progress: Progress = lambda _, __: None,
) -> Comparison:
    """All cells. A failure in one is recorded there and does not stop the others."""
    given = list(sessions)
    model = registry.model(plan.model) if isinstance(plan.model, str) else plan.model
    total = max(len(given) * len(_rows(plan)), 1)
    cells: list[Cell] = []
    transcripts: list[Transcript] = []
    unread: list[tuple[str, str]] = []
    for file, session in given:
        progress(len(cells) / total, file)
        transcript = _prepared(file, session, plan.prices)
        if isinstance(transcript, str):
            unread.append((file, transcript))
            cells += blanks(file, plan, transcript)
            continue
        transcripts.append(transcript)
        rows: dict[tuple[str, int, int], Budget] = {}
        for budget, passes, name in _rows(plan):
            rows.setdefault((name, budget.of(transcript.tokens), passes), budget)
        for (name, _, passes), budget in rows.items():
            progress(len(cells) / total, f"{name} at {budget.text}, {passes}×")
            cells.append(await cell(transcript, name, budget, passes, model))
    progress(1.0, "done")
    return Comparison(tuple(cells), tuple(transcripts), tuple(unread))


def _rows(plan: ComparisonPlan) -> list[tuple[Budget, int, str]]:
    return list(product(plan.budgets, plan.passes, plan.presets))


def _prepared(file: str, session: Session | Exception, prices: str | None) -> Transcript | str:
    """The transcript, or the reason why there is none."""
    if isinstance(session, Exception):
        return str(session)
    try:
        return prepare_transcript(file, session, prices)
    except UsageError:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def prepare_transcript(file: str, session: Session, prices: str | None = None) -> Transcript:
    """Everything about a transcript that does not depend on a preset."""
    said = [entry for entry in session.path if said_by(entry) is not None]
    messages = list(filter(None, map(said_by, said)))
    fresh = session_of_entries(session, said)
    steps = money.steps(fresh, tokens.get())
    cut = _cut(said)
    log, needed = measures.log_of(messages), measures.needed(messages, cut) if cut else ()
    model = money.prices_of(session, prices)
    none = money.bill(steps, model.prices)
    return Transcript(
        file,
        len(said),
        steps.tokens,
        len(steps.steps),
        model.name,
        none.dollars,
        {name: count.of for name, count in log.kept("").items()} | {"needed": len(needed)},
        fresh,
        log,
        steps,
        cut if needed else 0,
        needed,
        model,
        none,
    )


def session_of_entries(source: Session, path: Sequence[e.AnyPathEntry]) -> Session:
    session = Session(id=source.id, info=source.info)
    session.share_counts(source)
    for entry in path:
        session.append(replace(entry, parent=session.leaf))
    return session


def _cut(path: Sequence[e.AnyPathEntry]) -> int:
    """The position nearest to three quarters at which no call waits for its result; 0 if there is none."""
    wanted = measures.NEEDED_CUT * len(path)
    ends = [end for end in checkpoints(path, 8) if 2 <= end < len(path)]
    return min(ends, key=lambda end: abs(end - wanted), default=0)


async def cell(t: Transcript, name: str, budget: Budget, passes: int, model: Model | None = None) -> Cell:
    """One preset on one transcript; never raises for errors of the preset or a model."""
    holds = {measure: CountOf(0, of) for measure, of in t.holds.items()}
    if t.steps.sums[t.cut] <= budget.of(t.steps.sums[t.cut]):
        del holds["needed"]  # what fits as it is says nothing about a preset
    size = budget.of(t.tokens)
    blank = Cell(
        file=t.file,
        preset=name,
        budget=size,
        passes=passes,
        asked=budget.text,
        log_tokens=t.tokens,
        counts=holds,
    )
    try:
        return await _measured(blank, t, budget, model)
    except ModuleNotFoundError as error:
        said = f"this preset is not installed ({error.name})"
    except RefoldError as error:
        said = str(error)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    return replace(blank, error=said)


async def _measured(blank: Cell, t: Transcript, budget: Budget, model: Model | None) -> Cell:
    began, limit = time.perf_counter(), blank.budget
    engine, done, view = await _folded(t.session, blank, limit, model)
    seconds = time.perf_counter() - began
    later = {"needed": await _needed(blank, t, budget, model)} if "needed" in blank.counts else {}
    shape = money.view_sizes(view.items, [engine.counter.message(message) for message in view.messages])
    paid = Paid(t.none)
    if done.all_folds:
        summaries = money.summarising(done.all_folds, model.name if model else "", t.model)
        paid = money.pay(t.steps, t.model.prices, t.none, limit, shape, summaries)
    fits, why = done.verdict(engine, view, limit)
    failures = done.failed_strategies if done.all_folds else ()  # without a fold `why` says it
    asked = (*done.all_folds, *done.session.annotations(e.Failure))
    return replace(
        blank,
        tokens=view.tokens,
        fits=fits,
        counts=t.log.kept(measures.readable_text(view.messages)) | later,
        forms=forms_of(done.session, t.steps.sizes),
        cost=round(paid.usual.dollars, 6),
        seconds=round(seconds, 3),
        requests=sum(one.requests for one in asked),
        error="; ".join(filter(None, (why, *failures))) or None,
        paid=paid,
        done=done,
    )


async def _needed(blank: Cell, t: Transcript, budget: Budget, model: Model | None) -> CountOf:
    """What calls after the cut need from the part before it, folded by itself; empty if it does not fit."""
    limit = budget.of(t.steps.sums[t.cut])
    prefix = session_of_entries(t.session, t.session.path[: t.cut])
    _, _, view = await _folded(prefix, blank, limit, model)
    found = measures.present(t.needed, measures.flat(measures.readable_text(view.messages)))
    return found if view.tokens <= limit else CountOf(0, found.of)


async def _folded(
    session: Session, cell: Cell, limit: int, model: Model | None
) -> tuple[Engine, Replayed, View]:
    preset, settings = variant(cell.preset)
    engine = Engine(registry.preset(preset, settings, budget=limit), model=model, summariser="same")
    title = f"{cell.preset} {limit} {cell.passes}"
    done = await replay(engine, session, passes=cell.passes, title=title)
    if model is not None and done.failures and not done.all_folds:
        failed = done.failures[-1]
        raise ModelError(f"{failed.code}: {failed.text}")
    return engine, done, engine.view(done.session)


def blanks(file: str, plan: ComparisonPlan, error: str) -> list[Cell]:
    """Cells of a file without figures."""
    return [
        Cell(file=file, preset=name, budget=budget.tokens or 0, passes=passes, asked=budget.text, error=error)
        for budget, passes, name in _rows(plan)
    ]


SHARE_COLUMNS = {
    "constraints": "words",
    "artifacts": "files",
    "identifiers": "identifiers",
    "future_references": "needed",
    "paths": "paths",
    "calls": "calls",
    "numbers": "numbers",
}
"""Columns of the JSON → measures."""


def row(cell: Cell) -> dict[str, Any]:
    """The documented JSON of a cell."""
    fields = {name: value for name, value in asdict(cell).items() if name not in ("done", "paid")}
    fields |= {column: _rounded(cell.share(measure)) for column, measure in SHARE_COLUMNS.items()}
    fields |= {form: _rounded(cell.form(form)) for form in FORM_WORDS}
    fields["why"] = fields["error"]
    fields["counts"] = msgspec.to_builtins(cell.counts)
    fields["forms"] = msgspec.to_builtins(cell.forms)
    fields["money"] = None if cell.paid is None else cell.paid.row()
    return fields


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)
