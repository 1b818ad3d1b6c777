"""Exchanges of one item, valued by plain loops from the definitions: what the words of a reason are checked against.

Nothing here is shared with the kernels of the rule. An exchange puts the item that was replaced back into its place.
The other places stay as they are.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import replace
from itertools import combinations
from math import log1p, log2

import numpy as np

from recprism.budget.problem import Problem
from recprism.rule.features import Features
from recprism.rule.kernels.prices import SEARCHED
from recprism.rule.rule import Rule

TIED = 1e-10
CLAUSES = re.compile(
    r"(?:(.*?), which the base list lacked(?:, and |$))?(?:(.*?), which the rest of your list lacks(?:, and |$))?(.*)"
)
NONE: frozenset[int] = frozenset()


class Exchanges:
    """One user's list without pins, under goals that look at one user alone.

    Args:
        problem: What is served.
        rule: What made the list, with the units of its goals.
        user: Row number of the user.
        items: The list, item numbers in order.
    """

    def __init__(self, problem: Problem, rule: Rule, user: int, items: list[int]) -> None:
        self.rule, self.items, self.t = rule, items, float(rule.trade_off)
        self.base = [it for it in problem.base_lists[user].tolist() if it >= 0]
        self.names = list(problem.categories.names)
        self.matrix = problem.categories.dense().astype(np.float64)
        self.problem = problem
        ranked, scores = (it[0] for it in problem.candidates_after([], rule.candidates, np.array([user]), rule.boosts))
        real = ranked >= 0
        low, high = scores[real].min(), scores[real].max()
        self.rank = {item: at for at, item in enumerate(ranked[real].tolist())}
        scaled = (scores[real] - low) / (high - low if high > low else 1.0)
        self.relevance = dict(zip(ranked[real].tolist(), scaled.tolist(), strict=True))
        boosts = np.zeros(problem.base.n_items) if rule.boosts is None else rule.boosts
        span = float(high - low) or 1.0
        self.boost = {item: float(boosts[item]) / span for item in self.relevance}
        n = len(self.names)
        amount = np.zeros(n)
        for item in problem.history.row(user).tolist():
            amount += self.matrix[item] / max(self.matrix[item].sum(), 1e-300)
        self.weights = amount / amount.sum() if amount.sum() > 0 else np.full(n, 1 / max(n, 1))
        self.personal = rule.history_weight > 0 and amount.sum() > 0

    def has(self, item: int) -> set[int]:
        """Return the categories of an item."""
        return set(np.flatnonzero(self.matrix[item]).tolist())

    def value(
        self,
        items: list[int],
        *,
        price: bool = True,
        history: bool = True,
        bare: int = -1,
        hidden: Collection[int] = NONE,
    ) -> float:
        """Value a list.

        Args:
            items: Item numbers in order.
            price: Whether the goals count.
            history: Whether the history counts.
            bare: Place of an item without the hidden categories.
            hidden: These categories.
        """
        k, t = len(items), self.t
        own = [self.has(item) - (set(hidden) if at == bare else set()) for at, item in enumerate(items)]
        discount = [1 / log2(at + 2) for at in range(k)]
        total = sum((1 - t) / sum(discount) * self.relevance[item] * discount[at] for at, item in enumerate(items))
        if history and self.rule.history_weight > 0:
            times = Counter(category for some in own for category in some)
            filled = sum(self.weights[category] * log1p(n) for category, n in times.items())
            total += (1 - t) * self.rule.history_weight * filled / log1p(k)
        if price:
            for goal, weight in self.rule.goal.searched.items():
                total += t * weight * self.rule.units[goal] * self._goal(goal, items, own, bare, hidden)
        return float(total)

    def _goal(self, goal: str, items: list[int], own: list[set[int]], bare: int, hidden: Collection[int]) -> float:
        if goal == "subtopic_coverage":
            return float(len(set().union(*own)))
        if goal in ("ilad", "ilad_subtopics"):
            return self._distances(goal, items, bare, hidden)
        term, total = SEARCHED[goal], 0.0
        left: defaultdict[int, float] = defaultdict(lambda: 1.0)
        for at, (item, some) in enumerate(zip(items, own, strict=True)):
            gain = self.relevance[item] if term.by_relevance else 1.0
            for category in some:
                total += gain * left[category] / (at + 1 if term.by_place else log2(at + 2))
                left[category] *= 1 - gain / 2
        return total

    def _distances(self, goal: str, items: list[int], bare: int, hidden: Collection[int]) -> float:
        by_categories = goal == "ilad_subtopics"
        rows = np.array((self.matrix if by_categories else self.problem.factors.item)[items], np.float64)
        if by_categories and bare >= 0:
            rows[bare, list(hidden)] = 0.0
        lengths = np.linalg.norm(rows, axis=1)
        total = 0.0
        for a, b in combinations(range(len(items)), 2):
            if lengths[a] > 0 and lengths[b] > 0:
                total += 1 - float(rows[a] @ rows[b]) / (lengths[a] * lengths[b])
        return total

    def margin(
        self,
        place: int,
        other: int,
        *,
        price: bool = True,
        history: bool = True,
        boost: bool = True,
        hidden: Collection[int] = NONE,
    ) -> float:
        """Return the value of the list minus that with another item in one place.

        The arguments are those of ``value``; without ``boost``, the item at the place has none.

        Lists whose order has no value stay in the order of rank.
        """
        there = [*self.items[:place], other, *self.items[place + 1 :]]
        if all(SEARCHED[goal].price != SEARCHED["alpha_ndcg"].price for goal in self.rule.goal.searched):
            there.sort(key=self.rank.__getitem__)
        own = self.value(self.items, price=price, history=history, bare=place, hidden=hidden)
        if not boost:
            discount = [1 / log2(at + 2) for at in range(len(self.items))]
            own -= (1 - self.t) / sum(discount) * self.boost[self.items[place]] * discount[place]
        return own - self.value(there, price=price, history=history)

    def is_lost(self, place: int, other: int, *, without: str = "", hidden: Collection[int] = NONE) -> bool:
        """Return whether the item at a place loses the exchange.

        Args:
            place: The place, from 0.
            other: The item that it replaced.
            without: "price", "history" or "boost": what does not count.
            hidden: Categories that the item does not have.
        """
        price = "price" not in without
        history = "history" not in without and (price or self.personal)  # an even history is variety
        margin = self.margin(place, other, price=price, history=history, boost=without != "boost", hidden=hidden)
        worse = self.rank[other] < self.rank[self.items[place]]
        return margin < -TIED or (margin <= TIED and worse)

    # -- words --------------------------------------------------------------------------------------------------------

    def wrong(self, words: str, place: int, other: int) -> list[str]:
        """Return which claims of a sentence about a newcomer its exchange refutes.

        Args:
            words: ``for_users`` of a reason.
            place: Place of the newcomer, from 0.
            other: The item that it replaced.
        """
        claims = Claims(words, self.names)
        found: list[str] = []
        if claims.none_alone:  # a claim about the rule run again, see ``FullReruns``
            return found
        if self.is_lost(place, other):  # other places can be why it is there
            return ["it claims a cause for an exchange that is lost"] if any(claims.here.values()) else []
        for what, claimed in claims.here.items():
            found += [f"wrong: {what}"] if claimed and not self.is_lost(place, other, without=what) else []
        for what, claimed in claims.elsewhere.items():
            found += [f"decides here: {what}"] if claimed and self.is_lost(place, other, without=what) else []
        found += ["wrong: history"] if claims.history and not self.personal else []
        found += self._wrong_names(claims, place, other)
        return found

    def _wrong_names(self, claims: Claims, place: int, other: int) -> list[str]:
        found = []
        for some, together in ((claims.for_variety, claims.together), (claims.for_history, claims.history_together)):
            alone = [self.is_lost(place, other, hidden=[it]) for it in some]
            if not set(some) <= self.has(self.items[place]):
                found.append("a category that the item has not")
            elif together and (any(alone) or not self.is_lost(place, other, hidden=some)):
                found.append("not together")
            elif not together and not all(alone):
                found.append("a category that is not needed")
        of_base = set().union(*map(self.has, self.base))
        rest = set().union(*(self.has(it) for at, it in enumerate(self.items) if at != place))
        found += ["the base list had the category"] if of_base & set(claims.base_lacked) else []
        found += ["the rest of the list has the category"] if rest & set(claims.rest_lacks) else []
        return found


class Claims:
    """What a sentence for users claims about a newcomer; categories by number.

    Args:
        words: The sentence.
        names: Names of the categories, without commas and parentheses.
    """

    def __init__(self, words: str, names: list[str]) -> None:
        self.none_alone = bool(re.search("either alone is enough|any two of them are enough", words))
        elsewhere = re.search(r"because other places changed ([^;]*)", words)
        own, moved = (words.replace(elsewhere[0], ""), elsewhere[1]) if elsewhere else (words, "")
        said = {"price": "for variety", "history": "to match your history", "boost": "boost"}
        self.here = {what: it in own for what, it in said.items()}
        self.elsewhere = {what: it in moved for what, it in said.items()}
        self.history, words = self.here["history"], own
        about = re.search(r"for variety(?:: (.*?)\.$| \((.*?)\))", words)
        detail = (about[1] or about[2]) if about else ""
        self.together = bool(re.search(r" together(,|$)", detail))
        if re.search("differs more|repeat less|no other list", detail):
            detail = ""
        lacked, lacks, other = (_named(it or "", names) for it in CLAUSES.fullmatch(detail).groups())  # type: ignore[union-attr]
        self.base_lacked, self.rest_lacks, self.for_variety = lacked, lacks, [*lacked, *lacks, *other]
        about = re.search(r"match your history(?:: (.*?)\.$| \((.*?)\))", words)
        detail = (about[1] or about[2]) if about else ""
        self.history_together = detail.endswith(" together")
        self.for_history = _named(detail, names)


def _named(words: str, names: list[str]) -> list[int]:
    """Return the numbers of the categories that words name."""
    said = [it for it in re.split(", | and ", words.removesuffix(" together")) if it]
    return [names.index(it) for it in said]


class FullReruns:
    """One user's list, made again by the rule from data without a cause.

    Args:
        problem: What is served, with at most pins and shares as constraints.
        rule: What made the list.
        user: Row number of the user.
        personal: Whether the rule weighs a history of the user.
    """

    def __init__(self, problem: Problem, rule: Rule, user: int, *, personal: bool) -> None:
        self.problem, self.rule, self.user, self.personal = problem, replace(rule, limits={}), user, personal
        history = replace(self.rule, history_weight=0.0)
        self.at_price_0 = self._list(self.rule.at(0.0) if personal else history.at(0.0))
        self.without_history = self._list(history)

    def _list(self, rule: Rule) -> list[int]:
        found: list[int] = self.problem.rank(rule, users=np.array([self.user]))[0][0].tolist()
        return found

    def stays_without(self, item: int, categories: Collection[int]) -> bool:
        """Return whether the rule still shows an item that lacks these categories; constraints see the real one."""
        matrix, row = self.problem.categories.dense().astype(np.float64), np.array([self.user])
        matrix[item, list(categories)] = 0
        features = Features(
            vectors=self.problem.item_vectors,
            categories=matrix,
            user_categories=self.problem.features.intents(self.problem.seen.n_rows)[row],
        )
        items, scores = self.problem.candidates_after([], self.rule.candidates, row, self.rule.boosts)
        method = self.problem.constrained(self.rule.reranker(), users=row, k=self.rule.k)
        pool, pins = method.pool_and_pins(items, scores, self.rule.k, features)
        chosen = method.inner.choose(pool, int((pins < 0).sum()), features).numpy()
        found = method.repaired(pool, chosen, pins, self.problem.features.of_users(row))[0]
        return item in pool.items[0].numpy()[found[found >= 0]].tolist()

    def wrong(self, claims: Claims, item: int) -> list[str]:
        """Return which claims of a sentence about a newcomer the rule run again refutes.

        Args:
            claims: What ``for_users`` of its reason claims.
            item: Its number.
        """
        stays = {"price": item in self.at_price_0}
        if self.personal:
            stays["history"] = item in self.without_history
        if self.rule.boosts is not None and self.rule.boosts[item] > 0:
            boosts = np.where(np.arange(len(self.rule.boosts)) == item, 0.0, self.rule.boosts)
            stays["boost"] = item in self._list(replace(self.rule, boosts=boosts))
        if claims.none_alone:
            return [f"{what} alone decides" for what, it in stays.items() if not it]
        said = {what: claims.here[what] or claims.elsewhere[what] for what in claims.here}
        found = [f"there without: {what}" for what, it in said.items() if it and stays.get(what, True)]
        found += [f"silent: leaves without: {what}" for what, it in stays.items() if not it and not said[what]]
        for some, together in ((claims.for_variety, claims.together), (claims.for_history, claims.history_together)):
            sets = [some] if together else [[it] for it in some]
            if any(self.stays_without(item, it) for it in sets if it):
                found.append("there without the categories")
        return found
