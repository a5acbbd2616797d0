"""Plans and reasons: what a fold will do, as a value, or why there is none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from inspect import isgenerator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

import msgspec

from refold.compaction import transcript
from refold.compaction.plan_context import Due, PlanContext
from refold.compaction.requests import plain
from refold.compaction.transcript import SummarySource
from refold.entries import AnyAnnotation, Edit, Files, Fold, Redo, Undo
from refold.errors import PluginGuard, StalePlan, WrongType, expect
from refold.messages import user
from refold.protocols import Request, TokenCounter
from refold.session.history import Base, History
from refold.session.replica import Replica
from refold.text.frames import element
from refold.text.glance import card

if TYPE_CHECKING:
    from refold.digest import Source

T = TypeVar("T")


class Reason(msgspec.Struct, frozen=True):
    """Why nothing is folded. Falsy, so `if plan := engine.plan(session)` reads as it should."""

    code: str
    text: str

    def __bool__(self) -> bool:
        return False


class Failed(msgspec.Struct, frozen=True):
    """A fold that did not come about; the path is as it was. Falsy."""

    code: str
    text: str
    strategy: str = ""
    requests: int = 0

    def __bool__(self) -> bool:
        return False


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One question to a summariser. `render` builds the request, so that a part of the sources can be
    asked about as well as the whole (chunks), and so that planning need not render anything."""

    sources: tuple[SummarySource, ...]
    render: Callable[[Sequence[SummarySource], str | None], Request]
    prefix: Callable[[], Request] | None = None
    """The same question as a continuation of the chat, for a provider that has the chat in its cache. Asked
    first where it fits the summariser's window; `render` otherwise."""
    previous: str | None = None
    purpose: str = "summary"
    target_tokens: int = 2_000
    """How long the answer may be: the output limit of the request, and the budget of the embedded digest."""
    by_rule: Callable[[Sequence[Source], int, TokenCounter], str] | None = None
    """What stands for an answer where there is no model: sources, tokens and a counter → text. None: the
    digest as it is."""
    tools: bool = False
    """The summariser may call tools that it is offered, before it answers (A24)."""
    accept: Callable[[str], str] = plain
    """Turns the text of an answer into the summary; raises `BadAnswer`."""

    def in_words(self, text: str) -> Ask:
        """The same question in other words; limits and sampling stay the design's."""

        def render(sources: Sequence[SummarySource], previous: str | None) -> Request:
            blocks = [element("conversation", transcript.render(sources, transcript.Style()))]
            if previous:
                blocks.append(element("previous-summary", transcript.inert(previous)))
            question = user("\n\n".join([*blocks, text]))
            return msgspec.structs.replace(self.render((), None), messages=(question,), tools=(), stable=0)

        return replace(self, render=render, prefix=None)


class PendingRequest(NamedTuple):
    """Work of an application's own that a fold waits for: a rule that asks a sub-agent. What comes of it lies
    where `finish` finds it."""

    run: Callable[[], Awaitable[None]]
    failed: Callable[[BaseException], None]
    """Called instead where it raised, took too long, or there was no time to wait."""


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """What a proposal became once its answers were in."""

    edits: tuple[Edit, ...]
    framed: bool = False
    """What the edits put is framed and defused already (`refold.text.frames`). Otherwise a text in the role
    of the user or the system that stands for others' words becomes a quotation (R17)."""
    first_kept: str | None = None
    """The first message in its own place, where that is not the proposal's."""
    summary: str = ""
    files: Files = Files()
    check: dict[str, Any] = {}
    """As stored; see `refold.compaction.details`."""
    details: dict[str, Any] = {}
    annotations: tuple[AnyAnnotation, ...] = ()
    """What a design writes down beside the path; ids and times are given on the way into the log."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """What one strategy would do."""

    strategy: str
    finish: Callable[[Sequence[str]], Finished]
    """Answers (one per ask) → edits. Pure."""
    asks: tuple[Ask, ...] = ()
    pending: tuple[PendingRequest, ...] = ()
    """Awaited before `finish`, side by side."""
    stretch: tuple[str, str] | None = None
    """First and last entry of what is taken out."""
    fold: tuple[str, ...] = ()
    """Entries that leave their place."""
    turn_prefix: tuple[str, ...] = ()
    masked: tuple[str, ...] = ()
    clipped: tuple[str, ...] = ()
    """Entries that stay in their place in a shorter form."""
    words_left_out: tuple[str, ...] = ()
    """Entries whose typed words are not all in the record (R2, R8)."""
    first_kept: str | None = None
    split: bool = False
    previous_summary: str | None = None
    files: Files = Files()
    """Files the conversation touched."""
    tokens_after: int = 0
    """Upper bound, by the exact counter."""
    measured_before: int | None = None
    """What is stored as the size of the view before, where a design has its own measure of it."""
    smaller: bool = True
    """Refuse a result after which the view is not smaller in tokens."""
    fits: bool = False
    """Refuse a result that leaves more than the window."""
    shorter: bool = True
    """Refuse a summary that is not shorter, by the design's own measure, than what it replaces."""
    min_gain: float = 0.0
    """Share of the view that must be freed, unless it is too large for the window."""
    author: str = "rule"
    """Who wrote it, where no summariser is asked."""
    timeout: float | None = None

    def __post_init__(self) -> None:
        ends: object = ("", "") if self.stretch is None else self.stretch
        if not isinstance(ends, tuple) or [type(id) for id in cast("tuple[object, ...]", ends)] != [str, str]:
            raise WrongType(f"a stretch must be the ids of its first and its last entry (got {ends!r})")


def checked_result(name: str, kind: Any, wanted: str, work: Callable[[], T]) -> T:
    """What a part of a preset gives, which is of that kind; `PluginError` with its name otherwise."""
    with PluginGuard(name) as guard:
        given = work()
        if isinstance(given, kind):
            return given
        plain = "; since 0.2 strategies are plain functions, not generators" if isgenerator(given) else ""
        raise guard.refuse(given, f"{wanted} is wanted{plain}")


def finish(proposal: Proposal, answers: Sequence[str]) -> Finished:
    """What a proposal becomes with these answers."""
    name = f"the strategy {proposal.strategy!r} of the preset"
    return checked_result(name, Finished, "a Finished", lambda: proposal.finish(answers))


@runtime_checkable
class Strategy(Protocol):
    """One way to make the view smaller."""

    @property
    def name(self) -> str: ...

    def propose(self, s: PlanContext, /) -> Proposal | Reason: ...


def propose(strategy: Strategy, s: PlanContext) -> Proposal | Reason:
    """What a strategy proposes."""
    name = f"the strategy {getattr(strategy, 'name', strategy)!r} of the preset"
    kinds = (Proposal, Reason)
    return checked_result(name, kinds, "a Proposal or a Reason", lambda: strategy.propose(s))


@runtime_checkable
class Trigger(Protocol):
    """Says whether a fold is due."""

    def due(self, s: PlanContext, /) -> Due | Reason: ...


def fired(trigger: Trigger, s: PlanContext) -> Due | Reason:
    """What a trigger says."""
    kinds = (Due, Reason)
    return checked_result("a trigger of the preset", kinds, "a Due or a Reason", lambda: trigger.due(s))


@dataclass(frozen=True)
class Stage:
    """A trigger and the strategies to try, in order, when it fires."""

    trigger: Trigger
    strategies: tuple[Strategy, ...]
    maintenance: bool = False
    """Maintenance of a design (turn lines, shrunk results): happens as turns end, whatever the size."""

    def __post_init__(self) -> None:
        expect(self.trigger, Trigger, "a trigger has the method due(context)")
        expect(self.strategies, tuple, "the strategies of a stage are a tuple")
        for strategy in self.strategies:
            expect(strategy, Strategy, "a strategy has a name and the method propose(context)")


@dataclass(frozen=True, kw_only=True)
class Plan(Proposal):
    """Everything a fold will do: a proposal, and what it was made from. Valid while `base` is the session's
    tip, and its generation the same."""

    base: str | None
    generation: int
    leaf: str | None = field(repr=False)
    """Where the path ended that it was made from."""
    length: int = field(repr=False)
    """Entries of the log that it was made from."""
    preset: str
    version: str
    reason: Due
    context: PlanContext = field(repr=False)
    remaining: tuple[Strategy, ...] = field(default=(), repr=False)
    """Strategies to try, in order, if this one fails."""
    strategies: tuple[Strategy, ...] = field(default=(), repr=False)
    """All strategies of the stage: a changed context is planned for anew from the first."""
    window: int
    prompt: str | None = field(default=None, repr=False)
    """A hook's words, with which summaries are asked for instead of the design's."""

    def __repr__(self) -> str:
        size = f"to at most {self.tokens_after:,} tokens"
        return f"<Plan: {self.preset} ({self.strategy}), {size}; {self.reason.text}>"

    def _repr_html_(self) -> str:
        sizes = f"{len(self.fold):,} entries; {self.tokens_before:,} → at most {self.tokens_after:,} tokens"
        return card(repr(self), [("folds", sizes), *self.files.rows])

    @property
    def made_from(self) -> Base:
        return Base(self.base, self.generation)

    def at(self, work: Callable[[], T]) -> T:
        """Do work that reads the history of this plan, which others may have read on meanwhile. `StalePlan`
        where that history has another view by now; messages that came since are not seen."""
        history = self.context.session
        with history.lock:
            if not self.holds(history):
                raise StalePlan
            self._go_back()
            return work()

    def _go_back(self) -> None:
        """To what this plan was made from, where others have read on."""
        if isinstance(history := self.context.session, Replica):
            history.back_to(self.length, self.generation)

    def holds(self, history: History) -> bool:
        """Is all that happened to the path since that messages came?"""
        at = -1 if self.leaf is None else history.position(self.leaf)
        return at is not None and not any(isinstance(x, (Fold, Undo, Redo)) for x in history.path[at + 1 :])

    @property
    def tokens_before(self) -> int:
        with self.context.session.lock:
            self._go_back()
            return self.context.sizes.tokens

    @property
    def alternatives(self) -> tuple[str, ...]:
        return tuple(strategy.name for strategy in self.remaining)

    @property
    def requests(self) -> int:
        """Model requests it will take at least (a head larger than the summariser's window takes more)."""
        return len(self.asks)
