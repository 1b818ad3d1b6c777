"""Does a tree surrogate with SHAP name true causes of new items? Beside the rule's own reasons, by the same reruns.

    python benchmarks/surrogate.py [--data ml-latest-small ml-1m hetrec2011-lastfm-2k] [--users 200] [--json]

BPRMF, the test part, lists of ten. The surrogate is 100 boosted trees of depth 4 that predict which of a user's
candidates are in the list. It is fitted on one half of the users and explained on the other half. It knows the
relevance, the rank, the popularity, how much of the history an item's categories hold, and for each category whether
the item has it, and whether the base list lacks it. It names the categories with positive SHAP values, the largest
first. It says "history" if the history's value is larger than that of all categories together, else "variety". SHAP
values are those of trees, with the cover of the nodes for what is unknown (Lundberg et al., 2020); they add up to the
prediction, which is checked.

The first named category is true if the new item leaves the list when the whole rule runs again without this category of
the item. The control takes away a category that is not named. A cause is true if the item leaves at price 0 or without
the history. "Found again": the share of the new items that are among the ten best candidates of the surrogate.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from math import factorial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import GradientBoostingClassifier

from exchanges import FullReruns
from harness import Claim, parser, report
from reasons import problem_of
from recprism.budget.path import rule_at
from recprism.budget.problem import Problem
from recprism.explain.reasons.questions import why_newcomers
from recprism.rule import Rule

GOALS, TRADE_OFF = ("subtopic_coverage", "alpha_ndcg"), 0.1375
DATA = ("ml-latest-small", "ml-1m", "hetrec2011-lastfm-2k")
RELEVANCE, RANK, POPULARITY, HISTORY, CATEGORIES = range(5)  # columns; the categories are the last ones
Floats = NDArray[np.float64]


class Leaf(NamedTuple):
    """A leaf: what it adds to the prediction, and what leads to it.

    Attributes:
        value: What it adds.
        bounds: Column -> the values that lead here: above the first number, and at most the second one.
        shares: Column -> the share of the rows that go this way where the column is unknown.
    """

    value: float
    bounds: dict[int, tuple[float, float]]
    shares: dict[int, float]


class Named(NamedTuple):
    """What is said of a new item.

    Attributes:
        first: The first category, or several that decide together.
        every: All categories that are named.
        cause: "price", "history" or nothing.
    """

    first: list[int]
    every: list[int]
    cause: str


def leaves_of(tree: Any, scale: float) -> Iterator[Leaf]:
    """Yield the leaves of a tree of scikit-learn."""

    def below(node: int, bounds: dict[int, tuple[float, float]], shares: dict[int, float]) -> Iterator[Leaf]:
        if tree.children_left[node] < 0:
            yield Leaf(scale * float(tree.value[node, 0, 0]), bounds, shares)
            return
        column, limit = int(tree.feature[node]), float(tree.threshold[node])
        low, high = bounds.get(column, (-np.inf, np.inf))
        for child, own in (
            (tree.children_left[node], (low, min(high, limit))),
            (tree.children_right[node], (max(low, limit), high)),
        ):
            share = float(tree.weighted_n_node_samples[child] / tree.weighted_n_node_samples[node])
            yield from below(child, {**bounds, column: own}, {**shares, column: shares.get(column, 1.0) * share})

    yield from below(0, {}, {})


def shap_values(leaves: list[Leaf], row: Floats) -> Floats:
    """Return what each column adds to the prediction for a row, (n_columns,)."""
    found = np.zeros(len(row))
    for leaf in leaves:
        fits = {column: low < np.float32(row[column]) <= high for column, (low, high) in leaf.bounds.items()}
        m = len(fits)
        for column, leads_here in fits.items():
            sizes = np.ones(1)  # the weight of the leaf, by how many of the other columns are known
            for other, known in fits.items():
                if other != column:
                    sizes = np.convolve(sizes, [leaf.shares[other], float(known)])
            weights = [factorial(size) * factorial(m - size - 1) / factorial(m) for size in range(m)]
            found[column] += leaf.value * (leads_here - leaf.shares[column]) * float(sizes @ weights)
    return found


class Known(NamedTuple):
    """What the surrogate knows of one user's candidates.

    Attributes:
        items: Item numbers, the best first, (n,).
        scores: Their scores, (n,).
        rows: The columns, (n, CATEGORIES + n_categories).
    """

    items: list[int]
    scores: Floats
    rows: Floats

    @property
    def own(self) -> NDArray[np.bool_]:
        """Whether each candidate has each category, (n, n_categories)."""
        return self.rows[:, CATEGORIES:] > 0


def known_of(problem: Problem, depth: int, user: int, boosts: Floats | None = None) -> Known:
    """Return what is known of a user's best candidates."""
    at = np.array([user])
    items, scores = (it[0] for it in problem.candidates_after([], depth, at, boosts))
    items, scores = items[items >= 0], scores[items >= 0].astype(np.float64)
    matrix = problem.categories.dense().astype(np.float64)
    lacked = ~matrix[[it for it in problem.base_lists[user].tolist() if it >= 0]].any(0)
    history = problem.features.intents(problem.seen.n_rows)[at].numpy().astype(np.float64)[0]
    own = (matrix[items] != 0).astype(np.float64)
    columns = [
        (scores - scores.min()) / (np.ptp(scores) or 1.0),
        np.arange(len(items), dtype=np.float64),
        problem.split.train.col_counts[items].astype(np.float64),
        own @ history,
    ]
    return Known(items.tolist(), scores, np.column_stack([*columns, own * (1 + lacked)]))


class Surrogate:
    """Boosted trees that predict which candidates are in a list, with SHAP values.

    Args:
        known: What is known of users' candidates.
        lists: Their lists, item numbers.
    """

    def __init__(self, known: list[Known], lists: list[list[int]]) -> None:
        self._model = GradientBoostingClassifier(n_estimators=100, max_depth=4, random_state=0)
        listed = [np.isin(one.items, items) for one, items in zip(known, lists, strict=True)]
        self._model.fit(np.vstack([it.rows for it in known]), np.concatenate(listed))
        trees = (one.tree_ for (one,) in self._model.estimators_)
        self._leaves = [leaf for tree in trees for leaf in leaves_of(tree, self._model.learning_rate)]
        mean = sum(leaf.value * float(np.prod(list(leaf.shares.values()))) for leaf in self._leaves)
        self._start = mean + float(self._model._raw_predict_init(known[0].rows[:1])[0, 0])

    def margins(self, rows: Floats) -> Floats:
        """Return how sure the trees are that candidates are in the list, (n,)."""
        return np.asarray(self._model.decision_function(rows))

    def values(self, row: Floats) -> Floats:
        """Return the SHAP values of a candidate, (n_columns,); they add up to the prediction."""
        found = shap_values(self._leaves, row)
        np.testing.assert_allclose(self._start + found.sum(), self.margins(row[None])[0], rtol=1e-6, atol=1e-6)
        return found


def judge(problem: Problem, rule: Rule, users: int) -> dict[str, dict[str, list[bool]]]:
    """Return, for the rule's reasons and for the surrogate, the outcomes of each question about new items."""
    known = [known_of(problem, rule.candidates, user, rule.boosts) for user in range(users)]
    lists = [problem.rank(rule, users=np.array([user]))[0][0].tolist() for user in range(1, users, 2)]
    surrogate = Surrogate(known[1::2], lists)
    found: dict[str, dict[str, list[bool]]] = {who: defaultdict(list) for who in ("reasons", "surrogate")}
    numbers = {item: at for at, item in enumerate(problem.split.item_ids.tolist())}
    names, luck = list(problem.categories.names), np.random.default_rng(0)
    for user in range(0, users, 2):
        items, rows = known[user].items, known[user].rows
        best = {items[at] for at in np.argsort(-surrogate.margins(rows))[: rule.k]}
        reruns = FullReruns(problem, rule, user, personal=bool(problem.history.row(user).size))
        for reason in why_newcomers(problem, rule, problem.split.user_ids[user]):
            item = numbers[reason.item]
            at = items.index(item)
            values, own = surrogate.values(rows[at]), np.flatnonzero(known[user].own[at]).tolist()
            found["surrogate"]["found again"].append(item in best)
            claims = {"reasons": _of_reason(reason, names), "surrogate": named_by(values, own)}
            for who, claim in claims.items():
                _note(found[who], reruns, item, own, claim, luck)
    return found


def _of_reason(reason: Any, names: list[str]) -> Named:
    """Return what a reason names; categories that decide together are taken away together."""
    words, every = reason.for_users(), [names.index(it) for it in [*reason.for_variety, *reason.for_history]]
    first = "for_variety" if reason.for_variety else "for_history"
    cause = "price" if "for variety" in words else "history" if "match your history" in words else ""
    return Named(
        every[: len(getattr(reason, first))] if first in reason.together else every[:1],
        every,
        "" if re.search("(is|are) enough", words) else cause,
    )


def named_by(values: Floats, own: list[int]) -> Named:
    """Return what the surrogate names."""
    of_own = values[CATEGORIES:]
    every = sorted((it for it in own if of_own[it] > 0), key=lambda it: -of_own[it])
    variety, history = float(of_own.sum()), float(values[HISTORY])
    return Named(every[:1], every, "" if max(variety, history) <= 0 else "history" if history > variety else "price")


def _note(
    found: dict[str, list[bool]], reruns: FullReruns, item: int, own: list[int], named: Named, luck: np.random.Generator
) -> None:
    """Run the rule again without what is named, and without a category that is not."""
    found["names a category"].append(bool(named.first))
    found["names a cause"].append(bool(named.cause))
    if named.first:
        found["leaves without the named category"].append(not reruns.stays_without(item, named.first))
        rest = [it for it in own if it not in named.every]
        if rest:
            control = [int(luck.choice(rest))]
            found["leaves without one that is not named (control)"].append(not reruns.stays_without(item, control))
    if named.cause:
        there = reruns.at_price_0 if named.cause == "price" else reruns.without_history
        found["leaves without the named cause"].append(item not in there)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data", nargs="+", default=DATA)
    options.add_argument("--users", type=int, default=200, help="half of them are for the fit")
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    claims: list[Claim] = []
    for name in chosen.data:
        problem = problem_of(name, chosen.seed)
        for goal in GOALS:
            found = judge(problem, rule_at(problem, goal, TRADE_OFF), chosen.users)
            claims.append(Claim(f"{name}, {goal}: new items", len(found["reasons"]["names a cause"]), None, "higher"))
            for who, outcomes in found.items():
                for question, some in outcomes.items():
                    share = round(100 * float(np.mean(some)), 1)
                    claims.append(Claim(f"{name}, {goal}, {who}: {question} (% of {len(some)})", share, None))
    report(claims, as_json=chosen.json, packages=("scikit-learn",))


if __name__ == "__main__":
    main()
