"""Calibration: scale and fixed part from what a provider counted."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.tokens import Calibration
from tests.strategies import examples


def test_scale_and_fixed_part_are_found() -> None:
    pairs = [(x, 1.35 * x + 4000) for x in range(1000, 40_000, 1500)]
    fit = Calibration.fit(pairs)
    assert fit.scale == pytest.approx(1.35, abs=0.001)
    assert fit.fixed == pytest.approx(4000, abs=5)
    assert fit.known
    assert fit.predict(50_000) == pytest.approx(71_500, abs=20)


def test_outliers_and_aborted_turns_do_not_count() -> None:
    pairs = [(x, 1.2 * x + 3000) for x in range(1000, 60_000, 2000)]
    dirty = [*pairs[:10], (20_000, 0), (0, 500), (21_000, 400_000), *pairs[10:], (45_000, 12)]
    fit = Calibration.fit(dirty)
    assert fit.scale == pytest.approx(1.2, abs=0.005)
    assert fit.predict(80_000) == pytest.approx(99_000, rel=0.01)


def test_fewer_than_five_points_teach_only_the_fixed_part() -> None:
    fit = Calibration.fit([(1000, 6000), (2000, 7100), (3000, 8300)])
    assert fit.scale == 1.0
    assert fit.fixed == pytest.approx(5100, abs=200)
    assert not fit.known


def test_nothing_seen_predicts_what_we_count() -> None:
    assert Calibration.fit([]).predict(1234) == 1234
    assert Calibration.fit([(0, 0), (5, 0)]).predict(1234) == 1234


def test_budget_is_the_inverse_of_predict() -> None:
    fit = Calibration(scale=1.3, fixed=5000, points=9)
    assert fit.predict(fit.budget(100_000)) <= 100_000
    assert fit.predict(fit.budget(100_000) + 2) > 100_000
    assert fit.budget(10) == 0


def test_requests_of_one_size_do_not_make_a_slope() -> None:
    fit = Calibration.fit([(10_000 + i, 15_000 + i) for i in range(20)])
    assert fit.scale == 1.0
    assert fit.predict(10_010) == pytest.approx(15_010, abs=20)


def test_counts_too_close_for_a_slope_give_none() -> None:
    assert Calibration.fit([(5e-324, 1.0), *[(0.0, 1.0)] * 4]).scale >= 0.5


@settings(max_examples=examples(200))
@given(
    st.lists(st.tuples(st.floats(0, 1e6, allow_nan=False), st.floats(0, 1e6, allow_nan=False)), max_size=40),
    st.integers(0, 1_000_000),
)
def test_any_points_give_a_sane_line(pairs: list[tuple[float, float]], count: int) -> None:
    fit = Calibration.fit(pairs)
    assert 0.5 <= fit.scale <= 3.0
    assert fit.predict(count) >= 0
    assert fit.predict(count + 1000) >= fit.predict(count)
