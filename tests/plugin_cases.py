"""What an application may bring along (hooks, summarisers, models, counters, presets, rules), each in every way in
which it can be wrong. `CASES` is all of it; `broken` says what became of one."""

from __future__ import annotations

import asyncio
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import msgspec

from refold import Engine, Hooks, Session, presets
from refold import entries as e
from refold import format as fmt
from refold import messages as m
from refold.compaction.plan import Ask, Finished, Plan, Proposal, SummarySource
from refold.compaction.preset import Preset
from refold.engine.summarise import Answer, ByModel
from refold.errors import RefoldError
from refold.hooks import EVENTS, Cancel, Change, Supply
from refold.models.retry import Retry
from refold.models.scripted import Scripted
from refold.protocols import PartDone, Request, Stopped, TextDelta, ThinkingDelta, UsageSeen
from refold.tokens import get as counter
from tests.test_waits import work
from tests.virtual import run_virtually

NONSENSE: dict[str, Any] = {
    "None": None, "5": 5, "NaN": float("nan"), "bytes": b"x", "object": object(), "dict": {}, "list": [None],
    "huge": 10**400, "half a character": "\ud800", "-1": -1, "a class": Session,
}  # fmt: skip


class Mute(Exception):
    """Cannot even say what went wrong."""

    def __str__(self) -> str:
        raise ValueError("no words")


ERRORS: dict[str, Callable[[], BaseException]] = {
    "ValueError": lambda: ValueError("bad"),
    "AssertionError": lambda: AssertionError("mine"),
    "StopIteration": StopIteration,
    "StopAsyncIteration": StopAsyncIteration,
    "TimeoutError": TimeoutError,
    "RecursionError": RecursionError,
    "OSError": lambda: OSError(5, "io"),
    "half a character": lambda: ValueError("\ud800"),
    "mute": Mute,
}
CANCELLED: dict[str, Callable[[], BaseException]] = {"CancelledError": asyncio.CancelledError}
GOAL = "## Goal\nFine."


def raising(error: Callable[[], BaseException]) -> Callable[..., Any]:
    def function(*_: Any) -> Any:
        raise error()

    return function


def gives(value: Any) -> Callable[..., Any]:
    return lambda *_: value


async def for_ever(*_: Any) -> None:
    await asyncio.Event().wait()


async def deaf(*_: Any) -> None:
    """Does not care for being cancelled."""
    for _second in range(2):
        try:
            await asyncio.sleep(1e5)
        except asyncio.CancelledError:
            continue


def good() -> Scripted:
    return Scripted(then=GOAL, context_window=100_000)


def settings() -> presets.Refold:
    return presets.Refold(window=6_000, soft=0.3, target=0.2)


def variant(kind: type, **over: Any) -> Any:
    return type("Mine", (kind,), over)()


def made(kind: Callable[..., Any], fields: dict[str, Any]) -> Any:
    return kind(**fields)


Case = tuple[str, Callable[[], Engine]]

# ── hooks ───────────────────────────────────────────────────────────────────────────────────────


def hook_answers() -> Iterator[tuple[str, Callable[[Any], Any]]]:
    for name, value in NONSENSE.items():
        yield f"answers {name}", gives(value)
        for kind in (Supply, Change):
            for field in fields(kind):
                base = {"summary": "Fine."} if kind is Supply else {}
                given = {**base, field.name: value}
                yield f"{kind.__name__}({field.name}={name})", lambda _, k=kind, g=given: made(k, g)
        yield f"Supply(details of {name})", lambda _, x=value: Supply(summary="Fine.", details={"x": x})
        yield f"Cancel({name})", lambda _, x=value: Cancel(x)
        yield f"User({name})", lambda _, x=value: [m.User(x)]
        yield f"User(Text({name}))", lambda _, x=value: [m.User((m.Text(x),))]
        yield f"Call({name})", lambda _, x=value: [m.Assistant((m.Call(x, x, x),))]
    for name, error in {**ERRORS, **CANCELLED}.items():
        yield f"raises {name}", raising(error)
    yield "never ends", for_ever
    yield "is deaf", deaf
    yield "supplies megabytes", lambda _: Supply(summary="word " * 500_000)


def with_hooks(answer: Callable[[Any], Any], model: Callable[[], Any] = good) -> Engine:
    hooks = Hooks()
    for event in EVENTS:
        hooks.on(event, answer)
    writer = model()
    by = ByModel(writer, counter(), retries=Retry(total=1e9))
    return Engine(settings(), model=good(), summariser=by, hooks=hooks)


def hook_cases() -> Iterator[Case]:
    for name, answer in hook_answers():
        yield name, lambda a=answer: with_hooks(a)


# ── summarisers ─────────────────────────────────────────────────────────────────────────────────


class Writes:
    name: Any = "mine"
    uses_model: Any = True

    async def answer(self, ask: Ask, /) -> Any:
        return Answer(GOAL)


def saying(value: Any) -> Callable[..., Awaitable[Any]]:
    async def answer(*_: Any) -> Any:
        return value

    return answer


def summarisers() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, value in NONSENSE.items():
        yield f"name={name}", {"name": value}
        yield f"uses_model={name}", {"uses_model": value}
        yield f"answer={name}", {"answer": value}
        yield f"answers {name}", {"answer": saying(value)}
        for field in Answer.__struct_fields__:
            yield f"Answer({field}={name})", {"answer": saying(made(Answer, {"text": GOAL, field: value}))}
        yield f"Usage({name})", {"answer": saying(Answer(GOAL, 1, m.Usage(input=value)))}
    for name, error in ERRORS.items():
        yield f"name raises {name}", {"name": property(raising(error))}
        yield f"uses_model raises {name}", {"uses_model": property(raising(error))}
        yield f"raises {name}", {"answer": raising(error)}
    for name, error in {**ERRORS, **CANCELLED}.items():

        async def answer(*_: Any, error: Callable[[], BaseException] = error) -> None:
            raise error()

        yield f"raises {name} when awaited", {"answer": answer}
    yield "never ends", {"answer": for_ever}
    yield "is deaf", {"answer": deaf}
    yield "writes megabytes", {"answer": saying(Answer("word " * 500_000))}
    yield "does not wait", {"answer": gives(Answer(GOAL))}


def summariser_cases() -> Iterator[Case]:
    for name, over in summarisers():
        yield name, lambda o=over: Engine(settings(), model=good(), summariser=variant(Writes, **o))


# ── models ──────────────────────────────────────────────────────────────────────────────────────


class Talks:
    name: Any = "mine:model"
    context_window: Any = 100_000

    async def stream(self, request: Request) -> AsyncIterator[Any]:
        yield TextDelta(GOAL)
        yield Stopped("end")


def streaming(*events: Any, ends: bool = True) -> Callable[..., AsyncIterator[Any]]:
    async def stream(*_: Any) -> AsyncIterator[Any]:
        for event in events:
            yield event
        if ends:
            yield Stopped("end")

    return stream


def endless(event: Any, wait: float | None, first: tuple[Any, ...] = ()) -> Callable[..., AsyncIterator[Any]]:
    async def stream(*_: Any) -> AsyncIterator[Any]:
        for one in first:
            yield one
        while True:
            if wait is not None:
                await asyncio.sleep(wait)
            yield event

    return stream


async def unclosable(*_: Any) -> AsyncIterator[Any]:
    try:
        while True:
            await asyncio.sleep(1)
            yield TextDelta("x ")
    finally:
        await asyncio.sleep(1e5)


STREAMS: dict[str, Callable[..., AsyncIterator[Any]]] = {
    "endless, without a pause": endless(TextDelta("x "), None),
    "endless": endless(TextDelta("x "), 0.0),
    "endless nothing": endless(ThinkingDelta(""), None),
    "endless usage": endless(UsageSeen(m.Usage()), None),
    "endless after its end": endless(TextDelta("x"), None, (TextDelta(GOAL), Stopped("end"))),
    "large pieces": endless(TextDelta("x" * 10_000_000), 0.0),
    "drips": endless(TextDelta("x "), 1.0),
    "drips and does not close": unclosable,
    "cut off": streaming(TextDelta(GOAL), ends=False),
}


def models() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, value in NONSENSE.items():
        yield f"name={name}", {"name": value}
        yield f"context_window={name}", {"context_window": value}
        yield f"stream={name}", {"stream": value}
        yield f"stream gives {name}", {"stream": gives(value)}
        yield f"event {name}", {"stream": streaming(value)}
        for event in (TextDelta, ThinkingDelta, PartDone, UsageSeen, Stopped):
            yield f"{event.__name__}({name})", {"stream": streaming(TextDelta(GOAL), event(value))}
        yield f"Usage({name})", {"stream": streaming(TextDelta(GOAL), UsageSeen(m.Usage(input=value)))}
        yield f"Text({name})", {"stream": streaming(PartDone(m.Text(value)))}
        yield f"Call({name})", {"stream": streaming(PartDone(m.Call(value, value, value)))}
    for name, error in ERRORS.items():
        yield f"name raises {name}", {"name": property(raising(error))}
        yield f"context_window raises {name}", {"context_window": property(raising(error))}
        yield f"raises {name}", {"stream": raising(error)}
    for name, error in {**ERRORS, **CANCELLED}.items():

        async def stream(*_: Any, error: Callable[[], BaseException] = error) -> AsyncIterator[Any]:
            yield TextDelta("## Go")
            raise error()

        yield f"breaks off with {name}", {"stream": stream}
    for name, stream in STREAMS.items():
        yield name, {"stream": stream}


def of_model(**over: Any) -> Engine:
    model = variant(Talks, **over)
    return Engine(settings(), model=model, summariser=ByModel(model, counter(), retries=Retry(total=1e9)))


def model_cases() -> Iterator[Case]:
    for name, over in models():
        yield name, lambda o=over: of_model(**o)


# ── counters ────────────────────────────────────────────────────────────────────────────────────


class Counts:
    name: Any = "mine"

    def text(self, text: str) -> Any:
        return counter().text(text)

    def message(self, message: m.Message) -> Any:
        return counter().message(message)

    def tools(self, tools: Any) -> Any:
        return counter().tools(tools)


def counters() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, value in NONSENSE.items():
        yield f"name={name}", {"name": value}
        for method in ("text", "message", "tools"):
            yield f"{method}={name}", {method: value}
            yield f"{method} says {name}", {method: gives(value)}
    for name, error in ERRORS.items():
        yield f"name raises {name}", {"name": property(raising(error))}
        for method in ("text", "message", "tools"):
            yield f"{method} raises {name}", {method: raising(error)}
    for number in (0, 1, 2**50, True):
        yield f"always {number}", {x: gives(number) for x in ("text", "message", "tools")}


def counter_cases() -> Iterator[Case]:
    for name, over in counters():
        yield name, lambda o=over: Engine(settings(), model=good(), counter=variant(Counts, **o))


# ── presets ─────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Fires:
    due: Callable[[Any], Any]


@dataclass
class Folds:
    propose: Callable[[Any], Any]
    name: str = "mine"


def ids(s: Any) -> tuple[str, str]:
    return s.session.path[0].id, s.session.path[19].id


def edit(s: Any, **over: Any) -> e.Edit:
    first, last = ids(s)
    return made(e.Edit, {"first": first, "last": last, "put": (m.user("short"),), **over})


def finished(s: Any, **over: Any) -> Finished:
    return made(Finished, {"edits": (edit(s),), **over})


def proposal(s: Any, **over: Any) -> Proposal:
    return made(Proposal, {"strategy": "mine", "finish": gives(finished(s)), **over})


def ask(s: Any, **over: Any) -> Ask:
    source = SummarySource(ids(s)[0], m.user("word " * 100))
    request = Request(messages=(m.user("Summarise."),))
    return made(Ask, {"sources": (source,), "render": gives(request), **over})


def strategies() -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """What a strategy proposes, wrong in one place."""
    for name, value in NONSENSE.items():
        yield f"proposes {name}", gives(value)
        yield f"finish gives {name}", lambda s, x=value: proposal(s, finish=gives(x))
        for field in fields(Proposal):
            yield f"Proposal({field.name}={name})", lambda s, f=field.name, x=value: proposal(s, **{f: x})
        for field in Finished.__struct_fields__:
            yield (
                f"Finished({field}={name})",
                lambda s, f=field, x=value: proposal(s, finish=gives(finished(s, **{f: x}))),
            )
        for field in e.Edit.__struct_fields__:
            yield (
                f"Edit({field}={name})",
                lambda s, f=field, x=value: proposal(
                    s, finish=gives(finished(s, edits=(edit(s, **{f: x}),)))
                ),
            )
        for field in fields(Ask):
            yield (
                f"Ask({field.name}={name})",
                lambda s, f=field.name, x=value: proposal(s, asks=(ask(s, **{f: x}),)),
            )
    for name, error in ERRORS.items():
        yield f"proposing raises {name}", raising(error)
        yield f"finish raises {name}", lambda s, x=error: proposal(s, finish=raising(x))
        yield f"render raises {name}", lambda s, x=error: proposal(s, asks=(ask(s, render=raising(x)),))
        yield f"accept raises {name}", lambda s, x=error: proposal(s, asks=(ask(s, accept=raising(x)),))


def staged(preset: Preset, **over: Any) -> Preset:
    return replace(preset, stages=tuple(replace(stage, **over) for stage in preset.stages))


METHODS = ("objection", "cache_delay", "soft_trigger", "annotator")
"""What a design may do besides folding."""


def doing(preset: Preset, method: str, does: Callable[..., Any]) -> Preset:
    """The preset of a design that has a method of its own."""
    kind = type(preset.settings)
    own = types.new_class(
        "Own", (kind,), {"frozen": True, "kw_only": True}, lambda space: space.update({method: does})
    )
    return replace(preset, settings=own(**msgspec.structs.asdict(preset.settings)))


def changed() -> Iterator[tuple[str, Callable[[Preset], Preset]]]:
    """A preset, wrong in one place."""
    for name, value in NONSENSE.items():
        for field in fields(Preset):
            yield f"{field.name}={name}", lambda p, f=field.name, x=value: replace(p, **{f: x})
        yield f"accepts gives {name}", lambda p, x=value: replace(p, accepts=gives(x))
        for method in METHODS:
            yield f"{method} gives {name}", lambda p, f=method, x=value: doing(p, f, gives(x))
        yield f"trigger={name}", lambda p, x=value: staged(p, trigger=x)
        yield f"strategies={name}", lambda p, x=value: staged(p, strategies=x)
        yield f"trigger says {name}", lambda p, x=value: staged(p, trigger=Fires(gives(x)))
        yield f"soft says {name}", lambda p, x=value: doing(p, "soft_trigger", gives(Fires(gives(x))))
        yield f"notes are {name}", lambda p, x=value: doing(p, "annotator", gives(Folds(gives(x))))
    for name, error in ERRORS.items():
        yield f"accepts raises {name}", lambda p, x=error: replace(p, accepts=raising(x))
        for method in METHODS:
            yield f"{method} raises {name}", lambda p, f=method, x=error: doing(p, f, raising(x))
        yield f"trigger raises {name}", lambda p, x=error: staged(p, trigger=Fires(raising(x)))
        yield f"soft raises {name}", lambda p, x=error: doing(p, "soft_trigger", gives(Fires(raising(x))))
        yield f"notes raise {name}", lambda p, x=error: doing(p, "annotator", gives(Folds(raising(x))))
    for name, made in strategies():
        yield name, lambda p, r=made: staged(p, strategies=(Folds(r),))


def preset_cases() -> Iterator[Case]:
    for name, change in changed():
        yield name, lambda c=change: Engine(c(settings().build()), model=good())
    for name, error in ERRORS.items():
        for method in ("for_model", "build"):
            own = msgspec.defstruct(
                "Own", [], bases=(presets.Refold,), frozen=True, namespace={method: raising(error)}
            )
            yield f"{method} raises {name}", lambda k=own: Engine(made(k, {"window": 6_000}), model=good())


# ── rules of an application ─────────────────────────────────────────────────────────────────────


def rule_cases() -> Iterator[Case]:
    def layered(rule: Any) -> Callable[[], Engine]:
        return lambda: Engine(
            presets.Layered(window=9_000, keep_rounds=2, rules={"read": rule}), model=good()
        )

    def rounds(workspace: Any) -> Callable[[], Engine]:
        return lambda: Engine(presets.Rounds(workspace=workspace), model=good())

    for name, value in NONSENSE.items():
        yield f"rule={name}", layered(value)
        yield f"rule gives {name}", layered(gives(value))
        yield f"workspace={name}", rounds(value)
        yield f"workspace gives {name}", rounds(gives(value))
    for name, error in ERRORS.items():
        yield f"rule raises {name}", layered(raising(error))
        yield f"workspace raises {name}", rounds(raising(error))
    yield "rule never ends", layered(for_ever)
    yield "rule gives megabytes", layered(gives("x" * 10**7))
    yield "workspace gives megabytes", rounds(gives("x" * 10**7))


# ── together ────────────────────────────────────────────────────────────────────────────────────


def pair_cases() -> Iterator[Case]:
    """A hook that is wrong beside a summary that never ends."""
    streams = {
        name: STREAMS[name] for name in ("endless", "endless nothing", "drips", "drips and does not close")
    }
    hooks = {
        **{name: raising(x) for name, x in {**ERRORS, **CANCELLED}.items()},
        "never ends": for_ever,
        "deaf": deaf,
    }
    for said, stream in streams.items():
        for name, answer in hooks.items():
            yield (
                f"{said}, hook {name}",
                lambda a=answer, s=stream: with_hooks(a, lambda: variant(Talks, stream=s)),
            )


CASES: dict[str, dict[str, Callable[[], Engine]]] = {
    "hooks": dict(hook_cases()),
    "summarisers": dict(summariser_cases()),
    "models": dict(model_cases()),
    "counters": dict(counter_cases()),
    "presets": dict(preset_cases()),
    "rules": dict(rule_cases()),
    "pairs": dict(pair_cases()),
}

# ── what is done with them ──────────────────────────────────────────────────────────────────────


async def prepare(engine: Engine, session: Session) -> None:
    await engine.prepare(session, system="Be brief.")


async def apply(engine: Engine, session: Session) -> None:
    plan = engine.plan(session, force=True)
    if isinstance(plan, Plan):
        await engine.apply(session, plan)


async def call(engine: Engine, session: Session) -> None:
    await engine.call(session, timeout=60)


async def turn(engine: Engine, session: Session) -> None:
    await engine.turn(session, lambda _: "done", most=2, timeout=60)


async def branch(engine: Engine, session: Session) -> None:
    await engine.branch(session, session.path[3].id, summarize=True)


async def ahead(engine: Engine, session: Session) -> None:
    async with engine.watch(session) as watch:
        await engine.prepare(session)
        for _ in range(2):
            await asyncio.wait([watch.tasks["fold"]]) if "fold" in watch.tasks else None
            engine.observe(session, m.assistant("ok"))
        await engine.prepare(session)


JOBS = {"prepare": prepare, "apply": apply, "call": call, "turn": turn, "branch": branch, "ahead": ahead}
SECONDS = 1_500.0
"""Six hooks and some summaries that run into their limits, one after the other."""


def check(make: Callable[[], Engine], job: str) -> None:
    """The job ends in time, with what it is for or with an error of ours; the log holds what it held and can be
    read; and a conversation goes on from it."""
    session = work(8, 60)
    before = list(session.path)
    try:
        _, seconds = run_virtually(JOBS[job](make(), session))
        assert seconds <= SECONDS
    except RefoldError as error:
        assert str(error)
    assert [x for x in session.entries if isinstance(x, e.MessageEntry)][: len(before)] == before
    for entry in session.entries:
        line = fmt.encode(entry)
        assert fmt.encode(fmt.decode(line)) == line
    again = Session(session.entries)
    again.append("What is left?")
    view, _ = run_virtually(Engine(presets.Refold(window=6_000)).prepare(again))
    assert view.tokens <= 6_000
