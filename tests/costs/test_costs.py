"""Windows, prices, caches, and when a fold pays (M6, R15)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.costs import Prices, SummaryCost, break_even, cold_share, known, known_models, window_of
from refold.costs.models import bare_model_name
from refold.errors import SettingError
from refold.messages import Usage

OPUS = Prices(input=5.0, output=25.0, min_cache=1000)


# ── the table ───────────────────────────────────────────────────────────────────────────────────


def test_every_model_has_window_prices_date_and_source() -> None:
    rows = known_models()
    assert len(rows) > 40
    for row in rows:
        assert row.window, row.name
        assert row.window >= 100_000, row.name
        assert row.prices, row.name
        assert 0 < row.prices.reading <= row.prices.input < row.prices.output, row.name
        assert row.prices.writing("1h") >= row.prices.writing("5m") >= row.prices.input, row.name
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", row.date)
        assert row.source.startswith("https://")


def test_names_with_and_without_provider_and_date() -> None:
    for name in (
        "claude-opus-4-5",
        "anthropic:claude-opus-4-5",
        "anthropic:claude-opus-4-5-20251101",
        "openai:anthropic/claude-opus-4.5",
    ):
        row = known(name)
        assert row is not None, name
        assert row.name == "claude-opus-4-5"
    assert known("openai:gpt-5.5-2026-04-23") == known("gpt-5.5")
    assert bare_model_name("local:smollm2") == "smollm2"


@pytest.mark.parametrize(
    "model", ["openai:my-own-model", "gpt-5x", "claude-opus-4-5-turbo", "local:x.gguf", ""]
)
def test_unknown_models_are_asked_for_never_guessed(model: str) -> None:
    assert known(model) is None
    with pytest.raises(SettingError, match=r"--window N"):
        window_of(model)


def test_the_configuration_overrides_and_adds() -> None:
    mine = {"my-own": {"window": 32_000, "input": 1.0, "output": 2.0}, "gpt-5": {"window": 100_000}}
    assert window_of("openai:my-own", mine) == 32_000
    row = known("openai:my-own", mine)
    assert row is not None
    assert row.prices == Prices(input=1.0, output=2.0)
    assert window_of("gpt-5", mine) == 100_000
    changed, before = known("gpt-5", mine), known("gpt-5")
    assert changed is not None
    assert before is not None
    assert changed.prices == before.prices
    assert changed.source == "configuration"
    with pytest.raises(SettingError, match="my-own"):
        known("my-own", {"my-own": {"window": "large"}})


# ── prices ──────────────────────────────────────────────────────────────────────────────────────


def test_M6_cache_prices_default_to_125_200_and_10_percent() -> None:
    million = 1_000_000
    assert OPUS.cost(Usage(input=million)) == pytest.approx(5.0)
    assert OPUS.cost(Usage(cache_write=million)) == pytest.approx(6.25)
    assert OPUS.cost(Usage(cache_write=million), "1h") == pytest.approx(10.0)
    assert OPUS.cost(Usage(cache_read=million)) == pytest.approx(0.5)
    assert OPUS.cost(Usage(output=million)) == pytest.approx(25.0)


def test_long_prompts_cost_more_as_a_whole() -> None:
    row = known("gpt-5.4")
    assert row is not None
    assert row.prices is not None
    at, above = row.prices.cost(Usage(272_000, 1000)), row.prices.cost(Usage(272_001, 1000))
    assert at == pytest.approx(0.272 * 2.5 + 0.015)
    assert above == pytest.approx(0.272001 * 5.0 + 0.0225)


# ── the cache ───────────────────────────────────────────────────────────────────────────────────


def test_M6_a_prompt_is_read_as_far_as_it_is_cached_and_written_from_there() -> None:
    assert OPUS.prompt(0, 1_200) == Usage(cache_write=1_200)
    assert OPUS.prompt(1_200, 300) == Usage(cache_read=1_200, cache_write=300)
    assert OPUS.prompt(900, 300) == Usage(cache_write=1_200), "900 are too few to be kept"


def test_M6_small_prompts_are_not_cached() -> None:
    assert OPUS.prompt(0, 999) == Usage(input=999)
    assert OPUS.prompt(0, 1_000) == Usage(cache_write=1_000)


# ── break-even ──────────────────────────────────────────────────────────────────────────────────


def test_R15_free_fold_of_a_warm_prompt() -> None:
    """100k → 20k with 5k shared: the next request writes 15k instead of reading 100k."""
    pays = break_even(100_000, 20_000, OPUS, shared=5_000)
    write, read = 6.25 / 1e6, 0.5 / 1e6
    assert pays.now == pytest.approx(15_000 * write + 5_000 * read - 100_000 * read)
    assert pays.per_turn == pytest.approx(80_000 * read)
    assert pays.turns == 2  # 0.04625 / 0.04


def test_R15_cached_prefix_is_cheaper_than_stand_alone() -> None:
    """Reading the history from the cache costs a tenth; a transcript pays in full."""
    cached = break_even(
        150_000, 20_000, OPUS, summary=SummaryCost(form="cached-prefix", prompt=500, output=2_000)
    )
    alone = break_even(
        150_000, 20_000, OPUS, summary=SummaryCost(form="stand-alone", prompt=130_000, output=2_000)
    )
    assert alone.now - cached.now == pytest.approx((130_000 * 5.0 - 150_000 * 0.5 - 500 * 6.25) / 1e6)
    assert cached.turns is not None
    assert alone.turns is not None
    assert cached.turns < alone.turns


def test_R15_another_model_cannot_read_our_cache() -> None:
    small = Prices(input=1.0, output=5.0)
    ours = SummaryCost(form="cached-prefix", prompt=500, output=2_000)
    theirs = SummaryCost(form="cached-prefix", prompt=500, output=2_000, prices=small)
    own, other = (
        break_even(150_000, 20_000, OPUS, summary=ours),
        break_even(150_000, 20_000, OPUS, summary=theirs),
    )
    assert other.now - own.now == pytest.approx(
        (150_500 * 1.25 + 10_000 - 150_000 * 0.5 - 500 * 6.25 - 50_000) / 1e6
    )


def test_R15_a_cold_cache_makes_folding_pay_at_once() -> None:
    assert break_even(100_000, 20_000, OPUS, warm=False).turns == 0


def test_R15_later_requests_that_find_the_cache_expired_save_most() -> None:
    """Half of them read 80k tokens less, half write 80k tokens less."""
    pays = break_even(100_000, 20_000, OPUS, cold=0.5)
    assert pays.per_turn == pytest.approx(80_000 * (0.5 * 0.5 + 0.5 * 6.25) / 1e6)


def test_R15_how_often_the_cache_expired_is_read_from_the_times_of_requests() -> None:
    assert cold_share([]) == cold_share([100.0]) == cold_share([0.0, 0.0, 9_999.0]) == 0.0
    assert cold_share([100.0, 150.0, 450.0, 460.0, 10_000.0]) == 0.5
    assert cold_share([100.0, 450.0], ttl="1h") == 0.0


def test_R15_a_fold_that_saves_nothing_never_pays() -> None:
    assert break_even(20_000, 20_000, OPUS).turns is None
    assert break_even(20_000, 30_000, OPUS).turns is None


sizes = st.integers(1_000, 1_000_000)


@given(
    sizes, sizes, st.booleans(), st.floats(0, 1), st.sampled_from(["none", "cached-prefix", "stand-alone"])
)
def test_R15_after_the_break_even_folding_has_not_lost(before, after, warm, cold, form) -> None:
    summary = SummaryCost(form=form, prompt=before, output=2_000)
    pays = break_even(before, after, OPUS, summary=summary, warm=warm, cold=cold)
    if pays.turns is not None:
        assert pays.now - pays.turns * max(pays.per_turn, 0) <= 1e-9
        if pays.turns:
            assert pays.now - (pays.turns - 1) * pays.per_turn > -1e-9


@given(sizes, st.integers(2_000, 1_000_000))
def test_R15_a_smaller_result_never_pays_later(before, after) -> None:
    """As long as it is large enough to be cached: below that, fewer tokens can cost more."""
    one, two = break_even(before, after, OPUS), break_even(before, after // 2, OPUS)
    if one.turns is not None:
        assert two.turns is not None
        assert two.turns <= one.turns
