"""The parts of a list are the definition of what it is worth: every gain that a search computes is a difference of it.

The kernels of the search run here as plain Python, so that single gains can be asked for and nothing is compiled.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numba
import numpy as np
import pytest
import torch
from candidates import make_candidates
from hypothesis import given, settings
from hypothesis import strategies as st

from recprism.rule import ListSearch
from recprism.rule._batched import _Block, _membership, covers
from recprism.rule.earlier import earlier_of
from recprism.rule.kernels.prices import looks_at_order
from recprism.rule.kernels.worth import DISTANCE
from recprism.rule.objective import Objective
from recprism.rule.pool import Pool

KERNELS = "recprism.rule.kernels."
TIE = 1e-11
GOALS: tuple[dict[str, float], ...] = (
    {"subtopic_coverage": 1.0},
    {"alpha_ndcg": 1.0},
    {"alpha_ndcg_relevant": 1.0},
    {"err_ia": 1.0},
    {"ilad_subtopics": 1.0},
    {"ilad": 1.0},
    {"catalogue_coverage": 1.0},
    {"subtopic_coverage": 0.5, "ilad": 0.7, "catalogue_coverage": 0.2},
    {"subtopic_coverage": 0.7, "alpha_ndcg": 0.3, "ilad_subtopics": 0.5, "catalogue_coverage": 0.2},
)


@pytest.fixture(scope="module")
def plain() -> Iterator[SimpleNamespace]:
    """The kernels as plain Python."""
    known = {name: sys.modules.pop(name) for name in [*sys.modules] if name.startswith(KERNELS)}
    with patch.object(numba.core.config, "DISABLE_JIT", 1):
        found = {name: import_module(KERNELS + name) for name in ("exchange", "optimal", "worth")}
    for name in [it for it in sys.modules if it.startswith(KERNELS)]:
        del sys.modules[name]
    sys.modules.update(known)
    yield SimpleNamespace(**found)


class World:
    """Candidates of a few users, what earlier pages and other lists show, and random lists."""

    def __init__(
        self, seed: int, goals: dict[str, float], trade_off: float, history: float, k: int, ties: bool
    ) -> None:
        made = make_candidates(seed, n_users=2, n_candidates=9, n_items=18, coarse=ties, padded=ties)
        self.draw, self.goals, features = np.random.default_rng(seed), goals, made.features
        method = ListSearch(trade_off=trade_off, goals=goals, history_weight=history)
        self.pool = Pool.of(made.candidates, made.scores, features.device, features.n_items).at_least(k)
        terms = Objective.of(method, self.pool, k, features).terms
        users = np.repeat(np.arange(2), 4)
        pages = users, self.draw.integers(0, 18, 8), self.draw.random(8)
        earlier = earlier_of(*pages, 2, terms.categories, terms.directions if terms.prices[DISTANCE] else None)
        self.objective, self.k = Objective(replace(terms, earlier=earlier)), k
        self.others = self.draw.integers(0, 2, len(terms.categories[0]) - 1)

    def of_user(self, user: int) -> tuple[Any, Any, Any]:
        """Items, relevance, and a list of some of them: in the order of rank, unless the goals look at order."""
        n = int(self.pool.lengths[user])
        chosen = self.draw.permutation(n)[: min(self.k, n - 1)]
        chosen = chosen if looks_at_order(self.goals) else np.sort(chosen)
        return self.pool.items[user, :n].numpy(), self.pool.relevance[user, :n].numpy(), chosen

    def worth(self, user: int, lists: Any) -> Any:
        """What lists are worth by definition; a row is positions of candidates."""
        at = np.asarray(lists)
        items, relevance = self.pool.items[user].numpy()[at], self.pool.relevance[user].numpy()[at]
        return self.objective.parts(items, relevance, users=np.full(len(at), user), shown=self.others).total

    def state(self, plain: Any, user: int, items: Any, chosen: Any) -> tuple[Any, Any]:
        """Goals and state of the search at a list."""
        shown = self.others.copy()
        np.add.at(shown, items[chosen], 1)
        terms = self.objective.arrays(shown)
        goals = plain.worth.goals_of(terms, user)
        state = plain.optimal._working_memory(len(items), len(chosen), terms[2], terms[3], terms[6])
        plain.optimal._begin(items, goals, state)
        plain.optimal._stand(items, chosen, goals, state)
        return goals, state


WORLDS = given(
    seed=st.integers(0, 10_000),
    goals=st.sampled_from(GOALS),
    trade_off=st.sampled_from([0.1, 0.5, 1.0]),
    history=st.sampled_from([0.0, 0.4]),
    k=st.integers(1, 4),
    ties=st.booleans(),
)


@settings(max_examples=20)
@WORLDS
def test_the_gain_of_an_exchange_is_a_difference_of_the_definition(
    plain: Any, seed: int, goals: dict[str, float], trade_off: float, history: float, k: int, ties: bool
) -> None:
    world = World(seed, goals, trade_off, history, k, ties)
    for user in range(2):
        items, relevance, chosen = world.of_user(user)
        if not len(chosen):
            continue
        outside = [c for c in range(len(items)) if c not in chosen]
        pairs = [(place, c) for place in range(len(chosen)) for c in outside]
        after = np.array([[*chosen[:place], c, *chosen[place + 1 :]] for place, c in pairs])
        before = world.worth(user, chosen[None])[0]
        data, state = world.state(plain, user, items, chosen)
        about, best_list = (items, relevance, chosen, data, state), chosen.copy()
        if looks_at_order(goals):
            ways = [(a, b) for a in range(len(chosen)) for b in range(len(chosen)) if a != b]
            moves = [np.insert(np.delete(chosen, a), b, chosen[a]) for a, b in ways]
            for lists in ([*after, *moves], moves):  # then moves alone
                state[0][:] = state[0] | (lists is moves)
                gains = world.worth(user, lists) - before if lists else np.full(1, -np.inf)
                for to_beat, wins in ((gains.max() - 1e-9, bool(lists)), (gains.max() + 1e-9, False)):
                    arriving, _ = plain.exchange.best_by_order(*about, to_beat, best_list)
                    assert (arriving >= 0) == wins
                if lists:
                    assert world.worth(user, best_list[None])[0] - before == pytest.approx(gains.max(), abs=1e-12)
            continue
        gains = world.worth(user, np.sort(after, 1)) - before
        plain.exchange.weigh_exchanges(*about)
        for (place, c), gain in zip(pairs, gains, strict=True):
            state[5][chosen] = True  # barred, but the one that leaves
            state[5][chosen[place]] = False
            found, leaving = plain.exchange.best_to_leave(c, *about, -np.inf, TIE)
            assert (found, leaving) == (pytest.approx(gain, abs=1e-12), chosen[place])
            assert state[10][2][c] >= found - 1e-12, "no candidate gains more than its bound"
        state[5][chosen] = False
        best, _, _ = plain.exchange.best_by_set(*about, -np.inf, TIE, best_list)
        assert best == pytest.approx(gains.max(), abs=1e-12)
        assert world.worth(user, best_list[None])[0] - before == pytest.approx(best, abs=1e-12)


@settings(max_examples=20)
@WORLDS
def test_greedy_lists_take_the_largest_difference_of_the_definition(
    plain: Any, seed: int, goals: dict[str, float], trade_off: float, history: float, k: int, ties: bool
) -> None:
    world = World(seed, goals, trade_off, history, k, ties)
    for user in range(2):
        items, relevance, chosen = world.of_user(user)
        picked: list[int] = []
        for _ in chosen:
            values = {c: world.worth(user, [[*picked, c]])[0] for c in range(len(items)) if c not in picked}
            picked.append(next(c for c, value in values.items() if value >= max(values.values()) - TIE))
        data, state = world.state(plain, user, items, chosen[:0])
        found = np.zeros(len(picked), np.int64)
        state = plain.optimal._working_memory(len(items), len(picked), len(state[4][0]), data[2], data[5])
        plain.optimal._begin(items, data, state)
        plain.optimal._start_greedily(items, relevance, found, data, state, TIE)
        assert found.tolist() == (picked if data[5][2] else sorted(picked))


@settings(max_examples=20)
@WORLDS
def test_gains_of_many_lists_at_once_are_differences_of_the_definition(
    seed: int, goals: dict[str, float], trade_off: float, history: float, k: int, ties: bool
) -> None:
    world = World(seed, goals, trade_off, history, k, ties)
    terms = world.objective.terms
    if not covers(terms):
        return
    block = _Block.of(world.pool, torch.arange(2), k, terms, _membership(terms, world.pool))
    for user in range(2):
        items, _, chosen = world.of_user(user)
        if len(chosen) < k:  # such lists are not searched
            continue
        pairs = [(gone, c) for gone in chosen for c in range(len(items)) if c not in chosen]
        after = np.array([np.sort(np.where(chosen == gone, c, chosen)) for gone, c in pairs])
        lists, owner = torch.as_tensor(np.tile(chosen, (len(pairs), 1))), torch.full((len(pairs),), user)
        barred = torch.ones((len(pairs), world.pool.depth), dtype=torch.bool)
        barred[torch.arange(len(pairs))[:, None], torch.as_tensor(pairs)] = False
        found = block._best_exchange(lists, owner, barred)
        worth, before = world.worth(user, after), world.worth(user, chosen[None])
        np.testing.assert_allclose(found.gain, worth - before, atol=1e-12)
        assert torch.stack([found.leaving, found.arriving], 1).tolist() == [list(it) for it in pairs]
        np.testing.assert_allclose(block._worth(torch.as_tensor(after), owner), worth, atol=1e-12)
