"""The example users of a rule: their lists before and after, the reason of every new item, and their dials."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from recprism.budget.audit import COST
from recprism.budget.diversified import Diversified
from recprism.budget.scenario import Lists, Scenario
from recprism.data.progress import ProgressCallback
from recprism.dials.steering import steered
from recprism.explain.factors._highlights import example_users
from recprism.report.content import Dial, User
from recprism.report.explained import changes_of, entries
from recprism.runs._catalogue import Catalogue
from recprism.runs.jobs.reasons import newcomer_reasons
from recprism.runs.run import Run

MOST_DIALS = 8
SMALLEST_DIAL = 0.0005  # smaller shares are written as 0.0 %


def users_of_rule(
    run: Run, scenario: Scenario, found: Diversified, served: Lists, tell: ProgressCallback
) -> tuple[User, ...]:
    """Describe three users.

    Args:
        run: A diversified run.
        scenario: What is served.
        found: The result of the run; a rule made its lists.
        served: ``(n_users, k)`` the lists that are served.
        tell: Receives progress.
    """
    names = (found.objective, *((COST,) if len(scenario.split.part(scenario.part)) else ()))
    lists = scenario.base_lists, served
    values = scenario.judge(lists[0], names), scenario.judge(lists[1], names)
    catalogue = Catalogue(run.items(), scenario.subtopics)
    made = []
    chosen = example_users(lists, values, found.objective, COST)
    for done, one in enumerate(chosen, start=1):
        before, after = (it[one.row] for it in lists)
        made.append(
            User(
                str(scenario.split.user_ids[one.row]),
                one.reason,
                changes_of(values, names, one.row),
                entries(before, after, {}, catalogue, "gone"),
                entries(after, before, _reasons(scenario, found, one.row, after, catalogue), catalogue, "new"),
                _dials(found, one.row),
            )
        )
        tell("users", done, len(chosen))
    return _to_one_scale(made)


def _reasons(
    scenario: Scenario, found: Diversified, row: int, after: NDArray[Any], catalogue: Catalogue
) -> dict[int, tuple[str, ...]]:
    """Return rank -> the reason of a new item."""
    assert found.rule is not None
    titles = dict(zip(catalogue.ids, catalogue.titles, strict=True))
    reasons = newcomer_reasons(scenario, found.rule, row, after, titles.__getitem__, found.into)
    return {at: (reasons[int(it)],) for at, it in enumerate(after, start=1) if int(it) in reasons}


def _dials(found: Diversified, row: int) -> tuple[Dial, ...]:
    if found.dials is None or found.into != "dials":
        return ()
    weights = steered(found.dials, found.base, found.steering).of_user(row)
    clear = [(name, share) for name, share in weights.items() if abs(share) >= SMALLEST_DIAL]
    return tuple(Dial(name, share, 0.0) for name, share in clear[:MOST_DIALS])


def _to_one_scale(users: list[User]) -> tuple[User, ...]:
    """Draw the dials of all users to one scale."""
    widest = max((abs(dial.share) for user in users for dial in user.dials), default=0.0)
    return tuple(
        replace(user, dials=tuple(replace(it, width=abs(it.share) / widest) for it in user.dials)) for user in users
    )
