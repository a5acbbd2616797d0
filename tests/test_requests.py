"""M10: what a fold may ask for. Requests are bounded by what there is to read, second tries included, whatever
the summariser does and however small its window is; then comes the deterministic end."""

from __future__ import annotations

import pytest
from benchmarks.requests import BEHAVIOURS, COUNTER, WINDOWS, engines, usable, work

from refold import Engine, presets
from refold import entries as e
from refold.errors import DoesNotFit, Transient
from refold.models.scripted import Scripted, fail
from tests.virtual import run_virtually


def check(name: str, window: int, behaviour: str, tokens: int) -> e.Fold | None:
    session = work(tokens)
    tokens = Engine().view(session).tokens
    engine = engines(window, tokens)[name](BEHAVIOURS[behaviour])
    model = engine.model
    assert isinstance(model, Scripted)

    async def prepare() -> None:
        try:
            await engine.prepare(session)
        except DoesNotFit:
            assert name != "refold"

    _, seconds = run_virtually(prepare())
    assert len(model.requests) <= 2 + 2 * tokens / usable(window)
    for request in model.requests:
        size = sum(COUNTER.message(message) for message in request.messages)
        assert size + min(request.max_tokens or 0, window // 4) <= window, "it does not fit the summariser"
    assert seconds <= 121
    if name == "rounds":  # lines are annotations; they say nothing of requests
        return None
    assert sum(x.requests for x in (*session.annotations(e.Fold), *session.annotations(e.Failure))) == len(
        model.requests
    )
    folds = session.annotations(e.Fold)
    if name == "refold":
        assert folds and engine.view(session).tokens <= engine.preset.budget
    return folds[-1] if folds else None


@pytest.mark.sample(3)
@pytest.mark.parametrize("behaviour", BEHAVIOURS)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("name", ["refold", "pi"])
def test_M10_requests_are_bounded(name: str, window: int, behaviour: str) -> None:
    check(name, window, behaviour, 20_000)


@pytest.mark.parametrize("window", [4_000, *WINDOWS[2:]])
def test_M10_a_good_summariser_is_listened_to_whatever_its_window(window: int) -> None:
    fold = check("refold", window, "good", 20_000)
    assert fold is not None
    assert fold.strategy == "summary"


@pytest.mark.parametrize("behaviour", ["copies", "doubles"])
def test_M10_a_copy_is_no_summary_and_the_end_is_deterministic(behaviour: str) -> None:
    fold = check("refold", 8_000, behaviour, 20_000)
    assert fold is not None
    assert fold.strategy == "lines"


def test_M10_a_second_try_counts() -> None:
    session = work(20_000)
    model = Scripted(
        fail(Transient("503")), "## Goal\nThe user wants the login fixed.", context_window=200_000
    )
    engine = Engine(presets.get("refold", window=10_000), model=model)
    run_virtually(engine.prepare(session))
    [fold] = session.annotations(e.Fold)
    assert (fold.strategy, fold.requests) == ("summary", 2)


@pytest.mark.torture
@pytest.mark.parametrize("tokens", [100_000, 1_000_000])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("name", presets.NAMES)
def test_M10_the_whole_table(name: str, window: int, tokens: int) -> None:
    for behaviour in BEHAVIOURS:
        check(name, window, behaviour, tokens)
