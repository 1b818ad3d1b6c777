"""The example users of a rule: their lists before and after, the reason of every new item, and their dials."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from recprism.budget.audit import COST
from recprism.common.progress import ProgressCallback
from recprism.report.content import Dial, User
from recprism.report.explained import changes_of, entries
from recprism.result.highlights import example_users
from recprism.result.view import ResultView

MOST_DIALS = 4
SMALLEST_DIAL = 0.0005  # smaller shares are written as 0.0 %


def users_of_rule(found: ResultView, tell: ProgressCallback) -> tuple[User, ...]:
    """Describe three users whose live lists changed; the figures next to them are of their judged lists.

    Args:
        found: A result of a run; a rule made its lists.
        tell: Receives progress.
    """
    judged, objective = found.problem, found.result.objective
    names = (objective, *((COST,) if found.labelled else ()))
    values = judged.judge(judged.base_lists, names), judged.judge(found.lists, names)
    made = []
    chosen = example_users((found.context(live=True).base_lists, found.live_lists), values, objective, COST)
    for done, one in enumerate(chosen, start=1):
        before, after = found.lists_of(one.row)
        made.append(
            User(
                str(judged.split.user_ids[one.row]),
                one.reason,
                changes_of(values, names, one.row),
                entries(before, after, {}, found.catalogue, "gone"),
                entries(after, before, _reasons(found, one.row, after), found.catalogue, "new"),
                _dials(found, one.row),
            )
        )
        tell("users", done, len(chosen))
    return _to_one_scale(made)


def _reasons(found: ResultView, row: int, after: NDArray[Any]) -> dict[int, tuple[str, ...]]:
    """Return rank -> the reason of a new item."""
    reasons = found.reasons_of(row)
    return {at: (reasons[int(it)],) for at, it in enumerate(after, start=1) if int(it) in reasons}


def _dials(found: ResultView, row: int) -> tuple[Dial, ...]:
    """Return the dials of one user, the largest first."""
    shares = sorted(found.dials_of(row).items(), key=lambda it: -abs(it[1]))
    clear = [(name, share) for name, share in shares if abs(share) >= SMALLEST_DIAL]
    return tuple(Dial(name, share, 0.0) for name, share in clear[:MOST_DIALS])


def _to_one_scale(users: list[User]) -> tuple[User, ...]:
    """Draw the dials of all users to one scale."""
    widest = max((abs(dial.share) for user in users for dial in user.dials), default=0.0)
    return tuple(
        replace(user, dials=tuple(replace(it, width=abs(it.share) / widest) for it in user.dials)) for user in users
    )
