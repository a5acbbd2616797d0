"""Transcripts × presets × budgets × passes: what each design would do to your conversations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, cast

import msgspec
from msgspec.structs import asdict, replace

from refold import entries as e
from refold import registry, tokens
from refold.compaction.requests import last_model
from refold.compare import measures, money
from refold.compare.budgets import Budget
from refold.compare.forms import FORMS, Form, Part, forms_of
from refold.compare.measures import Probes
from refold.compare.money import Bill, Shape, Steps, Summarising
from refold.compare.replay import Replayed, checkpoints, replay
from refold.costs import Known, Prices, known
from refold.engine import Engine
from refold.errors import ModelError, RefoldError, SettingError, UsageError
from refold.protocols import Model
from refold.session import Session, View
from refold.session.edits import said_by

PRICED = "claude-sonnet-5"
"""Whose prices count where neither the caller nor the transcript names a model that is known."""
TIMES = (2, 4, 8)
"""Thresholds of the money replay, in budgets: a context that has grown to this is folded to one budget."""
USUAL = 4
"""The threshold of the column `cost`; where a transcript never gets there, the largest that it reaches."""


class Paid(msgspec.Struct, frozen=True):
    """What a transcript costs with a design: in all, by threshold, and against not folding at all."""

    none: Bill
    by_threshold: dict[int, Bill] = {}
    threshold: int = 0
    """The usual one; `cost` is what it comes to."""

    @property
    def usual(self) -> Bill:
        return self.by_threshold.get(self.threshold, self.none)

    @property
    def saved(self) -> float:
        return self.none.dollars - self.usual.dollars


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the comparison. Shares lie between 0 and 1; None: there was nothing to measure by."""

    file: str
    preset: str
    budget: int
    passes: int
    asked: str = ""
    """The budget as it was written."""
    tokens: int | None = None
    fits: bool | None = None
    constraints: float | None = None
    artifacts: float | None = None
    identifiers: float | None = None
    future_references: float | None = None
    forms: dict[Form, Part] | None = None
    """In which form the messages of the transcript stand in the view."""
    cost: float | None = None
    """Dollars for the whole transcript, folded whenever it has grown to four budgets."""
    seconds: float | None = None
    requests: int | None = None
    error: str | None = None
    """Why there are no figures, why it does not fit, or what the design says of a view that does."""
    paid: Paid | None = None
    shape: Shape | None = None
    done: Replayed | None = None
    """The folded session itself."""

    @property
    def failed(self) -> bool:
        return self.tokens is None

    @property
    def untouched(self) -> bool:
        """Nothing was folded: the view is the conversation as it was, and says nothing about a design."""
        return self.forms is not None and all(
            form == "whole" or not part.messages for form, part in self.forms.items()
        )

    def share(self, form: Form) -> float | None:
        """Of all messages; None where there are none."""
        whole = sum(part.messages for part in self.forms.values()) if self.forms else 0
        return self.forms[form].messages / whole if self.forms and whole else None


class About(msgspec.Struct, frozen=True):
    """A transcript, in figures."""

    file: str
    messages: int
    tokens: int
    requests: int
    prices: str
    """Whose."""
    dollars: float
    """What it costs without folding."""


class Transcript(About, frozen=True):
    """A conversation ready to be compared on; what does not depend on a design is computed once."""

    session: Session
    steps: Steps
    prefix: Session | None
    probes: Probes
    priced: Known
    none: Bill


class Compared(msgspec.Struct, frozen=True):
    """What a comparison comes to."""

    cells: tuple[Cell, ...] = ()
    transcripts: tuple[About, ...] = ()
    unread: tuple[tuple[str, str], ...] = ()
    """Files that could not be compared, and why."""
    notes: tuple[tuple[str, str], ...] = ()
    """What is to be said of a file besides."""
    skipped: int = 0
    """Files of folders that are no transcripts."""

    def of(self, file: str) -> list[Cell]:
        return [cell for cell in self.cells if cell.file == file]


class Comparison(Compared, frozen=True):
    """With the transcripts and the folded sessions themselves."""

    transcripts: tuple[Transcript, ...] = ()


@dataclass(frozen=True)
class Plan:
    """What to compare."""

    presets: Sequence[str]
    budgets: Sequence[Budget]
    passes: Sequence[int] = (1,)
    model: Model | str | None = None
    """Who writes the summaries, or its name; None: the embedded digest."""
    prices: str | None = None
    """Whose prices count; None: those of the model that the transcript names."""


Progress = Callable[[float, str], None]
"""Told the part that is done and what is done next."""


VARIANTS = ("augment:carry_previous_summary=true",)
"""Rows beside those of the designs as they are."""


def variant(name: str) -> tuple[str, dict[str, str]]:
    """A design and the settings behind its name: `augment:carry_previous_summary=true`."""
    design, *settings = name.split(":")
    return design, {key: value for key, _, value in (text.partition("=") for text in settings)}


async def compare(
    sessions: Iterable[tuple[str, Session | RefoldError | OSError]],
    plan: Plan,
    progress: Progress = lambda _, __: None,
) -> Comparison:
    """All cells. What goes wrong in one does not stop the others: the cell says why."""
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
        for budget, passes, name in _rows(plan):
            progress(len(cells) / total, f"{name} at {budget.text}, {passes}×")
            cells.append(await cell(transcript, name, budget, passes, model))
    progress(1.0, "done")
    return Comparison(tuple(cells), tuple(transcripts), tuple(unread))


def _rows(plan: Plan) -> list[tuple[Budget, int, str]]:
    """Designs beside each other, for each budget and number of passes."""
    return list(product(plan.budgets, plan.passes, plan.presets))


def _prepared(file: str, session: Session | Exception, prices: str | None) -> Transcript | str:
    """The transcript, or why there is none."""
    if isinstance(session, Exception):
        return str(session)
    try:
        return prepare(file, session, prices)
    except UsageError:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def prepare(file: str, session: Session, prices: str | None = None) -> Transcript:
    """Everything about a transcript that all designs share."""
    said = [entry for entry in session.path if said_by(entry) is not None]
    fresh = fed(session, said)
    steps = money.steps(fresh, tokens.get())
    cut = _cut(said)
    priced = _priced(session, prices)
    none = money.bill(steps, _prices(priced))
    return Transcript(
        file,
        len(said),
        steps.tokens,
        len(steps.steps),
        priced.name,
        none.dollars,
        fresh,
        steps,
        fed(session, said[:cut]) if cut else None,
        measures.probes(said, cut) if cut else Probes(0, ()),
        priced,
        none,
    )


def fed(source: Session, path: Sequence[e.AnyPathEntry]) -> Session:
    """A session of these entries alone, one after the other."""
    session = Session(id=source.id, info=source.info)
    session.share_counts(source)
    for entry in path:
        session.append(replace(entry, parent=session.leaf))
    return session


def _cut(path: Sequence[e.AnyPathEntry]) -> int:
    """The end nearest to three quarters at which no call waits for its result; 0 where there is none."""
    wanted = measures.CUT * len(path)
    ends = [end for end in checkpoints(path, 8) if 2 <= end < len(path)]
    return min(ends, key=lambda end: abs(end - wanted), default=0)


def priced(name: str) -> Known:
    """The model of that name, which has prices."""
    found = known(name)
    if found is None or found.prices is None:
        raise SettingError("prices", f"nobody here knows what {name!r} costs: see `refold models`")
    return found


def _priced(session: Session, name: str | None) -> Known:
    if name:
        return priced(name)
    spoken = last_model(session)
    found = known(spoken) if spoken else None
    return found if found and found.prices else priced(PRICED)


def _prices(about: Known) -> Prices:
    return cast(Prices, about.prices)


async def cell(t: Transcript, name: str, budget: Budget, passes: int, model: Model | None = None) -> Cell:
    """One design on one transcript; never raises for what the design or a model does."""
    blank = Cell(file=t.file, preset=name, budget=budget.of(t.tokens), passes=passes, asked=budget.text)
    try:
        return await _measured(blank, t, budget, model)
    except ModuleNotFoundError as error:
        said = f"this design is not installed ({error.name})"
    except RefoldError as error:
        said = str(error)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    return replace(blank, error=said)


async def _measured(blank: Cell, t: Transcript, budget: Budget, model: Model | None) -> Cell:
    began, limit = time.perf_counter(), blank.budget
    engine, done, view = await _folded(t.session, blank, limit, model)
    seconds = time.perf_counter() - began
    later = None
    if t.prefix is not None and t.probes.names:
        part = budget.of(t.steps.sums[t.probes.cut])
        _, _, before = await _folded(t.prefix, blank, part, model)
        later = t.probes.found(measures.readable(before.messages))
    shape = money.shape_of(view.items, [engine.counter.message(message) for message in view.messages])
    paid = pay(t, limit, shape, _summarising(t, done, model)) if done.all_folds else Paid(t.none)
    fits, why = done.verdict(engine, view, limit)
    return replace(
        blank,
        tokens=view.tokens,
        fits=fits,
        **asdict(measures.kept(done.session, view.items)),
        future_references=later,
        forms=forms_of(done.session, t.steps.sizes),
        cost=round(paid.usual.dollars, 6),
        seconds=round(seconds, 3),
        requests=_requests(done.session),
        error=why,
        paid=paid,
        shape=shape,
        done=done,
    )


async def _folded(
    session: Session, cell: Cell, limit: int, model: Model | None
) -> tuple[Engine, Replayed, View]:
    design, settings = variant(cell.preset)
    engine = Engine(registry.preset(design, settings, budget=limit), model=model)
    title = f"{cell.preset} {limit} {cell.passes}"
    done = await replay(engine, session, passes=cell.passes, title=title)
    if model is not None and done.failures and not done.all_folds:
        failed = done.failures[-1]
        raise ModelError(f"{failed.code}: {failed.text}")
    return engine, done, engine.view(done.session)


def _requests(session: Session) -> int:
    made = (*session.annotations(e.Fold), *session.annotations(e.Failure))
    return sum(one.requests for one in made)


def pay(t: Transcript, limit: int, shape: Shape, summarising: Summarising) -> Paid:
    """The transcript at every threshold that it reaches."""
    bills = {
        limit * times: money.bill(
            t.steps, _prices(t.priced), threshold=limit * times, shape=shape, summarising=summarising
        )
        for times in TIMES
        if limit * times < t.none.peak
    }
    usual = max((reached for reached in bills if reached <= limit * USUAL), default=limit * USUAL)
    return Paid(t.none, bills, usual)


def _summarising(t: Transcript, done: Replayed, model: Model | None) -> Summarising:
    """What a summary was seen to cost; the prices of an unknown model are taken to be the chat model's."""
    asked = [fold for fold in done.all_folds if fold.requests]
    if model is None or not asked:
        return Summarising()
    about = known(model.name)
    outputs = [fold.usage.output for fold in asked if fold.usage]
    prices = about.prices if about and about.prices else t.priced.prices
    return Summarising(prices, sum(outputs) // len(outputs) if outputs else 1_000)


def blanks(file: str, plan: Plan, error: str) -> list[Cell]:
    """The cells of a file of which there are no figures."""
    return [
        Cell(file=file, preset=name, budget=budget.tokens or 0, passes=passes, asked=budget.text, error=error)
        for budget, passes, name in _rows(plan)
    ]


def row(cell: Cell) -> dict[str, Any]:
    """The documented JSON of a cell."""
    fields = {name: value for name, value in asdict(cell).items() if name not in ("done", "paid", "shape")}
    for share in ("constraints", "artifacts", "identifiers", "future_references"):
        fields[share] = _rounded(fields[share])
    fields |= {form: _rounded(cell.share(form)) for form in FORMS}
    fields["why"] = fields["error"]
    fields["forms"] = msgspec.to_builtins(cell.forms)
    fields["money"] = None if cell.paid is None else _money(cell.paid)
    return fields


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)


def _money(paid: Paid) -> dict[str, Any]:
    return {
        "no_compaction": round(paid.none.dollars, 6),
        "saved": round(paid.saved, 6),
        "loses": paid.saved < 0,
        "thresholds": {
            str(threshold): {
                "cost": round(bill.dollars, 6),
                "summaries": round(bill.summaries, 6),
                "folds": bill.folds,
                "peak": bill.peak,
            }
            for threshold, bill in paid.by_threshold.items()
        },
    }
