"""Exposure goals: one boost per item, added to its score for every user, so that the item is shown often enough.

Let r be the mean range of a user's scores, and accuracy the mean of score / r over the places of all lists. At a
trade-off t, the boosts maximise

    (1 - t) * accuracy + t * weight * goal.

One more showing of an item is worth what it adds to the goal. In units of r, the m-th showing may therefore cost a
boost of at most t / (1 - t) * weight times

- ``shown_often``: mean exposure / n for each of n showings. Fewer than n showings count for nothing, so an item that
  would need a larger boost gets none. The other items are shown n times by the lists that lose the least score.
- ``gini``: 2 * (share of items that the base lists show at least m times - the same at the mean exposure).
- ``exposure_entropy``: log(mean exposure / m) / log(number of items).

Items that are shown more often than the mean are never boosted for Gini and entropy. The boosts are prices of an
auction: they rise until every item is shown as often as it is worth, and then fall as far as the lists allow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from recprism.common.checks import COUNT, WEIGHT
from recprism.common.threads import share_work
from recprism.errors import InputError
from recprism.metrics.catalogue import exposure_entropy, gini, shown_often
from recprism.models import Factors
from recprism.models.factors import COSINE
from recprism.rule.features import Features
from recprism.rule.goal import TERMS, Goal, GoalTerm, term_named
from recprism.rule.kernels.boosts import margins, respond, serve, serve_in_turn, touch
from recprism.rule.list_search import ListSearch, terms_of
from recprism.rule.pool import Pool

STEP = 1e-3  # smallest raise of a boost, as a share of the score range; also the distance to a tie
ROUNDS = 400  # at each price
LEVELS_PER_DOUBLING = (
    2  # prices at which boosts are found, so that a higher price starts from the boosts of a lower one
)
LOWEST, HIGHEST = 2.0**-9, 2.0**6  # prices, in score ranges
RUNS_OF_THE_RULE = 4
USERS_AT_ONCE = 256
ITEMS_AT_ONCE = 64
NEAR = 4  # lists in which an item's needs are followed, per showing that can be worth something

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ItemBoosts:
    """One number per item that is added to its score for every user.

    Attributes:
        goal: The exposure goal.
        wanted: How often an item is to be shown: n of ``shown_often``; None for Gini and entropy.
        boost: ``(n_items,)`` float64 in score units, never negative.
        before: ``(n_items,)`` number of lists that show the item without boosts.
        after: ``(n_items,)`` number of lists that show it with all boosts.
        score_range: Mean over users of the range of their scores.
        n_users: Number of lists.
    """

    goal: str
    wanted: int | None
    boost: Floats = field(repr=False)
    before: Counts = field(repr=False)
    after: Counts = field(repr=False)
    score_range: float
    n_users: int

    @property
    def items(self) -> NDArray[np.int64]:
        """Row numbers of the boosted items, the largest boost first."""
        order = np.argsort(-self.boost, kind="stable")
        return order[: int((self.boost > 0).sum())]

    def applied_to(self, base: Factors) -> Factors:
        """Return the model with the boosts in its item bias, so that an inner product serves them."""
        return boosted(base, self.boost)


def ranked_with_boosts(items: NDArray[np.int64], scores: Floats, boost: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Add boosts to the scores of candidates, ``(n_users, n)`` each, and return both with the best first."""
    raised = np.where(items >= 0, scores + boost[items], -np.inf)
    order = np.argsort(-raised, axis=1, kind="stable")
    return np.take_along_axis(items, order, 1), np.take_along_axis(raised, order, 1)


def first_in_own_order(items: NDArray[np.int64], raised: Floats, boost: Floats, k: int) -> NDArray[np.int64]:
    """Put the first k candidates in the order of their scores without boosts: exposure does not depend on the order.

    Args:
        items: ``(n_users, n)`` candidates, the largest boosted score first.
        raised: ``(n_users, n)`` their boosted scores.
        boost: ``(n_items,)`` the boosts.
        k: Length of the lists.
    """
    chosen = items[:, :k]
    own = np.where(chosen >= 0, raised[:, :k] - boost[chosen], -np.inf)
    order = np.argsort(-own, axis=1, kind="stable")
    return np.concatenate([np.take_along_axis(chosen, order, 1), items[:, k:]], 1)


def boosted(base: Factors, boost: Floats) -> Factors:
    """Return the model with a boost per item, (n_items,), in its item bias.

    Raises:
        InputError: If there are boosts for another number of items, or the model ranks by cosine.
    """
    if base.n_items != len(boost):
        raise InputError(f"there are boosts for {len(boost)} items, and the model has {base.n_items}")
    if base.metric == COSINE:
        raise InputError(
            "boosts are added to scores and this model ranks by cosine; choose --form rule or user-vectors"
        )
    old = np.zeros(base.n_items, np.float32) if base.item_bias is None else base.item_bias
    return replace(base, item_bias=(old + boost).astype(np.float32))


class BoostSearch:
    """Finds the boosts of an exposure goal, for all users together, at any trade-off.

    Without a rule, lists are the k largest boosted scores. A larger trade-off then never gives a worse value of the
    goal, and trade-offs share their work. With a rule, lists are the rule's, run on boosted scores. The search runs it
    several times and returns the best boosts that it saw.

    Args:
        candidates: ``(n_users, n)`` item numbers, the best first; -1 in empty places.
        scores: ``(n_users, n)`` scores of the base model.
        k: Length of the lists.
        goal: shown_often, shown_N_times, gini or exposure_entropy.
        n_items: Size of the catalogue.
        weight: Of the goal, as in the goals of a rule.
        range_depth: How many candidates define a user's range of scores; a rule looks at as many.

    Raises:
        InputError: If the goal is no exposure goal.
    """

    def __init__(
        self,
        candidates: ArrayLike,
        scores: ArrayLike,
        k: int,
        *,
        goal: str,
        n_items: int,
        weight: float = 1.0,
        range_depth: int = 100,
    ) -> None:
        term = exposure_term(goal)
        self._goal, self._wanted, self._weight = term.name, term.showings, weight
        self._value = _value(self._goal, self._wanted)
        COUNT.read("k", k)
        items = np.ascontiguousarray(candidates, np.int64)
        self._market = _Market(items, np.asarray(scores, np.float64), k, n_items, range_depth)
        self._best: list[tuple[Floats, Counts]] = []  # boosts and exposure without a price, and up to each level

    def at(self, trade_off: float, rule: ListSearch | None = None, features: Features | None = None) -> ItemBoosts:
        """Find the boosts at a trade-off.

        Args:
            trade_off: From 0, no boosts, to 1, exposure alone.
            rule: Makes the lists. Its goals may be subtopic_coverage, ilad and ilad_subtopics.
            features: Data on items and users for the rule.

        Raises:
            InputError: If the rule has another kind of goal.
        """
        price = self._price(trade_off)
        if rule is None:
            return self._for_scores(price)
        return self._for_rule(price, rule, Features() if features is None else features)

    def greedy_lists(self, trade_off: float) -> Counts:
        """Return ``(n_users, k)`` greedy lists for the same objective: users are served one after another.

        A list has the candidates with the largest score plus what one more showing is worth. Nothing is revised.
        """
        market = self._market
        no_boosts = np.zeros(market.n_items)
        worth = market.worth(self._goal, self._wanted, market.serve(no_boosts), self._price(trade_off))
        touched, boost = np.ones(len(market.items), np.bool_), np.full(market.n_items, worth[0])
        serve_in_turn(market.items, market.scores, worth, boost, touched, market.lists, market.bars)
        return market.lists.copy()

    def _price(self, trade_off: float) -> float:
        WEIGHT.read("trade_off", trade_off)
        return min(self._weight * trade_off / (1 - trade_off) if trade_off < 1 else HIGHEST, HIGHEST)

    def _for_scores(self, price: float) -> ItemBoosts:
        """Find boosts at rising prices; the best value so far is kept, so that a higher price never gives a worse one.

        The levels do not depend on the price, so a level that was reached before is not computed again.
        """
        market, levels = self._market, _levels(price)
        if not self._best:
            self._best.append((np.zeros(market.n_items), market.serve(np.zeros(market.n_items))))
        before = self._best[0][1]
        for level in levels[len(self._best) - 1 :]:
            worth = market.worth(self._goal, self._wanted, before, level)
            boost, shown = market.settle(self._best[-1][0], worth, whole=self._wanted is not None)
            better = self._value(shown) > self._value(self._best[-1][1])
            self._best.append((boost, shown) if better else self._best[-1])
        best, after = self._best[len(levels)]
        return self._found(best, before, after)

    def _for_rule(self, price: float, rule: ListSearch, features: Features) -> ItemBoosts:
        """Alternate between the rule on boosted scores, and boosts for scores that hold the rule's lists.

        A list of the rule is the k largest of its margins (see ``margins``). Margins without boosts are scores, for
        which boosts can be found as for any scores. They are exact near the lists of the rule only, so the rule runs
        again.
        """
        Goal.parse({**rule.goals, self._goal: 1.0})  # refuses goals that do not combine
        market, boost = self._market, np.zeros(self._market.n_items)
        before, scores = _run(market, boost, rule, features)
        worth = market.worth(self._goal, self._wanted, before, price)
        best, after = boost, before
        for _ in range(RUNS_OF_THE_RULE if price >= LOWEST else 0):
            no_boosts = np.zeros(market.n_items)
            boost, _ = market.with_scores(scores).settle(no_boosts, worth, whole=self._wanted is not None)
            shown, scores = _run(market, boost, rule, features)
            if self._value(shown) > self._value(after):
                best, after = boost, shown
        return self._found(best, before, after)

    def _found(self, boost: Floats, before: Counts, after: Counts) -> ItemBoosts:
        market = self._market
        return ItemBoosts(self._goal, self._wanted, boost, before, after, market.score_range, len(market.items))


def exposure_term(name: str) -> GoalTerm:
    """Return a goal that boosts reach.

    Raises:
        InputError: It is another goal.
    """
    term = term_named(name)
    if not term.is_exposure:
        known = ", ".join(it.name for it in TERMS.values() if it.is_exposure)
        raise InputError(f"{name!r} is no exposure goal; choose {known} or shown_N_times")
    return term


class _Market:
    """Users' places, for which items compete by their boosts.

    Args:
        items: ``(n_users, n)`` candidates.
        scores: ``(n_users, n)`` scores without boosts.
        k: Length of the lists.
        n_items: Size of the catalogue.
        range_depth: How many candidates define a user's range of scores; a rule looks at as many.
    """

    def __init__(self, items: Counts, scores: Floats, k: int, n_items: int, range_depth: int) -> None:
        self.items, self.k, self.n_items, self.depth = items, k, n_items, range_depth
        self.scores = np.ascontiguousarray(np.where(items >= 0, scores, -np.inf))
        real = self.scores[:, :range_depth]
        lowest = np.where(np.isfinite(real), real, np.inf).min(1, initial=np.inf)
        spans = np.where(np.isfinite(lowest), real.max(1, initial=-np.inf) - lowest, 0.0)
        self.score_range = float(spans.mean()) if len(spans) and spans.mean() > 0 else 1.0
        flat = items.ravel()
        order = np.argsort(flat, kind="stable")
        self.entries = order[np.searchsorted(flat[order], 0) :]  # places in the flat candidates, by item
        self.users = (self.entries // max(items.shape[1], 1)).astype(np.int32)
        self.starts = np.concatenate([[0], np.cumsum(np.bincount(flat[self.entries], minlength=n_items))])
        self.by_item = self.scores.ravel()[self.entries]
        self.lists = np.empty((len(items), k), np.int64)
        self.bars = np.empty((len(items), 2))

    def with_scores(self, scores: Floats) -> _Market:
        """Return the same places with other scores; the score range stays."""
        other = object.__new__(_Market)
        other.__dict__.update(self.__dict__, scores=scores, by_item=scores.ravel()[self.entries])
        return other

    def serve(self, boost: Floats) -> Counts:
        """Make all lists, and return how often each item is shown."""
        return self._serve(boost, np.ones(len(self.items), np.bool_))

    def _serve(self, boost: Floats, touched: NDArray[np.bool_]) -> Counts:
        """Make the lists of touched users."""

        def work(first: int, last: int) -> None:
            serve(first, last, self.items, self.scores, boost, touched, self.lists, self.bars)

        share_work(work, len(self.items), USERS_AT_ONCE)
        return np.bincount(self.lists[self.lists >= 0], minlength=self.n_items)

    def settle(self, boost: Floats, worth: Floats, *, whole: bool) -> tuple[Floats, Counts]:
        """Raise boosts until every item is shown as often as it is worth, then lower them as far as lists allow."""
        given_up = np.zeros(self.n_items, np.bool_)
        for rising, rounds in ((True, ROUNDS), (False, ROUNDS // 10)):  # lists are right before boosts are smallest
            touched = np.ones(len(self.items), np.bool_)
            near = np.full((self.n_items, (NEAR if rising else 1) * len(worth)), -1)
            nearest = np.full(self.n_items, -np.inf)
            for _ in range(rounds):
                shown = self._serve(boost, touched)
                new = self._responses(boost, shown, worth, whole, rising, given_up, near, nearest)
                if np.array_equal(new, boost):
                    break
                self._touch(boost, new, touched)
                if (new < boost).any():  # needs may fall
                    nearest[:] = -np.inf
                boost = new
            if rising and whole:  # what is still contested after all rounds is not boosted
                boost = np.where(given_up | (shown < len(worth)), 0.0, boost)
        return boost, self.serve(boost)

    def _touch(self, boost: Floats, new: Floats, touched: NDArray[np.bool_]) -> None:
        def work(first: int, last: int) -> None:
            touch(first, last, self.starts, self.users, self.by_item, self.bars, boost, new, touched)

        share_work(work, self.n_items, ITEMS_AT_ONCE)

    def _responses(self, boost: Floats, shown: Counts, worth: Floats, whole: bool, rising: bool, *state: Any) -> Floats:
        new = np.empty_like(boost)
        more = shown, worth, whole, STEP * self.score_range, rising, *state, boost, new

        def work(first: int, last: int) -> None:
            respond(first, last, self.starts, self.users, self.by_item, self.bars, *more)

        share_work(work, self.n_items, ITEMS_AT_ONCE)
        return new

    def worth(self, goal: str, wanted: int | None, before: Counts, price: float) -> Floats:
        """Return the largest boost that the m-th showing of an item is worth, in score units; see the module."""
        mean, unit = before.sum() / max(self.n_items, 1), price * self.score_range
        if wanted is not None:
            return np.full(wanted, unit * mean / wanted)
        times = np.arange(1, max(int(mean), 1) + 1)
        if goal == "exposure_entropy":
            return np.asarray(unit * np.log(np.maximum(mean / times, 1)) / np.log(max(self.n_items, 2)))
        shares = (before[None, :] >= times[:, None]).mean(1)
        return np.asarray(2 * unit * np.maximum(shares - (before >= mean).mean(), 0))


def _levels(price: float) -> Floats:
    """Return the prices up to this one; they do not depend on it, except for the number of them."""
    number = int(np.floor(np.log2(max(price, LOWEST / 2) / LOWEST) * LEVELS_PER_DOUBLING + 1e-9)) + 1
    return LOWEST * 2 ** (np.arange(max(number, 0)) / LEVELS_PER_DOUBLING)


def _value(goal: str, wanted: int | None) -> Callable[[Counts], float]:
    """Return the goal as a function of exposure; more is better."""
    if wanted is not None:
        return lambda shown: float(shown_often(torch.from_numpy(shown), wanted))
    if goal == "gini":
        return lambda shown: -float(gini(torch.from_numpy(shown)))
    return lambda shown: float(exposure_entropy(torch.from_numpy(shown)))


def _run(market: _Market, boost: Floats, rule: ListSearch, features: Features) -> tuple[Counts, Floats]:
    """Run the rule on boosted scores; return exposure, and unboosted scores whose k largest are its lists."""
    boosted = np.where(market.items >= 0, market.scores + boost[market.items], -np.inf)
    order = np.argsort(-boosted, axis=1, kind="stable")
    items = np.take_along_axis(market.items, order, 1)
    values = np.take_along_axis(boosted, order, 1)
    pool = Pool.of(items[:, : market.depth], values[:, : market.depth], torch.device("cpu"), market.n_items)
    pool = pool.at_least(market.k)
    positions = np.sort(rule.choose(pool, market.k, features).numpy(), 1)
    chosen = np.take_along_axis(items, np.maximum(positions, 0), 1)[positions >= 0]
    shown = np.bincount(chosen, minlength=market.n_items)
    lows = values[np.arange(len(items)), np.maximum(pool.lengths.numpy() - 1, 0)]
    spans = np.where(values[:, 0] > lows, values[:, 0] - lows, 1.0)[:, None]
    relevance = np.where(items >= 0, (values - lows[:, None]) / spans, -np.inf)
    found = np.full(items.shape, -np.inf)
    terms = terms_of(rule, pool, market.k, features)
    lengths = (items >= 0).sum(1)
    more = terms.arrays(shown)

    def work(first: int, last: int) -> None:
        args = items, relevance, lengths, positions, *more
        margins(first, last, *args, found)

    share_work(work, len(items), USERS_AT_ONCE)
    scores = np.empty_like(found)
    np.put_along_axis(scores, order, np.where(items >= 0, found * spans - boost[items], -np.inf), 1)
    return shown, scores
