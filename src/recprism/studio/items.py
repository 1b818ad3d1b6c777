"""Answers about one item: who sees it before and after, and why."""

from __future__ import annotations

from collections import Counter

import numpy as np

from recprism.explain.reasons.questions import reason_codes
from recprism.explain.reasons.reason import CODES
from recprism.studio import schemas
from recprism.studio.view import MOST_USERS, Change, View

ASKED = 20  # users whose reasons are read


def answer(view: View, change: Change, item: str) -> schemas.ItemAnswer:
    """Return the lists with an item, before and after."""
    number = view.item_row(item)
    before, after = ((lists == number).any(axis=1) for lists in (view.problem.base_lists, change.lists))
    gained, lost, kept = (np.flatnonzero(it) for it in (after & ~before, before & ~after, before & after))
    return schemas.ItemAnswer(
        item=view.item(number),
        what=change.label,
        users=len(before),
        lists_before=int(before.sum()),
        lists_after=int(after.sum()),
        gained=[view.ids[row] for row in gained[:MOST_USERS]],
        lost=[view.ids[row] for row in lost[:MOST_USERS]],
        kept=[view.ids[row] for row in kept[:MOST_USERS]],
        n_gained=len(gained),
        n_lost=len(lost),
        n_kept=len(kept),
    )


def reasons(view: View, change: Change, item: str) -> schemas.ItemReasons:
    """Count the reasons for which lists gained an item, over the first users who did."""
    number = view.item_row(item)
    rule = change.result.rule
    if rule is None or rule.goal.function is not None:
        return schemas.ItemReasons(asked=0, reasons=[])
    gained = (change.lists == number).any(1) & ~(view.problem.base_lists == number).any(1)
    rows = np.flatnonzero(gained)[:ASKED].tolist()
    own = view.catalogue.ids[number]
    codes = (reason_codes(view.problem, rule, view.ids[row]).get(own) for row in rows)
    counts = Counter(it[0] for it in codes if it)
    named = [schemas.CountedReason(reason=CODES[code], lists=n) for code, n in counts.most_common()]
    return schemas.ItemReasons(asked=len(rows), reasons=named)
