"""Are the reasons of new items true? Each claim against interventions, before and after.

    python benchmarks/reasons.py [--data ml-latest-small ml-1m hetrec2011-lastfm-2k] [--users 200] [--json]

BPRMF, the test part, lists of ten. "Exchange": the item that was replaced comes back into the place, and the other
places stay. Plain loops value both lists (``recprism.testing``). "Rerun": the rule makes the whole list again at price
0, without the history, or with an item that lacks the named categories. A claim is wrong if the item is still there. A
sentence is silent if the item leaves for a cause that it does not name. "Before": the strongest part of the difference
names the cause, and every category that no other item of the list has is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

import recprism as rp
from harness import Claim, parser, report
from recprism.budget.path import rule_at
from recprism.budget.problem import Problem
from recprism.explain import Reason
from recprism.explain.reasons.questions import why_newcomers
from recprism.rule import Features, Rule
from recprism.rule.pool import Pool
from recprism.testing._exchanges import Claims, Exchanges

GOALS = {"subtopic_coverage": 0.1375, "alpha_ndcg": 0.1375, "subtopic_coverage+ilad_subtopics": 0.1375}
DATA = ("ml-latest-small", "ml-1m", "hetrec2011-lastfm-2k")


class World:
    """The lists of one rule for some users, and the same rule run again."""

    def __init__(self, problem: Problem, rule: Rule, users: range) -> None:
        self.problem, self.rule, self.users = problem, rule, np.array(users)
        self.ids = {item: at for at, item in enumerate(problem.split.item_ids.tolist())}
        self.lists = self._run(rule)
        self.reruns = {
            "price": self._run(rule.at(0.0)),
            "history": self._run(replace(rule, history_weight=0.0)),
        }
        self.matrix = problem.categories.dense().astype(np.float64)

    def _run(self, rule: Rule) -> np.ndarray:
        return self.problem.rank(rule, users=self.users)[0]

    def newcomers(self) -> Iterator[tuple[int, Reason, Exchanges, int]]:
        """Row of the user, reason, list, and number of the item that was replaced."""
        for row, user in enumerate(self.users.tolist()):
            exchanges = Exchanges(self.problem, self.rule, user, self.lists[row].tolist())
            for reason in why_newcomers(self.problem, self.rule, self.problem.split.user_ids[user]):
                if reason.replaced is not None:
                    yield row, reason, exchanges, self.ids[reason.replaced.item]

    def stays_without(self, row: int, item: int, categories: list[int]) -> bool:
        """Whether the rule still shows an item that lacks these categories."""
        matrix = self.matrix.copy()
        matrix[item, categories] = 0
        user = self.users[row : row + 1]
        features = Features(
            vectors=self.problem.item_vectors,
            categories=matrix,
            user_categories=self.problem.features.intents(self.problem.seen.n_rows)[user],
        )
        items, scores = (it[user, : self.rule.candidates] for it in self.problem.candidates)
        pool = Pool.of(items, scores, torch.device("cpu"), self.problem.base.n_items)
        places = self.rule.reranker().choose(pool, self.rule.k, features)
        return item in pool.take(places, by_rank=False)[0].tolist()

    def wrong_in_reruns(self, claims: Claims, row: int, item: int, personal: bool) -> list[str]:
        """Which claims of a sentence a full rerun refutes."""
        stays = {what: item in lists[row] for what, lists in self.reruns.items()}
        if claims.none_alone:  # without both, a newcomer leaves: the base list is what is left
            return [f"{what} alone decides" for what, it in stays.items() if not it and (personal or what == "price")]
        found = []
        if claims.variety and stays["price"]:
            found.append("there at price 0")
        if claims.history and stays["history"]:
            found.append("there without the history")
        for some, together in ((claims.for_variety, claims.together), (claims.for_history, claims.history_together)):
            sets = [some] if together else [[it] for it in some]
            if any(self.stays_without(row, item, it) for it in sets):
                found.append("there without the categories")
        found += ["silent: leaves at price 0"] if not claims.variety and not stays["price"] else []
        found += (
            ["silent: leaves without the history"] if personal and not claims.history and not stays["history"] else []
        )
        return found


def before(reason: Reason) -> str:
    """The sentence that names the strongest part of the difference."""
    assert reason.replaced is not None
    strongest = max(reason.replaced.parts, key=reason.replaced.parts.__getitem__)
    if strongest == "history":
        return "Added to match your history."
    if reason.new_categories:
        words = f"{', '.join(reason.new_categories[:-1])} and {reason.new_categories[-1]}".removeprefix(" and ")
        return f"Added for variety: {words}, which the base list lacked."
    return "Added for variety: it differs more from the rest of your list than another."


def claims_of(name: str, world: World) -> list[Claim]:
    """The share of sentences with each kind of mistake, in per cent."""
    sides = ("after, exchange", "after, rerun", "before, exchange", "before, rerun")
    wrong = {side: Counter[str]() for side in sides}
    sentences = 0
    for row, reason, exchanges, other in world.newcomers():
        sentences += 1
        place, item = reason.place - 1, self_number(world, reason)
        for when, words in (("after", reason.for_users()), ("before", before(reason))):
            exchange = exchanges.wrong(words, place, other)
            rerun = world.wrong_in_reruns(Claims(words, exchanges.names), row, item, exchanges.personal)
            for way, found in (("exchange", exchange), ("rerun", rerun)):
                wrong[f"{when}, {way}"].update({*found, *(["wrong in any way"] if found else [])})
    rows = [Claim(f"{name}: sentences", sentences, None, "higher")]
    for side, counts in wrong.items():
        bar = {"after, exchange": 0.0, "after, rerun": 1.0}.get(side)
        for kind in ("wrong in any way", *sorted(set(counts) - {"wrong in any way"})):
            share = round(100 * counts[kind] / max(1, sentences), 2)
            rows.append(Claim(f"{name}, {side}: {kind} (%)", share, bar if kind == "wrong in any way" else None))
    return rows


def self_number(world: World, reason: Reason) -> int:
    return world.ids[reason.item]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data", nargs="+", default=DATA)
    options.add_argument("--users", type=int, default=200)
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    claims: list[Claim] = []
    for name in chosen.data:
        data = rp.load(name)
        split = data.split(seed=chosen.seed)
        problem = rp.Problem(rp.BPRMF().fit(split, seed=chosen.seed, device="cpu"), split, data.categories)
        for goal, trade_off in GOALS.items():
            rule = rule_at(problem, goal, trade_off)
            users = range(min(chosen.users, problem.seen.n_rows))
            claims += claims_of(f"{name}, {goal}", World(problem, rule, users))
    report(claims, as_json=chosen.json)


if __name__ == "__main__":
    main()
