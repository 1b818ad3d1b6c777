"""Are the reasons of new items true? Each claim against interventions, before and after.

    python benchmarks/reasons.py [--data ml-latest-small ml-1m hetrec2011-lastfm-2k] [--users 200] [--json]

BPRMF, the test part, lists of ten. "Exchange": the item that was replaced comes back into the place, and the other
places stay. Plain loops value both lists. "Rerun": the rule makes the whole list again at price 0, without the history,
without the boost of the item, or from data in which the item lacks the named categories. A claim is wrong if the item
is still there. A sentence is silent if the item leaves for a cause that it does not name. "Before": the strongest part
of the difference names the cause, and every category that no other item of the list has is named. "Said": how often
each sentence occurs, without names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np

import recprism as rp
from exchanges import Claims, Exchanges, FullReruns
from harness import Claim, parser, report
from recprism.budget.path import rule_at
from recprism.budget.problem import Problem
from recprism.explain import Reason
from recprism.explain.reasons.questions import why_newcomers
from recprism.rule import Rule

GOALS = dict.fromkeys(
    ("subtopic_coverage", "alpha_ndcg", "subtopic_coverage+ilad_subtopics", "subtopic_coverage+gini"), 0.1375
)
DATA = ("ml-latest-small", "ml-1m", "hetrec2011-lastfm-2k")


def newcomers(problem: Problem, rule: Rule, users: range) -> Iterator[tuple[Reason, Exchanges, FullReruns, int, int]]:
    """Reason, list, the rule run again, and the numbers of the newcomer and of the item that was replaced."""
    number_of = {item: at for at, item in enumerate(problem.split.item_ids.tolist())}
    lists = problem.rank(rule, users=np.array(users))[0]
    for row, user in enumerate(users):
        exchanges = Exchanges(problem, rule, user, lists[row].tolist())
        reruns = FullReruns(problem, rule, user, personal=exchanges.personal)
        for reason in why_newcomers(problem, rule, problem.split.user_ids[user]):
            if reason.replaced is not None:
                yield reason, exchanges, reruns, number_of[reason.item], number_of[reason.replaced.item]


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


def kind_of(words: str) -> str:
    """Return what a sentence says, without names."""
    words = re.sub(r" \([^)]*\)|: .*(?=\.$)", "", words)
    return re.sub(r"Number \d+", "Number N", words)


def claims_of(name: str, problem: Problem, rule: Rule, users: range) -> list[Claim]:
    """The share of sentences with each kind of mistake, and of each kind of sentence, in per cent."""
    sides = ("after, exchange", "after, rerun", "before, exchange", "before, rerun")
    wrong, kinds = {side: Counter[str]() for side in sides}, Counter[str]()
    for reason, exchanges, reruns, item, other in newcomers(problem, rule, users):
        place = reason.place - 1
        kinds[kind_of(reason.for_users())] += 1
        for when, words in (("after", reason.for_users()), ("before", before(reason))):
            exchange = exchanges.wrong(words, place, other)
            rerun = reruns.wrong(Claims(words, exchanges.names), item)
            for way, found in (("exchange", exchange), ("rerun", rerun)):
                wrong[f"{when}, {way}"].update({*found, *(["wrong in any way"] if found else [])})
    sentences = sum(kinds.values())
    rows = [Claim(f"{name}: sentences", sentences, None, "higher")]
    for side, counts in wrong.items():
        bar = {"after, exchange": 0.0, "after, rerun": 1.0}.get(side)
        for kind in ("wrong in any way", *sorted(set(counts) - {"wrong in any way"})):
            share = round(100 * counts[kind] / max(1, sentences), 2)
            rows.append(Claim(f"{name}, {side}: {kind} (%)", share, bar if kind == "wrong in any way" else None))
    for kind, count in kinds.most_common():
        rows.append(Claim(f"{name}, said: {kind} (%)", round(100 * count / sentences, 2), None))
    return rows


def problem_of(name: str, seed: int) -> rp.Problem:
    """Return what a trained BPRMF serves on a data set."""
    data = rp.load(name)
    split = data.split(seed=seed)
    return rp.Problem(rp.BPRMF().fit(split, seed=seed, device="cpu"), split, data.categories)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data", nargs="+", default=DATA)
    options.add_argument("--users", type=int, default=200)
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    claims: list[Claim] = []
    for name in chosen.data:
        problem = problem_of(name, chosen.seed)
        for goal, trade_off in GOALS.items():
            rule = rule_at(problem, goal, trade_off)
            users = range(min(chosen.users, problem.seen.n_rows))
            claims += claims_of(f"{name}, {goal}", problem, rule, users)
    report(claims, as_json=chosen.json)


if __name__ == "__main__":
    main()
