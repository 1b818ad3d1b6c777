"""How many new items of a method leave its list without one of their categories, and does a surrogate find which one?

    python benchmarks/ceilings.py [--data ml-latest-small ml-1m hetrec2011-lastfm-2k] [--users 200] [--json]

BPRMF, the test part, lists of ten from one pool for all methods: our rule for two goals, xQuAD, MMR and DPP on
categories, and calibrated lists. A new item is one that the list by relevance alone lacks.

Each category of a new item is taken away from it, one at a time, and the method makes the list again. The ceiling is
the share of the new items that leave the list without at least one of them: no explanation that names one category can
be right more often. Beside it, as shares of the same new items: those that leave without the category that a tree
surrogate with SHAP names first (benchmarks/surrogate.py, fitted on the lists of this method), and those that leave
without a random category.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from faithfulness import RIVALS
from harness import Claim, parser, report
from reasons import problem_of
from recprism.budget.path import rule_at
from recprism.budget.problem import Problem
from recprism.rule import Features, Reranker, Rule
from surrogate import DATA, GOALS, TRADE_OFF, Known, Surrogate, known_of, named_by

CEILING, NAMED, RANDOM = "some category", "the category that the surrogate names first", "a random category"


class Method:
    """Makes the lists of one user at a time.

    Args:
        problem: What is served.
        reranker: The method.
        k: Length of the lists.
    """

    def __init__(self, problem: Problem, reranker: Reranker, k: int) -> None:
        self._intents, self._reranker, self._k = problem.features.intents(problem.seen.n_rows), reranker, k

    def list(self, user: int, known: Known, at: int = -1, without: int = -1) -> list[int]:
        """Return the positions of the list; the candidate at a position lacks a category."""
        own = known.own.astype(np.float64)
        if at >= 0:
            own[at, without] = 0.0
        features = Features(categories=own, user_categories=self._intents[[user]])
        found = self._reranker(np.arange(len(own))[None], known.scores[None], self._k, features=features)
        return [it for it in found[0].tolist() if it >= 0]


def check_lists(problem: Problem, rule: Rule, known: list[Known]) -> None:
    """Make sure that the method makes the lists of the rule: it sees the candidates of one user alone."""
    method = Method(problem, rule.reranker(), rule.k)
    for user, one in enumerate(known):
        found = [one.items[at] for at in method.list(user, one)]
        np.testing.assert_array_equal(found, problem.rank(rule, users=np.array([user]))[0][0])


def judge(problem: Problem, reranker: Reranker, known: list[Known], k: int) -> dict[str, list[bool]]:
    """Return for each question whether each new item leaves; users with odd numbers are for the fit."""
    method, luck = Method(problem, reranker, k), np.random.default_rng(0)
    lists = [method.list(user, one) for user, one in enumerate(known)]
    named = [[one.items[at] for at in some] for one, some in zip(known, lists, strict=True)]
    surrogate, found = Surrogate(known[1::2], named[1::2]), defaultdict[str, list[bool]](list)
    for user in range(0, len(known), 2):
        one = known[user]
        for at in (it for it in lists[user] if it >= k):  # the list by relevance alone has the best k
            own = np.flatnonzero(one.own[at]).tolist()
            leaves = {it: at not in method.list(user, one, at, it) for it in own}
            first = named_by(surrogate.values(one.rows[at]), own).first
            found[CEILING].append(any(leaves.values()))
            found[NAMED].append(bool(first) and leaves[first[0]])
            found[RANDOM].append(bool(own) and leaves[int(luck.choice(own))])
    return found


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data", nargs="+", default=DATA)
    options.add_argument("--users", type=int, default=200, help="half of them are for the fit")
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    claims: list[Claim] = []
    for name in chosen.data:
        problem = problem_of(name, chosen.seed)
        rules = {goal: rule_at(problem, goal, TRADE_OFF) for goal in GOALS}
        rivals = {f"{name}, trade-off {it.trade_off:g}": it for name, it in RIVALS.items() if "vectors" not in name}
        k, depth = rules[GOALS[0]].k, max(it.candidates for it in rules.values())
        known = [known_of(problem, depth, user) for user in range(chosen.users)]
        for rule in rules.values():
            check_lists(problem, rule, known)
        for words, method in {**{f"ours, {goal}": it.reranker() for goal, it in rules.items()}, **rivals}.items():
            found = judge(problem, method, known, k)
            claims.append(Claim(f"{name}, {words}: new items", len(found[CEILING]), None, "higher"))
            for question, some in found.items():
                share = round(100 * float(np.mean(some)), 1)
                claims.append(Claim(f"{name}, {words}: leave without {question} (%)", share, None))
    report(claims, as_json=chosen.json, packages=("scikit-learn",))


if __name__ == "__main__":
    main()
