"""What a list is worth, and what its items are compared with, against plain loops over all exchanges."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations
from typing import Any

import numba
import numpy as np
import pytest
from candidates import make_candidates
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from recprism.explain._kernels.matching import cheapest_match
from recprism.explain.reasons.codes import ORDER, TIED, causes_of
from recprism.explain.reasons.compared import compare
from recprism.rule import ListSearch
from recprism.rule.earlier import earlier_of
from recprism.rule.kernels.parts import PARTS
from recprism.rule.kernels.prices import looks_at_order
from recprism.rule.kernels.worth import DISTANCE
from recprism.rule.list_search import terms_of
from recprism.rule.objective import Objective
from recprism.rule.pool import Pool
from recprism.rule.terms import Terms

CHEAPEST_MATCH = numba.njit(cheapest_match.py_func)
GOALS: tuple[dict[str, float], ...] = (
    {"subtopic_coverage": 1.0},
    {"alpha_ndcg": 1.0},
    {"err_ia": 1.0},
    {"ilad_subtopics": 1.0},
    {"ilad": 1.0},
    {"catalogue_coverage": 1.0},
    {"subtopic_coverage": 0.7, "ilad_subtopics": 0.5, "catalogue_coverage": 0.2},
    {"subtopic_coverage": 0.7, "alpha_ndcg": 0.3, "ilad_subtopics": 0.5},
)


def plain_parts(goals: tuple[Any, ...], user: int, items: Any, relevance: Any) -> tuple[Any, Any]:
    """The parts of one list, (6,), and those of each category, (2, n_categories), as the definitions say."""
    (
        indptr,
        indices,
        n_categories,
        unit,
        known,
        shown,
        prices,
        discount,
        fading,
        intents,
        filling,
        left_by_pages,
        past,
    ) = goals
    accuracy, category, alpha_dcg, distance, alone, history, repeats, by_relevance, _ = prices
    found, by_category = dict.fromkeys(PARTS, 0.0), np.zeros((2, n_categories))
    before: Counter[int] = Counter()
    fresh, past = (rows[user % len(rows)] for rows in (left_by_pages, past))
    left = dict(enumerate(fresh.tolist()))
    listed = [(place, item, own) for place, (item, own) in enumerate(zip(items, relevance, strict=True)) if item >= 0]
    for place, item, own in listed:
        found["relevance"] += accuracy * own * discount[place]
        found["exposure"] += alone * (shown[item] == 0)
        gain = own if by_relevance else 1.0
        for s in indices[indptr[item] : indptr[item + 1]].tolist():
            by_category[:, s] += category * fresh[s] * (before[s] == 0), alpha_dcg * gain * left[s] * fading[place]
            left[s] *= 1 - repeats * gain
            if history:
                found["history"] += history * intents[user, s] * (filling[before[s] + 1] - filling[before[s]])
            before[s] += 1
    found["coverage"], found["alpha_dcg"] = by_category.sum(1)
    for a, b in combinations([item for _, item, _ in listed], 2):
        found["distance"] += distance * (1 - unit[a] @ unit[b]) if distance and known[a] and known[b] else 0.0
    for _, item, _ in listed if distance and len(past) else []:
        found["distance"] += distance * (past[-1] - unit[item] @ past[:-1]) if known[item] else 0.0
    return np.array([*found.values()]), by_category


def after_pages(terms: Terms, generator: np.random.Generator) -> Terms:
    """The same terms after pages with 1 to 6 items for each user."""
    n_users, n_items = len(terms.intents), len(terms.categories[0]) - 1
    users = np.repeat(np.arange(n_users), generator.integers(1, 7, n_users))
    shown = users, generator.integers(0, n_items, len(users)), generator.random(len(users))
    directions = terms.directions if terms.prices[DISTANCE] else None
    return replace(terms, earlier=earlier_of(*shown, n_users, terms.categories, directions))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    goals=st.sampled_from(GOALS),
    trade_off=st.sampled_from([0.1, 0.5, 1.0]),
    history_weight=st.sampled_from([0.0, 0.4]),
    k=st.integers(1, 6),
    ties=st.booleans(),
    limited=st.booleans(),
    pages=st.booleans(),
)
def test_items_are_compared_as_by_plain_loops(
    seed: int,
    goals: dict[str, float],
    trade_off: float,
    history_weight: float,
    k: int,
    ties: bool,
    limited: bool,
    pages: bool,
) -> None:
    world = make_candidates(seed, n_users=1, n_candidates=11, n_items=24, coarse=ties, padded=ties)
    features, generator = world.features, np.random.default_rng(seed)
    method = ListSearch(trade_off=trade_off, goals=goals, history_weight=history_weight)
    pool = Pool.of(world.candidates, world.scores, features.device, features.n_items).at_least(k)
    objective = Objective.of(method, pool, k, features)
    if pages:
        objective = Objective(after_pages(objective.terms, generator))
    arrays = objective.arrays(generator.integers(0, 2, 24))
    n = int(pool.lengths[0])
    items, relevance = pool.items.numpy()[:, :n], pool.relevance.numpy()[:, :n]
    own = generator.permutation(n)[: min(k, n)]
    own = own if looks_at_order(goals) else np.sort(own)
    group, allowed = generator.integers(0, 3, n), np.eye(3, dtype=np.bool_) | (generator.random((3, 3)) < 0.5)
    base, groups, by_rank = np.arange(min(k, n)), (group, allowed) if limited else None, not looks_at_order(goals)
    how: dict[str, Any] = {"by_rank": by_rank, "by_vectors": "ilad" in goals, "groups": groups}
    others, differences, *_ = compare(items[0], relevance[0], own, base, arrays, **how)

    def parts(positions: Any) -> Any:
        at = np.asarray(positions)
        return plain_parts(arrays, 0, np.where(at >= 0, items[0][at], -1), relevance[0][at])[0]

    def exchanged(place: int, arriving: int) -> Any:
        there = [*own[:place], arriving, *own[place + 1 :]]
        return parts(sorted(there) if by_rank and arriving >= 0 else there)

    outside = [c for c in range(n) if c not in own]
    worth = {(place, c): exchanged(place, c) for place in range(len(own)) for c in outside}
    for place in range(len(own)):
        empty = parts([*own[:place], -1, *own[place + 1 :]])
        np.testing.assert_allclose(differences[2, place], parts(own) - empty, atol=1e-13)
        may = [c for c in outside if not limited or allowed[group[own[place]], group[c]]]
        best = max((worth[place, c].sum() for c in may), default=-np.inf)
        first = next((c for c in may if worth[place, c].sum() >= best - TIED), -1)
        assert others[1, place] == first
        for which, other in enumerate(others[:, place].tolist()):
            wanted = parts(own) - worth[place, other] if other >= 0 else np.zeros(len(PARTS))
            np.testing.assert_allclose(differences[which, place], wanted, atol=1e-13)
    new, gone = [place for place in range(len(own)) if own[place] not in base], [c for c in base if c not in own]
    cost = [[ORDER * (a - b) ** 2 - worth[p, c].sum() for b, c in enumerate(gone)] for a, p in enumerate(new)]
    table = np.array(cost).reshape(len(new), len(gone))
    match = {new.index(place): gone.index(c) for place, c in enumerate(others[0].tolist()) if c >= 0}
    assert len(match) == len({*match.values()}) == min(table.shape)
    assert sum(table[it] for it in match.items()) == pytest.approx(table[linear_sum_assignment(table)].sum(), abs=1e-11)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), goals=st.sampled_from(GOALS), history_weight=st.sampled_from([0.0, 0.4]))
def test_lists_are_worth_what_the_definitions_say(seed: int, goals: dict[str, float], history_weight: float) -> None:
    """Lists with empty places, of several users."""
    world, k = make_candidates(seed, n_users=4, n_candidates=12, n_items=24), 5
    features, generator = world.features, np.random.default_rng(seed)
    method = ListSearch(trade_off=0.4, goals=goals, history_weight=history_weight)
    pool = Pool.of(world.candidates, world.scores, features.device, features.n_items)
    objective, shown = (
        Objective(after_pages(terms_of(method, pool, k, features), generator)),
        generator.integers(0, 2, 24),
    )
    lists = np.where(generator.random((4, k)) < 0.2, -1, pool.items.numpy()[:, :k])
    users, relevance = generator.permutation(4), pool.relevance.numpy()[:, :k]
    found = objective.parts(lists, relevance, users=users, shown=shown)
    wanted = [plain_parts(objective.arrays(shown), *it) for it in zip(users, lists, relevance, strict=True)]
    np.testing.assert_allclose(found.values, [it for it, _ in wanted], atol=1e-13)
    by_category = sum(it for _, it in wanted)
    np.testing.assert_allclose([*found.by_category.values()], by_category, atol=1e-13)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 7), st.integers(1, 7), st.integers(0, 10_000))
def test_matches_are_the_cheapest(n: int, m: int, seed: int) -> None:
    cost = np.random.default_rng(seed).standard_normal((n, m))
    match = np.empty(n, np.int64)
    CHEAPEST_MATCH(cost, match)
    rows, columns = linear_sum_assignment(cost)
    assert match[rows].tolist() == columns.tolist()
    assert (match >= 0).sum() == min(n, m)


def test_parts_that_decide_together_leave_out_those_that_add_nothing() -> None:
    parts = dict.fromkeys(PARTS, 0.0) | {"relevance": -0.2, "coverage": 0.3, "distance": 0.3}
    found = causes_of([*parts.values()], 0.0, personal=True)
    assert found == ["together", "new_category", "distance"]
