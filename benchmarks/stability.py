"""How many reasons and dials stay the same after a retraining, and after a day of new interactions?

    python benchmarks/stability.py RUN [--trade-offs 0.1 0.2] [--models DIR] [--json]

RUN is a run of MovieLens-1M, BPRMF, with interactions that have timestamps. "another seed": the old model is that of
the run, the new one is trained on the same data with the next seed. "new interactions": the old model is trained
without the last 1 % of the training interactions by time, the new one is that of the run. Goal subtopic coverage,
validation part, dials for all users, reasons for 300 users. Figures by chance compare with a random other user.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness import Claim, parser, report
from recprism.budget.path import rule_at
from recprism.budget.problem import Lists, Problem
from recprism.common.checks import random_generator
from recprism.data import SparseRows, Split, load_dataset
from recprism.errors import InputError
from recprism.explain.reasons.questions import reason_codes
from recprism.forms.compiled import compile_dials
from recprism.forms.dials import Dials
from recprism.operate.refit import churn, common
from recprism.rule import Rule
from recprism.runs import Run
from retrain import trained

GOAL, PART = "subtopic_coverage", "validation"
LAST = 0.01


TOLERANCE = 0.25
"""Two dials count as the same if their signs are equal and they differ by at most this share of the larger one."""
SAMPLE = 300  # users whose reasons are compared: the rule runs again for each of their items

Pair = tuple[str, str]
"""Strongest code of a reason before and now."""


@dataclass(frozen=True)
class Stability:
    """How much of lists, reasons and dials stays the same. Figures by chance compare with a random other user.

    Attributes:
        users: Users that both results have.
        rule_churn: Share of the places of the old lists of the rule whose item is not in the new list.
        compared_users: Users whose reasons were compared.
        kept_items: Items of these users that are in both lists.
        same_reason: Share of the kept items whose strongest reason code is the same; None if there are no reasons.
        same_reason_by_chance: The same with the code of a random kept item of the sample.
        users_with_dials: Users with a dial before or now.
        dials: Number of their dials before; None if one of the results has no dials.
        same_dials: Share of the dials before that have the same sign now and differ by at most 25 %.
        same_dials_by_chance: The same with the dials before of another user.
        common_dials: Number of properties with a dial before and now, divided by the number with a dial before or now.
        common_dials_by_chance: The same with the dials before of another user.
    """

    users: int
    rule_churn: float
    compared_users: int
    kept_items: int
    same_reason: float | None
    same_reason_by_chance: float | None
    users_with_dials: int
    dials: int | None
    same_dials: float | None
    same_dials_by_chance: float | None
    common_dials: float | None
    common_dials_by_chance: float | None


def stability_of(
    before: Problem,
    old: tuple[Rule, Dials | None],
    now: Problem,
    new: tuple[Rule, Dials | None],
    *,
    sample: int = SAMPLE,
    seed: int = 0,
) -> Stability:
    """Compare the results of two models for the users and items that both have.

    Dials are compared as shares of the user's score range, because a retrained model may have other scores.

    Args:
        before: The old model.
        old: Its rule, and its dials if it has some.
        now: The new model.
        new: Its rule, and its dials if it has some.
        sample: Number of users whose reasons are compared.
        seed: Chooses these users and the other users of the comparison by chance.

    Raises:
        InputError: If the two have no user in common, or their lists have different lengths.
    """
    if before.k != now.k:
        raise InputError(f"the old lists have {before.k} items and the new ones {now.k}; compare lists of one length")
    rows_now, rows_before = common(now.split.user_ids, before.split.user_ids)
    if not len(rows_now):
        raise InputError("the two results have no user in common; compare results with the same user ids")
    generator = random_generator(seed)
    lists = now.rank(new[0])[0][rows_now]
    old_lists = _renumbered(before.rank(old[0])[0][rows_before], before, now)
    some = np.sort(generator.permutation(len(rows_now))[:sample])
    codes = (
        [] if _has_boosts(old[0], new[0]) else _codes(before, old[0], now, new[0], now.split.user_ids[rows_now[some]])
    )
    same, same_by_chance = _same_reasons(codes, generator)
    return Stability(
        len(rows_now),
        churn(old_lists, lists),
        len(some) if codes else 0,
        len(codes),
        same,
        same_by_chance,
        *_dial_figures(old[1], rows_before, new[1], rows_now, generator),
    )


def _has_boosts(*rules: Rule) -> bool:
    """Return whether a rule boosts items for all users; there are no reasons for one user's list then."""
    return any(rule.boosts is not None for rule in rules)


def _renumbered(lists: Lists, before: Problem, now: Problem) -> Lists:
    """Return old lists in the item numbers of the new model; -2 for items that it does not have."""
    items_now, items_before = common(now.split.item_ids, before.split.item_ids)
    number = np.full(before.split.n_items, -2, np.int64)
    number[items_before] = items_now
    return np.where(lists >= 0, number[lists], -1)


def _codes(before: Problem, old: Rule, now: Problem, new: Rule, users: NDArray[Any]) -> list[Pair]:
    """Return the strongest code before and now, of each item that stayed in a user's list."""
    found = []
    for user in users.tolist():
        was, is_now = reason_codes(before, old, user), reason_codes(now, new, user)
        found += [("".join(was[item][:1]), "".join(is_now[item][:1])) for item in was.keys() & is_now.keys()]
    return sorted(found)  # sets have no order


def _same_reasons(codes: list[Pair], generator: np.random.Generator) -> tuple[float | None, float | None]:
    if not codes:
        return None, None
    was, is_now = np.array(codes).T
    return float((was == is_now).mean()), float((generator.permutation(was) == is_now).mean())


def _dial_figures(
    old: Dials | None,
    rows_before: NDArray[np.int64],
    new: Dials | None,
    rows_now: NDArray[np.int64],
    generator: np.random.Generator,
) -> tuple[int, int | None, float | None, float | None, float | None, float | None]:
    if old is None or new is None:
        return 0, None, None, None, None, None
    names = sorted({*old.names, *new.names})
    was, is_now = _shares(old, rows_before, names), _shares(new, rows_now, names)
    some = (was != 0).any(1) | (is_now != 0).any(1)
    was, is_now = was[some], is_now[some]
    order = generator.permutation(len(was))
    others = np.empty_like(order)
    others[order] = np.roll(order, 1)  # all users get the dials of another one
    same, in_common = _agreement(was, is_now)
    by_chance = _agreement(was[others], is_now)
    return len(was), int((was != 0).sum()), same, by_chance[0], in_common, by_chance[1]


def _shares(dials: Dials, rows: NDArray[np.int64], names: list[str]) -> NDArray[np.float64]:
    """Return the dials of users as shares of their score range, (n, len(names))."""
    reach = dials.score_range[rows]
    found = np.zeros((len(rows), len(names)))
    found[:, [names.index(name) for name in dials.names]] = (
        dials.weights[rows] / np.where(reach > 0, reach, 1.0)[:, None]
    )
    return found


def _agreement(was: NDArray[np.float64], is_now: NDArray[np.float64]) -> tuple[float | None, float | None]:
    """Return the share of dials that stay, and the Jaccard similarity of the dials that are not 0."""
    both, either, had = (was != 0) & (is_now != 0), (was != 0) | (is_now != 0), was != 0
    near = np.abs(was - is_now) <= TOLERANCE * np.maximum(np.abs(was), np.abs(is_now))  # implies equal signs
    same = float((both & near)[had].mean()) if had.any() else None
    return same, float(both[either].mean()) if either.any() else None


def without_the_last(split: Split) -> Split:
    """Return the split without the last training interactions by time."""
    found = load_dataset("ml-1m").interactions
    assert found.timestamp is not None
    assert np.array_equal(found.user_ids, split.user_ids)
    assert np.array_equal(found.item_ids, split.item_ids)
    own = np.isin(found.user * split.n_items + found.item, split.train.keys)
    there = own & (found.timestamp < np.quantile(found.timestamp[own], 1 - LAST))
    return replace(split, train=SparseRows.from_pairs(found.user[there], found.item[there], split.train.shape))


def claims_of(name: str, trade_off: float, base: float, found: Stability) -> list[Claim]:
    """Return the rows of one comparison, in per cent."""
    figures = {
        "places of base lists that changed": base,
        "places of the rule's lists that changed": found.rule_churn,
        f"same reason, {found.kept_items:,} items that stayed": found.same_reason,
        "same reason by chance": found.same_reason_by_chance,
        f"same dials within 25 %, of {found.dials:,}": found.same_dials,
        "same dials by chance": found.same_dials_by_chance,
        "properties with a dial before and now, of those before or now": found.common_dials,
        "the same by chance": found.common_dials_by_chance,
    }
    return [
        Claim(f"{name}, trade-off {trade_off:g}: {words} (%)", None if it is None else 100 * it, None)
        for words, it in figures.items()
    ]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("run")
    options.add_argument("--trade-offs", nargs="+", type=float, default=[0.1, 0.2])
    options.add_argument("--models", type=Path, help="folder that keeps the trained models for the next call")
    asked = options.parse_args()
    run = Run.open(asked.run)
    present, seed = run.problem(PART), run.config.seed
    about = (present.categories, PART)
    split, early = present.split, without_the_last(present.split)
    kept = (lambda name: asked.models / name) if asked.models else (lambda _: None)
    again = Problem(trained(split, seed + 1, kept("seed")), split, *about)
    earlier = Problem(trained(early, seed, kept("early")), early, *about)
    claims = []
    for name, before, now in (("another seed", present, again), ("new interactions", earlier, present)):
        base = churn(before.base_lists, now.base_lists)
        for trade_off in asked.trade_offs:
            rules = tuple(rule_at(it, GOAL, trade_off) for it in (before, now))
            dials = tuple(compile_dials(it, rule) for it, rule in zip((before, now), rules, strict=True))
            found = stability_of(before, (rules[0], dials[0]), now, (rules[1], dials[1]))
            claims += claims_of(name, trade_off, base, found)
    report(claims, as_json=asked.json)


if __name__ == "__main__":
    main()
