"""How many reasons and dials stay the same after a retraining, and after a day of new interactions?

    python benchmarks/stability.py RUN [--trade-offs 0.1 0.2] [--models DIR] [--json]

RUN is a run of MovieLens-1M, BPRMF, with interactions that have timestamps. "another seed": the old model is that of
the run, the new one is trained on the same data with the next seed. "new interactions": the old model is trained
without the last 1 % of the training interactions by time, the new one is that of the run. Goal subtopic coverage,
validation part, dials for all users, reasons for 300 users. Figures by chance compare with a random other user.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from harness import Claim, parser, report
from recprism.budget.path import rule_at
from recprism.budget.problem import Problem
from recprism.data import SparseRows, Split, load_dataset
from recprism.forms.compiled import compile_dials
from recprism.operate.stability import Stability, churn, stability_of
from recprism.runs import Run
from retrain import trained

GOAL, PART = "subtopic_coverage", "validation"
LAST = 0.01


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
        "concepts with a dial before and now, of those before or now": found.common_dials,
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
    about = (present.subtopics, PART)
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
