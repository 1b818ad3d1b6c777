"""The certificate: known answers, properties, and that it holds as often as it says."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from recprism.budget.certificate import (
    IMAGINED_CHANGE,
    LARGEST_BET,
    betting_test,
    certify,
    fixed_sequence,
    step_down,
    t_test,
)
from recprism.errors import InputError
from recprism.testing.synthetic import World, diversified, draw_values, make_world, with_loss

METHODS = ["t", "betting"]


def drawn(seed: int, n: int = 400, loss: float = 0.0, noise: float = 0.1) -> tuple[Any, Any]:
    """Base and new values of n users, with a relative loss of about ``loss``."""
    generator = np.random.default_rng(seed)
    base = generator.uniform(0.2, 0.8, n)
    return base, np.clip(base * (1 - loss) + generator.uniform(-noise, noise, n), 0, 1)


# -- known answers ----------------------------------------------------------------------------------------------------


def test_the_t_test_is_scipys() -> None:
    base, new = drawn(0, loss=0.01)
    check = certify({"m": base}, [{"m": new}], {"m": 0.02}).points[0].checks[0]
    expected = stats.ttest_rel(new, 0.98 * base, alternative="greater").pvalue
    assert check.p_value == pytest.approx(expected)
    assert (check.loss, check.users, check.method) == (pytest.approx(1 - new.mean() / base.mean()), 400, "t")


def test_the_bound_is_fiellers() -> None:
    base, new = drawn(1, loss=0.03)
    upper = certify({"m": base}, [{"m": new}], {"m": 0.02}).points[0].checks[0].upper
    k = stats.t.ppf(0.95, 399) ** 2 / 400
    (bb, bn), (_, nn) = np.cov(base, new)
    b, v = base.mean(), new.mean()
    ratios = np.roots([b * b - k * bb, -2 * (v * b - k * bn), v * v - k * nn])
    assert upper == pytest.approx(1 - ratios.min(), abs=2e-6)


def test_betting_is_the_game_it_says() -> None:
    """One user after the other, in plain Python."""
    base, new = drawn(2, n=80, noise=0.05)
    order = np.random.default_rng(5).permutation(80)
    capital, richest, squares = 1.0, 1.0, IMAGINED_CHANGE**2
    for seen, user in enumerate(order, start=1):
        bet = min(LARGEST_BET, math.sqrt(2 * math.log(20) / (80 * squares / seen)))
        capital *= 1 + bet * (new[user] - 0.8 * base[user])
        richest = max(richest, capital)
        squares += (new[user] - base[user]) ** 2
    assert betting_test(base, new, 0.05, seed=5)(0.2) == pytest.approx(1 / richest)


@pytest.mark.parametrize("method", METHODS)
def test_the_base_itself_loses_nothing(method: Any) -> None:
    base = {"m": np.array([0.5, 0.0, np.nan])}
    certificate = certify(base, [base], {"m": 1e-6}, method=method)
    check = certificate.points[0].checks[0]
    assert (certificate.last, check.loss, check.upper, check.p_value, check.method) == (0, 0, 0, 0, "same lists")


def test_equal_values_of_other_lists_are_no_proof() -> None:
    """No change among n users leaves room for about 3 / n who lose all: enough for 6,000 users and not for 500."""
    for n, last in ((6000, 0), (500, None)):
        base = {"m": np.tile([0.5, 0.0], n // 2)}
        certificate = certify(base, [dict(base)], {"m": 0.01})
        check = certificate.points[0].checks[0]
        assert (certificate.last, check.method, check.loss) == (last, "betting", 0)
        assert check.upper == pytest.approx(math.log(20) / (LARGEST_BET * 0.25 * n), rel=0.01)


def test_values_without_spread_are_decided_exactly() -> None:
    base = np.full(200, 0.5)
    losses = {0.009: 0.0, 0.010: 1.0, 0.011: 1.0}
    assert {loss: t_test(base, base * (1 - loss))(0.01) for loss in losses} == losses


def test_a_path_stops_at_the_first_failure() -> None:
    base = {"m": drawn(3)[0]}
    points = [{"m": drawn(3, loss=loss, noise=0.02)[1]} for loss in (0.0, 0.2, 0.0)]
    walked = certify(base, points, {"m": 0.05})
    assert [point.certified for point in walked.points] == [True, False, False]
    assert walked.last == 0
    assert certify(base, points, {"m": 0.05}, procedure="holm").last == 2


def test_all_budgets_must_be_kept() -> None:
    base, good = drawn(4, noise=0.02)
    bad = drawn(4, loss=0.1, noise=0.02)[1]
    both = certify({"a": base, "b": base}, [{"a": good, "b": bad}], {"a": 0.05, "b": 0.05})
    assert [check.passed for check in both.points[0].checks] == [True, False]
    assert both.points[0].p_value == both.points[0].checks[1].p_value
    assert both.last is None
    assert certify({"a": base, "b": base}, [{"a": good, "b": bad}], {"a": 0.05}).last == 0


def test_users_who_cannot_be_judged_are_left_out() -> None:
    base, new = drawn(5)
    gaps = [np.where(np.arange(500) < 400, np.append(values, np.ones(100)), np.nan) for values in (base, new)]
    whole, with_gaps = (certify({"m": b}, [{"m": v}], {"m": 0.05}) for b, v in ((base, new), gaps))
    assert whole == with_gaps


@pytest.mark.parametrize("method", METHODS)
def test_the_number_of_users_needed_is_enough(method: Any) -> None:
    """Too few users to certify; with as many as it asks for, four of five certificates are granted."""
    base, new = drawn(6, n=150, loss=0.01)
    check = certify({"m": base}, [{"m": new}], {"m": 0.03}, method=method).points[0].checks[0]
    assert not check.passed
    assert check.users_needed is not None
    generator = np.random.default_rng(0)
    granted = 0
    for _ in range(200):
        users = generator.integers(0, 150, check.users_needed)
        granted += certify({"m": base[users]}, [{"m": new[users]}], {"m": 0.03}, method=method).last == 0
    assert 0.7 < granted / 200 <= (0.9 if method == "t" else 1.0)


def test_sentences() -> None:
    base = {"ndcg@10": drawn(7)[0]}
    near, far = ({"ndcg@10": drawn(7, loss=loss, noise=0.02)[1]} for loss in (0.0, 0.3))
    said = certify(base, [base, near, far], {"ndcg@10": 0.05}).sentence()
    assert re.fullmatch(
        r"Measured loss: \S+ % of ndcg@10 \(upper bound \S+ %\)\. "
        r"Certified: at most 5 % of ndcg@10 \(95 % confidence, 400 held-out users\)\. This is step 2 of 3 tested\.",
        said,
    )
    too_few = certify({"ndcg@10": drawn(7)[0]}, [{"ndcg@10": drawn(7)[1]}], {"ndcg@10": 0.005}).sentence()
    assert "Step 1 loses 0.332 % of ndcg@10 (upper bound of the loss " in too_few
    assert re.search(
        r"its budget is 0\.5 %\. To certify it, about [\d,]+ users are needed instead of 400 held-out users\.$", too_few
    )
    gains = certify({"ndcg@10": np.array([0.5, 0.4, 0.3])}, [{"ndcg@10": np.array([0.9, 0.2, 0.5])}], {"ndcg@10": 0.05})
    assert "Step 1 gains 33.3 % of ndcg@10 (upper bound of the loss " in gains.sentence()
    too_much = certify(base, [far], {"ndcg@10": 0.05}).sentence()
    assert too_much.startswith("No change of the lists is certified (95 % confidence). Step 1 loses 30")
    assert too_much.endswith("% of ndcg@10 (400 held-out users), and its budget is 5 %.")
    assert certify(base, [base, far, near], {"ndcg@10": 0.05}).sentence() == too_much.replace("Step 1", "Step 2")
    unchanged = certify(base, [base], {"ndcg@10": 0.05}).sentence()
    assert unchanged.startswith("Measured loss: 0 % of ndcg@10 (upper bound 0 %). Certified: at most 5 %")
    borderline = {"ndcg@10": drawn(7, loss=0.045, noise=0.035)[1]}
    several = certify(base, [borderline, *[far] * 9], {"ndcg@10": 0.05}, procedure="holm", confidence=0.9).sentence()
    assert several.endswith("which is not clear enough for one of several steps.")


def test_the_result_is_json() -> None:
    base, new = drawn(8)
    certificate = certify({"m": base}, [{"m": new}], {"m": 0.02})
    again = json.loads(json.dumps(certificate.to_dict(), allow_nan=False))
    assert again["sentence"] == certificate.sentence()
    assert again["points"][0]["checks"][0]["metric"] == "m"


def test_holm_is_never_behind_bonferroni() -> None:
    p = np.array([0.04, 0.012, 0.001, 0.03])
    assert step_down(p, 0.05).tolist() == [False, True, True, False]
    assert fixed_sequence(p, 0.05).all()
    for seed in range(50):
        drawn_p = np.random.default_rng(seed).random(6) ** 4
        assert (step_down(drawn_p, 0.05) >= (drawn_p * 6 <= 0.05)).all()


# -- properties -------------------------------------------------------------------------------------------------------

cases = st.tuples(
    st.integers(0, 10_000), st.integers(2, 200), st.floats(-0.1, 0.2), st.floats(0.0, 0.2), st.floats(0.01, 0.4)
)


@settings(max_examples=60)
@given(cases, st.floats(0.0, 0.5), st.sampled_from(METHODS))
def test_a_bigger_budget_never_certifies_less(case: Any, more: float, method: Any) -> None:
    seed, n, loss, noise, budget = case
    base, new = drawn(seed, n, loss, noise)
    points = [{"m": base + (new - base) * share} for share in (0.3, 0.6, 1.0)]
    small, big = (certify({"m": base}, points, {"m": it}, method=method) for it in (budget, budget + more))
    for less_allowed, more_allowed in zip(small.points, big.points, strict=True):
        assert more_allowed.p_value <= less_allowed.p_value + 1e-9
        assert more_allowed.certified >= less_allowed.certified
    for point in small.points:
        check = point.checks[0]
        assert check.passed == (check.upper <= budget) or abs(check.upper - budget) < 2e-6


@settings(max_examples=60)
@given(cases, st.floats(0.01, 1.0))
def test_order_and_scale_of_the_values_do_not_matter(case: Any, scale: float) -> None:
    seed, n, loss, noise, budget = case
    base, new = drawn(seed, n, loss, noise)
    shuffle = np.random.default_rng(seed).permutation(n)
    plain, moved, scaled = (
        t_test(b, v)(budget) for b, v in ((base, new), (base[shuffle], new[shuffle]), (base * scale, new * scale))
    )
    assert moved == pytest.approx(plain, abs=1e-9)
    assert scaled == pytest.approx(plain, abs=1e-9)


@settings(max_examples=40)
@given(cases)
def test_more_points_behind_change_nothing_before(case: Any) -> None:
    seed, n, loss, noise, budget = case
    base, new = drawn(seed, n, loss, noise)
    point = {"m": new}
    alone, followed = (certify({"m": base}, points, {"m": budget}) for points in ([point], [point, {"m": base * 0.5}]))
    assert alone.points[0] == followed.points[0]


# -- it holds as often as it says -------------------------------------------------------------------------------------

DRAWS = 200
AT_MOST = stats.binom.ppf(0.999, DRAWS, 0.05)  # errors of a method that errs in 5 %
BUDGET = 0.02


@cache
def made_path() -> tuple[World, list[np.ndarray]]:
    """Lists of the base, of half the budget, of exactly the budget (or a hair above), and of twice the budget."""
    world = make_world(1500, 150, 8, seed=0)
    user, item, bias = world.model(seed=1)
    ladder = [diversified(user @ item.T + bias, world.subtopics, strength) for strength in (0.0, 0.1, 0.3, 1.0)]
    generator = np.random.default_rng(2)
    losses = (0.5 * BUDGET, BUDGET, 2 * BUDGET)
    return world, [ladder[0], *(with_loss(world, ladder, "ndcg@10", loss, generator) for loss in losses)]


def errors_at_the_budget(certified: Callable[[Any, Any, int], bool], n_users: int = 600) -> int:
    world, path = made_path()
    generator = np.random.default_rng(3)
    draws = (draw_values(world, [path[0], path[2]], ["ndcg@10"], n_users, generator) for _ in range(DRAWS))
    return sum(certified(base, point, draw) for draw, (base, point) in enumerate(draws))


@pytest.mark.parametrize("method", METHODS)
def test_a_point_beyond_the_budget_is_rarely_certified(method: Any) -> None:
    def certified(base: Any, point: Any, draw: int) -> bool:
        return certify(base, [point], {"ndcg@10": BUDGET}, method=method, seed=draw).last is not None

    assert errors_at_the_budget(certified) <= AT_MOST


def test_the_check_above_would_catch_a_wrong_method() -> None:
    """To look at the measured loss alone, or to take a level of 20 % for 5 %."""

    def looks_fine(base: Any, point: Any, draw: int) -> bool:
        return bool(np.nansum(point["ndcg@10"] - (1 - BUDGET) * base["ndcg@10"]) > 0)

    def at_a_lax_level(base: Any, point: Any, draw: int) -> bool:
        return certify(base, [point], {"ndcg@10": BUDGET}, confidence=0.8).last is not None

    assert errors_at_the_budget(looks_fine) > AT_MOST
    assert errors_at_the_budget(at_a_lax_level) > AT_MOST


def test_a_path_is_walked_as_far_as_allowed_and_rarely_further() -> None:
    world, (lists, *points) = made_path()
    generator = np.random.default_rng(4)
    reached = []
    for _ in range(DRAWS):
        base, *values = draw_values(world, [lists, *points], ["ndcg@10"], 6000, generator)
        last = certify(base, [base, *values], {"ndcg@10": BUDGET}).last
        assert last is not None
        reached.append(last)
    assert sum(last >= 2 for last in reached) <= AT_MOST
    assert sum(last >= 1 for last in reached) > 0.9 * DRAWS


@pytest.mark.parametrize("n_users", [500, 4000])
def test_rare_harm_does_not_deceive_the_t_test(n_users: int) -> None:
    """No user gains and few lose all, at exactly the budget: a plain t test errs in about 9 % of the draws."""
    generator = np.random.default_rng(5)
    errors = 0
    for draw in range(DRAWS):
        base = (generator.random(n_users) < 0.4) * 1.0
        harmed = base * (generator.random(n_users) >= BUDGET)
        errors += certify({"m": base}, [{"m": harmed}], {"m": BUDGET}, seed=draw).last is not None
    assert errors <= AT_MOST


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "points", "budgets", "options", "message"),
    [
        ([0.1, 0.2], [[0.1, 0.2, 0.3]], 0.1, {}, "2 users in the base and 3 in point 0"),
        ([[0.1, 0.2]], [[0.1]], 0.1, {}, r"shape \(1, 2\); one value per user"),
        ([np.nan, 0.1], [[0.1, np.nan]], 0.1, {}, "no user is judged in both the base and point 0"),
        ([], [[]], 0.1, {}, "no user is judged"),
        ([0.0, 0.0], [[0.1, 0.1]], 0.1, {}, "of the base is 0 for every user"),
        ([0.1, 7.0], [[0.1, 0.2]], 0.1, {}, "of the base is 7 for user row 1; values must lie between 0 and 1"),
        ([0.1], [[-0.1]], 0.1, {}, r"of point 0 is -0\.1 for user row 0"),
        ([0.1], [], 0.1, {}, "0 points and 1 budgets"),
        ([0.1], [[0.1]], 0.0, {}, "budget of m: 0.0 is not a share above 0 and below 1"),
        ([0.1], [[0.1]], 1.0, {}, "above 0 and below 1"),
        (
            [0.1],
            [[0.1]],
            0.1,
            {"confidence": 95},
            r"confidence: 95 is not a share from 0.5 to 0.9999; did you mean 95%\?",
        ),
        ([0.1], [[0.1]], 0.1, {"confidence": 0.05}, "from 0.5 to"),
        ([0.1], [[0.1]], 0.1, {"method": "z"}, "unknown method 'z'; choose one of t, betting"),
        ([0.1], [[0.1]], 0.1, {"procedure": "none"}, "unknown procedure 'none'"),
    ],
)
def test_bad_input_is_named(base: Any, points: Any, budgets: Any, options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        certify({"m": base}, [{"m": point} for point in points], {"m": budgets}, **options)


def test_a_metric_without_values_is_named() -> None:
    with pytest.raises(InputError, match="point 0 has no ndcg@10, which has a budget; there are none"):
        certify({"ndcg@10": [0.5]}, [{}], {"ndcg@10": 0.1})
