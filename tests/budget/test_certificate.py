"""The certificate: known answers, properties, and that it holds as often as it says."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from recprism.budget._kernels.betting import EXPECTED_SIZE, LARGEST_RISK
from recprism.budget.certificate import Certificate
from recprism.budget.certifying import (
    Question,
    certify,
    certify_together,
    smallest_budgets,
)
from recprism.budget.evidence import BUDGETS, betting_test, possible_losses, t_test, upper_bound
from recprism.errors import InputError
from recprism.metrics.statistics import holm
from recprism.testing.synthetic import World, make_world

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from known_losses import diversified, draw_values, with_loss

METHODS = ["betting", "t"]


def drawn(seed: int, n: int = 400, loss: float = 0.0, noise: float = 0.1) -> tuple[Any, Any]:
    """Base and new values of n users, with a relative loss of about ``loss``."""
    generator = np.random.default_rng(seed)
    base = generator.uniform(0.2, 0.8, n)
    return base, np.clip(base * (1 - loss) + generator.uniform(-noise, noise, n), 0, 1)


# -- known answers ----------------------------------------------------------------------------------------------------


def test_the_t_test_is_scipys() -> None:
    base, new = drawn(0, loss=0.01)
    check = certify({"m": base}, [{"m": new}], {"m": 0.02}, method="t").points[0].checks[0]
    expected = stats.ttest_rel(new, 0.98 * base, alternative="greater").pvalue
    assert check.p_value == pytest.approx(expected)
    assert (check.loss, check.users, check.method) == (pytest.approx(1 - new.mean() / base.mean()), 400, "t")


def test_the_bound_is_fiellers() -> None:
    base, new = drawn(1, loss=0.03)
    upper = certify({"m": base}, [{"m": new}], {"m": 0.02}, method="t").points[0].checks[0].upper
    k = stats.t.ppf(0.95, 399) ** 2 / 400
    (bb, bn), (_, nn) = np.cov(base, new)
    b, v = base.mean(), new.mean()
    ratios = np.roots([b * b - k * bb, -2 * (v * b - k * bn), v * v - k * nn])
    assert upper == pytest.approx(1 - ratios.min(), abs=2e-6)


def played(differences: list[float], largest_loss: float, wanted: float) -> float:
    """The largest capital, one user after the other, in plain Python."""
    capital, richest, squares = 1.0, 1.0, EXPECTED_SIZE**2
    for seen, difference in enumerate(differences, start=1):
        left = len(differences) - seen + 1
        bet = math.sqrt(2 * math.log(wanted / capital) / (left * squares / seen))
        capital *= 1 + min(bet, LARGEST_RISK / largest_loss) * difference
        richest = max(richest, capital)
        if capital >= wanted:
            break
        squares += difference**2
    return richest


@pytest.mark.parametrize("largest_loss", [0.2, 1.0])
def test_betting_is_the_game_it_says(largest_loss: float) -> None:
    base, new = drawn(2, n=80, noise=0.05)
    order = np.random.default_rng(5).permutation(80)
    found = betting_test(base, new, largest_loss, 0.05, seed=5)
    games = [played((new - (1 - budget) * base)[order].tolist(), largest_loss, 20.0) for budget in BUDGETS]
    for at in (0, 50, 100, len(BUDGETS) - 1):
        assert found(float(BUDGETS[at])) == pytest.approx(1 / min(games[at:])), "the worst of all larger budgets"
    assert found(BUDGETS[50] * 1.001) == found(float(BUDGETS[50])), "a budget between two counts as the smaller one"
    assert found(0.0) == 1.0


def test_users_can_lose_no_more_of_ndcg_than_their_lists_allow() -> None:
    """Against all sets of labels of small lists, one by one."""
    generator = np.random.default_rng(0)
    base, new = (np.stack([generator.permutation(7)[:4] for _ in range(30)]) for _ in range(2))
    base[0], new[0] = new[1], new[1]
    new[2, 3] = -1
    discounts = 1 / np.log2(np.arange(2, 6))
    best = np.zeros(30)
    for labels in range(1, 2**7):
        relevant = np.array([labels >> item & 1 for item in range(7)] + [0], bool)  # -1 is the last one
        ideal = discounts[: min(relevant.sum(), 4)].sum()
        gained = [(relevant[lists] * discounts).sum(1) / ideal for lists in (base, new)]
        best = np.maximum(best, gained[0] - gained[1])
    assert possible_losses(base, new, "ndcg@4") == pytest.approx(best)
    assert possible_losses(base, new, "recall@4").tolist() == (base != new).any(1).astype(float).tolist()
    assert possible_losses(base, new, "ndcg@6").tolist() == (base != new).any(1).astype(float).tolist()


def test_lists_that_allow_less_need_fewer_users() -> None:
    base, new = drawn(0, n=300, noise=0.02)
    limits = {"m": np.full(300, 0.02)}
    alone, known = (
        certify({"m": base}, [{"m": new}], {"m": 0.01}, possible=it).points[0].checks[0] for it in (None, [limits])
    )
    assert (alone.passed, known.passed) == (False, True)
    assert (alone.largest_loss, known.largest_loss) == (1.0, 0.02)
    assert alone.users_needed is not None


def test_possible_losses_of_other_lists_are_refused() -> None:
    base, new = drawn(0, n=50)
    with pytest.raises(InputError, match=r"user row \d+ loses [\d.]+ of m at point 0, more than the possible 0.01"):
        certify({"m": base}, [{"m": new}], {"m": 0.1}, possible=[{"m": np.full(50, 0.01)}])
    with pytest.raises(InputError, match="has 50 users and possible losses of 3"):
        certify({"m": base}, [{"m": new}], {"m": 0.1}, possible=[{"m": np.ones(3)}])
    with pytest.raises(InputError, match="1 points and possible losses of 0"):
        certify({"m": base}, [{"m": new}], {"m": 0.1}, possible=[])


@pytest.mark.parametrize("method", METHODS)
def test_the_base_itself_loses_nothing(method: Any) -> None:
    base = {"m": np.array([0.5, 0.0, np.nan])}
    certificate = certify(base, [base], {"m": 1e-6}, method=method)
    check = certificate.points[0].checks[0]
    assert (certificate.last, check.loss, check.upper, check.p_value, check.method) == (0, 0, None, 0, "same lists")


def test_equal_values_of_other_lists_are_no_proof() -> None:
    """No change among n users leaves room for about 3 / n who lose all: enough for 6,000 users and not for 500."""
    for n, last in ((6000, 0), (500, None)):
        base = {"m": np.tile([0.5, 0.0], n // 2)}
        certificate = certify(base, [dict(base)], {"m": 0.01})
        check = certificate.points[0].checks[0]
        assert (certificate.last, check.method, check.loss) == (last, "betting", 0)
        bound = math.log(20) / (LARGEST_RISK * 0.25 * n)
        assert upper_bound(betting_test(base["m"], base["m"]), 0.05) == pytest.approx(bound, rel=0.25)


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
    assert 0.7 < granted / 200 <= (0.9 if method == "t" else 0.98)


def test_sentences() -> None:
    base = {"ndcg@10": drawn(7)[0]}
    near, far = ({"ndcg@10": drawn(7, loss=loss, noise=0.02)[1]} for loss in (0.0, 0.3))
    said = certify(base, [base, near, far], {"ndcg@10": 0.05}).sentence()
    assert re.fullmatch(
        r"Measured loss on 400 held-out users: \S+ % of ndcg@10\. "
        r"Certified: at most 5 % of ndcg@10 \(95 % confidence\)\. This is step 2 of 3 tested\.",
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
    assert unchanged.startswith("Measured loss on 400 held-out users: 0 % of ndcg@10. Certified: at most 5 %")
    rough = certify(base, [base, near], {"ndcg@10": 0.05}, method="t").sentence()
    assert "(approximate 95 % confidence)" in rough
    refused = certify({"ndcg@10": drawn(7)[0]}, [{"ndcg@10": drawn(7)[1]}], {"ndcg@10": 0.005})
    check = replace(refused.points[0].checks[0], users_needed=None)
    close = replace(refused, points=(replace(refused.points[0], checks=(check,)),)).sentence()
    assert close.endswith("too close to its budget of 0.5 % to decide.")


def test_the_result_is_json() -> None:
    base, new = drawn(8)
    certificate = certify({"m": base}, [{"m": new}], {"m": 0.02})
    again = json.loads(json.dumps(certificate.to_dict(), allow_nan=False))
    assert again["sentence"] == certificate.sentence()
    assert again["points"][0]["checks"][0]["metric"] == "m"
    assert Certificate.from_dict(again) == certificate


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
        assert check.passed == (check.upper is None)
        assert check.upper is None or check.upper >= budget


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
    ladder = [diversified(user @ item.T + bias, world.categories, strength) for strength in (0.0, 0.1, 0.3, 1.0)]
    generator = np.random.default_rng(2)
    losses = (0.5 * BUDGET, BUDGET, 2 * BUDGET)
    return world, [ladder[0], *(with_loss(world, ladder, "ndcg@10", loss, generator) for loss in losses)]


def test_a_certificate_says_how_many_questions_share_its_confidence() -> None:
    base, near = ({"ndcg@10": values} for values in drawn(7, n=2000, noise=0.02))
    asked = [Question(base, [near], {"ndcg@10": budget}) for budget in (0.02, 0.05)]
    one, two = certify_together(asked)
    assert "95 % confidence for 2 questions together" in one.sentence()
    assert (one.questions, two.last) == (2, 0)


# -- several questions ------------------------------------------------------------------------------------------------


def question(p_values: list[float], weight: float = 1.0) -> Question:
    """A path whose t tests have the given p-values, nearly."""
    base = np.tile([0.4, 0.6], 50)
    deviation = np.tile([-0.01, 0.01], 50)
    points = []
    for p in p_values:
        mean = stats.t.isf(p, 99) * np.std(deviation, ddof=1) / 10
        points.append({"m": 0.99 * base + np.random.default_rng(0).permutation(deviation) + mean})
    return Question({"m": base}, points, {"m": 0.01}, weight=weight)


def certified(questions: list[Question]) -> list[list[bool]]:
    return [[point.certified for point in it.points] for it in certify_together(questions, method="t")]


def test_questions_of_one_point_are_answered_by_holm() -> None:
    for seed in range(20):
        p_values = np.random.default_rng(seed).random(5) ** 4
        found = certified([question([p]) for p in p_values.tolist()])
        assert [it[0] for it in found] == (holm(p_values) <= 0.05).tolist()


def test_a_path_that_is_certified_to_its_end_passes_its_level_on() -> None:
    assert certified([question([0.001, 0.02]), question([0.04])]) == [[True, True], [True]]
    assert certified([question([0.001, 0.03]), question([0.04])]) == [[True, False], [False]]
    assert certified([question([0.04], weight=9.0), question([0.001])]) == [[True], [True]]
    assert certified([question([0.04], weight=9.0), question([0.02])]) == [[True], [True]]
    assert certified([question([0.04]), question([0.03])]) == [[False], [False]]


def test_the_smallest_budgets_are_those_that_certify() -> None:
    base = {"m": drawn(3)[0]}
    points = [{"m": drawn(3, loss=loss, noise=0.02)[1]} for loss in (0.0, 0.2, 0.0)]
    losses, budgets = smallest_budgets(Question(base, points, {}), "m")
    assert losses == pytest.approx([1 - point["m"].mean() / base["m"].mean() for point in points])
    assert budgets[1] == budgets[2] > 0.2, "a path is not walked beyond a refused point"
    for at in (0, 1):
        for budget, last in ((budgets[at] * 1.01, at), (budgets[at] * 0.9, at - 1)):
            found = certify(base, points[:2], {"m": budget}).last
            assert (-1 if found is None else found) == last


def test_clusters_of_one_user_change_nothing_and_larger_ones_are_one_observation() -> None:
    base, new = drawn(4, n=300, noise=0.02)
    about = {"m": base}, [{"m": new}], {"m": 0.02}
    limits = [{"m": np.full(300, 0.02)}]
    plain = certify(*about, possible=limits)
    alone = certify(*about, possible=limits, clusters=np.arange(300))
    (check,), (without,) = alone.points[0].checks, plain.points[0].checks
    assert (check.clusters, replace(check, clusters=None)) == (300, without)
    doubled = [np.repeat(values, 2) for values in (base, new, limits[0]["m"])]
    pairs = certify(
        {"m": doubled[0]},
        [{"m": doubled[1]}],
        {"m": 0.02},
        possible=[{"m": doubled[2]}],
        clusters=np.repeat(np.arange(300), 2),
    )
    assert pairs.points[0].p_value == pytest.approx(plain.points[0].p_value)
    (check,) = pairs.points[0].checks
    assert (check.users, check.clusters, check.base) == (600, 300, pytest.approx(without.base)), "figures are of users"
    assert "600 held-out users in 300 clusters" in pairs.sentence()
    questions = [Question(*about, limits, clusters=it) for it in (None, np.arange(300) // 2)]
    assert [it.points[0].checks[0].clusters for it in certify_together(questions)] == [None, 150], "no shared tests"
    with pytest.raises(InputError, match="has 300 users, and clusters are given for 3"):
        certify(*about, clusters=[1, 2, 3])


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
        return certify(base, [point], {"ndcg@10": BUDGET}, confidence=0.8, method="t").last is not None

    assert errors_at_the_budget(looks_fine) > AT_MOST
    assert errors_at_the_budget(at_a_lax_level) > AT_MOST


@pytest.mark.slow
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
def test_rare_harm_does_not_deceive(n_users: int) -> None:
    """No user gains and few lose all, at exactly the budget."""
    generator = np.random.default_rng(5)
    errors = 0
    for draw in range(DRAWS):
        base = (generator.random(n_users) < 0.4) * 1.0
        harmed = base * (generator.random(n_users) >= BUDGET)
        errors += certify({"m": base}, [{"m": harmed}], {"m": BUDGET}, seed=draw).last is not None
    assert errors <= AT_MOST


def test_users_who_set_the_limit_are_not_left_out() -> None:
    """Who loses all also has the largest limit. Without one of them, the true loss would pass in 15 % of the draws."""
    generator = np.random.default_rng(6)
    errors = 0
    for draw in range(DRAWS):
        best = generator.random(2000) < 0.05
        base = np.where(best, 1.0, generator.uniform(0.01, 0.3, 2000))
        harmed = best & (generator.random(2000) < 0.01 * (0.05 + 0.95 * 0.155) / 0.05)
        new = np.where(harmed, 0.0, base + ~best * generator.uniform(-0.01, 0.01, 2000))
        limits = np.where(harmed, 1.0, 0.011 * ~best)
        found = certify({"m": base}, [{"m": new}], {"m": 0.01}, possible=[{"m": limits}], seed=draw)
        errors += found.last is not None and bool(harmed.any())
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
        ([0.1], [[0.1]], 0.1, {"method": "z"}, "unknown method 'z'; choose one of betting, t"),
    ],
)
def test_bad_input_is_named(base: Any, points: Any, budgets: Any, options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        certify({"m": base}, [{"m": point} for point in points], {"m": budgets}, **options)


def test_a_metric_without_values_is_named() -> None:
    with pytest.raises(InputError, match="point 0 has no ndcg@10, which has a budget; there are none"):
        certify({"ndcg@10": [0.5]}, [{}], {"ndcg@10": 0.1})


def test_a_larger_budget_reaches_at_least_as_far_as_a_smaller_one() -> None:
    """By weights, the smaller budget can have nearly all of the allowed error; its steps keep the larger one, too."""
    generator = np.random.default_rng(0)
    base = {"recall@10": generator.uniform(0.2, 0.8, 400)}
    points = [
        {"recall@10": (base["recall@10"] * (1 - loss) + generator.normal(0, 0.1, 400)).clip(0, 1)}
        for loss in (0.0, 0.01, 0.02, 0.03, 0.05, 0.2)
    ]
    small, large = certify_together(
        [
            Question(base, points, {"recall@10": 0.05}, weight=1.0),
            Question(base, points, {"recall@10": 0.06}, weight=1e-9),
        ]
    )
    assert small.last is not None
    assert large.last is None or large.last < small.last, "else this test shows nothing"
    further = large.within(small)
    assert further.last == small.last
    assert {check.budget for point in further.points for check in point.checks} == {0.06}
    assert len(further.points) == len(points)
    assert small.within(large) is small
