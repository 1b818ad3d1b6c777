"""The example users of a rule: their lists before and after, the reason of every new item, and their dials."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.budget.audit import COST
from recprism.budget.problem import Problem
from recprism.common.progress import ProgressCallback
from recprism.errors import InputError
from recprism.report.content import Dial, User
from recprism.report.explained import changes_of, entries
from recprism.result.highlights import example_users
from recprism.result.result import Result
from recprism.rule.rule import Rule
from recprism.runs.catalogue import Catalogue
from recprism.runs.jobs.reasons import newcomer_reasons
from recprism.runs.run import Run

MOST_DIALS = 8
SMALLEST_DIAL = 0.0005  # smaller shares are written as 0.0 %


def users_of_rule(run: Run, found: Result, tell: ProgressCallback) -> tuple[User, ...]:
    """Describe three users, who are chosen by their judged lists and shown with their live ones.

    Args:
        run: A diversified run.
        found: The result of the run; a rule made its lists.
        tell: Receives progress.
    """
    judged, live = found.problem, found.context()
    names = (found.objective, *((COST,) if len(judged.split.part(judged.part)) else ()))
    lists = judged.base_lists, found.ranked(live=False)[0]
    values = judged.judge(lists[0], names), judged.judge(lists[1], names)
    catalogue = Catalogue(run.items(), judged.subtopics)
    made = []
    chosen = example_users(lists, values, found.objective, COST)
    for done, one in enumerate(chosen, start=1):
        row = np.array([one.row])
        before, after = (live.rank(it, users=row)[0][0] for it in (live.base, found.model))
        made.append(
            User(
                str(judged.split.user_ids[one.row]),
                one.reason,
                changes_of(values, names, one.row),
                entries(before, after, {}, catalogue, "gone"),
                entries(after, before, _reasons(live, found.own_rule(), one.row, after, catalogue), catalogue, "new"),
                _dials(found, one.row),
            )
        )
        tell("users", done, len(chosen))
    return _to_one_scale(made)


def _reasons(
    problem: Problem, rule: Rule, row: int, after: NDArray[Any], catalogue: Catalogue
) -> dict[int, tuple[str, ...]]:
    """Return rank -> the reason of a new item."""
    titles = dict(zip(catalogue.ids, catalogue.titles, strict=True))
    reasons = newcomer_reasons(problem, rule, row, after, titles.__getitem__)
    return {at: (reasons[int(it)],) for at, it in enumerate(after, start=1) if int(it) in reasons}


def _dials(found: Result, row: int) -> tuple[Dial, ...]:
    """Compile the dials of one user; none if the model or its items cannot have any."""
    try:
        weights = found.dials(found.problem.split.user_ids[[row]]).of_user(row)
    except InputError:
        return ()
    clear = [(name, share) for name, share in weights.items() if abs(share) >= SMALLEST_DIAL]
    return tuple(Dial(name, share, 0.0) for name, share in clear[:MOST_DIALS])


def _to_one_scale(users: list[User]) -> tuple[User, ...]:
    """Draw the dials of all users to one scale."""
    widest = max((abs(dial.share) for user in users for dial in user.dials), default=0.0)
    return tuple(
        replace(user, dials=tuple(replace(it, width=abs(it.share) / widest) for it in user.dials)) for user in users
    )
