"""Nonsense at every door: each parameter of every public function and method, one after the other. What cannot be
meant is an error of ours with a sentence, or does no harm. A public name without a row fails."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import refold
from refold import Engine, Hooks, Session, View, presets, stores
from refold import entries as e
from refold import messages as m
from refold.engine.call import CallKeywords
from refold.errors import RefoldError
from refold.loop import run
from refold.models.scripted import Scripted
from refold.session.forget import forget
from refold.stores.memory import MemoryStore
from refold.tokens import get as counter


class Broken:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


NONSENSE: list[Any] = [
    None, True, -1, 1.5, float("nan"), 10**400, "x", "\ud800", "\0", b"bytes", bytearray(b"z"), [], [None], ["x"], {}, {"role": 5},
    {"role": "user", "content": 5}, (), {1}, object(), Broken(), len, int, Session, ..., iter(()),
]  # fmt: skip


def spoken() -> Session:
    session = Session()
    session.append("Hello.")
    session.append(m.assistant("Hi."))
    return session


NOT_OURS = {
    "Session.make": "makes what it is told to; the door is where that is appended",
    **dict.fromkeys(
        ("Session.position", "Session.children", "Session.annotations"),
        "look-ups that are asked for every entry: what can be no key is Python's TypeError",
    ),
    **dict.fromkeys(
        ("Session.cached_count", "Session.forget_counts", "Session.share_counts"),
        "the engine's cache of counts",
    ),
    "Session.of": "what stores and importers read",
    "refold.View": "made by engines",
    "Hooks.decide": "the engine's side of hooks",
    "Hooks.tell": "the engine's side of hooks",
    "Hooks.transform": "the engine's side of hooks",
    "Hooks.trouble": "the engine's side of hooks",
    "Hooks.installed": "takes nothing",
    "refold.run": "runs what it is given: what that raises is the caller's",
    "presets.about": "an annotation of a class of settings",
    "stores.default_database": "takes nothing",
}
"""Names that take nothing of a caller's, and why."""


def folded() -> tuple[Engine, Session]:
    engine, session = Engine(presets.get("refold", window=8_000)), Session()
    for number in range(12):
        session.append(f"Question {number}. " + "word " * 200)
        session.append(m.assistant(f"Answer {number}. " + "word " * 200))
    return engine, session


@cache
def plan_of_another() -> Any:
    return Engine().plan(folded()[1], force=True)


def given() -> dict[str, Any]:
    """Something of use for each parameter that has to be given."""
    session = spoken()
    return {
        "session": session, "plan": plan_of_another(), "to": None, "error": "boom", "raw": m.assistant("Hi."), "id": session.path[0].id,
        "name": "refold", "run_tool": str, "said": "Hello.", "key": session.path[0].id, "message": m.user("Hi."),
        "counter": counter(), "a": None, "b": None, "entries": [session.make(e.Note, content=m.content("x"))],
        "keys": [session.path[0].id], "text": "here", "messages": [], "loaded": stores_loaded(), "other": spoken(),
        "dialect": "openai", "event": "context", "path": "nothing.jsonl", "client": object(), "settings": {},
        "design": "refold", "kind": e.Note, "spec": "memory:", "names": [session.path[0].id],
    }  # fmt: skip


def stores_loaded() -> Any:
    store = MemoryStore()
    store.create(refold_info())
    return store.load("x")


def refold_info() -> Any:
    from refold.protocols import SessionInfo

    return SessionInfo(id="x")


OWNERS: dict[str, Callable[[], Any]] = {
    "Engine": lambda: Engine(presets.get("refold", window=8_000), model=Scripted(then="Fine.")),
    "Session": spoken,
    "View": lambda: Engine().view(spoken()),
    "Hooks": Hooks,
    "refold": lambda: refold,
    "presets": lambda: presets,
    "stores": lambda: stores,
}


def methods(name: str, kind: type) -> Iterator[str]:
    for attribute in dir(kind):
        static = inspect.getattr_static(kind, attribute)
        if attribute.startswith("_") or isinstance(static, (property, type)):
            continue
        if callable(getattr(kind, attribute)):
            yield f"{name}.{attribute}"


def surface() -> Iterator[str]:
    for kind in (Engine, Session, View, Hooks):
        yield from methods(kind.__name__, kind)
        yield f"refold.{kind.__name__}"
    for name, module in (("refold", refold), ("presets", presets), ("stores", stores)):
        for each in module.__all__:
            value = getattr(module, each)
            if callable(value) and not isinstance(value, type):
                yield f"{name}.{each}"


def doors() -> Iterator[tuple[str, str]]:
    for name in [*surface(), "forget"]:
        if name not in NOT_OURS:
            parameters = inspect.signature(of(name)).parameters.values()
            yield from ((name, p.name) for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL))
            if any(str(p.annotation) == "Unpack[CallKeywords]" for p in parameters):
                yield from ((name, keyword) for keyword in CallKeywords.__annotations__)


def of(name: str) -> Callable[..., Any]:
    if name == "forget":
        return forget
    owner, _, attribute = name.partition(".")
    return getattr(OWNERS[owner](), attribute)


def call(name: str, parameter: str, value: Any) -> Any:
    function, samples = of(name), given()
    positional, named = list[Any](), dict[str, Any]()
    for p in inspect.signature(function).parameters.values():
        if p.name == parameter:
            chosen = value
        elif p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL):
            chosen = samples[p.name]
        else:
            continue
        if p.kind is p.POSITIONAL_ONLY:
            positional.append(chosen)
        else:
            named[p.name] = chosen
    if parameter in CallKeywords.__annotations__:
        named[parameter] = value
    answer = function(*positional, **named)
    if inspect.iscoroutine(answer):
        answer = run(answer)
    return list(answer) if inspect.isgenerator(answer) else answer


@pytest.mark.filterwarnings("ignore:Engine:DeprecationWarning")
@pytest.mark.sample(30)
@pytest.mark.parametrize(("name", "parameter"), list(doors()))
def test_nonsense_at_every_door_is_an_error_of_ours_or_does_no_harm(
    name: str, parameter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for nonsense in NONSENSE:
        try:
            call(name, parameter, nonsense)
        except RefoldError as error:
            assert str(error)


def test_names_without_a_door_exist() -> None:
    assert set(NOT_OURS) <= set(surface())
