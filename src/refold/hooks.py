"""Hooks, on one page: where a program may look into folding and branching, or take a hand in it.

    hooks = Hooks()

    @hooks.on("before_compact")
    def keep_short(event: BeforeCompact) -> Change | None:
        return Change(instructions="at most ten lines") if event.tokens_before < 50_000 else None

    engine = Engine("pi", hooks=hooks)

A hook is a function of one event, plain or async; what it may answer stands with each event. Hooks run in
the order of registration. The first `Cancel` stops; the first `Supply` wins; every `Change` is seen by the
hooks after it. A hook that raises, or answers something that makes no sense, is reported and skipped.
"""

from __future__ import annotations

import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from types import NoneType
from typing import Any, ClassVar, Protocol, Self, TypeAlias, TypeVar, cast, overload

from refold.entries import AnyEntry, AnyPathEntry, BranchSummary, Files, Fold
from refold.errors import UnknownName, expect
from refold.messages import Message, MessageBase, User
from refold.protocols import Model

HOOK_ENTRY_POINTS = "refold.hooks"
"""Entry points: `name = "package.module:register"`, called as `register(hooks)`."""
log = logging.getLogger("refold")


class Log(Protocol):
    """The session, for looking at: a hook must not append to its path."""

    @property
    def id(self) -> str: ...
    @property
    def entries(self) -> Sequence[AnyEntry]: ...
    @property
    def path(self) -> Sequence[AnyPathEntry]: ...
    @property
    def leaf(self) -> str | None: ...
    def __getitem__(self, id: str, /) -> AnyEntry: ...


# ── answers ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Cancel:
    """Do not do it. The log stays as it is."""

    why: str = "cancelled by a hook"

    def __post_init__(self) -> None:
        expect(self.why, str, "why must be a string")


@dataclass(frozen=True, kw_only=True)
class Supply:
    """Here is the result; no model is asked."""

    summary: str
    first_kept: str | None = None
    """Folds only: the entry from which on everything stays. None: where it was planned."""
    files: Files | None = None
    """None: as they were collected."""
    details: dict[str, Any] = field(default_factory=dict[str, Any])
    """Kept with the entry, for the program that supplied it."""

    def __post_init__(self) -> None:
        expect(self.summary, str, "summary must be a string")
        expect(self.first_kept, (str, NoneType), "first_kept must be the id of an entry")
        expect(self.files, (Files, NoneType), "files must be refold.entries.Files")
        expect(self.details, dict, "details must be a dict")


@dataclass(frozen=True, kw_only=True)
class Change:
    """Do it differently; None leaves as it is."""

    first_kept: str | None = None
    """Folds only: another place to cut. Must be shown as it was said, and part no tool call from its
    result."""
    instructions: str | None = None
    """What the summary should pay attention to, beside the design's own prompt."""
    prompt: str | None = None
    """Takes the place of the design's own prompt; the transcript is put in front of it."""
    model: Model | None = None
    """Who writes this summary."""

    def __post_init__(self) -> None:
        for name in ("first_kept", "instructions", "prompt"):
            expect(getattr(self, name), (str, NoneType), f"{name} must be a string")
        expect(self.model, (Model, NoneType), "model must be a model of refold: refold.model(…)")

    @property
    def given(self) -> dict[str, Any]:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


# ── events ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Before:
    """What every event has that a hook may change the course of."""

    name: ClassVar[str]
    session: Log
    messages: tuple[Message, ...]
    """What would be read for a summary."""
    files: Files
    instructions: str | None = None
    prompt: str | None = None
    model: str = ""
    """Name of the model that will be asked, or `digest`."""

    def changed(self, by: Change) -> Self:
        change = {name: value for name, value in by.given.items() if hasattr(self, name)}
        return replace(self, **{**change, "model": self.model if by.model is None else by.model.name})


@dataclass(frozen=True, kw_only=True)
class BeforeCompact(Before):
    """A fold is about to be made. Answers: `Cancel`, `Supply`, `Change`. After it comes either
    `after_compact` or `compact_failed` (or neither, where a fold prepared ahead was never needed)."""

    name: ClassVar[str] = "before_compact"
    preset: str
    strategy: str
    """Which way of folding is planned (summary, mask, digest …)."""
    reason: str
    """Why it is due, as `code: sentence`."""
    fold: tuple[str, ...]
    """Entries to be summarised."""
    turn_prefix: tuple[str, ...]
    """Entries at the beginning of a turn that is cut through, summarised apart."""
    first_kept: str | None
    previous: str | None
    """The summary that the new one will replace."""
    tokens_before: int
    window: int


@dataclass(frozen=True, kw_only=True)
class AfterCompact:
    """A fold was appended. The answer is ignored."""

    name: ClassVar[str] = "after_compact"
    session: Log
    fold: Fold
    supplied: bool = False
    """By a hook."""


@dataclass(frozen=True, kw_only=True)
class CompactFailed:
    """No fold came about; the path is as it was. The answer is ignored."""

    name: ClassVar[str] = "compact_failed"
    session: Log
    code: str
    """`cancelled`, `aborted`, `stale`, `timeout`, `inflated`, `empty` …"""
    text: str
    strategy: str = ""
    preset: str = ""


@dataclass(frozen=True, kw_only=True)
class BeforeBranch(Before):
    """The leaf is about to be moved. Answers: `Cancel`; where a summary was asked for, `Supply` and
    `Change` (of instructions, prompt, model)."""

    name: ClassVar[str] = "before_branch"
    origin: str | None
    """The leaf that is left."""
    target: str | None
    """What was navigated to."""
    leaf: str | None
    """Where the leaf will be: the target, or its parent where that is a user message."""
    common_ancestor: str | None
    entries: tuple[str, ...]
    """What is left behind, oldest first."""
    summarize: bool


@dataclass(frozen=True, kw_only=True)
class AfterBranch:
    """The leaf was moved. The answer is ignored."""

    name: ClassVar[str] = "after_branch"
    session: Log
    origin: str | None
    leaf: str | None
    summary: BranchSummary | None = None
    message: User | None = None
    """The user's words handed back for editing."""
    supplied: bool = False


@dataclass(frozen=True, kw_only=True)
class Context:
    """A model is about to be called. The answer, a list of messages, takes the place of `messages` for this
    call only; the log is not touched. The wire's rules are applied afterwards."""

    name: ClassVar[str] = "context"
    session: Log
    messages: tuple[Message, ...]
    system: str | None = None
    tools: tuple[Any, ...] = ()


EVENTS: dict[str, type[Any]] = {
    kind.name: kind
    for kind in (BeforeCompact, AfterCompact, CompactFailed, BeforeBranch, AfterBranch, Context)
}
NAMES = tuple(EVENTS)
PI_NAMES = {
    "session_before_compact": "before_compact",
    "session_compact": "after_compact",
    "session_before_tree": "before_branch",
    "session_before_fork": "before_branch",
}
"""Names that pi has for these events (B18)."""
HookEvent: TypeAlias = BeforeCompact | AfterCompact | CompactFailed | BeforeBranch | AfterBranch | Context
Hook: TypeAlias = Callable[[Any], Any]
H = TypeVar("H", bound=Hook)
T = TypeVar("T")
Wait: TypeAlias = Callable[[Callable[[], Awaitable[Any]], float | None], Awaitable[Any]]
"""Awaits something, for at most so many seconds."""


# ── the registry ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Trouble:
    """A hook that was skipped, and why."""

    event: str
    hook: str
    error: BaseException


@dataclass(frozen=True)
class Decision:
    """What the hooks of a `before_…` event came to."""

    cancel: Cancel | None = None
    supply: Supply | None = None
    change: Change = Change()


class Hooks:
    """Functions by event. False while there is none, so that unused hooks cost nothing."""

    def __init__(self, *, seconds: float | None = 120.0) -> None:
        self.seconds = seconds
        """How long one hook may take before it is skipped; None: as long as it likes."""
        self.wait: Wait = _at_leisure
        """Keeps that limit; an engine brings its own, which has a clock."""
        self._registered: dict[str, list[Hook]] = {name: [] for name in EVENTS}
        self.troubles: deque[Trouble] = deque(maxlen=100)
        """The newest hooks that were skipped."""

    @classmethod
    def installed(cls) -> Hooks:
        """The hooks that installed packages bring along (entry points of the group `refold.hooks`)."""
        from importlib.metadata import entry_points

        hooks = cls()
        for point in sorted(entry_points(group=HOOK_ENTRY_POINTS), key=lambda point: point.name):
            try:
                point.load()(hooks)
            except Exception as error:
                hooks.trouble("register", point.name, error)
        return hooks

    @overload
    def on(self, event: str, hook: H, /) -> H: ...
    @overload
    def on(self, event: str, /) -> Callable[[H], H]: ...
    def on(self, event: str, hook: H | None = None, /) -> H | Callable[[H], H]:
        """Register a function for an event: `hooks.on("context", function)`, or as a decorator."""
        expect(event, str, f"the event must be a string: {', '.join(EVENTS)}")
        event = PI_NAMES.get(event, event)
        if event not in EVENTS:
            raise UnknownName("hook", event, tuple(EVENTS))

        def register(hook: H) -> H:
            self._registered[event].append(hook)
            return hook

        return register if hook is None else register(hook)

    def of(self, event: str) -> Sequence[Hook]:
        expect(event, str, f"the event must be a string: {', '.join(EVENTS)}")
        return tuple(self._registered.get(event, ()))

    def __bool__(self) -> bool:
        return any(self._registered.values())

    def __contains__(self, event: object) -> bool:
        return bool(self._registered.get(cast("str", event)))

    async def decide(
        self, event: BeforeCompact | BeforeBranch, check: Callable[[Supply | Change], None] = lambda _: None
    ) -> Decision:
        """Ask the hooks of a `before_…` event. `check` raises for an answer that cannot be followed."""
        decision = Decision()

        def sound(answer: Any) -> Cancel | Supply | Change | None:
            if isinstance(answer, Cancel):
                return answer
            if decision.supply is not None:
                return None
            if not isinstance(answer, (Supply, Change)):
                raise TypeError(f"must answer None, Cancel, Supply or Change, not {type(answer).__name__}")
            check(answer)
            return answer

        for hook in self.of(event.name):
            match await self._heard(hook, event, sound):
                case Cancel() as cancel:
                    return replace(decision, cancel=cancel)
                case Supply() as supply:
                    decision = replace(decision, supply=supply)
                case Change() as change:
                    event = event.changed(change)
                    decision = replace(decision, change=replace(decision.change, **change.given))
                case None:
                    pass
        return decision

    async def tell(self, event: AfterCompact | CompactFailed | AfterBranch) -> None:
        """Let the hooks know; whatever they answer is ignored."""
        for hook in self.of(event.name):
            await self._heard(hook, event, lambda _: None)

    async def transform(
        self, event: Context, check: Callable[[Message], Message] = lambda message: message
    ) -> tuple[Message, ...]:
        """The messages of a call after every hook has had them. `check` raises for what is no message."""
        for hook in self.of(event.name):
            messages = await self._heard(hook, event, lambda answer: tuple(map(check, _messages(answer))))
            event = event if messages is None else replace(event, messages=messages)
        return event.messages

    async def _heard(self, hook: Hook, event: HookEvent, read: Callable[[Any], T]) -> T | None:
        """What is read of a hook's answer; None: it gave none, or is skipped."""

        async def ask() -> Any:
            answer = hook(event)
            return await answer if inspect.isawaitable(answer) else answer

        try:
            answer = await self.wait(ask, self.seconds)
            return None if answer is None else read(answer)
        except Exception as error:
            self.trouble(event.name, _title(hook), error)
            return None

    def trouble(self, event: str, hook: str, error: Exception) -> None:
        """Report a hook that is skipped."""
        self.troubles.append(Trouble(event, hook, error))
        log.warning("hook %s of %s was skipped: %r", hook, event, error)
        log.debug("hook %s of %s", hook, event, exc_info=error)


async def _at_leisure(work: Callable[[], Awaitable[Any]], _: float | None) -> Any:
    return await work()


def _messages(answer: object) -> tuple[Message, ...]:
    listed = tuple(cast("Iterable[Any]", answer)) if isinstance(answer, (list, tuple)) else (None,)
    if not all(isinstance(message, MessageBase) for message in listed):
        raise TypeError("must answer None or a list of messages (refold.messages)")
    return cast("tuple[Message, ...]", listed)


def _title(hook: Hook) -> str:
    return f"{getattr(hook, '__module__', '?')}.{getattr(hook, '__qualname__', type(hook).__name__)}"
